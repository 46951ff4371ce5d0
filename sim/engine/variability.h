// How much slower than undisturbed each kernel of each rank is, in each iteration.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"
#include "core/time.h"
#include "sim/training.h"

namespace paceline {

// A rank's kernels take duration * rank_factor * operation factor, rounded once.
inline SimTime disturbed(SimTime duration, double rank_factor, double operation_factor) {
  return {round_to_picoseconds(static_cast<double>(duration.ps) * rank_factor * operation_factor)};
}

class Variability {
 public:
  Variability(const VariabilitySpec&, std::size_t ranks, std::uint64_t seed);

  // Product of permanent slowness, transient slowdowns, per-iteration and per-step jitter. Costs one draw for each
  // iteration that a transient slowdown may have begun in.
  double rank_factor(Rank, std::uint32_t iteration) const;

  const Sampler& per_operation() const { return per_operation_; }
  DrawAddress operation_address(std::uint32_t iteration) const {
    return {seed_, Stream::per_operation, first_ + iteration};
  }

 private:
  bool ill(std::uint32_t transient, Rank, std::uint32_t iteration) const;

  std::uint64_t seed_;
  std::uint32_t first_;
  Sampler per_operation_, per_iteration_, per_step_;
  std::vector<double> slow_;  // by rank; empty: all 1
  std::vector<TransientSlowdown> transient_;
  std::vector<bool> spared_;  // by rank, from transient_; empty: none
};

// Whether any rank's kernels may take another time than the others'.
bool ranks_differ(const VariabilitySpec&);

// By rank: whether slow_gpus or transient slow it down in one of the steady iterations.
std::vector<bool> slowed_ranks(const VariabilitySpec&, std::size_t ranks, std::uint64_t seed, int iterations);

// An upper bound on rank_factor times operation factor.
double largest_factor(const VariabilitySpec&);

}  // namespace paceline
