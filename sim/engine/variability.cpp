#include "sim/engine/variability.h"

#include <algorithm>

namespace paceline {

Variability::Variability(const VariabilitySpec& spec, std::size_t ranks, std::uint64_t seed)
    : seed_(seed),
      first_(spec.first_iteration),
      per_operation_(spec.per_operation),
      per_iteration_(spec.per_iteration),
      per_step_(spec.per_step),
      transient_(spec.transient) {
  if (!spec.slow_gpus.empty()) {
    slow_.assign(ranks, 1.0);
  }
  for (std::uint32_t i = 0; i < spec.slow_gpus.size(); ++i) {
    const SlowGpus& slow = spec.slow_gpus[i];
    for (const std::int64_t rank : slow.ranks) {
      slow_[static_cast<std::size_t>(rank)] *= slow.factor;
    }
    for (std::size_t r = 0; slow.fraction && r < ranks; ++r) {
      if (uniform({seed_, Stream::slow_gpu, 0}, Rank(r), i) < *slow.fraction) {
        slow_[r] *= slow.factor;
      }
    }
  }
  for (const std::int64_t rank : spec.spared_gpus) {
    if (!slow_.empty()) {
      slow_[static_cast<std::size_t>(rank)] = 1.0;
    }
    if (!transient_.empty()) {
      spared_.resize(ranks);
      spared_[static_cast<std::size_t>(rank)] = true;
    }
  }
}

// Whether one of the last `length` iterations made it so.
bool Variability::ill(std::uint32_t transient, Rank rank, std::uint32_t iteration) const {
  const auto [probability, length, factor] = transient_[transient];
  const std::uint32_t oldest = iteration - std::min(iteration, static_cast<std::uint32_t>(length) - 1);
  for (std::uint32_t i = iteration + 1; i-- > oldest;) {
    if (uniform({seed_, Stream::transient, i}, rank, transient) < probability) {
      return true;
    }
  }
  return false;
}

double Variability::rank_factor(Rank rank, std::uint32_t of_run) const {
  const std::uint32_t iteration = first_ + of_run;
  double factor = slow_.empty() ? 1.0 : slow_[rank.index()];
  for (std::uint32_t i = 0; i < transient_.size(); ++i) {
    if ((spared_.empty() || !spared_[rank.index()]) && ill(i, rank, iteration)) {
      factor *= transient_[i].factor;
    }
  }
  factor *= per_step_.draw({seed_, Stream::per_step, iteration}, Rank(0), 0);
  return factor * per_iteration_.draw({seed_, Stream::per_iteration, iteration}, rank, 0);
}

bool ranks_differ(const VariabilitySpec& v) {
  return v.per_operation.kind != DistributionKind::none || v.per_iteration.kind != DistributionKind::none ||
         v.per_step.kind != DistributionKind::none || !v.slow_gpus.empty() || !v.transient.empty();
}

std::vector<bool> slowed_ranks(const VariabilitySpec& spec, std::size_t ranks, std::uint64_t seed,
                               int iterations) {
  VariabilitySpec slowness = spec;
  slowness.per_operation = slowness.per_iteration = slowness.per_step = {};
  const Variability variability(slowness, ranks, seed);
  std::vector<bool> slowed(ranks);
  const std::uint32_t last = spec.transient.empty() ? 1 : static_cast<std::uint32_t>(iterations);
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::uint32_t iteration = 1; iteration <= last && !slowed[r]; ++iteration) {
      slowed[r] = variability.rank_factor(Rank(r), iteration) > 1;
    }
  }
  return slowed;
}

double largest_factor(const VariabilitySpec& spec) {
  double factor = Sampler(spec.per_operation).largest() * Sampler(spec.per_iteration).largest() *
                  Sampler(spec.per_step).largest();
  for (const SlowGpus& slow : spec.slow_gpus) {
    factor *= std::max(1.0, slow.factor);
  }
  for (const TransientSlowdown& transient : spec.transient) {
    factor *= std::max(1.0, transient.factor);
  }
  return factor;
}

}  // namespace paceline
