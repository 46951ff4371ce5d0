// Whether ranks that numbered themselves from 0 ended a collective with exactly what they should.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "symbolic.h"
#include "tests/dice.h"

namespace paceline {

inline std::uint32_t most_tested() { return kSanitized ? 9 : thorough() ? kMostRanks : 20; }

// The only rank in a value, once; `ranks`: there is none such.
inline std::size_t only_rank(const Value& value, std::size_t ranks) {
  const auto rank = static_cast<std::size_t>(std::find(value.begin(), value.end(), 1) - value.begin());
  return rank < ranks && value == of_rank(rank) ? rank : ranks;
}

using Outputs = std::vector<Symbolic::Output>;  // by rank

inline bool all_reduced(const Outputs& outputs, std::uint32_t blocks) {
  return std::all_of(outputs.begin(), outputs.end(), [&](const Symbolic::Output& kept) {
    return kept.size() == blocks && kept.begin()->first == 0 && kept.rbegin()->first == blocks - 1 &&
           std::all_of(kept.begin(), kept.end(),
                       [&](const auto& block) { return block.second == of_all(outputs.size()); });
  });
}

inline bool all_gathered(const Outputs& outputs) {
  std::set<std::size_t> sources;
  for (const auto& [block, value] : outputs[0]) {
    sources.insert(only_rank(value, outputs.size()));
  }
  return outputs[0].size() == outputs.size() && sources.size() == outputs.size() &&
         sources.count(outputs.size()) == 0 &&
         std::all_of(outputs.begin(), outputs.end(), [&](const auto& kept) { return kept == outputs[0]; });
}

// Every rank has one complete block, each another; what else it kept was on the way.
inline bool reduced_and_scattered(const Outputs& outputs) {
  std::set<std::int64_t> taken;
  for (const Symbolic::Output& kept : outputs) {
    std::vector<std::int64_t> complete;
    for (const auto& [block, value] : kept) {
      if (*std::max_element(value.begin(), value.end()) > 1) {
        return false;
      }
      if (value == of_all(outputs.size())) {
        complete.push_back(block);
      }
    }
    if (complete.size() != 1 || !taken.insert(complete[0]).second) {
      return false;
    }
  }
  return true;
}

// Every rank has one block of every rank, and every block of every rank has gone to one place.
inline bool exchanged(const Outputs& outputs) {
  std::set<std::pair<std::size_t, std::int64_t>> delivered;
  for (const Symbolic::Output& kept : outputs) {
    std::set<std::size_t> sources;
    for (const auto& [block, value] : kept) {
      const std::size_t source = only_rank(value, outputs.size());
      if (source == outputs.size() || !sources.insert(source).second ||
          !delivered.insert({source, block}).second) {
        return false;
      }
    }
    if (sources.size() != outputs.size()) {
      return false;
    }
  }
  return true;
}

inline bool is_right(CollectiveKind kind, const Outputs& outputs, std::uint32_t blocks, std::uint32_t root) {
  const std::size_t n = outputs.size();
  const auto is = [&](std::size_t rank, const Value& value) {
    return outputs[rank].size() == 1 && outputs[rank].begin()->second == value;
  };
  std::vector<std::size_t> ranks(n);
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  switch (kind) {
    case CollectiveKind::all_reduce:
      return all_reduced(outputs, blocks);
    case CollectiveKind::all_gather:
      return all_gathered(outputs);
    case CollectiveKind::reduce_scatter:
      return reduced_and_scattered(outputs);
    case CollectiveKind::all_to_all:
      return exchanged(outputs);
    case CollectiveKind::reduce:
      return is(root, of_all(n));
    case CollectiveKind::broadcast:
      return std::all_of(ranks.begin(), ranks.end(), [&](std::size_t r) { return is(r, of_rank(root)); });
    case CollectiveKind::send_recv:
      return std::all_of(ranks.begin(), ranks.end(),
                         [&](std::size_t r) { return is(r, of_rank((r + n - 1) % n)); });
  }
  return false;
}

}  // namespace paceline
