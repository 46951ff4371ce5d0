// The planes of cost_fit.h: what simulations with derivatives say of each plan's time near the parameters
// that they were taken at.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "calibrate/fit/cost_fit.h"

namespace paceline {

inline constexpr int kRounds = 6;

struct FreeParameter {
  std::string name;
  double initial = 0, sense = 1, prior = 1;
  double most = 0;  // of ln(value / initial)
};

// time(u) = fixed + sum of share[j] * exp(sense[j] * (u[j] - at[j])), for the parameters that bear on it.
struct Plane {
  double fixed = 0;
  std::vector<std::pair<std::size_t, double>> shares;
  std::size_t at = 0;  // which round's parameters
};

struct PlanCandidate {
  std::size_t place = 0, in_place = 0;
  std::vector<std::size_t> parameters;  // that bear on it
  std::vector<Plane> planes;
};

class Planes {
 public:
  Planes(const std::vector<MeasuredPlace>&, const std::vector<MeasuredPoint>&, AlgorithmChoice,
         const FitProgress&, std::span<const std::string> only, int threads);

  // Simulates every candidate at u that may be near the fastest, with derivatives by what bears on it.
  void add_round(const std::vector<double>& u);
  // What the first round shows to have no part in a candidate, such as latencies of links that it does not
  // use.
  void drop_what_bears_nothing();

  const std::vector<FreeParameter>& parameters() const { return parameters_; }
  // The candidate that a point's time is taken from: the time at u, and its plane.
  std::tuple<double, const Plane*, std::size_t> best(std::size_t point, const double* u) const;
  double share_at(const Plane&, std::size_t which, const double* u) const;

 private:
  void told(const std::string& part, std::size_t done, std::size_t all_of_it) const;
  // `points`: those of the place; `first`: the first one's number.
  void add_place(std::size_t place, const MeasuredPlace& where, std::span<const MeasuredPoint> points,
                 std::size_t first, AlgorithmChoice choose);
  void find_parameters(std::span<const std::string> only);
  // The plane that is highest at u, and its time there.
  std::pair<double, const Plane*> time(const PlanCandidate&, const double* u) const;
  std::vector<CostParameter> values(const std::vector<double>& u) const;
  CollectiveCosts costs(const PlaceModel&, const std::vector<double>& u) const;

  FitProgress progress_;
  int threads_;
  std::vector<FreeParameter> parameters_;
  std::vector<PlanCandidate> candidates_;
  std::vector<std::vector<std::size_t>> of_point_;  // candidates of each point
  std::vector<PlaceModel> models_;
  std::vector<std::vector<double>> far_;  // by model and size
  std::vector<std::size_t> first_candidate_;
  std::vector<std::vector<double>> at_;  // by round
};

}  // namespace paceline
