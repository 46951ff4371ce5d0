// Channels as a search might find them, in random orders.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/collective/algorithms.h"
#include "tests/dice.h"

namespace paceline {

inline std::vector<int> random_order(Dice& dice, std::uint32_t gpus) {
  std::vector<int> order(gpus);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = gpus; i > 1; --i) {  // the library's shuffle is not the same everywhere
    std::swap(order[i - 1], order[dice.below(i)]);
  }
  return order;
}

// NIC k is beside GPU k.
inline NodeChannel channel_through(std::vector<int> gpus) {
  const int in = gpus.front(), out = gpus.back();
  return {std::move(gpus), in, out};
}

// `size` channels in random orders; in pairs with `cross`.
inline ChannelGraph random_graph(Dice& dice, std::uint32_t gpus, std::size_t size, bool cross = false) {
  ChannelGraph graph;
  graph.cross_nic = cross ? 2 : 0;
  while (graph.channels.size() < size) {
    std::vector<int> order = random_order(dice, gpus);
    graph.channels.push_back(channel_through(order));
    if (cross) {
      std::reverse(order.begin(), order.end());
      graph.channels.push_back(channel_through(order));
    }
  }
  return graph;
}

// One channel per head, in random order; `few`: perhaps not every GPU is one.
inline ChannelGraph random_heads(Dice& dice, std::uint32_t gpus, bool few) {
  ChannelGraph graph;
  std::vector<int> heads = random_order(dice, gpus);
  heads.resize(few ? 1 + dice.below(gpus) : gpus);
  for (const int head : heads) {
    graph.channels.push_back({{head}, head, head});
  }
  return graph;
}

inline ChannelGraphs random_graphs(Dice& dice, std::uint32_t gpus) {
  constexpr GraphPattern kTrees[] = {GraphPattern::balanced_tree, GraphPattern::split_tree,
                                     GraphPattern::tree};
  ChannelGraphs found;
  found.ring = random_graph(dice, gpus, 1 + dice.below(4), dice.below(2) == 0);
  found.tree = random_graph(dice, gpus, 1 + dice.below(3));
  found.tree.pattern = kTrees[dice.below(3)];
  found.collnet_chain = random_graph(dice, gpus, 1 + dice.below(3));
  found.collnet_direct = random_heads(dice, gpus, dice.below(2) == 0);
  found.nvls = random_heads(dice, gpus, dice.below(2) == 0);
  return found;
}

}  // namespace paceline
