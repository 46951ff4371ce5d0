// all_reduce in three rings, one after the other: reduce-scatter in the node, all-reduce across the nodes
// among the GPUs at the same place, all-gather in the node.
//
// With g GPUs per node and N nodes, place p of a node's order owns the blocks p, p + g, ... of the g N;
// across nodes they are the N blocks of a ring. A rank's shift is node * g + place.
#include <cassert>

#include "sim/collective/algorithms/graph_builder.h"

namespace paceline {

namespace {

constexpr std::size_t kNode = 0, kAcross = 1;  // ports

std::vector<Step> node_reduce_scatter(std::uint32_t gpus, std::uint32_t nodes) {
  const Ports port = ports(kNode, 1);
  const std::int64_t g = gpus;
  return {{.send = port, .width = nodes, .own = true, .block = g - 1, .gap = g},
          {.times = gpus - 2,
           .receive = port,
           .send = port,
           .width = nodes,
           .own = true,
           .block = g - 2,
           .stride = -1,
           .gap = g},
          {.receive = port, .width = nodes, .own = true, .keep = true, .gap = g}};
}

std::vector<Step> all_reduce_across(std::uint32_t gpus, std::uint32_t nodes) {
  const Ports port = ports(kAcross, 1);
  const std::int64_t g = gpus, n = nodes;
  return {
      {.send = port, .own = true, .block = (n - 1) * g},
      {.times = nodes - 2, .receive = port, .send = port, .own = true, .block = (n - 2) * g, .stride = -g},
      {.receive = port, .send = port, .own = true, .keep = true},
      {.times = nodes - 2, .receive = port, .send = port, .keep = true, .block = (n - 1) * g, .stride = -g},
      {.receive = port, .keep = true, .block = g}};
}

std::vector<Step> node_all_gather(std::uint32_t gpus, std::uint32_t nodes) {
  const Ports port = ports(kNode, 1);
  const std::int64_t g = gpus;
  return {{.send = port, .width = nodes, .gap = g},
          {.times = gpus - 2,
           .receive = port,
           .send = port,
           .width = nodes,
           .keep = true,
           .block = g - 1,
           .stride = -1,
           .gap = g},
          {.receive = port, .width = nodes, .keep = true, .block = 1, .gap = g}};
}

}  // namespace

CollectiveGraph hierarchical_graph(const GraphRequest& request) {
  const std::uint32_t nodes = request.layout.nodes, gpus = request.layout.gpus_per_node, n = nodes * gpus;
  std::vector<Step> steps;
  const auto append = [&](const std::vector<Step>& more) {
    steps.insert(steps.end(), more.begin(), more.end());
  };
  if (gpus > 1) {
    append(node_reduce_scatter(gpus, nodes));
  }
  append(all_reduce_across(gpus, nodes));
  if (gpus > 1) {
    append(node_all_gather(gpus, nodes));
  }
  for (Step& step : steps) {  // with one GPU there is one ring and one port
    step.receive.first = gpus == 1 ? 0 : step.receive.first;
    step.send.first = gpus == 1 ? 0 : step.send.first;
  }
  const std::uint32_t rings = gpus > 1 ? 2 : 1;
  GraphBuilder builder(request.channels, n);
  builder.reserve(std::size_t{request.channels} * n, std::size_t{request.channels} * n * rings);
  const std::uint32_t script = builder.add_script(n, steps);
  for (std::uint32_t c = 0; c < request.channels; ++c) {
    const auto gpu_at = [&](std::uint32_t at) {
      return node_channel(request.found.on(at / gpus).ring, c).gpus[at % gpus];
    };
    const auto nic_at = [&](std::uint32_t at) { return own_nic(request.found.on(at / gpus), gpu_at(at), c); };
    for (std::uint32_t at = 0; at < n; ++at) {
      const std::uint32_t rank = at / gpus * gpus + static_cast<std::uint32_t>(gpu_at(at));
      builder.add_thread_block(rank, c, script, rings, rings, at);
    }
    for (std::uint32_t at = 0; at < n; ++at) {
      if (gpus > 1) {
        const std::uint32_t next = at / gpus * gpus + (at + 1) % gpus;
        builder.connect({c * n + at, 0}, {c * n + next, 0});
      }
      const std::uint32_t across = (at + gpus) % n;
      builder.connect({c * n + at, rings - 1}, {c * n + across, rings - 1}, Wire::gpu_to_gpu,
                      {nic_at(at), nic_at(across)});
    }
  }
  return builder.finish();
}

}  // namespace paceline
