// A validation set: what is fitted, what is predicted, what was measured and where that is published, and
// how far off a prediction may be (scenarios/validation/README.md has the format).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/measurement.h"
#include "core/names.h"
#include "sim/training.h"
#include "topology/cluster_spec.h"

namespace paceline {

enum class SetKind : std::uint8_t { collective, training, steps };
template <>
inline constexpr auto kNames<SetKind> = names<SetKind>(
    {{"collective", SetKind::collective}, {"training", SetKind::training}, {"steps", SetKind::steps}});
enum class RowChoice : std::uint8_t { all, odd, even };  // odd: the first, third ...
template <>
inline constexpr auto kNames<RowChoice> =
    names<RowChoice>({{"all", RowChoice::all}, {"odd", RowChoice::odd}, {"even", RowChoice::even}});

// What is compared with a tolerance. Errors are exp(mean |ln(predicted / measured)|) - 1; `worst` that of one
// row; to_interpolation: the mean error in units of what log-log interpolation of the fitted rows has;
// bias: the mean with its sign; log_log: the error of a straight line of ln(throughput) over ln(GPUs) through the
// fitted rows; perfect_scaling: the error of the throughput of the smallest fitted row times the GPUs, and
// to_perfect_scaling: the mean error in units of that.
enum class Figure : std::uint8_t {
  mean,
  bias,
  perfect_scaling,
  log_log,
  below_1mib,
  from_1mib,
  from_16mib,
  from_256mib,
  worst,
  to_interpolation,
  to_perfect_scaling,
};
template <>
inline constexpr auto kNames<Figure> = names<Figure>({{"mean", Figure::mean},
                                                      {"bias", Figure::bias},
                                                      {"perfect_scaling", Figure::perfect_scaling},
                                                      {"log_log", Figure::log_log},
                                                      {"below_1MiB", Figure::below_1mib},
                                                      {"from_1MiB", Figure::from_1mib},
                                                      {"from_16MiB", Figure::from_16mib},
                                                      {"from_256MiB", Figure::from_256mib},
                                                      {"worst", Figure::worst},
                                                      {"to_interpolation", Figure::to_interpolation},
                                                      {"to_perfect_scaling", Figure::to_perfect_scaling}});
using Tolerance = std::array<std::optional<double>, kNames<Figure>.size()>;

// A miss that is known: the check fails where it grows, and where it has gone.
struct KnownGap {
  std::string case_name;  // empty: of the whole set
  Figure which = Figure::mean;
  double measured = 0;
  std::string why;
};

// Measured collectives of one machine: a row of an index, or an entry of "fit" or "test" that names a file.
struct CollectiveTable {
  std::string name, file;
  std::string cluster_name;
  ClusterSpec cluster;  // with the nodes and GPUs that took part
  CollectiveKind kind = CollectiveKind::all_reduce;
  CollectiveSpec spec;
  bool nccl_stated = false;
  std::string source;
  std::string site;  // whose machine: tables of one site are not independent
  bool doubtful = false;
  bool fitted = true;  // false: counts, but no cost is fitted to it, as by its times another algorithm ran
};

struct ChosenRows {
  CollectiveTable table;
  RowChoice rows = RowChoice::all;
};

// What is fitted, and what is predicted with that; nothing: with the defaults.
struct Fold {
  std::vector<ChosenRows> fit, test;
};

struct CollectiveCase {
  std::string name;
  std::vector<Fold> folds;
  std::string excluded;  // why its rows don't count; they are published all the same
};

// A scenario, and a CSV whose column "use" says which rows are fitted and which are predicted.
struct TrainingCase {
  std::string name, scenario, data;
  bool reduction_known = false;  // else the scenario's, if it names one
  std::string excluded, source;  // source: where no row of the data says it
};

// Steps that a framework ran (`paceline calibrate replay`): a scenario, and the measured step. What is fitted,
// all cases share.
struct StepCase {
  std::string name, scenario, data, source;
  std::vector<ChosenRows> fit;
  std::string excluded;
};

struct ValidationSet {
  std::string file, description, source;
  SetKind kind = SetKind::collective;
  std::vector<CollectiveCase> collective;  // one of the three
  std::vector<TrainingCase> training;
  std::vector<StepCase> steps;
  Tolerance tolerance;  // of the set: each case weighs the same
  Tolerance of_each;    // of each case
  std::vector<KnownGap> known_gaps;
};

// All tables of an index, in its order. Throws InputError likewise.
std::vector<CollectiveTable> load_tables(const std::string& index);
// The rows of a table, each with what the table says of all.
MeasuredData read_table(const CollectiveTable&);

// Throws InputError with file, place and cure.
ValidationSet load_validation_set(const std::string& path);

// The files that these names stand for: a folder for its *.json, in order. Throws InputError where there is
// none.
std::vector<std::string> validation_files(const std::string& path);

}  // namespace paceline
