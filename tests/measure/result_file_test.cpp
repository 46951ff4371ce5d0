#include "calibrate/measure/result_file.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "tests/files.h"

namespace paceline::measure {
namespace {

using Catch::Matchers::Contains;

ResultRow row(std::int64_t bytes) {
  return {.kind = "collective",
          .name = "all_reduce",
          .precision = "fp32",
          .ranks = 4,
          .nodes = 2,
          .gpus_per_node = 2,
          .size_bytes = bytes,
          .work_flop = 123456789012.0,
          .time_us = 12.5,
          .min_us = 11,
          .max_us = 14,
          .repeats = 30,
          .backend = "mpi",
          .library = "Open MPI, v4",
          .device = "the \"big\" one",
          .host = "a",
          .date = "2026-01-01T00:00:00Z"};
}

TEST_CASE("a line has the header's columns, and quotes only what needs it") {
  const std::string line = csv_line(row(1024));
  CHECK(line ==
        "collective,all_reduce,fp32,4,2,2,1024,0,0,0,123456789012,0,12.5,11,14,30,,mpi,\"Open MPI, v4\","
        "\"the \"\"big\"\" one\",a,,0,2026-01-01T00:00:00Z");
  CHECK(csv_fields(line).size() == csv_fields(csv_header()).size());
  CHECK(csv_fields(line)[18] == "Open MPI, v4");
  CHECK(csv_fields(line)[19] == "the \"big\" one");
  ResultRow two_lines = row(4);
  two_lines.driver = "a\nb";
  CHECK(csv_line(two_lines).find('\n') == std::string::npos);
  CHECK_THROWS_WITH(csv_fields("a,\"b"), Contains("not closed"));
}

TEST_CASE("a row is known again by what it measures, not by its times") {
  ResultRow other = row(4);
  other.time_us = 99;
  other.repeats = 1;
  other.clock_mhz = 5;
  other.date = "later";
  CHECK(row_key(row(4)) == row_key(other));
  other.condition = "beside=gemm";
  CHECK(row_key(row(4)) != row_key(other));
  CHECK(row_key(row(4)) != row_key(row(8)));
  ResultRow elsewhere = row(4);
  elsewhere.host = "b";
  CHECK(row_key(row(4)) != row_key(elsewhere));
}

TEST_CASE("a file is created with its header, and resumed without") {
  const TemporaryFolder folder;
  const std::string path = folder.file("resume.csv");
  {
    ResultFile file(path);
    file.append(row(4));
    CHECK(lines_of(text_of(path)) ==
          std::vector<std::string>{csv_header(), csv_line(row(4))});  // on the disk at once
  }
  ResultFile file(path);
  CHECK(file.rows() == 1);
  CHECK(file.has(row(4)));
  CHECK_FALSE(file.has(row(8)));
  file.append(row(8));
  CHECK(file.rows() == 2);
  CHECK(lines_of(text_of(path)).size() == 3);
}

TEST_CASE("a line that its writer did not finish is measured again") {
  const TemporaryFolder folder;
  const std::string path = folder.file("torn.csv");
  const std::string half = csv_line(row(8)).substr(0, 40);
  folder.write("torn.csv", csv_header() + "\n" + csv_line(row(4)) + "\n" + half);
  {
    ResultFile file(path);
    CHECK(file.rows() == 1);
    CHECK_FALSE(file.has(row(8)));
    file.append(row(8));
  }
  CHECK(lines_of(text_of(path)) ==
        std::vector<std::string>{csv_header(), csv_line(row(4)), half, csv_line(row(8))});
  CHECK(ResultFile(path).rows() == 2);
}

TEST_CASE("a file that is something else is left alone") {
  const TemporaryFolder folder;
  const std::string path = folder.file("other.csv");
  folder.write("other.csv", "a,b\n1,2\n");
  CHECK_THROWS_WITH(ResultFile(path), Contains("line 1") && Contains("header"));
  CHECK(lines_of(text_of(path)) == std::vector<std::string>{"a,b", "1,2"});
  CHECK_THROWS_WITH(ResultFile("/nowhere/at/all.csv"), Contains("/nowhere/at/all.csv"));
}

TEST_CASE("two runs don't write one file") {
  const TemporaryFolder folder;
  const std::string path = folder.file("locked.csv");
  {
    ResultFile first(path);
    CHECK_THROWS_WITH(ResultFile(path), Contains("another run") && Contains("locked.csv"));
    first.append(row(4));
  }
  ResultFile second(path);
  CHECK(second.rows() == 1);
}

}  // namespace
}  // namespace paceline::measure
