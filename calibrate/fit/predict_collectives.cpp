// From a profile to predictions (collective_fit.h).
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/collective_points.h"
#include "calibrate/fit/cost_fit.h"
#include "calibrate/fit/place_forecast.h"
#include "calibrate/fit/profile_use.h"
#include "core/error.h"
#include "sim/collective/costs.h"
#include "sim/collective/default_costs.h"

namespace paceline {
namespace {

MeasuredPlace place_of(CollectiveKind kind, const ClusterSpec& cluster, const CollectiveSpec& spec) {
  return {kind, cluster, spec};
}

constexpr Bytes kFirstKnot(8);

// Half octaves from kFirstKnot, and what was measured (at most kMostMeasured of it), up to `most`.
std::vector<Bytes> knots(const std::vector<Bytes>& measured, Bytes most) {
  constexpr int kFirst = 6;  // half octaves: kFirstKnot
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

// NCCL sends between peers with code of its own: what send_recv and all_to_all measured says little of the others, and
// theirs little of these (docs/accuracy.md).
bool measured_alike(const Profile& profile, CollectiveKind kind) {
  return std::ranges::any_of(profile.points, [&](const ProfilePoint& point) {
    return between_peers(point.kind) == between_peers(kind);
  });
}

// Smaller sizes are known ever less: half the smallest that was measured of such collectives, 0 if none was.
Bytes known_from(const Profile& profile, CollectiveKind kind) {
  Bytes least;
  for (const ProfilePoint& point : profile.points) {
    if (between_peers(point.kind) == between_peers(kind)) {
      least = least.value == 0 ? point.bytes : std::min(least, point.bytes);
    }
  }
  return Bytes(least.value / 2);
}

// The costs that are not the profile's: a scenario or a log that it was applied to has those already.
std::vector<CostParameter> without(std::vector<CostParameter> costs, const Profile& profile) {
  std::erase_if(costs, [&](const CostParameter& cost) {
    return std::ranges::any_of(profile.parameters, [&](const ProfileParameter& parameter) {
      return parameter.fitted && parameter.name == cost.name && parameter.value == cost.value;
    });
  });
  return costs;
}

// What the profile says of a size at a place, beside the times that are simulated with its parameters.
struct ProfileForecast : Forecast {
  double known = 1;  // of the distance from the defaults' prediction to the profile's
};

// `plain`: the place without the profile. Below known_from every three octaves halve what is known; the rest is the
// defaults' (docs/accuracy.md): a fit to large sizes takes for a startup what it misses there. Of other libraries than
// NCCL the defaults know little.
std::vector<ProfileForecast> forecasts_of(const Profile& profile, const MeasuredPlace& place,
                                          const MeasuredPlace& plain, std::span<const Bytes> sizes,
                                          std::span<const double> log_times) {
  constexpr double kHalved = 3;  // octaves
  const PlaceForecast forecast = forecast_of(profile, place);
  const bool fades = place.spec.library == CollectiveLibrary::nccl;
  const Bytes from = fades ? known_from(profile, place.kind) : Bytes{};
  std::vector<ProfileForecast> forecasts;
  std::vector<Bytes> below;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Bytes bytes = std::max(sizes[i], Bytes(1));  // nccl-tests' smallest may have nothing for each rank
    forecasts.push_back({forecast.at(bytes, log_times[i])});
    if (bytes < from) {
      forecasts.back().known =
          std::pow(static_cast<double>(bytes.value) / static_cast<double>(from.value), 1 / kHalved);
      below.push_back(sizes[i]);
    }
  }
  if (below.empty()) {
    return forecasts;
  }
  PlaceModel model(plain, below, AlgorithmChoice::tuner);
  const std::vector<double> defaults = model.log_times(model.costs());
  for (std::size_t i = 0, b = 0; b < below.size(); ++i) {
    if (ProfileForecast& here = forecasts[i]; here.known < 1) {
      const double fitted = log_times[i] + here.log_factor;
      here.log_factor = std::lerp(defaults[b++], fitted, here.known) - log_times[i];
    }
  }
  return forecasts;
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

// Of three published tables of several racks that don't state it, two ran without NVLS where NCCL's code takes it
// (docs/accuracy.md).
bool nvls_uncertain(const MeasuredPlace& place) {
  constexpr int kMostOfOneMachine = 16;
  return place.nodes() > 1 && place.cluster.node.gpus > kMostOfOneMachine && place.spec.nvls &&
         place.spec.algorithm.empty();
}

// What could run in place of the tuner's choices, by size: all that the model has beside them.
using Others = std::vector<std::vector<OtherChoice>>;
Others others_of(PlaceModel& model, const std::vector<CollectiveCost>& rows) {
  const auto& candidates = model.candidates();
  std::vector<bool> other(candidates.size());
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const CollectivePlan& chosen = rows[candidates[c].size].plan;
    other[c] = candidates[c].algorithm != chosen.algorithm || candidates[c].protocol != chosen.protocol;
  }
  std::vector<double> seconds(candidates.size());
  model.times(model.costs(), other, seconds);
  Others others(rows.size());
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    if (other[c]) {
      const PlaceModel::Candidate& each = candidates[c];
      others[each.size].push_back({each.algorithm, each.protocol, Seconds(seconds[c]), each.beside_choice,
                                   each.chosen_by,
                                   !each.chosen_by.empty() || each.beside_choice <= kUncertain});
    }
  }
  return others;
}

// Around the time and those of what may well run instead.
CollectiveInterval around(Seconds time, double spread, std::vector<OtherChoice> others) {
  Seconds least = time, most = time;
  for (const OtherChoice& other : others) {
    if (other.likely) {
      least = std::min(least, other.time);
      most = std::max(most, other.time);
    }
  }
  return {least / std::exp(spread), most * std::exp(spread), false, {}, std::move(others)};
}

// Nothing of the machine is known: as far as defaults have been off elsewhere.
std::vector<CollectiveInterval> of_defaults(const std::vector<CollectiveCost>& rows,
                                            const MeasuredPlace& place, const Others& others) {
  std::vector<CollectiveInterval> intervals;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    intervals.push_back(
        around(to_seconds(rows[i].time),
               default_spread(reach_of(place.nodes(), place.cluster.node), rows[i].plan.bytes), others[i]));
  }
  return intervals;
}

// How far off parameters that nothing was fitted to may be: of ln(time). Of other libraries nothing is known.
double deviation_of_defaults(const MeasuredPlace& place, Bytes bytes) {
  return place.spec.library == CollectiveLibrary::nccl
             ? default_spread(reach_of(place.nodes(), place.cluster.node), bytes) / kNinety
             : std::numeric_limits<double>::infinity();
}

// `plain`: as forecasts_of has it. Corrects the rows, too.
std::vector<CollectiveInterval> of_profile(const Profile& profile, const MeasuredPlace& place,
                                           const MeasuredPlace& plain, PlaceModel& model, Others others,
                                           std::vector<CollectiveCost>& rows) {
  const std::vector<double> log_times = model.log_times(model.costs());
  const std::vector<double> of_parameters = parameter_deviation(profile, model, log_times);
  std::vector<Bytes> sizes;
  std::ranges::transform(rows, std::back_inserter(sizes),
                         [](const CollectiveCost& row) { return row.plan.bytes; });
  const std::vector<ProfileForecast> forecasts = forecasts_of(profile, place, plain, sizes, log_times);
  const Range range = range_of(profile, place.kind);
  std::vector<CollectiveInterval> intervals;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Bytes bytes = sizes[i];
    const ProfileForecast& here = forecasts[i];
    const double factor = std::exp(here.log_factor), of_defaults = deviation_of_defaults(place, bytes);
    const double of_machine =
        here.known < 1 ? std::lerp(of_defaults, of_parameters[i], here.known) : of_parameters[i];
    const double deviation =
        here.interpolated ? here.deviation : std::hypot(here.deviation, std::min(of_machine, of_defaults));
    const Seconds time(std::exp(log_times[i]) * factor);
    rows[i].time = to_sim_time(time);
    for (SimTime* part : {&rows[i].launch, &rows[i].latency, &rows[i].fill, &rows[i].bandwidth}) {
      part->ps = round_to_picoseconds(static_cast<double>(part->ps) * factor);
    }
    for (OtherChoice& other : others[i]) {
      other.time = other.time * factor;
      other.likely = other.likely && !here.interpolated;  // else what ran was measured
    }
    CollectiveInterval& interval =
        intervals.emplace_back(around(time, kNinety * deviation, std::move(others[i])));
    interval.why = why_extrapolated(range, place, bytes);
    interval.extrapolated = !interval.why.empty();
  }
  return intervals;
}

}  // namespace

Profile serving(const Profile& given, CollectiveKind kind) {
  Profile profile = given;
  if (!given.points.empty() && !measured_alike(given, kind)) {
    profile.parameters.clear();
    profile.covariance.clear();
    profile.choose = AlgorithmChoice::tuner;
  }
  return profile;
}

CollectiveSpec with_corrections(const CollectiveSpec& given, const Profile& profile,
                                const ClusterSpec& cluster, std::span<const CollectiveKind> kinds,
                                Bytes most) {
  CollectiveSpec spec = with_costs(given, profile, true);
  std::vector<Correction> corrections;
  for (const CollectiveKind kind : kinds) {
    const MeasuredPlace place = place_of(kind, cluster, spec);
    const bool measured =
        std::ranges::any_of(profile.points, [&](const ProfilePoint& point) { return point.kind == kind; });
    if (place.ranks() < 2 || !(measured || known_from(profile, kind) > kFirstKnot)) {
      continue;
    }
    const std::vector<Bytes> sizes = knots(PlaceForecast(profile, place).measured_sizes(), most);
    PlaceModel model(place, sizes, profile.choose);
    const std::vector<ProfileForecast> forecasts =
        forecasts_of(profile, place, place_of(kind, cluster, given), sizes, model.log_times(model.costs()));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      corrections.push_back({kind, sizes[i], std::exp(forecasts[i].log_factor)});
    }
  }
  if (corrections.empty()) {
    corrections = given.corrections;
  }
  spec.corrections = std::move(corrections);
  return spec;
}

CollectivePrediction predict_collectives(const CollectiveTest& given, const Profile& whole) {
  const Profile profile = serving(whole, given.kind);
  CollectiveTest test = given;
  CollectiveSpec& spec = test.collective;
  const std::vector<CostParameter> own = spec.costs = without(spec.costs, whole);
  spec = with_costs(spec, profile, given.nccl_stated);
  CollectivePrediction prediction{run_collective_test(test), {}};
  std::vector<CollectiveCost>& rows = prediction.result.rows;
  const MeasuredPlace place = place_of(test.kind, test.cluster, test.collective);
  if (place.ranks() < 2) {
    for (const CollectiveCost& row : rows) {
      prediction.intervals.push_back(around(to_seconds(row.time), 0, {}));
    }
    return prediction;
  }
  std::vector<Bytes> sizes;
  std::ranges::transform(rows, std::back_inserter(sizes),
                         [](const CollectiveCost& r) { return r.plan.bytes; });
  const bool measured = measured_alike(profile, test.kind);
  const bool defaults = !measured && test.collective.library == CollectiveLibrary::nccl;
  const std::vector<NcclVersion> versions = !profile.points.empty() || test.nccl_stated
                                                ? std::vector<NcclVersion>{}
                                                : likely_versions(test.cluster.node.compute_capability);
  PlaceModel model(place, sizes, profile.choose,
                   {.near = test.all ? std::numeric_limits<double>::infinity() : kUncertain,
                    .versions = versions,
                    .without_nvls = nvls_uncertain(place),
                    .alone = defaults});
  Others others =
      profile.choose == AlgorithmChoice::tuner || test.all ? others_of(model, rows) : Others(rows.size());
  MeasuredPlace plain = place;
  plain.spec.costs = own;
  prediction.intervals = defaults ? of_defaults(rows, place, others)
                                  : of_profile(profile, place, plain, model, std::move(others), rows);
  if (defaults && !(profile.parameters.empty() && profile.points.empty())) {
    for (CollectiveInterval& interval : prediction.intervals) {
      interval.extrapolated = true;
      interval.why = "this collective was not measured";
    }
  }
  return prediction;
}

std::vector<double> predicted_log_times(const MeasuredPlace& given, std::span<const Bytes> sizes,
                                        const Profile& whole) {
  const Profile profile = serving(whole, given.kind);
  MeasuredPlace place = given;
  const std::vector<CostParameter> own = place.spec.costs = without(given.spec.costs, whole);
  place.spec = with_costs(place.spec, profile, given.nccl_stated);
  forget_channels(place, given);
  PlaceModel model(place, sizes, profile.choose);
  std::vector<double> log_times = model.log_times(model.costs());
  if (measured_alike(profile, place.kind)) {
    MeasuredPlace plain = place;
    plain.spec.costs = own;
    const std::vector<ProfileForecast> forecasts = forecasts_of(profile, place, plain, sizes, log_times);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      log_times[i] += forecasts[i].log_factor;
    }
  }
  return log_times;
}

CollectivePrediction predict_collectives(const CollectiveOptions& options, const Profile& given) {
  const ClusterInUse in_use = cluster_of(options);
  const Profile profile = for_machine(given, in_use.cluster);
  const CollectiveTest test = collective_test(options, in_use, profile);
  require_one_of(test.collective, with_costs(test.collective, serving(profile, test.kind), test.nccl_stated));
  try {
    return predict_collectives(test, profile);
  } catch (const InputError& error) {
    throw error.place() == kCollectivePlace ? InputError(error.message(), "--algo, --proto") : error;
  }
}

}  // namespace paceline
