// Is the fault that a log was made with named, and is nothing named where nothing is wrong?
#include "calibrate/validate/diagnose.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>

#include "tests/dice.h"
#include "tests/validate/faulty_logs.h"
#include "tests/validate/published_logs.h"
#include "topology/node_layout.h"

namespace paceline {
namespace {

using namespace faulty;

// What was done to a machine, not by the table of faults: other GPUs, other NICs, another node.
using Injury = void (*)(MeasuredPlace&);

void slow(MeasuredPlace& place, const char* from, const char* to, double factor) {
  place.cluster.degraded.push_back(
      {from, to == nullptr ? std::nullopt : std::optional<std::string>(to), factor, {}});
}
void nic_half(MeasuredPlace& place) { slow(place, "node1/nic2", nullptr, 0.5); }
void nic_barely(MeasuredPlace& place) { slow(place, "node1/nic2", nullptr, 0.02); }
void nic_down(MeasuredPlace& place) {
  NodeSpec node = with_devices(place.cluster.node);
  const auto lost =
      std::ranges::find_if(node.devices, [](const NodeDevice& d) { return d.kind == NodePart::nic; }) + 1;
  const int number = static_cast<int>(lost - node.devices.begin());
  std::vector<NodeCable> cables;
  for (NodeCable cable : node.cables) {
    if (cable.a != number && cable.b != number) {
      cable.a -= cable.a > number ? 1 : 0;
      cable.b -= cable.b > number ? 1 : 0;
      cables.push_back(cable);
    }
  }
  node.devices.erase(lost);
  node.cables = cables;
  --node.nics;
  place.cluster.node = node;
}
void lane_of_18(MeasuredPlace& place) { slow(place, "node0/gpu5", "node0/nvswitch", 17.0 / 18); }
void lane_of_12(MeasuredPlace& place) { slow(place, "node0/gpu3", "node0/nvswitch", 11.0 / 12); }
void lane_of_pair(MeasuredPlace& place) { slow(place, "node0/gpu5", "node0/gpu6", 0.5); }
void no_pxn(MeasuredPlace& place) { place.spec.pxn = false; }
void no_nvls(MeasuredPlace& place) { place.spec.nvls = false; }
void no_ll128(MeasuredPlace& place) { place.spec.protocol = "^LL128"; }
void no_gpu_direct(MeasuredPlace& place) { place.cluster.node.gpu_direct = false; }
void is_a100(MeasuredPlace& place) { place.cluster.node = node_preset("dgx-a100"); }
void is_b200(MeasuredPlace& place) { place.cluster.node = node_preset("dgx-b200"); }
void is_h100(MeasuredPlace& place) { place.cluster.node = node_preset("dgx-h100"); }
void is_p100(MeasuredPlace& place) { place.cluster.node = node_preset("dgx1-p100"); }

struct Injured {
  Injury injury;
  std::string name;  // as the diagnosis calls it
};
struct InjuredMachine {
  Machine machine;
  std::vector<Injured> logs;
};

const std::string kFourNics = R"({"node": {"preset": "dgx-h100", "nics": 4}})",
                  kTwoNics = R"({"node": {"preset": "dgx-h100", "nics": 2}})";
const std::string kLane18 = "one of 18 NVLinks of one GPU lost",
                  kLane12 = "one of 12 NVLinks of one GPU lost",
                  kLanePair = "one of two NVLinks between two GPUs lost";

const std::vector<InjuredMachine>& injured() {
  static const std::vector<InjuredMachine> all{
      {{"dgx-h100", 1},
       {{lane_of_18, kLane18},
        {lane_of_18, kLane18},
        {no_nvls, "no NVLS"},
        {is_a100, "another machine: dgx-a100"}}},
      {{"dgx-h100", 2},
       {{nic_down, "one NIC down"},
        {nic_half, "one NIC at half its rate"},
        {no_nvls, "no NVLS"},
        {no_gpu_direct, "no GPUDirect RDMA"},
        {is_a100, "another machine: dgx-a100"},
        {is_b200, "another machine: dgx-b200"}}},
      // To 2.22 here NVLS trees are as fast where LL128 would run: nothing shows.
      {{"dgx-h100", 2, 8, "2.30"}, {{no_ll128, "no LL128"}}},
      {{"dgx-a100", 1},
       {{lane_of_12, kLane12},
        {lane_of_12, kLane12},
        {no_ll128, "no LL128"},
        {is_h100, "another machine: dgx-h100"}}},
      {{"dgx-a100", 4},
       {{nic_down, "one NIC down"},
        {nic_half, "one NIC at half its rate"},
        {no_ll128, "no LL128"},
        {no_gpu_direct, "no GPUDirect RDMA"}}},
      {{"dgx1-v100", 1},
       {{lane_of_pair, kLanePair}, {no_ll128, "no LL128"}, {is_p100, "another machine: dgx1-p100"}}},
      {{"dgx1-v100", 2},
       {{nic_down, "one NIC down"},
        {nic_half, "one NIC at half its rate"},
        {no_gpu_direct, "no GPUDirect RDMA"}}},
      {{"dgx-b200", 2},
       {{nic_down, "one NIC down"},
        {nic_half, "one NIC at half its rate"},
        {no_nvls, "no NVLS"},
        {no_gpu_direct, "no GPUDirect RDMA"}}},
      {{"dgx-h200", 8},
       {{nic_down, "one NIC down"},
        {nic_half, "one NIC at half its rate"},
        {no_nvls, "no NVLS"},
        {no_ll128, "no LL128"},
        {no_gpu_direct, "no GPUDirect RDMA"},
        {is_b200, "another machine: dgx-b200"}}},
      {{kFourNics, 4}, {{no_pxn, "no PXN"}, {no_pxn, "no PXN"}}},
      {{kFourNics, 4, 4}, {{no_pxn, "no PXN"}}},
      {{kTwoNics, 4, 4}, {{no_pxn, "no PXN"}, {no_pxn, "no PXN"}}}};
  return all;
}

// Where the fault stands among the causes, from 1.
std::size_t rank_of(const Diagnosis& diagnosis, const std::string& name) {
  const auto at = std::ranges::find_if(diagnosis.ranked, [&](const Cause& cause) {
    return std::ranges::find(cause.names, name) != cause.names.end();
  });
  return static_cast<std::size_t>(at - diagnosis.ranked.begin()) + 1;
}

// What the faults change is the same for all logs with these sizes at this machine.
class Simulated {
 public:
  const std::vector<Suspect>& at(const ExpectedLog& log) {
    std::vector<Bytes> sizes;
    std::ranges::transform(log.points, std::back_inserter(sizes), &MeasuredPoint::bytes);
    if (sizes != sizes_) {
      std::vector<std::string> unseen;
      suspects_ = suspects_of(log, {}, unseen);
      sizes_ = std::move(sizes);
    }
    return suspects_;
  }

 private:
  std::vector<Bytes> sizes_;
  std::vector<Suspect> suspects_;
};

struct Found {
  int logs = 0, first = 0, first_two = 0;
};

// Every machine's logs, with 2, 3 and 4 % of noise in turn.
void diagnose_logs(const InjuredMachine& of, Found& found) {
  const FitRequest request = request_of(of.machine);
  Simulated simulated;
  for (const Injured& each : of.logs) {
    MeasuredPlace place = place_of(of.machine);
    each.injury(place);
    const double noise = 0.01 * (2 + found.logs % 3);
    const MeasuredData data = log_of(place, noise, static_cast<std::uint64_t>(1000 + found.logs));
    const ExpectedLog log = thinned(expected_log(request, gather_points(request, data), data, {}));
    const Diagnosis diagnosis = diagnose(log, simulated.at(log));
    const std::size_t rank = rank_of(diagnosis, each.name);
    INFO(of.machine.cluster << " x " << of.machine.nodes << ", " << each.name << ", noise " << noise
                            << ": rank " << rank << "; first "
                            << (diagnosis.healthy() ? "nothing" : diagnosis.best().names.front()) << " "
                            << diagnosis.best().log_odds);
    if (rank > 1) {
      WARN(of.machine.cluster << " x " << of.machine.nodes << ": " << each.name << " is not first");
    }
    CHECK(rank <= 2);
    ++found.logs;
    found.first += rank == 1 ? 1 : 0;
    found.first_two += rank <= 2 ? 1 : 0;
  }
}

TEST_CASE("of 40 logs with a fault the fault is named in 36, and among the first two in all") {
  Found found;
  for (std::size_t i = 0; i < injured().size(); i += stride()) {
    diagnose_logs(injured()[i], found);
  }
  CHECK(found.logs == (thorough() ? 40 : 14));
  CHECK(10 * found.first >= 9 * found.logs);
  CHECK(found.first_two == found.logs);
}

TEST_CASE("a NIC that hardly sends at all is one, not another machine", "[release]") {
  Found found;
  diagnose_logs({{"dgx-a100", 2}, {{nic_barely, "one NIC at a tenth of its rate or less"}}}, found);
  CHECK(found.first == 1);
}

TEST_CASE("of 20 published logs of healthy machines at most two are called sick", "[release]") {
  // The first of the index with enough rows to tell anything, of machines small enough to simulate at once.
  std::size_t logs = 0;
  std::size_t alarms = 0;
  for (const published::Log& each : published::logs()) {
    const MeasuredPoints points = gather_points(each.request, each.data);
    constexpr std::size_t kEnough = 10;
    if (each.doubtful || points.points.size() < kEnough || logs == 20 || logs++ % stride() != 0) {
      continue;
    }
    const ExpectedLog whole = expected_log(each.request, points, each.data, {});
    CHECK(std::ranges::none_of(whole.expected, &ExpectedPoint::impossible));
    const ExpectedLog log = thinned(whole);
    std::vector<std::string> unseen;
    const Diagnosis diagnosis = diagnose(log, suspects_of(log, {}, unseen));
    if (!diagnosis.healthy()) {
      ++alarms;
      WARN(each.name << ": " << diagnosis.best().names.front() << ", " << diagnosis.best().log_odds);
    }
  }
  CHECK(logs == 20);
  CHECK(10 * alarms * stride() <= logs);
}

TEST_CASE("logs of healthy machines, made with noise, are called healthy") {
  const Machine machine{"dgx1-v100", 1};
  const MeasuredPlace place = place_of(machine);
  Simulated simulated;
  for (std::uint64_t k = 0; k < rounds(12); ++k) {
    const MeasuredData data = log_of(place, 0.01 * static_cast<double>(1 + k % 4), k);
    const FitRequest request = request_of(machine);
    const ExpectedLog log = thinned(expected_log(request, gather_points(request, data), data, {}));
    CHECK(diagnose(log, simulated.at(log)).healthy());
  }
}

}  // namespace
}  // namespace paceline
