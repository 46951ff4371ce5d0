// What does the program answer to a wrong line or file? wrong.txt has one after the other, as typed, and what the
// answer must contain: place, expectation, the nearest right thing. And what people try first must work.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/files.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using nlohmann::json;

const fs::path kTests = kSource / "tests";

// A folder with files of every kind, in which lines are typed.
class Desk {
 public:
  Desk() {
    for (const fs::directory_entry& file : fs::directory_iterator(kTests / "command/files")) {
      fs::copy(file.path(), folder_.path());
    }
    fs::copy(kTests / "input/nccl/h100-dump.xml", folder_.file("topology.xml"));
    fs::copy(kTests / "input/nccl/h100-graphs.xml", folder_.file("graphs.xml"));
    write("utf16.json", std::string("\xff\xfe{\0}\0", 6));
    write("packed.json", "\x1f\x8b\x08");
    write("empty.json", "");
    write("marked.json", "\xef\xbb\xbf" + text("scenario.json"));
    fs::create_symlink(PACELINE_PROGRAM, folder_.file("paceline"));  // beside no measuring program
  }

  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }
  std::string text(const std::string& name) const { return text_of(folder_.file(name)); }

  // A line of bash, without an input.
  Outcome type(const std::string& line) const {
    write(".line", line + '\n');
    return shell(folder_, "PATH=\"$PWD:$PATH\" COLUMNS=80 bash .line");
  }

 private:
  TemporaryFolder folder_;
};

struct WrongLine {
  std::string typed;
  std::vector<std::string> answers;  // parts of the message
};

// "$ LINE", and below it what its answer must contain, a line each.
std::vector<WrongLine> wrong_lines() {
  std::vector<WrongLine> lines;
  std::istringstream in(text_of(kTests / "command/wrong.txt"));
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("$ ")) {
      lines.push_back({line.substr(2), {}});
    } else if (!line.empty() && !line.starts_with('#')) {
      lines.back().answers.push_back(line);
    }
  }
  return lines;
}

TEST_CASE("every wrong line or file is told what is wrong with it, and the nearest right thing") {
  const Desk desk;
  const std::vector<WrongLine> lines = wrong_lines();
  CHECK(lines.size() >= 150);
  for (const WrongLine& line : lines) {
    const Outcome outcome = desk.type(line.typed);
    INFO("$ " << line.typed << '\n' << outcome.out << outcome.error);
    CHECK(outcome.status == 2);
    REQUIRE_FALSE(line.answers.empty());
    for (const std::string& part : line.answers) {
      CHECK_THAT(outcome.error, Contains(part));
    }
    CHECK(outcome.out.empty());
    CHECK(outcome.error.size() < 4000);
  }
}

TEST_CASE("a result is kept when nobody reads the page to its end") {
  const Desk desk;
  const Outcome left = desk.type("paceline run scenario.json --out r.json | head -1; exit ${PIPESTATUS[0]}");
  CHECK(left.status == 0);
  CHECK(left.error.empty());
  CHECK(json::parse(desk.text("r.json")).contains("fingerprint"));
  CHECK(desk.type("paceline presets | true; exit ${PIPESTATUS[0]}").status == 0);
  // What can't be printed for another reason is an error, but no reason to lose the file.
  const Outcome full = desk.type("paceline run scenario.json --no-explain --out full.json > /dev/full");
  CHECK(full.status == 2);
  CHECK(full.error == "paceline: the standard output: can't be written\n");
  CHECK(desk.text("full.json") == desk.type("paceline run scenario.json --no-explain --out -").out);
  for (const char* line :
       {"presets", "--help", "help run", "schema", "calibrate import table.csv", "--version"}) {
    CAPTURE(line);
    CHECK(desk.type(std::string("paceline ") + line + " > /dev/full").status == 2);
  }
}

TEST_CASE("programs that we start end at a broken pipe, as others do") {
  const Desk desk;
  desk.write("python3", "#!/bin/sh\ncase $2 in *find_spec*) exit 0 ;; esac\ngrep SigIgn /proc/self/status\n");
  // Away from where an environment with the package may be.
  REQUIRE(desk.type("chmod +x python3 && mkdir bin && cp '" PACELINE_PROGRAM "' bin").status == 0);
  const Outcome outcome = desk.type("bin/paceline plot x -o y.svg");
  INFO(outcome.out << outcome.error);
  std::smatch mask;
  REQUIRE(std::regex_search(outcome.out, mask, std::regex("SigIgn:\\s*([0-9a-f]+)")));
  CHECK((std::stoull(mask[1], nullptr, 16) >> 12 & 1) == 0);  // 13: SIGPIPE
}

TEST_CASE("a dash is the standard input or output") {
  const Desk desk;
  const Outcome piped = desk.type("paceline run - --no-explain --out - < scenario.json");
  CHECK(piped.status == 0);
  CHECK(json::parse(piped.out).at("gpus") == 16);
  CHECK(desk.type("cat scenario.json | paceline run - --no-explain --out -").out == piped.out);
  const Outcome wrong = desk.type("echo '{\"model\": \"resnet18\"}' | paceline run -");
  CHECK(wrong.error == "paceline: standard input: missing keys \"cluster\" and \"training\"\n");
  CHECK(desk.type("paceline sweep - --out o --jobs 1 < study.json").status == 0);
  CHECK_THAT(desk.type("paceline topology - --graphviz - < cluster.json").out, Catch::StartsWith("graph"));
  CHECK_THAT(desk.type("paceline calibrate import - --csv - < table.csv").out,
             Catch::StartsWith("collective,size_bytes"));
}

TEST_CASE("what people try first is answered") {
  const Desk desk;
  const std::string version = desk.type("paceline --version").out;
  CHECK_THAT(version, Catch::StartsWith("paceline "));
  CHECK(desk.type("paceline -v").out == version);
  CHECK(desk.type("paceline -V").out == version);
  CHECK(desk.type("paceline help").out == desk.type("paceline --help").out);
  for (const char* command : {"run", "explain", "collective", "calibrate", "calibrate fit", "sweep",
                              "validate", "topology", "presets", "schema", "help"}) {
    CAPTURE(command);
    const Outcome help = desk.type("paceline help " + std::string(command));
    CHECK(help.status == 0);
    CHECK_THAT(help.out, Contains("Usage: paceline " + std::string(command)));
    CHECK(desk.type("paceline " + std::string(command) + " --help").out == help.out);
  }
  const Outcome bare = desk.type("paceline");
  CHECK(bare.status == 2);
  CHECK_THAT(bare.error, Contains("paceline run scenarios/first_node.json") && Contains("paceline help"));
}

TEST_CASE("plot and measure explain themselves without Python and MPI") {
  const Desk desk;
  const std::string nowhere = "PATH=/nowhere '" PACELINE_PROGRAM "' ";
  const Outcome plot = desk.type(nowhere + "plot --help");
  CHECK(plot.status == 0);
  // All that Python's own parser knows is said.
  const std::string parser = text_of(kSource / "python/paceline/__main__.py");
  const std::regex word("add_argument\\(\\s*(\"-o\", )?\"(--[a-z]+)\"|\n        \"([a-z-]+)\": plot\\.");
  std::size_t words = 0;
  for (std::sregex_iterator at(parser.begin(), parser.end(), word), end; at != end; ++at, ++words) {
    CHECK_THAT(plot.out, Contains((*at)[2].matched ? (*at)[2].str() : (*at)[3].str()));
  }
  CHECK(words >= 11);
  const Outcome measure = desk.type(nowhere + "calibrate measure --help");
  CHECK(measure.status == 0);
  CHECK_THAT(measure.out, Contains("--straggler [RANK:]TIME"));
}

TEST_CASE("files as other programs write them are read") {
  const Desk desk;
  const std::string result = desk.type("paceline run scenario.json --no-explain --out -").out;
  CHECK(desk.type("paceline run marked.json --no-explain --out -").out == result);  // a byte order mark
  const Outcome machine = desk.type("paceline collective all_reduce --cluster topology.xml -b 1M -e 1M");
  CHECK(machine.status == 0);
  CHECK_THAT(machine.out, Contains("8 GPUs, 1 node of topology.xml"));
  CHECK(desk.type("paceline topology topology.xml").status == 0);
  CHECK(desk.type("paceline run machine.json --no-explain").status == 0);
  CHECK(
      desk.type("paceline run scenario.json --no-explain --set /cluster=topology.xml --set /cluster/nodes=2")
          .status == 0);
}

TEST_CASE("a build says what is missing, and what it does without") {
  const Desk desk;
  const auto configure = [&](const std::string& options) {
    return desk.type("'" PACELINE_CMAKE "' -S '" PACELINE_SOURCE_DIR
                     "' -B build -G Ninja -DPACELINE_TESTS=OFF -DPACELINE_CUDA=OFF " +
                     options + " 2>&1 | tr -s '\\n ' ' '; exit ${PIPESTATUS[0]}");
  };
  const Outcome without_ceres =
      configure("-DCMAKE_DISABLE_FIND_PACKAGE_Ceres=ON -DCMAKE_DISABLE_FIND_PACKAGE_pugixml=ON");
  CHECK(without_ceres.status != 0);
  CHECK_THAT(without_ceres.out,
             Contains("Missing: pugixml 1.12, Ceres 2.1. Debian: apt install libpugixml-dev "
                      "libceres-dev"));
  const Outcome without_mpi = configure(
      "-DCMAKE_DISABLE_FIND_PACKAGE_Ceres=OFF -DCMAKE_DISABLE_FIND_PACKAGE_pugixml=OFF "
      "-DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON");
  CHECK(without_mpi.status == 0);
  CHECK_THAT(without_mpi.out, Contains("No MPI: paceline-measure-mpi is not built"));
  const Outcome without_python = configure("-DPACELINE_PYTHON=ON -DCMAKE_DISABLE_FIND_PACKAGE_Python=ON");
  CHECK(without_python.status != 0);
  CHECK_THAT(without_python.out, Contains("Missing: Python 3.10") && Contains("-DPACELINE_PYTHON=OFF"));
}

}  // namespace
}  // namespace paceline
