// Rates of all flows from scratch, the slow, obvious form: the oracle of FlowNetwork.
#pragma once

#include <span>
#include <vector>

#include "core/id.h"
#include "core/units.h"

namespace paceline {

struct FlowDemand {
  std::vector<LinkId> links;
  BytesPerSecond cap;
};
std::vector<BytesPerSecond> water_fill(std::span<const BytesPerSecond> link_capacity,
                                       std::span<const FlowDemand> flows);

}  // namespace paceline
