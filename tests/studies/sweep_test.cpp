// Is every point computed once, written whole, and found again?
#include "studies/sweep.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/version.h"
#include "scenarios/predict.h"
#include "studies/edit.h"
#include "studies/result_lines.h"
#include "tests/files.h"
#include "tests/load_study.h"
#include "tests/studies/small_study.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

// 12 points, two of them wrong: 12 GPUs are no whole nodes.
const std::string kAxes =
    R"([{"key": "gpus", "values": [2, 12, 8]}, {"key": "/training/batch_per_gpu", "values": [4, 8]},
        {"key": "/run/seed", "values": [1, 2]}])";

std::string results(const std::string& out) { return (fs::path(out) / "results.jsonl").string(); }

std::string refusal(const Study& s, const std::string& out) {
  try {
    sweep(s, {out, 1, {}});
  } catch (const InputError& error) {
    std::string text = error.what();
    return text.starts_with(out) ? text.substr(out.size() + 1) : text;
  }
  return "";
}

TEST_CASE("a line is what the point alone gives, whatever the number of threads") {
  const TemporaryFolder folder;
  const Study s = study(kAxes);
  const SweepOutcome one = sweep(s, {folder.file("one"), 1, {}}),
                     four = sweep(s, {folder.file("four"), 4, {}});
  CHECK(one.points == 12);
  CHECK(one.computed == 8);
  CHECK(one.failed == 4);
  CHECK(one.found == 0);
  CHECK(one.faults.empty());
  CHECK(four.computed == 8);
  std::vector<std::string> lines;
  for (const StudyPoint& point : s.points) {
    lines.push_back(sweep_line(s, point));
  }
  std::ranges::sort(lines);
  CHECK(sorted_lines(results(folder.file("one"))) == lines);
  CHECK(sorted_lines(results(folder.file("four"))) == lines);
  CHECK(text_of(folder.file("one/study.json")) == to_text(s.text) + "\n");
}

TEST_CASE("a line says what the prediction says") {
  const Study s = study(kAxes);
  const Json line = parse_json(sweep_line(s, s.points[0]));
  const Prediction p = predict(parse_scenario(to_line(scenario_of(s, s.points[0]).scenario), "s.json"));
  CHECK(to_line(*line.find("point")) == R"({"gpus": 2, "batch_per_gpu": 4, "seed": 1})");
  CHECK(line.find("key")->as<std::string>()->size() == 32);
  CHECK(*value_at(line, "/gpus")->as<std::int64_t>() == 2);
  CHECK(*value_at(line, "/samples_per_step")->as<std::int64_t>() == 8);
  CHECK(*value_at(line, "/step_time_s/mean")->as<double>() == p.report.step.mean.value);
  CHECK(*value_at(line, "/scaling_efficiency")->as<double>() == p.report.scaling_efficiency);
  for (const char* member : {"buckets", "scenario", "interval_s", "error"}) {
    CHECK(line.find(member) == nullptr);
  }
}

TEST_CASE("a profile of another machine is an error of the study that names it") {
  const std::string text =
      "{\"scenario\": " + kSmall +
      R"(, "profile": {"machine": "none, pcie", "parameters": {"nvlink.efficiency": 0.5}},
                              "axes": [{"key": "gpus", "values": [8]}]})";
  const Study s = parse_study(text, "s.json");
  const Json line = parse_json(sweep_line(s, s.points[0]));
  CHECK(*value_at(line, "/error/place")->as<std::string>() == "/profile");
  CHECK(*value_at(line, "/error/file")->as<std::string>() == "s.json");
  CHECK_THAT(*value_at(line, "/error/message")->as<std::string>(),
             Catch::Contains(R"("allow_other_machine": true takes its costs)") && !Catch::Contains("--"));
}

TEST_CASE("an axis over what the profile's kernels measured is refused, the default's point too") {
  const std::string of_default = number_text(RooflineSpec{}.memory_efficiency);
  const Study s =
      parse_study("{\"scenario\": " + kSmall +
                      R"(, "profile": {"parameters": {}, "kernels": [{"memory_efficiency": 0.77}]},
          "axes": [{"key": "/training/roofline/memory_efficiency", "values": [0.5, 0.77, )" +
                      of_default + "]}]}",
                  "s.json");
  const auto error = [&](std::size_t point) {
    const Json line = parse_json(sweep_line(s, s.points[point]));
    const Json* message = value_at(line, "/error/message");
    return message == nullptr ? "" : *message->as<std::string>();
  };
  CHECK_THAT(error(0), Catch::StartsWith("expected either this or a profile with kernels"));
  CHECK(error(1).empty());
  CHECK_THAT(error(2), Catch::StartsWith("expected either this axis or a profile with kernels"));
}

TEST_CASE("with a profile a line has an interval") {
  const TemporaryFolder folder;
  folder.write("profile.json", R"({"parameters": {"nvlink.efficiency": 0.5}})");
  const std::string path =
      folder.write("s.json", "{\"scenario\": " + kSmall +
                                 R"(, "profile": "profile.json", "axes": [{"key": "gpus", "values": [8]}]})");
  const Study s = load_study(path);
  const Json line = parse_json(sweep_line(s, s.points[0]));
  const double low = *value_at(line, "/interval_s/low")->as<double>();
  const double high = *value_at(line, "/interval_s/high")->as<double>();
  const double step = *value_at(line, "/step_time_s/mean")->as<double>();
  CHECK(low <= step);
  CHECK(step <= high);
  CHECK(low < high);
  CHECK(value_at(line, "/interval_s/extrapolated")->as<bool>() != nullptr);
  const Study plain = study(R"([{"key": "gpus", "values": [8]}])");
  const Json without = parse_json(sweep_line(plain, plain.points[0]));
  CHECK(*value_at(without, "/step_time_s/mean")->as<double>() < step);  // NVLinks at half their rate
  CHECK(to_line(*without.find("key")) != to_line(*line.find("key")));
  // The same profile, written in.
  const std::string axes = R"("axes": [{"key": "gpus", "values": [8]}])",
                    scenario = "{\"scenario\": " + kSmall;
  const Study inside = parse_study(
      scenario + R"(, "profile": {"parameters": {"nvlink.efficiency": 0.5}}, )" + axes + "}", "s.json");
  CHECK(sweep_line(inside, inside.points[0]) == sweep_line(s, s.points[0]));
  CHECK_THROWS_WITH(
      parse_study(scenario + R"(, "profile": {"parameters": {"nvlink": 1}}, )" + axes + "}", "s.json"),
      Catch::StartsWith("s.json: /profile/parameters"));
  CHECK_THROWS_WITH(parse_study(scenario + R"(, "profile": 3, )" + axes + "}", "s.json"),
                    "s.json: /profile: expected the name of a file or a profile, found 3");
}

TEST_CASE("a wrong point is a line with message, place and scenario") {
  const Study s =
      study(R"([{"key": "/training/batch_per_gpu", "values": [4, 0]}, {"key": "/trainin", "values": [1]}])");
  const Json line = parse_json(sweep_line(s, s.points[1]));
  CHECK_THAT(*value_at(line, "/error/message")->as<std::string>(), Contains("did you mean \"training\"?"));
  CHECK(*value_at(line, "/error/file")->as<std::string>() == "s.json");
  CHECK(to_line(*value_at(line, "/scenario/training/batch_per_gpu")) == "0");
  CHECK(line.find("key") == nullptr);
  // What only the topology finds has a key: its scenario can be read.
  const Study link = study(
      R"([{"key": "/cluster/degraded_links", "values": [[{"from": "node7/nic0", "bandwidth_factor": 0.5}]]}])");
  const Json of_link = parse_json(sweep_line(link, link.points[0]));
  CHECK(*value_at(of_link, "/error/place")->as<std::string>() == "/cluster/degraded_links/0/from");
  CHECK(of_link.find("key") != nullptr);
}

TEST_CASE("equal scenarios are computed once and written for each point") {
  const TemporaryFolder folder;
  const Study s =
      study(R"([{"key": "/description", "values": ["a", "b", "c"]}, {"key": "/run/seed", "values": [1, 2]},
                            {"key": "/cluster/nodes", "values": [1]}])");
  const SweepOutcome outcome = sweep(s, {folder.file("out"), 2, {}});
  CHECK(outcome.points == 6);
  CHECK(outcome.computed == 2);
  std::vector<std::string> lines;
  for (const StudyPoint& point : s.points) {
    lines.push_back(sweep_line(s, point));
  }
  std::ranges::sort(lines);
  CHECK(sorted_lines(results(folder.file("out"))) == lines);
}

TEST_CASE("the content key knows what counts") {
  const Study s = study(kAxes);
  const auto key = [&](const std::string& pointer, const Json& value) {
    Json written = parse_json(kSmall);
    set_at(written, pointer, value, {});
    return content_key(parse_scenario(to_line(written), "s.json"), s, {});
  };
  const std::set<std::string> keys{key("/run/seed", 1), key("/run/seed", 2),
                                   key("/training/batch_per_gpu", 7), key("/cluster/nodes", 2),
                                   key("/variability/per_operation/cv", 0.051)};
  CHECK(keys.size() == 5);
  CHECK(key("/description", "x") == key("/run/seed", 1));
  CHECK(key("/cluster/gpus_per_node", 8) == key("/run/seed", 1));  // said or not, the node has eight
  const Scenario scenario = parse_scenario(kSmall, "s.json");
  CHECK(content_key(scenario, s, BatchShare{8, 4}) != content_key(scenario, s, {}));
  Study with_profile = s;
  with_profile.profile_text = "x";
  CHECK(content_key(scenario, with_profile, {}) != content_key(scenario, s, {}));
}

TEST_CASE("what is there is not computed again, and a torn last line is") {
  const TemporaryFolder folder;
  const Study s = study(kAxes);
  const std::string out = folder.file("out");
  sweep(s, {out, 1, {}});
  const std::string whole = text_of(results(out));
  const SweepOutcome again = sweep(s, {out, 1, {}});
  CHECK(again.found == 12);
  CHECK(again.computed == 0);
  CHECK(again.failed == 4);
  CHECK(text_of(results(out)) == whole);
  const std::vector<std::string> lines = sorted_lines(results(out));
  for (const std::size_t length : {whole.size() - 1, whole.size() - 30, whole.size() / 2, whole.find('\n'),
                                   whole.find('\n') + 1, std::size_t{1}, std::size_t{0}}) {
    fs::resize_file(results(out), length);
    std::ofstream(results(out), std::ios::app | std::ios::binary) << "";
    const SweepOutcome resumed = sweep(s, {out, 2, {}});
    CHECK(resumed.found == static_cast<std::size_t>(std::ranges::count(whole.substr(0, length), '\n')));
    CHECK(sorted_lines(results(out)) == lines);
    std::ofstream(results(out), std::ios::binary) << whole;
  }
}

TEST_CASE("a study may grow") {
  const TemporaryFolder folder;
  const std::string out = folder.file("out");
  sweep(study(R"([{"key": "/run/seed", "values": [1, 2]}])"), {out, 1, {}});
  const SweepOutcome more = sweep(study(R"([{"key": "/run/seed", "values": [3, 2, 1]}])"), {out, 1, {}});
  CHECK(more.found == 2);
  CHECK(more.computed == 1);
}

TEST_CASE("lines that can't be read or are of another study are refused with their number") {
  const TemporaryFolder folder;
  const Study s = study(R"([{"key": "/run/seed", "values": [1, 2]}])");
  const std::string out = folder.file("out");
  sweep(s, {out, 1, {}});
  const std::string whole = text_of(results(out));
  const auto with = [&](const std::string& more) {
    std::ofstream(results(out), std::ios::binary) << whole << more;
    return refusal(s, out);
  };
  CHECK_THAT(with("{\"point\": {\"se\n"),
             Catch::StartsWith("results.jsonl: line 3: expected a line that a sweep wrote; "));
  CHECK(with("{}\n") == "results.jsonl: line 3: expected a line that a sweep wrote, found \"{}\"");
  CHECK(with(with_check(R"({"point": {"seed": 3}, "key": "0"})") + "\n") ==
        "results.jsonl: line 3: expected a point of this study, found {\"seed\": 3}; take another folder for "
        "this study");
  Json other = parse_json(kSmall);
  set_at(other, "/training/batch_per_gpu", 9, {});
  std::ofstream(results(out), std::ios::binary) << whole;
  const std::string study_before = text_of(out + "/study.json");
  CHECK(refusal(study(R"([{"key": "/run/seed", "values": [1, 2]}])", to_line(other)), out) ==
        "results.jsonl: line 1: expected a line of this study, found one of another scenario; take another "
        "folder for this study");
  CHECK(text_of(out + "/study.json") == study_before);
  CHECK(text_of(results(out)) == whole);
}

TEST_CASE("a line that was changed, or has no check, is refused") {
  const TemporaryFolder folder;
  const Study s = study(R"([{"key": "/run/seed", "values": [1, 2]}])");
  const std::string out = folder.file("out");
  sweep(s, {out, 1, {}});
  const std::string whole = text_of(results(out));
  const std::size_t digit = whole.find("mean\": 0.") + 9, check = whole.find(", \"check\"");
  REQUIRE(digit < whole.find('\n'));
  REQUIRE(check < whole.find('\n'));
  const auto answer = [&](const std::string& text) {
    std::ofstream(results(out), std::ios::binary) << text;
    const std::string found = refusal(s, out);
    CHECK((found.empty() || text_of(results(out)) == text));  // refused: untouched
    return found;
  };
  std::string changed = whole;
  changed[digit] = changed[digit] == '1' ? '2' : '1';
  CHECK(answer(changed) ==
        "results.jsonl: line 1: expected a line as a sweep wrote it, found one that was changed: "
        "its check is another; delete the line, and it is computed again");
  std::string of_check = whole;
  of_check[check + 12] = of_check[check + 12] == '1' ? '2' : '1';
  CHECK_THAT(answer(of_check), Contains("line 1") && Contains("was changed"));
  CHECK(
      answer(whole.substr(0, check) + "}" + whole.substr(whole.find('\n'))) ==
      "results.jsonl: line 1: expected a line with its check, found one without; delete the line, and it is "
      "computed again");
  const std::string rest = whole.substr(whole.find('\n') + 1);
  CHECK(answer(rest).empty());  // the other is computed again
  CHECK(sorted_lines(results(out)).size() == 2);
  for (const std::string& line : sorted_lines(results(out))) {
    CHECK(check_of(line) == LineCheck::right);
  }
}

TEST_CASE("what no sweep wrote stays as it is, to the byte") {
  const TemporaryFolder folder;
  const Study s = study(R"([{"key": "/run/seed", "values": [1]}])");
  for (const char* text :
       {"{\"my\":\"data\"}", "{\"my\":\"data\"}\nand more", "a letter", "{\"point\": 7", "\n"}) {
    CAPTURE(text);
    folder.write("results.jsonl", text);
    CHECK_THAT(refusal(s, folder.file(".")),
               Contains("results.jsonl: line 1: expected a line that a sweep wrote"));
    CHECK(text_of(folder.file("results.jsonl")) == text);
    CHECK_FALSE(fs::exists(folder.file("study.json")));
  }
}

TEST_CASE("symbolic links in the folder of a sweep are not followed") {
  const TemporaryFolder folder;
  const Study s = study(R"([{"key": "/run/seed", "values": [1]}])");
  for (const char* name : {"results.jsonl", "study.json"}) {
    const std::string kept = folder.write("kept", ""), out = folder.file(std::string("out-") + name);
    fs::create_directories(out);
    fs::create_symlink(kept, fs::path(out) / name);
    CHECK_THAT(refusal(s, out), Contains(name) && Contains("symbolic link"));
    CHECK(text_of(kept).empty());
    CHECK(fs::is_symlink(fs::path(out) / name));
  }
}

TEST_CASE("a file that changes during a sweep is read once") {
  const TemporaryFolder folder;
  const std::string big = R"({"node": "dgx-a100", "nodes": 2})",
                    small = R"({"node": "dgx-h100", "nodes": 1})";
  folder.write("c.json", big);
  folder.write(
      "base.json",
      R"({"cluster": "./c.json", "model": "resnet18", "training": {"batch_per_gpu": 8}, "run": {"iterations": 1}})");
  const std::string path = folder.write("s.json", R"({"scenario": "base.json", "axes": [
      {"key": "/run/seed", "from": 1, "to": 4, "step": 1}, {"key": "/cluster/gpus_per_node", "values": [2, 4]}]})");
  const SweepOptions whole{folder.file("whole"), 1, {}};
  sweep(load_study(path), whole);
  const Study s = load_study(path);
  const auto change = [&](const SweepProgress&) { folder.write("c.json", small); };
  const SweepOutcome outcome = sweep(s, {folder.file("out"), 1, change});
  CHECK(outcome.faults.empty());
  CHECK(text_of(folder.file("c.json")) == small);
  CHECK(sorted_lines(results(folder.file("out"))) == sorted_lines(results(folder.file("whole"))));
  // A file that is gone, too; and who reads the study anew reads what is there now.
  fs::remove(folder.file("c.json"));
  CHECK(sweep(s, {folder.file("again"), 2, {}}).failed == 0);
  CHECK(sweep(load_study(path), {folder.file("new"), 1, {}}).failed == 8);
}

TEST_CASE("a number is what it means, however it is written") {
  const TemporaryFolder folder;
  const std::string axes = R"([{"key": "/variability/per_operation/cv", "values": [-0.0, 0.1], "name": "cv"},
      {"key": "/cluster/nodes", "values": [1.0, 2e0]}])";
  CHECK(sweep(study(axes), {folder.file("out"), 1, {}}).failed == 0);
  CHECK(sweep(study(axes), {folder.file("out"), 1, {}}).found == 4);
  CHECK(sweep(study(R"([{"key": "/variability/per_operation/cv", "values": [0, 0.1], "name": "cv"},
      {"key": "/cluster/nodes", "values": [1, 2]}])"),
              {folder.file("out"), 1, {}})
            .found == 4);
}

TEST_CASE("lines of another model version are left aside, not mixed with new ones") {
  const TemporaryFolder folder;
  const Study s = study(kAxes);
  const std::string out = folder.file("out"), version = "\"model_version\": " + std::to_string(kModelVersion);
  sweep(s, {out, 1, {}});
  const std::vector<std::string> lines = sorted_lines(results(out));
  const std::string whole = text_of(results(out));
  CHECK_THAT(whole, Contains(version));
  std::string older;  // as others wrote them: one without a word of version and check, all with another key
  bool first = true;
  std::istringstream text(whole);
  for (std::string line; std::getline(text, line); older += line + '\n') {
    if (const std::size_t at = line.find(version); at != std::string::npos) {
      line.replace(at, version.size(), first ? "\"a\": 1" : "\"model_version\": 1000");
      line.replace(line.find("\"key\": \"") + 8, 4, "0000");
      line = line.substr(0, line.find(", \"check\"")) + "}";
      line = first ? line : with_check(line);
      first = false;
    }
  }
  const std::string kept = "results.before-model-" + std::to_string(kModelVersion);
  for (const std::string& name : {kept + ".jsonl", kept + ".2.jsonl"}) {
    std::ofstream(results(out), std::ios::binary) << older;
    const SweepOutcome again = sweep(s, {out, 1, {}});
    CHECK(again.older == 8);  // the other four depend on no version
    CHECK(again.found == 0);
    CHECK(again.computed == 8);
    CHECK(again.failed == 4);
    CHECK_THAT(again.older_lines, Catch::EndsWith(name));
    CHECK(text_of(again.older_lines) == older);
    CHECK(sorted_lines(results(out)) == lines);
    CHECK(sweep(s, {out, 1, {}}).older == 0);
  }
}

TEST_CASE("a point that failed for a file is computed once the file is there") {
  const TemporaryFolder folder;
  Json written = parse_json(kSmall);
  set_at(written, "/model", Json::Object{{"file", "m.json"}}, {});
  const std::string path = folder.write(
      "s.json", "{\"scenario\": " + to_line(written) + R"(, "axes": [{"key": "/run/seed", "values": [1]}]})");
  const std::string out = folder.file("out");
  CHECK(sweep(load_study(path), {out, 1, {}}).failed == 1);
  CHECK_THAT(sweep_table(load_study(path), out), Contains("failed:") && Contains("m.json: can't be read"));
  folder.write("m.json",
               R"({"name": "m", "layers": [{"name": "l", "parameters": [1000], "forward_macs": 1000000,
                             "output_elements": 10}]})");
  const SweepOutcome later = sweep(load_study(path), {out, 1, {}});
  CHECK(later.failed == 0);
  CHECK(later.found == 0);
  CHECK(later.computed == 1);
  CHECK_THAT(sweep_table(load_study(path), out), !Contains("failed:") && Contains("step (ms)"));
  CHECK(sweep(load_study(path), {out, 1, {}}).found == 1);
}

TEST_CASE("a file of the user's is not replaced by the kept study") {
  const TemporaryFolder folder;
  const std::string text = "{\"scenario\": " + kSmall + R"(, "axes": [{"key": "/run/seed", "values": [1]}]})";
  const std::string path = folder.write("study.json", text), here = folder.file(".");
  const Study own = load_study(path);
  const Study other = study(R"([{"key": "/run/seed", "values": [1]}])");
  CHECK(refusal(own, here) ==
        "study.json: expected to keep the study here, found a file that the study itself is made of; take "
        "another folder for this sweep");
  CHECK(refusal(other, here) ==
        "study.json: expected to keep the study here, found a file that no sweep wrote; take another folder "
        "for this sweep");
  CHECK(text_of(path) == text);
  CHECK_FALSE(fs::exists(folder.file("results.jsonl")));
  // Results beside it are no leave to replace what the study is read from.
  folder.write("results.jsonl", sweep_line(own, own.points[0]) + "\n");
  CHECK_THAT(refusal(own, here), Contains("the study itself is made of"));
  CHECK(text_of(path) == text);
  // A study that a sweep kept may grow, and runs again as it stands.
  const std::string out = folder.file("out");
  CHECK(refusal(own, out).empty());
  CHECK(refusal(study(R"([{"key": "/run/seed", "values": [1, 2]}])"), out).empty());
  CHECK(refusal(load_study(out + "/study.json"), out).empty());
}

TEST_CASE("an error's line doesn't depend on the working folder") {
  const TemporaryFolder folder;
  fs::create_directories(folder.file("in"));
  Json written = parse_json(kSmall);
  set_at(written, "/model", Json::Object{{"file", "m.json"}}, {});
  folder.write("scenario.json", to_line(written));
  folder.write("in/s.json", R"({"scenario": "../scenario.json", "axes": [{"key": "/run/seed", "values": [1]},
      {"key": "/cluster", "values": ["no/c.json"]}, {"key": "/cluster/nodes", "values": [2]}]})");
  folder.write("in/m.json",
               R"({"scenario": "../scenario.json", "axes": [{"key": "/run/seed", "values": [1]}]})");
  const fs::path before = fs::current_path();
  const auto message = [&](const std::string& from, const std::string& path) {
    fs::current_path(from);
    const Study s = load_study(path);
    const Json line = parse_json(sweep_line(s, s.points[0]));
    fs::current_path(before);
    return *value_at(line, "/error/file")->as<std::string>() + ": " +
           *value_at(line, "/error/message")->as<std::string>();
  };
  const std::string set = "../scenario.json: ../no/c.json: can't be read: No such file or directory",
                    read = "../scenario.json: ../m.json: can't be read: No such file or directory";
  for (const auto& [from, start] : {std::pair{"in", ""}, std::pair{"in", "./"}, std::pair{"in", "../in/"},
                                    std::pair{".", "in/"}, std::pair{".", "./in/"}}) {
    CAPTURE(from, start);
    CHECK(message(folder.file(from), std::string(start) + "s.json") == set);
    CHECK(message(folder.file(from), std::string(start) + "m.json") == read);
  }
  CHECK(message(before, folder.file("in/s.json")) == set);
  CHECK(message(before, folder.file("in/m.json")) == read);
}

TEST_CASE("long values that begin alike have a row each") {
  const TemporaryFolder folder;
  const std::string same(80, 'x');
  const Study s = study(R"([{"key": "/description", "values": [")" + same + R"(1", ")" + same + R"(2"]}])");
  sweep(s, {folder.file("out"), 1, {}});
  CHECK(std::ranges::count(sweep_table(s, folder.file("out")), '\n') == 3);
}

TEST_CASE("a folder serves one sweep at a time, and must be one") {
  const TemporaryFolder folder;
  const Study s = study(R"([{"key": "/run/seed", "values": [1]}])");
  {
    const ResultLines other(folder.file("out"));
    CHECK(refusal(s, folder.file("out")) == "results.jsonl: belongs to another sweep that is running");
  }
  CHECK(refusal(s, folder.file("out")).empty());
  folder.write("file", "");
  CHECK_THAT(refusal(s, folder.file("file")), Contains("can't be made a folder"));
  fs::create_directories(folder.file("odd/results.jsonl"));
  CHECK_THAT(refusal(s, folder.file("odd")), Contains("can't be written"));
}

TEST_CASE("progress counts every line, the found ones too") {
  const TemporaryFolder folder;
  const Study s = study(kAxes);
  std::vector<std::size_t> done;
  std::size_t failed = 0;
  const auto note = [&](const SweepProgress& progress) {
    CHECK(progress.points == 12);
    done.push_back(progress.done);
    failed = progress.failed;
  };
  sweep(s, {folder.file("out"), 3, note});
  CHECK(done == std::vector<std::size_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(failed == 4);
  const std::string text = text_of(results(folder.file("out")));
  fs::resize_file(results(folder.file("out")), text.size() - 1);
  done.clear();
  sweep(s, {folder.file("out"), 1, note});
  CHECK(done == std::vector<std::size_t>{12});
}

TEST_CASE("the table has a row for each combination and the range over seeds") {
  const TemporaryFolder folder;
  const Study s = study(kAxes);
  sweep(s, {folder.file("out"), 1, {}});
  const std::string table = sweep_table(s, folder.file("out"));
  CHECK(std::ranges::count(table, '\n') == 1 + 4 + 1 + 4);
  CHECK_THAT(table,
             Catch::StartsWith(
                 "gpus  batch_per_gpu  step (ms)  samples/s  scaling  5 % to 95 % of seeds (ms)\n   2"));
  CHECK_THAT(
      table,
      Contains(R"({"gpus": 12, "batch_per_gpu": 4, "seed": 1}: s.json: /axes/0: expected GPUs of whole)"));
  // The band goes from 5 % to 95 % of the seeds, interpolated: of two seeds it lies within them.
  const Study two = study(R"([{"key": "/run/seed", "values": [1, 2]}])");
  sweep(two, {folder.file("two"), 1, {}});
  std::vector<double> steps;
  for (const StudyPoint& point : two.points) {
    steps.push_back(*value_at(parse_json(sweep_line(two, point)), "/step_time_s/mean")->as<double>());
  }
  std::ranges::sort(steps);
  const double spread = steps[1] - steps[0];
  REQUIRE(spread > 0);
  std::array<char, 80> band{};
  std::snprintf(band.data(), band.size(), "%.3f to %.3f\n", 1e3 * (steps[0] + 0.05 * spread),
                1e3 * (steps[0] + 0.95 * spread));
  CHECK_THAT(sweep_table(two, folder.file("two")), Catch::EndsWith(band.data()));
  const Study many = study(R"([{"key": "/training/batch_per_gpu", "from": 1, "to": 41, "step": 1}])");
  sweep(many, {folder.file("many"), 2, {}});
  CHECK(sweep_table(many, folder.file("many")).empty());
}

}  // namespace
}  // namespace paceline
