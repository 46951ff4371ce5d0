// Are files written whole or not at all, read once where they should be, and never the wrong ones?
#include "scenarios/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/text.h"
#include "scenarios/json.h"
#include "scenarios/scenario.h"
#include "tests/files.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

std::string complaint_of(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs) {
  try {
    require_apart(inputs, outputs);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("what an earlier run left behind ends no later one") {
  const TemporaryFolder folder;
  folder.write("r.json.tmp-" + std::to_string(::getpid()), "left");
  write_file(folder.file("r.json"), "new");
  CHECK(text_of(folder.file("r.json")) == "new");
  CHECK(entries_of(folder.path()) == 2);
}

TEST_CASE("threads that write one file leave one of their texts, and nothing else") {
  const TemporaryFolder folder;
  const std::string path = folder.file("r.json");
  std::vector<std::string> failures(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < failures.size(); ++t) {
      threads.emplace_back([&, t] {
        try {
          for (int i = 0; i < 25; ++i) {
            write_file(path, std::string(10'000, static_cast<char>('a' + t)));
          }
        } catch (const std::exception& error) {
          failures[t] = error.what();
        }
      });
    }
  }
  CHECK(failures == std::vector<std::string>(4));
  const std::string text = text_of(path);
  CHECK(text == std::string(10'000, text.front()));
  CHECK(entries_of(folder.path()) == 1);
}

TEST_CASE("a file that is replaced keeps its permissions, a new one has the user's") {
  const TemporaryFolder folder;
  const auto mode = [](const std::string& path) {
    struct stat status{};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    return status.st_mode & 07777;
  };
  for (const mode_t kept : {0600, 0640, 0664, 0755}) {
    const std::string path = folder.write("r.json", "old");
    REQUIRE(::chmod(path.c_str(), kept) == 0);
    write_file(path, "new");
    CHECK(mode(path) == kept);
    CHECK(text_of(path) == "new");
  }
  const mode_t before = ::umask(027);
  write_file(folder.file("fresh"), "x");
  ::umask(before);
  CHECK(mode(folder.file("fresh")) == 0640);
}

TEST_CASE("a name with a zero byte is no file's name") {
  const TemporaryFolder folder;
  const std::string path = folder.write("c.json", "kept") + std::string("\0.txt", 5);
  CHECK_THROWS_WITH(read_file(path),
                    Contains("c.json: expected the name of a file, found one with a zero byte"));
  CHECK_THROWS_WITH(write_file(path, "new"), Contains("zero byte"));
  CHECK_THROWS_WITH(require_writable(path), Contains("zero byte"));
  CHECK(text_of(folder.file("c.json")) == "kept");
}

TEST_CASE("an output that is an input, or another output, is refused, by whatever name") {
  const TemporaryFolder folder;
  const std::string s = folder.write("s.json", "{}"), other = folder.write("other.json", "{}");
  fs::create_symlink(s, folder.file("symbolic"));
  fs::create_hard_link(s, folder.file("hard"));
  fs::create_directories(folder.file("in"));
  for (const std::string& name : {s, folder.file("./s.json"), folder.file("in/../s.json"),
                                  folder.file("symbolic"), folder.file("hard")}) {
    CAPTURE(name);
    CHECK(complaint_of({{"the scenario", s}}, {{"--out", name}}) ==
          name + ": --out: expected a file of its own, found the scenario, which it would replace");
  }
  const fs::path before = fs::current_path();
  fs::current_path(folder.file("in"));
  CHECK_THAT(complaint_of({{"the scenario", s}}, {{"--out", "../s.json"}}), Contains("the scenario"));
  fs::current_path(before);
  CHECK(
      complaint_of({{"the scenario", s}}, {{"--out", other}, {"--trace", folder.file("new.json")}}).empty());
  CHECK(complaint_of({}, {{"--out", folder.file("new.json")}, {"--trace", folder.file("in/../new.json")}}) ==
        folder.file("in/../new.json") + ": expected different files for --out and --trace");
  CHECK_THAT(complaint_of({{"one of the measurements", folder.file("")}}, {{"--csv", s}}), Contains("--csv"));
  CHECK(complaint_of({{"one of the measurements", folder.file("")}}, {{"--csv", folder.file("new.csv")}})
            .empty());
  CHECK(complaint_of({{"the scenario", "/dev/null"}}, {{"--out", "/dev/null"}}).empty());
}

TEST_CASE("a text is read once, its absence too") {
  const TemporaryFolder folder;
  const std::string path = folder.write("c.json", "first");
  FileTexts texts;
  CHECK(texts.text(path) == "first");
  folder.write("c.json", "second");
  CHECK(texts.text(path) == "first");
  CHECK(texts.text(folder.file("./c.json")) == "first");
  CHECK_THROWS_WITH(texts.text(folder.file("none")), Contains("can't be read"));
  folder.write("none", "now there");
  CHECK_THROWS_WITH(texts.text(folder.file("none")), Contains("can't be read"));
}

TEST_CASE("five files that name each other are read, a circle is not called what it isn't") {
  const TemporaryFolder folder;
  folder.write("c0.json", R"({"node": "dgx-a100"})");
  for (int i = 1; i <= 8; ++i) {
    folder.write("c" + std::to_string(i) + ".json", R"({"cluster": "./c)" + std::to_string(i - 1) + R"(.json",
        "model": "resnet18", "training": {"batch_per_gpu": 8}})");
  }
  CHECK_NOTHROW(load_scenario(folder.file("c8.json")));
}

TEST_CASE("no command for a terminal leaves in a message or in JSON, and JSON loses nothing") {
  const std::string escape = "\x1b[2J",
                    c1 = "\xc2\x9b"
                         "31m",
                    turned =
                        "a\xe2\x80\xae"
                        "b",
                    isolate = "\xe2\x81\xa6", mark = "\xd8\x9c",
                    kept = "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80";
  CHECK(printable(escape + c1 + turned + isolate + mark) == "?[2J?31ma?b??");
  CHECK(printable("a\tb\nc\rd" + kept) == "a\tb\nc?d" + kept);
  CHECK(printable(std::string("\0\x7f", 2)) == "??");
  CHECK(printable("cut \xe2\x80") == "cut \xe2\x80");
  const std::string all = escape + c1 + turned + isolate + mark + kept;
  const std::string line = to_line(Json(all));
  CHECK(printable(line) == line);
  CHECK(line == R"("\u001b[2J\u009b31ma\u202eb\u2066\u061c)" + kept + '"');
  CHECK(*parse_json(line).as<std::string>() == all);
  CHECK(in_quotes("a\nb\tc" + turned) == "\"a?b?ca?b\"");
  CHECK(printable(pointer("", escape + turned)) == pointer("", escape + turned));
}

TEST_CASE("numbers are printed as under the locale C, of any length") {
  CHECK(formatted("%.4g|%5.1f|%s", 1234.5678, 0.25, "x") == "1235|  0.2|x");
  CHECK(formatted("%s", std::string(5'000, 'y').c_str()) == std::string(5'000, 'y'));
}

}  // namespace
}  // namespace paceline
