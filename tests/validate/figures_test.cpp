// Are the figures what the README defines? Small numbers, worked out by hand beside each check.
#include "calibrate/validate/figures.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace paceline {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

ComparedRow row(std::int64_t bytes, double measured, double predicted) {
  ComparedRow one;
  one.bytes = bytes;
  one.measured = measured;
  one.predicted = predicted;
  one.low = 0.9 * predicted;
  one.high = 1.1 * predicted;
  return one;
}

double of(Figure which, const std::vector<ComparedRow>& rows) {
  return figure(which, std::span<const ComparedRow>(rows)).value();
}
double of(Figure which, const std::vector<ComparedCase>& cases) {
  return figure(which, std::span<const ComparedCase>(cases)).value();
}

TEST_CASE("errors are geometric means of ratios, whichever way they are off") {
  // Twice as slow and twice as fast: 100 % each. 2, 2 and 1: 2^(2/3) - 1.
  const std::vector<ComparedRow> rows{row(kMiB / 2, 1, 2), row(kMiB, 4, 2), row(16 * kMiB, 3, 3)};
  CHECK(of(Figure::mean, rows) == Approx(std::cbrt(4.0) - 1));
  CHECK(of(Figure::worst, rows) == Approx(1));
  CHECK(of(Figure::below_1mib, rows) == Approx(1));
  CHECK(of(Figure::from_1mib, rows) == Approx(std::sqrt(2.0) - 1));  // 2 and 1
  CHECK(of(Figure::from_16mib, rows) == Approx(0).margin(1e-12));
  CHECK_FALSE(figure(Figure::from_256mib, std::span<const ComparedRow>(rows)));
  CHECK_FALSE(figure(Figure::to_interpolation, std::span<const ComparedRow>(rows)));
}

TEST_CASE("an excluded row counts nowhere") {
  std::vector<ComparedRow> rows{row(kMiB, 1, 1.1), row(kMiB, 1, 5)};
  rows[1].excluded = "warm-up";
  CHECK(of(Figure::worst, rows) == Approx(0.1));
  const Coverage all = coverage(std::span<const ComparedRow>(rows));
  CHECK(all.rows == 1);
  CHECK(all.inside == 1);  // 1 is above 0.9 * 1.1
}

TEST_CASE("in a set each case weighs the same, and an excluded case nothing") {
  std::vector<ComparedCase> cases(3);
  cases[0].rows = {row(kMiB, 1, 1.21)};
  cases[1].rows = std::vector<ComparedRow>(50, row(kMiB, 1, 1));
  cases[2].rows = {row(kMiB, 1, 100)};
  cases[2].excluded = "doubtful";
  CHECK(of(Figure::mean, cases) == Approx(0.1));  // sqrt(1.21 * 1) - 1
  CHECK(of(Figure::worst, cases) == Approx(0.21));
  const Coverage all = coverage(std::span<const ComparedCase>(cases));
  CHECK(all.rows == 51);
  CHECK(all.inside == 50);  // 1 is below 0.9 * 1.21
}

TEST_CASE("interpolation: straight lines in logarithms, continued at both ends") {
  const std::vector<LogPoint> points{{0, 0}, {1, 2}, {3, 3}};
  CHECK(interpolate(points, 0.5) == Approx(1));
  CHECK(interpolate(points, 1) == Approx(2));
  CHECK(interpolate(points, 2) == Approx(2.5));
  CHECK(interpolate(points, -1) == Approx(-2));
  CHECK(interpolate(points, 5) == Approx(4));

  std::vector<ComparedRow> rows{row(kMiB, 1, 1.1), row(kMiB, 1, 1.1)};
  rows[0].interpolated = 1.2;
  rows[1].interpolated = 1.2;
  CHECK(of(Figure::to_interpolation, rows) == Approx(0.5));  // 10 % against 20 %
}

TEST_CASE("perfect scaling is a prediction too, and what ours is measured by") {
  std::vector<ComparedRow> rows{row(0, 100, 110), row(0, 100, 110)};
  CHECK_FALSE(figure(Figure::perfect_scaling, std::span<const ComparedRow>(rows)));
  rows[0].scaled = 120;
  rows[1].scaled = 120;
  CHECK(of(Figure::perfect_scaling, rows) == Approx(0.2));
  CHECK(of(Figure::to_perfect_scaling, rows) == Approx(0.5));
  std::vector<ComparedCase> cases(2);
  cases[0].rows = rows;
  cases[1].rows = {row(0, 100, 110)};
  cases[1].rows[0].scaled = 100;  // one case off by 20 %, one by nothing
  CHECK(of(Figure::perfect_scaling, cases) == Approx(std::sqrt(1.2) - 1));
  CHECK(of(Figure::to_perfect_scaling, cases) == Approx(0.1 / (std::sqrt(1.2) - 1)));
  CHECK(of(Figure::to_perfect_scaling, cases[1].rows) > 1);  // nothing is better than exact
}

// One case with a mean error of 10 %.
struct Checked {
  ValidationSet set;
  std::vector<ComparedCase> cases;
  Checked() : cases(1) {
    cases[0].name = "one";
    cases[0].rows = {row(kMiB, 1, 1.1)};
  }
  Verdict verdict() const { return check(set, cases).at(0).verdict; }
};

TEST_CASE("a tolerance holds or is broken, a known gap may neither grow nor close") {
  Checked c;
  CHECK(check(c.set, c.cases).empty());
  c.set.tolerance[0] = 0.11;
  CHECK(c.verdict() == Verdict::holds);
  c.set.tolerance[0] = 0.09;
  CHECK(c.verdict() == Verdict::broken);

  c.set.known_gaps = {{"", Figure::mean, 0.1, "why"}};
  CHECK(c.verdict() == Verdict::known_gap);
  CHECK(check(c.set, c.cases)[0].holds());
  c.set.known_gaps[0].measured = 0.099;  // 2 % of it and 0.0005 are rounding
  CHECK(c.verdict() == Verdict::known_gap);
  c.set.known_gaps[0].measured = 0.097;
  CHECK(c.verdict() == Verdict::gap_grew);
  CHECK_FALSE(check(c.set, c.cases)[0].holds());
  c.set.tolerance[0] = 0.12;
  CHECK(c.verdict() == Verdict::gap_closed);
  CHECK_FALSE(check(c.set, c.cases)[0].holds());

  c.set.tolerance[0].reset();
  c.set.of_each[0] = 0.05;  // the gap is the set's, not the case's
  CHECK(c.verdict() == Verdict::broken);
  c.set.known_gaps[0].case_name = "one";
  c.set.known_gaps[0].measured = 0.1;
  CHECK(c.verdict() == Verdict::known_gap);
  c.cases[0].excluded = "doubtful";
  CHECK(check(c.set, c.cases).empty());
}

}  // namespace
}  // namespace paceline
