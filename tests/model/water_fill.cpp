// Water-filling: raise the rates of all flows together from zero. A flow stops rising when it meets its cap
// or when one of its links is full; the others go on. What stops first is
//   - a link l, at the level (capacity(l) - rates of its stopped flows) / (number of its rising flows), or
//   - a flow, at its cap.
// The result is max-min fair: a flow below its cap stopped at a link that was full, on which no flow rises
// any more, so none has more than it; to give it more would take from a flow that has no more. (Bertsekas and
// Gallager 6.5.2.)
#include "water_fill.h"

#include <algorithm>
#include <limits>

#include "sim/network/fixed.h"

namespace paceline {
namespace {

constexpr double kRising = -1;

struct Filling {
  std::span<const BytesPerSecond> capacity;
  std::span<const FlowDemand> flows;
  std::vector<double> rate;

  bool crosses(std::size_t flow, std::size_t link) const {
    return std::find(flows[flow].links.begin(), flows[flow].links.end(), LinkId(link)) !=
           flows[flow].links.end();
  }

  // Where the flows that still rise would fill the link; infinite if there are none.
  double level_of(std::size_t link) const {
    double room = capacity[link].value;
    std::size_t rising = 0;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (!crosses(f, link)) {
        continue;
      }
      if (rate[f] == kRising) {
        ++rising;
      } else {
        room -= rate[f];
      }
    }
    return rising == 0 ? std::numeric_limits<double>::infinity() : room / static_cast<double>(rising);
  }
};

}  // namespace

std::vector<BytesPerSecond> water_fill(std::span<const BytesPerSecond> link_capacity,
                                       std::span<const FlowDemand> flows) {
  Filling filling{link_capacity, flows, std::vector<double>(flows.size(), kRising)};
  std::vector<double>& rate = filling.rate;
  while (std::find(rate.begin(), rate.end(), kRising) != rate.end()) {
    double level = std::numeric_limits<double>::infinity();
    std::size_t fullest = 0, lowest = flows.size();
    for (std::size_t l = 0; l < link_capacity.size(); ++l) {
      if (const double here = filling.level_of(l); here < level) {
        level = here;
        fullest = l;
      }
    }
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (rate[f] == kRising && (lowest == flows.size() || flows[f].cap < flows[lowest].cap)) {
        lowest = f;
      }
    }
    if (flows[lowest].cap.value <= level * (1 + kRateSlack)) {
      rate[lowest] = flows[lowest].cap.value;
      continue;
    }
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (rate[f] == kRising && filling.crosses(f, fullest)) {
        rate[f] = level;
      }
    }
  }
  std::vector<BytesPerSecond> rates;
  for (const double r : rate) {
    rates.push_back(BytesPerSecond(r));
  }
  return rates;
}

}  // namespace paceline
