// Files that are no measurements, or were: a clear message or what can be read of them, never a crash.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "tests/dice.h"
#include "written_file.h"

using namespace paceline;
using Catch::Contains;

namespace {

std::map<std::string, std::string> seeds() {
  std::map<std::string, std::string> all;
  const std::string logs = (kSource / "tests/import/logs/").string();
  for (const char* const name : {"a100_40_sxm_1node_superbench_alltoall.txt", "h100_dgx_1node_dgxc.txt",
                                 "h100_pcie_2gpu_nvlink_issue1161.txt"}) {
    all[name] = text_of(logs + name);
  }
  all["run.csv"] = text_of(kSource / "scenarios/validation/collectives/a100_azure_1node.csv");
  all["index.csv"] = text_of(logs + "index.csv");
  all["run.json"] =
      R"({"args": ["all_reduce_perf"], "nccl_version": "2.27.7", "devices": [{"rank": 0, "hostname": "a"}], "results": [{"size": 8, "count": 2, "out_of_place": {"time": 1.5, "alg_bw": 0.01, "bus_bw": 0}}]})";
  all["trace.json"] =
      R"({"traceEvents": [{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":100},
{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":1,"dur":10,"args":{"Sequence number":5,"Fwd thread id":0,"External id":3}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":2,"dur":1,"args":{"correlation":9}},
{"ph":"X","cat":"kernel","name":"add","pid":0,"tid":7,"ts":5,"dur":4.5,"args":{"correlation":9,"stream":7,"device":0}}]})";
  return all;
}

const std::vector<std::string> kPieces{
    std::string(1, '\0'), "\n", "\"", "e999", "99999999999999999999", "\x1b[", "{", "# ", ","};

std::string damaged(std::string text, Dice& dice) {
  for (std::size_t times = 1 + dice.below(4); times > 0 && !text.empty(); --times) {
    const std::size_t at = dice.below(text.size());
    const std::size_t length = std::min(text.size() - at, 1 + dice.below(200));
    switch (dice.below(7)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text[at] = static_cast<char>(dice.below(256));
        break;
      case 2:
        text[at] = static_cast<char>(text[at] ^ (1 << dice.below(8)));
        break;
      case 3:
        text.erase(at, length);
        break;
      case 4:
        text.insert(dice.below(text.size()), text.substr(at, length));
        break;
      case 5:
        std::swap_ranges(text.begin() + static_cast<std::ptrdiff_t>(at),
                         text.begin() + static_cast<std::ptrdiff_t>(at + length / 2),
                         text.begin() + static_cast<std::ptrdiff_t>(at + length - length / 2));
        break;
      default:
        text.insert(at, kPieces[dice.below(kPieces.size())]);
    }
  }
  return text;
}

}  // namespace

TEST_CASE("files damaged at random are read in part or refused with their name") {
  const TemporaryFolder folder;
  Dice dice(7);
  int read = 0, refused = 0;
  for (const auto& [name, text] : seeds()) {
    for (std::uint64_t i = 0; i < rounds(600); ++i) {
      const std::string path = folder.write(name, damaged(text, dice));
      try {
        const MeasuredData data = import_file(path);
        CHECK(data.files.size() == 1);
        for (const CollectiveMeasurement& one : data.collectives) {
          REQUIRE(one.bytes.value > 0);
          REQUIRE((one.time.value > 0 && std::isfinite(one.time.value)));
          REQUIRE(one.ranks >= 0);
        }
        for (const LayerMeasurement& one : data.layers) {
          REQUIRE((one.forward.value >= 0 && std::isfinite(one.forward.value)));
        }
        CHECK_FALSE(import_summary(data).empty());
        ++read;
      } catch (const InputError& error) {
        CHECK_THAT(error.what(), Catch::StartsWith(path));
        ++refused;
      }
    }
  }
  CHECK(read > static_cast<int>(rounds(2000)));
  CHECK(refused > static_cast<int>(rounds(200)));
}

TEST_CASE("lines of two logs mixed at random places never make a wrong time") {
  const auto all = seeds();
  const std::string& a = all.at("h100_dgx_1node_dgxc.txt");
  const std::string& b = all.at("a100_40_sxm_1node_superbench_alltoall.txt");
  std::map<std::int64_t, std::vector<double>> times;  // of each size, in either log
  for (const std::string& log : {a, b}) {
    for (const CollectiveMeasurement& one : import_text(log, "alltoall.txt").collectives) {
      times[one.bytes.value].push_back(one.time.value);
    }
  }
  const TemporaryFolder folder;
  Dice dice(11);
  for (std::uint64_t i = 0; i < rounds(300); ++i) {
    std::string mixed;
    for (std::size_t at_a = 0, at_b = 0; at_a < a.size() || at_b < b.size();) {
      const std::string part_a = a.substr(std::min(at_a, a.size()), dice.below(400));
      const std::string part_b = b.substr(std::min(at_b, b.size()), dice.below(400));
      mixed += part_a + part_b;
      at_a += part_a.size();
      at_b += part_b.size();
    }
    int wrong = 0;
    const MeasuredData data = import_file(folder.write("mixed.txt", mixed));
    for (const CollectiveMeasurement& one : data.collectives) {
      // Below 64 KiB a bandwidth has two digits at most, which many a time fits.
      if (one.bytes.value >= 65536) {
        const auto found = times.find(one.bytes.value);
        const bool known = found != times.end() && std::ranges::any_of(found->second, [&](double t) {
                             return std::abs(one.time.value / t - 1) < 0.1;
                           });
        wrong += known ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("what is no file of measurements says so") {
  const TemporaryFolder folder;
  const auto error = [](const std::string& path) -> std::string {
    try {
      import_file(path);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  CHECK_THAT(error(folder.path().string()), Contains("is a folder; expected a file"));
  CHECK_THAT(error(folder.file("none.txt")), Contains("can't be read: No such file"));
  CHECK_THAT(error(folder.write("empty.txt", "")), Contains("is empty"));
  CHECK_THAT(error(folder.write("letter.txt", "Dear all,\nit was nice.\n")),
             Contains("holds no line of nccl-tests, no CSV and no JSON"));
  const std::string osu = folder.write(
      "osu.txt",
      "# OSU MPI-CUDA Allreduce Latency Test v7.3\n# Size       Avg Latency(us)\n4        12.34\n");
  CHECK_THAT(error(osu), Contains("write what another program measured as CSV"));
  // The lines that it shows are such a CSV.
  const std::string shown = error(osu), lines = shown.substr(shown.find("\"collective"));
  const std::size_t header_end = lines.find('"', 1), row = lines.find("\"all_reduce") + 1;
  const MeasuredData csv = import_text(lines.substr(1, header_end - 1) + '\n' +
                                       lines.substr(row, lines.find('"', row) - row) + '\n');
  REQUIRE(csv.collectives.size() == 1);
  CHECK(csv.collectives[0].ranks == 16);
  CHECK(csv.collectives[0].time.value == 812.4e-6);
  CHECK(csv.remarks.empty());
  CHECK_THAT(error("/dev/zero"), Contains("the first 16 MiB hold no line of nccl-tests"));
  std::string wide = "\xff\xfe";
  for (const char c : std::string("# nThread 1 nGpus 8\n")) {
    wide += c;
    wide += '\0';
  }
  CHECK_THAT(error(folder.write("wide.txt", wide)), Contains("UTF-16; convert it: iconv -f UTF-16 -t UTF-8"));
  CHECK_THAT(error(folder.write("wide2.txt", wide.substr(2))), Contains("UTF-16"));
  CHECK_THAT(error(folder.write("header.txt", "# nThread 1 nGpus 8 minBytes 8\n")),
             Contains("read as nccl-tests, but there is no measurement in it"));
  CHECK_THAT(
      error(folder.write("comma.csv", "size_bytes,time_us\n1048576,90,5\n")),
      Contains("no measurement in it; last remark, line 2: expected 2 cells as in the header, found 3") &&
          Contains("numbers have a decimal point, no comma"));
  std::string noise;
  Dice dice(3);
  for (int i = 0; i < 200'000; ++i) {
    noise += static_cast<char>(dice.below(256));
  }
  CHECK_THAT(error(folder.write("noise.bin", noise)), Contains("holds no line") || Contains("UTF-16"));
  CHECK_THAT(error(folder.write("cut.json.gz", "\x1f\x8b\x08")), Contains("cut.json.gz"));
  const std::vector<std::string> folders{folder.path().string()};
  CHECK_THROWS_WITH(import_files(folders), Contains("no measurement in this folder's"));
}

TEST_CASE("lines without an end and zeros between rows are left out") {
  const std::string log = seeds().at("h100_pcie_2gpu_nvlink_issue1161.txt");
  const MeasuredData data = import_text(
      log + std::string(300'000, 'x') + '\n' + std::string(5000, '\0') + '\n' + log, "all_reduce.txt");
  CHECK_THAT(remarks_of(data), Contains("11: a line of more than 64 KiB: left out"));
  CHECK_THAT(remarks_of(data), Contains("3 rows of this table repeat those from line 6 on"));
  CHECK(data.collectives.size() == 3);
}

TEST_CASE("remarks stay few however many rows are wrong") {
  std::string text = "size_bytes,time_us\n8,1\n";
  for (int i = 0; i < 5000; ++i) {
    text += "8,x\n";
  }
  const MeasuredData data = import_text(text);
  CHECK(data.remarks.size() < 20);
  CHECK_THAT(remarks_of(data), Contains("4992 more rows with wrong cells"));
}

TEST_CASE("the summary: each file's format, rows, ranks, nodes and NCCL, then the remarks") {
  const MeasuredData data = import_text(
      "size_bytes,time_us,gpus,nodes,nccl,collective\n8,1,16,2,2.18.5,all_reduce\n16,1,16,2,2.18.5,all_"
      "reduce\n8,x,1,1,,all_reduce\n",
      "a.csv");
  const std::string summary = import_summary(data);
  CHECK_THAT(summary, Contains("a.csv: CSV, 2 measurements, ranks 16, nodes 2, NCCL 2.18\n"));
  CHECK_THAT(summary, Contains("a.csv:4: time_us: expected a number, found \"x\""));
}
