#include "calibrate/fit/training_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/fit/training_prediction.h"
#include "core/error.h"
#include "core/text.h"
#include "scenarios/limits.h"
#include "scenarios/machines.h"
#include "scenarios/predict.h"
#include "scenarios/readable.h"
#include "sim/engine/variability.h"
#include "sim/layers/layer_spans.h"
#include "sim/strategy/ddp.h"

namespace paceline {
namespace {

constexpr double kRowDeviation = 0.003;  // of ln of a throughput: how closely rows of one table are met

// A little below 0, for noise; and layers of 100,000 GPUs still take time.
constexpr double kLeastDoubling = -0.05, kMostDoubling = 1;
// What a row is missed by, ln(fitted / measured), where the form can't be what was measured.
constexpr double kMissed = 0.1;

std::string place_of(const TrainingMeasurement& row) {
  return row.origin.line > 0 ? "line " + std::to_string(row.origin.line) : "";
}

void check_row(const TrainingMeasurement& row, const NodeSpec& node) {
  const auto fail = [&](const std::string& text) { throw InputError(text, place_of(row), row.origin.file); };
  if (row.nodes < 1 || row.ranks < 1 || row.ranks % row.nodes != 0 || row.ranks / row.nodes > node.gpus) {
    fail("expected GPUs that are the same number on each node and at most its " + std::to_string(node.gpus) +
         ", found " + std::to_string(row.ranks) + " GPUs on " + std::to_string(row.nodes) + " nodes");
  }
  if (row.accumulation < 0 || row.accumulation > kMostPasses) {
    fail("expected an accumulation of at most " + std::to_string(kMostPasses) + " passes, found " +
         std::to_string(row.accumulation));
  }
  if (!(row.samples_per_second > 0) || !std::isfinite(row.samples_per_second)) {
    fail("expected a throughput above 0, found " + std::to_string(row.samples_per_second));
  }
}

// A row's step without delays, as a function of how many times as long layers take as they are priced.
class RowStep {
 public:
  RowStep(const Scenario& base, const TrainingMeasurement& row, Machines& machines,
          const std::function<void()>& simulated)
      : scenario_(with_few_steps(on_row(base, row))), machines_(machines), simulated_(simulated) {
    const GpuCosts costs{scenario_.gpu, scenario_.training.roofline, scenario_.training.precision};
    TrainingSpec& training = scenario_.training;
    training.measured.clear();
    scenario_.variability.delays = {};
    if (training.layer_times.empty()) {
      for (const LayerTime& t : layer_times(costs, scenario_.model, training.batch_per_gpu)) {
        training.layer_times.push_back({t.forward, t.backward});
      }
    }
    priced_ = training.layer_times;
  }

  // ln of the time at ln of the factor; next to a simulated point along its slope.
  double at(double log_factor) {
    constexpr double kNear = 1e-4;
    const auto known = std::ranges::find_if(
        points_, [&](const Point& p) { return std::abs(p.log_factor - log_factor) < kNear; });
    if (known != points_.end()) {
      return known->log_step + slope() * (log_factor - known->log_factor);
    }
    points_.push_back({log_factor, simulate(log_factor)});
    return points_.back().log_step;
  }
  // Of ln of the time over ln of the factor: between the last two points. Horovod's cycles make stairs of it: where
  // these lie on one, or beside an edge, between points further apart. Where kernels hide, all slopes are small.
  // 0: none of them tells.
  double slope() {
    constexpr double kStep = 0.02, kFurther = 4, kFurthest = 4, kLeast = 0.2, kMost = 1.5;
    const auto from_last = [&](const Point& p) {
      return (points_.back().log_step - p.log_step) / (points_.back().log_factor - p.log_factor);
    };
    const auto rises = [&](const Point& p) { return from_last(p) > 0 && from_last(p) <= kMost; };
    const auto told = [&](const Point& p) { return rises(p) && from_last(p) >= kLeast; };
    if (points_.empty()) {
      points_.push_back({0, simulate(0)});
    }
    auto other = std::find_if(points_.rbegin() + 1, points_.rend(), told);
    for (double step = kStep; other == points_.rend() && step < kFurthest; step *= kFurther) {
      const double log_factor = points_.back().log_factor + step;
      points_.insert(points_.begin(), {log_factor, simulate(log_factor)});
      other = std::find_if(points_.rbegin() + 1, points_.rend(), told);
    }
    other = other == points_.rend() ? std::find_if(points_.rbegin() + 1, points_.rend(), rises) : other;
    return other == points_.rend() ? 0 : from_last(*other);
  }
  // With kernels that take no time: what no rate of a GPU makes shorter.
  double shortest() { return simulate(-30); }

  double samples() const { return samples_of_step(scenario_); }
  const Scenario& scenario() const { return scenario_; }
  // ln of the sum of the layers' times as priced, for a first guess.
  double log_priced() const {
    double sum = 0;
    for (const ExplicitLayerTime& t : priced_) {
      sum += t.forward.value + t.backward.value;
    }
    return std::log(sum * scenario_.training.accumulation);
  }

 private:
  struct Point {
    double log_factor = 0, log_step = 0;
  };

  double simulate(double log_factor) {
    std::vector<ExplicitLayerTime>& times = scenario_.training.layer_times;
    for (std::size_t l = 0; l < times.size(); ++l) {
      times[l] = {priced_[l].forward * std::exp(log_factor), priced_[l].backward * std::exp(log_factor)};
    }
    simulated_();
    return log_step(scenario_, machines_).mean;
  }

  Scenario scenario_;
  Machines& machines_;
  const std::function<void()>& simulated_;
  std::vector<ExplicitLayerTime> priced_;
  std::vector<Point> points_;
};

// A row of the fit: its step as a function of the parameters (ln factor of each batch; delays).
struct FitRow {
  TrainingMeasurement measured;
  RowStep step;
  Eigen::Index batch = 0;  // its parameter
  double doublings = 0;    // delay_factor's coefficient of per_doubling
  bool several = false;
};

struct Residual {
  double off = 0;  // ln(predicted / measured) of the step
  Eigen::VectorXd slopes;
};

Residual residual_of(FitRow& row, const Eigen::VectorXd& at) {
  const Eigen::Index delays = at.size() - 2;
  const double factor = 1 + at[delays + 1] * row.doublings;
  const double kernels = std::exp(row.step.at(at[row.batch] + std::log(factor)));
  const double step = kernels + (row.several ? at[delays] : 0);
  const double share = kernels * row.step.slope() / step;
  Residual residual{std::log(step) - std::log(row.step.samples() / row.measured.samples_per_second),
                    Eigen::VectorXd::Zero(at.size())};
  residual.slopes[row.batch] = share;
  residual.slopes[delays] = row.several ? 1 / step : 0;
  residual.slopes[delays + 1] = share * row.doublings / factor;
  return residual;
}

[[noreturn]] void refuse_anchor(FitRow& row) {
  throw InputError(
      formatted("expected a step that leaves time for kernels: %g samples/s are a step of %.4g ms, and "
                "communication, copies, launches and the optimizer alone take %.4g ms",
                row.measured.samples_per_second, 1e3 * row.step.samples() / row.measured.samples_per_second,
                1e3 * std::exp(row.step.shortest())),
      place_of(row.measured), row.measured.origin.file);
}

// No delay makes GPUs faster the more they are. The row that is fastest beside the fit is named.
[[noreturn]] void refuse_gain(const std::vector<TrainingRow>& rows) {
  const TrainingMeasurement& row = std::ranges::max_element(rows, {}, [](const TrainingRow& each) {
                                     return each.row.samples_per_second / each.samples_per_second;
                                   })->row;
  const bool own_rate =
      std::ranges::any_of(rows, [](const TrainingRow& each) { return each.row.origin.file.empty(); });
  throw InputError(
      formatted(
          "expected throughputs that grow no faster than the GPUs, found %g samples/s of %s on %s, more "
          "for each than %s: %s of one model, batch and precision, and of one machine?",
          row.samples_per_second, plural(row.ranks, "GPU").c_str(), plural(row.nodes, "node").c_str(),
          own_rate ? "the scenario's own rate of one GPU allows (training.measured, which counts as a row)"
                   : "the other rows allow",
          own_rate ? "both" : "rows"),
      place_of(row), row.origin.file);
}

// Gauss-Newton on the posterior; parameters stay where they make sense.
class Posterior {
 public:
  explicit Posterior(std::vector<FitRow> rows) : rows_(std::move(rows)) {
    const Eigen::Index batches = std::ranges::max_element(rows_, {}, &FitRow::batch)->batch + 1;
    mean_ = Eigen::VectorXd::Zero(batches + 2);
    mean_.tail(2) << kTypicalDelays.per_step.value, kTypicalDelays.per_doubling;
    precision_ = Eigen::MatrixXd::Zero(batches + 2, batches + 2);
    precision_.diagonal().tail(2) << 1 / std::pow(kDelayDeviations.per_step.value, 2),
        1 / std::pow(kDelayDeviations.per_doubling, 2);
    at_ = mean_;
    std::vector<bool> guessed(static_cast<std::size_t>(batches));
    for (FitRow& row : rows_) {  // by ascending GPUs
      if (!guessed[static_cast<std::size_t>(row.batch)]) {
        guessed[static_cast<std::size_t>(row.batch)] = true;
        at_[row.batch] =
            std::log(row.step.samples() / row.measured.samples_per_second) - row.step.log_priced();
      }
    }
  }

  // What has no stairs has converged after a few steps. Then, where one made it worse, half of it is tried.
  void solve() {
    constexpr int kFew = 10, kMostSteps = 40;
    constexpr double kEnough = 1e-6, kMostChange = 1;
    Eigen::VectorXd best = at_;
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kMostSteps; ++i) {
      if (const double misfit = this->misfit(); misfit < least) {
        least = misfit;
        best = at_;
      } else if (i >= kFew && (at_ - best).cwiseAbs().maxCoeff() < kEnough) {
        break;
      } else if (i >= kFew) {
        at_ = 0.5 * (at_ + best);
        continue;
      }
      Eigen::VectorXd gradient;
      Eigen::MatrixXd curvature = curvature_at(&gradient, false);
      hold_at_bounds(gradient, curvature);
      Eigen::VectorXd change = curvature.ldlt().solve(-gradient);
      change *= std::min(1.0, kMostChange / std::max(change.cwiseAbs().maxCoeff(), 1e-300));
      const Eigen::VectorXd before = at_;
      at_ += change;
      Eigen::Index n = at_.size();
      at_[n - 2] = std::max(at_[n - 2], 0.0);
      at_[n - 1] = std::clamp(at_[n - 1], kLeastDoubling, kMostDoubling);
      for (FitRow& row : rows_) {
        if (at_[row.batch] < -25) {
          refuse_anchor(row);
        }
      }
      if ((at_ - before).cwiseAbs().maxCoeff() < kEnough) {
        return;
      }
    }
    at_ = best;
  }

  const Eigen::VectorXd& at() const { return at_; }
  std::vector<FitRow>& rows() { return rows_; }
  Eigen::MatrixXd covariance() { return curvature_at(nullptr, true).inverse(); }

 private:
  double misfit() {
    double sum = (at_ - mean_).dot(precision_ * (at_ - mean_));
    for (FitRow& row : rows_) {
      sum += std::pow(residual_of(row, at_).off / kRowDeviation, 2);
    }
    return sum;
  }

  // repeated: rows count with what differs when a run is repeated, or with how far the fit misses them.
  Eigen::MatrixXd curvature_at(Eigen::VectorXd* gradient, bool repeated) {
    std::vector<Residual> all;
    double squares = 0;
    for (FitRow& row : rows_) {
      all.push_back(residual_of(row, at_));
      squares += all.back().off * all.back().off;
    }
    const double missed = std::sqrt(squares / static_cast<double>(all.size()));
    Eigen::MatrixXd curvature = precision_;
    Eigen::VectorXd down = precision_ * (at_ - mean_);
    for (std::size_t r = 0; r < all.size(); ++r) {
      const double deviation = repeated ? std::max(kRepeatDeviation, missed) : kRowDeviation;
      const double weight = 1 / (deviation * deviation);
      curvature += weight * all[r].slopes * all[r].slopes.transpose();
      down += weight * all[r].off * all[r].slopes;
    }
    if (gradient != nullptr) {
      *gradient = down;
    }
    return curvature;
  }

  // A time per step at 0 that would fall stays there.
  void hold_at_bounds(Eigen::VectorXd& gradient, Eigen::MatrixXd& curvature) const {
    const Eigen::Index k = at_.size() - 2;
    if (at_[k] <= 0 && gradient[k] > 0) {
      gradient[k] = 0;
      curvature.row(k).setZero();
      curvature.col(k).setZero();
      curvature(k, k) = 1;
    }
  }

  std::vector<FitRow> rows_;
  Eigen::VectorXd mean_, at_;
  Eigen::MatrixXd precision_;
};

std::int64_t batch_of(const Scenario& base, const TrainingMeasurement& row) {
  return row.batch_per_gpu > 0 ? row.batch_per_gpu : base.training.batch_per_gpu;
}

// What one GPU does with the batch of a measured rate, which may have been measured with other checkpointing.
double rate_of_one(const Scenario& base, const MeasuredRate& rate) {
  if (rate.activation_checkpointing == base.training.activation_checkpointing &&
      rate.recompute_every == base.training.recompute_every) {
    return rate.rate.value;
  }
  Scenario one = base;
  one.cluster.nodes = one.cluster.gpus_per_node = 1;
  one.cluster.job_nodes = 0;
  one.variability = {};
  one.training.measured = {rate};
  one.training.batch_per_gpu = rate.batch_per_gpu;
  one.training.accumulation = rate.accumulation;
  return predict(with_few_steps(one)).report.throughput;
}

// The rows, and the scenario's own rates where no row has one GPU; by ascending GPUs.
std::vector<TrainingMeasurement> all_rows(const Scenario& base, std::span<const TrainingMeasurement> rows) {
  std::vector<TrainingMeasurement> all(rows.begin(), rows.end());
  if (std::ranges::none_of(rows, [](const TrainingMeasurement& row) { return row.ranks == 1; })) {
    for (const MeasuredRate& rate : pinned_rates(base.training)) {
      TrainingMeasurement one;
      one.samples_per_second = rate_of_one(base, rate);
      one.batch_per_gpu = rate.batch_per_gpu;
      one.accumulation = rate.accumulation;
      all.push_back(one);
    }
  }
  std::ranges::stable_sort(all, {}, &TrainingMeasurement::ranks);
  return all;
}

// Each batch has a parameter, by ascending batch.
std::vector<FitRow> fit_rows(const Scenario& base, std::span<const TrainingMeasurement> rows,
                             Machines& machines, const std::function<void()>& simulated) {
  std::set<std::int64_t> batches;
  for (const TrainingMeasurement& row : rows) {
    batches.insert(batch_of(base, row));
  }
  std::vector<FitRow> all;
  std::set<Eigen::Index> begun;
  for (const TrainingMeasurement& row : rows) {
    FitRow one{row, RowStep(base, row, machines, simulated), 0, 0, row.ranks > 1};
    one.batch = std::distance(batches.begin(), batches.find(batch_of(base, row)));
    one.doublings = delay_factor({{}, 1}, row.ranks, one.step.scenario().training.accumulation) - 1;
    const bool smallest = begun.insert(one.batch).second;
    const bool communicates = one.several || base.training.strategy == StrategyKind::parameter_server;
    if (smallest && communicates &&
        std::exp(one.step.shortest()) >= one.step.samples() / row.samples_per_second) {
      refuse_anchor(one);
    }
    all.push_back(std::move(one));
  }
  return all;
}

// One GPU's rate at a factor of the layers' priced times, and the slope of its ln: of a GPU without servers,
// though the row that tells the factor may have been measured with them.
struct LoneRate {
  MeasuredRate rate;
  double slope = 0;
};

LoneRate lone_rate(const Scenario& base, const FitRow& like, double log_factor, Machines& machines,
                   const std::function<void()>& simulated) {
  TrainingMeasurement alone = like.measured;
  alone.ranks = alone.nodes = 1;
  Scenario without_servers = base;
  if (base.training.strategy == StrategyKind::parameter_server) {
    without_servers.training.strategy = StrategyKind::ddp;
  }
  RowStep step(without_servers, alone, machines, simulated);
  const double log_step = step.at(log_factor);
  TrainingSpec measured = step.scenario().training;
  measured.measured = {{SamplesPerSecond(step.samples() / std::exp(log_step))}};
  return {pinned_rates(measured).front(), -step.slope()};
}

// A rate that no GPU reaches is an error of the row that it comes from.
void check_rates(const Scenario& base, const std::vector<MeasuredRate>& rates,
                 const TrainingMeasurement& row) {
  Scenario scenario = base;
  for (const MeasuredRate& rate : rates) {
    scenario.training.measured = {rate};
    scenario.training.batch_per_gpu = rate.batch_per_gpu;
    try {
      static_cast<void>(layer_spans(scenario.model,
                                    {scenario.gpu, scenario.training.roofline, scenario.training.precision},
                                    scenario.training));
    } catch (const InputError& error) {
      throw row.origin.file.empty() ? error : InputError(error.message(), place_of(row), row.origin.file);
    }
  }
}

}  // namespace

Scenario on_row(Scenario base, const TrainingMeasurement& row) {
  const auto refuse = [](bool given, const char* place) {
    if (given) {
      throw InputError("expected none beside measured rows, each of which has GPUs of its own, found some",
                       place);
    }
  };
  refuse(!base.training.batches.empty(), "/training/batches");
  refuse(base.training.balance.has_value(), "/training/balance");
  refuse(!base.background.empty(), "/background");
  refuse(!base.other_jobs.empty(), "/other_jobs");
  refuse(!base.gpus.empty(), "/cluster/gpus");
  base.cluster.job_nodes = 0;
  base.cluster.gpus_per_node = row.ranks / row.nodes;
  base = on_first_nodes(std::move(base), row.nodes);
  base.training.measured = pinned_rates(base.training);
  base.training.batch_per_gpu = batch_of(base, row);
  base.training.accumulation = row.accumulation > 0 ? row.accumulation : base.training.accumulation;
  std::int64_t& servers = base.training.parameter_server.servers.count;
  servers = row.servers > 0 ? row.servers : servers;
  return base;
}

std::vector<TrainingMeasurement> in_samples(std::vector<TrainingMeasurement> rows, const Model& model) {
  for (TrainingMeasurement& row : rows) {
    if (row.tokens_per_second == 0) {
      continue;
    }
    if (model.tokens == 0) {
      throw InputError("expected samples/s, as samples of " + model.name + " have no tokens, found tokens/s",
                       place_of(row), row.origin.file);
    }
    row.samples_per_second = row.tokens_per_second / static_cast<double>(model.tokens);
  }
  return rows;
}

TrainingFit fit_training(const Scenario& base, std::span<const TrainingMeasurement> rows,
                         const FitProgress& progress) {
  if (rows.empty()) {
    throw InputError("expected at least one measured throughput, found none");
  }
  TrainingFit whole;
  ProfileTraining& fit = whole.result;
  fit.model = base.model.name;
  fit.precision = name_of(base.training.precision);
  for (const TrainingMeasurement& row : rows) {
    check_row(row, base.cluster.node);
    fit.most_ranks = std::max(fit.most_ranks, row.ranks);
    fit.most_nodes = std::max(fit.most_nodes, row.nodes);
  }
  constexpr std::size_t kUsually = 7;  // simulations of a row
  std::size_t simulations = 0;
  const std::function<void()> simulated = [&] {
    ++simulations;
    if (progress) {
      progress("throughput", simulations, std::max(simulations, kUsually * rows.size()));
    }
  };
  Machines machines;
  const std::vector<TrainingMeasurement> all = all_rows(base, rows);
  Posterior posterior(fit_rows(base, all, machines, simulated));
  posterior.solve();
  const Eigen::VectorXd at = posterior.at();
  Eigen::MatrixXd covariance = posterior.covariance();
  const Eigen::Index batches = at.size() - 2;
  fit.delays = {Seconds(at[batches]), at[batches + 1]};
  fit.reduction_known = base.training.ddp.reduction != Reduction::unknown;
  fit.delays_fitted = fit.most_ranks > 1 && static_cast<Eigen::Index>(all.size()) > batches;
  for (Eigen::Index batch = 0; batch < batches; ++batch) {
    const FitRow& like = *std::ranges::find(posterior.rows(), batch, &FitRow::batch);
    const LoneRate lone = lone_rate(base, like, at[batch], machines, simulated);
    fit.rates.push_back(lone.rate);
    covariance.row(batch) *= lone.slope;
    covariance.col(batch) *= lone.slope;
  }
  for (FitRow& row : posterior.rows()) {
    whole.rows.push_back(
        {row.measured, row.measured.samples_per_second * std::exp(-residual_of(row, at).off)});
  }
  if (fit.delays.per_doubling <= kLeastDoubling) {
    refuse_gain(whole.rows);
  }
  fit.covariance.assign(covariance.data(), covariance.data() + covariance.size());
  check_rates(base, fit.rates, all.front());
  return whole;
}

namespace {

// "8 GPUs", "16 GPUs on 2 nodes"
std::string row_place(const TrainingMeasurement& row) {
  return plural(row.ranks, "GPU") + (row.nodes > 1 ? " on " + plural(row.nodes, "node") : "");
}

// In what the row was stated in.
struct StatedRates {
  double measured = 0, fitted = 0;
  const char* unit = "samples/s";
};

StatedRates stated(const TrainingRow& row) {
  const double samples = row.row.samples_per_second, tokens = row.row.tokens_per_second;
  return tokens > 0 ? StatedRates{tokens, row.samples_per_second * (tokens / samples), "tokens/s"}
                    : StatedRates{samples, row.samples_per_second};
}

}  // namespace

std::string fit_text(const TrainingFit& fit) {
  const std::vector<MeasuredRate>& rates = fit.result.rates;
  const DelaySpec& delays = fit.result.delays;
  const std::vector<double>& covariance = fit.result.covariance;
  std::string text;
  for (const MeasuredRate& rate : rates) {
    text += formatted("one GPU: %.6g samples/s with batch %lld", rate.rate.value,
                      static_cast<long long>(rate.batch_per_gpu)) +
            (rate.accumulation > 1 ? formatted(" x %d", rate.accumulation) : "") + "\n";
  }
  const std::size_t n = rates.size() + 2;
  const auto half = [&](std::size_t i) { return kNinety * std::sqrt(covariance[i * n + i]); };
  text += formatted(
      "several GPUs: %.3g ms a step (90 %%: +- %.2g), %.2g %% for each doubling (+- %.2g)%s\n",
      1e3 * delays.per_step.value, 1e3 * half(n - 2), 100 * delays.per_doubling, 100 * half(n - 1),
      fit.result.delays_fitted ? "" : ", as published runs lose: these rows determine the rates alone");
  for (const TrainingRow& row : fit.rows) {
    const StatedRates rates_of_row = stated(row);
    text +=
        "  " + row_place(row.row) +
        formatted(": measured %.6g, fitted %.6g %s (%+.2f %%)\n", rates_of_row.measured, rates_of_row.fitted,
                  rates_of_row.unit, 100 * (rates_of_row.fitted / rates_of_row.measured - 1));
  }
  for (const TrainingRow& row : fit.rows) {
    const double off = std::log(row.samples_per_second / row.row.samples_per_second);
    if (std::abs(off) > kMissed) {
      const std::string line = place_of(row.row);
      text += "implausible: " + row_place(row.row) +
              (line.empty() ? "" : " (" + row.row.origin.file + ", " + line + ')') +
              formatted(": %.6g %s are not what the other rows lead to, %.6g\n", stated(row).measured,
                        stated(row).unit, stated(row).fitted);
    }
  }
  return text;
}

}  // namespace paceline
