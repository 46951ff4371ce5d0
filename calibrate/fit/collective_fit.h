// Collectives: from measurements to a profile, and from a profile to predictions with a 90 % interval.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/measurement.h"
#include "scenarios/collective_options.h"
#include "scenarios/collective_table.h"
#include "scenarios/profile.h"
#include "scenarios/scenario.h"

namespace paceline {

inline constexpr double kNinety = 1.645;  // standard deviations to either end of an interval of 90 %

// How far a fit has come: `done` of `all` in this part of it.
using FitProgress = std::function<void(const std::string& part, std::size_t done, std::size_t all)>;

struct FitRequest {
  std::string cluster_name;
  ClusterSpec cluster;               // its node and fabric; rows say how many nodes and GPUs took part
  CollectiveSpec collective;         // what holds for all rows that don't say otherwise
  bool nccl_stated = false;          // collective.nccl is known, not a default, where a row doesn't say
  int nodes = 0, gpus_per_node = 0;  // of rows that don't say; 0: not known
  FitProgress progress = {};         // may be empty
  int threads = 1;                   // that simulate
};

// What became of a row, and how well the fit has it.
enum class RowUse : std::uint8_t { fitted, warm_up, outlier, elsewhere };
struct FittedRow {
  std::size_t row = 0;  // in MeasuredData::collectives
  RowUse use = RowUse::fitted;
  double log_ratio = 0;  // ln(measured / simulated with the fitted parameters)
  std::string note;      // for what is not fitted: why
};

struct CollectiveFit {
  Profile profile;
  std::vector<FittedRow> rows;
  double tuner_error = 0, fastest_error = 0;  // mean |log_ratio| with each AlgorithmChoice; 0: not tried
};

// Warm-up rows (the first of a table, slower than the next) and outliers (far from both neighbours of their
// table) are named and left out, by rules fixed beforehand. Throws InputError when nothing is left to fit.
CollectiveFit fit_collectives(const FitRequest&, const MeasuredData&);

// A profile that says what it comes from, and nothing else yet.
Profile empty_profile(const std::string& cluster_name, const MeasuredData&);

// Fitted values that no machine of the kind should have, a line each: `calibrate diagnose` may know why.
std::vector<std::string> implausible(const Profile&);

// The page that `paceline calibrate fit` prints.
std::string fit_table(const CollectiveFit&, const MeasuredData&);

// What of a profile holds on this cluster: all of it on the machine that it was fitted to. On another, if it may be
// used there at all (Profile::any_machine), the costs of the hardware without what measurements add, and without those
// of launches, which belong to a site. Throws InputError with both machines.
Profile for_machine(const Profile&, const ClusterSpec&);

// All of the profile's parameters, whatever they are fitted to, and, where it has points, its library, choice and
// NCCL; with nccl_stated, or where the spec has another than the default, the spec's NCCL. Throws InputError where
// another library is asked for than the profile's (any but NCCL, the default).
CollectiveSpec with_costs(CollectiveSpec, const Profile&, bool nccl_stated = false);
// All gradients at once.
Bytes largest_collective(const Scenario&);

// The profile's costs and corrections for the collectives of training, as predict_collectives has them, and its NCCL
// unless the scenario's is another than PyTorch's; its rates and delays where the scenario says none. Throws InputError
// as for_machine and with_costs do, where its throughputs are of another model or precision or its kernels of another
// GPU, and where the scenario says other costs or corrections than it.
Scenario with_profile(const Scenario&, const Profile&);

struct CollectivePrediction {
  CollectiveTestResult result;
  std::vector<CollectiveInterval> intervals;  // one for each row
};
// With the costs that the profile has of such collectives: what runs between peers and all else are known apart. Small
// sizes that were not measured are the defaults' in part (docs/model.md).
CollectivePrediction predict_collectives(const CollectiveTest&, const Profile&);
// `paceline collective`. Throws InputError as collective_test and for_machine do.
CollectivePrediction predict_collectives(const CollectiveOptions&, const Profile&);

}  // namespace paceline
