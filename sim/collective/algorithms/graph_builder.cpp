#include "sim/collective/algorithms/graph_builder.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace paceline {

namespace {

constexpr std::uint32_t kUnconnected = std::numeric_limits<std::uint32_t>::max();

}  // namespace

GraphBuilder::GraphBuilder(std::uint32_t channels, std::uint32_t ranks) {
  graph_.channels = channels;
  graph_.ranks = ranks;
}

void GraphBuilder::reserve(std::size_t thread_blocks, std::size_t fifos) {
  graph_.thread_blocks.reserve(thread_blocks);
  graph_.fifos.reserve(fifos);
  graph_.in.reserve(fifos);
  graph_.out.reserve(fifos);
}

std::uint32_t GraphBuilder::add_script(std::int64_t modulus, std::vector<Step> steps) {
  std::erase_if(steps, [](const Step& step) { return step.times == 0; });
  const auto equal = [&](const Script& s) { return s.modulus == modulus && s.steps == steps; };
  const auto known = std::find_if(graph_.scripts.begin(), graph_.scripts.end(), equal);
  const auto index = static_cast<std::uint32_t>(known - graph_.scripts.begin());
  if (known == graph_.scripts.end()) {
    graph_.scripts.push_back({std::move(steps), modulus});
  }
  return index;
}

std::uint32_t GraphBuilder::add_thread_block(std::uint32_t rank, std::uint32_t channel, std::uint32_t script,
                                             std::size_t in_ports, std::size_t out_ports,
                                             std::int64_t shift) {
  assert(graph_.thread_blocks.empty() || graph_.thread_blocks.back().channel <= channel);
  const auto index = static_cast<std::uint32_t>(graph_.thread_blocks.size());
  graph_.thread_blocks.push_back({.rank = rank,
                                  .channel = channel,
                                  .script = script,
                                  .first_in = static_cast<std::uint32_t>(graph_.in.size()),
                                  .first_out = static_cast<std::uint32_t>(graph_.out.size()),
                                  .base = 0,
                                  .shift = shift});
  graph_.in.resize(graph_.in.size() + in_ports, kUnconnected);
  graph_.out.resize(graph_.out.size() + out_ports, kUnconnected);
  return index;
}

std::uint32_t GraphBuilder::add_detached(std::uint32_t rank, std::uint32_t channel, std::uint32_t script,
                                         std::size_t in_ports, std::size_t out_ports, std::int64_t shift) {
  const std::uint32_t index = add_thread_block(rank, channel, script, in_ports, out_ports, shift);
  graph_.thread_blocks.back().detached = true;
  return index;
}

void GraphBuilder::connect(Port from, Port to, Wire wire, Nics nics) {
  std::uint32_t& out = graph_.out[graph_.thread_blocks[from.thread_block].first_out + from.number];
  std::uint32_t& in = graph_.in[graph_.thread_blocks[to.thread_block].first_in + to.number];
  assert(out == kUnconnected && in == kUnconnected);
  out = in = static_cast<std::uint32_t>(graph_.fifos.size());
  graph_.fifos.push_back({.from = from.thread_block,
                          .to = to.thread_block,
                          .hop = 0,
                          .wire = wire,
                          .nic_out = static_cast<std::int16_t>(nics.out),
                          .nic_in = static_cast<std::int16_t>(nics.in)});
}

CollectiveGraph GraphBuilder::finish() {
  assert(std::count(graph_.in.begin(), graph_.in.end(), kUnconnected) == 0);
  assert(std::count(graph_.out.begin(), graph_.out.end(), kUnconnected) == 0);
  return std::move(graph_);
}

Ports ports(std::size_t first, std::size_t count) {
  assert(first + count <= std::numeric_limits<std::uint16_t>::max());
  return {static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(count)};
}

const NodeChannel& node_channel(const ChannelGraph& graph, std::uint32_t channel) {
  assert(!graph.channels.empty());
  return graph.channels[channel % graph.channels.size()];
}

int nic_of(const NodeChannel& channel, int gpu) {
  return gpu == channel.gpus.front() ? channel.nic_in : channel.nic_out;
}

int own_nic(const ChannelGraphs& found, int gpu, std::uint32_t channel) {
  if (!found.own_nics.empty()) {
    const std::vector<int>& own = found.own_nics[static_cast<std::size_t>(gpu)];
    return own[channel % own.size()];
  }
  const std::vector<NodeChannel>& channels = found.ring.channels;
  const auto begins = std::ranges::find_if(channels, [&](const auto& c) { return c.gpus.front() == gpu; });
  if (begins != channels.end()) {
    return begins->nic_in;
  }
  const auto ends = std::ranges::find_if(channels, [&](const auto& c) { return c.gpus.back() == gpu; });
  return ends != channels.end() ? ends->nic_out
                                : node_channel(found.ring, static_cast<std::uint32_t>(gpu)).nic_in;
}

Heads::Heads(const ChannelGraph& graph, std::uint32_t gpus_per_node, bool all)
    : of_gpu_(gpus_per_node, gpus_per_node) {
  for (const NodeChannel& channel : graph.channels) {
    const auto gpu = static_cast<std::uint32_t>(channel.gpus.front());
    if (of_gpu_[gpu] == gpus_per_node) {
      of_gpu_[gpu] = count();
      gpus_.push_back(gpu);
      nics_.emplace_back();
    }
    nics_[of_gpu_[gpu]].push_back(channel.nic_in);
  }
  for (std::uint32_t gpu = 0; gpu < gpus_per_node; ++gpu) {
    if (of_gpu_[gpu] == gpus_per_node && all) {
      of_gpu_[gpu] = count();
      gpus_.push_back(gpu);
      nics_.push_back({node_channel(graph, gpu).nic_in});
    }
  }
  std::replace(of_gpu_.begin(), of_gpu_.end(), gpus_per_node, count());
}

void Heads::keep(std::uint32_t count) {
  for (std::uint32_t& head : of_gpu_) {
    head = std::min(head, count);
  }
  gpus_.resize(count);
  nics_.resize(count);
}

HeadsOfNodes::HeadsOfNodes(const GraphsOfNodes& found, ChannelGraph ChannelGraphs::* graph,
                           const RankLayout& layout, bool all) {
  std::vector<const ChannelGraphs*> made;
  std::uint32_t fewest = layout.gpus_per_node;
  for (std::uint32_t node = 0; node < (found.alike() ? 1 : layout.nodes); ++node) {
    const auto known = std::find(made.begin(), made.end(), &found.on(node));
    which_.push_back(static_cast<std::uint32_t>(known - made.begin()));
    if (known == made.end()) {
      made.push_back(&found.on(node));
      heads_.emplace_back(found.on(node).*graph, layout.gpus_per_node, all);
      fewest = std::min(fewest, heads_.back().count());
    }
  }
  for (Heads& heads : heads_) {
    heads.keep(fewest);
  }
  if (found.alike()) {
    which_.clear();
  }
}

int Heads::nic(std::uint32_t head, std::uint32_t channel) const {
  return nics_[head][channel % nics_[head].size()];
}

std::uint32_t Heads::blocks_of(std::uint32_t head, std::uint32_t blocks) const {
  return (blocks - head + count() - 1) / count();
}

std::vector<Step> fabric_steps(CollectiveKind kind, std::uint32_t nodes, std::uint32_t times,
                               std::int64_t stride) {
  const Ports all = ports(0, nodes);
  if (kind == CollectiveKind::all_reduce) {
    return {{.times = times, .receive = all, .send = all, .stride = stride}};
  }
  const bool gather = kind == CollectiveKind::all_gather;
  std::vector<Step> steps;
  for (std::uint32_t node = 0; node < nodes; ++node) {
    const Ports one = ports(node, 1);
    steps.push_back({.receive = gather ? one : all, .send = gather ? all : one, .block = node * stride});
  }
  return steps;
}

}  // namespace paceline
