// The devices of a route, from the first to the last.
#pragma once

#include <string>
#include <vector>

#include "topology/topology.h"

namespace paceline {

inline std::vector<std::string> names_on(const Topology& t, const Route& route) {
  std::vector<std::string> names{t.device_name(t.link(*route.begin()).from)};
  for (const LinkId id : route) {
    names.push_back(t.device_name(t.link(id).to));
  }
  return names;
}

}  // namespace paceline
