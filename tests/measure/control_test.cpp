// The control channel between threads that play ranks: how they meet, gather and spread. How it ends a job
// shows in mpirun_test.cpp.
#include "calibrate/measure/control.h"

#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <thread>

#include "calibrate/measure/meeting_file.h"
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
          .launcher = "test",
          .job = "test-" + std::to_string(getpid()),
          .secret = ""};
}

Place place_with_secret(int rank, int ranks) {
  Place place = place_of(rank, ranks);
  place.secret = "0123456789abcdef0123";
  return place;
}

const Control::Share kNoShare = [](const std::string&) { return std::nullopt; };

void no_failure(const std::string&) {}

// What rank 0 has gathered in each round, and what every rank was told.
struct Talk {
  std::vector<std::vector<std::string>> gathered;
  std::vector<std::vector<std::string>> told;
};

Talk talk(int ranks, int rounds, const Control::Share& share, Place (*place)(int, int) = place_of) {
  Talk talk;
  talk.told.resize(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Control control(place(rank, ranks), 20, share, no_failure);
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

TEST_CASE("ranks of one machine meet by a file that is gone afterwards") {
  check(talk(3, 5, kNoShare), 3, 5);
  CHECK_FALSE(MeetingFile(place_of(0, 3).job).read());
}

TEST_CASE("a file that an earlier job has left is replaced") {
  const Socket other = listen_at("127.0.0.1", 0);  // takes connections and says nothing
  MeetingFile old(place_of(0, 3).job);
  old.write("0123456789abcdef " + std::to_string(port_of(other)) + " 127.0.0.1");
  check(talk(3, 2, kNoShare), 3, 2);
}

TEST_CASE("ranks meet at the master's port, or beside it where something else answers there") {
  check(talk(3, 5, kNoShare, place_with_secret), 3, 5);
  // As torchrun's store does: it takes connections and says nothing.
  const Socket other = listen_at("127.0.0.1", place_of(0, 3).master_port);
  check(talk(3, 2, kNoShare, place_with_secret), 3, 2);
}

// Rank 0 of two, and what strangers do while it waits for rank 1, who comes last.
void check_with_strangers(const std::function<void(int port)>& strangers) {
  std::promise<std::string> promise;
  std::shared_future<std::string> address = promise.get_future().share();
  const Control::Share share = [&](const std::string& of_rank_0) -> std::optional<std::string> {
    if (!of_rank_0.empty()) {
      promise.set_value(of_rank_0);
    }
    return address.get();
  };
  std::vector<std::string> gathered;
  std::thread leader([&] {
    Control control(place_of(0, 2), 20, share, no_failure);
    gathered = control.gather("of rank 0");
    control.finish();
  });
  strangers(Rendezvous::from(address.get()).port);
  Control member(place_of(1, 2), 20, share, no_failure);
  member.gather("of rank 1");
  member.finish();
  leader.join();
  CHECK(gathered == std::vector<std::string>{"of rank 0", "of rank 1"});
}

std::string hello(const std::string& token, int rank) {
  return Writer().text(token).put(rank).put(2).text("elsewhere").bytes();
}

TEST_CASE("who doesn't know the secret is no rank, and what it says ends nothing") {
  const auto says = [](const std::string& bytes) {
    check_with_strangers([&](int port) {
      Socket stranger = connect_to("127.0.0.1", port, 2);
      REQUIRE(stranger.open());
      REQUIRE(::send(stranger.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
              static_cast<ssize_t>(bytes.size()));
      CHECK_FALSE(stranger.wait_frame(5));  // closed without an answer
    });
  };
  const auto frame = [](Message message, const std::string& payload) {
    return Writer().put(static_cast<std::uint64_t>(payload.size())).put(message).bytes() + payload;
  };
  says(std::string(9, '\0'));
  says("GET / HTTP/1.0\r\n\r\n");
  says(frame(Message::hello, Writer().put(~std::uint64_t{0}).bytes() + "a"));
  for (const char* token : {"-", "", "0123456789abcdef0123456789abcdef"}) {
    says(frame(Message::hello, hello(token, 1)) + frame(Message::data, "forged") +
         frame(Message::goodbye, ""));
  }
  says(Writer().put(std::uint64_t{1} << 30).put(Message::hello).bytes() + std::string(1 << 12, 'x'));
}

// One after the other they would take two seconds each, and rank 1 would not be met in time.
TEST_CASE("hundreds who say nothing keep no rank waiting") {
  std::vector<Socket> silent;
  check_with_strangers([&](int port) {
    for (int i = 0; i < 300; ++i) {
      silent.push_back(connect_to("127.0.0.1", port, 2));
    }
  });
}

TEST_CASE("ranks of one machine can't be reached from elsewhere") {
  std::vector<std::string> addresses = own_addresses();  // perhaps none, in a container
  addresses.emplace_back("127.0.0.2");                   // who listens everywhere listens there too
  for (const std::string& address : addresses) {
    check_with_strangers([&](int port) { CHECK_FALSE(connect_to(address, port, 0.2).open()); });
  }
}

TEST_CASE("ranks on several machines need an address") {
  Place place = place_of(0, 4);
  place.local_ranks = 2;
  place.secret = place_with_secret(0, 4).secret;
  CHECK_THROWS_WITH(Control(place, 1, kNoShare, no_failure), Contains("MASTER_ADDR"));
}

TEST_CASE("ranks on several machines need a secret where the library can't share one") {
  Place place = place_of(0, 4);
  place.local_ranks = 2;
  place.master_address = "127.0.0.1";
  CHECK_THROWS_WITH(Control(place, 1, kNoShare, no_failure),
                    Contains("PACELINE_SECRET") && Contains("openssl rand"));
}

TEST_CASE("ranks that do not come are named") {
  CHECK_THROWS_WITH(Control(
                        place_of(0, 3), 0.5, [](const std::string& a) { return a; }, no_failure),
                    Contains("rank 1, 2 did not connect") && Contains("host0"));
  CHECK_THROWS_WITH(Control(place_of(2, 3), 0.5, kNoShare, no_failure),
                    Contains("rank 2 on host2 cannot reach rank 0, which has not said where it listens"));
  CHECK_THROWS_WITH(Control(place_with_secret(2, 3), 0.5, kNoShare, no_failure),
                    Contains("rank 2 on host2 cannot reach rank 0, port"));
}

}  // namespace
}  // namespace paceline::measure
