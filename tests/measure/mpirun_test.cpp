// Whole runs of paceline-measure-mpi by mpirun: several processes on this machine, real messages, real
// faults.
#ifdef PACELINE_MPIRUN

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "calibrate/measure/result_file.h"
#include "tests/files.h"

namespace paceline::measure {
namespace {

using Catch::Matchers::Contains;

struct Outcome {
  int status = -1;
  std::string output;
};

// A run that hangs ends with status 124.
Outcome run(int ranks, const std::string& options) {
  const std::string command = "timeout 100 " PACELINE_MPIRUN
                              " --allow-run-as-root --oversubscribe --bind-to none -np " +
                              std::to_string(ranks) + " " PACELINE_MEASURE " " + options + " 2>&1 </dev/null";
  Outcome outcome;
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  while (const std::size_t size = fread(buffer, 1, sizeof buffer, pipe)) {
    outcome.output.append(buffer, size);
  }
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return outcome;
}

using Row = std::map<std::string, std::string>;

std::vector<Row> rows_of(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  CHECK(line == csv_header());
  const std::vector<std::string> names = csv_fields(line);
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    const std::vector<std::string> fields = csv_fields(line);
    REQUIRE(fields.size() == names.size());
    Row row;
    for (std::size_t i = 0; i < names.size(); ++i) {
      row[names[i]] = fields[i];
    }
    rows.push_back(row);
  }
  return rows;
}

double number(const Row& row, const std::string& column) { return std::stod(row.at(column)); }

TEST_CASE("all collectives are measured with three ranks, and a second run adds nothing", "[mpirun]") {
  const TemporaryFolder folder;
  const std::string out = folder.file("a.csv");
  const std::string options = "--sizes 4,100K --kernels none --repeats 5 --budget 0.1 --out " + out;
  const Outcome first = run(3, options);
  INFO(first.output);
  REQUIRE(first.status == 0);
  CHECK_THAT(first.output, Contains("[10/10] sendrecv 102400 B"));
  const std::vector<Row> rows = rows_of(out);
  REQUIRE(rows.size() == 10);
  for (const Row& row : rows) {
    CHECK(row.at("kind") == "collective");
    CHECK(row.at("backend") == "mpi");
    CHECK(row.at("ranks") == "3");
    CHECK(row.at("nodes") == "1");
    CHECK(row.at("gpus_per_node") == "3");
    CHECK(row.at("repeats") == "5");
    CHECK_FALSE(row.at("library").empty());
    CHECK_FALSE(row.at("host").empty());
    CHECK(number(row, "min_us") > 0);
    CHECK(number(row, "min_us") <= number(row, "time_us"));
    CHECK(number(row, "time_us") <= number(row, "max_us"));
  }
  CHECK(rows[2].at("size_bytes") == "12");      // all_gather of 4 B: an element from each of three
  CHECK(rows[3].at("size_bytes") == "102396");  // and of 100 KiB: a multiple of 12
  const std::string before = text_of(out);
  REQUIRE(run(3, options).status == 0);
  CHECK(text_of(out) == before);
  // Resumed with more sizes: only those are added.
  REQUIRE(run(3, "--sizes 4,100K,8K --kernels none --collectives all_reduce --repeats 5 --budget 0.1 --out " +
                     out)
              .status == 0);
  CHECK(rows_of(out).size() == 11);
  CHECK(rows_of(out).back().at("size_bytes") == "8192");
}

TEST_CASE("a straggler of 20 ms shows up", "[mpirun]") {
  const TemporaryFolder folder;
  const std::string out = folder.file("s.csv");
  const Outcome outcome =
      run(2,
          "--collectives all_reduce --sizes 1K --kernels none --straggler 20ms --repeats 7 "
          "--quiet --out " +
              out);
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  const std::vector<Row> rows = rows_of(out);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("condition").empty());
  CHECK(rows[1].at("condition") == "straggler=1:20000");
  CHECK(number(rows[1], "min_us") >= 20e3);
}

TEST_CASE("a collective beside a kernel and a kernel beside a collective", "[mpirun]") {
  const TemporaryFolder folder;
  const std::string out = folder.file("o.csv");
  const Outcome outcome = run(2,
                              "--collectives all_reduce --sizes 256K --kernels none --overlap --repeats 5 "
                              "--budget 0.2 --out " +
                                  out);
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  const std::vector<Row> rows = rows_of(out);
  REQUIRE(rows.size() == 3);
  CHECK(rows[1].at("name") == "all_reduce");
  CHECK(rows[1].at("condition") == "beside=gemm");
  CHECK(rows[2].at("name") == "gemm");
  CHECK(rows[2].at("kind") == "kernel");
  CHECK(rows[2].at("condition") == "beside=all_reduce:262144");
  CHECK(number(rows[2], "repeats") >= 5);
  CHECK(number(rows[2], "work_flop") == 2.0 * 1024 * 1024 * 1024);
}

TEST_CASE("a rank that dies, hangs, freezes or disagrees is named, and what was measured is kept",
          "[mpirun]") {
  struct Case {
    std::string fault, verb;
  };
  for (const Case& test : {Case{"die:2", "died"}, Case{"hang:1", "hangs"}, Case{"freeze:2", "hangs"},
                           Case{"wrong:3", "disagrees"}, Case{"die:0", "died"}, Case{"hang:0", "hangs"},
                           Case{"wrong:0", "disagrees"}}) {
    const TemporaryFolder folder;
    const std::string out = folder.file("f.csv");
    const Outcome outcome = run(4,
                                "--collectives all_reduce,broadcast --sizes 4,1K --kernels none --repeats 5 "
                                "--timeout 3 --quiet --fault " +
                                    test.fault + ":3 --out " + out);
    INFO(test.fault << "\n" << outcome.output);
    CHECK(outcome.status != 0);
    CHECK(outcome.status != 124);  // it did end by itself
    CHECK_THAT(outcome.output,
               Contains("paceline-measure: rank " + test.fault.substr(test.fault.size() - 1) + " on "));
    CHECK_THAT(outcome.output, Contains(" " + test.verb + " during broadcast 1024 B"));
    if (test.fault != "die:0") {  // dead men count no rows
      CHECK_THAT(outcome.output, Contains("kept 3 rows in " + out));
    }
    CHECK(rows_of(out).size() == 3);
  }
}

TEST_CASE("what a fault interrupted is resumed", "[mpirun]") {
  const TemporaryFolder folder;
  const std::string out = folder.file("r.csv");
  const std::string options =
      "--collectives all_reduce --sizes 4,1K,4K --kernels none --repeats 5 --timeout 5 --quiet --out " + out;
  CHECK(run(2, options + " --fault die:1:1").status != 0);
  CHECK(rows_of(out).size() == 1);
  CHECK(run(2, options).status == 0);
  CHECK(rows_of(out).size() == 3);
}

TEST_CASE("kernels are measured and checked on every rank", "[mpirun]") {
  const TemporaryFolder folder;
  const std::string out = folder.file("k.csv");
  const std::string options =
      "--collectives none --kernels softmax,empty --repeats 5 --budget 0.1 --timeout 20 --quiet --out " + out;
  const Outcome wrong = run(2, options + " --fault wrong:1:1");
  INFO(wrong.output);
  CHECK(wrong.status != 0);
  CHECK_THAT(wrong.output, Contains("rank 1 on ") && Contains("disagrees during softmax fp32 2048x1024"));
  const Outcome right = run(2, options);
  INFO(right.output);
  REQUIRE(right.status == 0);
  const std::vector<Row> rows = rows_of(out);
  REQUIRE(rows.size() == 3);
  CHECK(number(rows[0], "traffic_bytes") == 2.0 * 4 * 6144 * 512);
  CHECK(rows[2].at("kind") == "launch");
}

TEST_CASE("the trainer's steps are as long as its operations, and overlap what may overlap", "[mpirun]") {
  const TemporaryFolder folder;
  const std::string out = folder.file("t.csv"), steps = folder.file("steps.csv");
  folder.write("steps.csv",
               "op,index,duration_us,bytes,label\n"
               "compute,,10000,,forward\n"
               "collective,0,,1048576,bucket 0\n"
               "compute,,20000,,backward\n"
               "collective,1,,4096,bucket 1\n"
               "wait,0,,,\nwait,1,,,\n"
               "compute,,5000,,optimizer\n");
  const Outcome outcome = run(2, "--train " + steps + " --iterations 6 --quiet --out " + out);
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  const std::vector<Row> rows = rows_of(out);
  REQUIRE(rows.size() == 8);
  CHECK(rows[0].at("repeats") == "0");
  CHECK(rows[7].at("name") == "step_median");
  CHECK(rows[7].at("repeats") == "6");
  CHECK(rows[7].at("condition") == "train=steps.csv");
  CHECK(rows[7].at("size_bytes") == std::to_string(1048576 + 4096));
  for (std::size_t i = 1; i < 7; ++i) {
    CHECK(rows[i].at("kind") == "step");
    CHECK(rows[i].at("m") == std::to_string(i));
    // A rank's step is at least its computation; the latest ends of two steps may be off it by the ranks'
    // skew.
    CHECK(number(rows[i], "time_us") > 30e3);
  }
  CHECK(number(rows[7], "time_us") >= 34.9e3);
  const std::string before = text_of(out);
  REQUIRE(run(2, "--train " + steps + " --iterations 6 --quiet --out " + out).status == 0);
  CHECK(text_of(out) == before);
}

TEST_CASE("a rank that dies, hangs or disagrees in training is named", "[mpirun]") {
  const TemporaryFolder folder;
  const std::string steps = folder.file("steps.csv");
  folder.write("steps.csv", "op,index,duration_us,bytes\ncompute,,1000,\ncollective,0,,4096\nwait,0,,\n");
  for (const auto& [fault, verb] :
       {std::pair("die", "died"), std::pair("hang", "hangs"), std::pair("wrong", "disagrees")}) {
    const Outcome outcome = run(3, "--train " + steps + " --iterations 6 --timeout 3 --quiet --fault " +
                                       fault + ":1:3 --out " + folder.file("t.csv"));
    INFO(outcome.output);
    CHECK(outcome.status != 0);
    CHECK(outcome.status != 124);
    CHECK_THAT(outcome.output, Contains("rank 1 on ") && Contains(std::string(" ") + verb + " during "));
  }
}

TEST_CASE("wrong input ends all ranks with status 2 and one message", "[mpirun]") {
  const TemporaryFolder folder;
  const std::string other = folder.file("other.csv");
  folder.write("other.csv", "a,b\n");
  for (const std::string& options : {std::string("--sizes 4X"), std::string("--kernels gem"),
                                     "--out " + other, "--train " + folder.file("missing.csv")}) {
    const Outcome outcome =
        run(2, options + (options.starts_with("--out") ? "" : " --out " + folder.file("x.csv")));
    INFO(options << "\n" << outcome.output);
    CHECK(outcome.status == 2);
    const std::string sign = "paceline-measure: ";
    const std::size_t first = outcome.output.find(sign);
    REQUIRE(first != std::string::npos);
    CHECK(outcome.output.find(sign, first + 1) == std::string::npos);
  }
}

}  // namespace
}  // namespace paceline::measure

#endif
