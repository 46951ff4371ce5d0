// The published tables of tests/import/logs, printed in nccl-tests' layout: rows counted, kinds and ranks as
// published.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <sstream>

#include "written_file.h"

using namespace paceline;

namespace {

const std::string kLogs = (kSource / "tests/import/logs/").string();

struct Published {
  std::string file, collective;
  int rows = 0, empty = 0;
  std::string gpus, implied;
};

std::vector<Published> published() {
  std::ifstream in(kLogs + "index.csv");
  std::string line;
  std::getline(in, line);
  std::vector<Published> all;
  while (std::getline(in, line)) {
    std::istringstream cells(line);
    Published one;
    std::string rows, empty;
    std::getline(cells, one.file, ',');
    std::getline(cells, one.collective, ',');
    std::getline(cells, rows, ',');
    std::getline(cells, empty, ',');
    std::getline(cells, one.gpus, ',');
    std::getline(cells, one.implied, ',');
    one.rows = std::stoi(rows);
    one.empty = std::stoi(empty);
    all.push_back(one);
  }
  return all;
}

const std::map<std::string, CollectiveKind> kKinds{
    {"all_reduce", CollectiveKind::all_reduce}, {"all_gather", CollectiveKind::all_gather},
    {"alltoall", CollectiveKind::all_to_all},   {"broadcast", CollectiveKind::broadcast},
    {"reduce", CollectiveKind::reduce},         {"sendrecv", CollectiveKind::send_recv}};

}  // namespace

TEST_CASE("every row of every published table is read, none is garbled") {
  const std::vector<Published> all = published();
  REQUIRE(all.size() == 45);
  int rows = 0;
  for (const Published& one : all) {
    const MeasuredData data = import_file(kLogs + one.file);
    INFO(one.file << '\n' << remarks_of(data));
    CHECK(static_cast<int>(data.collectives.size()) == one.rows - one.empty);
    CHECK(data.files.at(0).rows == one.rows - one.empty);
    rows += one.rows;
    REQUIRE_FALSE(data.collectives.empty());
    CHECK(data.collectives[0].kind == kKinds.at(one.collective));
    // Where the ratio of the bandwidths names the ranks, it names those published.
    const int ranks = data.collectives[0].ranks;
    CHECK((ranks == 0 || std::to_string(ranks) == one.gpus));
    if (one.implied == one.gpus + ".0.." + one.gpus + ".0") {
      CHECK(std::to_string(ranks) == one.gpus);
    }
    CHECK_THAT(remarks_of(data), !Catch::Contains("garbled") && !Catch::Contains("breaks off"));
  }
  CHECK(rows == 786);
}

TEST_CASE("a folder is its files, what is no measurement in it is a remark") {
  const std::vector<std::string> paths{(kSource / "tests/import/logs").string()};
  const MeasuredData data = import_files(paths);
  CHECK(data.files.size() == 45);
  CHECK_THAT(remarks_of(data), Catch::Contains("left out: line 1: missing column \"size_bytes\""));
  CHECK(std::ranges::is_sorted(data.files, {}, &DataFile::path));
  const TemporaryFolder folder;
  const std::string csv = "collective,size_bytes,time_us,gpus\nall_reduce,8,5.0,8\n";
  write_gz(folder, "a.csv.gz", csv);
  folder.write("slurm.err", csv);
  folder.write("notes.md", csv);
  const std::vector<std::string> packed{folder.path().string()};
  CHECK(import_files(packed).files.size() == 2);
}

TEST_CASE("measurements written as CSV read back as the same, to the last bit") {
  const std::vector<std::string> paths{(kSource / "tests/import/logs").string()};
  MeasuredData data = import_files(paths);
  data.collectives.at(0).gpu = "NVIDIA H100 80GB HBM3";  // which no published log has
  data.collectives.at(1).unmodelled = "\"Using network Socket\", NCCL_IB_DISABLE=1";
  data.collectives.at(2).fullest = 10;
  data.collectives.at(3).gpus_per_process = 8;
  data.collectives.at(4).wrong_values = true;
  data.collectives.at(5).socket_threads = 4;
  data.collectives.at(5).sockets_per_thread = 2;
  std::ostringstream csv;
  write_csv(data, csv);
  const MeasuredData again = import_text(csv.str(), "written.csv");
  REQUIRE(again.collectives.size() == data.collectives.size());
  for (std::size_t i = 0; i < data.collectives.size(); ++i) {
    const CollectiveMeasurement &a = data.collectives[i], &b = again.collectives[i];
    INFO(a.table << ' ' << a.bytes.value);
    CHECK(a.kind == b.kind);
    CHECK(a.bytes == b.bytes);
    CHECK(a.time == b.time);
    CHECK(a.ranks == b.ranks);
    CHECK(a.nodes == b.nodes);
    CHECK(a.nccl == b.nccl);
    CHECK(a.algorithm == b.algorithm);
    CHECK(a.protocol == b.protocol);
    CHECK(a.channels == b.channels);
    CHECK(a.nvls == b.nvls);
    CHECK(a.table == b.table);
    CHECK(a.gpu == b.gpu);
    CHECK(a.fullest == b.fullest);
    CHECK(a.gpus_per_process == b.gpus_per_process);
    CHECK(a.wrong_values == b.wrong_values);
    CHECK(a.socket_threads == b.socket_threads);
    CHECK(a.sockets_per_thread == b.sockets_per_thread);
    CHECK(a.unmodelled == b.unmodelled);
  }
}
