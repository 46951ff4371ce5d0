#include "sim/strategy/horovod.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "core/error.h"
#include "core/minor_version.h"
#include "sim/collective/fusion.h"
#include "sim/collective/host_collectives.h"
#include "sim/strategy/gradients.h"

namespace paceline {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr int kNewest = 28;
constexpr HorovodRules kRules[] = {{9, Bytes(64 * kMiB), Seconds(5e-3), false, true, true, false, false},
                                   {15, Bytes(64 * kMiB), Seconds(5e-3), false, true, true, true, false},
                                   {16, Bytes(64 * kMiB), Seconds(5e-3), true, true, true, true, false},
                                   {20, Bytes(64 * kMiB), Seconds(5e-3), true, false, true, true, false},
                                   {21, Bytes(128 * kMiB), Seconds(1e-3), true, false, true, true, false},
                                   {23, Bytes(128 * kMiB), Seconds(1e-3), true, false, false, true, false},
                                   {26, Bytes(128 * kMiB), Seconds(1e-3), true, false, false, true, true}};
constexpr Seconds kPoll(1e-3);
constexpr const char* kOptions = "/training/horovod/";

void check_stages(const HorovodSpec& horovod, const TrainingSpec& training, const RankLayout& layout) {
  if (horovod.hierarchical && horovod.torus) {
    throw InputError("expected either hierarchical or torus, found both", std::string(kOptions) + "torus");
  }
  if (!horovod.hierarchical && !horovod.torus) {
    return;
  }
  const char* const key = horovod.hierarchical ? "hierarchical" : "torus";
  const auto has = horovod.hierarchical ? &HorovodRules::hierarchical : &HorovodRules::torus;
  if (!(horovod_rules(horovod.version).*has)) {
    throw InputError("expected a version of Horovod from 0." +
                         std::to_string(std::ranges::find(kRules, true, has)->minor) +
                         " on, which has it so, found \"" + horovod.version + '"',
                     kOptions + std::string(key));
  }
  if (layout.nodes == 1) {
    throw InputError("expected several nodes, found one, where Horovod leaves it out: set it to false",
                     kOptions + std::string(key));
  }
  if (training.collective.library != CollectiveLibrary::nccl) {
    throw InputError("expected the library nccl, which reduces in the nodes, found another",
                     "/training/collective/library");
  }
}

// CUDA copies what isn't pinned through a buffer that is: it crosses the memory three times.
constexpr double kPassesOfMemory = 3;

DeviceId host_of(const Topology& topology, Rank rank) {
  if (const std::optional<DeviceId> host = nearest_cpu(topology, rank)) {
    return *host;
  }
  throw InputError("expected a node with a CPU, to whose memory hierarchical copies, found none in " +
                       topology.spec_of_kind(topology.kind_of(topology.node_of(rank))).name,
                   "/cluster/node");
}

// Builds the program of all ranks, which is the same in all iterations.
class HorovodProgram {
 public:
  HorovodProgram(const HorovodSpec& horovod, const HorovodRules& rules, const Workload& work,
                 PlanTable& plans)
      : horovod_(horovod), rules_(rules), work_(work), builder_(work, plans) {}

  Program program() {
    const std::vector<Gradient> gradients =
        gradients_in_ready_order(work_.model, bytes_per_element(work_.training.gradients));
    for (std::uint32_t i = 0; i < gradients.size(); ++i) {  // at most as many: each alone
      builder_.collective({CollectiveKind::all_reduce, on_wire(gradients[i].bytes)},
                          {.phase = Phase::exchange, .bucket = i, .format = wire()},
                          "all_reduce fusion " + std::to_string(i), {.after = After::decision});
    }
    builder_.passes([&](std::uint32_t layer) { queue(work_.model.layers[layer].parameters, gradients); });
    for (std::uint32_t i = 0; i < gradients.size(); ++i) {
      builder_.wait(i);
    }
    if (!horovod_.async_completion) {
      builder_.synchronize();
    }
    if (casts(horovod_, work_.training)) {
      cast(parameter_tensors(work_.model), parameter_count(work_.model), "decompress");
    }
    builder_.optimizer(parameter_count(work_.model), work_.training.gradients);
    Program made = builder_.finish();
    for (Op& op : made.ops) {
      if (op.kind == OpKind::collective) {
        op.host_cost = {};  // the background thread issues it
      } else if (op.kind == OpKind::synchronize && rules_.polls) {
        op.poll = to_sim_time(kPoll);
      }
    }
    return made;
  }

  const std::vector<QueuedTensor>& queued() const { return queued_; }

 private:
  Precision wire() const { return horovod_.fp16 ? Precision::fp16 : work_.training.gradients; }
  Bytes on_wire(Bytes gradients) const {
    return Bytes(gradients.value / bytes_per_element(work_.training.gradients) * bytes_per_element(wire()));
  }

  // A kernel for each tensor, which reads one format and writes the other.
  void cast(std::size_t tensors, std::int64_t elements, const char* label) {
    const std::int64_t both = bytes_per_element(work_.training.gradients) + bytes_per_element(wire());
    builder_.copy(Bytes(elements * both), tensors, kNoIndex, label);
  }

  // A layer's gradients, when its last kernel is issued.
  void queue(const std::vector<std::int64_t>& tensors, const std::vector<Gradient>& gradients) {
    if (casts(horovod_, work_.training) && !tensors.empty()) {
      cast(tensors.size(), std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0}), "compress");
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      queued_.push_back({builder_.last_op(), on_wire(gradients[queued_.size()].bytes), wire()});
    }
  }

  const HorovodSpec& horovod_;
  const HorovodRules& rules_;
  const Workload& work_;
  ProgramBuilder builder_;
  std::vector<QueuedTensor> queued_;
};

}  // namespace

HorovodRules horovod_rules(const std::string& version) {
  const int minor = minor_version(version.substr(0, version.find('.', 2)), 0).value_or(-1);
  if (minor < kRules[0].minor || minor > kNewest) {
    throw InputError("expected a version of Horovod from 0." + std::to_string(kRules[0].minor) + " to 0." +
                     std::to_string(kNewest) + ", found \"" + version + '"');
  }
  return *std::prev(std::ranges::upper_bound(kRules, minor, {}, &HorovodRules::minor));
}

bool casts(const HorovodSpec& horovod, const TrainingSpec& training) {
  return horovod.fp16 && training.gradients != Precision::fp16;
}

Bytes fusion_buffer(const HorovodSpec& horovod, std::uint32_t gpus_per_node) {
  return usable_threshold(horovod.fusion_threshold.value_or(horovod_rules(horovod.version).threshold),
                          gpus_per_node);
}

void add_horovod_programs(const HorovodSpec& horovod, const Workload& work, const CollectivePlanner& planner,
                          PlanTable& plans, TrainingJob& job) {
  const HorovodRules rules = horovod_rules(horovod.version);
  const RankLayout& layout = planner.layout();
  check_stages(horovod, work.training, layout);
  HorovodProgram program(horovod, rules, work, plans);
  job.main().warm_up = job.main().steady = program.program();
  const HostSpec& host = work.training.host;
  const SimTime long_way = to_sim_time(2 * horovod.negotiation);
  job.negotiation = Negotiation{.tensors = program.queued(),
                                .threshold = fusion_buffer(horovod, layout.gpus_per_node),
                                .cycle = to_sim_time(horovod.cycle_time.value_or(rules.cycle)),
                                .cost = rules.cache ? to_sim_time(horovod.negotiation) : long_way,
                                .first_cost = long_way,
                                .launch = to_sim_time(host.collective_launch),
                                .copy_launch = to_sim_time(host.kernel_launch),
                                .waits_for_data = rules.waits_for_data,
                                .costs = work.costs,
                                .planner = std::make_shared<const CollectivePlanner>(planner)};
  if (horovod.hierarchical || horovod.torus) {
    const auto family = [&](const GroupShape& groups) {
      return plans.plans()[plans.number({CollectiveKind::all_reduce, Bytes(1), groups})].family;
    };
    job.negotiation->reduced_by = horovod.torus ? ReducedBy::stages_on_gpus : ReducedBy::stages_on_hosts;
    job.negotiation->in_node = family(gpus_of_each_node(layout));
    job.negotiation->across = family(same_gpu_of_every_node(layout));
  }
}

void place_hosts(const Topology& topology, const ClusterUse& use, const HorovodSpec& horovod,
                 TrainingJob& job) {
  if (!job.negotiation || job.negotiation->reduced_by != ReducedBy::stages_on_hosts) {
    return;
  }
  ClusterUse on_hosts = use;
  on_hosts.collective.library = CollectiveLibrary::mpi;
  Negotiation& rules = *job.negotiation;
  rules.hosts = std::make_shared<const CollectivePlanner>(collective_planner(topology, on_hosts));
  std::map<LinkId, int> users;
  std::map<DeviceId, int> users_of_host;
  for (std::uint32_t r = 0; r < job.ranks(); ++r) {
    const DeviceId gpu = topology.gpu_of(Rank(r)), host = host_of(topology, Rank(r));
    rules.copies.push_back({gpu, host, {}, {}, {}});
    ++users_of_host[host];
    for (const Route& route : {topology.route_of_message(gpu, host), topology.route_of_message(host, gpu)}) {
      for (const LinkId link : route) {
        ++users[link];
      }
    }
  }
  for (HostCopy& copy : rules.copies) {
    const BytesPerSecond memory = horovod.memory_bandwidth / (kPassesOfMemory * users_of_host[copy.host]);
    const auto rate = [&](const Route& route) {
      BytesPerSecond least = memory;
      for (const LinkId link : route) {
        least = std::min(least, topology.link(link).bandwidth / users[link]);
      }
      return least;
    };
    const Route out = topology.route_of_message(copy.gpu, copy.host);
    copy.to_host = rate(out);
    copy.to_gpu = rate(topology.route_of_message(copy.host, copy.gpu));
    Seconds latency;
    for (const LinkId link : out) {
      latency = latency + topology.link(link).latency;
    }
    copy.latency = to_sim_time(latency);
  }
}

}  // namespace paceline
