// What a campaign has done, and what a checkpoint has of it.
#pragma once

#include <cstdint>

#include "core/time.h"

namespace paceline {

// What has been done since the begin: a checkpoint is one of these.
struct Progress {
  std::int64_t steps = 0, samples = 0;
  CampaignTime useful, slow, fewer, first;
  CampaignTime time() const { return useful + slow + fewer + first; }
  friend bool operator==(const Progress&, const Progress&) = default;
};

inline Progress times(const Progress& p, std::int64_t k) {
  return {p.steps * k, p.samples * k, p.useful * k, p.slow * k, p.fewer * k, p.first * k};
}
inline Progress sum(const Progress& a, const Progress& b) {
  return {a.steps + b.steps, a.samples + b.samples, a.useful + b.useful,
          a.slow + b.slow,   a.fewer + b.fewer,     a.first + b.first};
}
inline Progress difference(const Progress& a, const Progress& b) { return sum(a, times(b, -1)); }

struct Saved {
  Progress progress;
  CampaignTime complete;  // when it counts
  friend bool operator==(const Saved&, const Saved&) = default;
};

}  // namespace paceline
