#include "core/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/portable_math.h"

namespace paceline {
namespace {

constexpr std::uint32_t kPhiloxM0 = 0xD2511F53U, kPhiloxM1 = 0xCD9E8D57U;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9U, kWeyl1 = 0xBB67AE85U;
constexpr int kRounds = 10;
constexpr double kTwoToMinus32 = 1.0 / 4294967296.0;

// All in 32-bit words: the compiler vectorises the high half of a product of words as such.
PACELINE_INLINE PhiloxBlock philox_words(const PhiloxBlock& counter, std::uint32_t k0, std::uint32_t k1) {
  std::uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  for (int round = 0; round < kRounds; ++round) {
    const auto high0 = static_cast<std::uint32_t>((std::uint64_t{c0} * kPhiloxM0) >> 32);
    const auto high1 = static_cast<std::uint32_t>((std::uint64_t{c2} * kPhiloxM1) >> 32);
    const std::uint32_t low0 = c0 * kPhiloxM0, low1 = c2 * kPhiloxM1;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {c0, c1, c2, c3};
}

PACELINE_INLINE double open_unit(std::uint64_t word) { return (word_to_double(word) + 0.5) * kTwoToMinus32; }

struct NormalPair {
  double first, second;
};

// Box and Muller (1958): two independent standard normals from two words.
PACELINE_INLINE NormalPair normal_pair(std::uint64_t radius_word, std::uint64_t angle_word) {
  const double radius = std::sqrt(-2.0 * portable_log(open_unit(radius_word)));
  const SineCosine angle = portable_sincos_turn(angle_word);
  return {radius * angle.cosine, radius * angle.sine};
}

PACELINE_INLINE double lognormal_factor(double z, double sigma, double shift) {
  return portable_exp(sigma * z + shift);
}

PACELINE_INLINE double normal_factor(double z, double cv) {
  const double factor = 1.0 + cv * z;
  return factor > 0 ? factor : 0;
}

struct BlockAddress {
  std::uint32_t first_rank, group, iteration, stream, key0, key1;
};

using WordLanes = std::array<std::uint32_t, Sampler::kMostRanks>;

PACELINE_VECTORIZED void draw_words(const BlockAddress at, std::size_t count, std::uint32_t* __restrict w0,
                                    std::uint32_t* __restrict w1, std::uint32_t* __restrict w2,
                                    std::uint32_t* __restrict w3) {
  for (std::size_t i = 0; i < count; ++i) {
    const PhiloxBlock w = philox_words(
        {at.first_rank + static_cast<std::uint32_t>(i), at.group, at.iteration, at.stream}, at.key0, at.key1);
    w0[i] = w[0];
    w1[i] = w[1];
    w2[i] = w[2];
    w3[i] = w[3];
  }
}

PACELINE_VECTORIZED void draw_normals(const WordLanes& radius, const WordLanes& angle, std::size_t count,
                                      double* __restrict first, double* __restrict second) {
  for (std::size_t i = 0; i < count; ++i) {
    const NormalPair pair = normal_pair(radius[i], angle[i]);
    first[i] = pair.first;
    second[i] = pair.second;
  }
}

PACELINE_VECTORIZED void to_lognormal(double* out, std::size_t count, double sigma, double shift) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = lognormal_factor(out[i], sigma, shift);
  }
}

PACELINE_VECTORIZED void to_normal(double* out, std::size_t count, double cv) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = normal_factor(out[i], cv);
  }
}

std::array<std::uint32_t, 2> key_of(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
}

PhiloxBlock block_at(const DrawAddress& at, Rank rank, std::uint32_t group) {
  return philox4x32({rank.value, group, at.iteration, static_cast<std::uint32_t>(at.stream)},
                    key_of(at.seed));
}

double standard_normal(const PhiloxBlock& block, std::uint32_t lane) {
  const NormalPair pair = lane < 2 ? normal_pair(block[0], block[1]) : normal_pair(block[2], block[3]);
  return lane % 2 == 0 ? pair.first : pair.second;
}

}  // namespace

PhiloxBlock philox4x32(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  return philox_words(counter, key[0], key[1]);
}

double uniform(const DrawAddress& at, Rank rank, std::uint32_t operation) {
  return open_unit(block_at(at, rank, operation / 4)[operation % 4]);
}

namespace {

double fine_unit(std::uint32_t high, std::uint32_t low) {
  constexpr double kTwoToMinus53 = 1.0 / 9007199254740992.0;
  const std::uint64_t word = (std::uint64_t{high} << 32 | low) >> 11;
  // At most 1 - 2^-53: half a unit more is no double there, and a logarithm of 1 would be a time of 0.
  return std::min((static_cast<double>(word) + 0.5) * kTwoToMinus53, 1 - kTwoToMinus53);
}

}  // namespace

double fine_uniform(const DrawAddress& at, Rank rank, std::uint32_t operation) {
  const PhiloxBlock block = block_at(at, rank, operation);
  return fine_unit(block[0], block[1]);
}

void fine_uniforms(const DrawAddress& at, std::uint32_t operation, std::span<double> out) {
  const auto key = key_of(at.seed);
  std::array<WordLanes, 4> words;
  for (std::size_t first = 0; first < out.size(); first += words[0].size()) {
    const std::size_t count = std::min(out.size() - first, words[0].size());
    draw_words({static_cast<std::uint32_t>(first), operation, at.iteration,
                static_cast<std::uint32_t>(at.stream), key[0], key[1]},
               count, words[0].data(), words[1].data(), words[2].data(), words[3].data());
    for (std::size_t i = 0; i < count; ++i) {
      out[first + i] = fine_unit(words[0][i], words[1][i]);
    }
  }
}

Sampler::Sampler(const Distribution& d) : kind_(d.kind), cv_(d.cv), values_(d.values) {
  constexpr double kSmallestCv = 1e-9;  // below it a factor is 1 to the last picosecond that matters
  if (kind_ != DistributionKind::empirical && cv_ < kSmallestCv) {
    kind_ = DistributionKind::none;
  }
  if (kind_ == DistributionKind::lognormal) {
    const double variance = portable_log(1 + cv_ * cv_);
    scale_ = std::sqrt(variance);
    shift_ = -variance / 2;
  } else if (kind_ == DistributionKind::gamma) {
    scale_ = 1 / (cv_ * cv_);
  } else if (kind_ == DistributionKind::empirical) {
    const double mean =
        std::accumulate(values_.begin(), values_.end(), 0.0) / static_cast<double>(values_.size());
    for (double& v : values_) {
      v /= mean;
    }
  }
}

double Sampler::draw(const DrawAddress& at, Rank rank, std::uint32_t operation) const {
  switch (kind_) {
    case DistributionKind::none:
      return 1;
    case DistributionKind::normal:
      return normal_factor(standard_normal(block_at(at, rank, operation / 4), operation % 4), cv_);
    case DistributionKind::lognormal:
      return lognormal_factor(standard_normal(block_at(at, rank, operation / 4), operation % 4), scale_,
                              shift_);
    case DistributionKind::gamma:
      return gamma_draw(at, rank, operation);
    case DistributionKind::exponential:
      return 1 - cv_ - cv_ * portable_log(uniform(at, rank, operation));
    case DistributionKind::empirical: {
      const std::uint64_t word = block_at(at, rank, operation / 4)[operation % 4];
      return values_[(word * values_.size()) >> 32];
    }
  }
  return 1;
}

// Marsaglia and Tsang (2000), with its boost for a shape below 1. Attempt a of an operation is addressed by
// stream attempt and group 64 * operation + a; the method accepts with probability above 0.95 each time.
double Sampler::gamma_draw(const DrawAddress& at, Rank rank, std::uint32_t operation) const {
  constexpr std::uint32_t kMostAttempts = 64;
  const double shape = scale_, boosted = shape < 1 ? shape + 1 : shape;
  const double d = boosted - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  const auto stream =
      static_cast<std::uint32_t>(at.stream) << 8 | static_cast<std::uint32_t>(Stream::attempt);
  double value = d;
  for (std::uint32_t attempt = 0; attempt < kMostAttempts; ++attempt) {
    const PhiloxBlock block =
        philox4x32({rank.value, operation * kMostAttempts + attempt, at.iteration, stream}, key_of(at.seed));
    const double z = standard_normal(block, 0), t = 1 + c * z;
    if (t <= 0) {
      continue;
    }
    const double v = t * t * t;
    if (portable_log(open_unit(block[2])) < 0.5 * z * z + d - d * v + d * portable_log(v)) {
      value = d * v;
      if (shape < 1) {
        value *= portable_exp(portable_log(open_unit(block[3])) / shape);
      }
      break;
    }
  }
  return value / shape;
}

void Sampler::draw_group(const DrawAddress& at, Rank first, std::size_t count, std::uint32_t group,
                         double* out, std::size_t stride) const {
  if (kind_ == DistributionKind::normal || kind_ == DistributionKind::lognormal) {
    const auto key = key_of(at.seed);
    std::array<WordLanes, 4> words;
    draw_words({first.value, group, at.iteration, static_cast<std::uint32_t>(at.stream), key[0], key[1]},
               count, words[0].data(), words[1].data(), words[2].data(), words[3].data());
    draw_normals(words[0], words[1], count, out, out + stride);
    draw_normals(words[2], words[3], count, out + 2 * stride, out + 3 * stride);
    for (std::size_t lane = 0; lane < 4; ++lane) {
      if (kind_ == DistributionKind::lognormal) {
        to_lognormal(out + lane * stride, count, scale_, shift_);
      } else {
        to_normal(out + lane * stride, count, cv_);
      }
    }
    return;
  }
  for (std::uint32_t lane = 0; lane < 4; ++lane) {
    for (std::size_t i = 0; i < count; ++i) {
      out[lane * stride + i] = draw(at, Rank(first.index() + i), 4 * group + lane);
    }
  }
}

double Sampler::largest() const {
  constexpr double kLargestNormal = 6.77;       // sqrt(-2 ln 2^-33)
  constexpr double kLargestExponential = 21.9;  // -ln 2^-33, less 1
  switch (kind_) {
    case DistributionKind::none:
      return 1;
    case DistributionKind::normal:
      return 1 + cv_ * kLargestNormal;
    case DistributionKind::lognormal:
      return portable_exp(scale_ * kLargestNormal + shift_);
    case DistributionKind::gamma:
      return 1 + 10 * cv_ + 50 * cv_ * cv_;
    case DistributionKind::exponential:
      return 1 + cv_ * kLargestExponential;
    case DistributionKind::empirical:
      return *std::max_element(values_.begin(), values_.end());
  }
  return 1;
}

}  // namespace paceline
