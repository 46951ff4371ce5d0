// The options of `paceline collective`, as text: on the command line, and from Python.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scenarios/collective_table.h"
#include "scenarios/profile.h"
#include "scenarios/scenario.h"
#include "sim/collective/nccl_words.h"

namespace paceline {

inline const ChoicePlaces kChoiceOptions{"--nccl", "--algo", "--proto"};

struct CollectiveOptions {
  std::string kind, cluster;
  std::string first = "8", last = "16G", factor = "2";  // -b, -e, -f
  std::vector<std::string> sizes;                       // not empty: these instead
  std::optional<std::string> increment;                 // -i
  std::optional<std::string> nodes, gpus_per_node, nccl;
  std::string algorithm, protocol;
  std::optional<std::string> library;  // left out: the profile's, or NCCL
  std::optional<std::string> gpus_per_process;
  std::string settings;  // JSON: keys of training.collective; empty: none
  bool explain = false, all = false;
};

// Throw InputError that names the option, the second also where the profile is of another library than is asked for.
ClusterInUse cluster_of(const CollectiveOptions&);
// On that cluster, as a scenario that names it runs its collectives, but for what the options say. Where nothing states
// NCCL's version it is the profile's, or the newest.
CollectiveTest collective_test(const CollectiveOptions&, const ClusterInUse&, const Profile&);

// What NCCL was told for measurements (`settings` as in CollectiveOptions). Throws InputError where it is of costs, which
// measurements are to tell, or of another library.
void set_as_told(const std::string& settings, CollectiveSpec&);

}  // namespace paceline
