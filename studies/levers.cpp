#include "studies/levers.h"

#include <algorithm>

#include "scenarios/quantities.h"
#include "scenarios/readable.h"
#include "scenarios/writer.h"
#include "sim/strategy/ddp.h"
#include "studies/edit.h"

namespace paceline {
namespace {

constexpr double kTwice = 2;
constexpr std::size_t kMostSpared = 3, kMostHealed = 5;

std::string at(const char* list, std::size_t index, const char* key) {
  return std::string(list) + '/' + std::to_string(index) + '/' + key;
}

Json no_distribution() { return Json::Object{{"distribution", "none"}}; }

// NCCL's own search of rings and trees goes by the links' speed; a graph from a file would stay as it was
// found for the old one.
bool searches(const ClusterSpec& cluster) { return !cluster.graphs; }

void add_network(const ClusterSpec& cluster, std::vector<Lever>& all) {
  const NodeSpec& node = cluster.node;
  if (cluster.nodes < 2 || node.nics == 0) {
    return;
  }
  Lever faster{"NIC bandwidth x2 (" + readable_rate(node.nic_bandwidth * kTwice) + ")",
               "with twice the NIC bandwidth (" + readable_rate(node.nic_bandwidth * kTwice) + " each)",
               {{"/cluster/node/nic_bandwidth", write(node.nic_bandwidth * kTwice)}}};
  for (std::size_t i = 0; i < node.devices.size(); ++i) {
    if (node.devices[i].kind == NodePart::nic) {
      faster.edits.push_back(
          {at("/cluster/node/devices", i, "bandwidth"), write(node.devices[i].bandwidth * kTwice)});
    }
  }
  if (searches(cluster)) {
    all.push_back(std::move(faster));
  }
  all.push_back({"network latency halved",
                 "with half the network's latency",
                 {{"/cluster/node/nic_latency", write(node.nic_latency / kTwice)},
                  {"/cluster/fabric/switch_latency", write(cluster.fabric.switch_latency / kTwice)}}});
  if (cluster.fabric.oversubscription > 1) {
    all.push_back({"no oversubscription",
                   "without oversubscription of the fabric",
                   {{"/cluster/fabric/oversubscription", 1}}});
  }
}

void add_nvlink(const ClusterSpec& cluster, std::vector<Lever>& all) {
  const NodeSpec& node = cluster.node;
  Lever faster{"NVLink bandwidth x2", "with twice the NVLink bandwidth", {}};
  if (node.devices.empty() && node.wiring != NvlinkWiring::none) {
    faster.edits.push_back({"/cluster/node/nvlink_bandwidth", write(node.nvlink_bandwidth * kTwice)});
  }
  for (std::size_t i = 0; i < node.cables.size(); ++i) {
    if (node.cables[i].kind == CableKind::nvlink) {
      faster.edits.push_back(
          {at("/cluster/node/cables", i, "bandwidth"), write(node.cables[i].bandwidth * kTwice)});
    }
  }
  if (searches(cluster) && !faster.edits.empty()) {
    all.push_back(std::move(faster));
  }
}

void add_gpu(const Scenario& s, std::vector<Lever>& all) {
  Lever faster{"GPUs twice as fast", "with GPUs twice as fast", {}, false};
  if (s.training.measured) {
    faster.edits = {{"/training/measured", write(*s.training.measured * kTwice)}};
  } else if (!s.training.layer_times.empty()) {
    for (std::size_t i = 0; i < s.training.layer_times.size(); ++i) {
      const ExplicitLayerTime& t = s.training.layer_times[i];
      faster.edits.push_back({at("/training/layer_times", i, "forward"), write(t.forward / kTwice)});
      faster.edits.push_back({at("/training/layer_times", i, "backward"), write(t.backward / kTwice)});
    }
  } else {
    for (const auto& [name, precision] : kNames<Precision>) {
      const FlopsPerSecond peak = s.gpu.peak[static_cast<std::size_t>(precision)];
      if (peak.value > 0) {
        faster.edits.push_back({"/cluster/gpu/peak/" + std::string(name), write(peak * kTwice)});
      }
    }
  }
  // Of optimizer and copies, too, which neither a measured rate nor layer times contain.
  faster.edits.push_back({"/cluster/gpu/memory_bandwidth", write(s.gpu.memory_bandwidth * kTwice)});
  all.push_back(std::move(faster));
}

void add_ddp(const Scenario& s, std::vector<Lever>& all) {
  const TrainingSpec& t = s.training;
  const auto bucket = [&](Bytes cap, const char* how) {
    all.push_back({std::string("bucket cap ") + how + " (" + to_text(cap) + ")",
                   "with buckets of " + to_text(cap),
                   {{"/training/ddp/bucket_cap", write(cap)}}});
  };
  const Bytes cap = bucket_limits(t).cap;
  bucket(Bytes(cap.value * 2), "x2");
  if (cap.value > 1) {
    bucket(Bytes(cap.value / 2), "halved");
  }
  if (!t.ddp.gradient_as_bucket_view) {
    all.push_back({"gradients as views of the buckets",
                   "with gradient_as_bucket_view",
                   {{"/training/ddp/gradient_as_bucket_view", true}}});
  }
  if (t.ddp.broadcast_buffers && std::ranges::any_of(s.model.layers, [](const Layer& layer) {
        return layer.kind == LayerKind::batch_norm;
      })) {
    all.push_back({"no broadcast of buffers",
                   "without broadcast_buffers",
                   {{"/training/ddp/broadcast_buffers", false}}});
  }
  if (bytes_per_element(t.gradients) == 4) {
    all.push_back({"gradients in bf16", "with gradients in bf16", {{"/training/gradients", "bf16"}}});
  }
  all.push_back({"accumulation x2",
                 "with twice the accumulated batches per step",
                 {{"/training/accumulation", std::int64_t{t.accumulation} * 2}}});
}

void add_variability(const Prediction& p, std::vector<Lever>& all) {
  const VariabilitySpec& v = p.scenario.variability;
  const std::optional<InputSpec>& input = p.scenario.training.input;
  Lever steady{"no jitter", "without jitter", {}, false};
  if (v.per_operation.kind != DistributionKind::none) {
    steady.edits.push_back({"/variability/per_operation", no_distribution()});
  }
  if (v.per_iteration.kind != DistributionKind::none) {
    steady.edits.push_back({"/variability/per_iteration", no_distribution()});
  }
  if (input && input->jitter.kind != DistributionKind::none) {
    steady.edits.push_back({"/training/input/jitter", no_distribution()});
  }
  if (!steady.edits.empty()) {
    all.push_back(std::move(steady));
  }
  if (v.slow_gpus.empty() && v.transient.empty()) {
    return;
  }
  const std::size_t known = std::min(kMostSpared, p.report.stragglers.size());
  for (std::size_t i = 0; i < known; ++i) {
    const StragglerReport& s = p.report.stragglers[i];
    std::vector<std::int64_t> ranks = v.spared_gpus;
    ranks.push_back(s.rank.value);
    const std::string without =
        "without the slowness of rank " + std::to_string(s.rank.value) + " (" + s.gpu + ")";
    all.push_back({without, without, {{"/variability/spared_gpus", write(ranks)}}});
  }
  all.push_back({"no slow GPU",
                 "without any slow GPU",
                 {{"/variability/slow_gpus", Json::Array{}}, {"/variability/transient", Json::Array{}}}});
}

// The degraded links that cost most, as the report has found them.
void add_links(const Prediction& p, std::vector<Lever>& all) {
  const std::vector<DegradedLink>& degraded = p.scenario.cluster.degraded;
  for (std::size_t i = 0; i < std::min(kMostHealed, p.links.size()); ++i) {
    const std::string& name = p.links[i].link;
    std::vector<DegradedLink> rest = degraded;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(p.links[i].degraded));
    all.push_back(
        {name + " healthy", "with " + name + " healthy", {{"/cluster/degraded_links", write(rest)}}});
  }
}

void add_surroundings(const Scenario& s, std::vector<Lever>& all) {
  if (!s.background.empty() || !s.other_jobs.empty()) {
    all.push_back({"no traffic of others",
                   "without the traffic of others",
                   {{"/background", Json::Array{}}, {"/other_jobs", Json::Array{}}}});
  }
  if (s.training.input) {
    all.push_back({"input x2",
                   "with data loaders twice as fast",
                   {{"/training/input/rate", write(s.training.input->rate * kTwice)}}});
  }
}

}  // namespace

std::vector<Lever> levers(const Prediction& p) {
  std::vector<Lever> all;
  const bool distributed = p.job.ranks() > 1;
  add_gpu(p.scenario, all);
  if (distributed) {
    add_network(p.scenario.cluster, all);
    add_nvlink(p.scenario.cluster, all);
    add_ddp(p.scenario, all);
  }
  add_variability(p, all);
  add_links(p, all);
  add_surroundings(p.scenario, all);
  return all;
}

Scenario edited(const Scenario& scenario, const std::vector<Edit>& edits) {
  Json json = scenario_json(scenario);
  for (const Edit& edit : edits) {
    set_at(json, edit.key, edit.value, {});
  }
  return parse_scenario(to_text(json), "the changed scenario");
}

}  // namespace paceline
