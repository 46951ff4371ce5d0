#include "calibrate/measure/place.h"

#include <catch2/catch.hpp>

#include "core/error.h"

namespace paceline::measure {
namespace {

using Catch::Matchers::Contains;

Place place(std::map<std::string, std::string> environment) {
  return place_from_environment(environment, "node7");
}

TEST_CASE("without a launcher there is one process") {
  const Place alone = place({{"HOME", "/root"}});
  CHECK(alone.ranks == 1);
  CHECK(alone.rank == 0);
  CHECK(alone.local_ranks == 1);
  CHECK(alone.host == "node7");
  CHECK(alone.launcher.empty());
  CHECK(alone.master_address.empty());
}

TEST_CASE("each launcher's variables are understood") {
  SECTION("mpirun") {
    const Place p = place({{"OMPI_COMM_WORLD_RANK", "9"},
                           {"OMPI_COMM_WORLD_SIZE", "16"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"}});
    CHECK(p.launcher == "mpirun");
    CHECK(p.rank == 9);
    CHECK(p.ranks == 16);
    CHECK(p.local_rank == 1);
    CHECK(p.local_ranks == 8);
  }
  SECTION("torchrun") {
    const Place p = place({{"RANK", "5"},
                           {"WORLD_SIZE", "8"},
                           {"LOCAL_RANK", "1"},
                           {"LOCAL_WORLD_SIZE", "4"},
                           {"MASTER_ADDR", "node6"},
                           {"MASTER_PORT", "29500"}});
    CHECK(p.launcher == "torchrun");
    CHECK(p.rank == 5);
    CHECK(p.local_rank == 1);
    CHECK(p.local_ranks == 4);
    CHECK(p.master_address == "node6");
    CHECK(p.master_port == 29500);
  }
  SECTION("srun") {
    const Place p = place({{"SLURM_PROCID", "3"},
                           {"SLURM_NTASKS", "4"},
                           {"SLURM_LOCALID", "1"},
                           {"SLURM_NTASKS_PER_NODE", "2"},
                           {"SLURM_NNODES", "2"},
                           {"SLURM_STEP_ID", "0"}});
    CHECK(p.launcher == "srun");
    CHECK(p.rank == 3);
    CHECK(p.ranks == 4);
    CHECK(p.local_rank == 1);
    CHECK(p.local_ranks == 2);
  }
  SECTION("PMI") {
    const Place p = place({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
    CHECK(p.launcher == "PMI");
    CHECK(p.rank == 1);
    CHECK(p.ranks == 2);
  }
}

TEST_CASE("a batch script under Slurm that is not started by srun is one process") {
  CHECK(place({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "16"}}).ranks == 1);
}

TEST_CASE("mpirun inside a Slurm step counts, not the step") {
  const Place p = place({{"SLURM_PROCID", "0"},
                         {"SLURM_NTASKS", "1"},
                         {"SLURM_STEP_ID", "0"},
                         {"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "4"}});
  CHECK(p.rank == 2);
  CHECK(p.ranks == 4);
}

TEST_CASE("srun over several nodes without tasks per node is not taken for one node") {
  const Place p = place({{"SLURM_PROCID", "1"},
                         {"SLURM_NTASKS", "2"},
                         {"SLURM_LOCALID", "0"},
                         {"SLURM_NNODES", "2"},
                         {"SLURM_STEP_ID", "0"}});
  CHECK(p.local_ranks < p.ranks);
}

TEST_CASE("a wrong variable is named") {
  CHECK_THROWS_WITH(place({{"RANK", "1"}}), Contains("WORLD_SIZE") && Contains("missing"));
  CHECK_THROWS_WITH(place({{"RANK", "4"}, {"WORLD_SIZE", "4"}}), Contains("RANK") && Contains("0 to 3"));
  CHECK_THROWS_WITH(place({{"RANK", "x"}, {"WORLD_SIZE", "4"}}), Contains("\"x\""));
  CHECK_THROWS_WITH(place({{"MASTER_PORT", "99999"}}), Contains("MASTER_PORT") && Contains("65535"));
  CHECK_THROWS_WITH(place({{"PACELINE_SECRET", "short"}}), Contains("PACELINE_SECRET") && Contains("16 to"));
  CHECK_THROWS_WITH(place({{"PACELINE_SECRET", "with spaces 0123456789"}}), Contains("without spaces"));
}

TEST_CASE("processes of one job have one name for it, others another") {
  const auto job = [](const char* rank, const char* port) {
    return place(
               {{"RANK", rank}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", port}, {"TORCHELASTIC_RUN_ID", "../x"}})
        .job;
  };
  CHECK(job("0", "29500") == job("1", "29500"));
  CHECK(job("0", "29500") != job("0", "29501"));
  CHECK(job("0", "29500").find('/') == std::string::npos);
}

}  // namespace
}  // namespace paceline::measure
