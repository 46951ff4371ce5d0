// Whatever the system refuses, and whenever: is every file old or new, every line whole, and does the same
// command again give all of it?
#include <catch2/catch.hpp>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "scenarios/files.h"
#include "scenarios/predict.h"
#include "scenarios/result_json.h"
#include "studies/result_lines.h"
#include "studies/sweep.h"
#include "tests/faults/failing.h"
#include "tests/files.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

const std::string kTiny =
    R"({"cluster": {"node": "dgx-a100", "gpus_per_node": 2}, "model": {"name": "m", "layers": [{"name": "l",
        "parameters": [1000], "forward_macs": 1000, "output_elements": 10}]}, "training": {"batch_per_gpu": 8},
        "run": {"iterations": 1}})";

// Runs f with the n-th call failing; whether it ended without an exception, which must be one of ours.
template <class F>
bool ends_well(const std::string& call, long nth, const F& f) {
  let_fail(call, nth);
  bool well = true;
  try {
    f();
  } catch (const InputError& error) {
    let_fail("", 0);
    well = false;
    CHECK_FALSE(error.file().empty());
  } catch (const std::bad_alloc&) {
    let_fail("", 0);
    well = false;
    CHECK(call == "allocation");
  }
  const bool failed = has_failed();
  let_fail("", 0);
  CHECK((well || failed));
  return well;
}

TEST_CASE("result files are all old or all new, and nothing is left beside them") {
  for (const char* call : {"write", "half write", "fsync", "open", "rename"}) {
    for (long nth = 1, done = false; !done; ++nth) {
      CAPTURE(call, nth);
      const TemporaryFolder folder;
      const std::vector<OutputFile> files{{folder.write("a", "old a"), "new a"},
                                          {folder.write("b", "old b"), "new b"}};
      const bool well = ends_well(call, nth, [&] { write_files(files); });
      const std::string a = text_of(folder.file("a")), b = text_of(folder.file("b"));
      if (well) {
        CHECK(a == "new a");
        CHECK(b == "new b");
      } else if (call != std::string("rename") && call != std::string("fsync")) {
        CHECK(a == "old a");
        CHECK(b == "old b");
      }
      CHECK((a == "old a" || a == "new a"));
      CHECK((b == "old b" || b == "new b"));
      CHECK(entries_of(folder.file("")) == 2);
      done = nth > 8;
    }
  }
}

Study tiny_study(const std::string& folder) {
  return parse_study("{\"scenario\": " + kTiny + R"(, "axes": [{"key": "/run/seed", "values": [1, 2, 3]},
      {"key": "/training/batch_per_gpu", "values": [8, 0]}]})",
                     folder + "/s.json");
}

// One sweep with a failure, then the same without: what is there meanwhile, and what is there at the end.
void check_sweep(const std::string& call, long nth, const std::vector<std::string>& expected, bool& failed) {
  CAPTURE(call, nth);
  const TemporaryFolder folder;
  const SweepOptions options{folder.file("out"), 1, {}};
  const std::string results = folder.file("out/results.jsonl");
  let_fail("", 0);
  const Study study = tiny_study(folder.file(""));
  ends_well(call, nth, [&] { sweep(study, options); });
  failed = has_failed();
  if (fs::exists(results)) {
    for_each_line(results,
                  [](std::size_t, const std::string& line) { CHECK(check_of(line) == LineCheck::right); });
  }
  const SweepOutcome again = sweep(tiny_study(folder.file("")), options);
  CHECK(again.faults.empty());
  CHECK(sorted_lines(results) == expected);
  CHECK(entries_of(folder.file("out")) == 2);
}

std::vector<std::string> expected_lines() {
  const TemporaryFolder folder;
  sweep(tiny_study(folder.file("")), {folder.file("out"), 1, {}});
  return sorted_lines(folder.file("out/results.jsonl"));
}

TEST_CASE("a sweep loses no line, whichever call to the system fails") {
  const std::vector<std::string> expected = expected_lines();
  REQUIRE(expected.size() == 6);
  for (const char* call : {"write", "half write", "fsync", "open", "rename", "ftruncate"}) {
    bool failed = true;
    long nth = 1;
    for (; failed && nth < 100; ++nth) {
      check_sweep(call, nth, expected, failed);
    }
    CHECK(nth > 2);  // it was called, and failed, at least once
    CHECK(nth < 100);
  }
}

#ifndef PACELINE_SANITIZED
TEST_CASE("a sweep loses no line, whichever allocation fails") {
  const std::vector<std::string> expected = expected_lines();
  bool failed = true;
  int tried = 0;
  for (long nth = 1; failed; nth += 1 + nth / 6) {
    check_sweep("allocation", nth, expected, failed);
    ++tried;
  }
  CHECK(tried > 40);
}

TEST_CASE("a result is whole or not there, whichever allocation fails") {
  const TemporaryFolder folder;
  const Scenario scenario = parse_scenario(kTiny, "s.json");
  const std::string path = folder.file("r.json");
  write_file(path, result_json(predict(scenario)));
  const std::string whole = text_of(path);
  for (long nth = 1, failed = true; failed; nth += 1 + nth / 6) {
    CAPTURE(nth);
    fs::remove(path);
    const bool well = ends_well("allocation", nth, [&] { write_file(path, result_json(predict(scenario))); });
    failed = !well;
    CHECK(fs::exists(path) == well);
    CHECK((!well || text_of(path) == whole));
    CHECK(entries_of(folder.file("")) == (well ? 1 : 0));
  }
}
#endif

}  // namespace
}  // namespace paceline
