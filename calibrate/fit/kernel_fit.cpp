#include "calibrate/fit/kernel_fit.h"

#include <ceres/ceres.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "calibrate/fit/huber.h"
#include "core/median.h"
#include "core/text.h"

namespace paceline {
namespace {

using Rows = std::vector<const KernelMeasurement*>;

constexpr std::array<const char*, 5> kStreaming{"copy", "elementwise", "layer_norm", "adam", "copy_scale"};

bool is_product(const KernelMeasurement& row) {
  return row.kind == "kernel" && row.work.value > 0 && row.kernel.ends_with("gemm");
}
bool is_memory(const KernelMeasurement& row) {
  return (row.kind == "kernel" || row.kind == "memory") && !is_product(row) && row.traffic.value > 0;
}
bool streams(const std::string& kernel) {
  return std::ranges::any_of(kStreaming, [&](const char* each) { return kernel == each; });
}

double peak_of(const GpuSpec& gpu, const KernelMeasurement& row) {
  const std::optional<Precision> precision = find_named<Precision>(row.precision);
  return precision ? gpu.peak[static_cast<std::size_t>(*precision)].value : 0;
}

// ln(seconds): x[0] = -ln(efficiency), x[1] = ln(half_work). As long as its memory traffic takes, at least.
struct ProductError {
  double at_peak, memory, log_measured;
  template <class T>
  bool operator()(const T* x, T* residual) const {
    using std::exp;
    using std::log;
    constexpr double kNoise = 0.05;
    const T compute = (at_peak + exp(x[1])) * exp(x[0]);
    residual[0] = (log(compute > memory ? compute : T(memory)) - log_measured) / kNoise;
    return true;
  }
};
// As little as the default is known: half_work of a CPU is a thousandth of a GPU's.
struct PriorError {
  double efficiency, half_work;
  template <class T>
  bool operator()(const T* x, T* residual) const {
    residual[0] = x[0] - efficiency;
    residual[1] = (x[1] - half_work) / 3.0;
    return true;
  }
};

void solve(ceres::Problem& problem) {
  ceres::Solver::Options options;
  options.linear_solver_type = ceres::DENSE_QR;
  options.logging_type = ceres::SILENT;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
}

Seconds memory_time(const GpuSpec& gpu, const ProfileKernels& kernels, const KernelMeasurement& row) {
  const auto own = std::ranges::find(kernels.of_kernel, row.kernel, &ProfileKernel::name);
  const double efficiency = own != kernels.of_kernel.end() ? own->efficiency : kernels.memory_efficiency;
  return efficiency > 0 && row.traffic.value > 0
             ? kernels.memory_start + row.traffic / gpu.memory_bandwidth / efficiency
             : Seconds{};
}

ProfileRoofline fit_products(const GpuSpec& gpu, const ProfileKernels& kernels, const Rows& rows) {
  const Precision precision = find_named<Precision>(rows.front()->precision).value_or(Precision::fp32);
  double x[2] = {-std::log(product_efficiency(gpu, precision)), std::log(RooflineSpec{}.half_work.value)};
  ceres::Problem problem;
  for (const KernelMeasurement* row : rows) {
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<ProductError, 1, 2>(new ProductError{
                                 row->work.value / peak_of(gpu, *row), memory_time(gpu, kernels, *row).value,
                                 std::log(row->time.value)}),
                             new ceres::HuberLoss(kHuber), x);
  }
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<PriorError, 2, 2>(new PriorError{x[0], x[1]}),
                           nullptr, x);
  solve(problem);
  return {rows.front()->precision, std::exp(-x[0]), Seconds(std::exp(x[1]))};
}

// ln(seconds): x = -ln(efficiency), start = ln(memory_start).
struct StreamError {
  double at_bandwidth, log_measured;
  template <class T>
  bool operator()(const T* x, const T* start, T* residual) const {
    using std::exp;
    using std::log;
    constexpr double kNoise = 0.05;
    residual[0] = (log(at_bandwidth * exp(x[0]) + exp(start[0])) - log_measured) / kNoise;
    return true;
  }
};

// A start shows beside bytes that differ.
bool tells_start(const Rows& rows) {
  constexpr double kLeastFactor = 8;
  const auto [least, most] =
      std::ranges::minmax_element(rows, {}, [](const KernelMeasurement* row) { return row->traffic.value; });
  return !rows.empty() && static_cast<double>((*most)->traffic.value) >=
                              kLeastFactor * static_cast<double>((*least)->traffic.value);
}

struct FittedStream {
  double efficiency = 0;
  Seconds start;
};

// With this start, or with the one that fits best.
FittedStream fit_stream(const GpuSpec& gpu, const Rows& rows, std::optional<Seconds> given) {
  constexpr double kNone = 1e-12, kUsual = 3e-6;  // s
  double x = -std::log(RooflineSpec{}.memory_efficiency);
  double start = std::log(given ? std::max(given->value, kNone) : kUsual);
  ceres::Problem problem;
  for (const KernelMeasurement* row : rows) {
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<StreamError, 1, 1, 1>(new StreamError{
                                 (row->traffic / gpu.memory_bandwidth).value, std::log(row->time.value)}),
                             new ceres::HuberLoss(kHuber), &x, &start);
  }
  if (given) {
    problem.SetParameterBlockConstant(&start);
  }
  solve(problem);
  return {std::exp(-x), given ? *given : Seconds(std::exp(start))};
}

void fit_memory(const GpuSpec& gpu, const MeasuredData& data, ProfileKernels& kernels) {
  Rows streaming;
  std::map<std::string, Rows> others;
  for (const KernelMeasurement& row : data.kernels) {
    if (is_memory(row)) {
      (streams(row.kernel) ? streaming : others[row.kernel]).push_back(&row);
    }
  }
  if (!streaming.empty()) {
    const FittedStream stream =
        fit_stream(gpu, streaming, tells_start(streaming) ? std::nullopt : std::optional(Seconds{}));
    kernels.memory_efficiency = stream.efficiency;
    kernels.memory_start = stream.start;
  }
  for (const auto& [name, rows] : others) {
    kernels.of_kernel.push_back({name, fit_stream(gpu, rows, kernels.memory_start).efficiency});
  }
}

// Of kernels that were also measured alone.
double slowdown_of(const MeasuredData& data) {
  std::vector<double> ratios;
  for (const ConditionedKernel& beside : data.conditioned_kernels) {
    const KernelMeasurement& row = beside.measurement;
    for (const KernelMeasurement& alone : data.kernels) {
      if (alone.kernel == row.kernel && alone.precision == row.precision && alone.m == row.m &&
          alone.n == row.n && alone.k == row.k && alone.kind == row.kind) {
        ratios.push_back(row.time / alone.time);
        break;
      }
    }
  }
  return ratios.empty() ? 0 : std::max(1.0, median(ratios));
}

}  // namespace

Seconds fitted_time(const GpuSpec& gpu, const ProfileKernels& kernels, const KernelMeasurement& row) {
  if (is_product(row)) {
    const auto of_precision = std::ranges::find(kernels.products, row.precision, &ProfileRoofline::precision);
    if (of_precision == kernels.products.end()) {
      return {};
    }
    const Seconds compute =
        (Seconds(row.work.value / peak_of(gpu, row)) + of_precision->half_work) / of_precision->efficiency;
    return std::max(compute, memory_time(gpu, kernels, row));
  }
  return memory_time(gpu, kernels, row);
}

KernelFit fit_kernels(const GpuSpec& gpu, const MeasuredData& data) {
  KernelFit fit;
  fit.kernels.gpu = gpu.name;
  std::map<std::string, Rows> products;
  std::vector<double> launches;
  for (const KernelMeasurement& row : data.kernels) {
    if (row.kind == "launch") {
      launches.push_back(row.time.value);
    } else if (is_product(row) && peak_of(gpu, row) > 0) {
      products[row.precision].push_back(&row);
    }
  }
  fit_memory(gpu, data, fit.kernels);
  for (const auto& [precision, rows] : products) {
    fit.kernels.products.push_back(fit_products(gpu, fit.kernels, rows));
  }
  fit.kernels.launch = launches.empty() ? Seconds{} : Seconds(median(launches));
  fit.kernels.slowdown = slowdown_of(data);
  double sum = 0;
  for (std::size_t r = 0; r < data.kernels.size(); ++r) {
    const Seconds predicted = fitted_time(gpu, fit.kernels, data.kernels[r]);
    if ((is_product(data.kernels[r]) || is_memory(data.kernels[r])) && predicted.value > 0) {
      fit.rows.push_back({r, predicted.value});
      sum += std::abs(std::log(predicted / data.kernels[r].time));
    }
  }
  fit.mean_error = fit.rows.empty() ? 0 : sum / static_cast<double>(fit.rows.size());
  return fit;
}

std::string kernel_table(const KernelFit& fit, const MeasuredData& data) {
  std::string text = "kernels of " + fit.kernels.gpu + "\n";
  const auto add = [&](auto... values) { text += formatted(values...); };
  for (const ProfileRoofline& each : fit.kernels.products) {
    add("  products in %-6s %5.1f %% of peak, half of that at %.3g us of work\n", each.precision.c_str(),
        100 * each.efficiency, each.half_work.value * 1e6);
  }
  add("  streaming         %5.1f %% of the memory's bandwidth, and %.3g us a kernel\n",
      100 * fit.kernels.memory_efficiency, fit.kernels.memory_start.value * 1e6);
  for (const ProfileKernel& each : fit.kernels.of_kernel) {
    add("  %-17s %5.1f %%\n", each.name.c_str(), 100 * each.efficiency);
  }
  if (fit.kernels.launch.value > 0) {
    add("  a launch takes %.2f us\n", fit.kernels.launch.value * 1e6);
  }
  if (fit.kernels.slowdown > 0) {
    add("  beside a collective kernels take %.2f times as long\n", fit.kernels.slowdown);
  }
  add("  %zu of %zu rows, off by %.1f %% (geometric mean)\n", fit.rows.size(), data.kernels.size(),
      100 * std::expm1(fit.mean_error));
  return text;
}

}  // namespace paceline
