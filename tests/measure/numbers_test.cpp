// Statistics, patterns of the collectives, the trainer's input and step times, bytes on the wire.
#include <algorithm>
#include <catch2/catch.hpp>

#include "calibrate/measure/collective.h"
#include "calibrate/measure/control.h"
#include "calibrate/measure/progress_line.h"
#include "calibrate/measure/statistics.h"
#include "calibrate/measure/steps.h"
#include "calibrate/measure/wire.h"
#include "core/error.h"

namespace paceline::measure {
namespace {

using Catch::Matchers::Contains;
using Times = std::vector<double>;

TEST_CASE("median and spread") {
  CHECK(spread_of({5, 1, 3}).median == 3);
  CHECK(spread_of({4, 1, 3, 10}).median == 3.5);
  const Spread spread = spread_of({7, 2, 9, 4, 4});
  CHECK(spread.median == 4);
  CHECK(spread.min == 2);
  CHECK(spread.max == 9);
  CHECK(spread.repeats == 5);
}

TEST_CASE("each repeat takes as long as its slowest rank") {
  CHECK(slowest(std::vector<Times>{{1, 5, 2}, {3, 4, 2}}) == Times{3, 5, 2});
  CHECK(slowest(std::vector<Times>{{1, 5}, {3, 4, 2}}) == Times{3, 5});
}

TEST_CASE("repeats keep within the budget") {
  CHECK(repeats_within(0.01, 1, 5, 1000) == 100);
  CHECK(repeats_within(0.01, 1, 5, 50) == 50);
  CHECK(repeats_within(3, 1, 5, 50) == 5);
  CHECK(repeats_within(0, 1, 5, 50) == 50);
}

// What a collective leaves on `rank`, computed from what the ranks sent.
std::vector<float> collective_by_hand(const Collective& c, int rank, int ranks) {
  std::vector<std::vector<float>> sent;
  for (int r = 0; r < ranks; ++r) {
    sent.push_back(pattern(c, r, ranks));
  }
  std::vector<float> sum(sent[0].size(), 0.0F), joined;
  for (const std::vector<float>& one : sent) {
    joined.insert(joined.end(), one.begin(), one.end());
    for (std::size_t i = 0; i < one.size(); ++i) {
      sum[i] += one[i];
    }
  }
  switch (c.kind) {
    case CollectiveKind::all_reduce:
      return sum;
    case CollectiveKind::all_gather:
      return joined;
    case CollectiveKind::broadcast:
      return sent[0];
    case CollectiveKind::sendrecv:
      return sent[static_cast<std::size_t>((rank + ranks - 1) % ranks)];
    case CollectiveKind::reduce_scatter:
      break;
  }
  const auto part = static_cast<std::ptrdiff_t>(sum.size()) / ranks;
  return {sum.begin() + rank * part, sum.begin() + (rank + 1) * part};
}

TEST_CASE("the right result of every collective is taken for right, and a wrong element found") {
  for (const int ranks : {1, 2, 3, 5, 14, 30}) {
    for (const std::int64_t bytes : {4, 100, 4096}) {
      for (const auto& [name, kind] : kNames<CollectiveKind>) {
        const Collective collective{kind, whole_size(kind, bytes, ranks)};
        const int rank = ranks / 2;
        INFO(name << " " << collective.bytes << " B, rank " << rank << " of " << ranks);
        std::vector<float> result = collective_by_hand(collective, rank, ranks);
        CHECK_FALSE(first_wrong(collective, result, rank, ranks));
        result.back() += 1;
        const auto wrong = first_wrong(collective, result, rank, ranks);
        REQUIRE(wrong);
        CHECK(wrong->index == static_cast<std::int64_t>(result.size()) - 1);
        CHECK(wrong->found == wrong->expected + 1);
        result.pop_back();
        CHECK(first_wrong(collective, result, rank, ranks));
      }
    }
  }
}

TEST_CASE("a chunk in the place of another rank's is found") {
  const Collective gather{CollectiveKind::all_gather, whole_size(CollectiveKind::all_gather, 4096, 4)};
  std::vector<float> result = collective_by_hand(gather, 0, 4);
  const auto part = static_cast<std::ptrdiff_t>(result.size() / 4);
  std::swap_ranges(result.begin(), result.begin() + part, result.begin() + part);
  CHECK(first_wrong(gather, result, 0, 4));
}

TEST_CASE("sizes are those that ranks can share") {
  CHECK(whole_size(CollectiveKind::all_reduce, 7, 3) == 4);
  CHECK(whole_size(CollectiveKind::all_reduce, 1, 3) == 4);
  CHECK(whole_size(CollectiveKind::all_gather, 100, 3) == 96);
  CHECK(whole_size(CollectiveKind::reduce_scatter, 4, 3) == 12);
  CHECK(send_elements({CollectiveKind::all_gather, 96}, 3) == 8);
  CHECK(recv_elements({CollectiveKind::all_gather, 96}, 3) == 24);
  CHECK(recv_elements({CollectiveKind::reduce_scatter, 96}, 3) == 8);
}

TEST_CASE("the trainer's steps are read") {
  const auto steps = parse_steps(
      "op,index,duration_us,bytes,label\n"
      "compute,,1500.5,,\"forward, all\"\n"
      "collective,0,,1024,bucket 0\n\n"
      "wait,0,,,\n");
  REQUIRE(steps.size() == 3);
  CHECK(steps[0].kind == StepOperation::Kind::compute);
  CHECK(steps[0].duration_s == Approx(1500.5e-6));
  CHECK(steps[0].label == "forward, all");
  CHECK(steps[1].kind == StepOperation::Kind::collective);
  CHECK(steps[1].bytes == 1024);
  CHECK(steps[2].kind == StepOperation::Kind::wait);
}

TEST_CASE("wrong steps are refused with their line") {
  const std::string header = "op,index,duration_us,bytes\n";
  CHECK_THROWS_WITH(parse_steps(header), Contains("no operation"));
  CHECK_THROWS_WITH(parse_steps("op,index,bytes\n"), Contains("duration_us") && Contains("line 1"));
  CHECK_THROWS_WITH(parse_steps(header + "compte,,5,\n"),
                    Contains("did you mean \"compute\"") && Contains("line 2"));
  CHECK_THROWS_WITH(parse_steps(header + "compute,,5,\ncompute,,-5,\n"), Contains("line 3"));
  CHECK_THROWS_WITH(parse_steps(header + "compute,,soon,\n"), Contains("\"soon\""));
  CHECK_THROWS_WITH(parse_steps(header + "collective,1,,8\n"), Contains("this one is 0"));
  CHECK_THROWS_WITH(parse_steps(header + "collective,0,,0\n"), Contains("bytes"));
  CHECK_THROWS_WITH(parse_steps(header + "wait,0,,\n"), Contains("before it is handed over"));
  CHECK_THROWS_WITH(read_steps("/nowhere.csv"), Contains("/nowhere.csv"));
}

TEST_CASE("step times: latest end to latest end with one clock, else the longest of the ranks' own") {
  const std::vector<Times> ends{{0, 10, 25}, {1, 12, 20}};
  CHECK(step_times(ends, true) == Times{11, 13});
  CHECK(step_times(ends, false) == Times{11, 15});
}

TEST_CASE("numbers and texts survive the wire, damaged messages don't") {
  const Writer message = Writer().put(7).text("with\0zero").numbers({1.5, -2}).text("");
  Reader in(message.bytes());
  CHECK(in.get<int>() == 7);
  CHECK(in.text() == std::string("with\0zero"));
  CHECK(in.numbers() == Times{1.5, -2});
  CHECK(in.text().empty());
  CHECK_THROWS_WITH(in.get<char>(), Contains("damaged"));
  const std::string huge = Writer().put(~std::uint64_t{0}).bytes();
  CHECK_THROWS_WITH(Reader(huge).numbers(), Contains("damaged"));
}

TEST_CASE("where ranks meet survives its text") {
  const Rendezvous meeting = Rendezvous::from(Rendezvous{"abc", 4711, {"127.0.0.1", "10.0.0.1"}}.text());
  CHECK(meeting.token == "abc");
  CHECK(meeting.port == 4711);
  CHECK(meeting.addresses == std::vector<std::string>{"127.0.0.1", "10.0.0.1"});
}

TEST_CASE("progress is readable") {
  CHECK(progress_text(3, 42, "all_reduce 4 B", 12.34, -1) == "[ 3/42] all_reduce 4 B: 12.3 us");
  CHECK(progress_text(42, 42, "gemm", 12345, 30) == "[42/42] gemm: 12.35 ms  30 s left");
  CHECK(progress_text(1, 9, "x", 2.5e6, 300) == "[1/9] x: 2.50 s  5 min left");
}

}  // namespace
}  // namespace paceline::measure
