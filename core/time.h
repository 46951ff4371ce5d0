// SimTime: the simulator's clock, int64 picoseconds from the start of a run (range: about 106 days).
//
// max and + on it are exact and associative; that is what lets two engines agree to the last picosecond.
// A real duration becomes whole picoseconds in round_to_picoseconds alone, or in its short form where it is known
// to be short.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdint>
#include <limits>

#include "core/units.h"

namespace paceline {

struct SimTime {
  std::int64_t ps = 0;

  friend constexpr auto operator<=>(SimTime, SimTime) = default;
  friend constexpr SimTime operator+(SimTime a, SimTime b) { return {a.ps + b.ps}; }
  friend constexpr SimTime operator-(SimTime a, SimTime b) { return {a.ps - b.ps}; }
  friend constexpr SimTime operator*(SimTime a, std::int64_t k) { return {a.ps * k}; }
  friend constexpr SimTime operator*(std::int64_t k, SimTime a) { return {a.ps * k}; }
  constexpr SimTime& operator+=(SimTime o) {
    ps += o.ps;
    return *this;
  }
};

// Sums over ranks: a million times 106 days.
__extension__ using PicosecondSum = __int128;

// The clock of a campaign, which lasts for years: picoseconds, 128 bits of them.
struct CampaignTime {
  PicosecondSum ps = 0;

  constexpr CampaignTime() = default;
  constexpr explicit CampaignTime(PicosecondSum t) : ps(t) {}
  constexpr CampaignTime(SimTime t) : ps(t.ps) {}
  friend constexpr auto operator<=>(CampaignTime, CampaignTime) = default;
  friend constexpr CampaignTime operator+(CampaignTime a, CampaignTime b) {
    return CampaignTime(a.ps + b.ps);
  }
  friend constexpr CampaignTime operator-(CampaignTime a, CampaignTime b) {
    return CampaignTime(a.ps - b.ps);
  }
  friend constexpr CampaignTime operator*(CampaignTime a, std::int64_t k) { return CampaignTime(a.ps * k); }
  constexpr CampaignTime& operator+=(CampaignTime o) {
    ps += o.ps;
    return *this;
  }
};

// Later than any time a run can reach. Nothing may be added to it.
inline constexpr SimTime kNever{std::numeric_limits<std::int64_t>::max()};
inline constexpr double kPicosecondsPerSecond = 1e12;

constexpr Seconds to_seconds(SimTime t) { return Seconds(static_cast<double>(t.ps) / kPicosecondsPerSecond); }

constexpr double to_microseconds(SimTime t) { return static_cast<double>(t.ps) * 1e-6; }

constexpr Seconds to_seconds(CampaignTime t) {
  return Seconds(static_cast<double>(t.ps) / kPicosecondsPerSecond);
}

inline constexpr double kSmallPicoseconds = 0x1p51;  // 2251 s

// Nearest integer, ties to even. Requires: 0 <= ps < kSmallPicoseconds; adding 1.5 * 2^52 leaves the integer in
// the low bits of the sum, which vectorises where a conversion does not.
inline std::int64_t round_small_picoseconds(double ps) {
  constexpr double kMagic = 6755399441055744.0;
  return std::bit_cast<std::int64_t>(ps + kMagic) - std::bit_cast<std::int64_t>(kMagic);
}

// Nearest integer, ties to even, for any non-negative double in range; saturates at kNever.
inline std::int64_t round_to_picoseconds(double ps) {
  if (ps < kSmallPicoseconds) {
    return round_small_picoseconds(ps);
  }
  if (!(ps < static_cast<double>(kNever.ps))) {
    return kNever.ps;
  }
  const double whole = static_cast<double>(static_cast<std::int64_t>(ps));
  const double rest = ps - whole;  // exact: a double above 2^51 has at most one fractional bit
  const auto floor = static_cast<std::int64_t>(ps);
  return rest > 0.5 || (rest == 0.5 && (floor & 1) != 0) ? floor + 1 : floor;
}

// To the nearest picosecond. Requires: 0 <= s < 10^26.
inline CampaignTime to_campaign_time(Seconds s) {
  const double ps = s.value * kPicosecondsPerSecond;
  return ps < static_cast<double>(kNever.ps) ? CampaignTime(round_to_picoseconds(ps))
                                             : CampaignTime(static_cast<PicosecondSum>(ps));
}

inline CampaignTime to_campaign_time(LongSeconds s) { return to_campaign_time(to_seconds(s)); }

inline SimTime to_sim_time(Seconds s) { return {round_to_picoseconds(s.value * kPicosecondsPerSecond)}; }

}  // namespace paceline
