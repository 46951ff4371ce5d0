// What does the program answer to a wrong line or file? wrong.txt has one after the other, as typed, and what the
// answer must contain: place, expectation, the nearest right thing. And what people try first must work, and what
// is installed.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "core/version.h"
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
  for (const char* command :
       {"run", "explain", "collective", "calibrate", "calibrate fit", "sweep", "calibrate measure", "plot",
        "report", "validate", "topology", "presets", "schema", "completion", "help"}) {
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

TEST_CASE("plot and report hand their options to the package beside the program") {
  const Desk desk;
  const auto words = [&](const std::string& typed) {
    return desk
        .type("cp '" PACELINE_PROGRAM
              "' here; printf '#!/bin/sh\\nshift 2\\necho \"$@\"\\n' > python3; chmod +x python3; ./here " +
              typed + " | tail -n 1")
        .out;
  };
  CHECK(words("report run.json -o page.html") == "report --out=page.html -- run.json\n");
  CHECK(words("report sweep --serve") == "report --serve -- sweep\n");
  CHECK(words("report --serve sweep") == "report --serve -- sweep\n");
  CHECK(words("report sweep --serve 8771") == "report --serve=8771 -- sweep\n");
  CHECK(words("report run.json -o p --profile f --allow-other-machine --no-explain --step 3 --ranks 0-2,5 "
              "--slices 9") ==
        "report --out=p --profile=f --step=3 --ranks=0-2,5 --slices=9 --allow-other-machine --no-explain -- "
        "run.json\n");
  CHECK(words("plot a b -o c.svg --kind scaling") == "plot --out c.svg --kind scaling -- a b\n");
  CHECK(desk.type("paceline report sweep --serve 70000").status == 2);
}

TEST_CASE("plot, report and measure explain themselves without Python and MPI") {
  const Desk desk;
  const std::string nowhere = "PATH=/nowhere '" PACELINE_PROGRAM "' ";
  const Outcome plot = desk.type(nowhere + "plot --help"), report = desk.type(nowhere + "report --help"),
                sweep = desk.type(nowhere + "sweep --help");
  CHECK((plot.status == 0 && report.status == 0 && sweep.status == 0));
  // All that Python's own parser knows is said.
  const std::string parser = text_of(kSource / "python/paceline/__main__.py");
  const std::regex word("add_argument\\(\\s*(\"-o\", )?\"(--[a-z-]+)\"|\n        \"([a-z-]+)\": plot\\.");
  std::size_t words = 0;
  for (std::sregex_iterator at(parser.begin(), parser.end(), word), end; at != end; ++at, ++words) {
    CHECK_THAT(plot.out + report.out + sweep.out,
               Contains((*at)[2].matched ? (*at)[2].str() : (*at)[3].str()));
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

// ---- what an installation holds: made of the command line itself ----

// What a page of help says below a heading: the first word of each line.
std::vector<std::string> words_below(const std::string& help, const std::string& heading) {
  std::vector<std::string> words;
  std::istringstream in(help);
  bool below = false;
  for (std::string line; std::getline(in, line);) {
    if (below && line.starts_with("  ") && line[2] != ' ') {
      words.push_back(line.substr(2, line.find(' ', 2) - 2));
    } else if (!line.starts_with(' ')) {
      below = line == heading;
    }
  }
  return words;
}

// Every command with its page: "", "run", "calibrate", "calibrate fit", ...
void add_pages(const Desk& desk, const std::string& command,
               std::vector<std::pair<std::string, std::string>>& pages) {
  const std::string page = desk.type("paceline help " + command).out;
  pages.emplace_back(command, page);
  for (const std::string& below : words_below(page, "Subcommands:")) {
    add_pages(desk, command + (command.empty() ? "" : " ") + below, pages);
  }
}

std::vector<std::string> options_on(const std::string& page) {
  std::vector<std::string> options;
  for (const std::string& names : words_below(page, "Options:")) {
    std::istringstream in(names);
    for (std::string name; std::getline(in, name, ',');) {
      options.push_back(name);
    }
  }
  return options;
}

std::string without_roff(const std::string& page) {
  return std::regex_replace(std::regex_replace(page, std::regex(R"(\\f[BIR]|\\&)"), ""), std::regex(R"(\\-)"),
                            "-");
}

TEST_CASE("the manual page and completion know every command and option that --help knows") {
  const Desk desk;
  std::vector<std::pair<std::string, std::string>> pages;
  add_pages(desk, "", pages);
  CHECK(pages.size() >= 15);
  const std::string manual = without_roff(desk.type("paceline help --man").out);
  const std::string zsh = desk.type("paceline completion zsh").out;
  const std::string fish = desk.type("paceline completion fish").out;
  for (const auto& [command, page] : pages) {
    const std::string name = command.empty() ? "" : ' ' + command;
    CAPTURE(command, page);
    const std::string heading = command.empty() ? "\n.SH OPTIONS\n" : "\n.SS paceline" + name + '\n';
    const std::size_t begin = manual.find(heading);
    REQUIRE(begin != std::string::npos);
    const std::size_t end = manual.find("\n.S", begin + heading.size());
    const std::string section = manual.substr(begin, end - begin);
    const std::vector<std::string> options = options_on(page);
    CHECK(options.size() >= 2);
    desk.write("complete", "source <(paceline completion bash)\nCOMP_WORDS=(paceline" + name +
                               " \"$1\"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_paceline; printf ' %s' "
                               "\"${COMPREPLY[@]}\" ' '\n");
    const std::string completed = desk.type("bash complete -").out;
    for (const std::string& option : options) {
      CAPTURE(option);
      CHECK_THAT(section, Contains(option));
      CHECK_THAT(completed, Contains(' ' + option + ' '));
      CHECK_THAT(zsh, Contains('\'' + option + ':'));
      CHECK_THAT(fish, Contains((option.starts_with("--") ? " -l " : " -s ") +
                                option.substr(option.find_first_not_of('-'))));
    }
    for (const std::string& below : words_below(page, "Subcommands:")) {
      CHECK_THAT(desk.type("bash complete ''").out, Contains(' ' + below + ' '));
      CHECK_THAT(fish, Contains(" -a " + below));
    }
  }
  CHECK_THAT(manual, Contains("--straggler [RANK:]TIME") && Contains("Exit status"));
}

TEST_CASE("bash completes names, and leaves files to itself") {
  const Desk desk;
  const auto completed = [&](const std::string& line) {
    desk.write("complete",
               "source <(paceline completion bash)\nCOMP_WORDS=(" + line +
                   "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_paceline; echo \"${COMPREPLY[*]}\"\n");
    return desk.type("bash complete").out;
  };
  CHECK(completed("paceline ex") == "explain\n");
  CHECK(completed("paceline calibrate f") == "fit\n");
  CHECK(completed("paceline collective all_r") == "all_reduce\n");
  CHECK(completed("paceline collective all_reduce --cluster dgx1-v") == "dgx1-v100\n");
  CHECK(completed("paceline topology dgx1-v") == "dgx1-v100\n");
  CHECK(completed("paceline completion z") == "zsh\n");
  CHECK(completed("paceline help calib") == "calibrate\n");
  CHECK_THAT(completed("paceline calibrate measure --strag"), Contains("--straggler"));
  CHECK(completed("paceline run scenario") == "\n");
  CHECK(completed("paceline run run --qui") == "--quiet\n");  // a file called run
}

TEST_CASE("the version is said with commit and model version, and no result knows the commit") {
  const Desk desk;
  const std::string version = desk.type("paceline --version").out;
  std::smatch parts;
  REQUIRE(std::regex_match(version, parts,
                           std::regex(R"((paceline [0-9.]+)( \((.+)\))?(, model version \d+)\n)")));
  CHECK(parts[1].str() + parts[4].str() == paceline::version_text());
  CHECK(parts[2].matched == fs::exists(kSource / ".git"));
  if (parts[2].matched) {
    CHECK(std::regex_match(parts[3].str(), std::regex(R"((v\d.*|[0-9a-f]{12})(-dirty)?)")));
    CHECK_FALSE(desk.type("paceline run scenario.json --out -").out.find(parts[3]) != std::string::npos);
  }
}

TEST_CASE("the commit is the repository's, and none in a tarball, nothing is written for the same one") {
  const Desk desk;
  const std::string script = "'" PACELINE_CMAKE "' -D SOURCE=$PWD/tree -D FILE=$PWD/commit.cpp -P '" +
                             (kSource / "cmake/commit.cmake").string() + "'";
  // A tarball that was unpacked in somebody's repository.
  REQUIRE(desk.type("git init -q . && mkdir tree && " + script).status == 0);
  CHECK_THAT(desk.text("commit.cpp"), Contains("return \"\";"));
  const std::string commit = "git -C tree -c user.name=a -c user.email=b commit -q --allow-empty -m c";
  REQUIRE(desk.type("git init -q tree && " + commit + " && git -C tree tag v9.8 && " + script).status == 0);
  CHECK_THAT(desk.text("commit.cpp"), Contains("return \"v9.8\";"));
  REQUIRE(desk.type("touch -d 2001-01-01 commit.cpp && " + script).status == 0);
  CHECK(desk.type("find commit.cpp -newermt 2002-01-01").out.empty());
  REQUIRE(desk.type(commit + " && " + script).status == 0);
  CHECK_THAT(desk.text("commit.cpp"), Contains("return \"v9.8-1-g"));
}

TEST_CASE("an installation works from any folder, over an older one, and says why it can't be made") {
  const Desk desk;
  const auto install = [&](const std::string& prefix) {
    return desk.type("'" PACELINE_CMAKE "' --install '" PACELINE_BUILD "' --component program --prefix '" +
                     prefix + "'");
  };
  REQUIRE(desk.type("mkdir -p 'my programs/bin' && echo old > 'my programs/bin/paceline'").status == 0);
  REQUIRE(install("my programs").status == 0);
  const std::string program = "'../my programs/bin/paceline'";
  REQUIRE(desk.type("mkdir elsewhere").status == 0);
  const auto elsewhere = [&](const std::string& line) { return desk.type("cd elsewhere && " + line); };
  CHECK(elsewhere(program + " --version").out == desk.type("paceline --version").out);
  const std::string share = "'../my programs/share/";
  const Outcome run =
      elsewhere(program + " run " + share + "paceline/scenarios/slow_gpu_64.json' --no-explain");
  CHECK(run.status == 0);
  CHECK(elsewhere(program + " sweep " + share + "paceline/scenarios/studies/bucket_size.json' --out o")
            .status == 0);
  // What the first page and the documents name is where the installation has it.
  CHECK_THAT(elsewhere(program).error, Contains("my programs/share/paceline/scenarios/first_node.json"));
  const Outcome example = elsewhere(program + " run scenarios/slow_gpu_64.json");
  CHECK(example.status == 2);
  CHECK_THAT(example.error, Contains("scenarios/slow_gpu_64.json: there is none here; did you mean /") &&
                                Contains("my programs/share/paceline/scenarios/slow_gpu_64.json?"));
  const auto text = [&](const std::string& file) { return desk.text("my programs/share/" + file); };
  CHECK(text("man/man1/paceline.1") == desk.type("paceline help --man").out);
  CHECK(text("bash-completion/completions/paceline") == desk.type("paceline completion bash").out);
  CHECK(text("paceline/scenarios/schema/scenario.schema.json") == desk.type("paceline schema").out);
  // Also root can't make a folder below a file.
  const Outcome barred = install("scenario.json/prefix");
  CHECK(barred.status != 0);
  CHECK_THAT(barred.error, Contains("scenario.json/prefix"));
}

TEST_CASE("a build says what is missing, and what it does without") {
  const Desk desk;
  const auto configure = [&](const std::string& options) {
    return desk.type("'" PACELINE_CMAKE "' -S '" + kSource.string() +
                     "' -B build -G Ninja -DPACELINE_TESTS=OFF -DPACELINE_CUDA=OFF " + options +
                     " 2>&1 | tr -s '\\n ' ' '; exit ${PIPESTATUS[0]}");
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
