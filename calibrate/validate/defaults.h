// The default costs of collectives, fitted to all published tables of a GPU generation that are not doubtful (but for
// those that are `not fitted`), and judged by leaving each site out: its tables are predicted from the others' alone.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "sim/collective/default_costs.h"
#include "sim/collective/plan.h"

namespace paceline {

// deviation: standard, of ln(value), by the jackknife over sites.
struct FittedDefault {
  std::string name;
  double value = 0, deviation = 0;
  int sites = 0;  // that determine it; 0: the starting point
};

// A row that was predicted without its site. log_ratio: ln(predicted / measured).
struct HeldOutRow {
  std::string table, site;
  CollectiveKind kind = CollectiveKind::all_reduce;
  int nodes = 1, ranks = 1;
  Reach reach = Reach::one_node;
  std::int64_t bytes = 0;
  double log_ratio = 0;
  double as_built = 0;  // with the costs that the program has, its site's share included
  double beyond = 0;    // |ln| from the measurement to the nearest between all that may well have run
};

struct DefaultsFit {
  std::array<std::vector<FittedDefault>, kGenerations> of_generation;
  struct OfNetwork {
    NetworkKind kind;
    bool before_hopper;
    std::vector<FittedDefault> values;
  };
  std::vector<OfNetwork> of_network;  // beside InfiniBand
  std::vector<HeldOutRow> held_out;
};

// `index`: of tables (scenarios/validation/README.md). Cost: minutes.
DefaultsFit fit_defaults(const std::string& index, const FitProgress&);

// The page that `paceline calibrate defaults` prints.
std::string defaults_page(const DefaultsFit&);
// What sim/collective/default_costs.cpp includes: fitted_costs.inc, fitted_network_costs.inc and fitted_spread.inc.
std::string generation_source(const DefaultsFit&);
std::string network_source(const DefaultsFit&);
std::string spread_source(const DefaultsFit&);

}  // namespace paceline
