// A family on a cluster: which GPUs its groups use, which groups look alike, and their graphs as one.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/collective/family.h"
#include "sim/collective/plan.h"
#include "sim/collective/shared_links.h"
#include "topology/topology.h"

namespace paceline {

RankLayout layout_of(const Topology&);  // of the job

class PlacedFamily {
 public:
  // Groups are of one kind where they use the same GPUs of nodes of the same kinds, in the same order. Throws
  // InputError as family_of does. Requires: the topology outlives it.
  PlacedFamily(const Topology&, const GroupShape&);
  PlacedFamily(const Topology&, Family);

  const RankLayout& layout() const { return layout_; }  // of each group
  std::size_t groups() const { return family_.groups.size(); }
  struct Kind {
    std::vector<NodeLayout>
        nodes;  // by the topology's kind: as its groups see one, with their own GPUs in use
    std::vector<std::uint32_t> of_node;  // the topology's kind of each node of a group
  };
  const std::vector<Kind>& kinds() const { return kinds_; }

  // `of_kind`: graphs over the ranks of one group; in return one over all ranks, priced. FIFOs of different groups
  // that cross one link share it. Throws InputError where no cables join two GPUs of a group. Cost: O(thread
  // blocks + FIFOs * route length).
  CollectiveGraph join(std::vector<CollectiveGraph> of_kind, const SharedLinks&) const;
  // The links that a FIFO of such a graph crosses, none inside a device.
  Route route(const CollectiveGraph&, const Fifo&) const;

 private:
  std::uint32_t kind_with(const std::vector<std::uint32_t>& gpus, std::vector<std::uint32_t> of_node);

  const Topology& topology_;
  Family family_;
  RankLayout layout_;
  std::vector<std::uint32_t> kind_of_;  // by group
  std::vector<Kind> kinds_;
};

}  // namespace paceline
