// What a profile of one table is worth at another: every table of a cluster fitted, every other table of that cluster
// predicted with the profile and with the defaults alone.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/fit/collective_fit.h"

namespace paceline {

// Errors are exp(mean |ln(predicted / measured)|) - 1 of the rows below 1 MiB, from there on, from 256 MiB on; nothing
// where the second table has no such row.
struct ComparedPair {
  std::string fitted, predicted;
  int fitted_nodes = 1, predicted_nodes = 1;
  std::array<std::optional<double>, 3> with_defaults, with_profile;
};

// Of all tables of the index that are not doubtful. Cost: minutes.
std::vector<ComparedPair> compare_pairs(const std::string& index, const FitProgress&);

// The page that `paceline calibrate pairs` prints.
std::string pairs_page(const std::vector<ComparedPair>&);

}  // namespace paceline
