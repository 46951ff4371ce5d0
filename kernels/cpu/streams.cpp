// Kernels that walk once over their arrays: memory bounds them.
#include <cmath>
#include <cstring>

#include "core/simd.h"
#include "kernels/cpu/loops.h"
#include "kernels/runnable.h"

namespace paceline::cpu {
namespace {

constexpr std::int64_t kGrain = 1024;  // elements; parts begin on whole cache lines

PACELINE_VECTORIZED void add_and_clip(std::int64_t begin, std::int64_t end, const float* __restrict a,
                                      const float* __restrict b, float* __restrict y) {
  for (std::int64_t i = begin; i < end; ++i) {
    const float sum = a[i] + b[i];
    y[i] = sum > 0 ? sum : 0.0F;
  }
}

PACELINE_VECTORIZED void scale_part(std::int64_t begin, std::int64_t end, const float* __restrict x,
                                    float* __restrict y) {
  for (std::int64_t i = begin; i < end; ++i) {
    y[i] = kScale * x[i];
  }
}

PACELINE_VECTORIZED void adam_part(std::int64_t begin, std::int64_t end, float correction1, float correction2,
                                   const float* __restrict gradient, float* __restrict parameter,
                                   float* __restrict first, float* __restrict second) {
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = gradient[i];
    const float m = kAdamBeta1 * first[i] + (1 - kAdamBeta1) * g;
    const float v = kAdamBeta2 * second[i] + (1 - kAdamBeta2) * g * g;
    parameter[i] -= kAdamRate * (m * correction1) / (std::sqrt(v * correction2) + kAdamEpsilon);
    first[i] = m;
    second[i] = v;
  }
}

}  // namespace

void elementwise(ThreadTeam& team, std::int64_t m, const float* a, const float* b, float* y) {
  team.split(m, kGrain, [=](std::int64_t begin, std::int64_t end) { add_and_clip(begin, end, a, b, y); });
}

void copy_scale(ThreadTeam& team, std::int64_t m, const float* x, float* y) {
  team.split(m, kGrain, [=](std::int64_t begin, std::int64_t end) { scale_part(begin, end, x, y); });
}

void copy(ThreadTeam& team, std::int64_t m, const float* x, float* y) {
  team.split(m, kGrain, [=](std::int64_t begin, std::int64_t end) {
    std::memcpy(y + begin, x + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
  });
}

void adam(ThreadTeam& team, std::int64_t m, const float* gradient, float* parameter, float* first,
          float* second) {
  const auto correction = [](float beta) {
    return static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta), kAdamStep)));
  };
  const float correction1 = correction(kAdamBeta1), correction2 = correction(kAdamBeta2);
  team.split(m, kGrain, [=](std::int64_t begin, std::int64_t end) {
    adam_part(begin, end, correction1, correction2, gradient, parameter, first, second);
  });
}

}  // namespace paceline::cpu
