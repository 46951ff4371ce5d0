#include "sim/collective/placed_family.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "sim/collective/pricing.h"

namespace paceline {
namespace {

// Where the scripts of a graph stand in another, which gets those that it lacks.
std::vector<std::uint32_t> add_scripts(const CollectiveGraph& of, CollectiveGraph& to) {
  std::vector<std::uint32_t> number;
  for (const Script& script : of.scripts) {
    number.push_back(static_cast<std::uint32_t>(std::ranges::find(to.scripts, script) - to.scripts.begin()));
    if (number.back() == to.scripts.size()) {
      to.scripts.push_back(script);
    }
  }
  return number;
}

// Adds the graph of one more group, which consists of these ranks.
void append(const CollectiveGraph& one, const std::vector<std::uint32_t>& script,
            const std::vector<std::uint32_t>& ranks, std::uint32_t group, CollectiveGraph& all) {
  const auto size = [](const auto& list) { return static_cast<std::uint32_t>(list.size()); };
  const std::uint32_t first_block = size(all.thread_blocks), first_fifo = size(all.fifos),
                      first_in = size(all.in), first_out = size(all.out);
  for (ThreadBlock block : one.thread_blocks) {
    block.rank = block.rank == ThreadBlock::kSwitch ? block.rank : ranks[block.rank];
    block.channel += group * one.channels;
    block.script = script[block.script];
    block.first_in += first_in;
    block.first_out += first_out;
    all.thread_blocks.push_back(block);
  }
  for (const std::uint32_t fifo : one.in) {
    all.in.push_back(first_fifo + fifo);
  }
  for (const std::uint32_t fifo : one.out) {
    all.out.push_back(first_fifo + fifo);
  }
  for (Fifo fifo : one.fifos) {
    fifo.from += first_block;
    fifo.to += first_block;
    all.fifos.push_back(fifo);
  }
}

}  // namespace

RankLayout layout_of(const Topology& topology) {
  return {static_cast<std::uint32_t>(topology.job_nodes()),
          static_cast<std::uint32_t>(topology.gpus_per_node())};
}

PlacedFamily::PlacedFamily(const Topology& topology, const GroupShape& shape)
    : PlacedFamily(topology, family_of(shape, layout_of(topology))) {}

PlacedFamily::PlacedFamily(const Topology& topology, Family family)
    : topology_(topology), family_(std::move(family)) {
  const std::uint32_t all = layout_of(topology).gpus_per_node;
  for (const std::vector<std::uint32_t>& ranks : family_.groups) {
    std::vector<std::uint32_t> gpus;  // of the group's first node: the others have the same
    for (std::size_t i = 0; i < ranks.size() && ranks[i] / all == ranks.front() / all; ++i) {
      gpus.push_back(ranks[i] % all);
    }
    layout_.gpus_per_node = static_cast<std::uint32_t>(gpus.size());
    layout_.nodes = static_cast<std::uint32_t>(ranks.size() / gpus.size());
    std::vector<std::uint32_t> of_node;
    for (std::size_t i = 0; i < ranks.size(); i += gpus.size()) {
      of_node.push_back(topology.kind_of(ranks[i] / all));
    }
    kind_of_.push_back(kind_with(gpus, std::move(of_node)));
  }
}

std::uint32_t PlacedFamily::kind_with(const std::vector<std::uint32_t>& gpus,
                                      std::vector<std::uint32_t> of_node) {
  const auto same_gpus = [&](const Kind& kind) { return kind.nodes.front().gpus_in_use == gpus; };
  const auto known = std::ranges::find_if(
      kinds_, [&](const Kind& kind) { return same_gpus(kind) && kind.of_node == of_node; });
  const auto number = static_cast<std::uint32_t>(known - kinds_.begin());
  if (known != kinds_.end()) {
    return number;
  }
  Kind made{{}, std::move(of_node)};
  if (const auto seen = std::ranges::find_if(kinds_, same_gpus); seen != kinds_.end()) {
    made.nodes = seen->nodes;
  } else if (gpus == topology_.node().gpus_in_use) {
    made.nodes.assign(topology_.kinds().begin(), topology_.kinds().end());
  } else {
    for (std::uint32_t kind = 0; kind < topology_.kinds().size(); ++kind) {
      made.nodes.push_back(make_node_layout(topology_.spec_of_kind(kind), gpus));
    }
  }
  kinds_.push_back(std::move(made));
  return number;
}

CollectiveGraph PlacedFamily::join(std::vector<CollectiveGraph> of_kind, const SharedLinks& shared) const {
  CollectiveGraph all;
  if (groups() == 1) {
    all = std::move(of_kind.front());
  } else {
    std::vector<std::vector<std::uint32_t>> scripts;
    for (const CollectiveGraph& one : of_kind) {
      scripts.push_back(add_scripts(one, all));
    }
    all.channels = of_kind.front().channels;
    all.ranks = layout_of(topology_).ranks();
    const auto reserve = [&](auto list) {
      std::size_t size = 0;
      for (const std::uint32_t kind : kind_of_) {
        size += (of_kind[kind].*list).size();
      }
      (all.*list).reserve(size);
    };
    reserve(&CollectiveGraph::thread_blocks);
    reserve(&CollectiveGraph::fifos);
    reserve(&CollectiveGraph::in);
    reserve(&CollectiveGraph::out);
    for (std::uint32_t g = 0; g < groups(); ++g) {
      append(of_kind[kind_of_[g]], scripts[kind_of_[g]], family_.groups[g], g, all);
    }
  }
  RouteList routes;
  routes.reserve(all.fifos.size());
  for (const Fifo& fifo : all.fifos) {
    const Route way = route(all, fifo);
    routes.push_back(way);
    if (way.size == 0 && crosses_links(fifo.wire)) {
      const auto name = [&](std::uint32_t block) {
        return topology_.device_name(topology_.gpu_of(Rank(all.thread_blocks[block].rank)));
      };
      throw InputError("expected cables that join the GPUs of a group, found no way from " + name(fifo.from) +
                           " to " + name(fifo.to),
                       "/cluster/node/cables");
    }
  }
  price_graph(all, routes, topology_, shared);
  return all;
}

Route PlacedFamily::route(const CollectiveGraph& graph, const Fifo& fifo) const {
  if (!crosses_links(fifo.wire)) {  // perhaps within a switch
    return {};
  }
  const std::uint32_t from = graph.thread_blocks[fifo.from].rank, to = graph.thread_blocks[fifo.to].rank;
  const std::uint32_t rank = from != ThreadBlock::kSwitch ? from : to;
  return route_of(graph, fifo, topology_, kinds_[kind_of_[family_.group_of[rank]]].nodes);
}

}  // namespace paceline
