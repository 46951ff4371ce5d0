// Kernels that make gradients smaller.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "core/simd.h"
#include "kernels/cpu/loops.h"

namespace paceline::cpu {
namespace {

constexpr float kSteps = 127;

PACELINE_VECTORIZED void quantise_blocks(std::int64_t begin, std::int64_t end, std::int64_t m, std::int64_t n,
                                         const float* __restrict x, std::int8_t* __restrict q,
                                         float* __restrict scale) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to the nearest whole number
  for (std::int64_t block = begin; block < end; ++block) {
    const std::int64_t first = block * n, last = std::min(m, first + n);
    std::uint32_t largest_bits = 0;  // magnitudes are ordered as their bits are, and whole numbers vectorise
    for (std::int64_t i = first; i < last; ++i) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFU;
      largest_bits = bits > largest_bits ? bits : largest_bits;
    }
    const float largest = std::bit_cast<float>(largest_bits);
    const float step = largest > 0 ? largest / kSteps : 1.0F;
    const float inverse = 1 / step;
    scale[block] = step;
    for (std::int64_t i = first; i < last; ++i) {
      q[i] = static_cast<std::int8_t>(static_cast<std::int32_t>((x[i] * inverse + kRound) - kRound));
    }
  }
}

PACELINE_VECTORIZED void dequantise_blocks(std::int64_t begin, std::int64_t end, std::int64_t m,
                                           std::int64_t n, const std::int8_t* __restrict q,
                                           const float* __restrict scale, float* __restrict y) {
  for (std::int64_t block = begin; block < end; ++block) {
    const std::int64_t first = block * n, last = std::min(m, first + n);
    const float step = scale[block];
    for (std::int64_t i = first; i < last; ++i) {
      y[i] = static_cast<float>(q[i]) * step;
    }
  }
}

// Magnitudes by exponent and the three highest bits of the fraction.
constexpr int kBinShift = 20;
constexpr std::size_t kBins = 2048;
using Histogram = std::array<std::int64_t, kBins>;

std::size_t bin_of(float x) { return (std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU) >> kBinShift; }

struct Candidate {
  float value;
  std::int32_t index;
};

struct Selected {
  std::vector<Candidate> above, in_bin;
};

// The bin in which the k-th largest magnitude lies.
std::size_t threshold_bin(const std::vector<Histogram>& parts, std::int64_t k) {
  std::int64_t above = 0;
  for (std::size_t bin = kBins; bin-- > 0;) {
    for (const Histogram& part : parts) {
      above += part[bin];
    }
    if (above >= k) {
      return bin;
    }
  }
  return 0;
}

void select(const float* x, std::int64_t begin, std::int64_t end, std::size_t bin, Selected& selected) {
  for (std::int64_t i = begin; i < end; ++i) {
    if (const std::size_t own = bin_of(x[i]); own >= bin) {
      (own > bin ? selected.above : selected.in_bin).push_back({x[i], static_cast<std::int32_t>(i)});
    }
  }
}

}  // namespace

void quantise(ThreadTeam& team, std::int64_t m, std::int64_t n, const float* x, std::int8_t* q,
              float* scale) {
  team.split((m + n - 1) / n, 1,
             [=](std::int64_t begin, std::int64_t end) { quantise_blocks(begin, end, m, n, x, q, scale); });
}

void dequantise(ThreadTeam& team, std::int64_t m, std::int64_t n, const std::int8_t* q, const float* scale,
                float* y) {
  team.split((m + n - 1) / n, 1,
             [=](std::int64_t begin, std::int64_t end) { dequantise_blocks(begin, end, m, n, q, scale, y); });
}

void top_k(ThreadTeam& team, std::int64_t m, std::int64_t k, const float* x, float* value,
           std::int32_t* index) {
  const int members = team.size();
  const auto boundary = [=](int member) { return m * member / members; };
  std::vector<Histogram> histograms(members, Histogram{});
  team.run([&](int member) {
    Histogram own{};
    for (std::int64_t i = boundary(member); i < boundary(member + 1); ++i) {
      ++own[bin_of(x[i])];
    }
    histograms[member] = own;
  });
  const std::size_t bin = threshold_bin(histograms, k);
  std::vector<Selected> selected(members);
  team.run([&](int member) { select(x, boundary(member), boundary(member + 1), bin, selected[member]); });

  std::vector<Candidate> chosen, in_bin;
  for (const Selected& part : selected) {
    chosen.insert(chosen.end(), part.above.begin(), part.above.end());
    in_bin.insert(in_bin.end(), part.in_bin.begin(), part.in_bin.end());
  }
  const std::int64_t missing = k - static_cast<std::int64_t>(chosen.size());
  std::nth_element(
      in_bin.begin(), in_bin.begin() + (missing - 1), in_bin.end(),
      [](const Candidate& a, const Candidate& b) { return std::abs(a.value) > std::abs(b.value); });
  chosen.insert(chosen.end(), in_bin.begin(), in_bin.begin() + missing);
  for (std::int64_t i = 0; i < k; ++i) {
    value[i] = chosen[i].value;
    index[i] = chosen[i].index;
  }
}

}  // namespace paceline::cpu
