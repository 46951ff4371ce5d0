// The default costs as a table (fitted by `paceline calibrate defaults`, calibrate/validate/defaults.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/names.h"
#include "sim/collective/spec.h"
#include "topology/cluster_spec.h"

namespace paceline {

enum class Generation : std::uint8_t { volta, ampere, hopper, blackwell };  // volta: and older
template <>
inline constexpr auto kNames<Generation> = names<Generation>({{"Volta", Generation::volta},
                                                              {"Ampere", Generation::ampere},
                                                              {"Hopper", Generation::hopper},
                                                              {"Blackwell", Generation::blackwell}});
inline constexpr int kGenerations = kNames<Generation>.size();
int generation(int compute_capability);  // as a number
// Whose machines have another EFA and Slingshot; what sockets cost is the hosts'.
bool before_hopper(NetworkKind, int generation);

// deviation: standard, of ln(value), between sites; sites: that determine it, 0: the starting point.
struct DefaultCost {
  const char* name;
  int generation;
  double value, deviation;
  int sites;
};
struct DefaultNetworkCost {
  NetworkKind kind;
  bool before_hopper;
  const char* name;
  double value, deviation;
  int sites;
};
// What a collective's GPUs reach each other over, as far as it says how well predictions do. pcie: one node without
// NVLink; plugins: EFA, TCPX and TCPXO; machines with Slingshot or TCP sockets are erratic.
enum class Reach : std::uint8_t { one_node, pcie, verbs, plugins, slingshot, sockets };
template <>
inline constexpr auto kNames<Reach> = names<Reach>({{"one_node", Reach::one_node},
                                                    {"pcie", Reach::pcie},
                                                    {"verbs", Reach::verbs},
                                                    {"plugins", Reach::plugins},
                                                    {"slingshot", Reach::slingshot},
                                                    {"sockets", Reach::sockets}});
Reach reach_of(int nodes, const NodeSpec&);

// How far predictions with the defaults are off at sites that had no part in them: 90 % of |ln(time)|, of rows from
// so many bytes on.
struct DefaultSpread {
  Reach reach;
  std::int64_t from_bytes;
  double of_ninety;
  int sites;
};
double default_spread(Reach, Bytes);

std::span<const DefaultCost> fitted_costs();
std::span<const DefaultNetworkCost> fitted_network_costs();

// Where the fit begins, and what its priors are around.
std::vector<CostParameter> starting_costs();
std::vector<CostParameter> starting_network_costs(NetworkKind, bool before_hopper);

}  // namespace paceline
