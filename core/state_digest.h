// 128 bits over a state, word by word in one order: two states whose digests are equal are taken for equal.
#pragma once

#include <cstdint>

#include "core/fingerprint.h"
#include "core/time.h"

namespace paceline {

class StateDigest {
 public:
  constexpr void add(std::uint64_t word) {
    a_ = mix64(a_ ^ word);
    b_ = mix64(b_ + word);
  }
  constexpr void add(std::int64_t word) { add(static_cast<std::uint64_t>(word)); }
  constexpr void add(std::uint32_t word) { add(std::uint64_t{word}); }
  constexpr void add(SimTime time) { add(time.ps); }

  friend constexpr bool operator==(const StateDigest&, const StateDigest&) = default;

 private:
  std::uint64_t a_ = 0x9e3779b97f4a7c15ULL, b_ = 0xd6e8feb86659fd93ULL;
};

}  // namespace paceline
