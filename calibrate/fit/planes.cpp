#include "calibrate/fit/planes.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace paceline {
namespace {

constexpr double kLogStep = 0.02;  // of ln(value), for a derivative

// A plan that takes so many times the fastest of its size has no planes yet: it gets them in the first round
// where it comes nearer. Large sizes are a matter of rates, which are better known than latencies.
double far_of(Bytes bytes) { return bytes.value < (1 << 28) ? 2.5 : 1.6; }

// A rate divides, a time multiplies.
double sense_of(const std::string& name) {
  return name.ends_with("efficiency") || name.ends_with("rate") ? -1 : 1;
}

double most_of(const std::string& name, double initial) {
  return name.ends_with("efficiency") ? std::max(0.0, std::log(kMostEfficiency / initial))
                                      : std::numeric_limits<double>::infinity();
}

std::vector<bool> near_fastest(const PlaceModel& model, const std::vector<double>& far,
                               const std::vector<double>& seconds) {
  std::vector<double> fastest(far.size(), std::numeric_limits<double>::infinity());  // by size
  for (std::size_t c = 0; c < seconds.size(); ++c) {
    double& least = fastest[model.candidates()[c].size];
    least = std::min(least, seconds[c]);
  }
  std::vector<bool> near(seconds.size());
  for (std::size_t c = 0; c < seconds.size(); ++c) {
    const std::size_t size = model.candidates()[c].size;
    near[c] = seconds[c] <= far[size] * fastest[size];
  }
  return near;
}

}  // namespace

Planes::Planes(const std::vector<MeasuredPlace>& places, const std::vector<MeasuredPoint>& points,
               AlgorithmChoice choose, const FitProgress& progress, std::span<const std::string> only,
               int threads)
    : progress_(progress), threads_(threads) {
  of_point_.resize(points.size());
  for (std::size_t first = 0, end = 0; first < points.size(); first = end) {
    end = end_of_place(points, first);
    told("points simulated", first, points.size());
    const std::size_t place = points[first].place;
    add_place(place, places[place], std::span(points).subspan(first, end - first), first, choose);
  }
  find_parameters(only);
}

void Planes::add_round(const std::vector<double>& u) {
  const std::size_t round = at_.size();
  at_.push_back(u);
  for (std::size_t m = 0; m < models_.size(); ++m) {
    told("places in round " + std::to_string(round + 1) + " of at most " + std::to_string(kRounds), m,
         models_.size());
    PlaceModel& model = models_[m];
    const std::size_t count = model.candidates().size();
    std::vector<double> base(count), moved(count);
    model.times_of_fastest(costs(model, u), far_[m], base);
    const std::size_t first = first_candidate_[m];
    const std::vector<bool> near = near_fastest(model, far_[m], base);
    for (std::size_t c = 0; c < count; ++c) {
      if (near[c]) {
        candidates_[first + c].planes.push_back({base[c], {}, round});
      }
    }
    for (std::size_t j = 0; j < parameters_.size(); ++j) {
      std::vector<bool> wanted(count);
      for (std::size_t c = 0; c < count; ++c) {
        wanted[c] = near[c] && std::ranges::count(candidates_[first + c].parameters, j) > 0;
      }
      if (std::ranges::count(wanted, true) == 0) {
        continue;
      }
      std::vector<double> stepped = u;
      stepped[j] += kLogStep;
      model.times(costs(model, stepped), wanted, moved);
      const double growth = std::expm1(parameters_[j].sense * kLogStep);
      for (std::size_t c = 0; c < count; ++c) {
        if (const double share = wanted[c] ? (moved[c] - base[c]) / growth : 0; share != 0) {
          Plane& plane = candidates_[first + c].planes.back();
          plane.shares.emplace_back(j, share);
          plane.fixed -= share;
        }
      }
    }
  }
}

void Planes::drop_what_bears_nothing() {
  for (PlanCandidate& candidate : candidates_) {
    std::erase_if(candidate.parameters, [&](std::size_t j) {
      return !candidate.planes.empty() && parameters_[j].name.ends_with(".latency") &&
             std::ranges::none_of(candidate.planes.front().shares,
                                  [&](const auto& share) { return share.first == j; });
    });
  }
}

std::pair<double, const Plane*> Planes::time(const PlanCandidate& candidate, const double* u) const {
  std::pair<double, const Plane*> most{-std::numeric_limits<double>::infinity(), nullptr};
  for (const Plane& plane : candidate.planes) {
    double seconds = plane.fixed;
    for (const auto& [j, share] : plane.shares) {
      seconds += share * std::exp(parameters_[j].sense * (u[j] - at_[plane.at][j]));
    }
    if (seconds > most.first) {
      most = {seconds, &plane};
    }
  }
  return most;
}

double Planes::share_at(const Plane& plane, std::size_t which, const double* u) const {
  const auto& [j, share] = plane.shares[which];
  return share * std::exp(parameters_[j].sense * (u[j] - at_[plane.at][j]));
}

std::tuple<double, const Plane*, std::size_t> Planes::best(std::size_t point, const double* u) const {
  std::tuple<double, const Plane*, std::size_t> least{std::numeric_limits<double>::infinity(), nullptr, 0};
  for (const std::size_t c : of_point_[point]) {
    const auto [seconds, plane] = time(candidates_[c], u);
    if (plane != nullptr && seconds < std::get<0>(least)) {
      least = {seconds, plane, c};
    }
  }
  return least;
}

std::vector<CostParameter> Planes::values(const std::vector<double>& u) const {
  std::vector<CostParameter> all;
  for (std::size_t j = 0; j < parameters_.size(); ++j) {
    if (u[j] != 0) {  // else each place's own default
      all.push_back({parameters_[j].name, parameters_[j].initial * std::exp(u[j])});
    }
  }
  return all;
}

void Planes::told(const std::string& part, std::size_t done, std::size_t all_of_it) const {
  if (progress_) {
    progress_(part, done, all_of_it);
  }
}

void Planes::add_place(std::size_t place, const MeasuredPlace& where, std::span<const MeasuredPoint> points,
                       std::size_t first, AlgorithmChoice choose) {
  std::vector<Bytes> sizes;
  std::vector<std::size_t> point_of;
  for (std::size_t p = 0; p < points.size(); ++p) {
    if (points[p].fitted) {
      sizes.push_back(points[p].bytes);
      point_of.push_back(first + p);
    }
  }
  if (sizes.empty()) {
    return;
  }
  models_.emplace_back(where, sizes, choose, OtherCandidates{}, threads_);
  std::ranges::transform(sizes, std::back_inserter(far_.emplace_back()), far_of);
  first_candidate_.push_back(candidates_.size());
  for (const PlaceModel::Candidate& candidate : models_.back().candidates()) {
    of_point_[point_of[candidate.size]].push_back(candidates_.size());
    candidates_.push_back({place, candidates_.size() - first_candidate_.back(), {}, {}});
  }
}

void Planes::find_parameters(std::span<const std::string> only) {
  for (const std::string& name : cost_parameter_names()) {
    if (!only.empty() && std::ranges::find(only, name) == only.end()) {
      continue;
    }
    const double initial = models_.empty() ? 0 : cost_value(name, models_.front().costs());
    if (!(initial > 0) || !std::isfinite(initial)) {
      continue;  // nothing to multiply
    }
    bool bears = false;
    for (std::size_t m = 0; m < models_.size(); ++m) {
      const auto& candidates = models_[m].candidates();
      for (std::size_t c = 0; c < candidates.size(); ++c) {
        if (bears_on(name, candidates[c])) {
          candidates_[first_candidate_[m] + c].parameters.push_back(parameters_.size());
          bears = true;
        }
      }
    }
    if (bears) {
      parameters_.push_back({name, initial, sense_of(name), prior_deviation(name), most_of(name, initial)});
    }
  }
}

CollectiveCosts Planes::costs(const PlaceModel& model, const std::vector<double>& u) const {
  CollectiveCosts changed = model.costs();
  set_costs(values(u), changed);
  return changed;
}

}  // namespace paceline
