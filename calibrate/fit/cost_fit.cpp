#include "calibrate/fit/cost_fit.h"

#include <ceres/ceres.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>

#include "calibrate/fit/discrepancy.h"
#include "calibrate/fit/huber.h"
#include "calibrate/fit/planes.h"

namespace paceline {
namespace {

class PointCost final : public ceres::CostFunction {
 public:
  PointCost(const Planes& planes, std::size_t point, const MeasuredPoint& measured)
      : planes_(planes), point_(point), log_time_(measured.log_time), noise_(measured.deviation) {
    set_num_residuals(1);
    mutable_parameter_block_sizes()->push_back(static_cast<int>(planes.parameters().size()));
  }
  bool Evaluate(double const* const* u, double* residual, double** jacobian) const override {
    const auto [seconds, plane, candidate] = planes_.best(point_, u[0]);
    residual[0] = (std::log(seconds) - log_time_) / noise_;
    if (jacobian != nullptr && jacobian[0] != nullptr) {
      std::fill_n(jacobian[0], planes_.parameters().size(), 0.0);
      for (std::size_t s = 0; s < plane->shares.size(); ++s) {
        const std::size_t j = plane->shares[s].first;
        jacobian[0][j] = planes_.parameters()[j].sense * planes_.share_at(*plane, s, u[0]) / seconds / noise_;
      }
    }
    return true;
  }

 private:
  const Planes& planes_;
  std::size_t point_;
  double log_time_, noise_;
};

// What is not known of a value before: u is near 0.
class PriorCost final : public ceres::CostFunction {
 public:
  explicit PriorCost(const std::vector<FreeParameter>& parameters) : parameters_(parameters) {
    set_num_residuals(static_cast<int>(parameters.size()));
    mutable_parameter_block_sizes()->push_back(static_cast<int>(parameters.size()));
  }
  bool Evaluate(double const* const* u, double* residual, double** jacobian) const override {
    const std::size_t n = parameters_.size();
    for (std::size_t j = 0; j < n; ++j) {
      residual[j] = u[0][j] / parameters_[j].prior;
    }
    if (jacobian != nullptr && jacobian[0] != nullptr) {
      std::fill_n(jacobian[0], n * n, 0.0);
      for (std::size_t j = 0; j < n; ++j) {
        jacobian[0][j * n + j] = 1 / parameters_[j].prior;
      }
    }
    return true;
  }

 private:
  const std::vector<FreeParameter>& parameters_;
};

// Minimises over the parameters that are not `held`; returns how far the farthest moved.
double solve(const Planes& planes, const std::vector<MeasuredPoint>& points, const std::vector<int>& held,
             std::vector<double>& u) {
  ceres::Problem problem;
  for (std::size_t p = 0; p < points.size(); ++p) {
    if (points[p].fitted) {
      problem.AddResidualBlock(
          new PointCost(planes, p, points[p]),
          new ceres::ScaledLoss(new ceres::HuberLoss(kHuber), points[p].weight, ceres::TAKE_OWNERSHIP),
          u.data());
    }
  }
  problem.AddResidualBlock(new PriorCost(planes.parameters()), nullptr, u.data());
  for (std::size_t j = 0; j < u.size(); ++j) {
    if (const double most = planes.parameters()[j].most; std::isfinite(most)) {
      problem.SetParameterUpperBound(u.data(), static_cast<int>(j), most);
    }
  }
  if (held.size() == u.size()) {
    return 0;
  }
  if (!held.empty()) {
    problem.SetManifold(u.data(), new ceres::SubsetManifold(static_cast<int>(u.size()), held));
  }
  const std::vector<double> before = u;
  ceres::Solver::Options options;
  options.linear_solver_type = ceres::DENSE_QR;
  options.max_num_iterations = 60;
  options.logging_type = ceres::SILENT;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  double moved = 0;
  for (std::size_t j = 0; j < u.size(); ++j) {
    moved = std::max(moved, std::abs(u[j] - before[j]));
  }
  return moved;
}

// ln of a point's simulated time, and its derivatives by ln(value).
struct Slopes {
  double log_time;
  Eigen::VectorXd by_parameter;
};
Slopes slopes_at(const Planes& planes, std::size_t point, const std::vector<double>& u) {
  const auto [seconds, plane, candidate] = planes.best(point, u.data());
  Slopes slopes{std::log(seconds), Eigen::VectorXd::Zero(static_cast<Eigen::Index>(u.size()))};
  for (std::size_t s = 0; s < plane->shares.size(); ++s) {
    const std::size_t j = plane->shares[s].first;
    slopes.by_parameter(static_cast<Eigen::Index>(j)) =
        planes.parameters()[j].sense * planes.share_at(*plane, s, u.data()) / seconds;
  }
  return slopes;
}

Eigen::MatrixXd information_of_priors(const Planes& planes) {
  Eigen::VectorXd each(static_cast<Eigen::Index>(planes.parameters().size()));
  std::ranges::transform(planes.parameters(), each.begin(),
                         [](const FreeParameter& p) { return 1 / (p.prior * p.prior); });
  return each.asDiagonal();
}

// What points (by how far they are really off) and priors say of ln(value), all parameters.
Eigen::MatrixXd information_of(const Planes& planes, const std::vector<MeasuredPoint>& points,
                               const std::vector<double>& u) {
  const auto n = static_cast<Eigen::Index>(planes.parameters().size());
  Eigen::MatrixXd information = Eigen::MatrixXd::Zero(n, n);
  double squares = 0;
  int counted = 0;
  for (std::size_t p = 0; p < points.size(); ++p) {
    if (!points[p].fitted) {
      continue;
    }
    const Slopes slopes = slopes_at(planes, p, u);
    const double noise = points[p].deviation;
    const Eigen::VectorXd row = slopes.by_parameter / noise;
    const double residual = std::abs(slopes.log_time - points[p].log_time) / noise;
    const double weight = points[p].weight * (residual > kHuber ? kHuber / residual : 1);
    information += weight * row * row.transpose();
    squares += weight * residual * residual;
    ++counted;
  }
  information /= counted > 0 ? std::max(1.0, squares / counted) : 1;
  return information + information_of_priors(planes);
}

// Likewise where the model is off at each place, near sizes alike (discrepancy.h), by what fits leave in published
// tables: twenty sizes of one place then tell much less than twenty places. Points count alike, places independently.
// Only what is held is judged so: intervals add the discrepancy themselves.
Eigen::MatrixXd correlated_information_of(const Planes& planes, const std::vector<MeasuredPlace>& places,
                                          const std::vector<MeasuredPoint>& points,
                                          const std::vector<double>& u) {
  constexpr DiscrepancyScales kLeft{.deviation = 0.08};
  const auto parameters = static_cast<Eigen::Index>(planes.parameters().size());
  Eigen::MatrixXd information = Eigen::MatrixXd::Zero(parameters, parameters);
  double squares = 0;
  Eigen::Index counted = 0;
  for (std::size_t first = 0, end = 0; first < points.size(); first = end) {
    end = end_of_place(points, first);
    std::vector<std::size_t> here;
    for (std::size_t p = first; p < end; ++p) {
      if (points[p].fitted) {
        here.push_back(p);
      }
    }
    if (here.empty()) {
      continue;
    }
    const MeasuredPlace& place = places[points[first].place];
    const auto at = [&](std::size_t p) {
      return DiscrepancyPoint{place.kind, place.nodes(), place.gpus_per_node(), points[p].bytes, 0, 0};
    };
    const auto n = static_cast<Eigen::Index>(here.size());
    Eigen::MatrixXd rows(n, parameters), covariances(n, n);
    Eigen::VectorXd residuals(n);
    for (Eigen::Index i = 0; i < n; ++i) {
      const std::size_t p = here[static_cast<std::size_t>(i)];
      const Slopes slopes = slopes_at(planes, p, u);
      rows.row(i) = slopes.by_parameter;
      residuals(i) = slopes.log_time - points[p].log_time;
      for (Eigen::Index j = 0; j < n; ++j) {
        covariances(i, j) = covariance(at(p), at(here[static_cast<std::size_t>(j)]), kLeft);
      }
      covariances(i, i) += std::pow(points[p].deviation, 2);
    }
    const Eigen::LLT<Eigen::MatrixXd> factor(covariances);
    information += rows.transpose() * factor.solve(rows);
    squares += residuals.dot(factor.solve(residuals));
    counted += n;
  }
  information /= counted > 0 ? std::max(1.0, squares / static_cast<double>(counted)) : 1;
  return information + information_of_priors(planes);
}

// The inverse over those that are not held.
Eigen::MatrixXd covariance_of(Eigen::MatrixXd information, const std::vector<int>& held) {
  constexpr double kFixed = 1e12;
  for (const int j : held) {
    information(j, j) += kFixed;
  }
  return information.inverse();
}

// What the data can't tell keeps its value: one after the other, the least determined first, since of two
// that only act together one can be told once the other is held. What ends at its bound is asked for beyond it, unless
// the data say next to nothing of it.
void hold_undetermined(const Planes& planes, const Eigen::MatrixXd& information, std::vector<double>& u,
                       std::vector<int>& held) {
  constexpr double kDetermined = 0.5, kBounded = 0.8;  // of the prior deviation
  constexpr double kRounding = 1e-6;                   // of ln(value)
  while (held.size() < u.size()) {
    const Eigen::MatrixXd covariance = covariance_of(information, held);
    int worst = -1;
    double largest = 0;
    for (int j = 0; j < static_cast<int>(u.size()); ++j) {
      const FreeParameter& parameter = planes.parameters()[static_cast<std::size_t>(j)];
      const double ratio = std::sqrt(covariance(j, j)) / parameter.prior;
      const bool at_bound = u[static_cast<std::size_t>(j)] >= parameter.most - kRounding;
      if (ratio > std::max(largest, at_bound ? kBounded : kDetermined) && std::ranges::count(held, j) == 0) {
        largest = ratio;
        worst = j;
      }
    }
    if (worst < 0) {
      return;
    }
    held.push_back(worst);
    u[static_cast<std::size_t>(worst)] = 0;
  }
}

void fill_ranges(const Planes& planes, const std::vector<MeasuredPlace>& places,
                 const std::vector<MeasuredPoint>& points, const std::vector<double>& u,
                 std::vector<FittedParameter>& parameters) {
  constexpr double kBears = 0.02;  // of the time
  for (std::size_t p = 0; p < points.size(); ++p) {
    if (!points[p].fitted) {
      continue;
    }
    const auto [seconds, plane, candidate] = planes.best(p, u.data());
    const int ranks = places[points[p].place].ranks();
    for (std::size_t s = 0; s < plane->shares.size(); ++s) {
      if (planes.share_at(*plane, s, u.data()) < kBears * seconds) {
        continue;
      }
      FittedParameter& parameter = parameters[plane->shares[s].first];
      const bool first = parameter.fewest_ranks == 0;
      parameter.least = first ? points[p].bytes : std::min(parameter.least, points[p].bytes);
      parameter.most = std::max(parameter.most, points[p].bytes);
      parameter.fewest_ranks = first ? ranks : std::min(parameter.fewest_ranks, ranks);
      parameter.most_ranks = std::max(parameter.most_ranks, ranks);
    }
  }
}

// ln(measured / simulated) of each point with these values in place of the defaults.
std::vector<double> log_ratios(const std::vector<MeasuredPlace>& places,
                               const std::vector<MeasuredPoint>& points, AlgorithmChoice choose,
                               std::span<const CostParameter> values, const FitProgress& progress,
                               int threads) {
  std::vector<double> ratios(points.size());
  for (std::size_t first = 0, end = 0; first < points.size(); first = end) {
    end = end_of_place(points, first);
    const std::size_t place = points[first].place;
    if (progress) {
      progress("places compared with the fit", place, places.size());
    }
    PlaceModel model(places[place], sizes_of(points, first, end), choose, {}, threads);
    CollectiveCosts costs = model.costs();
    set_costs(values, costs);
    const std::vector<double> logs = model.log_times(costs);
    for (std::size_t p = first; p < end; ++p) {
      ratios[p] = points[p].log_time - logs[p - first];
    }
  }
  return ratios;
}

}  // namespace

double prior_deviation(const std::string& name) {
  if (name == "block.copy_rate") {
    return 0.1;  // of a GPU, wherever it stands
  }
  if (name == "nvlink.efficiency" || name == "pcie.efficiency" || name == "network.efficiency" ||
      name == "host.efficiency" || name == "nvls.efficiency") {
    return 0.15;
  }
  if (name == "launch.latency") {
    return 2.5;  // with frameworks, tens of microseconds
  }
  if (name == "launch.period") {
    return 1.5;  // one process launches for one GPU or for eight
  }
  return name.ends_with("efficiency") || name.ends_with("rate") ? 0.4 : 0.7;
}

bool bears_on(const std::string& name, const PlaceModel::Candidate& candidate) {
  const Algorithm algorithm = candidate.algorithm;
  const bool of_gloo = algorithm == Algorithm::gloo_ring || algorithm == Algorithm::binomial_tree;
  const bool of_tensorflow = algorithm == Algorithm::tensorflow_ring;
  const bool of_mpi = algorithm == Algorithm::mpi_ring || algorithm == Algorithm::recursive_doubling;
  const bool of_hosts = of_mpi || of_gloo || of_tensorflow;
  if (of_hosts || name.starts_with("mpi.") || name.starts_with("gloo.") || name.starts_with("tensorflow.")) {
    return (of_mpi && name.starts_with("mpi.")) || (of_gloo && name.starts_with("gloo.")) ||
           (of_tensorflow && name.starts_with("tensorflow.")) || (of_hosts && name == "network.efficiency");
  }
  const bool nvls = candidate.algorithm == Algorithm::nvls || candidate.algorithm == Algorithm::nvls_tree;
  const bool tree = candidate.algorithm == Algorithm::tree;
  const std::string protocol(name_of(candidate.protocol));
  if (name.starts_with("nvls.")) {
    return nvls;
  }
  if (name.starts_with("network.channel_")) {
    return candidate.protocol == Protocol::simple && algorithm != Algorithm::point_to_point;
  }
  if (name.starts_with("ring.") || name.starts_with("tree.")) {
    return !nvls && name.starts_with((tree ? "tree." : "ring.") + protocol + '.');
  }
  const bool of_protocol = std::ranges::any_of(
      kNames<Protocol>, [&](const auto& each) { return name.starts_with(std::string(each.name) + '.'); });
  if (of_protocol && name.ends_with(".startup")) {
    return !nvls && name == std::string(name_of(begins_as(algorithm, candidate.protocol))) + ".startup";
  }
  return !of_protocol || name.starts_with(protocol + '.');
}

struct CostFitter::State {
  State(const std::vector<MeasuredPlace>& all_places, const std::vector<MeasuredPoint>& all_points,
        AlgorithmChoice choose, const FitProgress& told, std::span<const std::string> only, int threads)
      : places(all_places),
        points(all_points),
        progress(told),
        planes(places, points, choose, progress, only, threads) {
    assert(std::ranges::all_of(points, [](const MeasuredPoint& point) { return point.deviation > 0; }));
    u.assign(planes.parameters().size(), 0);
    planes.add_round(u);
    planes.drop_what_bears_nothing();
  }

  const std::vector<MeasuredPlace>& places;
  std::vector<MeasuredPoint> points;
  FitProgress progress;
  Planes planes;
  std::vector<double> u;  // where the last fit ended
};

CostFitter::CostFitter(const std::vector<MeasuredPlace>& places, const std::vector<MeasuredPoint>& points,
                       AlgorithmChoice choose, const FitProgress& progress, std::span<const std::string> only,
                       int threads)
    : state_(std::make_unique<State>(places, points, choose, progress, only, threads)) {}
CostFitter::~CostFitter() = default;

CostFit CostFitter::fit(std::span<const double> weights) {
  constexpr double kStill = 0.002;
  auto& [places, points, progress, planes, u] = *state_;
  for (std::size_t p = 0; p < weights.size(); ++p) {
    points[p].weight = weights[p];
  }
  const std::size_t n = planes.parameters().size();
  std::vector<int> held;
  for (int round = 1; round < kRounds; ++round) {
    const double moved = solve(planes, points, held, u);
    if (round == 2) {
      hold_undetermined(planes,
                        weights.empty() ? correlated_information_of(planes, places, points, u)
                                        : information_of(planes, points, u),
                        u, held);
      solve(planes, points, held, u);
    }
    if (round > 2 && moved < kStill) {
      break;
    }
    planes.add_round(u);
  }
  CostFit fit;
  const Eigen::MatrixXd information = information_of(planes, points, u);
  const Eigen::MatrixXd covariance = covariance_of(information, held);
  for (std::size_t j = 0; j < n; ++j) {
    const FreeParameter& parameter = planes.parameters()[j];
    const auto k = static_cast<Eigen::Index>(j);
    fit.parameters.push_back({.name = parameter.name,
                              .value = parameter.initial * std::exp(u[j]),
                              .initial = parameter.initial,
                              .deviation = std::ranges::count(held, static_cast<int>(j)) > 0
                                               ? parameter.prior
                                               : std::sqrt(covariance(k, k)),
                              .determined = std::ranges::count(held, static_cast<int>(j)) == 0,
                              .least = {},
                              .most = {}});
  }
  fill_ranges(planes, places, points, u, fit.parameters);
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      if (fit.parameters[a].determined && fit.parameters[b].determined) {
        fit.covariance.push_back(covariance(static_cast<Eigen::Index>(a), static_cast<Eigen::Index>(b)));
      }
    }
  }
  return fit;
}

CostFit fit_costs(const std::vector<MeasuredPlace>& places, const std::vector<MeasuredPoint>& points,
                  AlgorithmChoice choose, const FitProgress& progress, int threads) {
  CostFit fit = CostFitter(places, points, choose, progress, {}, threads).fit();
  std::vector<CostParameter> values;
  for (const FittedParameter& parameter : fit.parameters) {
    if (parameter.value != parameter.initial) {  // else each place's own default
      values.push_back({parameter.name, parameter.value});
    }
  }
  fit.log_ratio = log_ratios(places, points, choose, values, progress, threads);
  double sum = 0;
  for (std::size_t p = 0; p < points.size(); ++p) {
    sum += std::abs(fit.log_ratio[p]);
  }
  fit.mean_error = points.empty() ? 0 : sum / static_cast<double>(points.size());
  return fit;
}

}  // namespace paceline
