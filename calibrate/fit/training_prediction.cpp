#include "calibrate/fit/training_prediction.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "scenarios/predict.h"
#include "sim/engine/variability.h"
#include "sim/layers/layer_spans.h"

namespace paceline {
namespace {

// What the model leaves open beyond the rows, deviations of ln(predicted / measured) over the sets of
// scenarios/validation (docs/accuracy.md): for each root of a doubling of GPUs inside the node, when the node
// is left, for each root of a further doubling of nodes, and for each factor e between the batch and the
// nearest measured one.
constexpr double kOpenInNode = 0.015, kOpenAcross = 0.06, kOpenDoubling = 0.02, kOpenBatch = 0.03;
// Over TCP sockets, which the hosts' processors decide, beside that.
constexpr double kOpenSockets = 0.2;

// Where one GPU alone was measured, ln of what several may take longer for what is theirs alone: input, the host,
// a limit of the box. A twentieth of the published rows in one node is 8 % slower than predicted on 2 GPUs and
// 16 % from 4 on (families weighing alike), and none is as much faster: docs/accuracy.md.
double unseen_loss(const ProfileTraining& fit, const Scenario& scenario) {
  constexpr double kOfDoubling = 0.073, kDoublings = 2;
  const double gpus = static_cast<double>(gpus_of_job(scenario.cluster));
  return fit.most_ranks == 1 ? kOfDoubling * std::min(std::log2(gpus), kDoublings) : 0;
}

bool reduction_unknown(const Scenario& scenario) {
  return scenario.training.ddp.reduction == Reduction::unknown && gpus_of_job(scenario.cluster) > 1;
}

Scenario reduced_after_backward(Scenario scenario) {
  scenario.training.ddp.reduction = Reduction::after_backward;
  return scenario;
}

// ln of how far the batch is from the nearest measured one.
double batch_distance(const ProfileTraining& fit, std::int64_t batch) {
  double nearest = std::numeric_limits<double>::infinity();
  for (const MeasuredRate& rate : fit.rates) {
    nearest = std::min(
        nearest, std::abs(std::log(static_cast<double>(batch) / static_cast<double>(rate.batch_per_gpu))));
  }
  return nearest;
}

double open_variance(const ProfileTraining& fit, const Scenario& scenario) {
  const auto doublings = [](double now, double then) { return std::max(0.0, std::log2(now / then)); };
  const double nodes = nodes_of_job(scenario.cluster), most = fit.most_nodes;
  const double inside =
      std::min<double>(doublings(static_cast<double>(gpus_of_job(scenario.cluster)), fit.most_ranks),
                       std::log2(static_cast<double>(gpus_of_node(scenario.cluster))));
  double left = most == 1 && nodes > 1 ? kOpenAcross * kOpenAcross : 0;
  if (left > 0 && scenario.cluster.node.network == NetworkKind::tcp) {
    left += kOpenSockets * kOpenSockets;
  }
  return inside * kOpenInNode * kOpenInNode + left +
         doublings(nodes, std::max(most, 2.0)) * kOpenDoubling * kOpenDoubling +
         std::pow(kOpenBatch * batch_distance(fit, scenario.training.batch_per_gpu), 2);
}

// How much of ln(step) each batch's ln(rate) carries: between two measured batches by time, else the nearest.
std::vector<double> shares_of_rates(const ProfileTraining& fit, std::int64_t batch) {
  std::vector<double> shares(fit.rates.size());
  const auto after =
      std::ranges::find_if(fit.rates, [&](const MeasuredRate& rate) { return rate.batch_per_gpu >= batch; });
  if (after == fit.rates.begin() || after == fit.rates.end()) {
    (after == fit.rates.end() ? shares.back() : shares.front()) = 1;
    return shares;
  }
  const auto high = static_cast<std::size_t>(after - fit.rates.begin());
  const double low_batch = static_cast<double>(fit.rates[high - 1].batch_per_gpu),
               part = (static_cast<double>(batch) - low_batch) /
                      (static_cast<double>(after->batch_per_gpu) - low_batch);
  shares[high - 1] = 1 - part;
  shares[high] = part;
  return shares;
}

}  // namespace

LogStep log_step(const Scenario& scenario, Machines& machines) {
  const double stated = std::log(mean_step_of(scenario, machines).value);
  if (!reduction_unknown(scenario)) {
    return {stated, 0};
  }
  const double after = std::log(mean_step_of(reduced_after_backward(scenario), machines).value);
  return {(stated + after) / 2, std::abs(stated - after) / 2};
}

Scenario with_few_steps(Scenario scenario) {
  constexpr int kSteps = 4;
  if (!ranks_differ(scenario.variability) && scenario.background.empty() && scenario.other_jobs.empty()) {
    scenario.run.iterations = std::min(scenario.run.iterations, kSteps);
  }
  return scenario;
}

double samples_of_step(const Scenario& scenario) {
  return static_cast<double>(scenario.training.batch_per_gpu * gpus_of_job(scenario.cluster)) *
         scenario.training.accumulation;
}

Scenario apply(const ProfileTraining& fit, Scenario scenario) {
  scenario.training.measured = fit.rates;
  if (!fit.reduction_known && scenario.training.ddp.reduction == Reduction::pytorch_ddp) {
    scenario.training.ddp.reduction = Reduction::unknown;
  }
  scenario.variability.delays = fit.delays;
  return scenario;
}

ThroughputPrediction predict_throughput(const ProfileTraining& fit, const Scenario& scenario) {
  constexpr double kStep = 0.02;
  Machines machines;
  const Scenario fitted = with_few_steps(apply(fit, scenario));
  const LogStep middle = log_step(fitted, machines);
  Scenario slower = fitted;
  for (MeasuredRate& rate : slower.training.measured) {
    rate.rate = rate.rate * std::exp(-kStep);
  }
  const double share = (log_step(slower, machines).mean - middle.mean) / kStep;
  const bool several = gpus_of_job(scenario.cluster) > 1;
  const double step = std::exp(middle.mean);
  const std::vector<double> shares = shares_of_rates(fit, scenario.training.batch_per_gpu);
  const auto batches = static_cast<Eigen::Index>(shares.size());
  Eigen::VectorXd slopes(batches + 2);
  for (Eigen::Index b = 0; b < batches; ++b) {
    slopes[b] = share * shares[static_cast<std::size_t>(b)];
  }
  const std::int64_t ranks = gpus_of_job(scenario.cluster);
  const int passes = scenario.training.accumulation;
  const double factor = delay_factor(fit.delays, ranks, passes),
               doublings = delay_factor({{}, 1}, ranks, passes) - 1;
  slopes[batches] = several ? 1 / step : 0;
  slopes[batches + 1] = several ? share * doublings / factor : 0;
  const Eigen::Map<const Eigen::MatrixXd> covariance(fit.covariance.data(), batches + 2, batches + 2);
  const double of_fit = slopes.dot(covariance * slopes);
  const double repeat = kRepeatDeviation * kRepeatDeviation;
  const double half =
      std::hypot(kNinety * std::sqrt(of_fit + repeat + open_variance(fit, scenario)), middle.half_range);
  const double samples = samples_of_step(fitted);
  return {samples / step, samples / step * std::exp(-std::hypot(half, unseen_loss(fit, scenario))),
          samples / step * std::exp(half)};
}

}  // namespace paceline
