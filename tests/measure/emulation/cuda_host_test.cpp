// What the CUDA and NCCL parts compute on the host: geometry, element arithmetic, buffers, the choice of a
// GPU.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "calibrate/measure/nccl/choose_gpu.h"
#include "calibrate/measure/nccl/communicator.h"
#include "core/error.h"
#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/buffers.h"
#include "kernels/cuda/geometry.h"
#include "kernels/cuda/runnable_cuda.h"
#include "kernels/reference.h"

namespace paceline::cuda {
namespace {

using Catch::Matchers::Contains;
constexpr int kProcessors = 132;
constexpr std::int64_t kHuge = std::int64_t{1} << 40;

TEST_CASE("a grid covers odd and 64-bit sizes") {
  CHECK(stride_grid(0, kProcessors).blocks == 1);
  CHECK(stride_grid(257, kProcessors).blocks == 2);
  CHECK(stride_grid(kHuge, kProcessors).blocks == 8 * kProcessors);
  CHECK(divide_up(std::numeric_limits<std::int64_t>::max(), 2) == kHuge / 2 * (std::int64_t{1} << 23));

  const Grid warps = row_grid(17, 256, kProcessors);  // eight vectors a lane
  CHECK((warps.columns == 32 && warps.rows == 8 && warps.blocks == 3));
  const Grid blocks = row_grid(17, 257, kProcessors);
  CHECK((blocks.columns == 128 && blocks.rows == 1 && blocks.blocks == 17));
  CHECK(row_grid(kHuge, 1, kProcessors).blocks <= 4u * 8 * kProcessors);
  CHECK(row_grid(1, kHuge, kProcessors).columns == 1024);
  CHECK((tiles_of(1) == 1 && tiles_of(4096) == 1 && tiles_of(4097) == 2));
}

TEST_CASE("sets of buffers together exceed the cache twice") {
  constexpr std::int64_t kMi = 1 << 20;
  CHECK(rotation_count(10 * kMi, 50 * kMi, 1000 * kMi) == 10);
  CHECK(rotation_count(11 * kMi, 50 * kMi, 1000 * kMi) == 10);
  CHECK(rotation_count(100 * kMi, 50 * kMi, 1000 * kMi) == 1);
  CHECK(rotation_count(10 * kMi, 50 * kMi, 35 * kMi) == 3);  // memory
  CHECK(rotation_count(10 * kMi, 50 * kMi, 5 * kMi) == 1);
  CHECK(rotation_count(1, 50 * kMi, 1000 * kMi) == 256);
  CHECK(rotation_count(0, 50 * kMi, 1000 * kMi) == 1);
}

TEST_CASE("moments of parts combine to those of the whole") {
  // A large mean, where sums of squares would lose everything.
  double mean = 0, squares = 0;
  constexpr int kCount = 4096;
  const auto value = [](int i) { return 1000.0F + static_cast<float>((i * 37) % 101) / 64; };
  Moments whole;
  for (int i = 0; i < kCount; i += 4) {
    const float part[4] = {value(i), value(i + 1), value(i + 2), value(i + 3)};
    whole = combine(whole, moments_of(part));
  }
  for (int i = 0; i < kCount; ++i) {
    mean += static_cast<double>(value(i)) / kCount;
  }
  for (int i = 0; i < kCount; ++i) {
    squares += std::pow(static_cast<double>(value(i)) - mean, 2);
  }
  CHECK(static_cast<double>(whole.count) == kCount);
  CHECK(static_cast<double>(whole.mean) == Approx(mean).epsilon(1e-6));
  CHECK(static_cast<double>(whole.squares) == Approx(squares).epsilon(1e-4));
  CHECK(combine(Moments{}, Moments{}).count == 0);
}

TEST_CASE("the online softmax neither overflows nor loses a part") {
  const float part[4] = {500, 501, -800, 499};
  const ExpSum sum = combine(combine(ExpSum{}, exp_sum_of(part)), ExpSum{400, 3});
  CHECK(sum.largest == 501);
  CHECK(static_cast<double>(sum.sum) == Approx(1 + std::exp(-1.0) + std::exp(-2.0)));
  const float none[2] = {-INFINITY, -INFINITY};
  CHECK(combine(exp_sum_of(none), ExpSum{2, 1}).sum == 1);
  CHECK(combine(ExpSum{}, ExpSum{}).sum == 0);
}

TEST_CASE("one element of Adam") {
  const AdamStep step = adam_step(0.1F, 0.9F, 0.999F, 1e-8F, 1);
  float parameter = 1, first = 0, second = 0;
  adam(step, 0.5F, parameter, first, second);  // the first step moves by the rate, whatever the gradient
  CHECK(static_cast<double>(parameter) == Approx(0.9).epsilon(1e-5));
  CHECK(static_cast<double>(first) == Approx(0.05).epsilon(1e-5));
  CHECK(static_cast<double>(second) == Approx(0.00025).epsilon(1e-4));
}

TEST_CASE("8 bits: nearest even, symmetric, zero blocks") {
  const float scale = quantise_scale(127);
  CHECK(scale == 1);
  CHECK((quantise(127, scale) == 127 && quantise(-127, scale) == -127));
  CHECK((quantise(0.5F, scale) == 0 && quantise(1.5F, scale) == 2 && quantise(-2.5F, scale) == -2));
  CHECK(quantise_scale(0) == 1);
  CHECK(quantise(0, quantise_scale(0)) == 0);
  const float least = std::numeric_limits<float>::denorm_min();
  CHECK(quantise(least, quantise_scale(least)) == 0);  // its scale would be 0
  const float largest = std::numeric_limits<float>::max();
  CHECK(quantise(largest, quantise_scale(largest)) == 127);
  CHECK(std::abs(dequantise(quantise(0.3F, 0.01F), 0.01F) - 0.3F) <= 0.005F);
}

TEST_CASE("the digits of a magnitude make it up, and order as it does") {
  CHECK(magnitude_key(-1.5F) == magnitude_key(1.5F));
  CHECK(magnitude_key(1.0F) < magnitude_key(std::nextafter(1.0F, 2.0F)));
  CHECK(magnitude_key(0.0F) < magnitude_key(std::numeric_limits<float>::denorm_min()));
  for (const float x : {0.0F, 1e-30F, 1.0F, -3.14159F, std::numeric_limits<float>::max()}) {
    const std::uint32_t key = magnitude_key(x);
    std::uint32_t made = 0;
    for (int digit = 0; digit < kDigits; ++digit) {
      CHECK(same_prefix(key, made, digit));
      made |= digit_of(key, digit) << digit_shift(digit);
    }
    CHECK(made == key);
  }
  CHECK_FALSE(same_prefix(magnitude_key(1.0F), magnitude_key(2.0F), 1));
  CHECK_FALSE(same_prefix(0x401, 0x801, 2));
  CHECK((kept_before(3, 1, 5) == 4 && kept_before(3, 9, 5) == 8));
}

TEST_CASE("values survive the way to the device and back") {
  const std::vector<double> values{0, 1, -0.5, 63.0 / 64, -1};
  for (const Storage storage : {Storage::fp32, Storage::fp16, Storage::bf16}) {
    CHECK(from_device_form(to_device_form(values, storage), storage) == values);
  }
  const std::vector<double> whole{-127, 0, 127};
  CHECK(from_device_form(to_device_form(whole, Storage::int8), Storage::int8) == whole);
  const std::vector<double> large{2147483647, 16777217};
  CHECK(from_device_form(to_device_form(large, Storage::int32), Storage::int32) == large);
  CHECK(from_device_form(to_device_form(std::vector<double>{1.0 + 1.0 / 512}, Storage::bf16),
                         Storage::bf16)[0] == 1);
}

// Every array of the table has a place, and the traffic is what inputs read and outputs written add up to.
TEST_CASE("the plan of every measured kernel agrees with the table") {
  std::vector<std::string> names;
  for (const KernelSpec& spec : measured_kernels()) {
    CAPTURE(spec.name, spec.precision, spec.m, spec.n, spec.k);
    REQUIRE_NOTHROW(require_kernel(spec));
    const KernelPlan plan = plan_kernel(spec, 0);
    std::int64_t traffic = 0;
    for (std::size_t i = 0; i < plan.inputs; ++i) {
      traffic += plan.arrays[i].count * bytes_of(plan.arrays[i].storage);
    }
    for (std::size_t output = plan.outputs_begin; output < plan.outputs_end; ++output) {
      traffic += plan.arrays[output].count * bytes_of(plan.arrays[output].storage);
    }
    CHECK(traffic == kernel_traffic(spec));
    for (const std::int64_t offset : plan.offsets()) {
      CHECK(offset % 256 == 0);
    }
    if (names.empty() || names.back() != spec.name) {
      names.push_back(spec.name);
    }
  }
  // All kernels are there, those of one name together.
  std::vector<std::string> known = kernel_names();
  std::sort(known.begin(), known.end());
  std::sort(names.begin(), names.end());
  CHECK(names == known);
}

TEST_CASE("what a GPU cannot do here is the user's error") {
  CHECK_THROWS_WITH(require_kernel({"gemm", "fp8", 8, 8, 8}), Contains("fp8") && Contains("tf32"));
  CHECK_THROWS_AS(require_kernel({"softmax", "tf32", 8, 8}), InputError);
  CHECK_THROWS_WITH(require_kernel({"top_k", "fp32", std::int64_t{1} << 31, 0, 1}), Contains("32-bit"));
}

TEST_CASE("each process takes its GPU") {
  const auto place = [](int local) {
    measure::Place at;
    at.local_rank = local;
    at.host = "node7";
    return at;
  };
  CHECK(measure::gpu_of(place(3), 8) == 3);
  CHECK(measure::gpu_of(place(3), 1) == 0);  // the launcher shows each its own
  CHECK_THROWS_WITH(measure::gpu_of(place(2), 2),
                    Contains("process 2 of node7") && Contains("one process per GPU"));
  CHECK_THROWS_WITH(measure::gpu_of(place(0), 0), Contains("node7"));
}

TEST_CASE("NCCL's version numbers") {
  CHECK(measure::nccl_version_text(22809) == "2.28.9");
  CHECK(measure::nccl_version_text(21805) == "2.18.5");
  CHECK(measure::nccl_version_text(2708) == "2.7.8");
  CHECK_THAT(measure::nccl_version(), Catch::Matchers::StartsWith("NCCL 2."));
}

}  // namespace
}  // namespace paceline::cuda
