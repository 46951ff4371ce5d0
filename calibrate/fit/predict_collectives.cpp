// From a profile to predictions (collective_fit.h).
#include <algorithm>
#include <cmath>
#include <iterator>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/collective_points.h"
#include "calibrate/fit/cost_fit.h"
#include "calibrate/fit/place_forecast.h"
#include "sim/collective/costs.h"

namespace paceline {
CollectiveSpec with_costs(CollectiveSpec spec, const Profile& profile) {
  for (const ProfileParameter& parameter : profile.parameters) {
    if (parameter.fitted) {
      std::erase_if(spec.costs, [&](const CostParameter& cost) { return cost.name == parameter.name; });
      spec.costs.push_back({parameter.name, parameter.value});
    }
  }
  std::ranges::sort(spec.costs, {}, &CostParameter::name);  // as a scenario is read
  if (!profile.points.empty()) {
    spec.library = profile.library;
    spec.choose = profile.choose;
    spec.corrections.clear();
    if (spec.nccl == CollectiveSpec{}.nccl) {  // not asked for
      spec.nccl = profile.nccl;
    }
  }
  return spec;
}

namespace {

constexpr double kNinety = 1.645;  // standard deviations of a 90 % interval

MeasuredPlace place_of(CollectiveKind kind, const ClusterSpec& cluster, const CollectiveSpec& spec) {
  return {kind, cluster, spec};
}

// Half octaves from 8 bytes, and what was measured (at most kMostMeasured of it), up to `most`.
std::vector<Bytes> knots(const std::vector<Bytes>& measured, Bytes most) {
  constexpr int kFirst = 6;  // half octaves
  constexpr std::size_t kMostMeasured = 2000;
  std::vector<Bytes> sizes;
  for (std::size_t i = 0; i < measured.size(); i += measured.size() / kMostMeasured + 1) {
    sizes.push_back(measured[i]);
  }
  Bytes last;
  for (int half = kFirst; last < most; ++half) {
    last = Bytes(std::llround(std::exp2(half / 2.0)) / 4 * 4);
    sizes.push_back(last);
  }
  std::erase_if(sizes, [&](Bytes size) { return size > last; });
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

PlaceForecast forecast_of(const Profile& profile, const MeasuredPlace& place) {
  PlaceForecast forecast(profile, place);
  const std::vector<Bytes> sizes = forecast.measured_sizes();
  PlaceModel model(place, sizes, profile.choose);
  forecast.set_simulated(model.log_times(model.costs()));
  return forecast;
}

struct Range {
  Bytes least, most;
  int fewest_ranks = 0, most_ranks = 0, fewest_nodes = 0, most_nodes = 0;
};
Range range_of(const Profile& profile, CollectiveKind kind) {
  Range range;
  for (const ProfilePoint& point : profile.points) {
    if (point.kind != kind) {
      continue;
    }
    const int ranks = point.nodes * point.gpus_per_node;
    const bool first = range.most_ranks == 0;
    range.least = first ? point.bytes : std::min(range.least, point.bytes);
    range.most = std::max(range.most, point.bytes);
    range.fewest_ranks = first ? ranks : std::min(range.fewest_ranks, ranks);
    range.most_ranks = std::max(range.most_ranks, ranks);
    range.fewest_nodes = first ? point.nodes : std::min(range.fewest_nodes, point.nodes);
    range.most_nodes = std::max(range.most_nodes, point.nodes);
  }
  return range;
}

// "" inside what was measured.
std::string why_extrapolated(const Range& range, const MeasuredPlace& place, Bytes bytes) {
  if (range.most_ranks == 0) {
    return "this collective was not measured";
  }
  if (place.nodes() > range.most_nodes) {
    return range.most_nodes == 1 ? "measured on one node only"
                                 : "measured on up to " + std::to_string(range.most_nodes) + " nodes";
  }
  if (place.nodes() == 1 && range.fewest_nodes > 1) {
    return "measured on several nodes only";
  }
  if (place.ranks() < range.fewest_ranks || place.ranks() > range.most_ranks) {
    return "measured on " + std::to_string(range.fewest_ranks) + " to " + std::to_string(range.most_ranks) +
           " GPUs";
  }
  if (bytes < range.least || bytes > range.most) {
    return "measured from " + std::to_string(range.least.value) + " to " + std::to_string(range.most.value) +
           " bytes";
  }
  return {};
}

// d ln(time) / d ln(value) of each size.
std::vector<double> slopes_of(const std::string& name, PlaceModel& model,
                              const std::vector<double>& log_times) {
  constexpr double kStep = 0.02;
  CollectiveCosts moved = model.costs();
  const CostParameter value{name, cost_value(name, moved) * std::exp(kStep)};
  set_costs(std::span(&value, 1), moved);
  std::vector<double> slopes = model.log_times(moved);
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    slopes[i] = (slopes[i] - log_times[i]) / kStep;
  }
  return slopes;
}

// The standard deviation of ln(time) that the parameters make, linearised: the fitted ones by their
// covariance, the others as little as was known of them before.
std::vector<double> parameter_deviation(const Profile& profile, PlaceModel& model,
                                        const std::vector<double>& log_times) {
  std::vector<double> variance(log_times.size());
  std::vector<std::vector<double>> fitted;
  for (const ProfileParameter& parameter : profile.parameters) {
    if (!parameter.fitted) {
      continue;
    }
    fitted.push_back(slopes_of(parameter.name, model, log_times));
    for (std::size_t i = 0; profile.covariance.empty() && i < variance.size(); ++i) {
      variance[i] += std::pow(fitted.back()[i] * parameter.deviation, 2);
    }
  }
  const std::size_t n = fitted.size();
  for (std::size_t a = 0; a < n && profile.covariance.size() == n * n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      for (std::size_t i = 0; i < variance.size(); ++i) {
        variance[i] += fitted[a][i] * fitted[b][i] * profile.covariance[a * n + b];
      }
    }
  }
  for (const std::string& name : cost_parameter_names()) {
    const bool bears = std::ranges::any_of(model.candidates(), [&](const PlaceModel::Candidate& candidate) {
      return bears_on(name, candidate);
    });
    const bool known = std::ranges::any_of(profile.parameters, [&](const ProfileParameter& parameter) {
      return parameter.fitted && parameter.name == name;
    });
    if (!bears || known || !(cost_value(name, model.costs()) > 0)) {
      continue;
    }
    const std::vector<double> slopes = slopes_of(name, model, log_times);
    for (std::size_t i = 0; i < variance.size(); ++i) {
      variance[i] += std::pow(slopes[i] * prior_deviation(name), 2);
    }
  }
  for (double& each : variance) {
    each = std::sqrt(std::max(0.0, each));
  }
  return variance;
}

}  // namespace

Bytes largest_collective(const Scenario& scenario) {
  const std::int64_t each = bytes_per_element(scenario.training.gradients);
  return Bytes(std::max<std::int64_t>(8, parameter_count(scenario.model) * each));
}

CollectiveSpec with_profile(const CollectiveSpec& given, const Profile& profile, const ClusterSpec& cluster,
                            std::span<const CollectiveKind> kinds, Bytes most) {
  CollectiveSpec spec = with_costs(given, profile);
  std::vector<Correction> corrections;
  for (const CollectiveKind kind : kinds) {
    const MeasuredPlace place = place_of(kind, cluster, spec);
    const bool measured =
        std::ranges::any_of(profile.points, [&](const ProfilePoint& point) { return point.kind == kind; });
    if (place.ranks() < 2 || !measured) {
      continue;
    }
    const PlaceForecast forecast = forecast_of(profile, place);
    const std::vector<Bytes> sizes = knots(forecast.measured_sizes(), most);
    PlaceModel model(place, sizes, profile.choose);
    const std::vector<double> log_times = model.log_times(model.costs());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const double factor = std::exp(forecast.at(sizes[i], log_times[i]).log_factor);
      corrections.push_back({kind, sizes[i], factor});
    }
  }
  spec.corrections = std::move(corrections);
  return spec;
}

namespace {

void set_kernels(const ProfileKernels& kernels, TrainingSpec& training) {
  for (const ProfileRoofline& products : kernels.products) {
    if (products.precision == name_of(training.precision)) {
      training.roofline.compute_efficiency = std::min(1.0, products.efficiency);
      training.roofline.half_work = products.half_work;
    }
  }
  if (kernels.memory_efficiency > 0) {
    training.roofline.memory_efficiency = std::min(1.0, kernels.memory_efficiency);
  }
  if (kernels.launch.value > 0) {
    training.host.kernel_launch = kernels.launch;
  }
  if (kernels.slowdown > 1) {
    constexpr std::int64_t kParts = 100;
    training.slowdown_while_communicating = {std::llround(kernels.slowdown * kParts), kParts};
  }
}

}  // namespace

Scenario with_profile(const Scenario& given, const Profile& profile) {
  constexpr CollectiveKind kOfTraining[] = {CollectiveKind::all_reduce, CollectiveKind::broadcast,
                                            CollectiveKind::all_gather, CollectiveKind::reduce_scatter};
  Scenario scenario = given;
  scenario.training.collective =
      with_profile(given.training.collective, profile, given.cluster, kOfTraining, largest_collective(given));
  for (const ProfileKernels& kernels : profile.kernels) {
    set_kernels(kernels, scenario.training);
  }
  for (const ProfileTraining& training : profile.training) {
    if (!scenario.training.measured && training.samples_per_second > 0) {
      scenario.training.measured = SamplesPerSecond(training.samples_per_second);
    }
    if (scenario.variability.per_iteration.kind == DistributionKind::none && training.delay > 0) {
      scenario.variability.per_iteration = {
          .kind = DistributionKind::exponential, .cv = training.delay, .values = {}};
    }
  }
  return scenario;
}

CollectivePrediction predict_collectives(const CollectiveTest& given, const Profile& profile) {
  CollectiveTest test = given;
  test.collective = with_costs(given.collective, profile);
  CollectivePrediction prediction{run_collective_test(test), {}};
  std::vector<CollectiveCost>& rows = prediction.result.rows;
  const MeasuredPlace place = place_of(test.kind, test.cluster, test.collective);
  if (place.ranks() < 2) {
    prediction.intervals.resize(rows.size());
    return prediction;
  }
  std::vector<Bytes> sizes;
  std::ranges::transform(rows, std::back_inserter(sizes),
                         [](const CollectiveCost& r) { return r.plan.bytes; });
  PlaceModel model(place, sizes, profile.choose);
  const std::vector<double> log_times = model.log_times(model.costs());
  const std::vector<double> of_parameters = parameter_deviation(profile, model, log_times);
  const PlaceForecast forecast = forecast_of(profile, place);
  const Range range = range_of(profile, test.kind);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    // nccl-tests' smallest sizes may have nothing for each rank.
    const Forecast here = forecast.at(std::max(sizes[i], Bytes(1)), log_times[i]);
    const double factor = std::exp(here.log_factor);
    const double deviation =
        here.interpolated ? here.deviation : std::hypot(here.deviation, of_parameters[i]);
    const Seconds time(std::exp(log_times[i]) * factor);
    rows[i].time = to_sim_time(time);
    for (SimTime* part : {&rows[i].launch, &rows[i].latency, &rows[i].fill, &rows[i].bandwidth}) {
      part->ps = std::llround(static_cast<double>(part->ps) * factor);
    }
    const double spread = std::exp(kNinety * deviation);
    const std::string why = why_extrapolated(range, place, sizes[i]);
    prediction.intervals.push_back({time / spread, time * spread, !why.empty(), why});
  }
  return prediction;
}

}  // namespace paceline
