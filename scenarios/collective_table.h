// What nccl-tests would print on a cluster that the user does not have.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/collective/tuner.h"
#include "sim/report/collective_cost.h"
#include "sim/training.h"
#include "topology/cluster_spec.h"

namespace paceline {

struct CollectiveTest {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::string cluster_name;
  ClusterSpec cluster;
  CollectiveSpec collective;
  Bytes first{8}, last{std::int64_t{16} << 30};  // sizes, as -b and -e of nccl-tests
  std::int64_t factor = 2;                       // -f; 0: by `increment`
  Bytes increment{1 << 20};                      // -i
  std::vector<Bytes> sizes;                      // not empty: these, rounded down to what ranks can share
  bool explain = false, all = false;             // all: every algorithm and protocol beside the choice
  bool nccl_stated = false;                      // collective.nccl is what runs, not just the newest
};

struct CollectiveTestResult {
  CollectiveTest test;
  std::size_t ranks = 1;
  std::vector<CollectiveCost> rows;
};

// What could run in place of the choice.
struct OtherChoice {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  Seconds time;
  double beside_choice = 1;  // its time over that of the choice, as NCCL's tuner has them
  std::string chosen_by;     // whose tuner takes it, if not that of the NCCL that is predicted: "NCCL 2.18"
  bool likely = false;       // may well be what runs: the interval holds it
};

// How far a row's time may be off (calibrate/fit).
struct CollectiveInterval {
  Seconds low, high;          // 90 %
  bool extrapolated = false;  // outside what the profile was fitted on
  std::string why;            // how so
  std::vector<OtherChoice> others;
};

// Throws InputError for sizes that make no table and for a cluster that can't be.
CollectiveTestResult run_collective_test(const CollectiveTest&);

// The columns of nccl-tests (2.13 and later), the plan behind them, the interval of each row and what may run in place
// of its choice; below, if the test asks for all, what each algorithm and protocol would take.
std::string nccl_tests_table(const CollectiveTestResult&, std::span<const CollectiveInterval> = {});
// The keys of nccl-tests -J, and the same with each result.
std::string nccl_tests_json(const CollectiveTestResult&, std::span<const CollectiveInterval> = {});

// "all_reduce", "alltoall" ...: as nccl-tests' programs are called; throws InputError with the known names.
CollectiveKind collective_named(const std::string&);
// "nccl", "mpi", "gloo" or "tensorflow"; throws InputError.
CollectiveLibrary collective_library_named(const std::string&);
// "8", "64K", "16G": powers of 1024, as nccl-tests reads them.
Bytes test_size(const std::string& text, const char* option);

// busbw = algbw * factor.
double bus_factor(CollectiveKind, std::size_t ranks);

}  // namespace paceline
