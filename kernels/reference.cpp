#include "kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <tuple>

namespace paceline {
namespace {

constexpr double kWrong = std::numeric_limits<double>::infinity();
constexpr std::int64_t kSampledRows = 64, kSampledColumns = 64;

// A fixed pseudo-random whole number in [-limit, limit] (the finaliser of MurmurHash3, public domain).
std::int64_t whole(std::uint64_t array, std::uint64_t index, std::int64_t limit) {
  std::uint64_t h = index * 0x9E3779B97F4A7C15ULL + (array + 1) * 0xC2B2AE3D27D4EB4FULL;
  h = (h ^ (h >> 33)) * 0xFF51AFD7ED558CCDULL;
  h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53ULL;
  h ^= h >> 33;
  return static_cast<std::int64_t>(h % static_cast<std::uint64_t>(2 * limit + 1)) - limit;
}

std::vector<double> wholes(std::uint64_t array, std::int64_t size, std::int64_t limit, double unit) {
  std::vector<double> values(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(whole(array, i, limit)) * unit;
  }
  return values;
}

// Multiples of 1/64 in [-1, 1] have seven significant bits: exact down to bf16. fp8 has four.
std::vector<double> values_of(const KernelSpec& kernel, std::uint64_t array, std::int64_t size) {
  return kernel.precision == "fp8" || kernel.precision == "int8" ? wholes(array, size, 8, 1.0 / 8)
                                                                 : wholes(array, size, 64, 1.0 / 64);
}

std::int64_t blocks(const KernelSpec& kernel) { return (kernel.m + kernel.n - 1) / kernel.n; }

// First, last and pseudo-random ones between; all where there are few.
std::vector<std::int64_t> sample(std::int64_t size, std::int64_t count, std::uint64_t stream) {
  std::set<std::int64_t> chosen{0, size - 1};
  for (std::int64_t i = 0; i < std::min(size, count); ++i) {
    const std::int64_t random = std::abs(whole(stream, static_cast<std::uint64_t>(i), size));
    chosen.insert(size <= count ? i : random % size);
  }
  return {chosen.begin(), chosen.end()};
}

// Differences of a whole output, each relative to the largest magnitude expected in it.
class Differences {
 public:
  void add(double found, double expected) {
    if (!std::isfinite(found)) {
      not_a_number_ = true;
    }
    difference_ = std::max(difference_, std::abs(found - expected));
    scale_ = std::max(scale_, std::abs(expected));
  }
  double relative() const { return relative_to(scale_); }
  double relative_to(double scale) const {
    return not_a_number_ ? kWrong : difference_ / (scale > 0 ? scale : 1.0);
  }

 private:
  double difference_ = 0, scale_ = 0;
  bool not_a_number_ = false;
};

double product_error(const KernelSpec& kernel, const KernelArrays& in, const KernelArrays& out) {
  const auto [m, n, k] = std::tuple(kernel.m, kernel.n, kernel.k);
  Differences differences;
  const std::vector<std::int64_t> columns = sample(n, kSampledColumns, 12);
  for (const std::int64_t row : sample(m, kSampledRows, 11)) {
    for (const std::int64_t column : columns) {
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        sum += in[0][row * k + i] * in[1][i * n + column];
      }
      differences.add(out[0][row * n + column], sum);
    }
  }
  return differences.relative_to(std::sqrt(static_cast<double>(k)));
}

double elementwise_error(const KernelSpec&, const KernelArrays& in, const KernelArrays& out) {
  Differences differences;
  for (std::size_t i = 0; i < in[0].size(); ++i) {
    differences.add(out[0][i], std::max(0.0, in[0][i] + in[1][i]));
  }
  return differences.relative();
}

double scaled_error(const KernelArrays& in, const KernelArrays& out, double scale) {
  Differences differences;
  for (std::size_t i = 0; i < in[0].size(); ++i) {
    differences.add(out[0][i], scale * in[0][i]);
  }
  return differences.relative();
}

double layer_norm_error(const KernelSpec& kernel, const KernelArrays& in, const KernelArrays& out) {
  Differences differences;
  const auto columns = static_cast<double>(kernel.n);
  for (std::int64_t row = 0; row < kernel.m; ++row) {
    const double* x = in[0].data() + row * kernel.n;
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < kernel.n; ++i) {
      mean += x[i] / columns;
    }
    for (std::int64_t i = 0; i < kernel.n; ++i) {
      variance += (x[i] - mean) * (x[i] - mean) / columns;
    }
    const double inverse = 1 / std::sqrt(variance + static_cast<double>(kLayerNormEpsilon));
    for (std::int64_t i = 0; i < kernel.n; ++i) {
      differences.add(out[0][row * kernel.n + i], (x[i] - mean) * inverse * in[1][i] + in[2][i]);
    }
  }
  return differences.relative();
}

double softmax_error(const KernelSpec& kernel, const KernelArrays& in, const KernelArrays& out) {
  Differences differences;
  for (std::int64_t row = 0; row < kernel.m; ++row) {
    const double* x = in[0].data() + row * kernel.n;
    const double largest = *std::max_element(x, x + kernel.n);
    double sum = 0;
    for (std::int64_t i = 0; i < kernel.n; ++i) {
      sum += std::exp(x[i] - largest);
    }
    for (std::int64_t i = 0; i < kernel.n; ++i) {
      differences.add(out[0][row * kernel.n + i], std::exp(x[i] - largest) / sum);
    }
  }
  return differences.relative();
}

double adam_error(const KernelSpec&, const KernelArrays& in, const KernelArrays& out) {
  Differences parameter, first, second;
  const double b1 = kAdamBeta1, b2 = kAdamBeta2;
  const double correction1 = 1 - std::pow(b1, kAdamStep), correction2 = 1 - std::pow(b2, kAdamStep);
  for (std::size_t i = 0; i < in[0].size(); ++i) {
    const double g = in[0][i];
    const double m = b1 * in[2][i] + (1 - b1) * g;
    const double v = b2 * in[3][i] + (1 - b2) * g * g;
    const double update =
        (m / correction1) / (std::sqrt(v / correction2) + static_cast<double>(kAdamEpsilon));
    parameter.add(out[0][i], in[1][i] - static_cast<double>(kAdamRate) * update);
    first.add(out[1][i], m);
    second.add(out[2][i], v);
  }
  return std::max({parameter.relative(), first.relative(), second.relative()});
}

double quantise_error(const KernelSpec& kernel, const KernelArrays& in, const KernelArrays& out) {
  double worst = 0;
  for (std::int64_t block = 0; block < blocks(kernel); ++block) {
    const std::int64_t begin = block * kernel.n, end = std::min(kernel.m, begin + kernel.n);
    double largest = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      largest = std::max(largest, std::abs(in[0][i]));
    }
    const double scale = largest > 0 ? largest / 127 : 1.0;
    if (!(std::abs(out[1][block] - scale) <= 1e-5 * scale)) {
      return kWrong;
    }
    for (std::int64_t i = begin; i < end; ++i) {
      if (!(std::abs(out[0][i]) <= 127)) {
        return kWrong;
      }
      worst = std::max(worst, std::abs(out[0][i] * scale - in[0][i]) / (0.5 * scale));
    }
  }
  return worst;
}

double dequantise_error(const KernelSpec& kernel, const KernelArrays& in, const KernelArrays& out) {
  Differences differences;
  for (std::int64_t i = 0; i < kernel.m; ++i) {
    differences.add(out[0][i], in[0][i] * in[1][i / kernel.n]);
  }
  return differences.relative();
}

double top_k_error(const KernelSpec& kernel, const KernelArrays& in, const KernelArrays& out) {
  std::vector<double> magnitudes(in[0].size());
  std::transform(in[0].begin(), in[0].end(), magnitudes.begin(), [](double x) { return std::abs(x); });
  std::nth_element(magnitudes.begin(), magnitudes.begin() + (kernel.k - 1), magnitudes.end(),
                   std::greater<>());
  const double smallest = magnitudes[static_cast<std::size_t>(kernel.k - 1)];
  const auto above = static_cast<std::int64_t>(
      std::count_if(in[0].begin(), in[0].end(), [&](double x) { return std::abs(x) > smallest; }));
  std::set<double> seen;
  std::int64_t found_above = 0;
  for (std::int64_t i = 0; i < kernel.k; ++i) {
    const double index = out[1][i];
    if (!(index >= 0 && index < static_cast<double>(kernel.m)) || !seen.insert(index).second ||
        out[0][i] != in[0][static_cast<std::size_t>(index)] || std::abs(out[0][i]) < smallest) {
      return kWrong;
    }
    found_above += std::abs(out[0][i]) > smallest ? 1 : 0;
  }
  return found_above == above ? 0 : kWrong;
}

double copy_error(const KernelSpec&, const KernelArrays& in, const KernelArrays& out) {
  return scaled_error(in, out, 1.0);
}

double copy_scale_error(const KernelSpec&, const KernelArrays& in, const KernelArrays& out) {
  return scaled_error(in, out, static_cast<double>(kScale));
}

double no_error(const KernelSpec&, const KernelArrays&, const KernelArrays&) { return 0; }

KernelArrays product_inputs(const KernelSpec& kernel) {
  return {values_of(kernel, 0, kernel.m * kernel.k), values_of(kernel, 1, kernel.k * kernel.n)};
}

KernelArrays one_input(const KernelSpec& kernel) { return {values_of(kernel, 0, kernel.m)}; }

KernelArrays elementwise_inputs(const KernelSpec& kernel) {
  return {values_of(kernel, 0, kernel.m), values_of(kernel, 1, kernel.m)};
}

KernelArrays layer_norm_inputs(const KernelSpec& kernel) {
  return {values_of(kernel, 0, kernel.m * kernel.n), values_of(kernel, 1, kernel.n),
          values_of(kernel, 2, kernel.n)};
}

KernelArrays softmax_inputs(const KernelSpec& kernel) {
  return {wholes(0, kernel.m * kernel.n, 64, 1.0 / 8)};
}

KernelArrays adam_inputs(const KernelSpec& kernel) {
  std::vector<double> second = wholes(3, kernel.m, 64, 1.0 / 64);
  std::transform(second.begin(), second.end(), second.begin(), [](double v) { return std::abs(v); });
  return {values_of(kernel, 0, kernel.m), wholes(1, kernel.m, 64, 1.0 / 64),
          wholes(2, kernel.m, 64, 1.0 / 64), second};
}

KernelArrays dequantise_inputs(const KernelSpec& kernel) {
  std::vector<double> scales = wholes(1, blocks(kernel), 31, 1.0 / 1024);
  std::transform(scales.begin(), scales.end(), scales.begin(), [](double v) { return v + 33.0 / 1024; });
  return {wholes(0, kernel.m, 127, 1), scales};
}

KernelArrays no_inputs(const KernelSpec&) { return {}; }

struct Reference {
  Kernel kernel;
  KernelArrays (*inputs)(const KernelSpec&);
  double (*error)(const KernelSpec&, const KernelArrays& in, const KernelArrays& out);
};

constexpr Reference kReferences[] = {
    {Kernel::gemm, product_inputs, product_error},
    {Kernel::conv_gemm, product_inputs, product_error},
    {Kernel::elementwise, elementwise_inputs, elementwise_error},
    {Kernel::layer_norm, layer_norm_inputs, layer_norm_error},
    {Kernel::softmax, softmax_inputs, softmax_error},
    {Kernel::adam, adam_inputs, adam_error},
    {Kernel::copy_scale, one_input, copy_scale_error},
    {Kernel::quantise, one_input, quantise_error},
    {Kernel::dequantise, dequantise_inputs, dequantise_error},
    {Kernel::top_k, one_input, top_k_error},
    {Kernel::copy, one_input, copy_error},
    {Kernel::empty, no_inputs, no_error},
};

const Reference& reference_of(const KernelSpec& kernel) {
  return *std::ranges::find(kReferences, kernel_of(kernel), &Reference::kernel);
}

bool sizes_fit(const std::vector<ArraySpec>& specs, const KernelArrays& outputs) {
  return std::ranges::equal(specs, outputs, {}, &ArraySpec::count,
                            [](const std::vector<double>& array) { return std::ssize(array); });
}

}  // namespace

KernelArrays kernel_inputs(const KernelSpec& kernel) { return reference_of(kernel).inputs(kernel); }

double kernel_error(const KernelSpec& kernel, const KernelArrays& in, const KernelArrays& out) {
  return sizes_fit(kernel_arrays(kernel).outputs, out) ? reference_of(kernel).error(kernel, in, out) : kWrong;
}

double kernel_tolerance(const KernelSpec& kernel) {
  const Kernel kind = kernel_of(kernel);
  if (kind == Kernel::quantise) {
    return 1 + 1e-3;  // a tie may go either way
  }
  if (kind == Kernel::top_k || kind == Kernel::copy || kind == Kernel::empty) {
    return 0;
  }
  // Half a unit in the last place, and some: an output is rounded once to the precision. tf32 rounds the
  // inputs of a product only, which are exact in it.
  const double rounding = kernel.precision == "bf16"   ? 1.0 / 256
                          : kernel.precision == "fp16" ? 1.0 / 2048
                          : kernel.precision == "fp8"  ? 1.0 / 16
                                                       : 1e-6;
  if (is_product(kernel)) {
    // Sums of k products of magnitude up to 1 scatter around sqrt(k); the largest of many lies a few times
    // higher, and its rounding with it. fp32 accumulation adds at most k units in the last place, in practice
    // about sqrt(k).
    return 4 * rounding + 1e-7 * std::sqrt(static_cast<double>(kernel.k));
  }
  return 2 * rounding + 1e-6;
}

}  // namespace paceline
