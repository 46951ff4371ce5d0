// A run's fingerprint: 64 bits over the whole trajectory, independent of the order in which it was computed.
//
// Each fact (what, where, when) is mixed on its own and the results are added modulo 2^64, so the event
// engine and the vector engine, which meet the facts in different orders, arrive at the same number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/time.h"

namespace paceline {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that spreads every bit.
constexpr std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

class Fingerprint {
 public:
  // The address of a kind of fact; add() completes it with a rank and a time.
  static constexpr std::uint64_t subject(std::uint64_t kind, std::uint64_t iteration, std::uint64_t item) {
    return mix64(mix64(kind * kOdd + iteration) + item);
  }
  constexpr void add(std::uint64_t subject, std::uint64_t rank, SimTime at) {
    sum_ += mix64((subject + rank * kOdd) ^ static_cast<std::uint64_t>(at.ps) * kOtherOdd);
  }
  constexpr std::uint64_t value() const { return sum_; }

 private:
  static constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL, kOtherOdd = 0xd6e8feb86659fd93ULL;
  std::uint64_t sum_ = 0;
};

// 16 hexadecimal digits.
std::string to_hex(std::uint64_t value);

// FNV-1a of the bytes, likewise: tells texts apart, no more.
std::string checksum(std::string_view text);

}  // namespace paceline
