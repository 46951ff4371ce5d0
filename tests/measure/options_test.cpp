// The command line and the plan that follows from it.
#include "calibrate/measure/options.h"

#include <catch2/catch.hpp>

#include "calibrate/measure/plan.h"
#include "calibrate/measure_help.h"
#include "core/error.h"

namespace paceline::measure {
namespace {

using Catch::Matchers::Contains;
using Sizes = std::vector<std::int64_t>;

Options parse(std::vector<std::string> arguments) { return parse_options(arguments); }

const std::vector<KernelSpec> kOffered{{"gemm", "fp32", 64, 64, 64},
                                       {"gemm", "fp32", 256, 256, 256},
                                       {"gemm", "fp32", 128, 128, 128},
                                       {"softmax", "fp32", 10, 20, 0}};

TEST_CASE("sizes are lists or ranges, in powers of 1024") {
  CHECK(parse_sizes("4,1K,2M") == Sizes{4, 1024, 2 << 20});
  CHECK(parse_sizes("1K:8K:x2") == Sizes{1024, 2048, 4096, 8192});
  CHECK(parse_sizes("1K:9K:x3") == Sizes{1024, 3072, 9216});
  CHECK(parse_sizes("1K:8K:x4") == Sizes{1024, 4096});  // 16K lies beyond
  CHECK(parse_sizes("8G") == Sizes{std::int64_t{8} << 30});
}

TEST_CASE("a wrong option says which and why") {
  const auto message = [](std::vector<std::string> arguments) -> std::string {
    try {
      parse_options(arguments);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(message({"--size", "4"}), Contains("--size") && Contains("did you mean \"--sizes\""));
  CHECK_THAT(message({"--sizes"}), Contains("--sizes") && Contains("needs a value"));
  CHECK_THAT(message({"--sizes", "4KB"}), Contains("--sizes") && Contains("\"4KB\""));
  CHECK_THAT(message({"--sizes", "9G"}), Contains("8G"));
  CHECK_THAT(message({"--sizes", "8K:1K:x2"}), Contains("empty"));
  CHECK_THAT(message({"--sizes", "1K:8K:2"}), Contains("range"));
  CHECK_THAT(message({"--sizes", "1K:8K:x1"}), Contains("from 2"));
  CHECK_THAT(message({"--straggler", "500"}), Contains("--straggler") && Contains("500us"));
  CHECK_THAT(message({"--straggler", "x:5ms"}), Contains("\"x\""));
  CHECK_THAT(message({"--repeats", "2"}), Contains("from 5"));
  CHECK_THAT(message({"--budget", "-1"}), Contains("positive"));
  CHECK_THAT(message({"--compute", "gpu"}), Contains("wait nor real"));
  CHECK_THAT(message({"--fault", "die:1"}), Contains("KIND:RANK:ROW"));
  CHECK_THAT(message({"--fault", "burn:1:1"}), Contains("KIND:RANK:ROW"));
  CHECK_THAT(message({"--collectives", "all_reduce,,"}), Contains("missing"));
  CHECK_THAT(message({"--quiet=yes"}), Contains("--quiet=yes"));
}

TEST_CASE("options take their values") {
  const Options options = parse({"--collectives", "all_reduce,send_recv",
                                 "--sizes=4K",    "--straggler",
                                 "2:20ms",        "--overlap",
                                 "--repeats",     "7",
                                 "--budget",      "0.5",
                                 "--timeout",     "9",
                                 "--out",         "x.csv",
                                 "--train",       "s.csv",
                                 "--iterations",  "3",
                                 "--compute",     "real",
                                 "--fault",       "hang:1:2",
                                 "--quiet"});
  CHECK(options.collectives == std::vector<std::string>{"all_reduce", "sendrecv"});
  CHECK(options.sizes == Sizes{4096});
  REQUIRE(options.straggler);
  CHECK(options.straggler->rank == 2);
  CHECK(options.straggler->seconds == Approx(0.02));
  CHECK(options.overlap);
  CHECK(options.repeats == 7);
  CHECK(options.budget_s == 0.5);
  CHECK(options.timeout_s == 9);
  CHECK(options.out == "x.csv");
  CHECK(options.train == "s.csv");
  CHECK(options.iterations == 3);
  CHECK(options.real_compute);
  REQUIRE(options.fault);
  CHECK(options.fault->kind == Fault::Kind::hang);
  CHECK(options.fault->rank == 1);
  CHECK(options.fault->row == 2);
  CHECK(options.quiet);
}

TEST_CASE("help names every option") {
  const std::string help = measure_help("paceline-measure-mpi");
  for (const char* option :
       {"--collectives", "--sizes", "--kernels", "--straggler", "--overlap", "--train", "--iterations",
        "--compute", "--repeats", "--budget", "--timeout", "--out", "--quiet"}) {
    CHECK_THAT(help, Contains(option));
  }
  CHECK_THAT(help, Contains("paceline-measure-mpi --collectives"));
}

TEST_CASE("one process measures kernels, several collectives too, a trainer nothing else") {
  CHECK(make_plan(parse({}), 1, kOffered).size() == kOffered.size());
  CHECK(make_plan(parse({"--sizes", "8,16"}), 2, kOffered).size() == 5 * 2 + kOffered.size());
  CHECK(make_plan(parse({"--train", "s.csv"}), 2, kOffered).empty());
  CHECK(make_plan(parse({"--train", "s.csv", "--kernels", "softmax"}), 2, kOffered).size() == 1);
  CHECK(make_plan(parse({"--collectives", "all", "--sizes", "4", "--kernels", "none"}), 1, kOffered).size() ==
        5);
}

TEST_CASE("a plan's rows are made in order, with sizes that ranks can share") {
  const std::vector<PlanRow> plan =
      make_plan(parse({"--collectives", "all_gather,all_reduce", "--sizes", "1K", "--kernels", "none",
                       "--straggler", "20ms", "--overlap"}),
                3, kOffered);
  std::vector<std::string> titles;
  for (const PlanRow& row : plan) {
    titles.push_back(row.title());
  }
  CHECK(titles == std::vector<std::string>{
                      "all_gather 1020 B", "all_reduce 1024 B", "all_gather 1020 B (straggler=2:20000)",
                      "all_reduce 1024 B (straggler=2:20000)", "all_gather 1020 B (beside=gemm)",
                      "gemm fp32 128x128x128 (beside=all_gather:1020)", "all_reduce 1024 B (beside=gemm)",
                      "gemm fp32 128x128x128 (beside=all_reduce:1024)"});
}

TEST_CASE("sizes that come to the same are measured once") {
  const auto plan =
      make_plan(parse({"--collectives", "all_reduce", "--sizes", "4,5,6", "--kernels", "none"}), 2, kOffered);
  CHECK(plan.size() == 1);
}

TEST_CASE("a plan that cannot be is refused") {
  CHECK_THROWS_WITH(make_plan(parse({"--straggler", "4:1ms"}), 4, kOffered), Contains("0 to 3"));
  CHECK_THROWS_WITH(make_plan(parse({"--kernels", "gem"}), 1, kOffered), Contains("did you mean \"gemm\""));
  CHECK_THROWS_WITH(make_plan(parse({"--collectives", "allreduce"}), 2, kOffered),
                    Contains("did you mean \"all_reduce\""));
  CHECK_THROWS_WITH(make_plan(parse({"--overlap"}), 2, {}), Contains("gemm"));
}

TEST_CASE("the text that ranks compare tells plans apart") {
  const auto text = [](std::vector<std::string> arguments) {
    const Options options = parse_options(arguments);
    return plan_text(options, make_plan(options, 2, kOffered));
  };
  CHECK(text({"--sizes", "4"}) == text({"--sizes", "4", "--quiet"}));
  CHECK(text({"--sizes", "4"}) != text({"--sizes", "8"}));
  CHECK(text({"--sizes", "4"}) != text({"--sizes", "4", "--repeats", "6"}));
}

}  // namespace
}  // namespace paceline::measure
