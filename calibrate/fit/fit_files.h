// From files of measurements to a profile: all of what `paceline calibrate fit` does but writing it.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "core/names.h"
#include "scenarios/profile.h"

namespace paceline {

// What is known of when gradients are reduced.
enum class Overlap : std::uint8_t {
  as_stated,  // the scenario's reduction
  unknown,    // that, or everything after backward
};
template <>
inline constexpr auto kNames<Overlap> =
    names<Overlap>({{"stated", Overlap::as_stated}, {"unknown", Overlap::unknown}});

struct FitFiles {
  std::vector<std::string> files;  // files or folders, as import_files reads them
  std::string cluster;             // what was measured: as load_cluster reads it
  std::string library = "nccl";    // or "mpi", "gloo"
  std::string overlap = "stated";  // or "unknown"
  // Of rows that don't say.
  std::optional<std::string> nccl = {}, nodes = {}, gpus_per_node = {};
  std::string algorithm{}, protocol{};  // NCCL_ALGO and NCCL_PROTO, likewise
  std::string settings{};               // JSON: keys of training.collective, likewise; empty: none
  // A file: whose throughput rows, and on whose GPU the kernels are.
  std::optional<std::string> scenario = {};
  FitProgress progress = {};  // may be empty
};

// What is known of all rows. Throws InputError with the command line's names.
FitRequest request_of(const FitFiles&);

// Collectives, kernels and training, whichever the files hold. What was found goes to `page` as soon as it is
// known. Throws InputError with the files' or the command line's names (--nccl, --scenario ...). Cost: 0.01
// to 1 s for what people measure; some 10 ms for each further number of GPUs.
Profile fit_files(const FitFiles&, std::ostream& page);

}  // namespace paceline
