// Kernels that work row by row.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/simd.h"
#include "kernels/cpu/loops.h"
#include "kernels/runnable.h"

namespace paceline::cpu {
namespace {

// Sums run in lanes so that they vectorise without reassociation by the compiler.
constexpr std::int64_t kLanes = 16;

template <class Term>
PACELINE_INLINE float lane_sum(std::int64_t n, Term term) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += term(i + lane);
    }
  }
  float sum = 0;
  for (; i < n; ++i) {
    sum += term(i);
  }
  for (const float lane : lanes) {
    sum += lane;
  }
  return sum;
}

PACELINE_INLINE float lane_max(std::int64_t n, const float* x) {
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, x[0]);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
    }
  }
  float largest = x[0];
  for (; i < n; ++i) {
    largest = x[i] > largest ? x[i] : largest;
  }
  for (const float lane : lanes) {
    largest = lane > largest ? lane : largest;
  }
  return largest;
}

// e^x for x <= 0, relative error below 2e-7: 2^round(x / ln 2) times a Taylor polynomial of the rest.
PACELINE_INLINE float exponential(float x) {
  constexpr float kLog2E = 1.44269504F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
  x = x < -87.0F ? -87.0F : x;
  const float shifted = x * kLog2E + kRound;
  const float power = shifted - kRound;
  const float rest = (x - power * kLn2High) - power * kLn2Low;
  float series = 1.0F / 720;
  series = series * rest + 1.0F / 120;
  series = series * rest + 1.0F / 24;
  series = series * rest + 1.0F / 6;
  series = series * rest + 0.5F;
  series = series * rest + 1;
  series = series * rest + 1;
  const auto exponent = static_cast<std::int32_t>(power) + 127;
  return series * std::bit_cast<float>(exponent << 23);
}

PACELINE_VECTORIZED void normalise_rows(std::int64_t begin, std::int64_t end, std::int64_t n,
                                        const float* __restrict all, const float* __restrict gamma,
                                        const float* __restrict beta, float* __restrict results) {
  const float inverse_n = 1.0F / static_cast<float>(n);
  for (std::int64_t row = begin; row < end; ++row) {
    const float* __restrict x = all + row * n;
    float* __restrict y = results + row * n;
    const float mean = lane_sum(n, [=](std::int64_t i) { return x[i]; }) * inverse_n;
    const float variance =
        lane_sum(n, [=](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); }) * inverse_n;
    const float inverse = 1 / std::sqrt(variance + kLayerNormEpsilon);
    for (std::int64_t i = 0; i < n; ++i) {
      y[i] = (x[i] - mean) * inverse * gamma[i] + beta[i];
    }
  }
}

PACELINE_VECTORIZED void softmax_rows(std::int64_t begin, std::int64_t end, std::int64_t n,
                                      const float* __restrict all, float* __restrict results) {
  for (std::int64_t row = begin; row < end; ++row) {
    const float* __restrict x = all + row * n;
    float* __restrict y = results + row * n;
    const float largest = lane_max(n, x);
    for (std::int64_t i = 0; i < n; ++i) {
      y[i] = exponential(x[i] - largest);
    }
    const float inverse = 1 / lane_sum(n, [=](std::int64_t i) { return y[i]; });
    for (std::int64_t i = 0; i < n; ++i) {
      y[i] *= inverse;
    }
  }
}

}  // namespace

void layer_norm(ThreadTeam& team, std::int64_t m, std::int64_t n, const float* x, const float* gamma,
                const float* beta, float* y) {
  team.split(m, 1,
             [=](std::int64_t begin, std::int64_t end) { normalise_rows(begin, end, n, x, gamma, beta, y); });
}

void softmax(ThreadTeam& team, std::int64_t m, std::int64_t n, const float* x, float* y) {
  team.split(m, 1, [=](std::int64_t begin, std::int64_t end) { softmax_rows(begin, end, n, x, y); });
}

}  // namespace paceline::cpu
