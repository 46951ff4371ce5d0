// The code of the CUDA kernels, run on the host (device_language.cuh says how), against the references in
// double precision: sizes that do not divide, rows of one warp and of a block, several blocks, all
// precisions.
#include <catch2/catch.hpp>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/runnable_cuda.h"
#include "kernels/reference.h"

namespace paceline {
namespace {

void require_right(const KernelSpec& spec) {
  CAPTURE(spec.name, spec.precision, spec.m, spec.n, spec.k);
  const cuda::Stream stream;
  const RunnableKernel kernel = cuda::make_kernel(spec, stream);
  kernel.launch();
  kernel.launch();  // adam's arrays have changed when the check comes
  CHECK(kernel.check() <= kernel_tolerance(spec));
}

const std::vector<std::string> kStored{"fp32", "fp16", "bf16"};

TEST_CASE("elementwise kernels") {
  for (const std::string& precision : kStored) {
    for (const std::int64_t count : {1, 7, 8, 255, 4097, 10007}) {
      for (const char* name : {"elementwise", "copy_scale", "copy", "adam"}) {
        require_right({name, precision, count});
      }
    }
  }
}

TEST_CASE("kernels by rows") {
  struct Shape {
    std::int64_t m, n;
  };
  for (const std::string& precision : kStored) {
    for (const auto [m, n] : {Shape{1, 1}, {5, 7}, {19, 32}, {2, 4100}}) {
      require_right({"layer_norm", precision, m, n});
      require_right({"softmax", precision, m, n});
    }
  }
  for (const char* name : {"layer_norm", "softmax"}) {
    require_right({name, "fp32", 140, 1032});  // more rows than blocks of several warps
    require_right({name, "bf16", 1, 5003});
  }
  require_right({"softmax", "bf16", 1, 50304});  // GPT-2's vocabulary
}

TEST_CASE("quantise and dequantise by blocks") {
  struct Shape {
    std::int64_t m, n;
  };
  for (const std::string& precision : kStored) {
    for (const auto [m, n] :
         {Shape{1, 512}, {511, 512}, {513, 512}, {10000, 512}, {999, 100}, {9000, 4096}}) {
      require_right({"quantise", precision, m, n});
      require_right({"dequantise", precision, m, n});
    }
  }
}

TEST_CASE("top-k") {
  struct Shape {
    std::int64_t m, k;
  };
  for (const std::string& precision : kStored) {
    for (const auto [m, k] : {Shape{1, 1}, {15, 3}, {17, 17}, {4096, 40}, {4097, 4096}, {9011, 2000}}) {
      require_right({"top_k", precision, m, 0, k});
    }
  }
  require_right({"top_k", "bf16", 1025 * 4096, 0, 4000});  // more tiles than one round of their scan takes
}

// The test's inputs have only 129 different values, so the lower digits of the radix select need their own.
TEST_CASE("top-k keeps the first of equal magnitudes and sees every bit") {
  constexpr std::int64_t kCount = 6000, kKeep = 100;
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits =
        static_cast<std::uint32_t>(0x3f800000 + (i * 7919) % 3000);  // neighbours above 1, twice each
    std::memcpy(&values[i], &bits, sizeof bits);
    values[i] *= i % 2 == 0 ? 1.0F : -1.0F;
  }
  std::vector<std::int32_t> expected(values.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] = static_cast<std::int32_t>(i);
  }
  std::stable_sort(expected.begin(), expected.end(), [&](std::int32_t a, std::int32_t b) {
    return std::abs(values[static_cast<std::size_t>(a)]) > std::abs(values[static_cast<std::size_t>(b)]);
  });
  for (const std::int64_t keep : {kKeep, kKeep + 1}) {
    std::vector<std::int32_t> best(expected.begin(), expected.begin() + keep);
    std::sort(best.begin(), best.end());
    const cuda::DeviceBuffer scratch(cuda::top_k_scratch(kCount));
    std::vector<float> kept(static_cast<std::size_t>(keep) + 1, -7);  // the last ones must stay
    std::vector<std::int32_t> indices(kept.size(), -7);
    const cuda::DeviceBuffer x(kCount * 4);
    std::memcpy(x.get(), values.data(), values.size() * sizeof(float));
    cuda::launch_top_k(cuda::Element::fp32, x.get(), kCount, keep, kept.data(), indices.data(), scratch.get(),
                       {});
    best.push_back(-7);
    CHECK(kept.back() == -7);
    CHECK(indices == best);
  }
}

TEST_CASE("unaligned pointers take the scalar path") {
  const cuda::DeviceBuffer memory(4096);
  float* x = memory.as<float>() + 1;
  float* y = memory.as<float>() + 514;
  for (int i = 0; i < 100; ++i) {
    x[i] = static_cast<float>(i);
  }
  y[100] = -1;
  cuda::launch_scale(cuda::Element::fp32, x, y, 2, 100, {});
  CHECK((y[0] == 0 && y[99] == 198 && y[100] == -1));
}

TEST_CASE("products and the empty kernel") {
  for (const char* precision : {"fp32", "tf32", "fp16", "bf16"}) {
    require_right({"gemm", precision, 5, 7, 9});
    require_right({"conv_gemm", precision, 33, 16, 20});
  }
  require_right({"empty"});
}

}  // namespace
}  // namespace paceline
