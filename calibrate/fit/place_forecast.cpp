#include "calibrate/fit/place_forecast.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline {
namespace {

double log_of(Bytes bytes) { return std::log(static_cast<double>(std::max<std::int64_t>(bytes.value, 1))); }

double line(double x, double x0, double y0, double x1, double y1) {
  return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

// How far a straight line between sizes a factor of four apart misses published tables, by size (docs/accuracy.md,
// "alternate sizes"), as a standard deviation.
double usual_miss(Bytes bytes) {
  constexpr std::int64_t kMiB = 1 << 20;
  return bytes.value < kMiB / 32    ? 0.015
         : bytes.value < kMiB       ? 0.045
         : bytes.value < 16 * kMiB  ? 0.050
         : bytes.value < 256 * kMiB ? 0.045
                                    : 0.010;
}

// The points that a Gaussian process is solved over: its cost is their cube.
constexpr std::size_t kMostSolved = 500;

std::vector<DiscrepancyPoint> for_process(const Profile& profile, CollectiveKind kind) {
  std::vector<DiscrepancyPoint> points;
  for (const ProfilePoint& each : profile.points) {
    if (each.kind == kind) {
      points.push_back({each.kind, each.nodes, each.gpus_per_node, each.bytes, each.log_ratio, each.noise});
    }
  }
  const std::size_t stride = points.size() / kMostSolved + 1;
  std::vector<DiscrepancyPoint> thinned;
  for (std::size_t p = 0; p < points.size(); p += stride) {
    thinned.push_back(points[p]);
  }
  return thinned;
}

bool measured_so(const ProfilePoint& point, const MeasuredPlace& place) {
  return point.kind == place.kind && point.nodes == place.nodes() &&
         point.gpus_per_node == place.gpus_per_node() && point.nccl == place.spec.nccl &&
         point.algorithm == place.spec.algorithm && point.protocol == place.spec.protocol &&
         point.channels == place.spec.max_channels && point.nvls == place.spec.nvls &&
         point.socket_threads == place.spec.socket_threads &&
         (point.socket_threads == 0 || point.sockets_per_thread == place.spec.sockets_per_thread);
}

}  // namespace

PlaceForecast::PlaceForecast(const Profile& profile, const MeasuredPlace& place)
    : kind_(place.kind),
      nodes_(place.nodes()),
      gpus_per_node_(place.gpus_per_node()),
      curvature_(profile.curvature),
      elsewhere_(for_process(profile, place.kind)) {
  for (const ProfilePoint& point : profile.points) {
    if (measured_so(point, place)) {
      here_.push_back({point.bytes, point.log_ratio, point.noise, 0, 0});
    }
  }
  std::ranges::stable_sort(here_, {}, &Here::bytes);
  const auto equal = [](const Here& a, const Here& b) { return a.bytes == b.bytes; };
  here_.erase(std::unique(here_.begin(), here_.end(), equal), here_.end());
}

std::vector<Bytes> PlaceForecast::measured_sizes() const {
  std::vector<Bytes> sizes;
  for (const Here& each : here_) {
    sizes.push_back(each.bytes);
  }
  return sizes;
}

void PlaceForecast::set_simulated(std::span<const double> log_times) {
  for (std::size_t i = 0; i < here_.size(); ++i) {
    here_[i].log_time = log_times[i];
  }
  const auto measured = [&](std::size_t i) { return here_[i].log_time + here_[i].log_ratio; };
  for (std::size_t i = 1; i + 1 < here_.size(); ++i) {
    const double expected = line(log_of(here_[i].bytes), log_of(here_[i - 1].bytes), measured(i - 1),
                                 log_of(here_[i + 1].bytes), measured(i + 1));
    here_[i].local_error = std::abs(measured(i) - expected);
  }
}

std::optional<Forecast> PlaceForecast::between(Bytes bytes, double log_time) const {
  const auto above = std::ranges::lower_bound(here_, bytes, {}, &Here::bytes);
  if (above == here_.end()) {
    return std::nullopt;
  }
  if (above->bytes == bytes) {
    return Forecast{above->log_ratio, std::hypot(above->noise, noise_of(bytes)), true};
  }
  if (above == here_.begin()) {
    return std::nullopt;
  }
  const Here &low = *(above - 1), &high = *above;
  const double x = log_of(bytes), x0 = log_of(low.bytes), x1 = log_of(high.bytes);
  const double simulated = line(x, x0, low.log_time, x1, high.log_time);
  const double measured = simulated + line(x, x0, low.log_ratio, x1, high.log_ratio);
  const double bend = kMostBend * std::tanh(curvature_ * (log_time - simulated) / kMostBend);
  // The miss grows with the square of the gap up to the usual one; a line over twice the gap misses its
  // middle, measured, by local_error.
  const double gap = std::min(1.0, std::pow((x1 - x0) / std::log(4.0), 2));
  const double own = 0.5 * std::max(low.local_error, high.local_error);
  const double usual = usual_miss(bytes) * gap;
  const double noise = std::max(low.noise, high.noise);
  return Forecast{measured + bend - log_time,
                  std::sqrt(usual * usual + 0.25 * own * own + 0.5 * noise * noise), true};
}

Forecast PlaceForecast::at(Bytes bytes, double log_time) const {
  if (const std::optional<Forecast> forecast = between(bytes, log_time)) {
    return *forecast;
  }
  const Discrepancy far = elsewhere_.at(kind_, nodes_, gpus_per_node_, bytes);
  return {bounded_by_edges(bytes, log_time, far.mean), std::hypot(far.deviation, noise_of(bytes)), false};
}

// Below the smallest size measured here as far off as there, which published tables bear out; above the largest, no
// byte takes longer than there.
double PlaceForecast::bounded_by_edges(Bytes bytes, double log_time, double log_factor) const {
  if (here_.empty() || bytes == here_.front().bytes) {
    return log_factor;
  }
  if (bytes < here_.front().bytes) {
    return here_.front().log_ratio;
  }
  const double as_slow =
      here_.back().log_time + here_.back().log_ratio + log_of(bytes) - log_of(here_.back().bytes);
  return std::min(log_factor, as_slow - log_time);
}

double curvature_of(std::span<const MeasuredPoint> points, std::span<const double> log_ratio) {
  constexpr double kMost = 0.2, kPrior = 0.06;  // of one bend; of all together, as if none were borne out
  const auto bend_of = [&](std::size_t p, auto&& value) {
    const double expected = line(log_of(points[p].bytes), log_of(points[p - 1].bytes), value(p - 1),
                                 log_of(points[p + 1].bytes), value(p + 1));
    return std::clamp(value(p) - expected, -kMost, kMost);
  };
  double together = 0, own = kPrior * kPrior;
  for (std::size_t p = 1; p + 1 < points.size(); ++p) {
    if (points[p - 1].place != points[p].place || points[p + 1].place != points[p].place) {
      continue;
    }
    const double measured = bend_of(p, [&](std::size_t i) { return points[i].log_time; });
    const double simulated = bend_of(p, [&](std::size_t i) { return points[i].log_time - log_ratio[i]; });
    together += measured * simulated;
    own += simulated * simulated;
  }
  return std::clamp(together / own, 0.0, 1.0);
}

}  // namespace paceline
