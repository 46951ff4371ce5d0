// The arithmetic of the CUDA kernels, one element at a time, for host and device: so it is tested on the
// host too, where there is no GPU. Everything in fp32, whatever the storage.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define PACELINE_BOTH __host__ __device__
#else
#define PACELINE_BOTH
#endif

namespace paceline::cuda {

PACELINE_BOTH inline float add_relu(float a, float b) { return fmaxf(0.0f, a + b); }

// Count, mean and sum of squared deviations of a part of a row; parts combine in any order (Chan, Golub,
// LeVeque 1979).
struct Moments {
  float count = 0, mean = 0, squares = 0;
};

PACELINE_BOTH inline Moments combine(Moments a, Moments b) {
  const float count = a.count + b.count;
  if (count == 0) {
    return a;
  }
  const float delta = b.mean - a.mean;
  const float share = b.count / count;
  return {count, a.mean + delta * share, a.squares + b.squares + delta * delta * a.count * share};
}

template <int kCount>
PACELINE_BOTH inline Moments moments_of(const float (&x)[kCount]) {
  float sum = 0;
  for (int i = 0; i < kCount; ++i) {
    sum += x[i];
  }
  Moments moments{kCount, sum / kCount, 0};
  for (int i = 0; i < kCount; ++i) {
    moments.squares += (x[i] - moments.mean) * (x[i] - moments.mean);
  }
  return moments;
}

// Largest value of a part of a row, and the sum of exp(x - largest): the online softmax (Milakov and
// Gimelshein 2018).
struct ExpSum {
  float largest = -INFINITY, sum = 0;
};

PACELINE_BOTH inline ExpSum combine(ExpSum a, ExpSum b) {
  const float largest = fmaxf(a.largest, b.largest);
  const float of_a = a.sum == 0 ? 0 : a.sum * expf(a.largest - largest);
  const float of_b = b.sum == 0 ? 0 : b.sum * expf(b.largest - largest);
  return {largest, of_a + of_b};
}

template <int kCount>
PACELINE_BOTH inline ExpSum exp_sum_of(const float (&x)[kCount]) {
  ExpSum part{x[0], 0};
  for (int i = 1; i < kCount; ++i) {
    part.largest = fmaxf(part.largest, x[i]);
  }
  if (part.largest != -INFINITY) {
    for (int i = 0; i < kCount; ++i) {
      part.sum += expf(x[i] - part.largest);
    }
  }
  return part;
}

// Adam (Kingma and Ba 2015). The corrections are 1 / (1 - beta^step), made once on the host.
struct AdamStep {
  float rate = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  float correction1 = 1, correction2 = 1;
};

inline AdamStep adam_step(float rate, float beta1, float beta2, float epsilon, int step) {
  const auto correction = [step](float beta) {
    return static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta), step)));
  };
  return {rate, beta1, beta2, epsilon, correction(beta1), correction(beta2)};
}

PACELINE_BOTH inline void adam(const AdamStep& step, float gradient, float& parameter, float& first,
                               float& second) {
  first = step.beta1 * first + (1 - step.beta1) * gradient;
  second = step.beta2 * second + (1 - step.beta2) * gradient * gradient;
  const float root = sqrtf(second * step.correction2) + step.epsilon;
  parameter -= step.rate * (first * step.correction1) / root;
}

// 8 bits: one fp32 scale per block of values. q = x / scale, rounded to nearest even, in -127 .. 127. Scale 1
// where absmax / 127 is 0, so all q are 0 there. Values are finite.
PACELINE_BOTH inline float quantise_scale(float absmax) {
  const float scale = absmax / 127.0f;
  return scale > 0 ? scale : 1.0f;
}
PACELINE_BOTH inline std::int8_t quantise(float x, float scale) {
  return static_cast<std::int8_t>(fminf(fmaxf(rintf(x / scale), -127.0f), 127.0f));
}
PACELINE_BOTH inline float dequantise(std::int8_t q, float scale) { return static_cast<float>(q) * scale; }

// Top-k by magnitude: the bits of |x| order as integers. The radix select takes them in three digits, the
// highest first.
inline constexpr int kDigits = 3;
inline constexpr int kMostBins = 2048;

PACELINE_BOTH inline std::uint32_t magnitude_key(float x) {
  std::uint32_t bits = 0;
  memcpy(&bits, &x, sizeof bits);
  return bits & 0x7fffffffu;
}
PACELINE_BOTH constexpr int digit_shift(int digit) { return 20 - 10 * digit; }
PACELINE_BOTH constexpr int digit_bins(int digit) { return digit == 0 ? 2048 : 1024; }
PACELINE_BOTH inline std::uint32_t digit_of(std::uint32_t key, int digit) {
  return (key >> digit_shift(digit)) & static_cast<std::uint32_t>(digit_bins(digit) - 1);
}
// Whether all digits before `digit` are those of `threshold`.
PACELINE_BOTH inline bool same_prefix(std::uint32_t key, std::uint32_t threshold, int digit) {
  return digit == 0 || ((key ^ threshold) >> (digit_shift(digit) + 10)) == 0;
}
// Where a kept value goes, in index order: behind the larger ones and the kept equal ones before it.
PACELINE_BOTH inline std::uint32_t kept_before(std::uint32_t larger, std::uint32_t equal,
                                               std::uint32_t equal_kept) {
  return larger + (equal < equal_kept ? equal : equal_kept);
}

}  // namespace paceline::cuda
