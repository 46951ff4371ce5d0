// What a profile says of collectives at one place: the corrections of the fitted model, and how far to trust
// them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/fit/collective_points.h"
#include "calibrate/fit/discrepancy.h"
#include "scenarios/profile.h"

namespace paceline {

struct Forecast {
  double log_factor = 0;      // ln(predicted / simulated)
  double deviation = 0;       // standard, of ln(measured / predicted), without that of the parameters
  bool interpolated = false;  // between sizes measured here: the parameters' uncertainty is in the points
};

// Between two sizes measured at this place the prediction is the straight line between the measured times in
// ln(time) over ln(bytes), bent as the model bends there: by `curvature` of the model's own distance from its
// line, and never beyond kMostBend. Elsewhere it is the model and the Gaussian process over all points.
class PlaceForecast {
 public:
  // log_times: ln of the simulated seconds of `sizes`, with the profile's parameters; sizes must hold those
  // of the profile's points here.
  // Only points that were measured with the place's own options count as measured here.
  PlaceForecast(const Profile&, const MeasuredPlace&);

  std::vector<Bytes> measured_sizes() const;
  void set_simulated(std::span<const double> log_times);  // of measured_sizes()
  Forecast at(Bytes, double log_time) const;

  static constexpr double kMostBend = 0.03;

 private:
  struct Here {
    Bytes bytes;
    double log_ratio, noise, log_time;
    double local_error;  // how far its neighbours' line misses it
  };
  std::optional<Forecast> between(Bytes, double log_time) const;
  double bounded_by_edges(Bytes, double log_time, double log_factor) const;

  CollectiveKind kind_;
  int nodes_, gpus_per_node_;
  double curvature_;
  std::vector<Here> here_;
  DiscrepancyModel elsewhere_;
};

// The share of the model's bend that the points bear out: each inner point against the line of its
// neighbours, in measurement and model. log_times: ln of simulated seconds, by point.
double curvature_of(std::span<const MeasuredPoint>, std::span<const double> log_ratio);

}  // namespace paceline
