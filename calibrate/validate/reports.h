// Compared sets as text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "calibrate/validate/figures.h"

namespace paceline {

struct ComparedSet {
  ValidationSet set;
  std::vector<ComparedCase> cases;
  std::vector<Check> checks;
};

std::string validation_table(std::span<const ComparedSet>);
std::string validation_markdown(std::span<const ComparedSet>);
std::string validation_json(std::span<const ComparedSet>);

// What both texts say: "3.1 %", "known gap 4.2 %: why".
std::string percent_text(double ratio);
std::string size_text(std::int64_t bytes);  // "64 MiB", "1000 B"
std::string figure_text(Figure, double);
std::string verdict_text(const Check&);
// "712 of 803 held-out measurements (88.7 %) lie in their 90 % interval".
std::string coverage_text(const Coverage&);
// The figures that a set's cases have, in order; interpolation last.
std::vector<Figure> figures_of(const ComparedSet&);

}  // namespace paceline
