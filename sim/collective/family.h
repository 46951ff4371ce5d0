// Families: groups of ranks that run collectives side by side, planned and priced together.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace paceline {

// Rank r is GPU r % gpus_per_node of node r / gpus_per_node.
struct RankLayout {
  std::uint32_t nodes = 1, gpus_per_node = 1;
  std::uint32_t ranks() const { return nodes * gpus_per_node; }
  friend bool operator==(const RankLayout&, const RankLayout&) = default;
};

// Which ranks form a group: `ranks` of them, each `stride` after the one before. Both 0: all there are.
struct GroupShape {
  std::uint32_t ranks = 0, stride = 0;
  friend auto operator<=>(const GroupShape&, const GroupShape&) = default;
};
inline constexpr GroupShape kAllRanks{};
inline GroupShape gpus_of_each_node(const RankLayout& job) { return {job.gpus_per_node, 1}; }
inline GroupShape same_gpu_of_every_node(const RankLayout& job) { return {job.nodes, job.gpus_per_node}; }
inline GroupShape consecutive_ranks(std::uint32_t count) { return {count, 1}; }

// Groups that fill one slot of the members: the GPUs of each node, the same GPU of every node, the server.
struct Family {
  std::vector<std::vector<std::uint32_t>> groups;  // members, ranks ascending
  std::vector<std::uint32_t> group_of;             // by member; kNoIndex: it has none
};

// All ranks in numbers.
inline GroupShape in_numbers(const GroupShape& shape, const RankLayout& job) {
  return shape == kAllRanks ? GroupShape{job.ranks(), 1} : shape;
}

// Of all ranks; groups in the order of their first ones. Throws InputError unless every group has the same GPUs
// on each of its nodes and every rank has a group. Cost: O(ranks).
Family family_of(const GroupShape&, const RankLayout& job);

}  // namespace paceline
