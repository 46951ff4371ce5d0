// The control channel between threads that play ranks: how they meet, gather and spread. How it ends a job
// shows in mpirun_test.cpp.
#include "calibrate/measure/control.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <thread>

#include "calibrate/measure/wire.h"
#include "core/error.h"

namespace paceline::measure {
namespace {

using Catch::Matchers::Contains;

Place place_of(int rank, int ranks) {
  return {.rank = rank,
          .ranks = ranks,
          .local_rank = rank,
          .local_ranks = ranks,
          .host = "host" + std::to_string(rank),
          .master_address = "",
          .master_port = 20000 + getpid() % 20000,
          .launcher = "test"};
}

void no_failure(const std::string&) {}

// What rank 0 has gathered in each round, and what every rank was told.
struct Talk {
  std::vector<std::vector<std::string>> gathered;
  std::vector<std::vector<std::string>> told;
};

Talk talk(int ranks, int rounds, const Control::Share& share) {
  Talk talk;
  talk.told.resize(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Control control(place_of(rank, ranks), 20, share, no_failure);
      for (int round = 0; round < rounds; ++round) {
        const std::string own = std::to_string(rank) + "/" + std::to_string(round);
        const std::vector<std::string> all = control.gather(own);
        if (rank == 0) {
          talk.gathered.push_back(all);
        }
        talk.told[static_cast<std::size_t>(rank)].push_back(
            control.spread(rank == 0 ? "to all of " + own : "?"));
        control.progress();
      }
      control.finish();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return talk;
}

void check(const Talk& talk, int ranks, int rounds) {
  REQUIRE(static_cast<int>(talk.gathered.size()) == rounds);
  for (int round = 0; round < rounds; ++round) {
    for (int rank = 0; rank < ranks; ++rank) {
      CHECK(talk.gathered[round][rank] == std::to_string(rank) + "/" + std::to_string(round));
      CHECK(talk.told[rank][round] == "to all of 0/" + std::to_string(round));
    }
  }
}

TEST_CASE("one rank talks to itself") {
  check(talk(1, 3, [](const std::string&) { return std::nullopt; }), 1, 3);
}

TEST_CASE("ranks meet by an address that the library shares") {
  std::promise<std::string> promise;
  const std::shared_future<std::string> address = promise.get_future().share();
  const Control::Share share = [&](const std::string& of_rank_0) -> std::optional<std::string> {
    if (!of_rank_0.empty()) {
      promise.set_value(of_rank_0);
    }
    return address.get();
  };
  check(talk(4, 20, share), 4, 20);
}

TEST_CASE("ranks meet at the master's port, or beside it where something else answers there") {
  const Control::Share none = [](const std::string&) { return std::nullopt; };
  check(talk(3, 5, none), 3, 5);
  // As torchrun's store does: it takes connections and says nothing.
  const Socket other = listen_at(place_of(0, 3).master_port);
  check(talk(3, 2, none), 3, 2);
}

TEST_CASE("ranks on several machines need an address") {
  Place place = place_of(0, 4);
  place.local_ranks = 2;
  CHECK_THROWS_WITH(Control(
                        place, 1, [](const std::string&) { return std::nullopt; }, no_failure),
                    Contains("MASTER_ADDR"));
}

TEST_CASE("ranks that do not come are named") {
  CHECK_THROWS_WITH(Control(
                        place_of(0, 3), 0.5, [](const std::string& a) { return a; }, no_failure),
                    Contains("rank 1, 2 did not connect") && Contains("host0"));
  CHECK_THROWS_WITH(Control(
                        place_of(2, 3), 0.5, [](const std::string&) { return std::nullopt; }, no_failure),
                    Contains("rank 2 on host2 cannot reach rank 0"));
}

}  // namespace
}  // namespace paceline::measure
