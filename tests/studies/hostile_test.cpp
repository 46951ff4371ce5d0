// What would crash the program, lose a file, or be believed: as a shell runs it.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/json.h"
#include "tests/files.h"
#include "tests/studies/small_study.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

const std::string kProgram = "'" PACELINE_PROGRAM "' ";
const std::string kQuick = " --quiet --no-explain ";

TEST_CASE("no command replaces its own input") {
  const TemporaryFolder folder;
  folder.write("s.json", kSmall);
  folder.write("p.json", R"({"parameters": {"nvlink.efficiency": 0.5}})");
  folder.write("l.csv", "collective,size_bytes,time_us,ranks,nodes\nall_reduce,1048576,100,8,1\n");
  folder.write("c.json", R"({"node": "dgx-a100"})");
  fs::create_symlink("s.json", folder.file("link.json"));
  fs::create_directories(folder.file("logs"));
  folder.write("logs/l.csv", text_of(folder.file("l.csv")));
  const std::vector<std::pair<std::string, std::string>> commands{
      {"run s.json --trace s.json" + kQuick,
       "s.json: --trace: expected a file of its own, found the scenario"},
      {"run s.json --out ./s.json" + kQuick,
       "./s.json: --out: expected a file of its own, found the scenario"},
      {"run link.json --out s.json" + kQuick,
       "s.json: --out: expected a file of its own, found the scenario"},
      {"explain s.json --out link.json", "link.json: --out: expected a file of its own, found the scenario"},
      {"run s.json --profile p.json --out p.json" + kQuick,
       "p.json: --out: expected a file of its own, found the profile"},
      {"run s.json --out r.json --trace ./r.json" + kQuick,
       "./r.json: expected different files for --out and --trace"},
      {"calibrate import l.csv --csv l.csv",
       "l.csv: --csv: expected a file of its own, found one of the measurements"},
      {"calibrate import l.csv --layers l.csv", "l.csv: --layers: expected a file of its own"},
      {"calibrate import logs --csv logs/l.csv", "logs/l.csv: --csv: expected a file of its own"},
      {"calibrate fit l.csv --cluster dgx-a100 -o l.csv",
       "l.csv: --out: expected a file of its own, found one of the measurements"},
      {"calibrate fit l.csv --cluster ./c.json -o c.json",
       "c.json: --out: expected a file of its own, found the cluster"},
      {"calibrate fit l.csv --cluster dgx-a100 --scenario s.json -o s.json",
       "s.json: --out: expected a file of its own, found the scenario"},
      {"topology ./c.json --graphviz c.json",
       "c.json: --graphviz: expected a file of its own, found the cluster"},
      {"calibrate replay s.json --steps s.json",
       "s.json: --steps: expected a file of its own, found the scenario"},
      {"calibrate replay s.json --steps m.csv --measured m.csv",
       "m.csv: expected different files for --steps and --measured"}};
  std::vector<std::string> before;
  const std::vector<std::string> files{"s.json", "p.json", "l.csv", "c.json", "logs/l.csv"};
  for (const std::string& file : files) {
    before.push_back(text_of(folder.file(file)));
  }
  for (const auto& [command, message] : commands) {
    CAPTURE(command);
    const Outcome outcome = shell(folder, kProgram + command);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.error, Catch::StartsWith("paceline: " + message));
    for (std::size_t i = 0; i < files.size(); ++i) {
      CHECK(text_of(folder.file(files[i])) == before[i]);
    }
  }
  // A result may not replace what it is run from either; another place is fine, again and again.
  CHECK(shell(folder, kProgram + "run s.json --out r.json" + kQuick).status == 0);
  CHECK(shell(folder, kProgram + "run s.json --out r.json" + kQuick).status == 0);
  CHECK(shell(folder, kProgram + "run r.json --out r.json" + kQuick).status == 2);
}

TEST_CASE("a rank that there is not ends neither a run nor a sweep") {
  const TemporaryFolder folder;
  folder.write("oob.json", R"({"cluster": "dgx-a100", "model": "resnet18", "training": {"batch_per_gpu": 8},
      "variability": {"slow_gpus": [{"fraction": 0.9, "factor": 2}], "spared_gpus": [-100000]}})");
  const Outcome run = shell(folder, kProgram + "run oob.json" + kQuick);
  CHECK(run.status == 2);
  CHECK_THAT(run.error, Catch::StartsWith("paceline: oob.json: /variability/spared_gpus/0: expected"));
  folder.write("s.json", study_text(R"([{"key": "/variability/spared_gpus", "values": [[-1], [0]]}])"));
  const Outcome sweep = shell(folder, kProgram + "sweep s.json --out out");
  CHECK(sweep.status == 2);
  CHECK_THAT(sweep.out, Contains("2 points, 0 found, 1 computed, 1 failed"));
}

TEST_CASE("whatever is closed at the start, no file of the program gets its number") {
  const TemporaryFolder folder;
  folder.write("s.json", study_text(R"([{"key": "/run/seed", "from": 1, "to": 5, "step": 1}])"));
  for (const char* closed : {"2>&-", "<&-", "<&- 2>&-", "1>&-", "<&- 1>&- 2>&-"}) {
    CAPTURE(closed);
    const std::string out = "out";
    const Outcome outcome = shell(folder, kProgram + "sweep s.json --out " + out + " " + closed);
    const bool can_print = std::string(closed).find("1>") == std::string::npos;
    CHECK(outcome.status == (can_print ? 0 : 2));
    const std::vector<std::string> lines = sorted_lines(folder.file(out + "/results.jsonl"));
    CHECK(lines.size() == 5);
    for (const std::string& line : lines) {
      CHECK_THAT(line, Catch::StartsWith("{\"point\": {\"seed\": "));
    }
    CHECK(shell(folder, kProgram + "sweep s.json --out " + out).status == 0);
    fs::remove_all(folder.file(out));
  }
}

TEST_CASE("an output that can't be written is no success, whatever the command") {
  const TemporaryFolder folder;
  folder.write("s.json", kSmall);
  folder.write("l.csv", "collective,size_bytes,time_us,ranks,nodes\nall_reduce,1048576,100,8,1\n");
  folder.write("study.json", study_text(R"([{"key": "/run/seed", "values": [1]}])"));
  for (const char* command :
       {"calibrate import l.csv", "--help", "run --help", "--version", "presets", "schema",
        "topology dgx-a100", "run s.json --no-explain", "sweep study.json --out out",
        "collective all_reduce --cluster dgx-a100 -e 1K"}) {
    CAPTURE(command);
    const Outcome outcome = shell(folder, kProgram + command + " >/dev/full");
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.error, Contains("paceline: the standard output: can't be written"));
  }
}

void check_harmless(const std::string& text) {
  for (const char* part : {"\x1b", "\x07", "\r", "\xe2\x80\xae", "\xc2\x9b"}) {
    CHECK_THAT(text, !Contains(part));
  }
}

TEST_CASE("what a file says is no command for the terminal") {
  const TemporaryFolder folder;
  folder.write("esc.json", R"({"cluster": {"node": {"preset": "dgx-a100", "name": "\u001b[5mnode\u202e"}},
      "model": {"name": "\u001b[2J\u001b]0;owned\u0007evil\u202e", "layers": [{"name": "\u001b[31mL\u0007\n\r\u009b",
        "parameters": [1000000], "forward_macs": 1000000, "output_elements": 1000}]},
      "training": {"batch_per_gpu": 64}, "description": "d\u001b[31m\u009b31m"})");
  for (const char* command : {"run esc.json", "topology ./esc.json", "run esc.json --no-explain --out r.json",
                              "run esc.json --set /training/batch_per_gpu=0", "run 'a\x1b[2J\xe2\x80\xae'"}) {
    CAPTURE(command);
    const Outcome outcome = shell(folder, kProgram + command);
    check_harmless(outcome.out);
    check_harmless(outcome.error);
  }
  const std::string result = text_of(folder.file("r.json"));
  check_harmless(result);
  CHECK(parse_json(result).find("scenario") != nullptr);
  folder.write("c.json", R"({"node": "dgx-a100"})");
  folder.write("nul.json",
               R"({"cluster": "./c.json\u0000.txt", "model": "resnet18", "training": {"batch_per_gpu": 8}})");
  const Outcome nul = shell(folder, kProgram + "run nul.json" + kQuick);
  CHECK(nul.status == 2);
  CHECK_THAT(nul.error, Contains("/cluster: ") && Contains("zero byte"));
}

TEST_CASE("plot imports nothing from the current folder") {
  if (std::system("python3 -c pass 2>/dev/null") != 0) {
    FAIL("expected python3, found none");
  }
  const TemporaryFolder folder;
  for (const char* place : {"site/paceline", "here/paceline", "here/runpy"}) {
    fs::create_directories(folder.file(place));
  }
  folder.write("site/paceline/__init__.py", "");
  folder.write("site/paceline/__main__.py", "import json, sys\nprint('drawn', *sys.argv[1:])\n");
  const std::string hijack = "print('HIJACKED')\nraise SystemExit(0)\n";
  for (const char* file : {"here/paceline/__init__.py", "here/paceline/__main__.py", "here/json.py",
                           "here/runpy/__init__.py", "here/importlib.py"}) {
    folder.write(file, hijack);
  }
  const Outcome plot =
      shell(folder, "cd here && PYTHONPATH='" + folder.file("site") + "' " + kProgram + "plot x -o y.svg");
  INFO(plot.error);
  CHECK(plot.status == 0);
  CHECK(plot.out == "drawn plot --out y.svg -- x\n");
}

TEST_CASE("the order of costs says nothing") {
  const TemporaryFolder folder;
  const std::string start = R"({"cluster": "dgx-a100", "model": "resnet18", "training": {"batch_per_gpu": 8,
      "collective": {"costs": {)";
  folder.write(
      "a.json",
      start + R"("launch.latency": "5 us", "nvlink.efficiency": 0.9, "block.copy_rate": "20 GB/s"}}}})");
  folder.write(
      "b.json",
      start + R"("nvlink.efficiency": 0.9, "block.copy_rate": "20 GB/s", "launch.latency": "5 us"}}}})");
  for (const char* name : {"a", "b"}) {
    const std::string command = std::string("run ") + name + ".json --out r" + name + ".json" + kQuick;
    CHECK(shell(folder, kProgram + command).status == 0);
  }
  CHECK(text_of(folder.file("ra.json")) == text_of(folder.file("rb.json")));
}

#ifndef PACELINE_SANITIZED  // the sanitizer itself needs more than the limit
TEST_CASE("more threads than the system gives are no fault") {
  const TemporaryFolder folder;
  folder.write("s.json", study_text(R"([{"key": "/run/seed", "from": 1, "to": 60, "step": 1}])"));
  const Outcome outcome =
      shell(folder, "ulimit -v 400000; " + kProgram + "sweep s.json --out out --jobs 1000");
  INFO(outcome.error);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.out, Contains("60 points, 0 found, 60 computed"));
}
#endif

}  // namespace
}  // namespace paceline
