// Physical quantities as types: only combinations that mean something compile.
//
// Every quantity is a double in its SI base unit, but Bytes, which is exact. There is no implicit conversion
// from a bare number; a literal suffix or an explicit constructor names the unit.
#pragma once

#include <compare>
#include <cstdint>

namespace paceline {

template <class Tag>
struct Quantity {
  double value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(double v) : value(v) {}
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value + b.value); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value - b.value); }
  friend constexpr Quantity operator*(Quantity a, double k) { return Quantity(a.value * k); }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity(a.value * k); }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity(a.value / k); }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value / b.value; }
};

using Seconds = Quantity<struct SecondsTag>;                // s
using LongSeconds = Quantity<struct LongSecondsTag>;        // s, said in hours, days or years
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;  // B/s
using Flops = Quantity<struct FlopsTag>;                    // floating point operations
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;  // FLOP/s
using SamplesPerSecond = Quantity<struct SamplesPerSecondTag>;

struct Bytes {
  std::int64_t value = 0;

  constexpr Bytes() = default;
  constexpr explicit Bytes(std::int64_t v) : value(v) {}
  friend constexpr auto operator<=>(Bytes, Bytes) = default;

  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes(a.value + b.value); }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes(a.value - b.value); }
  friend constexpr Bytes operator*(Bytes a, std::int64_t k) { return Bytes(a.value * k); }
  friend constexpr Bytes operator*(std::int64_t k, Bytes a) { return Bytes(a.value * k); }
};

constexpr Seconds to_seconds(LongSeconds s) { return Seconds(s.value); }

constexpr Seconds operator/(Bytes b, BytesPerSecond r) {
  return Seconds(static_cast<double>(b.value) / r.value);
}
constexpr BytesPerSecond operator/(Bytes b, Seconds s) {
  return BytesPerSecond(static_cast<double>(b.value) / s.value);
}
constexpr Seconds operator/(Flops f, FlopsPerSecond r) { return Seconds(f.value / r.value); }

namespace units {
constexpr Seconds operator""_s(long double v) { return Seconds(static_cast<double>(v)); }
constexpr Seconds operator""_ms(long double v) { return Seconds(static_cast<double>(v) * 1e-3); }
constexpr Seconds operator""_us(long double v) { return Seconds(static_cast<double>(v) * 1e-6); }
constexpr Seconds operator""_ns(long double v) { return Seconds(static_cast<double>(v) * 1e-9); }
constexpr Bytes operator""_B(unsigned long long v) { return Bytes(static_cast<std::int64_t>(v)); }
constexpr Bytes operator""_KiB(unsigned long long v) { return Bytes(static_cast<std::int64_t>(v) << 10); }
constexpr Bytes operator""_MiB(unsigned long long v) { return Bytes(static_cast<std::int64_t>(v) << 20); }
constexpr BytesPerSecond operator""_GBps(long double v) {
  return BytesPerSecond(static_cast<double>(v) * 1e9);
}
constexpr BytesPerSecond operator""_Gbps(long double v) {
  return BytesPerSecond(static_cast<double>(v) * 1e9 / 8);
}
constexpr FlopsPerSecond operator""_TFLOPs(long double v) {
  return FlopsPerSecond(static_cast<double>(v) * 1e12);
}
}  // namespace units

}  // namespace paceline
