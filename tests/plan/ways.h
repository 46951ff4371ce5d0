// Every way to run a collective.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/collective/algorithms.h"

namespace paceline {

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
