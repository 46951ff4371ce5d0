// Rows beside predictions, stretches of sizes, the verdict in words: as `paceline calibrate compare` has them.
#include "calibrate/validate/judge.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "calibrate/fit/evidence.h"
#include "core/error.h"
#include "kernels/gpu.h"
#include "tests/error_of.h"
#include "tests/files.h"
#include "tests/validate/faulty_logs.h"

namespace paceline {
namespace {

using namespace faulty;
using Catch::Contains;

// A log as CSV, without its layout where `stated` is false.
std::string csv_of(const MeasuredData& data, bool stated = true) {
  std::ostringstream text;
  text << "collective,size_bytes,time_us" << (stated ? ",gpus,nodes" : "") << '\n';
  text.precision(12);
  for (const CollectiveMeasurement& row : data.collectives) {
    text << name_of(row.kind) << ',' << row.bytes.value << ',' << row.time.value * 1e6;
    if (stated) {
      text << ',' << row.ranks << ',' << row.nodes;
    }
    text << '\n';
  }
  return text.str();
}

LogFiles logs_at(const std::string& path, const Machine& machine) {
  LogFiles logs;
  logs.files.files = {path};
  logs.files.cluster = machine.cluster;
  logs.files.nccl = machine.nccl;
  return logs;
}

const Machine kVolta{"dgx1-v100", 1};

TEST_CASE("a healthy log is as expected, row by row") {
  const TemporaryFolder folder;
  const MeasuredData data = log_of(place_of(kVolta), 0.02, 5);
  const JudgedLog judged = judge(logs_at(folder.write("all_reduce.csv", csv_of(data)), kVolta));
  CHECK(judged.diagnosis.healthy());
  REQUIRE(judged.rows.size() == data.collectives.size());
  REQUIRE(judged.stretches.size() == 1);
  CHECK(judged.stretches[0].expected);
  CHECK(judged.stretches[0].speed == Approx(1).epsilon(0.02));
  REQUIRE(judged.verdict.size() == 1);
  CHECK_THAT(judged.verdict[0],
             Contains("all_reduce on 1 node of 8 GPUs: as expected at all sizes (off by 1."));
  const std::string text = compare_text(judged);
  CHECK_THAT(text, Contains("64 MiB") && Contains("ring/simple/") && Contains("90 % from") &&
                       Contains(judged.verdict[0]));
  const nlohmann::json json = nlohmann::json::parse(compare_json(judged));
  CHECK(json["healthy"] == true);
  REQUIRE(json["rows"].size() == data.collectives.size());
  for (std::size_t r = 0; r < data.collectives.size(); ++r) {
    const nlohmann::json& row = json["rows"][r];
    CHECK(row["measured_us"].get<double>() == Approx(data.collectives[r].time.value * 1e6));
    CHECK(row["ratio"].get<double>() ==
          Approx(row["measured_us"].get<double>() / row["predicted_us"].get<double>()));
    CHECK(row["low_us"] < row["predicted_us"]);
    CHECK(row["predicted_us"] < row["high_us"]);
    CHECK(row["gpus"] == 8);
  }
}

TEST_CASE("sizes that are as predicted stay so, whatever fault would explain the others") {
  const TemporaryFolder folder;
  const Machine machine{"dgx-h100", 2};
  MeasuredData data = log_of(place_of(machine), 0.01, 7);
  constexpr Bytes kFrom(64 << 20);
  for (CollectiveMeasurement& row : data.collectives) {
    row.time = row.bytes >= kFrom ? 2 * row.time : row.time;
  }
  const JudgedLog judged = judge(logs_at(folder.write("late.csv", csv_of(data)), machine));
  REQUIRE_FALSE(judged.diagnosis.healthy());
  REQUIRE(judged.stretches.size() == 2);
  CHECK(judged.stretches[0].expected);
  CHECK(judged.stretches[0].last < kFrom);
  CHECK(judged.stretches[1].first == kFrom);
  CHECK(judged.stretches[1].speed == Approx(0.5).epsilon(0.03));
}

TEST_CASE("a sick log is told in words where, how much, and why") {
  const TemporaryFolder folder;
  MeasuredPlace place = place_of(kVolta);
  place.cluster.degraded.push_back({"node0/gpu4", "node0/gpu7", 0.5, {}});
  const JudgedLog judged = judge(logs_at(folder.write("sick.csv", csv_of(log_of(place, 0.02, 6))), kVolta));
  REQUIRE_FALSE(judged.diagnosis.healthy());
  CHECK(judged.diagnosis.best().names.front() == "one of two NVLinks between two GPUs lost");
  CHECK_THAT(judged.diagnosis.best().look, Contains("nvidia-smi nvlink"));
  REQUIRE(judged.stretches.size() == 2);
  CHECK(judged.stretches[0].expected);
  CHECK_FALSE(judged.stretches[1].expected);
  CHECK(judged.stretches[1].speed < 0.8);
  REQUIRE(judged.verdict.size() == 2);
  CHECK_THAT(judged.verdict[0],
             Contains("as expected up to") && Contains("% of the expected speed from") && Contains(" on ("));
  CHECK_THAT(judged.verdict[1],
             Contains("one of two NVLinks between two GPUs lost") && Contains("explains it"));
  const std::string text = diagnose_text(judged);
  CHECK_THAT(text, Contains("nothing: a machine as it is described") && Contains("times more") &&
                       Contains("look at: nvidia-smi nvlink") && Contains("would not show in these sizes: "));
  const nlohmann::json json = nlohmann::json::parse(diagnose_json(judged));
  CHECK(json["ranked"][0]["faults"][0] == "one of two NVLinks between two GPUs lost");
  CHECK(json["ranked"][0]["log_odds"] > 0);
  CHECK(std::ranges::any_of(json["ranked"], [](const nlohmann::json& each) {
    return each["faults"].empty() && each["log_odds"] == 0;
  }));
}

TEST_CASE("a log that doesn't state its layout is told it") {
  const TemporaryFolder folder;
  const Machine machine{"dgx1-v100", 2, 4};
  const std::string path = folder.write("all_reduce.csv", csv_of(log_of(place_of(machine), 0, 1), false));
  LogFiles logs = logs_at(path, machine);
  CHECK_THAT(error_of([&] { judge(logs); }), Contains("its number of GPUs is not stated"));
  logs.files.nodes = "2";
  logs.files.gpus_per_node = "4";
  const JudgedLog judged = judge(logs);
  CHECK(judged.log.places.at(0).nodes() == 2);
  CHECK(judged.log.places.at(0).gpus_per_node() == 4);
  CHECK(judged.diagnosis.healthy());
  logs.files.gpus_per_node = "9";
  CHECK_THAT(error_of([&] { judge(logs); }), Contains("--gpus-per-node") && Contains("1 to 8"));
  logs.files.gpus_per_node = "4";
  logs.files.nodes = "none";
  CHECK_THAT(error_of([&] { judge(logs); }), Contains("--nodes"));
}

TEST_CASE("with a profile of the machine a log is judged by what such a machine was measured to take") {
  const TemporaryFolder folder;
  MeasuredData slower = log_of(place_of(kVolta), 0.01, 8);
  for (CollectiveMeasurement& row : slower.collectives) {
    row.time = row.time * 1.25;
  }
  const std::string path = folder.write("all_reduce.csv", csv_of(slower));
  FitRequest request = request_of(kVolta);
  LogFiles logs = logs_at(path, kVolta);
  logs.profile = fit_collectives(request, slower).profile;
  const JudgedLog judged = judge(logs);
  CHECK(judged.diagnosis.healthy());
  for (std::size_t p = 0; p < judged.log.points.size(); ++p) {
    CHECK(judged.log.expected[p].time.value == Approx(std::exp(judged.log.points[p].log_time)).epsilon(0.1));
    CHECK(judged.log.expected[p].deviation < 0.1);
  }
}

TEST_CASE(
    "a prediction that needs less of the known discrepancy explains more, and one bad row is no proof") {
  std::vector<EvidenceRow> rows;
  for (int k = 3; k < 34; ++k) {
    rows.push_back({{CollectiveKind::all_reduce, 1, 8, Bytes(std::int64_t{1} << k), 0, 0}, 0.2, 0.03});
  }
  const Evidence evidence(rows);
  std::vector<double> near(rows.size()), far(rows.size()), one(rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    near[r] = 0.03 * normal(3, static_cast<std::uint32_t>(r));
    far[r] = near[r] + (r > 15 ? 0.3 : 0);
    one[r] = near[r] + (r == 12 ? 0.5 : 0);
  }
  CHECK(evidence.of(near) > evidence.of(far) + 5);
  CHECK(evidence.of(one) > evidence.of(near) - 8);  // an outlier's price, not exp(-0.5 (0.5 / 0.03)^2)
  CHECK(log_mean_exp(std::vector<double>{0, 0}) == 0);
  CHECK(log_mean_exp(std::vector<double>{-1000, -1000 + std::log(3.0)}) == Approx(-1000 + std::log(2.0)));
}

TEST_CASE("a log of other GPUs than the cluster's is told so first, and suspects have the log's") {
  const Machine hopper{"dgx-h100", 1};
  const auto page = [&](const std::string& gpu) {
    MeasuredData data = log_of(place_of(hopper), 0.01, 3);
    for (CollectiveMeasurement& row : data.collectives) {
      row.gpu = gpu;
    }
    return log_remarks(request_of(hopper), data);
  };
  REQUIRE(page("NVIDIA A100-SXM4-80GB").size() == 1);
  CHECK_THAT(page("NVIDIA A100-SXM4-80GB")[0], Contains("the log's GPUs are A100-80GB, dgx-h100 has H100"));
  CHECK(page("NVIDIA H100 80GB HBM3").empty());
  for (const char* const other : {"Tesla M60", "NVIDIA A30", "AMD Instinct MI300X"}) {
    REQUIRE(page(other).size() == 1);
    CHECK_THAT(page(other)[0],
               Contains("the log's GPUs are " + std::string(other) +
                        ", which is no GPU that Paceline knows by that name; dgx-h100 has H100"));
  }
  CHECK_THAT(page("Tesla T4").at(0), Contains("the log's GPUs are T4, dgx-h100 has H100"));
  CHECK_THAT(page("NVIDIA GB200").at(0), Contains("the log's GPUs are B200, dgx-h100 has H100"));
  CHECK_THAT(page("NVIDIA H100 PCIe").at(0), Contains("the log's GPUs are H100-PCIe, dgx-h100 has H100"));
  CHECK(page("NVIDIA H100 NVL").empty());
  CHECK(page("h100-sxm5").empty());
  CHECK(page("").empty());

  const auto machines = [](const std::string& gpu) {
    std::vector<std::string> names;
    for (const Fault& fault : faults_of(load_cluster("dgx-h100"), gpu)) {
      if (fault.family == FaultFamily::machine) {
        names.push_back(node_preset(fault.name.substr(fault.name.find(": ") + 2)).gpu);
      }
    }
    return names;
  };
  CHECK(std::ranges::count(machines("H100"), "B200") == 0);
  CHECK(std::ranges::count(machines("H100"), "H100") > 0);
  CHECK(std::ranges::count(machines("A100-80GB"), "A100-80GB") > 0);
  CHECK(std::ranges::count(machines("A100-80GB"), "A100-40GB") == 0);
  CHECK(std::ranges::count(machines(""), "B200") > 0);
}

TEST_CASE("the driver's names of GPUs are those of presets") {
  CHECK(gpu_called("NVIDIA A100-SXM4-80GB") == "A100-80GB");
  CHECK(gpu_called("NVIDIA A100-PCIE-40GB") == "A100-40GB");
  CHECK(gpu_called("A100") == "A100");
  CHECK(gpu_called("Tesla V100-SXM2-32GB") == "V100-32GB");
  CHECK(gpu_called("Tesla P100-SXM2-16GB") == "P100");
  CHECK(gpu_called("NVIDIA H100 80GB HBM3") == "H100");
  CHECK(gpu_called("NVIDIA H200") == "H200");
  CHECK(gpu_called("NVIDIA GB200") == "B200");
  CHECK(gpu_called("NVIDIA B300 SXM6 AC") == "B300");
  CHECK(gpu_called("NVIDIA GB300") == "B300");
  CHECK(gpu_called("a100-sxm4-80gb") == "A100-80GB");
  CHECK(gpu_called("NVIDIA GH200 480GB") == "GH200");
  CHECK(gpu_called("NVIDIA H100 PCIe") == "H100-PCIe");
  CHECK(gpu_called("NVIDIA GeForce RTX 4090") == "RTX-4090");
  CHECK(gpu_called("NVIDIA A10G") == "A10G");
  CHECK(gpu_called("NVIDIA A30").empty());
  CHECK(gpu_called("NVIDIA GeForce RTX 4090 Laptop GPU").empty());
  CHECK(gpu_called("NVIDIA H20-3e").empty());
  CHECK(may_be_gpu("A100", "A100-40GB"));
  CHECK_FALSE(may_be_gpu("A100-80GB", "A100-40GB"));
  CHECK_FALSE(may_be_gpu("H100", "H200"));
  CHECK(may_be_gpu("", "H100"));
  for (const std::string& name : gpu_preset_names()) {
    CHECK(gpu_called("NVIDIA " + name) == name);
  }
}

TEST_CASE("options that a log contradicts are said to be unused") {
  MeasuredData data = log_of(place_of(kVolta), 0.01, 5);
  for (CollectiveMeasurement& row : data.collectives) {
    row.nodes = 2;
    row.ranks = 16;
    row.nccl = "2.18.3";
    row.algorithm = "RING";
    row.protocol = "Simple";
  }
  FitRequest request = request_of(kVolta);
  request.nodes = 2;
  request.gpus_per_node = 8;
  request.collective.nccl = "2.18";
  request.collective.algorithm = "ring";
  request.collective.protocol = "simple";
  CHECK(log_remarks(request, data).empty());
  request.nodes = 4;
  request.gpus_per_node = 4;
  request.collective.nccl = "2.26";
  request.collective.algorithm = "tree";
  request.collective.protocol = "ll";
  const std::vector<std::string> lines = log_remarks(request, data);
  const std::string file = data.collectives[0].origin.file + ": ";
  CHECK(lines == std::vector<std::string>{file + "--algo tree is not used: the log states RING",
                                          file + "--gpus-per-node 4 is not used: the log states 8",
                                          file + "--nccl 2.26 is not used: the log states 2.18",
                                          file + "--nodes 4 is not used: the log states 2",
                                          file + "--proto ll is not used: the log states Simple"});
  data.collectives[1].nodes = 1;
  CHECK_THAT(log_remarks(request, data).at(1),
             Contains("--gpus-per-node 4 is not used: the log states 16, 8"));
  data.collectives[1].nodes = 0;  // takes --nodes and --gpus-per-node
  CHECK(log_remarks(request, data).size() == 3);
  for (CollectiveMeasurement& row : data.collectives) {
    row.nodes = 0;
    row.nccl.clear();
    row.algorithm.clear();
    row.protocol.clear();
  }
  CHECK(log_remarks(request, data).empty());
}

TEST_CASE("threads of TCP sockets that nobody stated are found, those of a row or of --set believed") {
  const Machine sockets{(kSource / "scenarios/validation/collectives/gcp-g4.json").string(), 2, 8, "2.30"};
  MeasuredPlace place = place_of(sockets);
  place.spec.socket_threads = 4;
  MeasuredData data = log_of(place, 0.02, 11);
  FitRequest request = request_of(sockets);
  const auto judged = [&] {
    const ExpectedLog log = expected_log(request, gather_points(request, data), data, {});
    std::vector<std::string> unseen;
    return diagnose(log, suspects_of(log, {}, unseen));
  };
  REQUIRE_FALSE(judged().healthy());
  CHECK(judged().best().names == std::vector<std::string>{"NCCL_SOCKET_NTHREADS=4"});
  request.collective.socket_threads = 4;
  CHECK(judged().healthy());
  CHECK(log_remarks(request, data).empty());
  request.collective.socket_threads = 2;
  for (CollectiveMeasurement& row : data.collectives) {
    row.socket_threads = 4;
  }
  CHECK(judged().healthy());
  CHECK_THAT(log_remarks(request, data).at(0),
             Contains("--set socket_threads 2 is not used: the log states 4"));

  // A profile is of what NCCL was told: a question that says nothing is asked of that.
  const Profile profile = fit_collectives(request, data).profile;
  const auto predicted = [&](int threads) {
    CollectiveTest test;
    test.cluster = place.cluster;
    test.collective.nccl = "2.30";
    test.collective.socket_threads = threads;
    test.sizes = {Bytes(64 << 20)};
    return predict_collectives(test, parse_profile(to_json(profile), "p.json"));
  };
  const auto at = std::ranges::find(data.collectives, Bytes(64 << 20), &CollectiveMeasurement::bytes);
  const CollectivePrediction four = predicted(4), one = predicted(1);
  CHECK(to_seconds(four.result.rows[0].time).value == Approx(at->time.value).epsilon(0.1));
  CHECK(predicted(0).result.rows[0].time == four.result.rows[0].time);
  CHECK(one.result.rows[0].time > four.result.rows[0].time);
}

TEST_CASE(
    "what NCCL can't have been told is no row, and what a network of TCP sockets says anyway no remark") {
  const Machine sockets{(kSource / "scenarios/validation/collectives/gcp-g4.json").string(), 2, 8, "2.30"};
  MeasuredData data = log_of(place_of(sockets), 0.02, 11);
  for (CollectiveMeasurement& row : data.collectives) {
    row.unmodelled = "\"Using network Socket\", NCCL_IB_DISABLE=1";
    row.channels = 2;
    row.socket_threads = 40;
    row.sockets_per_thread = 9;
  }
  FitRequest request = request_of(sockets);
  CHECK(log_remarks(request, data).empty());
  CHECK_THAT(log_remarks(request_of(kVolta), data).back(),
             Contains("\"Using network Socket\", NCCL_IB_DISABLE=1"));
  const CollectiveSpec spec = gather_points(request, data).places.at(0).spec;
  CHECK(spec.socket_threads == 16);
  CHECK(spec.sockets_per_thread == 4);  // 64 in all
  request.collective.max_channels = 4;
  CHECK_THAT(log_remarks(request, data).at(0),
             Contains("--set max_channels 4 is not used: the log states 2"));
  request.collective.min_channels = 4;
  const MeasuredPoints none = gather_points(request, data);
  CHECK(none.points.empty());
  CHECK(none.rows.front().note == "NCCL_MAX_NCHANNELS=2, and at least 4 channels are said");
}

TEST_CASE("settings that no prediction knows are said") {
  MeasuredData data = log_of(place_of(kVolta), 0.01, 5);
  CHECK(log_remarks(request_of(kVolta), data).empty());
  data.collectives[3].unmodelled = "NCCL_P2P_DISABLE=1";
  const std::vector<std::string> lines = log_remarks(request_of(kVolta), data);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Contains("the log states NCCL_P2P_DISABLE=1, which the prediction does not model") &&
                           !Contains("p2p_level"));
  // Without NVLink there is a word for it.
  FitRequest pcie = request_of(kVolta);
  pcie.cluster.node.wiring = NvlinkWiring::none;
  CHECK_THAT(log_remarks(pcie, data).at(0),
             Contains(R"(; "p2p_level": "loc" in the node describes that one)"));
  pcie.cluster.node.p2p_level = P2pLevel::loc;
  CHECK(log_remarks(pcie, data).empty());
}

TEST_CASE("what a log doesn't state is marked as assumed, and what it does isn't") {
  const TemporaryFolder folder;
  MeasuredData data = log_of(place_of(kVolta), 0.01, 5);
  const auto heading = [&](const MeasuredData& of) {
    JudgedLog judged;
    judged.data = of;
    const MeasuredPoints points = gather_points(request_of({"dgx1-v100", 1}), of);
    judged.log.places = points.places;
    judged.log.nccl_stated = false;
    judged.diagnosis.ranked.emplace_back();
    return compare_text(judged);
  };
  data.collectives.resize(1);
  data.collectives[0].algorithm = "RING";
  data.collectives[0].nodes = 0;
  FitRequest request = request_of({"dgx1-v100", 1});
  request.nccl_stated = false;
  MeasuredPlace place = gather_points(request, data).places.at(0);
  CHECK_FALSE(place.nodes_stated);
  CHECK(place.nccl_stated);
  CHECK_THAT(heading(data),
             Contains("1 node of 8 GPUs (not stated: full nodes are assumed), NCCL 2.22, NCCL_ALGO=RING\n"));
  request.nodes = 1;
  data.collectives[0].nccl = "";
  place = gather_points(request, data).places.at(0);
  CHECK(place.nodes_stated);
  CHECK_FALSE(place.nccl_stated);
  data.collectives[0].nodes = 1;
  const std::string path = folder.write(
      "all_reduce.csv", "collective,size_bytes,time_us,gpus,nodes,algo\nall_reduce,1048576,90,8,1,RING\n");
  LogFiles logs = logs_at(path, kVolta);
  logs.files.nccl.reset();
  CHECK_THAT(compare_text(judge(logs)),
             Contains("(not stated: the newest is assumed), NCCL_ALGO=RING\n") && !Contains("full nodes"));
}

TEST_CASE("a version that a log states leaves out of the intervals what other versions would choose") {
  const Machine machine{"aws-p5", 2};
  MeasuredData data = log_of(place_of(machine), 0.01, 5);
  FitRequest request = request_of(machine);
  const auto expected = [&] {
    return expected_log(request, gather_points(request, data), data, {}).expected;
  };
  const std::vector<ExpectedPoint> stated = expected();
  request.nccl_stated = false;
  for (CollectiveMeasurement& row : data.collectives) {
    row.nccl = "";
  }
  const std::vector<ExpectedPoint> assumed = expected();
  REQUIRE(stated.size() == assumed.size());
  int narrower = 0;
  for (std::size_t p = 0; p < stated.size(); ++p) {
    CHECK(stated[p].time.value == assumed[p].time.value);
    CHECK(stated[p].deviation <= assumed[p].deviation);
    narrower += stated[p].deviation < 0.8 * assumed[p].deviation ? 1 : 0;
  }
  CHECK(narrower > 3);
}

TEST_CASE("hosts with unequal numbers of GPUs are no nodes of so many") {
  MeasuredData data = log_of(place_of({"dgx-h100", 2}), 0.01, 5);
  for (CollectiveMeasurement& row : data.collectives) {
    row.fullest = 10;
  }
  const MeasuredPoints points = gather_points(request_of({"dgx-h100", 2}), data);
  CHECK(points.points.empty());
  CHECK_THAT(points.rows.at(0).note, Contains("16 GPUs on 2 nodes, of which one has 10"));
}

TEST_CASE("a launch cost is named once, and counted in the stretches too") {
  const TemporaryFolder folder;
  MeasuredData data = log_of(place_of(kVolta), 0.01, 5);
  for (CollectiveMeasurement& row : data.collectives) {
    row.time = row.time + Seconds(24e-6);
  }
  const JudgedLog judged = judge(logs_at(folder.write("all_reduce.csv", csv_of(data)), kVolta));
  CHECK(judged.diagnosis.healthy());
  CHECK(judged.diagnosis.best().launch.value == Approx(24e-6).margin(2.1e-6));
  REQUIRE(judged.stretches.size() == 1);
  CHECK(judged.stretches[0].expected);
  CHECK(judged.stretches[0].speed == Approx(1).epsilon(0.02));
  REQUIRE(judged.verdict.size() == 2);
  CHECK_THAT(judged.verdict[0], Contains("as expected at all sizes"));
  CHECK_THAT(judged.verdict[1], Contains("a launch cost of 2") && Contains(" us explains it"));
  CHECK_THAT(diagnose_text(judged), Contains("a machine as it is described, with a launch cost of 2"));
}

TEST_CASE("rows beyond their intervals are never as expected, whatever explains them") {
  const TemporaryFolder folder;
  const Machine machine{"dgx-h100", 2};
  for (const double longer : {1.5, 2.0}) {
    MeasuredData data = log_of(place_of(machine), 0.01, 5);
    for (CollectiveMeasurement& row : data.collectives) {
      row.time = row.time * longer;
    }
    const JudgedLog judged = judge(logs_at(folder.write("all_reduce.csv", csv_of(data)), machine));
    REQUIRE_FALSE(judged.stretches.empty());
    for (const Stretch& stretch : judged.stretches) {
      std::size_t outside = 0;
      for (std::size_t p = 0; p < judged.diagnosed.points.size(); ++p) {
        const MeasuredPoint& point = judged.diagnosed.points[p];
        outside += stretch.first <= point.bytes && point.bytes <= stretch.last &&
                   !as_expected(judged.diagnosed.expected[p], Seconds(std::exp(point.log_time)),
                                judged.diagnosis.best().launch);
      }
      CAPTURE(longer, stretch.first.value, stretch.last.value, stretch.rows);
      CHECK((!stretch.expected || 2 * outside < stretch.rows));
    }
  }
}

TEST_CASE("rows that are faster than the links allow are impossible, and nothing explains them") {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "all_reduce.csv", "collective,size_bytes,busbw_GBps,gpus,nodes\nall_reduce,2097152,9000,8,1\n");
  const JudgedLog judged = judge(logs_at(path, {"dgx-h100", 1}));
  CHECK_FALSE(judged.healthy());
  REQUIRE(judged.verdict.size() == 1);
  CHECK_THAT(judged.verdict[0], Contains("1 row faster than the links allow, which is impossible: 2 MiB"));
  CHECK_THAT(compare_text(judged), Contains("impossible") && !Contains("explains"));
  CHECK_THAT(diagnose_text(judged), !Contains("explains"));
  const nlohmann::json json = nlohmann::json::parse(compare_json(judged));
  CHECK(json["healthy"] == false);
  CHECK(json["rows"][0]["impossible"] == true);
}

// In a tree each node has a part of its own.
TEST_CASE("a slow NIC is named on whichever node it is") {
  const TemporaryFolder folder;
  MeasuredPlace place = place_of({"dgx-h100", 3});
  place.cluster.degraded.push_back({"node2/nic0", {}, 0.5, {}});
  const JudgedLog judged =
      judge(logs_at(folder.write("sick.csv", csv_of(log_of(place, 0.02, 6))), {"dgx-h100", 3}));
  CHECK(judged.diagnosis.best().names == std::vector<std::string>{"one NIC at half its rate"});
}

// As all_reduce_perf prints it; the third row moved so many wrong values.
std::string nccl_text_of(const MeasuredData& data, int wrong) {
  std::ostringstream text;
  text << "# Collective test starting: all_reduce_perf\n#\n"
          "# size count type redop root time algbw busbw #wrong\n";
  for (const CollectiveMeasurement& row : data.collectives) {
    const double rate = static_cast<double>(row.bytes.value) / row.time.value * 1e-9;
    text << row.bytes.value << ' ' << row.bytes.value / 4 << " float sum -1 " << row.time.value * 1e6 << ' '
         << rate << ' ' << rate * 2 * (row.ranks - 1) / row.ranks << ' '
         << (&row == &data.collectives[2] ? wrong : 0) << '\n';
  }
  return text.str();
}

TEST_CASE("a log whose collectives moved wrong values is never healthy, whatever its times") {
  const TemporaryFolder folder;
  const MeasuredData data = log_of(place_of(kVolta), 0.02, 5);
  REQUIRE(judge(logs_at(folder.write("right.txt", nccl_text_of(data, 0)), kVolta)).healthy());
  const JudgedLog judged = judge(logs_at(folder.write("wrong.txt", nccl_text_of(data, 7)), kVolta));
  CHECK_FALSE(judged.healthy());
  CHECK_THAT(judged.verdict.front(), Contains("1 row moved wrong values (#wrong)"));
  CHECK_THAT(compare_text(judged), Contains("moved wrong values"));
}

TEST_CASE("what leaves more than half of the intervals' width doesn't explain a log") {
  ExpectedLog log;
  log.expected.resize(4);
  for (ExpectedPoint& each : log.expected) {
    each.deviation = 0.1;  // half of the interval: 16 %
  }
  Cause cause;
  cause.names = {"a fault"};
  cause.error = std::expm1(0.164);
  CHECK(explains(log, cause));
  cause.error = std::expm1(0.165);
  CHECK_FALSE(explains(log, cause));
  LogFiles logs;
  logs.files.files = {(kSource / "tests/import/logs/t4_g4dn_2node_efa_on.txt").string()};
  logs.files.cluster = "aws-p3dn";
  const std::vector<std::string> verdict = judge(logs).verdict;
  CHECK_THAT(verdict.back(), Contains(" comes nearest, but leaves ") && !Contains("explains"));
}

// 382 GB/s, where NVLS has 466: that nothing is wrong is likelier than any one fault, though one would explain it.
TEST_CASE("a cause that would explain a log is told, likely or not") {
  const TemporaryFolder folder;
  LogFiles logs;
  logs.files.files = {
      folder.write("one.csv", "collective,size_bytes,time_us,gpus,nodes\nall_reduce,1073741824,4930,8,1\n")};
  logs.files.cluster = "dgx-h100";
  const JudgedLog judged = judge(logs);
  REQUIRE(judged.diagnosis.healthy());
  CHECK_THAT(judged.verdict.back(),
             Contains("no NVLS, or ") && Contains(" would explain that, but are less likely than nothing"));
}

}  // namespace
}  // namespace paceline
