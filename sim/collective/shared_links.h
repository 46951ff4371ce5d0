// Links that flows share while a job runs.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "sim/collective/communicator.h"
#include "topology/topology.h"

namespace paceline {

// The links whose flows compete in the event engine; a link's number is its place in Communicator::shared_capacity.
// Requires: the topology outlives it.
class SharedLinks {
 public:
  SharedLinks(const Topology&, std::span<const BackgroundFlow>);
  SharedLinks(const Communicator&, const Topology&);

  LinkId number(LinkId);                                           // of a link that is or becomes one of them
  std::vector<LinkId> among(std::span<const LinkId> route) const;  // those of a route, numbered

  std::vector<LinkId> links;
  std::vector<BytesPerSecond> capacity;
  std::vector<SharedFlow> flows;

 private:
  const Topology& topology_;
  std::map<LinkId, LinkId> number_;
};

}  // namespace paceline
