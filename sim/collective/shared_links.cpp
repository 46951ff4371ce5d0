#include "sim/collective/shared_links.h"

#include <algorithm>
#include <utility>

namespace paceline {

SharedLinks::SharedLinks(const Topology& topology, std::span<const BackgroundFlow> background)
    : topology_(topology) {
  for (const BackgroundFlow& flow : background) {
    SharedFlow shared{{}, flow.rate};
    for (const LinkId id : topology.route(Rank(flow.from), Rank(flow.to), flow.nic)) {
      shared.links.push_back(number(id));
      shared.rate = std::min(shared.rate, topology.link(id).bandwidth);
    }
    flows.push_back(std::move(shared));
  }
}

SharedLinks::SharedLinks(const Communicator& communicator, const Topology& topology)
    : links(communicator.shared_links),
      capacity(communicator.shared_capacity),
      flows(communicator.background),
      topology_(topology) {
  for (std::size_t i = 0; i < links.size(); ++i) {
    number_.emplace(links[i], LinkId(i));
  }
}

LinkId SharedLinks::number(LinkId link) {
  const auto [at, added] = number_.try_emplace(link, LinkId(links.size()));
  if (added) {
    links.push_back(link);
    capacity.push_back(topology_.link(link).bandwidth);
  }
  return at->second;
}

std::vector<LinkId> SharedLinks::among(std::span<const LinkId> route) const {
  std::vector<LinkId> numbered;
  for (const LinkId id : route) {
    if (const auto at = number_.find(id); at != number_.end()) {
      numbered.push_back(at->second);
    }
  }
  return numbered;
}

}  // namespace paceline
