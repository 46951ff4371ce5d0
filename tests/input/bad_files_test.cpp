// Does every bad file give the documented message? bad/NAME.json has its message in bad/NAME.expect: what()
// without the folder and, where it begins so, without "NAME.json: ". And the files that are too bad to keep
// in a repository.
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "scenarios/campaign.h"
#include "scenarios/files.h"
#include "scenarios/json.h"
#include "scenarios/predict.h"
#include "tests/files.h"
#include "tests/input/scenario_error.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

// What the program would print; "" when the file is accepted. Anything but an InputError passes through.
std::string complaint(const std::string& path) {
  try {
    Scenario scenario = load_scenario(path);
    scenario.run.iterations = std::min(scenario.run.iterations, 2);
    try {
      Machines machines;
      if (simulates_steps(scenario)) {
        predict(scenario, {}, machines);
      }
      if (scenario.faults) {
        predict_campaign(scenario, machines);
      }
    } catch (const InputError& error) {
      throw error.in_file(path);
    }
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string without(std::string text, const std::string& part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part)) {
    text.erase(at, part.size());
  }
  return text;
}

TEST_CASE("every bad file gives its message") {
  const fs::path folder = kSource / "tests/input/bad";
  std::size_t files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") {
      ++files;
      CAPTURE(entry.path().filename().string());
      std::string found = without(complaint(entry.path().string()), folder.string() + "/");
      const std::string own = entry.path().filename().string() + ": ";
      found = found.starts_with(own) ? found.substr(own.size()) : found;
      const std::string expected = text_of(fs::path(entry.path()).replace_extension(".expect"));
      CHECK(found + '\n' == expected);
    }
  }
  CHECK(files >= 300);
}

TEST_CASE("a file of 1 GB is refused without being read") {
  const TemporaryFolder folder;
  const std::string path = folder.file("large.json");
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(fd >= 0);
  REQUIRE(::ftruncate(fd, 1 << 30) == 0);
  ::close(fd);
  CHECK(complaint(path) == path + ": expected a file of at most 64 MiB, found a larger one");
}

TEST_CASE("what is no regular file is read within bounds") {
  const TemporaryFolder folder;
  CHECK(complaint("/dev/zero") == "/dev/zero: expected a file of at most 64 MiB, found a larger one");
  CHECK(complaint("/dev/null") == "/dev/null: expected JSON, found an empty file");
  CHECK(complaint(folder.file("")) == folder.file("") + ": can't be read: is a directory");
  CHECK(complaint(folder.file("none.json")) ==
        folder.file("none.json") + ": can't be read: No such file or directory");
  const std::string fifo = folder.file("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(complaint(fifo) ==
        fifo + ": expected JSON, found an empty file");  // nobody writes: no waiting either
}

TEST_CASE("a pipe is read like a file") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const std::string text =
      R"({"cluster": "dgx-a100", "model": "resnet18", "training": {"batch_per_gpu": 0}})";
  REQUIRE(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  CHECK_THAT(complaint("/dev/fd/" + std::to_string(ends[0])), Contains("/training/batch_per_gpu: expected"));
  ::close(ends[0]);
}

// While it lives, files' permissions bind this thread even where it is root's.
class WithoutPrivilege {
 public:
  WithoutPrivilege() {
    REQUIRE(::syscall(SYS_capget, &of_, had_.data()) == 0);
    std::array<__user_cap_data_struct, 2> less = had_;
    less[0].effective &= ~(1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH);
    REQUIRE(::syscall(SYS_capset, &of_, less.data()) == 0);
  }
  WithoutPrivilege(const WithoutPrivilege&) = delete;
  WithoutPrivilege& operator=(const WithoutPrivilege&) = delete;
  ~WithoutPrivilege() { ::syscall(SYS_capset, &of_, had_.data()); }

 private:
  __user_cap_header_struct of_{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> had_{};
};

TEST_CASE("a file without permission is an input error") {
  const TemporaryFolder folder;
  const std::string path = folder.write("secret.json", "{}");
  fs::permissions(path, fs::perms::none);
  const WithoutPrivilege here;
  CHECK(complaint(path) == path + ": can't be read: Permission denied");
}

TEST_CASE("nesting of any depth is refused without recursion") {
  constexpr std::size_t kDepth = 20'000'000;
  CHECK_THAT(scenario_error(std::string(kDepth, '[')), Contains("at most 64 arrays and objects"));
  std::string objects;
  for (std::size_t i = 0; i < kDepth / 20; ++i) {
    objects += "{\"a\":";
  }
  CHECK_THAT(scenario_error(objects), Contains("at most 64 arrays and objects"));
  // 64 levels are read; one more is not.
  CHECK_NOTHROW(parse_json(std::string(64, '[') + std::string(64, ']')));
  CHECK_THROWS_AS(parse_json(std::string(65, '[') + std::string(65, ']')), InputError);
}

TEST_CASE("large documents are refused", "[release]") {
  std::string zeros = "[0";
  for (int i = 0; i < 6'000'000; ++i) {
    zeros += ",0";
  }
  std::string keys = "{";
  for (int i = 0; i < 500'000; ++i) {
    keys += "\"k" + std::to_string(i) + "\":0,";
  }
  const std::string twice = keys + "\"k7\":1}";
  keys += "\"end\":1}";
  CHECK_THAT(scenario_error(zeros + "]"), Contains("at most 5000000 values"));
  CHECK_THAT(scenario_error(keys), Contains("unknown key \"k0\""));
  CHECK_THAT(scenario_error(twice), Contains("found \"k7\" twice"));
  CHECK_THAT(scenario_error('"' + std::string(50'000'000, 'x') + '"'), Contains("expected an object"));
}

TEST_CASE("messages stay short and on one line") {
  const std::string long_text(100'000, 'a');
  const std::vector<std::string> texts{
      "{\"" + long_text + "\": 1}",       "{\"cluster\": \"" + long_text + "\"}",
      "{\"cluster\": " + long_text + "}", R"({"cluster": {"node": {"preset": "a\nb"}}})",
      R"({"cluster": {"a\u0007b": 1}})",  "{\"description\": " + std::string(100'000, '1') + "}"};
  for (const std::string& text : texts) {
    const std::string found = scenario_error(text);
    CHECK(found.size() > 10);
    CHECK(found.size() < 700);
    CHECK(std::ranges::none_of(found, [](char c) { return static_cast<unsigned char>(c) < 0x20; }));
  }
  // Cut between characters, never inside one.
  std::string umlauts;
  for (int i = 0; i < 100; ++i) {
    umlauts += "\xc3\xa4";
  }
  const std::string found = scenario_error("{\"a" + umlauts + "\": 1}");
  CHECK_NOTHROW(parse_json("\"" + without(found, "\"") + "\""));
}

TEST_CASE("a scenario cut anywhere, or with any byte changed, is refused or read, never worse") {
  const std::string whole =
      R"({"cluster": {"node": "dgx-a100", "nodes": 2, "degraded_links": [{"from": "leaf0", "bandwidth_factor": 0.5}]},
    "model": {"name": "m", "layers": [{"name": "l", "parameters": [10], "forward_macs": 1, "output_elements": 1}]},
    "training": {"batch_per_gpu": 4, "measured": "10 samples/s", "slowdown_while_communicating": 1.5},
    "variability": {"per_operation": {"distribution": "gamma", "cv": 0.25}}})";
  REQUIRE(scenario_error(whole).empty());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CHECK_FALSE(scenario_error(whole.substr(0, i)).empty());
    for (const char c : {'\0', '"', '{', '}', '9', '-', '\xff', ' '}) {
      std::string changed = whole;
      changed[i] = c;
      CHECK_NOTHROW(scenario_error(changed));
    }
  }
}

// ---- files that NCCL wrote, or might have ----

// What a scenario answers whose node is the machine of this file.
std::string complaint_about_machine(const TemporaryFolder& folder, const std::string& text) {
  std::ofstream(folder.file("m.xml"), std::ios::binary) << text;
  const std::string scenario = folder.file("s.json");
  std::ofstream(scenario) << R"({"cluster": {"node": {"nccl_topology": "m.xml", "gpu": "H100"}},
      "model": "resnet18", "training": {"batch_per_gpu": 1}})";
  return without(complaint(scenario), folder.file(""));
}

std::string machine(const std::string& inside) {
  return "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\">\n" + inside +
         "</cpu>\n</system>\n";
}
std::string gpu_at(int bus, int dev, const std::string& inside = "") {
  const std::string digits = "0123456789abcdef";
  const std::string text = {digits[static_cast<std::size_t>(bus / 16)],
                            digits[static_cast<std::size_t>(bus % 16)]};
  return "<pci busid=\"0000:" + text + ":00.0\" class=\"0x030200\"><gpu dev=\"" + std::to_string(dev) +
         "\" sm=\"90\">" + inside + "</gpu></pci>\n";
}
std::string nvlink_to(int bus) {
  return "<nvlink target=\"0000:0" + std::to_string(bus) + ":00.0\" tclass=\"0x030200\"/>";
}

TEST_CASE("a topology file that is none says so, with file and line") {
  const TemporaryFolder folder;
  const std::string good = text_of(kSource / "tests/input/nccl/h100-dump.xml");
  REQUIRE(complaint_about_machine(folder, good).empty());
  std::string bomb = "<?xml version=\"1.0\"?>\n<!DOCTYPE x [\n<!ENTITY a \"ha\">\n";
  for (char c = 'b'; c <= 'z'; ++c) {
    bomb += std::string("<!ENTITY ") + c + " \"" +
            repeated(std::string("&") + static_cast<char>(c - 1) + ';', 10) + "\">\n";
  }
  bomb += "]>\n<system version=\"1\">&z;</system>\n";
  const std::vector<std::pair<std::string, std::string>> bad{
      {"", "m.xml: line 1: expected XML, found this: No document element found"},
      {"hello\n", "m.xml: line 2: expected XML, found this: No document element found"},
      {"{\"a\": 1}", "m.xml: line 1: expected XML, found this: No document element found"},
      {good.substr(0, good.size() / 2), "m.xml: line 65: expected XML, found this: "},
      {good + good, "m.xml: line 133: expected nothing after </system>, found <system>"},
      {good.substr(0, 200) + '\0' + good.substr(200), "m.xml: line 3: expected text, found a byte 0"},
      {bomb, "m.xml: line 2: expected no DOCTYPE, found one"},
      {"<!DOCTYPE system SYSTEM \"file:///etc/passwd\">\n<system version=\"1\"/>",
       "m.xml: line 1: expected no DOCTYPE, found one"},
      {machine("<pci busid=\"&x;\"/>"),
       "m.xml: line 3: expected a PCI bus id such as \"0000:0f:00.0\" as busid of <pci>, found \"&x;\""},
      {"<system version=\"2\"/>", "m.xml: line 1: expected version 1 of the format, found 2"},
      {machine(""), "m.xml: line 1: expected a machine with a GPU, found none"},
      {machine(gpu_at(1, 0) + gpu_at(1, 1)),
       "m.xml: line 4: expected each busid once, found \"0000:01:00.0\" again"},
      {machine(gpu_at(1, 0) + gpu_at(2, 0)),
       "m.xml: line 4: expected each GPU of a host to have its own dev, found 0 again"},
      {machine(gpu_at(1, 0, nvlink_to(1))),
       "m.xml: line 3: expected another GPU as target of <nvlink>, found the GPU itself"},
      {machine(gpu_at(1, 0, "<nvlink target=\"0000:02:00.0\" count=\"-1\"/>")),
       "m.xml: line 3: expected a whole number from 0 to 1000 as count of <nvlink>, found \"-1\""},
  };
  for (const auto& [text, expected] : bad) {
    CAPTURE(expected);
    CHECK_THAT(complaint_about_machine(folder, text), Catch::StartsWith(expected));
  }
}

TEST_CASE("GPUs whose NVLinks go in a circle are a machine") {
  const TemporaryFolder folder;
  CHECK(complaint_about_machine(folder, machine(gpu_at(1, 0, nvlink_to(2)) + gpu_at(2, 1, nvlink_to(3)) +
                                                gpu_at(3, 2, nvlink_to(1))))
            .empty());
}

TEST_CASE("a topology file of any size and depth is refused within bounds") {
  const TemporaryFolder folder;
  const std::string deep = "<pci busid=\"0000:01:00.0\" class=\"0x060400\">";
  CHECK_THAT(complaint_about_machine(folder, machine(repeated(deep, 100) + repeated("</pci>", 100))),
             Catch::StartsWith("m.xml: line 3: expected at most 64 elements inside each other"));
  CHECK_THAT(complaint_about_machine(folder, repeated("<a>", 200'000) + repeated("</a>", 200'000)),
             Catch::StartsWith("m.xml: line 1: expected at most 64 elements inside each other"));
  CHECK_THAT(complaint_about_machine(folder, repeated("<a>", 400'000)),
             Catch::StartsWith("m.xml: line 1: expected XML, found this: "));
  CHECK(complaint_about_machine(folder, machine(repeated("<a/>", 600'000))) ==
        "m.xml: expected at most 500000 elements, found more");
  CHECK_THAT(complaint_about_machine(folder, machine(repeated("<pci/>", 400'000))),
             Catch::StartsWith("m.xml: line 3: "));
  CHECK_THAT(
      complaint_about_machine(folder, machine(gpu_at(1, 0, repeated(nvlink_to(2), 200'000)) + gpu_at(2, 1))),
      !Contains("internal"));
  CHECK(complaint_about_machine(folder, machine("<!--" + std::string(17 << 20, 'x') + "-->"))
            .starts_with("m.xml: expected at most 16777216 bytes, found "));
  const std::string large = folder.file("m.xml");
  complaint_about_machine(folder, "");
  fs::resize_file(large, 100 << 20);
  CHECK(without(complaint(folder.file("s.json")), folder.file("")) ==
        "s.json: /cluster/node/nccl_topology: m.xml: expected a file of at most 64 MiB, found a larger one");
}

TEST_CASE("what is no topology file at all is an input error of the scenario") {
  const TemporaryFolder folder;
  const auto answer = [&](const std::string& name) {
    const std::string scenario = folder.file("s.json");
    std::ofstream(scenario) << "{\"cluster\": {\"node\": {\"nccl_topology\": \"" + name +
                                   "\"}}, \"model\": \"resnet18\", \"training\": {\"batch_per_gpu\": 1}}";
    return without(complaint(scenario), folder.file(""));
  };
  const std::string place = "s.json: /cluster/node/nccl_topology: ";
  CHECK(answer("/dev/zero") == place + "/dev/zero: expected a file of at most 64 MiB, found a larger one");
  CHECK(answer("none.xml") == place + "none.xml: can't be read: No such file or directory");
  CHECK(answer(".") == place + ".: can't be read: is a directory");
  CHECK_THAT(answer("/dev/null"), Catch::StartsWith("/dev/null: line 1: expected XML"));
  CHECK_THAT(answer("s.json"), Catch::StartsWith("s.json: line 1: expected XML"));
  REQUIRE(::mkfifo(folder.file("fifo").c_str(), 0600) == 0);
  CHECK_THAT(answer("fifo"), Catch::StartsWith("fifo: line 1: expected XML"));
}

TEST_CASE("what is written appears whole or not at all") {
  const TemporaryFolder folder;
  const std::string good = folder.file("good.json"), bad = folder.file("none/bad.json");
  const std::vector<OutputFile> files{{good, "1"}, {bad, "2"}};
  CHECK_THROWS_AS(write_files(files), InputError);
  CHECK(entries_of(folder.path()) == 0);
  write_file(good, "first");
  write_file(good, "second");
  CHECK(text_of(good) == "second");
  CHECK(entries_of(folder.path()) == 1);
  // A link is followed; a directory is refused; a device is written to, not replaced.
  fs::create_symlink(good, folder.file("link"));
  write_file(folder.file("link"), "third");
  CHECK(text_of(good) == "third");
  CHECK(fs::is_symlink(folder.file("link")));
  CHECK_THROWS_WITH(write_file(folder.file(""), "x"), Contains("is a directory"));
  write_file("/dev/null", "x");
  CHECK(fs::is_character_file("/dev/null"));
  CHECK_THROWS_WITH(require_writable(bad), Contains("No such file"));
  CHECK_THROWS_WITH(require_writable(good + "/x"), Contains("can't be written"));
  CHECK_NOTHROW(require_writable(good));
}

}  // namespace
}  // namespace paceline
