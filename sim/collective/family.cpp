#include "sim/collective/family.h"

#include <string>

#include "core/error.h"

namespace paceline {
namespace {

// Groups with a stride fill blocks of ranks * stride ranks, each of them a part of a node or some nodes.
void require_even(const GroupShape& shape, const RankLayout& job) {
  const std::uint64_t block = std::uint64_t{shape.ranks} * shape.stride, gpus = job.gpus_per_node;
  const bool in_node = block > 0 && gpus % block == 0;
  const bool of_nodes = block > 0 && block % gpus == 0 && job.ranks() % block == 0 &&
                        (gpus % shape.stride == 0 || shape.stride % gpus == 0);
  if (in_node || of_nodes) {
    return;
  }
  const std::string where = std::to_string(job.nodes) + " nodes of " + std::to_string(gpus) + " GPUs";
  if (shape.stride == 1) {
    throw InputError(
        "expected groups of k consecutive ranks where k divides the GPUs of a node, or is a multiple "
        "of them and divides the ranks (" +
        where + "), found k = " + std::to_string(shape.ranks));
  }
  throw InputError("expected groups with the same GPUs on each of their nodes (" + where +
                   "), found groups of " + std::to_string(shape.ranks) + " ranks, " +
                   std::to_string(shape.stride) + " apart");
}

}  // namespace

Family family_of(const GroupShape& asked, const RankLayout& job) {
  const GroupShape shape = in_numbers(asked, job);
  require_even(shape, job);
  Family family;
  family.groups.resize(job.ranks() / shape.ranks);
  family.group_of.reserve(job.ranks());
  for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
    const std::uint32_t block = rank / (shape.ranks * shape.stride);
    const std::uint32_t group = block * shape.stride + rank % shape.stride;
    family.group_of.push_back(group);
    family.groups[group].push_back(rank);
  }
  return family;
}

}  // namespace paceline
