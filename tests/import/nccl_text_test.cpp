// nccl-tests' text: every version's columns, every launcher's prefix, and what goes wrong in logs.
#include <catch2/catch.hpp>

#include "written_file.h"

using namespace paceline;
using Catch::Contains;

namespace {

const std::string kColumns =
    "#                                                              out-of-place                       "
    "in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
    "busbw "
    "#wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  "
    "(GB/s)\n";
const std::string kRowA =
    "     8388608       2097152     float     sum      -1    177.8   47.18   82.56      0    178.0   47.13   "
    "82.47   "
    "   0\n";
const std::string kRowB =
    "    16777216       4194304     float     sum      -1    300.0   55.92   97.87      0    280.0   59.92  "
    "104.86   "
    "   0\n";

std::string prefixed(const std::string& prefix, const std::string& text) {
  std::string all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    all += prefix + line + '\n';
  }
  return all;
}

std::string devices(int ranks, int per_node) {
  std::string text = "# Using devices\n";
  for (int i = 0; i < ranks; ++i) {
    text += "#  Rank " + std::to_string(i) + " Group  0 Pid  " + std::to_string(100 + i) + " on   node-" +
            std::to_string(i / per_node) + " device  " + std::to_string(i % per_node) +
            " [0000:0f:00] NVIDIA H100 80GB HBM3\n";
  }
  return text;
}

const std::string kRun =
    "# nccl-tests version 2.17.4 nccl-headers=22707 nccl-library=22707\n"
    "# Collective test starting: all_reduce_perf\n"
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 1 iters: 20\n"
    "#\n" +
    devices(8, 4) + "#\n" + kColumns + kRowA + kRowB +
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 87.0\n#\n"
    "# Collective test concluded: all_reduce_perf\n";

void check_run(const MeasuredData& data) {
  INFO(remarks_of(data));
  REQUIRE(data.collectives.size() == 2);
  const CollectiveMeasurement& one = data.collectives[0];
  CHECK(one.kind == CollectiveKind::all_reduce);
  CHECK(one.bytes.value == 8388608);
  CHECK(one.time.value == 177.8e-6);
  CHECK(one.ranks == 8);
  CHECK(one.nodes == 2);
  CHECK(one.nccl == "2.27");
  CHECK(data.collectives[1].time.value == 280e-6);
}

}  // namespace

TEST_CASE("a run of today: kind, ranks, nodes and NCCL are those it states") {
  const MeasuredData data = import_text(kRun);
  check_run(data);
  CHECK(data.remarks.empty());
  CHECK(data.collectives[0].table == "run.txt");
  CHECK(data.collectives[0].origin.line == 18);
  REQUIRE(data.files.size() == 1);
  CHECK(data.files[0].format == "nccl-tests");
  CHECK(data.files[0].rows == 2);
}

TEST_CASE("whatever a launcher puts before a line, the run is the same") {
  const auto prefix = GENERATE(
      as<std::string>(), "[1,0]<stdout>:", "[1,0]<stdout>: ", "0: ", "0:", " 12: ", "nccl-test-worker-0 ",
      "nccl-test-launcher-x7k2p: ", "[pod/nccl-0/worker] ", "2026-01-02T03:04:05.678901Z ",
      "2026-01-02 03:04:05 ", "[2026-01-02 03:04:05,678] ", "(main) ", "\t");
  INFO(prefix);
  check_run(import_text(prefixed(prefix, kRun)));
}

TEST_CASE("time stamps that change from line to line, colours and CRLF leave the run as it is") {
  std::string stamped, coloured, windows;
  std::istringstream in(kRun);
  int second = 0;
  for (std::string line; std::getline(in, line); ++second) {
    stamped += "2026-01-02T03:04:" + std::to_string(10 + second) + ".5Z stdout F " + line + '\n';
    coloured += "\x1b[32m" + line + "\x1b[0m\n";
    windows += line + "\r\n";
  }
  check_run(import_text(stamped));
  check_run(import_text(coloured));
  check_run(import_text(windows));
}

TEST_CASE("version 1.0: milliseconds, an error as the last column, no '#' at the end") {
  const MeasuredData data = import_text(
      "# nThread 1 nGpus 4 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 5 iters: 20 \n"
      "# Using devices\n#   Rank  0 on     dgx-1 device  0 [0x06] Tesla V100\n"
      "#   Rank  1 on     dgx-1 device  1 [0x07] Tesla V100\n"
      "#   Rank  2 on     dgx-1 device  2 [0x0a] Tesla V100\n"
      "#   Rank  3 on     dgx-1 device  3 [0x0b] Tesla V100\n\n"
      "#                                                 out-of-place                    in-place\n"
      "#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw     "
      " res\n"
      "     1048576        262144   float     sum    0.064  16.38  24.58    1e-06    0.062  16.91  25.37    "
      "1e-06\n"
      "     2097152        524288   float     sum    0.100  20.97  31.46    1e-06    0.101  20.76  31.14    "
      "1e-06\n"
      " Out of bounds values : 0 OK\n Avg bus bandwidth    : 28.1\n");
  INFO(remarks_of(data));
  REQUIRE(data.collectives.size() == 2);
  CHECK(data.collectives[0].time.value == Approx(62e-6));
  CHECK(data.collectives[0].ranks == 4);
  CHECK(data.collectives[0].nodes == 1);
  CHECK(data.collectives[0].kind == CollectiveKind::all_reduce);
}

TEST_CASE("versions 2.0 to 2.11: the columns depend on the collective") {
  struct Case {
    std::string columns, row;
    CollectiveKind kind;
  };
  const std::string halves = "    100.0  167.77  146.80  0e+00    101.0  166.12  145.35  0e+00\n";
  const std::string whole = "    100.0  167.77  167.77  0e+00    101.0  166.12  166.12  0e+00\n";
  const std::string titles = "     time   algbw   busbw  error     time   algbw   busbw  error\n";
  const std::vector<Case> cases{
      {"#       size         count    type" + titles, "    16777216        524288   float" + halves,
       CollectiveKind::all_gather},
      {"#       size         count    type" + titles, "    16777216       4194304   float" + whole,
       CollectiveKind::send_recv},
      {"#       size         count    type   redop" + titles,
       "    16777216        524288   float     sum" + halves, CollectiveKind::reduce_scatter},
      {"#       size         count    type    root" + titles,
       "    16777216       4194304   float       0" + whole, CollectiveKind::broadcast},
      {"#       size         count    type   redop    root" + titles,
       "    16777216       4194304   float     sum       0" + whole, CollectiveKind::reduce}};
  for (const Case& one : cases) {
    const MeasuredData data =
        import_text("# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor)\n" + one.columns + one.row);
    INFO(one.columns << remarks_of(data));
    REQUIRE(data.collectives.size() == 1);
    CHECK(data.collectives[0].kind == one.kind);
    CHECK(data.collectives[0].time.value == 100e-6);
    CHECK_THAT(remarks_of(data), Contains("from its columns"));
  }
}

TEST_CASE("the file's name tells the collective where nothing in it does") {
  const std::string table =
      "#       size         count    type   redop    root     time   algbw   busbw  #wrong\n"
      "    16777216        524288   float    none      -1    100.0  167.77  146.80  0\n";
  const auto kind = [&](const char* name) { return import_text(table, name).collectives.at(0).kind; };
  CHECK(kind("x_alltoall_8.txt") == CollectiveKind::all_to_all);
  CHECK(kind("allgather.txt") == CollectiveKind::all_gather);
  CHECK(kind("reduce-scatter.log") == CollectiveKind::reduce_scatter);
  // A name that the bandwidths contradict doesn't count.
  CHECK(kind("broadcast.txt") == CollectiveKind::all_gather);
}

TEST_CASE("a header that states the collective beats the file's name") {
  const std::string table =
      "#       size         count    type   redop    root     time   algbw   busbw  #wrong\n"
      "    16777216        524288   float    none      -1    100.0  167.77  146.80  0\n";
  const std::string version = "# nccl-tests version 2.17.4 nccl-headers=22707 nccl-library=22707\n";
  const std::string arguments = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor)\n";
  for (const std::string& header :
       {version + "# Collective test starting: all_gather_perf\n" + arguments,
        version + arguments + "# Collective test starting: all_gather_perf\n",
        std::string("# Collective: all_gather, 8 GPUs\n"), "# AllGather\n" + arguments,
        "# all_gather_perf -b 8 -e 8G -f 2\n" + arguments,
        std::string("# nccl-tests: All-Gather on 8 GPUs\n")}) {
    for (const char* const name : {"alltoall.txt", "all_reduce_8gpus.log", "reduce-scatter.log"}) {
      const MeasuredData data = import_text(header + table, name);
      INFO(name << ":\n" << header << remarks_of(data));
      CHECK(data.collectives.at(0).kind == CollectiveKind::all_gather);
      CHECK_THAT(remarks_of(data), !Contains("not stated"));
    }
  }
  // Two names, or a word that may be any, state nothing.
  for (const char* const header : {"# all_gather and all_reduce\n", "# reduce the noise\n", "# my run\n"}) {
    CHECK(import_text(header + table, "alltoall.txt").collectives.at(0).kind == CollectiveKind::all_to_all);
  }
}

TEST_CASE("rows of 0 bytes are named, and left out") {
  const std::string zero =
      "           0             0     float     sum      -1     3.36    0.00    0.00      0     0.20    0.00 "
      "   "
      "0.00      0\n";
  const MeasuredData data = import_text(kColumns + zero + zero + kRowA, "all_reduce.txt");
  CHECK(data.collectives.size() == 1);
  CHECK_THAT(remarks_of(data), Contains("4: a row of 0 bytes: left out") && Contains("5: a row of 0 bytes"));
  const MeasuredData csv = import_text("size_bytes,time_us,gpus\n0,3.4,8\n8,5.0,8\n", "all_reduce.csv");
  CHECK(csv.collectives.size() == 1);
  CHECK_THAT(remarks_of(csv), Contains("2: size_bytes: expected more than 0, found a row of 0 bytes"));
}

TEST_CASE("columns of -I and -S, N/A, a half that was not run") {
  const MeasuredData data = import_text(
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong  i_min   i_max  "
      "i_p99  i_cv%"
      "     time   algbw   busbw  #wrong  i_min   i_max  i_p99  i_cv%\n"
      "     8388608       2097152     float     sum      -1    177.8   47.18   82.56     N/A  170.0 190.0 "
      "189.0 2.1"
      "    176.0   47.66   83.41     N/A  170.0 190.0 189.0 2.1  2026-01-02 03:04:05\n"
      "    16777216       4194304     float     sum      -1                                                  "
      "      "
      "    280.0   59.92  104.86     N/A  270.0 290.0 289.0 1.1\n",
      "all_reduce.txt");
  INFO(remarks_of(data));
  REQUIRE(data.collectives.size() == 2);
  CHECK(data.collectives[0].time.value == 176e-6);
  CHECK(data.collectives[1].time.value == 280e-6);
  CHECK(data.collectives[1].ranks == 8);
}

TEST_CASE("a table of the host's times (-C) is no measurement of a collective") {
  std::string text = kRun;
  text.replace(text.find("     time   algbw"), 9, "  cputime");
  CHECK_THAT(import_error(text), Contains("host's times (-C)"));
}

TEST_CASE("what Paceline has no plan of is left out by name") {
  std::string text = kRun;
  for (std::size_t at = text.find("all_reduce"); at != std::string::npos; at = text.find("all_reduce")) {
    text.replace(at, 10, "hypercube");
  }
  CHECK_THAT(import_error(text), Contains("hypercube, of which Paceline has no plan"));
}

TEST_CASE("several tables of a file stay apart") {
  std::string second = kRun;
  for (std::size_t at = second.find("all_reduce"); at != std::string::npos; at = second.find("all_reduce")) {
    second.replace(at, 10, "reduce_scatter");
  }
  // (n - 1) / n of another number of ranks would contradict the devices.
  for (const auto& [from, to] :
       {std::pair{"82.56", "41.28"}, {"82.47", "41.24"}, {"97.87", "48.93"}, {"104.86", "52.43"}}) {
    second.replace(second.find(from), std::string(from).size(), to);
  }
  const MeasuredData data = import_text(kRun + second);
  INFO(remarks_of(data));
  REQUIRE(data.collectives.size() == 4);
  CHECK(data.collectives[2].kind == CollectiveKind::reduce_scatter);
  CHECK(data.collectives[2].table == "run.txt#2");
  CHECK(data.remarks.empty());
}

TEST_CASE("a table that a second rank prints too is kept once") {
  std::string interleaved;
  std::istringstream in(kRun);
  for (std::string line; std::getline(in, line);) {
    interleaved += "[1,0]<stdout>:" + line + "\n[1,1]<stdout>:" + line + '\n';
  }
  const MeasuredData data = import_text(interleaved);
  check_run(data);
  CHECK_THAT(remarks_of(data), Contains("2 rows of this table repeat those from line 35 on"));

  // The same without prefixes: the rows fall into one table.
  std::string bare;
  std::istringstream again(kRun);
  for (std::string line; std::getline(again, line);) {
    bare += line + '\n' + line + '\n';
  }
  const MeasuredData unprefixed = import_text(bare);
  check_run(unprefixed);
  CHECK_THAT(remarks_of(unprefixed), Contains("the row repeats line 35"));
}

TEST_CASE("ranks that run alone, each with its own numbers, are several tables") {
  std::string other = kRun;
  other.replace(other.find("177.8   47.18   82.56"), 21, "179.0   46.86   82.01");
  other.replace(other.find("300.0   55.92   97.87"), 21, "301.0   55.74   97.54");
  std::string both;
  std::istringstream a(kRun), b(other);
  for (std::string line, line_b; std::getline(a, line) && std::getline(b, line_b);) {
    both += "0: " + line + "\n1: " + line_b + '\n';
  }
  const MeasuredData data = import_text(both);
  REQUIRE(data.collectives.size() == 4);
  CHECK(data.collectives[0].table == "run.txt");
  CHECK(data.collectives[1].table == "run.txt");
  CHECK(data.collectives[2].table == "run.txt#2");
  CHECK(data.collectives[2].time.value == 178e-6);
}

TEST_CASE("rows that break off, are garbled, glued or of size 0") {
  const std::string name = "all_reduce.txt";
  const auto rows = [&](const std::string& text) { return import_text(kColumns + kRowA + text, name); };
  SECTION("cut in the second half: the first is kept") {
    const MeasuredData data = rows(kRowB.substr(0, kRowB.find("280.0") + 5));
    REQUIRE(data.collectives.size() == 2);
    CHECK(data.collectives[1].time.value == 300e-6);
    CHECK_THAT(remarks_of(data), Contains("5: the row breaks off: its second half is left out"));
  }
  SECTION("cut in the first half") {
    const MeasuredData data = rows(kRowB.substr(0, kRowB.find("300.0") + 12));
    CHECK(data.collectives.size() == 1);
    CHECK_THAT(remarks_of(data), Contains("5: the row breaks off: left out"));
  }
  SECTION("a digit lost") {
    std::string row = kRowB;
    row.replace(row.find("300.0"), 5, " 30.0");
    const MeasuredData data = rows(row);
    CHECK(data.collectives.size() == 1);
    CHECK_THAT(remarks_of(data), Contains("5: a garbled row"));
  }
  SECTION("a warning glued to a row, two rows on a line") {
    std::string both = kRowA + kRowB;
    both.erase(both.find('\n'), 1);
    const MeasuredData data = import_text(kColumns + "node1: WARN something " + both, name);
    INFO(remarks_of(data));
    CHECK(data.collectives.size() == 2);
  }
  SECTION("size 0") {
    const MeasuredData data = rows(
        "           0             0     float     sum      -1     1.63    0.00    0.00      0     1.38    "
        "0.00    0.00      0\n");
    CHECK(data.collectives.size() == 1);
  }
  SECTION("NCCL's lines, reports and warnings between rows") {
    const MeasuredData data = import_text(kColumns + kRowA +
                                              "node1:12:34 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via "
                                              "P2P/CUMEM\n# [Per-Iteration Report: on]\n"
                                              "WARNING: open MPI says 1 2 float\n\n" +
                                              kRowB,
                                          name);
    CHECK(data.collectives.size() == 2);
  }
  SECTION("wrong values") {
    std::string row = kRowB;
    row.replace(row.rfind(" 0\n"), 3, " 7\n");
    const MeasuredData data = rows(row);
    CHECK(data.collectives.size() == 2);
    CHECK_THAT(remarks_of(data), Contains("1 rows of this table moved wrong values"));
  }
  SECTION("very many wrong values, as %6g says them") {
    std::string row = kRowB;
    row.replace(row.rfind(" 0\n"), 3, " 1e+06\n");
    CHECK_THAT(remarks_of(rows(row)), Contains("1 rows of this table moved wrong values"));
  }
}

TEST_CASE("what a prediction doesn't have: a host that waits, another library, no PXN") {
  const MeasuredData data = import_text(
      "# Blocking Enabled: wait for completion and barrier after each collective\n"
      "node1:12:34 [0] NCCL INFO RCCL version : 2.22.3-develop:1234\nexport NCCL_PXN_DISABLE=1 "
      "NCCL_MAX_CTAS=4\n" +
      kColumns + kRowA);
  INFO(remarks_of(data));
  REQUIRE(data.collectives.size() == 1);
  CHECK(data.collectives[0].nccl == "2.22");
  CHECK(data.collectives[0].channels == 4);
  for (const char* const each : {"RCCL", "NCCL_PXN_DISABLE=1", "blocking"}) {
    CHECK_THAT(data.collectives[0].unmodelled, Contains(each));
  }
  CHECK_THAT(remarks_of(data), Contains("a host that waits for each operation"));
}

TEST_CASE("GPUs of several kinds are named") {
  const auto listed = [](const std::string& second) {
    return import_text(
        "#  Rank  0 Group  0 Pid   10 on    node1 device  0 [0000:07:00] NVIDIA A100-SXM4-80GB\n"
        "#  Rank  1 Group  0 Pid   11 on    node2 device  0 [0000:07:00] " +
        second + "\n" + kColumns + kRowA);
  };
  const MeasuredData unlike = listed("NVIDIA H100 80GB HBM3");
  REQUIRE(unlike.collectives.size() == 1);
  CHECK(unlike.collectives[0].gpu.empty());
  CHECK(unlike.collectives[0].unmodelled ==
        "GPUs of several kinds (NVIDIA A100-SXM4-80GB, NVIDIA H100 80GB HBM3)");
  CHECK_THAT(remarks_of(unlike), Contains("a prediction is of GPUs that are all alike"));
  const MeasuredData alike = listed("NVIDIA A100-SXM4-80GB");
  CHECK(alike.collectives.at(0).gpu == "NVIDIA A100-SXM4-80GB");
  CHECK(alike.collectives.at(0).unmodelled.empty());
}

TEST_CASE("NCCL's version and settings from what is printed around the run") {
  const std::string command =
      "+ mpirun -np 8 -x NCCL_ALGO=Ring -x NCCL_PROTO=Simple ./build/all_reduce_perf -b 8M -e 16M\n";
  const std::string info =
      "node1:12:34 [0] NCCL INFO NCCL_MAX_NCHANNELS set by environment to 4.\nnode1:12:34 [0] NCCL INFO NCCL "
      "version "
      "2.18.5+cuda12.2\n";
  const MeasuredData data =
      import_text("export NCCL_NVLS_ENABLE=0\n" + command + kColumns + info + kRowA + kRowB);
  INFO(remarks_of(data));
  REQUIRE(data.collectives.size() == 2);
  const CollectiveMeasurement& one = data.collectives[0];
  CHECK(one.nccl == "2.18");
  CHECK(one.algorithm == "RING");
  CHECK(one.protocol == "SIMPLE");
  CHECK(one.channels == 4);
  CHECK(one.nvls == "off");
  CHECK(one.kind == CollectiveKind::all_reduce);
  CHECK(data.remarks.empty());
  CHECK(one.ranks == 8);  // 82.56 / 47.18 = 2 * 7 / 8
  CHECK(one.nodes == 0);

  // Another command without settings ends those of the first, not what was exported.
  const MeasuredData two = import_text(
      "export NCCL_NVLS_ENABLE=0\n" + command + kColumns + kRowA +
      "+ mpirun -np 8 ./build/all_reduce_perf\n# nThread 1 nGpus 1 minBytes 8\n" + kColumns + kRowB);
  REQUIRE(two.collectives.size() == 2);
  CHECK(two.collectives[0].algorithm == "RING");
  CHECK(two.collectives[1].algorithm.empty());
  CHECK(two.collectives[1].nvls == "off");
}

TEST_CASE("devices that the bandwidths contradict are not believed") {
  std::string text = kRun;
  text.replace(text.find("# Using devices"), devices(8, 4).size(), devices(9, 9));
  const MeasuredData data = import_text(text);
  REQUIRE(data.collectives.size() == 2);
  CHECK(data.collectives[0].ranks == 8);
  CHECK(data.collectives[0].nodes == 0);
  CHECK_THAT(remarks_of(data), Contains("lists 9 ranks, busbw / algbw says 8"));
}

TEST_CASE("the GPUs of a process are those that its host thread launches for") {
  const auto gpus = [](const std::string& header) {
    std::string text = kRun;
    const std::string usual = "nThread 1 nGpus 1 ";
    text.replace(text.find(usual), usual.size(), header);
    const MeasuredData data = import_text(text);
    CHECK(data.remarks.empty());
    return data.collectives.at(0).gpus_per_process;
  };
  CHECK(gpus("nThread 1 nGpus 1 ") == 1);
  CHECK(gpus("nThread 1 nGpus 4 ") == 4);
  CHECK(gpus("nThread 4 nGpus 1 ") == 1);
  CHECK(gpus("nThread 1 nGpus 99999 ") == 0);
  CHECK(import_text(kColumns + kRowA).collectives.at(0).gpus_per_process == 0);
}

TEST_CASE("a row with a cell that is no number is left out with a remark") {
  const auto cell = GENERATE(as<std::string>(), "nan", "-nan", "inf", "98,55", "1,018.2");
  const bool header = GENERATE(true, false);
  for (const std::string& usual : {std::string("300.0"), std::string("55.92"), std::string("97.87")}) {
    INFO(cell << " for " << usual);
    std::string row = kRowB;
    row.replace(row.find(usual), usual.size(), cell);
    const MeasuredData data = import_text((header ? kColumns : "") + kRowA + row);
    CHECK(data.collectives.size() == 1);
    CHECK_THAT(remarks_of(data), Contains("a cell of the row is no number: left out"));
  }
  // Of the second half: the first is kept.
  std::string row = kRowB;
  row.replace(row.find("280.0"), 5, cell);
  const MeasuredData data = import_text(kColumns + kRowA + row);
  REQUIRE(data.collectives.size() == 2);
  CHECK(data.collectives[1].time.value == 300e-6);
  CHECK_THAT(remarks_of(data), Contains("its second half is left out"));
}

TEST_CASE("the GPU's name, unequal hosts and settings that no prediction knows are kept") {
  const CollectiveMeasurement plain = import_text(kRun).collectives.at(0);
  CHECK(plain.gpu == "NVIDIA H100 80GB HBM3");
  CHECK(plain.fullest == 0);
  CHECK(plain.unmodelled.empty());
  std::string mixed = kRun;
  mixed.replace(mixed.find("NVIDIA H100"), 11, "NVIDIA A100");
  CHECK(import_text(mixed).collectives.at(0).gpu.empty());
  std::string uneven = kRun;
  uneven.replace(uneven.find("node-1"), 6, "node-0");
  CHECK(import_text(uneven).collectives.at(0).fullest == 5);
  CHECK(import_text(uneven).collectives.at(0).nodes == 2);
  const auto stated = [](const std::string& line) {
    const MeasuredData before = import_text("n1:1:1 [0] NCCL INFO " + line + "\n" + kRun),
                       after = import_text(kRun + "n1:1:1 [0] NCCL INFO " + line + "\n");
    CHECK(before.collectives.at(0).unmodelled == after.collectives.at(0).unmodelled);
    return before.collectives.at(0).unmodelled;
  };
  CHECK(stated("Using network Socket") == "\"Using network Socket\"");
  CHECK(stated("Using network IB").empty());
  CHECK(stated("NCCL_P2P_DISABLE set by environment to 1.") == "NCCL_P2P_DISABLE=1");
  CHECK(stated("NCCL_P2P_DISABLE set by environment to 0.").empty());
  CHECK(
      import_text("$ mpirun -x NCCL_SHM_DISABLE=1 -x NCCL_IB_DISABLE=1 ./build/all_reduce_perf -b 8\n" + kRun)
          .collectives.at(0)
          .unmodelled == "NCCL_IB_DISABLE=1, NCCL_SHM_DISABLE=1");
}

TEST_CASE("threads and sockets of NCCL over TCP are read from its lines and from what it was told") {
  using Sockets = std::pair<int, int>;
  const auto stated = [](const std::string& line) {
    const CollectiveMeasurement before = import_text(line + "\n" + kRun).collectives.at(0),
                                after = import_text(kRun + line + "\n").collectives.at(0);
    const Sockets found{before.socket_threads, before.sockets_per_thread};
    CHECK((line.starts_with('$') || found == Sockets{after.socket_threads, after.sockets_per_thread}));
    return found;
  };
  const std::string nccl = "n1:1:1 [0] NCCL INFO ";
  CHECK(stated(nccl + "NET/Socket: Using 4 threads and 1 sockets per thread") == Sockets{4, 1});
  CHECK(stated(nccl + "NET/Socket: Using 2 threads and 8 sockets per thread") == Sockets{2, 8});
  CHECK(stated(nccl + "NET/Socket : Using [0]eth0:10.0.0.1<0>") == Sockets{0, 0});
  CHECK(stated(nccl + "NCCL_SOCKET_NTHREADS set by environment to 4.") == Sockets{4, 0});
  CHECK(stated(nccl + "NCCL_NSOCKS_PERTHREAD set by environment to 8.") == Sockets{0, 8});
  CHECK(stated(nccl + "NCCL_SOCKET_NTHREADS set by environment to many.") == Sockets{0, 0});
  // What NCCL has counts, wherever it stands, and not what it was told.
  const std::string told = nccl + "NCCL_SOCKET_NTHREADS set by environment to 8.\n",
                    has = nccl + "NET/Socket: Using 4 threads and 16 sockets per thread";
  CHECK(stated(told + has) == Sockets{4, 16});
  CHECK(stated(has + "\n" + told) == Sockets{4, 16});
  CHECK(stated("$ NCCL_SOCKET_NTHREADS=3 NCCL_NSOCKS_PERTHREAD=2 ./all_reduce_perf -b 8") == Sockets{3, 2});
}

TEST_CASE("UTF-8's byte order mark is no part of a file") {
  const std::string mark = "\xef\xbb\xbf";
  const MeasuredData data = import_text(mark + kRun);
  check_run(data);
  CHECK(data.remarks.empty());
  CHECK(import_text(mark + "size_bytes,time_us,gpus\n8,5.0,8\n", "all_reduce.csv").collectives.size() == 1);
  CHECK(import_text(mark + "# a comment\nsize_bytes,time_us,gpus\n8,5.0,8\n", "all_reduce.log")
            .collectives.size() == 1);
  CHECK_THAT(import_error(mark + "{}", "a.json"), Contains("no events"));
  CHECK_THAT(import_error(mark), Contains("is empty"));
}

TEST_CASE("a setting's value ends where NCCL, a quote or the shell ends it") {
  const auto algorithm = [](const std::string& line) {
    INFO(line);
    return import_text("started\n" + line + "\n" + kRun).collectives.at(0).algorithm;
  };
  const std::string both = "ALLGATHER:RING;ALLREDUCE:TREE";
  for (const char* const line :
       {"n1:1:1 [0] NCCL INFO NCCL_ALGO set by environment to allgather:ring;allreduce:tree.",
        "{\"log\":\"NCCL INFO NCCL_ALGO set by environment to allgather:ring;allreduce:tree.\\n\"}",
        "export NCCL_ALGO='allgather:ring;allreduce:tree'",
        "export NCCL_ALGO=\"allgather:ring;allreduce:tree\"; mpirun ./run.sh",
        "+ export 'NCCL_ALGO=allgather:ring;allreduce:tree'",
        "mpirun -x NCCL_ALGO='allgather:ring;allreduce:tree' ./all_reduce_perf -b 8",
        "mpirun -x \"NCCL_ALGO=allgather:ring;allreduce:tree\" ./all_reduce_perf -b 8",
        "[1,0]<stdout>:NCCL_ALGO=allgather:ring;allreduce:tree"}) {
    CHECK(algorithm(line) == both);
  }
  for (const char* const line :
       {"export NCCL_ALGO=Ring; mpirun ./run.sh", "export NCCL_ALGO=Ring;mpirun ./run.sh",
        "bash -c \"export NCCL_ALGO=Ring; ./run.sh\"", "bash -c \"NCCL_ALGO=Ring ./run.sh\"",
        "{\"log\":\"export NCCL_ALGO=\\\"Ring\\\"\\n\"}",
        "srun --export=ALL,NCCL_ALGO=Ring,NCCL_PROTO=LL ./run.sh", "(NCCL_ALGO=Ring ./run.sh)"}) {
    CHECK(algorithm(line) == "RING");
  }
}

TEST_CASE("what sets a variable: NCCL's line, a shell's, an option, env's") {
  for (const char* const line : {"export NCCL_ALGO=Ring",
                                 "  export NCCL_DEBUG=INFO NCCL_ALGO=Ring  # as agreed",
                                 "NCCL_ALGO=Ring",
                                 "0: NCCL_ALGO=Ring",
                                 "2026-01-02T03:04:05.678901Z stdout F NCCL_ALGO=Ring",
                                 "declare -x NCCL_ALGO=\"Ring\"",
                                 "NCCL_ALGO=Ring mpirun -np 16 ./run.sh",
                                 "NCCL_DEBUG=INFO NCCL_ALGO=Ring ./build/all_reduce_perf -b 8",
                                 "  -x NCCL_ALGO=Ring \\",
                                 "mpirun -np 8 -x NCCL_ALGO=Ring run",
                                 "docker run -e NCCL_ALGO=Ring image",
                                 "mpirun -np 8 env NCCL_ALGO=Ring ./all_reduce_perf",
                                 "root@n1:/workspace# export NCCL_ALGO=Ring",
                                 "[root@n1 ~]# NCCL_ALGO=Ring ./all_reduce_perf",
                                 "Environment: NCCL_ALGO=Ring",
                                 "if true; then export NCCL_ALGO=Ring; fi",
                                 "=== NCCL_ALGO=Ring ===",
                                 "#SBATCH --export=ALL,NCCL_ALGO=Ring",
                                 "/ # export NCCL_ALGO=Ring",
                                 "linux:~ # export NCCL_ALGO=Ring",
                                 "srun --comment=\"run #1\" -x NCCL_ALGO=Ring ./run.sh",
                                 "export NCCL_ALGO=$'Ring'",
                                 "n1: export NCCL_ALGO=\\'Ring\\'",
                                 "Settings: {NCCL_ALGO=Ring}",
                                 "[NCCL_ALGO=Ring]"}) {
    INFO(line);
    CHECK(import_text(std::string(line) + "\n" + kRun).collectives.at(0).algorithm == "RING");
  }
}

TEST_CASE("comments and warnings set nothing") {
  for (const char* const line : {"#export NCCL_ALGO=Ring", "# export NCCL_PROTO=LL  # only for debugging",
                                 "# NCCL_ALGO=Tree gave hangs", "[1,0]<stdout>:# export NCCL_ALGO=Ring",
                                 "export NCCL_DEBUG=INFO # not NCCL_ALGO=Ring",
                                 "n1:1:1 [0] NCCL WARN Please set NCCL_PROTO=Simple to work around",
                                 "n1:1:1 [0] NCCL WARN Bad values: NCCL_PROTO=Simple",
                                 "unset NCCL_ALGO; # was NCCL_ALGO=Ring", "OLD_NCCL_ALGO=Ring"}) {
    const CollectiveMeasurement one = import_text(std::string(line) + "\n" + kRun).collectives.at(0);
    INFO(line);
    CHECK(one.algorithm.empty());
    CHECK(one.protocol.empty());
    CHECK(one.unmodelled.empty());
  }
}

TEST_CASE("unset takes a setting back") {
  const std::string set =
      "export NCCL_ALGO=Ring NCCL_IB_DISABLE=1 NCCL_MAX_NCHANNELS=4\nexport NCCL_PROTO=LL\n";
  const auto after = [&](const std::string& line) {
    return import_text(set + line + "\n" + kRun).collectives.at(0);
  };
  for (const char* const line :
       {"unset NCCL_ALGO NCCL_IB_DISABLE NCCL_MAX_NCHANNELS",
        "+ unset NCCL_ALGO NCCL_IB_DISABLE NCCL_MAX_NCHANNELS; ./all_reduce_perf -b 8"}) {
    const CollectiveMeasurement one = after(line);
    INFO(line);
    CHECK(one.algorithm.empty());
    CHECK(one.unmodelled.empty());
    CHECK(one.channels == 0);
    CHECK(one.protocol == "LL");
  }
  CHECK(after("export NCCL_IB_DISABLE=0").unmodelled.empty());
  CHECK(after("unset NCCL_ALGO; export NCCL_ALGO=Tree").algorithm == "TREE");
  CHECK(after("unset FOO; unset NCCL_ALGO").algorithm.empty());
  CHECK(after("export NCCL_ALGO=Tree; unset NCCL_DEBUG NCCL_ALGO").algorithm.empty());
  for (const char* const line :
       {"# unset NCCL_ALGO", "the option was unset NCCL_ALGO", "echo unset NCCL_ALGO"}) {
    INFO(line);
    CHECK(after(line).algorithm == "RING");
  }
  CHECK(after("mpirun -x NCCL_IB_DISABLE=0 ./build/all_reduce_perf -b 8").unmodelled.empty());
  CHECK(import_text("export NCCL_IB_DISABLE=" + std::string(1000, '1') + "\n" + kRun)
            .collectives.at(0)
            .unmodelled.empty());
}

TEST_CASE("times of grouped operations and of CUDA graphs are told") {
  std::string unmodelled;
  const auto remarks = [&](const std::string& more) {
    std::string text = kRun;
    const std::string usual = "warmup iters: 1 iters: 20";
    text.replace(text.find(usual), usual.size(), usual + more);
    const MeasuredData data = import_text(text);
    check_run(data);
    unmodelled = data.collectives[0].unmodelled;
    return remarks_of(data);
  };
  CHECK(remarks(" agg iters: 1 validate: 1 graph: 0").empty());
  CHECK(unmodelled.empty());
  CHECK_THAT(remarks(" agg iters: 16 validate: 1 graph: 0"),
             Contains("18: agg iters: 16 (-m): a time of this table is its share of 16 operations") &&
                 Contains("a prediction is of one that is launched alone") && !Contains("graph"));
  CHECK(unmodelled == "agg iters: 16");
  CHECK_THAT(remarks(" agg iters: 1 validation: 1 graph: 5 unalign: 0"),
             Contains("18: graph: 5 (-G): the times of this table are those in a CUDA graph") &&
                 Contains("one collective that the host launches") && !Contains("agg iters"));
  CHECK(unmodelled == "graph: 5");
}

TEST_CASE("of several groups of ranks a table has one") {
  const auto split = [](const auto& group_of, const std::string& collective) {
    std::string text = kRun;
    for (int rank = 0; rank < 8; ++rank) {
      const std::string all = "Rank " + std::to_string(rank) + " Group  0";
      text.replace(text.find(all), all.size(),
                   all.substr(0, all.size() - 1) + std::to_string(group_of(rank)));
    }
    for (std::size_t at = 0; (at = text.find("all_reduce", at)) != std::string::npos;
         at += collective.size()) {
      text.replace(at, 10, collective);
    }
    // A collective whose bandwidths say nothing of its ranks.
    for (const auto& [from, to] :
         {std::pair{"82.56", "47.18"}, {"82.47", "47.13"}, {"97.87", "55.92"}, {"104.86", "59.92"}}) {
      text.replace(text.find(from), std::string(from).size(), to);
    }
    return import_text(text);
  };
  for (const char* const collective : {"broadcast", "sendrecv"}) {
    const MeasuredData by_node = split([](int rank) { return rank / 4; }, collective);
    REQUIRE(by_node.collectives.size() == 2);
    CHECK(by_node.collectives[0].ranks == 4);
    CHECK(by_node.collectives[0].nodes == 1);
    CHECK_THAT(remarks_of(by_node), Contains("18: 2 groups of ranks at once (NCCL_TESTS_SPLIT), "
                                             "ranks of each: 4; a prediction has one group alone"));
    CHECK(by_node.collectives[0].unmodelled == "2 groups of ranks at once");
    const MeasuredData by_rail = split([](int rank) { return rank % 4; }, collective);
    CHECK(by_rail.collectives.at(0).ranks == 2);
    CHECK(by_rail.collectives.at(0).nodes == 2);
    CHECK_THAT(remarks_of(by_rail), Contains("4 groups of ranks"));
    const MeasuredData uneven = split([](int rank) { return rank < 3 ? 0 : 1; }, collective);
    CHECK(uneven.collectives.at(0).ranks == 0);
    CHECK(uneven.collectives.at(0).nodes == 0);
    CHECK_THAT(remarks_of(uneven), Contains("not all alike: taken as not stated"));
  }
  // Of an all-reduce the bandwidths tell the ranks: of one group.
  const MeasuredData of_two = split([](int rank) { return rank % 4; }, "all_reduce");
  CHECK(of_two.collectives.at(0).ranks == 2);
  CHECK(of_two.collectives.at(0).nodes == 2);
  CHECK_THAT(remarks_of(of_two), !Contains("busbw / algbw"));
}
