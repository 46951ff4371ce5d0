// Measured collectives as the fit sees them: rows, joined to points at their places.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/place_model.h"

namespace paceline {

// The rows of one size at one place.
struct MeasuredPoint {
  std::size_t place = 0;
  Bytes bytes;
  double log_time = 0;            // of seconds; median of its rows
  std::vector<std::size_t> rows;  // in MeasuredData::collectives
  bool fitted = true;             // takes part in the fit of the costs
  double weight = 1;              // in units of one such point
  double deviation = 0;           // standard, of log_time from a model that is right
};

struct MeasuredPoints {
  std::vector<MeasuredPlace> places;
  std::vector<MeasuredPoint> points;  // by place, then size
  std::vector<FittedRow> rows;        // of all measurements
};

// Names warm-up rows and outliers, joins rows of equal size, and lets so many points of an octave take part
// in the fit that there are at most kMostFitted in all.
inline constexpr std::size_t kMostFitted = 400;
MeasuredPoints gather_points(const FitRequest&, const MeasuredData&);
// The same; throws InputError where there are none.
MeasuredPoints require_points(const FitRequest&, const MeasuredData&);

// The points of one place: from `first` to the one before what comes back.
std::size_t end_of_place(const std::vector<MeasuredPoint>& points, std::size_t first);
std::vector<Bytes> sizes_of(const std::vector<MeasuredPoint>& points, std::size_t first, std::size_t end);

// ln(seconds) that a profile predicts of each size at a place, as predict_collectives does.
std::vector<double> predicted_log_times(const MeasuredPlace&, std::span<const Bytes> sizes, const Profile&);

// A line for each NCCL that is older or newer than all whose tuners are known: how far off the nearest is.
std::string version_remarks(const MeasuredData&);
// A line for each GPU that the rows of collectives and kernels name and the cluster hasn't got; then one for each set
// of settings that rows state and no prediction knows.
std::vector<std::string> log_remarks(const FitRequest&, const MeasuredData&);

// Some that a machine with such GPUs may run where nothing says which, from the oldest that knows them on.
std::vector<NcclVersion> likely_versions(int compute_capability);

// The noise of a measurement, of its logarithm: nccl-tests' in-place against out-of-place, and the same
// machine on two dates (below 1 MiB 4 %, above 2 %).
double noise_of(Bytes);

}  // namespace paceline
