// Do the shards of a sweep, joined, give what one machine gives?
#include "studies/shard.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/version.h"
#include "studies/result_lines.h"
#include "studies/sweep.h"
#include "tests/dice.h"
#include "tests/files.h"
#include "tests/studies/small_study.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

// Two of them wrong (12 GPUs are no whole nodes), two of them equal but for their names.
const std::string kShardedAxes =
    R"([{"key": "gpus", "values": [2, 12, 8]}, {"key": "/training/batch_per_gpu", "values": [4, 8]},
        {"key": "/run/seed", "values": [1, 2]}, {"key": "/description", "values": ["one", "two"]}])";

std::string results_of(const std::string& out) { return (fs::path(out) / kResults).string(); }

SweepOutcome shard_of(const Study& s, const std::string& out, std::uint32_t index, std::uint32_t count) {
  return sweep(s, {out, 1, {}, SweepShard{index, count}});
}

std::string error_told(const std::function<void()>& f) {
  try {
    f();
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("shards in any order, joined, are the sweep of one machine: each line once") {
  const std::string strong =
      R"([{"key": "gpus", "values": [1, 2, 4, 8, 16]}, {"key": "/run/seed", "values": [1, 2]}])";
  for (const Study& s :
       {study(kShardedAxes), study(strong, kSmall, R"(, "scaling": "strong", "global_batch": 64)")}) {
    const TemporaryFolder folder;
    const SweepOutcome one = sweep(s, {folder.file("one"), 1, {}});
    for (const std::uint32_t count : {1U, 3U, 16U}) {
      INFO(count << " shards");
      const std::string out = folder.file("shards" + std::to_string(count));
      std::vector<std::uint32_t> order(count);
      std::iota(order.begin(), order.end(), 0U);
      Dice dice(count);
      for (std::size_t i = order.size(); i > 1; --i) {
        std::swap(order[i - 1], order[dice.below(i)]);
      }
      std::size_t points = 0, computed = 0;
      for (const std::uint32_t index : order) {
        const SweepOutcome outcome = shard_of(s, out, index, count);
        CHECK(outcome.locked);
        CHECK(outcome.file == (fs::path(out) / file_of({index, count})).string());
        points += outcome.points;
        computed += outcome.computed;
        CHECK(shard_of(s, out, index, count).computed == 0);  // again: all is there
      }
      CHECK(points == s.points.size());
      CHECK(computed == one.computed);  // equal scenarios are in one shard
      const SweepOutcome joined = sweep(s, {out, 2, {}});
      CHECK(joined.computed == 0);
      CHECK(joined.joined == s.points.size());
      CHECK(joined.found == s.points.size());
      CHECK(sorted_lines(results_of(out)) == sorted_lines(results_of(folder.file("one"))));
      CHECK(shard_files(out).empty());
      CHECK(sweep(s, {out, 1, {}}).joined == 0);
      CHECK(shard_of(s, out, 0, count).computed == 0);  // what was joined is not computed again
    }
  }
}

TEST_CASE("a join computes what no shard did") {
  const TemporaryFolder folder;
  const Study s = study(kShardedAxes);
  sweep(s, {folder.file("one"), 1, {}});
  const SweepOutcome half = shard_of(s, folder.file("out"), 1, 2);
  CHECK(half.points < s.points.size());
  std::ofstream(fs::path(folder.file("out")) / file_of({1, 2}), std::ios::app)
      << R"({"point": {"gpus)";  // torn
  const SweepOutcome joined = sweep(s, {folder.file("out"), 1, {}});
  CHECK(joined.joined == half.points);
  CHECK(joined.found + joined.computed <= s.points.size());
  CHECK(sorted_lines(results_of(folder.file("out"))) == sorted_lines(results_of(folder.file("one"))));
}

// Of three points that others have, none is in a shard of theirs by chance: each of it is tried.
TEST_CASE("a shard refuses a folder of another study, and leaves its study there") {
  const auto of = [](const std::string& batches) {
    return study(R"([{"key": "gpus", "values": [2, 8]}, {"key": "/training/batch_per_gpu", "values": )" +
                 batches + "}]");
  };
  const Study ours = of("[4, 8]"), more = of("[4, 8, 16]"), theirs = of("[5, 7]");
  for (const bool joined : {false, true}) {
    const TemporaryFolder folder;
    const std::string out = folder.file("out");
    SweepOutcome first = shard_of(ours, out, 0, 2);
    for (std::uint32_t index = 0; first.points == 0; ++index) {
      first = shard_of(ours, out, index, 2);
    }
    if (joined) {
      sweep(ours, {out, 1, {}});
    }
    const std::string kept = text_of(fs::path(out) / "study.json");
    for (const std::uint32_t index : {0U, 1U}) {
      CHECK_THAT(error_told([&] { shard_of(theirs, out, index, 2); }),
                 Catch::Contains("expected a point of this study, found ") &&
                     Catch::EndsWith("; take another folder for this study"));
      CHECK(text_of(fs::path(out) / "study.json") == kept);
    }
    shard_of(more, out, 1, 2);  // with points more it is still one study
    CHECK(text_of(fs::path(out) / "study.json") != kept);
    CHECK(sweep(more, {out, 1, {}}).found + 0 <= more.points.size());
  }
}

TEST_CASE("each key is in one shard, and equal scenarios in one") {
  Dice dice(1);
  for (int i = 0; i < 1'000; ++i) {
    std::string key;
    for (int d = 0; d < 32; ++d) {
      key += "0123456789abcdef"[dice.below(16)];
    }
    const auto count = static_cast<std::uint32_t>(dice.between(1, 40));
    int in = 0;
    for (std::uint32_t index = 0; index < count; ++index) {
      in += holds({index, count}, key) ? 1 : 0;
    }
    CHECK(in == 1);
  }
  CHECK(holds({5, 10}, "0000000000000000000000000000000f"));
  CHECK(holds({6, 10}, "00000000000000000000000000000010"));
}

TEST_CASE("a shard's name is checked") {
  CHECK(shard_named("3/16") == SweepShard{3, 16});
  for (const char* wrong : {"", "3", "3/", "/3", "a/b", "3-16", "-1/4", "1/4 ", "1/4/5"}) {
    CHECK(error_told([&] { shard_named(wrong); }) ==
          "--shard: expected a shard such as 3/16, found \"" + std::string(wrong) + '"');
  }
  CHECK(error_told([] { shard_named("0/0"); }) == "--shard: expected 1 to 10000 shards, found 0");
  CHECK(error_told([] { shard_named("16/16"); }) == "--shard: expected a shard from 0 to 15, found 16");
}

TEST_CASE("what can't be joined stays as it is, and is named") {
  const TemporaryFolder folder;
  const Study s = study(kShardedAxes);
  const std::string out = folder.file("out");
  shard_of(s, out, 0, 2);
  const std::string first = (fs::path(out) / file_of({0, 2})).string(), kept = text_of(first);
  CHECK(error_told([&] { shard_of(s, out, 0, 3); }) ==
        first +
            ": expected 3 shards, found one of 2: join those first "
            "(the same sweep without --shard), or delete them");
  {
    const ResultLines running(out, file_of({0, 2}));
    CHECK(error_told([&] { sweep(s, {out, 1, {}}); }) ==
          first + ": belongs to another sweep that is running");
    CHECK(error_told([&] { shard_of(s, out, 0, 2); }) ==
          first + ": belongs to another sweep that is running");
    CHECK(running.keeps_others_out());
  }
  const Study other = study(R"([{"key": "gpus", "values": [2]}])");
  CHECK_THAT(error_told([&] { sweep(other, {out, 1, {}}); }),
             Catch::StartsWith(first + ": line 1: expected a point of this study, found "));
  CHECK(text_of(first) == kept);
  CHECK(sweep(s, {out, 1, {}}).joined > 0);
}

TEST_CASE("a shard's lines of another model version are kept apart, and computed again") {
  const TemporaryFolder folder;
  const Study s = study(R"([{"key": "/run/seed", "values": [1, 2, 3]}])");
  const std::string out = folder.file("out");
  shard_of(s, out, 0, 1);
  const std::string file = (fs::path(out) / file_of({0, 1})).string();
  std::string older;
  for (std::string line : sorted_lines(file)) {
    line.erase(line.find(R"(, "check")"));
    const std::string now = "\"model_version\": " + std::to_string(kModelVersion);
    older += with_check(line.replace(line.find(now), now.size(), "\"model_version\": 1") + "}") + "\n";
  }
  std::ofstream(file) << older;
  const SweepOutcome joined = sweep(s, {out, 1, {}});
  CHECK(joined.joined == 0);
  CHECK(joined.computed == 3);
  CHECK(text_of(fs::path(out) / ("results.before-model-" + std::to_string(kModelVersion) + ".jsonl")) ==
        older);
}

TEST_CASE("a lock that keeps nobody out is seen") {
  const TemporaryFolder folder;
  ResultLines lines(folder.file("out"));
  CHECK(lines.keeps_others_out());
  lines.remove();
  std::ofstream(lines.path()) << "";  // another file, which nobody has locked
  CHECK_FALSE(lines.keeps_others_out());
}

}  // namespace paceline
