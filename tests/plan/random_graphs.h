// Channels as a search might find them, in random orders, and every way to run a collective.
#pragma once

#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sim/collective/algorithms.h"

namespace paceline {

using Random = std::mt19937;

inline std::size_t draw(Random& random, std::size_t below) { return random() % below; }

inline std::vector<int> random_order(Random& random, std::uint32_t gpus) {
  std::vector<int> order(gpus);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = gpus; i > 1; --i) {  // the library's shuffle is not the same everywhere
    std::swap(order[i - 1], order[draw(random, i)]);
  }
  return order;
}

// NIC k is beside GPU k.
inline NodeChannel channel(std::vector<int> gpus) {
  const int in = gpus.front(), out = gpus.back();
  return {std::move(gpus), in, out};
}

// `size` channels in random orders; in pairs with `cross`.
inline ChannelGraph random_graph(Random& random, std::uint32_t gpus, std::size_t size, bool cross = false) {
  ChannelGraph graph;
  graph.cross_nic = cross ? 2 : 0;
  while (graph.channels.size() < size) {
    std::vector<int> order = random_order(random, gpus);
    graph.channels.push_back(channel(order));
    if (cross) {
      std::reverse(order.begin(), order.end());
      graph.channels.push_back(channel(order));
    }
  }
  return graph;
}

// One channel per head, in random order; `few`: perhaps not every GPU is one.
inline ChannelGraph random_heads(Random& random, std::uint32_t gpus, bool few) {
  ChannelGraph graph;
  std::vector<int> heads = random_order(random, gpus);
  heads.resize(few ? 1 + draw(random, gpus) : gpus);
  for (const int head : heads) {
    graph.channels.push_back({{head}, head, head});
  }
  return graph;
}

inline ChannelGraphs random_graphs(Random& random, std::uint32_t gpus) {
  constexpr GraphPattern kTrees[] = {GraphPattern::balanced_tree, GraphPattern::split_tree,
                                     GraphPattern::tree};
  ChannelGraphs found;
  found.ring = random_graph(random, gpus, 1 + draw(random, 4), draw(random, 2) == 0);
  found.tree = random_graph(random, gpus, 1 + draw(random, 3));
  found.tree.pattern = kTrees[draw(random, 3)];
  found.collnet_chain = random_graph(random, gpus, 1 + draw(random, 3));
  found.collnet_direct = random_heads(random, gpus, draw(random, 2) == 0);
  found.nvls = random_heads(random, gpus, draw(random, 2) == 0);
  return found;
}

inline std::vector<RankLayout> layouts(std::uint32_t ranks) {
  std::vector<RankLayout> all;
  for (std::uint32_t nodes = 1; nodes <= ranks; ++nodes) {
    if (ranks % nodes == 0) {
      all.push_back({nodes, ranks / nodes});
    }
  }
  return all;
}

inline constexpr CollectiveKind kKinds[] = {CollectiveKind::all_reduce,     CollectiveKind::all_gather,
                                            CollectiveKind::reduce_scatter, CollectiveKind::broadcast,
                                            CollectiveKind::reduce,         CollectiveKind::all_to_all,
                                            CollectiveKind::send_recv};

// All pairs of algorithm and collective that run.
template <class Function>
void for_each_way(const RankLayout& layout, Function&& function) {
  for (std::size_t a = 0; a < kAlgorithms; ++a) {
    for (const CollectiveKind kind : kKinds) {
      if (runs(static_cast<Algorithm>(a), kind, layout)) {
        function(static_cast<Algorithm>(a), kind);
      }
    }
  }
}

inline std::string name(Algorithm algorithm, CollectiveKind kind, const RankLayout& layout) {
  return "algorithm " + std::to_string(static_cast<int>(algorithm)) + ", collective " +
         std::to_string(static_cast<int>(kind)) + ", " + std::to_string(layout.nodes) + " x " +
         std::to_string(layout.gpus_per_node);
}

}  // namespace paceline
