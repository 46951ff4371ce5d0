// Numbers drawn at random, the same in every run and everywhere; std's distributions are not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "core/fingerprint.h"

namespace paceline {

#ifdef PACELINE_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Whether all is tried (PACELINE_THOROUGH, as ./dev test --thorough sets it), or what a gate has the time for.
bool thorough();

// How many of `all` random cases to try: thoroughly all, else a quarter; once more without vector instructions, a tenth;
// under sanitizers, which look at every access on the way and not at the results, a thirtieth.
std::uint64_t rounds(std::uint64_t all);

// Of cases in an order of their own, one in so many: of long ones, and of those that only sanitizers make long.
std::size_t stride();
inline constexpr std::size_t kStride = kSanitized ? 11 : 1;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return mix64(state_ += 0x9e3779b97f4a7c15ULL); }
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(next() % limit); }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  double real(double low, double high) {
    return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53;
  }
  bool maybe(double probability) { return real(0, 1) < probability; }
  template <class Values>
  auto one_of(const Values& values) {
    return *(std::begin(values) + static_cast<std::ptrdiff_t>(below(std::size(values))));
  }

 private:
  std::uint64_t state_;
};

}  // namespace paceline
