// Any input below 1 MB takes at most 2 s and 500 MB, or is refused with a message (docs/robustness.md). Each of
// these once took ten times as much; the limit of processor time here is five times the budget, as machines
// differ.
#include <catch2/catch.hpp>
#include <filesystem>

#include "written_file.h"

using namespace paceline;
using Catch::Contains;

namespace {

// The program, within the budget: processor time, and memory with the program itself.
Outcome run(const TemporaryFolder& folder, const std::string& arguments) {
#ifdef NDEBUG
  const std::string seconds = "10";
#else
  const std::string seconds = "100";  // without optimisation
#endif
  return shell(folder, "ulimit -t " + seconds + "; ulimit -v 585937; '" PACELINE_PROGRAM "' " + arguments);
}

std::string span(const std::string& category, const std::string& name, int at, int duration,
                 const std::string& more = "") {
  return "{\"ph\":\"X\",\"cat\":\"" + category + "\",\"name\":\"" + name +
         "\",\"pid\":1,\"tid\":1,\"ts\":" + std::to_string(at) + ",\"dur\":" + std::to_string(duration) +
         more + "},\n";
}

std::string trace(std::string events) {
  events.resize(events.size() - 2);
  return "{\"traceEvents\":[" + events + "]}";
}

}  // namespace

TEST_CASE("a line of very many carriage returns") {
  const TemporaryFolder folder;
  folder.write("a.csv", "collective,bytes,time_us,ranks\n" + repeated("a\r", 480'000));
  const Outcome outcome = run(folder, "calibrate import a.csv");
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.text(),
             Contains("a line of more than 64 KiB: left out") || Contains("no measurement in it"));
}

TEST_CASE("lines of carriage returns just short enough") {
  const TemporaryFolder folder;
  folder.write("a.csv", "collective,bytes,time_us,ranks\n" + repeated(repeated("a\r", 32'000) + "\n", 15));
  const Outcome outcome = run(folder, "calibrate import a.csv");
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.text(), Contains("399992 more rows of another length"));
}

TEST_CASE("a trace whose kernels all run beside very many collectives") {
  const TemporaryFolder folder;
  std::string events = span("user_annotation", "ProfilerStep#0", 0, 1) +
                       span("user_annotation", "ProfilerStep#1", 2, 1'000'000) +
                       span("cpu_op", "aten::add", 3, 900'000, R"(,"args":{"External id":1})");
  constexpr int kEach = 100'000;
  for (int i = 0; i < kEach; ++i) {
    events += span("kernel", "ncclDevKernel", 10 + 4 * i, 2, R"(,"args":{"stream":9})") +
              span("kernel", "gemm", 10 + i, 800'000, R"(,"args":{"stream":7,"External id":1})");
  }
  write_gz(folder, "a.json.gz", trace(events));
  REQUIRE(std::filesystem::file_size(folder.file("a.json.gz")) < 1'000'000);
  const Outcome outcome = run(folder, "calibrate import a.json.gz");
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.text(), Contains("of the computing kernels' time ran beside NCCL's kernels"));
}

TEST_CASE("a trace of very many steps and very many layers") {
  const TemporaryFolder folder;
  std::string events;
  constexpr int kEach = 15'000;
  for (int i = 0; i < kEach; ++i) {
    events += span("user_annotation", "ProfilerStep#" + std::to_string(i), 10 * i, 9) +
              span("cpu_op", "op" + std::to_string(i), 10 * i + 1, 5);
  }
  write_gz(folder, "a.json.gz", trace(events));
  const Outcome outcome = run(folder, "calibrate import a.json.gz");
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.text(), Contains("14999 measurements"));
}

TEST_CASE("a trace of more layers than any model has") {
  const TemporaryFolder folder;
  std::string events;
  for (int i = 0; i < 150'000; ++i) {
    events += span("cpu_op", "a", 10 * i, 5);
  }
  write_gz(folder, "a.json.gz", trace(events));
  const Outcome outcome = run(folder, "calibrate import a.json.gz");
  CHECK(outcome.status == 2);
  CHECK_THAT(
      outcome.text(),
      Contains("a.json.gz: expected at most 100000 layers, found more: record the trace with modules"));
}

TEST_CASE("a log of very many ranks and very many tables") {
  const TemporaryFolder folder;
  std::string log = "# nThread 1 nGpus 1\n";
  for (int rank = 0; rank < 18'000; ++rank) {
    log += "# Rank " + std::to_string(rank) + " on h" + std::to_string(rank) + " device\n";
  }
  for (int i = 1; i < 3'000; ++i) {
    const std::string size = std::to_string(i * 4096), count = std::to_string(i * 1024);
    log += "# size count type redop root time algbw busbw #wrong\n " + size + " " + count + " float sum -1 " +
           std::to_string(i) + ".00 4.10 8.19 0\n";
  }
  REQUIRE(log.size() < 1'000'000);
  folder.write("a.log", log);
  const Outcome outcome = run(folder, "calibrate import a.log");
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.text(), Contains("2999 measurements"));
}

TEST_CASE("a report of very many processes that say very many GPUs each") {
  const TemporaryFolder folder;
  std::string devices;
  for (int i = 0; i < 30'000; ++i) {
    devices += (i == 0 ? "" : ",") + std::string(R"({"rank":)") + std::to_string(i * 1023 % 1'040'000) +
               R"(,"host":"i"})";
  }
  folder.write("a.json",
               R"({"nccl_version":22707,"config":{"nthreads":1,"ngpus":1024,"devices":[)" + devices +
                   R"(]},"results":[{"size":8,"out_of_place":{"time":1,"alg_bw":0.01,"bus_bw":0.01}}]})");
  const Outcome outcome = run(folder, "calibrate import a.json");
  CHECK((outcome.status == 0 || outcome.status == 2));
}

TEST_CASE("a file that unpacks to very much") {
  const TemporaryFolder folder;
  write_gz(folder, "a.log.gz", repeated("# Rank 1 on h1 device\n", 4'000'000));
  const Outcome outcome = run(folder, "calibrate import a.log.gz");
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.text(), Contains("a.log.gz: expected a gzip file that unpacks to at most 64 MiB") &&
                                 Contains("unpack it first (gunzip)"));
}

TEST_CASE("a table of very many wrong rows") {
  const TemporaryFolder folder;
  write_gz(folder, "a.csv.gz", "size_bytes,time_us\n" + repeated("8,x\n", 4'000'000));
  const Outcome outcome = run(folder, "calibrate import a.csv.gz");
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.text(), Contains("399992 more rows with wrong cells"));
}

TEST_CASE("a graph file of very many GPUs") {
  const TemporaryFolder folder;
  std::string xml = R"(<graphs version="1"><graph id="0" pattern="4" nchannels="1"><channel>)";
  for (int i = 0; i < 25'000; ++i) {
    xml += "<gpu dev=\"" + std::to_string(i) + "\"/>";
  }
  xml += R"(</channel></graph><graph id="3" pattern="5" nchannels="64">)" +
         repeated(R"(<channel><gpu dev="0"/></channel>)", 64) + "</graph></graphs>";
  folder.write("g.xml", xml);
  folder.write("s.json", R"({"cluster": {"node": "dgx-a100", "nccl_graph": "g.xml"}, "model": "resnet18",
                             "training": {"batch_per_gpu": 8}})");
  const Outcome outcome = run(folder, "run s.json --no-explain --quiet");
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.text(), Contains("g.xml: line 1: expected at most 256 GPUs, found more"));
}

TEST_CASE("a cluster of very many GPUs") {
  const TemporaryFolder folder;
  folder.write("s.json", R"({"cluster": {"node": "dgx-a100", "nodes": 500000}, "model": "resnet18",
                             "training": {"batch_per_gpu": 8}})");
  const Outcome outcome = run(folder, "run s.json --no-explain --quiet");
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.text(),
             Contains("/cluster/nodes: expected a cluster of at most 8388608 directed links"));
}

TEST_CASE("a study of a million points") {
  const TemporaryFolder folder;
  std::string axes;
  for (const char* const key : {"/training/batch_per_gpu", "/run/seed", "/training/accumulation",
                                "/cluster/nodes", "/training/host/runs_ahead", "/model/transformer/layers"}) {
    axes += (axes.empty() ? "" : ",") + (R"({"name": "an axis of some length for )" + std::string(key)) +
            R"(", "key": ")" + key + R"(", "from": 1, "to": 10, "step": 1})";
  }
  folder.write("s.json",
               R"({"scenario": {"cluster": "dgx-a100", "model": "resnet18", "training": {"batch_per_gpu": 8}},
                             "axes": [)" +
                   axes + "]}");
  const Outcome outcome = run(folder, "sweep s.json --out s.json");
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.text(), Contains("s.json"));
}
