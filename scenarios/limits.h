// What a key of a file may hold: a range for numbers and quantities (in base units), lengths for arrays and
// texts; and whether the key must be there.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

namespace paceline {

struct Limits {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above = false;           // `least` itself is excluded
  bool zero_is_absent = false;  // a value of 0 means "not given": it is not written
  std::size_t fewest = 0, longest = 1'000'000;

  constexpr bool holds(double v) const { return (above ? v > least : v >= least) && v <= most; }
  constexpr Limits absent_at_zero() const {
    Limits limits = *this;
    limits.zero_is_absent = true;
    return limits;
  }
  // Of the array whose elements these limits are for.
  constexpr Limits length(std::size_t from, std::size_t to) const {
    Limits limits = *this;
    limits.fewest = from;
    limits.longest = to;
    return limits;
  }
};

constexpr Limits any() { return {}; }
constexpr Limits between(double least, double most) { return {.least = least, .most = most}; }
constexpr Limits above(double least, double most) { return {.least = least, .most = most, .above = true}; }
constexpr Limits text(std::size_t longest, std::size_t fewest = 1) {
  return {.fewest = fewest, .longest = longest};
}
constexpr Limits list(std::size_t fewest, std::size_t longest) {
  return {.fewest = fewest, .longest = longest};
}

// The caps of quantities, in base units. Beyond them a file is wrong, not ambitious; below them nothing
// overflows.
inline constexpr double kMostSeconds = 9.2e6;                 // 106 days
inline constexpr double kMostBytes = 4611686018427387904.0;   // 2^62
inline constexpr const char* kMostBytesText = "4194304 TiB";  // the same in a unit that is taken
inline constexpr Limits kDuration = between(0, kMostSeconds);
inline constexpr Limits kSize = between(1, kMostBytes);
inline constexpr Limits kBandwidth = between(1, 1e18);
inline constexpr Limits kComputeRate = between(1e6, 1e24);
inline constexpr Limits kSampleRate = between(1e-6, 1e12);
inline constexpr Limits kEfficiency = above(0, 10);
inline constexpr Limits kShare = between(0, 1);
inline constexpr Limits kFactor = between(1, 1000);  // of slowness

inline constexpr int kMostRanks = 4'000'000;  // of a job, and nodes of a cluster
inline constexpr int kMostGpusOfNode = 256;
inline constexpr int kMostPasses = 10'000;  // /training/accumulation

inline constexpr int kMostFilesAbove = 16;  // that name each other in a row

// Whether a key must be there.
struct Need {
  enum class Kind : unsigned char { defaulted, preset, required, absent };
  Kind kind = Kind::defaulted;  // preset: as the named preset has it
  std::string reason;           // absent: why
};
inline Need required() { return {Need::Kind::required, {}}; }
inline Need required_unless(bool preset) { return {preset ? Need::Kind::preset : Need::Kind::required, {}}; }
inline Need absent(std::string reason) { return {Need::Kind::absent, std::move(reason)}; }

}  // namespace paceline
