// Addressed random numbers: a draw is a function of (seed, stream, iteration, rank, operation), so that
// engines, threads and the order of evaluation can't change it.
//
// Generator: Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011). One block of four words serves the operations
// 4g .. 4g+3 of a rank. All distributions are our own: std::'s differ between libraries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/id.h"
#include "core/names.h"

namespace paceline {

using PhiloxBlock = std::array<std::uint32_t, 4>;
PhiloxBlock philox4x32(PhiloxBlock counter, std::array<std::uint32_t, 2> key);

// What a draw is for; draws of different streams are independent.
enum class Stream : std::uint32_t {
  per_operation,
  per_iteration,
  slow_gpu,
  transient,
  input,
  attempt,
  per_step,
  failure,
  campaign_step
};

struct DrawAddress {
  std::uint64_t seed = 0;
  Stream stream = Stream::per_operation;
  std::uint32_t iteration = 0;
};

// Uniform in (0, 1), a multiple of 2^-32 plus 2^-33.
double uniform(const DrawAddress&, Rank, std::uint32_t operation);

// Uniform in (0, 1), a multiple of 2^-53 plus 2^-54: for times that are rare among very many.
double fine_uniform(const DrawAddress&, Rank, std::uint32_t operation);
// Those of ranks 0 .. out.size() - 1, the same bits.
void fine_uniforms(const DrawAddress&, std::uint32_t operation, std::span<double> out);

enum class DistributionKind : std::uint8_t { none, normal, lognormal, gamma, exponential, empirical };
template <>
inline constexpr auto kNames<DistributionKind> =
    names<DistributionKind>({{"none", DistributionKind::none},
                             {"normal", DistributionKind::normal},
                             {"lognormal", DistributionKind::lognormal},
                             {"gamma", DistributionKind::gamma},
                             {"exponential", DistributionKind::exponential},
                             {"empirical", DistributionKind::empirical}});

// A factor with mean 1. Requires: 0 <= cv <= 3; below 1e-9 it is taken as 0. cv is the coefficient of
// variation (standard deviation over mean). normal: 1 + cv * z, cut at 0. lognormal: exp(s z - s^2/2), s^2 =
// ln(1 + cv^2). gamma: shape 1/cv^2. exponential: 1 - cv + cv * x, x exponential with mean 1 (a least time
// and memoryless delays; cv <= 1). empirical: one of `values`, each divided by their mean.
struct Distribution {
  DistributionKind kind = DistributionKind::none;
  double cv = 0;
  std::vector<double> values;
};

// A Distribution made ready to draw from.
class Sampler {
 public:
  explicit Sampler(const Distribution&);

  bool constant() const { return kind_ == DistributionKind::none; }
  double draw(const DrawAddress&, Rank, std::uint32_t operation) const;

  // The factors of operations 4 * group .. 4 * group + 3 for ranks first .. first + count - 1:
  // out[lane * stride + i] is operation 4 * group + lane of rank first + i. The same bits as draw().
  // Requires: count <= stride, stride <= kMostRanks.
  static constexpr std::size_t kMostRanks = 512;
  void draw_group(const DrawAddress&, Rank first, std::size_t count, std::uint32_t group, double* out,
                  std::size_t stride) const;

  // No draw exceeds it (for gamma: but for one draw in 10^20). For bounds on a run's length.
  double largest() const;

 private:
  double gamma_draw(const DrawAddress&, Rank, std::uint32_t operation) const;

  DistributionKind kind_;
  double cv_ = 0, scale_ = 0, shift_ = 0;  // lognormal: sigma and -sigma^2/2; gamma: the shape 1/cv^2 alone
  std::vector<double> values_;
};

}  // namespace paceline
