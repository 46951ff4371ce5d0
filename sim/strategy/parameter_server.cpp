#include "sim/strategy/parameter_server.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/error.h"
#include "sim/strategy/message_routes.h"
#include "sim/strategy/optimizer.h"
#include "sim/strategy/program_builder.h"

namespace paceline {
namespace {

constexpr const char* kServerOptions = "/training/parameter_server";

// What is kept for each: of pairs of servers and workers, and of workers and what is pushed as one.
constexpr std::int64_t kMostPairs = 1'000'000, kMostPushes = 5'000'000, kMostPieces = 100'000;

// One for each server and pushing GPU: what is theirs, together.
std::vector<Piece> together(const std::vector<Piece>& pieces) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, Piece> sums;
  for (const Piece& piece : pieces) {
    Piece& sum =
        sums.try_emplace({piece.server, piece.place}, Piece{piece.server, piece.place}).first->second;
    sum.elements += piece.elements;
    sum.tensors += piece.tensors;
  }
  std::vector<Piece> all;
  for (const auto& [to, sum] : sums) {
    all.push_back(sum);
  }
  return all;
}

// Channels: of shards; with aggregation then of copies to the GPU that sums, and of copies from it.
class ParameterServerPrograms {
 public:
  ParameterServerPrograms(const ParameterServerSpec& spec, const MixedWork& mixed, const RankLayout& layout,
                          TrainingJob& job)
      : spec_(spec),
        mixed_(mixed),
        work_(mixed.works.front()),
        layout_(layout),
        aggregate_(spec.node == NodeGradients::aggregate && layout.gpus_per_node > 1),
        pieces_(
            pieces_of(spec, work_.model, work_.training.gradients, aggregate_ ? layout.gpus_per_node : 1)),
        shards_(static_cast<std::uint32_t>(pieces_.size())),
        job_(job) {}

  void add() {
    require_room();
    add_members();
    add_serving();
    job_.roles.clear();
    for (const Workload& work : mixed_.works) {
      for (std::uint32_t place = 0; place < places(); ++place) {
        std::vector<Thread> threads{every_iteration(worker(work))};
        if (aggregate_ && std::ranges::any_of(pieces_, [&](const Piece& p) { return p.place == place; })) {
          threads.push_back(every_iteration(sums(work, place)));
          threads.push_back(every_iteration(copies(work, place)));
        }
        job_.roles.push_back({"worker", std::move(threads)});
      }
    }
  }

 private:
  void require_room() const {
    const std::int64_t ranks = layout_.ranks();
    const std::int64_t channels = std::int64_t{shards_} * (aggregate_ ? 3 : 1);
    if (ranks * servers() > kMostPairs) {
      throw InputError("expected at most " + std::to_string(kMostPairs) +
                           " pairs of GPUs and servers, found " + std::to_string(ranks * servers()),
                       std::string(kServerOptions) + "/servers/count");
    }
    if (ranks * channels > kMostPushes) {
      throw InputError("expected at most " + std::to_string(kMostPushes) + " pushes a step, found " +
                           std::to_string(ranks * channels) +
                           R"(; with "overlap" none each GPU pushes once to each server)",
                       std::string(kServerOptions) + "/overlap");
    }
  }

  static Thread every_iteration(const Program& program) { return {program, program}; }

  // Roles of each of the works: one for each GPU of a node, where it has tensors of its own to push.
  std::uint32_t places() const { return aggregate_ ? layout_.gpus_per_node : 1; }

  Bytes gradients(const Piece& piece) const {
    return Bytes(piece.elements * bytes_per_element(work_.training.gradients));
  }
  Bytes parameters(const Piece& piece) const {
    return Bytes(piece.elements * bytes_per_element(work_.training.parameters));
  }
  SimTime on_server(Bytes traffic) const { return to_sim_time(traffic / spec_.servers.memory_bandwidth); }

  // Families: the servers, each by itself; then of each node the GPU of a place, and all its GPUs.
  std::uint32_t family_of_server(std::uint32_t server) const { return server; }
  std::uint32_t family_of_place(std::uint32_t place) const { return servers() + place; }
  std::uint32_t family_of_nodes() const { return servers() + layout_.gpus_per_node; }
  std::uint32_t servers() const { return static_cast<std::uint32_t>(spec_.servers.count); }

  void add_members() {
    const std::uint32_t ranks = layout_.ranks(), gpus = layout_.gpus_per_node;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      job_.members.push_back({mixed_.of(r) * places() + r % places(), {}});
    }
    for (std::uint32_t s = 0; s < servers(); ++s) {
      job_.members.push_back({0, {}});
      job_.families.push_back({{{ranks + s}}, std::vector<std::uint32_t>(ranks, 0)});
    }
    if (!aggregate_) {
      return;
    }
    std::vector<std::uint32_t> node_of(ranks);
    std::vector<std::vector<std::uint32_t>> nodes(layout_.nodes);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      node_of[r] = r / gpus;
      nodes[node_of[r]].push_back(r);
    }
    for (std::uint32_t place = 0; place < gpus; ++place) {
      Family& family = job_.families.emplace_back(Family{{}, node_of});
      for (const std::vector<std::uint32_t>& node : nodes) {
        family.groups.push_back({node[place]});
      }
    }
    job_.families.push_back({nodes, node_of});
  }

  // A sum reads both and writes one; an update is the optimizer's.
  void add_serving() {
    Serving& serving = job_.serving;
    serving.workers = aggregate_ ? layout_.nodes : layout_.ranks();
    serving.together = aggregate_ ? layout_.gpus_per_node : 1;
    serving.synchronous = spec_.consistency.kind == Consistency::Kind::synchronous;
    serving.quorum = serving.synchronous ? serving.workers - static_cast<std::uint32_t>(spec_.backup) : 1;
    if (spec_.consistency.kind == Consistency::Kind::stale) {
      serving.staleness = static_cast<std::uint32_t>(spec_.consistency.stale);
    }
    TrainingSpec on_host = work_.training;
    on_host.optimizer_kernels = OptimizerKernels::fused;
    for (const Piece& piece : pieces_) {
      const SimTime update =
          on_server(optimizer_step(on_host, piece.elements, on_host.gradients, piece.tensors).traffic);
      const SimTime sum = on_server(3 * gradients(piece));
      serving.shards.push_back({.server = layout_.ranks() + piece.server,
                                .place = piece.place,
                                .answer = parameters(piece),
                                .take = serving.synchronous ? sum : update,
                                .update = serving.synchronous ? update : SimTime{}});
    }
    if (spec_.overlap == ServerOverlap::priority) {
      // byteps/common/scheduled_queue.cc: as many partitions as a node has GPUs, and one.
      const Bytes partition = spec_.partition.value_or(kBytePsPartition);
      serving.window = Bytes(partition.value * (layout_.gpus_per_node + 1));
    }
  }

  template <class F>  // f(number, piece)
  void for_each_of(std::uint32_t layer, const F& f) const {
    for (std::uint32_t i = 0; i < shards_; ++i) {
      if (pieces_[i].layer == layer) {
        f(i, pieces_[i]);
      }
    }
  }

  Program worker(const Workload& work) const {
    CollectivePlanner nobody = lone_planner();
    PlanTable no_plans(nobody);
    ProgramBuilder b(work, no_plans);
    const auto layers = static_cast<std::uint32_t>(work.model.layers.size());
    for (int micro = 0; micro < work.training.accumulation; ++micro) {
      b.take_batch();
      for (std::uint32_t l = 0; l < layers; ++l) {
        if (micro == 0) {
          for_each_of(l, [&](std::uint32_t i, const Piece&) {
            b.receive(aggregate_ ? 2 * shards_ + i : i, 1,
                      {.phase = Phase::exchange, .layer = l, .bucket = i}, "pull " + std::to_string(i));
          });
        }
        b.forward(l);
      }
      for (std::uint32_t l = layers; l-- > 0;) {
        b.backward(l);
        if (micro > 0) {
          b.accumulate(l);
        }
        if (micro + 1 == work.training.accumulation) {
          for_each_of(l, [&](std::uint32_t i, const Piece& piece) {
            b.send(aggregate_ ? shards_ + i : i,
                   aggregate_ ? family_of_place(piece.place) : family_of_server(piece.server),
                   gradients(piece), {.phase = Phase::exchange, .layer = l, .bucket = i},
                   "push " + std::to_string(i));
          });
        }
      }
    }
    b.rest_of_step();
    return b.finish();
  }

  // The gradients of a node, summed on the GPU of this place, and pushed.
  Program sums(const Workload& work, std::uint32_t place) const {
    CollectivePlanner nobody = lone_planner();
    PlanTable no_plans(nobody);
    ProgramBuilder b(work, no_plans);
    for (auto l = static_cast<std::uint32_t>(work.model.layers.size()); l-- > 0;) {
      for_each_of(l, [&](std::uint32_t i, const Piece& piece) {
        if (piece.place == place) {
          b.gate(shards_ + i, layout_.gpus_per_node, "gradients " + std::to_string(i));
          b.copy((std::int64_t{layout_.gpus_per_node} + 1) * gradients(piece), 1, i, "sum ");
          b.send(i, family_of_server(piece.server), gradients(piece),
                 {.phase = Phase::exchange, .layer = l, .bucket = i}, "push " + std::to_string(i));
        }
      });
    }
    return b.finish();
  }

  // What it pulls, copied to all GPUs of its node.
  Program copies(const Workload& work, std::uint32_t place) const {
    CollectivePlanner nobody = lone_planner();
    PlanTable no_plans(nobody);
    ProgramBuilder b(work, no_plans);
    for (std::uint32_t l = 0; l < work.model.layers.size(); ++l) {
      for_each_of(l, [&](std::uint32_t i, const Piece& piece) {
        if (piece.place == place) {
          b.receive(i, 0, {.phase = Phase::exchange, .layer = l, .bucket = i}, "pull " + std::to_string(i));
          b.send(2 * shards_ + i, family_of_nodes(), parameters(piece),
                 {.phase = Phase::exchange, .layer = l, .bucket = i}, "copy " + std::to_string(i));
        }
      });
    }
    return b.finish();
  }

  static constexpr Bytes kBytePsPartition{4'096'000};

  const ParameterServerSpec& spec_;
  const MixedWork& mixed_;
  const Workload& work_;  // whose model, formats and optimizer are those of all
  RankLayout layout_;
  bool aggregate_;
  std::vector<Piece> pieces_;
  std::uint32_t shards_;
  TrainingJob& job_;
};

void check(const ParameterServerSpec& spec, const TrainingSpec& training, std::uint32_t pushers) {
  if (spec.backup > 0 && spec.consistency.kind != Consistency::Kind::synchronous) {
    throw InputError(
        "expected no backup workers where no update waits for all, found " + std::to_string(spec.backup),
        std::string(kServerOptions) + "/backup");
  }
  if (spec.backup >= pushers) {
    throw InputError("expected fewer backup workers than the " + std::to_string(pushers) +
                         " that push, found " + std::to_string(spec.backup),
                     std::string(kServerOptions) + "/backup");
  }
  if (training.clip_norm) {
    throw InputError("expected no clipping by the norm of all gradients, which no server has, found true",
                     "/training/clip_norm");
  }
}

}  // namespace

std::vector<Piece> pieces_of(const ParameterServerSpec& spec, const Model& model, Precision gradients,
                             std::uint32_t gpus_per_node) {
  const auto servers = static_cast<std::uint32_t>(spec.servers.count);
  const std::int64_t each = bytes_per_element(gradients);
  const bool aggregate = spec.node == NodeGradients::aggregate;
  std::vector<Piece> pieces;
  std::set<std::pair<std::int64_t, std::uint32_t>> loads;  // bytes, server
  for (std::uint32_t s = 0; s < servers; ++s) {
    loads.emplace(0, s);
  }
  const auto add = [&](std::uint32_t server, std::uint32_t layer, std::int64_t elements,
                       std::int64_t tensors) {
    const auto place = aggregate ? static_cast<std::uint32_t>(pieces.size() % gpus_per_node) : 0;
    pieces.push_back({server, place, layer, elements, tensors});
  };
  for (std::uint32_t l = 0; l < model.layers.size(); ++l) {
    for (const std::int64_t elements : model.layers[l].parameters) {
      if (!spec.partition) {
        const auto [load, server] = *loads.begin();
        loads.erase(loads.begin());
        loads.emplace(load + elements * each, server);
        add(server, l, elements, 1);
        continue;
      }
      const std::int64_t most = std::max<std::int64_t>(1, spec.partition->value / each);
      if (elements / most > kMostPieces - static_cast<std::int64_t>(pieces.size())) {
        throw InputError("expected at most " + std::to_string(kMostPieces) + " partitions, found more",
                         std::string(kServerOptions) + "/partition");
      }
      for (std::int64_t done = 0; done < elements; done += most) {
        add(static_cast<std::uint32_t>(pieces.size() % servers), l, std::min(most, elements - done),
            done == 0 ? 1 : 0);
      }
    }
  }
  if (pieces.size() < servers) {
    throw InputError("expected at most a server for each of the " + std::to_string(pieces.size()) + ' ' +
                         (spec.partition ? "partitions" : "tensors") + " of " + model.name + ", found " +
                         std::to_string(servers) + (spec.partition ? "" : "; \"partition\" cuts tensors"),
                     std::string(kServerOptions) + "/servers/count");
  }
  return spec.overlap == ServerOverlap::none ? together(pieces) : pieces;
}

void add_parameter_server_programs(const ParameterServerSpec& spec, const MixedWork& mixed,
                                   const RankLayout& layout, TrainingJob& job) {
  const bool aggregate = spec.node == NodeGradients::aggregate;
  check(spec, mixed.works.front().training, aggregate ? layout.nodes : layout.ranks());
  ParameterServerPrograms(spec, mixed, layout, job).add();
}

std::int64_t server_nodes(const TrainingSpec& training) {
  const ServersSpec& servers = training.parameter_server.servers;
  const bool own =
      training.strategy == StrategyKind::parameter_server && servers.placement == ServerPlacement::own_nodes;
  return own ? servers.count : 0;
}

void place_servers(const Topology& topology, const ParameterServerSpec& spec, const RankLayout& layout,
                   TrainingJob& job) {
  if (job.serving.empty()) {
    return;
  }
  const std::uint32_t ranks = layout.ranks();
  for (std::uint32_t r = 0; r < ranks; ++r) {
    job.members[r].device = topology.gpu_of(Rank(r));
  }
  const bool own = spec.servers.placement == ServerPlacement::own_nodes;
  const auto servers = static_cast<std::uint32_t>(spec.servers.count);
  for (std::uint32_t s = 0; s < servers; ++s) {
    const std::uint32_t node =
        own ? static_cast<std::uint32_t>(topology.spec().nodes) - servers + s : s % layout.nodes;
    const std::uint32_t cpus = topology.node(node).count(DeviceKind::cpu);
    if (cpus == 0) {
      throw InputError("expected nodes with a CPU, which servers run on, found none in " +
                           topology.spec_of_kind(topology.kind_of(node)).name,
                       "/cluster/node");
    }
    const std::uint32_t cpu = own ? 0 : s / layout.nodes % cpus;
    job.members[ranks + s].device =
        topology.device_named("node" + std::to_string(node) + "/cpu" + std::to_string(cpu));
  }
  add_message_routes(topology, message_pairs(job), job);
  drop_links_in_series(job);
}

}  // namespace paceline
