// The default costs as a table (fitted by `paceline calibrate defaults`, calibrate/validate/defaults.h).
#pragma once

#include <array>
#include <span>
#include <vector>

#include "sim/collective/spec.h"
#include "topology/cluster_spec.h"

namespace paceline {

// Volta and older, Ampere, Hopper, Blackwell.
inline constexpr int kGenerations = 4;
int generation(int compute_capability);

// deviation: standard, of ln(value), between sites; sites: that determine it, 0: the starting point.
struct DefaultCost {
  const char* name;
  int generation;
  double value, deviation;
  int sites;
};
struct DefaultNetworkCost {
  NetworkKind kind;
  const char* name;
  double value, deviation;
  int sites;
};
std::span<const DefaultCost> fitted_costs();
std::span<const DefaultNetworkCost> fitted_network_costs();

// Where the fit begins, and what its priors are around: alike for all generations.
std::vector<CostParameter> starting_costs();

}  // namespace paceline
