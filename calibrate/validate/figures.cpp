#include "calibrate/validate/figures.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace paceline {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

// What a figure sets beside the prediction.
std::optional<double> simpler(Figure which, const ComparedRow& row) {
  switch (which) {
    case Figure::to_interpolation:
      return row.interpolated;
    case Figure::perfect_scaling:
    case Figure::to_perfect_scaling:
      return row.scaled;
    case Figure::log_log:
      return row.on_line;
    default:
      return std::nullopt;
  }
}

bool bears_on(Figure which, const ComparedRow& row) {
  switch (which) {
    case Figure::below_1mib:
      return row.bytes > 0 && row.bytes < kMiB;
    case Figure::from_1mib:
      return row.bytes >= kMiB;
    case Figure::from_16mib:
      return row.bytes >= 16 * kMiB;
    case Figure::from_256mib:
      return row.bytes >= 256 * kMiB;
    case Figure::to_interpolation:
    case Figure::perfect_scaling:
    case Figure::log_log:
    case Figure::to_perfect_scaling:
      return simpler(which, row).has_value();
    case Figure::bias:
      return row.bytes == 0;
    case Figure::mean:
    case Figure::worst:
      return true;
  }
  return false;
}

double log_error(double predicted, const ComparedRow& row) {
  return std::abs(std::log(predicted / row.measured));
}

constexpr double kExact = 1e-6;  // errors below this are rounding

struct Sums {
  std::size_t rows = 0;
  double sum = 0, signed_sum = 0, worst = 0, simpler = 0;
  double mean() const { return std::expm1(sum / static_cast<double>(rows)); }
  double mean_of_simpler() const { return std::expm1(simpler / static_cast<double>(rows)); }
  double ratio() const { return mean() / std::max(mean_of_simpler(), kExact); }
};

Sums sums(Figure which, std::span<const ComparedRow> rows) {
  Sums all;
  for (const ComparedRow& row : rows) {
    if (row.excluded.empty() && bears_on(which, row)) {
      const double error = log_error(row.predicted, row);
      ++all.rows;
      all.sum += error;
      all.signed_sum += std::log(row.predicted / row.measured);
      all.worst = std::max(all.worst, error);
      const std::optional<double> other = simpler(which, row);
      all.simpler += other ? log_error(*other, row) : 0;
    }
  }
  return all;
}

double value_of(Figure which, const Sums& all) {
  switch (which) {
    case Figure::worst:
      return std::expm1(all.worst);
    case Figure::bias:
      return std::expm1(all.signed_sum / static_cast<double>(all.rows));
    case Figure::perfect_scaling:
    case Figure::log_log:
      return all.mean_of_simpler();
    case Figure::to_interpolation:
    case Figure::to_perfect_scaling:
      return all.ratio();
    default:
      return all.mean();
  }
}

Check checked(const ValidationSet& set, const std::string& name, Figure which, double value, double limit) {
  constexpr double kRelative = 1.02, kAbsolute = 5e-4;
  Check result{name, which, value, limit, value <= limit ? Verdict::holds : Verdict::broken, {}, 0};
  for (const KnownGap& gap : set.known_gaps) {
    if (gap.case_name == name && gap.which == which) {
      result.why = gap.why;
      result.known = gap.measured;
      result.verdict = value <= limit                                 ? Verdict::gap_closed
                       : value > gap.measured * kRelative + kAbsolute ? Verdict::gap_grew
                                                                      : Verdict::known_gap;
    }
  }
  return result;
}

}  // namespace

std::optional<double> figure(Figure which, std::span<const ComparedRow> rows) {
  const Sums all = sums(which, rows);
  return all.rows == 0 ? std::nullopt : std::optional(value_of(which, all));
}

std::optional<double> figure(Figure which, std::span<const ComparedCase> cases) {
  Sums of_cases;
  for (const ComparedCase& each : cases) {
    const Sums rows = each.excluded.empty() ? sums(which, each.rows) : Sums{};
    if (rows.rows > 0) {
      ++of_cases.rows;
      of_cases.sum += rows.sum / static_cast<double>(rows.rows);
      of_cases.signed_sum += rows.signed_sum / static_cast<double>(rows.rows);
      of_cases.worst = std::max(of_cases.worst, rows.worst);
      of_cases.simpler += rows.simpler / static_cast<double>(rows.rows);
    }
  }
  return of_cases.rows == 0 ? std::nullopt : std::optional(value_of(which, of_cases));
}

Coverage coverage(std::span<const ComparedRow> rows) {
  Coverage all;
  for (const ComparedRow& row : rows) {
    if (row.excluded.empty()) {
      ++all.rows;
      all.inside += row.inside() ? 1 : 0;
    }
  }
  return all;
}

Coverage coverage(std::span<const ComparedCase> cases) {
  Coverage all;
  for (const ComparedCase& each : cases) {
    const Coverage rows = each.excluded.empty() ? coverage(each.rows) : Coverage{};
    all.rows += rows.rows;
    all.inside += rows.inside;
  }
  return all;
}

std::vector<Check> check(const ValidationSet& set, std::span<const ComparedCase> cases) {
  std::vector<Check> checks;
  for (const auto& [name, which] : kNames<Figure>) {
    const auto i = static_cast<std::size_t>(which);
    if (const std::optional<double> value = figure(which, cases); set.tolerance[i] && value) {
      checks.push_back(checked(set, {}, which, *value, *set.tolerance[i]));
    }
    for (const ComparedCase& each : cases) {
      const std::optional<double> value = figure(which, each.rows);
      if (set.of_each[i] && value && each.excluded.empty()) {
        checks.push_back(checked(set, each.name, which, *value, *set.of_each[i]));
      }
    }
  }
  return checks;
}

double interpolate(std::span<const LogPoint> points, double x) {
  assert(points.size() >= 2);
  std::size_t upper = 1;
  while (upper + 1 < points.size() && points[upper].x < x) {
    ++upper;
  }
  const LogPoint &a = points[upper - 1], &b = points[upper];
  return a.y + (b.y - a.y) * (x - a.x) / (b.x - a.x);
}

}  // namespace paceline
