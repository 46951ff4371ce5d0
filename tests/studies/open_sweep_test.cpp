// Does it matter who computes the lines of a sweep, and where?
#include "studies/open_sweep.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error.h"
#include "scenarios/files.h"
#include "studies/sweep.h"
#include "tests/files.h"
#include "tests/studies/small_study.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

// Two wrong ones, and two names of each scenario.
const std::string kSomeWrong =
    R"([{"key": "gpus", "values": [2, 12, 8]}, {"key": "/run/seed", "values": [1, 2]},
        {"key": "/description", "values": ["one", "two"]}])";

std::vector<std::string> lines_in(const std::string& out) {
  return sorted_lines((fs::path(out) / kResults).string());
}

}  // namespace

TEST_CASE("lines from elsewhere are the sweep's own: the first of equal points stands for all") {
  const TemporaryFolder folder;
  const Study s = study(kSomeWrong);
  sweep(s, {folder.file("threads"), 2, {}});
  std::size_t told = 0;
  OpenSweep open(s, {folder.file("lines"), 1, [&](const SweepProgress& p) { told = p.done; }});
  CHECK(open.left().size() == 2 * 2 + 4);  // equal ones are once there, those that can't be read each
  for (std::size_t i = open.left().size(); i-- > 0;) {
    const EqualPoints& equal = open.left()[i];
    CHECK((equal.gpus == 2 || equal.gpus == 8) == !equal.key.empty());
    open.write_line(i, sweep_line(s, s.points[equal.points.front()]));
  }
  CHECK(told == 12);
  const SweepOutcome outcome = open.end();
  CHECK(outcome.computed == 4);
  CHECK(outcome.failed == 4);
  CHECK(lines_in(folder.file("lines")) == lines_in(folder.file("threads")));
  CHECK(OpenSweep(s, {folder.file("threads"), 1, {}}).left().empty());
}

TEST_CASE("a line that this process would not write is refused, whatever is wrong with it") {
  const TemporaryFolder folder;
  const Study s = study(R"([{"key": "/run/seed", "values": [1, 2]}])");
  OpenSweep open(s, {folder.file("out"), 1, {}});
  const std::string own = sweep_line(s, s.points[0]);
  std::string digit = own;
  digit[own.find("throughput") + 30] ^= 1;
  std::string other_point = sweep_line(s, s.points[1]);
  for (const std::string& wrong : {other_point, digit, own + " ", std::string("[]")}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(open.write_line(0, wrong), std::logic_error);
  }
  for (const std::string& no_json : {own.substr(0, own.size() - 1), with_check(own)}) {
    CHECK_THROWS_AS(open.write_line(0, no_json), InputError);
  }
  CHECK_THROWS_AS(open.write_line(2, own), std::out_of_range);
  CHECK(lines_in(folder.file("out")).empty());
  open.write_line(0, own);
  open.fail(1, "gone");
  CHECK(open.end().faults == std::vector<std::string>{"seed 2: gone"});
  CHECK(lines_in(folder.file("out")) == std::vector<std::string>{own});
}

TEST_CASE("a study and the texts that it named give the same lines in another folder without them") {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::create_directories(folder.file("in"));
  fs::create_directories(folder.file("elsewhere"));
  folder.write("in/cluster.json", R"({"node": "dgx-a100", "nodes": 2})");
  folder.write("in/scenario.json",
               R"({"cluster": "./cluster.json", "model": "resnet18", "training": {"batch_per_gpu": 8}})");
  const std::string text = R"({"scenario": "scenario.json", "axes": [
      {"key": "/cluster", "values": ["./cluster.json", "./none.json", "./in"]}]})";
  fs::current_path(folder.file(""));
  const Study here = parse_study(text, "in/study.json");
  std::vector<std::string> lines;
  for (const StudyPoint& point : here.points) {
    lines.push_back(sweep_line(here, point));
  }
  fs::current_path(folder.file("elsewhere"));
  fs::remove_all(folder.file("in"));
  const Study there = parse_study(text, "in/study.json", std::make_shared<FileTexts>(here.files->known()));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    CHECK(sweep_line(there, there.points[i]) == lines[i]);
    CHECK(sweep_line(here, here.points[i]) == lines[i]);
  }
  // What was not asked for there is our fault, not the input's.
  CHECK_THROWS_AS(there.files->text("in/new.json"), std::logic_error);
  CHECK_THROWS_AS(there.files->text("in/new.json"), std::logic_error);
  fs::current_path(before);
  CHECK_THAT(lines[1], Contains("can't be read") && !Contains(folder.file("")));
}

}  // namespace paceline
