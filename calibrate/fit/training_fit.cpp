#include "calibrate/fit/training_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "scenarios/predict.h"

namespace paceline {
namespace {

constexpr double kNormal90 = 1.645;  // standard deviations to either end of an interval of 90 %

// Standard deviation of ln of a measured throughput when the run is repeated. Assumed: repeated nccl-tests
// tables of one cluster differ by 0.5 %, the two columns of one table by 1.4 %.
constexpr double kRowDeviation = 0.01;

// Delays where no row tells: loss from 1 to 8 GPUs in one node (16 in a few sets) of 22 FP32 and TF32 and 22
// mixed sets of NVIDIA/DeepLearningExamples (ResNet-50, ResNeXt, SE-ResNeXt; MXNet, Paddle, PyTorch,
// TensorFlow; DGX-1, DGX-2, DGX A100), less what communication takes there, over 1.72: their median, and
// their 10th and 90th percentile rounded outwards.
struct DelayPrior {
  double median, low, high;
};
constexpr DelayPrior kFp32Delays{0.020, 0.008, 0.050};
constexpr DelayPrior kMixedDelays{0.080, 0.010, 0.115};
// Those sets decode images on their hosts, and none is sharded: of sharded training nothing published tells.
constexpr DelayPrior kNoDelays{0, 0, 0};

// What the model leaves open between the rows and more nodes: deviations of ln(predicted / measured), root
// mean square over the ResNet-50 sets of Oneflow-Inc/DLPerf, each set fitted to its own 1- and 8-GPU rows and
// left out when its interval is judged (docs/accuracy.md); inside a node, 8 to 16 GPUs of a DGX-2 (two sets).
struct OpenDeviation {
  double in_node, across_nodes;
};
constexpr OpenDeviation kFp32Open{0.015, 0.035};
constexpr OpenDeviation kMixedOpen{0.04, 0.115};

bool mixed(const TrainingSpec& training) {
  return training.precision != Precision::fp32 && training.precision != Precision::tf32;
}

const DelayPrior& prior(const TrainingSpec& training) {
  return training.strategy != StrategyKind::ddp ? kNoDelays : mixed(training) ? kMixedDelays : kFp32Delays;
}

// Iterations whose mean is that of the slowest GPU: its deviation is about cv, 4 % of cv remain at 1,000.
int iterations_for(std::int64_t ranks) {
  constexpr std::int64_t kRankIterations = 64'000;
  return static_cast<int>(
      std::clamp<std::int64_t>(kRankIterations / std::max<std::int64_t>(ranks, 1), 100, 1000));
}

std::int64_t rank_count(const ClusterSpec& cluster) {
  const int nodes = cluster.job_nodes > 0 ? cluster.job_nodes : cluster.nodes;
  return static_cast<std::int64_t>(nodes) *
         (cluster.gpus_per_node > 0 ? cluster.gpus_per_node : cluster.node.gpus);
}

int node_count(const ClusterSpec& cluster) {
  return cluster.job_nodes > 0 ? cluster.job_nodes : cluster.nodes;
}

Scenario with_anchor(Scenario scenario, double rate, double cv) {
  scenario.training.measured = SamplesPerSecond(rate);
  if (cv == 0) {  // as many iterations as the scenario says: nothing is drawn
    scenario.variability.per_iteration = {};
    return scenario;
  }
  scenario.variability.per_iteration = Distribution{DistributionKind::exponential, cv, {}};
  const bool others =
      !scenario.background.empty() || !scenario.other_jobs.empty();  // every transfer an event
  if (!others) {
    scenario.run.iterations = std::max(scenario.run.iterations, iterations_for(rank_count(scenario.cluster)));
  }
  return scenario;
}

Scenario reduced_after_backward(Scenario scenario) {
  scenario.training.ddp.bucket_cap = scenario.training.ddp.first_bucket = Bytes(std::int64_t{1} << 50);
  return scenario;
}

// ln of the throughput, and how far it is from either way to reduce.
struct LogThroughput {
  double mean = 0, half_range = 0;
};

LogThroughput log_throughput(const Scenario& scenario, double rate, double cv, Overlap overlap) {
  const Scenario stated = with_anchor(scenario, rate, cv);
  const double as_stated = std::log(predict(stated).report.throughput);
  if (overlap == Overlap::as_stated || rank_count(scenario.cluster) == 1) {
    return {as_stated, 0};
  }
  const double after = std::log(predict(reduced_after_backward(stated)).report.throughput);
  return {(as_stated + after) / 2, std::abs(as_stated - after) / 2};
}

void check_row(const TrainingMeasurement& row, const NodeSpec& node) {
  const std::string place = row.origin.line > 0 ? "line " + std::to_string(row.origin.line) : "";
  if (row.nodes < 1 || row.ranks < 1 || row.ranks % row.nodes != 0 || row.ranks / row.nodes > node.gpus) {
    throw InputError("expected GPUs that are the same number on each node and at most its " +
                         std::to_string(node.gpus) + ", found " + std::to_string(row.ranks) + " GPUs on " +
                         std::to_string(row.nodes) + " nodes",
                     place, row.origin.file);
  }
  constexpr int kMostPasses = 10'000;  // as training.accumulation
  if (row.accumulation < 0 || row.accumulation > kMostPasses) {
    throw InputError("expected an accumulation of at most " + std::to_string(kMostPasses) +
                         " passes, found " + std::to_string(row.accumulation),
                     place, row.origin.file);
  }
  if (!(row.samples_per_second > 0) || !std::isfinite(row.samples_per_second)) {
    throw InputError("expected a throughput above 0, found " + std::to_string(row.samples_per_second), place,
                     row.origin.file);
  }
}

// The step with kernels that take no time: what no rate of a GPU makes shorter.
double shortest_step(Scenario scenario) {
  scenario.training.measured.reset();
  scenario.training.layer_times.assign(scenario.model.layers.size(), {});
  return predict(scenario).report.step.mean.value;
}

[[noreturn]] void refuse_anchor(const Scenario& scenario, const TrainingMeasurement& row) {
  const double samples = static_cast<double>(scenario.training.batch_per_gpu) *
                         scenario.training.accumulation * static_cast<double>(row.ranks);
  throw InputError(
      formatted("expected a step that leaves time for kernels: %g samples/s are a step of %.4g ms, and "
                "communication, copies, launches and the optimizer alone take %.4g ms",
                row.samples_per_second, 1e3 * samples / row.samples_per_second,
                1e3 * shortest_step(scenario)),
      row.origin.line > 0 ? "line " + std::to_string(row.origin.line) : "", row.origin.file);
}

// Without a one-GPU row: the rate with which the smallest row, its delays at their default, is met. The
// throughput grows with it, more slowly where communication comes to light: false position (Illinois).
double rate_behind(const Scenario& base, const TrainingMeasurement& row, double cv, Overlap overlap) {
  constexpr double kEnough = 1e-7, kMostStep = 1;
  const Scenario scenario = on_row(base, row);
  // Of ln(throughput), at ln(rate); -infinity where no GPU is that fast.
  const auto missing = [&](double log_rate) {
    try {
      return std::log(row.samples_per_second) -
             log_throughput(scenario, std::exp(log_rate), cv, overlap).mean;
    } catch (const InputError& error) {
      if (error.place() != "/training/measured") {
        throw;
      }
      return -std::numeric_limits<double>::infinity();
    }
  };
  struct End {
    double rate = 0, missing = 0;
  };
  std::optional<End> slow, fast;
  double rate = std::log(row.samples_per_second / row.ranks);
  for (double off = missing(rate); std::abs(off) > kEnough; off = missing(rate)) {
    std::optional<End>&end = off > 0 ? slow : fast, &other = off > 0 ? fast : slow;
    if (end && other) {
      other->missing /= 2;
    }
    end = End{rate, off};
    if (!slow || !fast) {
      rate += std::clamp(off, -kMostStep, kMostStep);
      continue;
    }
    if (fast->rate - slow->rate < kEnough) {
      refuse_anchor(scenario, row);
    }
    const double part = std::isinf(fast->missing)
                            ? 0.5
                            : std::clamp(slow->missing / (slow->missing - fast->missing), 0.01, 0.99);
    rate = slow->rate + part * (fast->rate - slow->rate);
  }
  return std::exp(rate);
}

FittedValue fit_rate(const Scenario& base, std::span<const TrainingMeasurement> rows, Overlap overlap) {
  double sum = 0, count = 0;
  const TrainingMeasurement* smallest = nullptr;
  for (const TrainingMeasurement& row : rows) {
    if (row.ranks == 1) {
      sum += std::log(row.samples_per_second);
      ++count;
    }
    if (smallest == nullptr || row.ranks < smallest->ranks) {
      smallest = &row;
    }
  }
  const auto within = [](double rate, double deviation, bool determined, std::string why) {
    const double factor = std::exp(kNormal90 * deviation);
    return FittedValue{rate, rate / factor, rate * factor, determined, std::move(why)};
  };
  if (count > 0) {
    return within(std::exp(sum / count), kRowDeviation / std::sqrt(count), true, "measured on one GPU");
  }
  if (base.training.measured) {
    return within(base.training.measured->value, kRowDeviation, false,
                  "training.measured of the scenario: no row has one GPU");
  }
  const DelayPrior& delays = prior(base.training);
  const double rate = rate_behind(base, *smallest, delays.median, overlap);
  FittedValue fitted = within(rate, kRowDeviation, true,
                              "from " + std::to_string(smallest->ranks) + " GPUs, delays at their default");
  fitted.low = std::min(fitted.low, rate_behind(base, *smallest, delays.low, overlap));
  fitted.high = std::max(fitted.high, rate_behind(base, *smallest, delays.high, overlap));
  return fitted;
}

// ln(predicted / measured) of each row.
std::vector<double> residuals(const Scenario& base, std::span<const TrainingMeasurement> rows, double rate,
                              double cv, Overlap overlap) {
  std::vector<double> all;
  for (const TrainingMeasurement& row : rows) {
    all.push_back(log_throughput(on_row(base, row), rate, cv, overlap).mean -
                  std::log(row.samples_per_second));
  }
  return all;
}

double mean_size(std::span<const double> values) {
  double sum = 0;
  for (const double v : values) {
    sum += std::abs(v);
  }
  return sum / static_cast<double>(values.size());
}

FittedValue default_delays(const TrainingSpec& training, const std::string& reason) {
  const DelayPrior& delays = prior(training);
  const char* const by = training.strategy == StrategyKind::ddp ? "default by precision: " : "none assumed: ";
  return {delays.median, delays.low, delays.high, false, by + reason};
}

// Gauss-Newton with one parameter: ln of the throughput falls smoothly with cv, as the same draws are scaled.
void fit_delays(const Scenario& base, std::span<const TrainingMeasurement> rows, TrainingFit& fit) {
  constexpr double kMostDelay = 1, kEnough = 1e-5, kLeastInformation = 1e-4;
  constexpr int kMostSteps = 20;
  double cv = prior(base.training).median, information = 0;
  std::vector<double> off;
  for (int i = 0; i < kMostSteps; ++i) {
    const double step = cv < kMostDelay / 2 ? 0.002 + cv / 50 : -cv / 50;
    off = residuals(base, rows, fit.one_gpu_rate.value, cv, fit.overlap);
    const std::vector<double> moved = residuals(base, rows, fit.one_gpu_rate.value, cv + step, fit.overlap);
    double gradient = 0;
    information = 0;
    for (std::size_t r = 0; r < off.size(); ++r) {
      const double slope = (moved[r] - off[r]) / step;
      gradient += slope * off[r];
      information += slope * slope;
    }
    if (!(information > kLeastInformation)) {
      fit.delay_cv = default_delays(base.training, "the rows don't depend on it (input-bound?)");
      fit.mean_error = mean_size(off);
      return;
    }
    const double next = std::clamp(cv - gradient / information, 0.0, kMostDelay);
    const double change = std::abs(next - cv);
    cv = next;
    if (change < kEnough) {
      break;
    }
  }
  fit.mean_error = mean_size(off);
  // A row's own error, and that of the anchor, which moves all rows alike.
  const double row = std::max(kRowDeviation, fit.mean_error);
  const double deviation =
      std::hypot(row / std::sqrt(information),
                 kRowDeviation / std::sqrt(information / static_cast<double>(rows.size())));
  fit.delay_cv = {cv, std::max(0.0, cv - kNormal90 * deviation),
                  std::min(kMostDelay, cv + kNormal90 * deviation), true,
                  "fitted to " + std::to_string(rows.size()) + (rows.size() == 1 ? " row" : " rows") +
                      " with several GPUs"};
  if (cv == 0) {
    fit.delay_cv.why += "; 0: these rows are no slower than the network alone explains";
  }
}

double open_deviation(const TrainingFit& fit, const Scenario& scenario) {
  const OpenDeviation& open = mixed(scenario.training) ? kMixedOpen : kFp32Open;
  const bool more_nodes = node_count(scenario.cluster) > fit.most_nodes;
  const double doublings = std::max(0.0, std::log2(static_cast<double>(rank_count(scenario.cluster)) /
                                                   static_cast<double>(fit.most_ranks)));
  if (more_nodes) {  // measured one and two doublings away; further ones add as independent steps
    return open.across_nodes * std::sqrt(std::max(1.0, doublings / 2));
  }
  return open.in_node * std::sqrt(doublings / 3);
}

}  // namespace

Scenario on_row(Scenario base, const TrainingMeasurement& row) {
  base.cluster.nodes = row.nodes;
  base.cluster.job_nodes = 0;
  base.cluster.gpus_per_node = row.ranks / row.nodes;
  if (row.accumulation > 0) {
    base.training.accumulation = row.accumulation;
  }
  return base;
}

TrainingFit fit_training(const Scenario& base, std::span<const TrainingMeasurement> rows, Overlap overlap) {
  if (rows.empty()) {
    throw InputError("expected at least one measured throughput, found none");
  }
  TrainingFit fit;
  fit.overlap = overlap;
  std::vector<TrainingMeasurement> several;
  for (const TrainingMeasurement& row : rows) {
    check_row(row, base.cluster.node);
    fit.most_ranks = std::max(fit.most_ranks, row.ranks);
    fit.most_nodes = std::max(fit.most_nodes, row.nodes);
    if (row.ranks > 1) {
      several.push_back(row);
    }
  }
  fit.one_gpu_rate = fit_rate(base, rows, overlap);
  const bool one_row_for_both =
      !fit.one_gpu_rate.why.starts_with("measured") && !base.training.measured && several.size() == 1;
  if (several.empty() || one_row_for_both) {
    fit.delay_cv = default_delays(base.training,
                                  several.empty() ? "no row has several GPUs" : "the one row set the rate");
  } else {
    fit_delays(base, several, fit);
  }
  return fit;
}

Scenario apply(const TrainingFit& fit, Scenario scenario) {
  return with_anchor(std::move(scenario), fit.one_gpu_rate.value, fit.delay_cv.value);
}

ThroughputPrediction predict_throughput(const TrainingFit& fit, const Scenario& scenario) {
  const double rate = fit.one_gpu_rate.value;
  const auto at = [&](double cv) { return log_throughput(scenario, rate, cv, fit.overlap); };
  const LogThroughput middle = at(fit.delay_cv.value);
  const double anchor = std::log(fit.one_gpu_rate.high / fit.one_gpu_rate.low) / 2;
  const double open = kNormal90 * open_deviation(fit, scenario);
  double slower = 0, faster = 0;
  if (rank_count(scenario.cluster) > 1 && fit.delay_cv.high > fit.delay_cv.low) {
    slower = middle.mean - at(fit.delay_cv.high).mean;
    faster = at(fit.delay_cv.low).mean - middle.mean;
  }
  const auto together = [&](double delays) {
    return std::sqrt(anchor * anchor + delays * delays + open * open + middle.half_range * middle.half_range);
  };
  return {std::exp(middle.mean), std::exp(middle.mean - together(slower)),
          std::exp(middle.mean + together(faster))};
}

}  // namespace paceline
