// The CPU kernels against double precision, at shapes that leave rests everywhere.
#include "kernels/cpu/cpu_kernels.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "kernels/reference.h"

namespace paceline {
namespace {

using Catch::Matchers::Contains;

std::vector<KernelSpec> odd_shapes() {
  std::vector<KernelSpec> shapes;
  for (const auto& [m, n, k] : {std::tuple(1, 1, 1), std::tuple(7, 33, 5), std::tuple(13, 31, 400),
                                std::tuple(200, 65, 17), std::tuple(193, 1025, 385), std::tuple(1, 500, 300),
                                std::tuple(500, 1, 300), std::tuple(12, 32, 384)}) {
    shapes.push_back({"gemm", "fp32", m, n, k});
  }
  shapes.push_back({"conv_gemm", "fp32", 49, 130, 147});
  for (const std::int64_t m : {1, 15, 1023, 4097}) {
    for (const char* name : {"elementwise", "adam", "copy_scale", "copy"}) {
      shapes.push_back({name, "fp32", m, 0, 0});
    }
    for (const char* name : {"quantise", "dequantise"}) {
      shapes.push_back({name, "fp32", m, 100, 0});
    }
    shapes.push_back({"top_k", "fp32", m, 0, (m + 9) / 10});
    shapes.push_back({"top_k", "fp32", m, 0, m});
  }
  for (const auto& [m, n] : {std::pair(1, 1), std::pair(3, 17), std::pair(5, 1000), std::pair(33, 16)}) {
    shapes.push_back({"layer_norm", "fp32", m, n, 0});
    shapes.push_back({"softmax", "fp32", m, n, 0});
  }
  shapes.push_back({"empty", "fp32", 0, 0, 0});
  return shapes;
}

TEST_CASE("every kernel is right at odd shapes, with one thread and with three, again after it has run") {
  for (const int threads : {1, 3}) {
    const auto team = std::make_shared<ThreadTeam>(threads);
    for (const KernelSpec& shape : odd_shapes()) {
      INFO(shape.name << " " << shape.m << " " << shape.n << " " << shape.k << ", " << threads << " threads");
      const RunnableKernel kernel = make_cpu_kernel(shape, team);
      CHECK(kernel.check() <= kernel_tolerance(shape));
      for (int i = 0; i < 10; ++i) {
        kernel.launch();
      }
      CHECK(kernel.check() <= kernel_tolerance(shape));
    }
  }
}

// The reference must tell a wrong result from a right one: take the kernel's own, then spoil it.
KernelArrays softmax_by_hand(const KernelSpec& shape, const KernelArrays& in) {
  KernelArrays out{in[0]};
  for (std::int64_t row = 0; row < shape.m; ++row) {
    double sum = 0;
    for (std::int64_t i = row * shape.n; i < (row + 1) * shape.n; ++i) {
      sum += std::exp(in[0][i]);
    }
    for (std::int64_t i = row * shape.n; i < (row + 1) * shape.n; ++i) {
      out[0][i] = std::exp(in[0][i]) / sum;
    }
  }
  return out;
}

TEST_CASE("the reference tells wrong results") {
  SECTION("softmax") {
    const KernelSpec shape{"softmax", "fp32", 3, 10, 0};
    const KernelArrays in = kernel_inputs(shape);
    KernelArrays out = softmax_by_hand(shape, in);
    CHECK(kernel_error(shape, in, out) < 1e-12);
    out[0][17] += 1e-3;
    CHECK(kernel_error(shape, in, out) > kernel_tolerance(shape));
    out[0][17] = NAN;
    CHECK(std::isinf(kernel_error(shape, in, out)));
    out[0].pop_back();
    CHECK(std::isinf(kernel_error(shape, in, out)));
  }
  SECTION("a product's corner") {
    const KernelSpec shape{"gemm", "fp32", 2, 2, 2};
    const KernelArrays in = kernel_inputs(shape);
    KernelArrays out{{0, 0, 0, 0}};
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) {
        out[0][2 * i + j] = in[0][2 * i] * in[1][j] + in[0][2 * i + 1] * in[1][2 + j];
      }
    }
    CHECK(kernel_error(shape, in, out) == 0);
    out[0][3] += 0.01;
    CHECK(kernel_error(shape, in, out) > kernel_tolerance(shape));
  }
  SECTION("top_k") {
    const KernelSpec shape{"top_k", "fp32", 5, 0, 2};
    const KernelArrays in{{0.1, -3, 2, 0.5, 2}};
    CHECK(kernel_error(shape, in, {{2, -3}, {4, 1}}) == 0);  // of equal ones either
    CHECK(kernel_error(shape, in, {{2, -3}, {2, 1}}) == 0);
    CHECK(std::isinf(kernel_error(shape, in, {{2, 2}, {2, 4}})));    // -3 is larger
    CHECK(std::isinf(kernel_error(shape, in, {{-3, -3}, {1, 1}})));  // twice
    CHECK(std::isinf(kernel_error(shape, in, {{2, -3}, {0, 1}})));   // not where it says
    CHECK(std::isinf(kernel_error(shape, in, {{2, -3}, {9, 1}})));
  }
  SECTION("quantise") {
    const KernelSpec shape{"quantise", "fp32", 3, 2, 0};
    const KernelArrays in{{1, -0.5, 0.25}};
    const double scale0 = 1.0 / 127, scale1 = 0.25 / 127;
    CHECK(kernel_error(shape, in, {{127, -64, 127}, {scale0, scale1}}) <= kernel_tolerance(shape));
    CHECK(kernel_error(shape, in, {{127, -62, 127}, {scale0, scale1}}) > kernel_tolerance(shape));
    CHECK(kernel_error(shape, in, {{127, -64, 127}, {scale0, scale0}}) > kernel_tolerance(shape));
  }
  SECTION("Adam's second moment") {
    const KernelSpec shape{"adam", "fp32", 1, 0, 0};
    const KernelArrays in{{0.5}, {1}, {0.25}, {0.0625}};
    const double m = 0.9 * 0.25 + 0.1 * 0.5, v = 0.999 * 0.0625 + 0.001 * 0.25;
    const double p =
        1 - 1e-3 * (m / (1 - std::pow(0.9, 10))) / (std::sqrt(v / (1 - std::pow(0.999, 10))) + 1e-8);
    CHECK(kernel_error(shape, in, {{p}, {m}, {v}}) < kernel_tolerance(shape));
    CHECK(kernel_error(shape, in, {{p}, {m}, {0.0625}}) > kernel_tolerance(shape));
  }
}

TEST_CASE("work and traffic are counted as the cost model does") {
  CHECK(kernel_work({"gemm", "fp32", 2, 3, 5}) == 60);
  CHECK(kernel_traffic({"gemm", "fp32", 2, 3, 5}) == 4 * (10 + 15 + 6));
  CHECK(kernel_traffic({"gemm", "bf16", 2, 3, 5}) == 2 * (10 + 15 + 6));
  CHECK(kernel_work({"adam", "fp32", 7, 0, 0}) == 0);
  CHECK(kernel_traffic({"adam", "fp32", 7, 0, 0}) == 7 * 28);
  CHECK(kernel_traffic({"adam", "bf16", 7, 0, 0}) == 7 * 26);
  CHECK(kernel_traffic({"layer_norm", "fp32", 3, 10, 0}) == 4 * 80);
  CHECK(kernel_traffic({"quantise", "fp32", 257, 256, 0}) == 4 * 257 + 257 + 8);
  CHECK(kernel_traffic({"top_k", "fp32", 100, 0, 3}) == 400 + 24);
  CHECK(kernel_kind({"copy", "fp32", 1, 0, 0}) == "memory");
  CHECK(kernel_kind({"empty", "fp32", 0, 0, 0}) == "launch");
}

TEST_CASE("kernels that are not are refused") {
  const auto team = std::make_shared<ThreadTeam>(1);
  CHECK_THROWS_WITH(make_cpu_kernel({"gemmm", "fp32", 1, 1, 1}, team), Contains("did you mean \"gemm\""));
  CHECK_THROWS_WITH(make_cpu_kernel({"gemm", "bf16", 1, 1, 1}, team), Contains("fp32 only"));
  CHECK_THROWS_WITH(make_cpu_kernel({"gemm", "fp32", 1, 0, 1}, team), Contains("at least 1"));
  CHECK_THROWS_WITH(make_cpu_kernel({"top_k", "fp32", 4, 0, 5}, team), Contains("more elements"));
  CHECK_THROWS_WITH(kernel_traffic({"copy", "fp31", 4, 0, 0}), Contains("fp31"));
}

TEST_CASE("all shapes that are offered have work or traffic, and are offered once") {
  const std::vector<KernelSpec> shapes = cpu_kernel_shapes();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    CHECK((kernel_traffic(shapes[i]) > 0 || shapes[i].name == "empty"));
    CHECK(std::count(shapes.begin(), shapes.end(), shapes[i]) == 1);
  }
  for (const std::string& name : kernel_names()) {
    CHECK(std::any_of(shapes.begin(), shapes.end(), [&](const KernelSpec& s) { return s.name == name; }));
  }
}

TEST_CASE("a team splits all of a range, once, and can be used again and again") {
  ThreadTeam team(4);
  for (const std::int64_t count : {0, 1, 5, 64, 1000}) {
    std::vector<std::atomic<int>> touched(static_cast<std::size_t>(count));
    team.split(count, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        ++touched[static_cast<std::size_t>(i)];
      }
    });
    CHECK(std::all_of(touched.begin(), touched.end(), [](const std::atomic<int>& t) { return t == 1; }));
  }
  std::atomic<int> calls{0};
  for (int i = 0; i < 2000; ++i) {
    team.run([&](int) { ++calls; });
  }
  CHECK(calls == 8000);
}

}  // namespace
}  // namespace paceline
