// Cost parameters fitted to measured times through the simulator: robust least squares on the logarithm of
// time (Ceres Solver).
//
// For fixed parameters the time of a plan is a maximum over paths of sums of latencies and bytes over rates:
// in the coordinates latency and 1 / rate convex and homogeneous of degree one. So each simulation with its
// derivatives gives a plane below the true time that is exact where it was taken; the fit works on the
// maximum of a plan's planes, simulates anew where it ends, adds those planes, and stops when nothing moves.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "calibrate/fit/collective_points.h"

namespace paceline {

struct FittedParameter {
  std::string name;
  double value = 0, initial = 0;
  double deviation = 0;     // standard, of ln(value)
  bool determined = false;  // else it kept its initial value
  // What the points that bear on it span.
  Bytes least, most;
  int fewest_ranks = 0, most_ranks = 0;
};

struct CostFit {
  std::vector<FittedParameter> parameters;
  std::vector<double> covariance;  // of ln(value) of the determined ones, in order, row by row
  std::vector<double> log_ratio;   // by point: ln(measured / simulated)
  double mean_error = 0;           // mean |log_ratio| over all points
};

// How far a parameter may be from its default before the data must insist: standard deviation of ln(value).
double prior_deviation(const std::string& name);
// Links carry no more than they can: what a table says beyond is another machine's.
inline constexpr double kMostEfficiency = 1.05;
// Whether a plan of this algorithm and protocol can depend on the parameter.
bool bears_on(const std::string& name, const PlaceModel::Candidate&);

// Fits of the same points again and again, with other weights: simulations that one has made serve the next.
// Requires: the points are in the order of their places, and they and the places outlive it.
class CostFitter {
 public:
  // `only`: the parameters that may move; empty: all. `threads`: that simulate.
  CostFitter(const std::vector<MeasuredPlace>&, const std::vector<MeasuredPoint>&, AlgorithmChoice,
             const FitProgress& = {}, std::span<const std::string> only = {}, int threads = 1);
  ~CostFitter();

  // `weights`: by point, so that those of one site count for what they tell together; empty: the points' own, and what
  // is held is judged with the discrepancy of a place. Cost: at most kRounds * 8 simulations of each plan.
  CostFit fit(std::span<const double> weights = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The same once, and how far off all points are then. Points whose `fitted` is false don't count otherwise.
CostFit fit_costs(const std::vector<MeasuredPlace>&, const std::vector<MeasuredPoint>&, AlgorithmChoice,
                  const FitProgress& = {}, int threads = 1);

}  // namespace paceline
