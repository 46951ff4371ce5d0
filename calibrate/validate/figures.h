// Predictions beside measurements, and how far apart they are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/measurement.h"
#include "calibrate/validate/validation_set.h"
#include "core/names.h"

namespace paceline {

// One held-out row. Times in s, or samples/s.
struct ComparedRow {
  std::string table;
  Origin origin;
  std::int64_t bytes = 0;  // 0: training
  int nodes = 1, ranks = 1;
  double measured = 0, predicted = 0;
  double low = 0, high = 0;            // interval of 90 %
  std::optional<double> interpolated;  // collectives: what log-log interpolation of the fitted rows says
  std::optional<double> on_line;       // training: what their log-log line says
  std::optional<double> scaled;        // what the smallest fitted row says, times the GPUs
  std::string excluded;                // why it doesn't count
  bool inside() const { return low <= measured && measured <= high; }
};

struct ComparedCase {
  std::string name;
  std::vector<std::string> fitted;  // the tables and rows
  std::string source;
  std::vector<ComparedRow> rows;
  std::string excluded;  // why none of its rows counts
};

// Of the rows that count; nothing where none bears on the figure.
std::optional<double> figure(Figure, std::span<const ComparedRow>);
// Of a set: exp(mean ln(1 + figure)) - 1 over the cases that count and have it; the largest for `worst`; for
// to_interpolation and to_perfect_scaling the ratio of the two means.
std::optional<double> figure(Figure, std::span<const ComparedCase>);

struct Coverage {
  std::size_t rows = 0, inside = 0;
};
Coverage coverage(std::span<const ComparedRow>);
Coverage coverage(std::span<const ComparedCase>);

enum class Verdict : std::uint8_t { holds, known_gap, broken, gap_grew, gap_closed };
template <>
inline constexpr auto kNames<Verdict> = names<Verdict>({{"holds", Verdict::holds},
                                                        {"known_gap", Verdict::known_gap},
                                                        {"broken", Verdict::broken},
                                                        {"gap_grew", Verdict::gap_grew},
                                                        {"gap_closed", Verdict::gap_closed}});

struct Check {
  std::string case_name;  // empty: the whole set
  Figure which = Figure::mean;
  double value = 0, limit = 0;
  Verdict verdict = Verdict::holds;
  std::string why;   // of a known gap
  double known = 0;  // its size
  bool holds() const { return verdict == Verdict::holds || verdict == Verdict::known_gap; }
};

// A known gap may be larger than stated by 2 % of itself and 0.0005: rounding.
std::vector<Check> check(const ValidationSet&, std::span<const ComparedCase>);

// ln y at ln x on the straight lines through the points, beyond the first and last on the outermost ones.
// Requires: two different x at least, ascending.
struct LogPoint {
  double x = 0, y = 0;
};
double interpolate(std::span<const LogPoint>, double x);

}  // namespace paceline
