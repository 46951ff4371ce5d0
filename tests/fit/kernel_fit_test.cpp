// Does the kernel fit find the roofline that it was given?
#include "calibrate/fit/kernel_fit.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/import/import.h"
#include "kernels/cost_model.h"
#include "scenarios/scenario.h"
#include "tests/error_of.h"
#include "tests/example.h"

namespace paceline {
namespace {

constexpr double kEfficiency = 0.7, kMemoryEfficiency = 0.8, kHalfWork = 20e-6;

KernelMeasurement product(const GpuSpec& gpu, std::int64_t n, double disturbed = 1) {
  KernelMeasurement row;
  row.kernel = "gemm";
  row.precision = "fp16";
  row.m = row.n = row.k = n;
  row.work = Flops(2.0 * static_cast<double>(n * n * n));
  const RooflineSpec roofline{.compute_efficiency = kEfficiency, .half_work = Seconds(kHalfWork)};
  row.time = kernel_time({gpu, roofline, Precision::fp16}, row.work, Bytes{}) * disturbed;
  return row;
}

KernelMeasurement streaming(const GpuSpec& gpu, const std::string& name, std::int64_t bytes,
                            double efficiency) {
  KernelMeasurement row;
  row.kernel = name;
  row.precision = "fp32";
  row.m = bytes;
  row.traffic = Bytes(bytes);
  row.time = row.traffic / gpu.memory_bandwidth / efficiency;
  return row;
}

MeasuredData measured(const GpuSpec& gpu) {
  MeasuredData data;
  for (const std::int64_t n : {256, 512, 1024, 2048, 4096, 8192}) {
    data.kernels.push_back(product(gpu, n));
  }
  for (const char* name : {"copy", "adam", "elementwise"}) {
    data.kernels.push_back(streaming(gpu, name, 1 << 24, kMemoryEfficiency));
  }
  data.kernels.push_back(streaming(gpu, "top_k", 1 << 24, 0.1));
  KernelMeasurement launch;
  launch.kernel = "empty";
  launch.kind = "launch";
  launch.time = Seconds(3e-6);
  data.kernels.push_back(launch);
  return data;
}

TEST_CASE("the roofline that made the kernels' times is found") {
  const GpuSpec gpu = gpu_preset("A100-80GB");
  const KernelFit fit = fit_kernels(gpu, measured(gpu));
  REQUIRE(fit.kernels.products.size() == 1);
  CHECK(fit.kernels.products[0].precision == "fp16");
  CHECK(fit.kernels.products[0].efficiency == Approx(kEfficiency).epsilon(0.01));
  CHECK(fit.kernels.products[0].half_work.value == Approx(kHalfWork).epsilon(0.02));
  CHECK(fit.kernels.memory_efficiency == Approx(kMemoryEfficiency));
  REQUIRE(fit.kernels.of_kernel.size() == 1);
  CHECK(fit.kernels.of_kernel[0].efficiency == Approx(0.1));
  CHECK(fit.kernels.launch.value == Approx(3e-6));
  CHECK(fit.kernels.slowdown == 0);
  CHECK(fit.rows.size() == 10);
  CHECK(fit.mean_error < 0.01);
}

TEST_CASE("what kernels take beside their bytes is told apart from the bandwidth where sizes differ") {
  const GpuSpec gpu = gpu_preset("A100-80GB");
  const Seconds start(4e-6);
  MeasuredData data;
  for (const std::int64_t bytes : {1 << 18, 1 << 21, 1 << 24, 1 << 27, 1 << 29}) {
    for (const char* name : {"copy", "softmax"}) {
      const double efficiency = name == std::string("copy") ? kMemoryEfficiency : 0.4;
      data.kernels.push_back(streaming(gpu, name, bytes, efficiency));
      data.kernels.back().time = data.kernels.back().time + start;
    }
  }
  // A narrow product, which its bytes bound, says nothing of the peak.
  data.kernels.push_back(product(gpu, 4096));
  data.kernels.push_back(product(gpu, 1024));
  KernelMeasurement narrow = product(gpu, 64);
  narrow.traffic = Bytes(1 << 27);
  narrow.time = start + narrow.traffic / gpu.memory_bandwidth / kMemoryEfficiency;
  data.kernels.push_back(narrow);
  const KernelFit fit = fit_kernels(gpu, data);
  CHECK(fit.kernels.memory_start.value == Approx(start.value).epsilon(0.01));
  CHECK(fit.kernels.memory_efficiency == Approx(kMemoryEfficiency).epsilon(0.01));
  REQUIRE(fit.kernels.of_kernel.size() == 1);
  CHECK(fit.kernels.of_kernel[0].efficiency == Approx(0.4).epsilon(0.01));
  CHECK(fit.kernels.products.at(0).efficiency == Approx(kEfficiency).epsilon(0.02));
  CHECK(fit.mean_error < 0.01);
}

// docs/gpu-checks.md has the machine. 79 % of the peak rates, 79 % of the bandwidth: half of the rows say what the
// others take. The medians of before, without a start, are 50 % off.
TEST_CASE("every second kernel of an H200 predicts the others") {
  const MeasuredData all = import_file((kSource / "scenarios/validation/h200/kernels.csv").string());
  const GpuSpec gpu = gpu_preset("H200");
  REQUIRE(all.kernels.size() == 162);
  double sum = 0;
  int rows = 0;
  for (const std::size_t half : {0, 1}) {
    MeasuredData fitted;
    for (std::size_t i = half; i < all.kernels.size(); i += 2) {
      fitted.kernels.push_back(all.kernels[i]);
    }
    const KernelFit fit = fit_kernels(gpu, fitted);
    for (std::size_t i = 1 - half; i < all.kernels.size(); i += 2) {
      const Seconds predicted = fitted_time(gpu, fit.kernels, all.kernels[i]);
      REQUIRE(predicted.value > 0);
      sum += std::abs(std::log(predicted / all.kernels[i].time));
      ++rows;
    }
  }
  CHECK(rows == 162);
  CHECK(std::expm1(sum / rows) < 0.2);
}

// Nothing of an H100 is fitted: its peaks and its bandwidth are the data sheet's, which differ in bandwidth alone.
TEST_CASE("the kernels of an H200 predict those of an H100") {
  const std::string folder = (kSource / "scenarios/validation/").string();
  const KernelFit fit = fit_kernels(gpu_preset("H200"), import_file(folder + "h200/kernels.csv"));
  const MeasuredData all = import_file(folder + "h100/kernels.csv");
  double sum = 0;
  std::size_t rows = 0;
  for (const KernelMeasurement& kernel : all.kernels) {
    const Seconds predicted = fitted_time(gpu_preset("H100"), fit.kernels, kernel);
    if (predicted.value > 0) {
      sum += std::abs(std::log(predicted / kernel.time));
      ++rows;
    }
  }
  CHECK(rows == 162);
  INFO(std::expm1(sum / static_cast<double>(rows)));
  CHECK(std::expm1(sum / static_cast<double>(rows)) < 0.2);
}

TEST_CASE("one disturbed product doesn't change the roofline") {
  const GpuSpec gpu = gpu_preset("A100-80GB");
  MeasuredData data = measured(gpu);
  data.kernels.push_back(product(gpu, 3072, 3));
  const KernelFit fit = fit_kernels(gpu, data);
  CHECK(fit.kernels.products[0].efficiency == Approx(kEfficiency).epsilon(0.1));
}

TEST_CASE("a kernel beside a collective gives the slow-down") {
  const GpuSpec gpu = gpu_preset("A100-80GB");
  MeasuredData data = measured(gpu);
  data.conditioned_kernels.push_back({"beside=all_reduce:1048576", product(gpu, 1024, 1.2)});
  data.conditioned_kernels.push_back({"beside=all_reduce:1048576", product(gpu, 2048, 1.3)});
  data.conditioned_kernels.push_back({"beside=all_reduce:1048576", product(gpu, 4096, 1.4)});
  CHECK(fit_kernels(gpu, data).kernels.slowdown == Approx(1.3));
}

TEST_CASE("a scenario takes the kernels of a profile") {
  const GpuSpec gpu = gpu_preset("A100-80GB");
  Profile profile;
  profile.kernels.push_back(fit_kernels(gpu, measured(gpu)).kernels);
  profile.kernels.front().slowdown = 1.25;
  profile.kernels.front().memory_start = Seconds(2e-6);
  Scenario scenario = example("slow_gpu_64");
  scenario.training.precision = Precision::fp16;
  const TrainingSpec training = with_profile(scenario, profile).training;
  CHECK(training.roofline.compute_efficiency == Approx(kEfficiency).epsilon(0.01));
  CHECK(training.roofline.memory_efficiency == Approx(kMemoryEfficiency));
  CHECK(training.roofline.memory_start.value == Approx(2e-6));
  CHECK(training.roofline.top_k_efficiency == Approx(0.1));
  CHECK(training.host.kernel_launch.value == Approx(3e-6));
  CHECK(training.slowdown_while_communicating.numerator * 100 ==
        training.slowdown_while_communicating.denominator * 125);

  // A result runs again with its profile; what says another value is told.
  const Scenario fitted = with_profile(scenario, profile);
  const Scenario again = with_profile(parse_scenario(to_json(fitted), "result.json"), profile);
  CHECK(to_json(again) == to_json(fitted));
  scenario.training.roofline.memory_efficiency = 0.5;
  CHECK_THAT(error_of([&] { static_cast<void>(with_profile(scenario, profile)); }),
             Catch::StartsWith("/training/roofline/memory_efficiency: expected either this or a profile"));
  scenario.training.roofline.memory_efficiency = RooflineSpec{}.memory_efficiency;
  scenario.training.slowdown_while_communicating = {3, 2};
  CHECK_THAT(error_of([&] { static_cast<void>(with_profile(scenario, profile)); }),
             Catch::StartsWith("/training/slowdown_while_communicating: expected either this or a profile"));
  scenario.training.slowdown_while_communicating = TrainingSpec{}.slowdown_while_communicating;
  double& products = scenario.gpu.product_efficiency[static_cast<std::size_t>(Precision::fp16)];
  products = 0.5;
  CHECK_THAT(error_of([&] { static_cast<void>(with_profile(scenario, profile)); }),
             Catch::StartsWith("/cluster/gpu/product_efficiency/fp16: expected either this or a profile"));
  products = 0;
  CHECK(to_json(with_profile(scenario, profile)).find(R"("compute_efficiency")") != std::string::npos);
}

TEST_CASE("kernels of another GPU are taken where that is asked for alone") {
  Profile profile;
  profile.kernels.push_back(fit_kernels(gpu_preset("H200"), measured(gpu_preset("H200"))).kernels);
  const Scenario scenario = example("slow_gpu_64");
  CHECK_THAT(error_of([&] { static_cast<void>(with_profile(scenario, profile)); }),
             Catch::StartsWith(
                 "--profile: expected a profile with kernels of this GPU (A100-80GB), found one of H200"));
  profile.any_machine = true;
  CHECK(with_profile(scenario, profile).training.roofline.memory_efficiency == Approx(kMemoryEfficiency));
}

TEST_CASE("nodes of several kinds take a profile of kernels, and no throughput of one kind") {
  const Scenario unlike = example("unlike_nodes_48");
  const GpuSpec gpu = gpu_preset("A100-80GB");
  Profile profile;
  profile.kernels.push_back(fit_kernels(gpu, measured(gpu)).kernels);
  profile.kernels.front().slowdown = 1.25;
  CHECK(with_profile(unlike, profile).training.slowdown_while_communicating.numerator * 4 ==
        with_profile(unlike, profile).training.slowdown_while_communicating.denominator * 5);
  profile.training.emplace_back().rates = {{SamplesPerSecond(1300)}};
  CHECK_THAT(error_of([&] { static_cast<void>(with_profile(unlike, profile)); }),
             Catch::StartsWith("--profile: expected each kind's rate in /cluster/gpus"));
  Scenario stated = unlike;
  for (GpuKind& kind : stated.gpus) {
    kind.measured = {{SamplesPerSecond(1000)}};
  }
  CHECK(with_profile(stated, profile).training.measured.empty());
}

TEST_CASE("products of a precision that the GPU lacks are left out") {
  const GpuSpec gpu = gpu_preset("V100-16GB");
  MeasuredData data;
  data.kernels.push_back(product(gpu_preset("A100-80GB"), 1024));
  data.kernels.back().precision = "bf16";
  const KernelFit fit = fit_kernels(gpu, data);
  CHECK(fit.kernels.products.empty());
  CHECK(fit.rows.empty());
}

}  // namespace
}  // namespace paceline
