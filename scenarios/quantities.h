// Quantities as text: "25 MiB", "450 GB/s", "5 us". The unit is compulsory. kB, MB, GB = 10^3, 10^6, 10^9
// bytes; KiB, MiB, GiB = 2^10, 2^20, 2^30; b = bit. A number is read in decimal together with its prefix, so
// "5.4 us" is the double 5.4e-6, and what is written reads back as the same double.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/units.h"

namespace paceline {

struct Unit {
  std::string_view name;
  int exponent = 0;   // of ten
  double binary = 1;  // a power of two
};

struct Dimension {
  enum class Kind : unsigned char { size, time, bandwidth, work, compute_rate, sample_rate, long_time };
  Kind kind;
  std::string_view noun;     // "a bandwidth"
  std::string_view example;  // "450 GB/s"
  std::string_view usual;    // "GB/s"
  std::span<const Unit> units;
};

const Dimension& dimension_of(Bytes);
const Dimension& dimension_of(Seconds);
const Dimension& dimension_of(LongSeconds);  // a year is 365.25 days
const Dimension& dimension_of(BytesPerSecond);
const Dimension& dimension_of(Flops);
const Dimension& dimension_of(FlopsPerSecond);
const Dimension& dimension_of(SamplesPerSecond);

const Unit* find_unit(const Dimension&, std::string_view name);  // nullptr: it has none of that name
std::string known_units(const Dimension&);                       // "s, ms, us, ns or ps"

// In the base unit. Throws InputError (no place) that says what is wrong and how to write it.
double parse_quantity(std::string_view text, const Dimension&);
// To the nearest byte; exact where the text is a whole number.
Bytes parse_bytes(std::string_view text);

std::string to_text(Bytes);
std::string to_text(Seconds);
std::string to_text(LongSeconds);
std::string to_text(BytesPerSecond);
std::string to_text(Flops);
std::string to_text(FlopsPerSecond);
std::string to_text(SamplesPerSecond);
std::string quantity_text(double value, const Dimension&);

}  // namespace paceline
