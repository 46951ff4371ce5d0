// `paceline sweep`, `plot`, `schema --study` and `run --set`, as a user runs them; and as kill -9 ends them.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

#include "scenarios/json.h"
#include "studies/edit.h"
#include "studies/study.h"
#include "studies/sweep.h"
#include "tests/dice.h"
#include "tests/files.h"
#include "tests/load_study.h"
#include "tests/studies/small_study.h"

namespace paceline {
namespace {

using Catch::Contains;

Outcome run(const TemporaryFolder& folder, const std::string& arguments, const std::string& before = "") {
  return shell(folder, before + " '" PACELINE_PROGRAM "' " + arguments);
}

TEST_CASE("sweep prints a table, and finds what it computed") {
  const TemporaryFolder folder;
  folder.write("s.json",
               study_text(R"([{"key": "gpus", "values": [1, 8]}, {"key": "/run/seed", "values": [1, 2]}])"));
  const Outcome first = run(folder, "sweep s.json --out out --jobs 2");
  INFO(first.out << first.error);
  CHECK(first.status == 0);
  CHECK_THAT(first.out, Contains("5 % to 95 % of seeds (ms)") &&
                            Contains("out/results.jsonl: 4 points, 0 found, 4 computed\n"));
  CHECK_THAT(first.error, Catch::EndsWith("4 of 4 points\n"));
  const Outcome again = run(folder, "sweep s.json --out out");
  CHECK(again.status == 0);
  CHECK_THAT(again.out, Contains("4 points, 4 found, 0 computed\n"));
}

TEST_CASE("the exit status tells a wrong point, a wrong study and a wrong option") {
  const TemporaryFolder folder;
  folder.write("s.json", study_text(R"([{"key": "gpus", "values": [8, 12]}])"));
  const Outcome point = run(folder, "sweep s.json --out out");
  CHECK(point.status == 2);
  CHECK_THAT(point.out, Contains("{\"gpus\": 12}: s.json: /axes/0: expected GPUs of whole nodes of 8") &&
                            Contains("2 points, 0 found, 1 computed, 1 failed\n"));
  CHECK_THAT(point.error, Contains("2 of 2 points, 1 failed"));
  folder.write("bad.json", study_text("[]"));
  const Outcome study = run(folder, "sweep bad.json --out out2");
  CHECK(study.status == 2);
  CHECK(study.error == "paceline: bad.json: /axes: expected an array of 1 to 20, found an empty array\n");
  CHECK_FALSE(std::filesystem::exists(folder.file("out2")));
  CHECK(run(folder, "sweep s.json --out out3 --jobs 0").status == 2);
  CHECK(run(folder, "sweep s.json").status == 2);
}

#ifndef PACELINE_SANITIZED  // the sanitizer itself needs more than the limit
TEST_CASE("a point that the machine is too small for is no line, and the rest goes on") {
  const TemporaryFolder folder;
  folder.write("s.json", study_text(R"([{"key": "gpus", "values": [800000, 2]}])"));
  const Outcome outcome = run(folder, "sweep s.json --out out --jobs 1", "ulimit -v 200000 &&");
  INFO(outcome.out << outcome.error);
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.error, Contains("gpus 800000: out of memory"));
  CHECK_THAT(outcome.out, Contains("2 points, 0 found, 1 computed, 1 not computed"));
  CHECK(sorted_lines(folder.file("out/results.jsonl")).size() == 1);
}
#endif

TEST_CASE("kill -9 at any moment loses nothing but the points in flight", "[release]") {
  const int kills = thorough() ? 20 : 5, seeds = 10 * kills;
  const TemporaryFolder folder;
  const std::string path = folder.write("s.json", study_text(R"([{"key": "gpus", "values": [1, 2, 4]},
      {"key": "/training/batch_per_gpu", "values": [4, 8]}, {"key": "/run/seed", "from": 1, "step": 1, "to": )" +
                                                             std::to_string(seeds) + "}]"));
  const std::string out = folder.file("killed"), lines = out + "/results.jsonl";
  const auto count = [&] {
    const std::string text = std::filesystem::exists(lines) ? text_of(lines) : "";
    return static_cast<std::size_t>(std::ranges::count(text, '\n'));
  };
  std::minstd_rand random(7);
  int killed = 0;
  std::size_t kept = 0;
  for (int i = 0; i < kills; ++i) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const int null = ::open("/dev/null", O_RDWR);
      ::dup2(null, 1);
      ::dup2(null, 2);
      ::execl(PACELINE_PROGRAM, "paceline", "sweep", path.c_str(), "--out", out.c_str(), "--jobs", "2",
              nullptr);
      ::_exit(127);
    }
    // At any moment after that many more lines: how fast the machine is decides nothing but where in a point.
    const std::size_t more = i % 4 == 0 ? 0 : random() % 8;
    const auto moment = std::chrono::microseconds(random() % (i % 4 == 0 ? 20'000 : 5'000));
    siginfo_t ended{};
    while (count() < kept + more && ended.si_pid == 0) {
      REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(moment);
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    killed += WIFSIGNALED(status) ? 1 : 0;
    CHECK((WIFSIGNALED(status) || WEXITSTATUS(status) == 0));
    CHECK(count() >= kept + more);
    kept = count();
  }
  CHECK(killed == kills);
  const Outcome end = run(folder, "sweep s.json --out killed");
  CHECK(end.status == 0);
  CHECK_THAT(end.out, Contains(std::to_string(6 * seeds) + " points, " + std::to_string(kept) + " found"));
  sweep(load_study(path), {folder.file("whole"), 2, {}});
  CHECK(sorted_lines(lines) == sorted_lines(folder.file("whole/results.jsonl")));
}

TEST_CASE("schema --study is the study's schema") {
  const TemporaryFolder folder;
  const Outcome schema = run(folder, "schema --study");
  CHECK(schema.status == 0);
  CHECK(schema.out == study_schema());
}

TEST_CASE("run --set changes the scenario") {
  const TemporaryFolder folder;
  folder.write("s.json", kSmall);
  const Outcome set = run(folder,
                          "run --set /cluster/node/nics=4 --set /cluster/node/nic_bandwidth='\"400 Gb/s\"' "
                          "--set '/description=as it is' s.json --out r.json --quiet");
  INFO(set.error);
  REQUIRE(set.status == 0);
  const Json result = parse_json(text_of(folder.file("r.json")));
  CHECK(to_line(*value_at(result, "/scenario/cluster/node/nics")) == "4");
  CHECK(to_line(*value_at(result, "/scenario/cluster/node/nic_bandwidth")) == "\"50 GB/s\"");
  CHECK(to_line(*value_at(result, "/description")) == "\"as it is\"");
  CHECK(run(folder, "run s.json --set /a").error ==
        "paceline: --set: expected POINTER=VALUE such as /run/seed=2, found \"/a\"\n");
  const Outcome wrong = run(folder, "run s.json --set /run/seeed=3");
  CHECK(wrong.status == 2);
  CHECK(wrong.error ==
        "paceline: s.json: /run: unknown key \"seeed\"; did you mean \"seed\"? Known: iterations, seed, "
        "engine\n");
}

TEST_CASE("plot without the Python package says what to install") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("bin"));
  std::filesystem::copy_file(PACELINE_PROGRAM, folder.file("bin/paceline"));
  const std::string command =
      "cd '" + folder.file("") + "' && PATH=/nowhere bin/paceline plot out -o x.svg >.out 2>.error";
  const int status = std::system(command.c_str());
  CHECK(WEXITSTATUS(status) == 2);
  CHECK_THAT(text_of(folder.file(".error")),
             Contains("expected Python 3 with the package paceline") && Contains("pip install"));
  // An interpreter beside the program is taken, with all words.
  const std::string python = folder.write(
      "bin/python3", "#!/bin/sh\ncase \"$2\" in *find_spec*) ;; *) shift 2; echo \"$@\" ;; esac\n");
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const std::string plot =
      "cd '" + folder.file("") + "' && bin/paceline plot out --kind step -o x.svg >.out 2>.error";
  CHECK(std::system(plot.c_str()) == 0);
  CHECK(text_of(folder.file(".out")) == "plot --out x.svg --kind step -- out\n");
}

}  // namespace
}  // namespace paceline
