#include "calibrate/fit/collective_fit.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "calibrate/fit/collective_points.h"
#include "calibrate/fit/cost_fit.h"
#include "calibrate/fit/place_forecast.h"
#include "core/fingerprint.h"
#include "core/text.h"
#include "core/version.h"

namespace paceline {
namespace {

std::string today() {
  const std::chrono::year_month_day date =
      std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  return formatted("%04d-%02u-%02u", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                   static_cast<unsigned>(date.day()));
}

std::vector<ProfileSource> sources_of(const MeasuredData& data) {
  std::vector<ProfileSource> sources;
  for (const DataFile& file : data.files) {
    sources.push_back({file.path, file.format, to_hex(file.hash), file.rows});
  }
  return sources;
}

// Of most points.
std::string usual_version(const MeasuredPoints& measured) {
  std::map<std::string, int> points;
  for (const MeasuredPoint& point : measured.points) {
    ++points[measured.places[point.place].spec.nccl];
  }
  return std::ranges::max_element(points, {}, [](const auto& entry) { return entry.second; })->first;
}

Profile profile_of(const FitRequest& request, const MeasuredData& data, const MeasuredPoints& measured,
                   const CostFit& fit, AlgorithmChoice choose) {
  Profile profile = empty_profile(request.cluster_name, data);
  profile.machine = machine_of(request.cluster.node);
  const bool crosses =
      std::ranges::any_of(measured.places, [](const MeasuredPlace& place) { return place.nodes() > 1; });
  profile.network = crosses ? network_of(request.cluster.node) : "";
  profile.library = request.collective.library;
  profile.nccl = usual_version(measured);
  profile.choose = choose;
  profile.covariance = fit.covariance;
  for (const FittedParameter& p : fit.parameters) {
    profile.parameters.push_back({p.name, p.value, p.initial, p.deviation, p.determined, p.least, p.most,
                                  p.fewest_ranks, p.most_ranks});
  }
  for (std::size_t p = 0; p < measured.points.size(); ++p) {
    const MeasuredPoint& point = measured.points[p];
    const MeasuredPlace& place = measured.places[point.place];
    std::set<std::string> tables;  // rows of one run are not independent
    for (const std::size_t r : point.rows) {
      tables.insert(data.collectives[r].table);
    }
    const double noise = noise_of(point.bytes) / std::sqrt(static_cast<double>(tables.size()));
    profile.points.push_back({place.kind, place.nodes(), place.gpus_per_node(), point.bytes, fit.log_ratio[p],
                              noise, place.spec.nccl, place.spec.algorithm, place.spec.protocol,
                              place.spec.max_channels, place.spec.nvls, place.spec.socket_threads,
                              place.spec.sockets_per_thread});
  }
  profile.curvature = curvature_of(measured.points, fit.log_ratio);
  return profile;
}

bool any_version_stated(const FitRequest& request, const MeasuredData& data) {
  return request.nccl_stated || std::ranges::any_of(data.collectives, [](const CollectiveMeasurement& row) {
           return !row.nccl.empty();
         });
}

// Where the version isn't known the tuner must be clearly worse to be overruled.
constexpr double kClearly = 0.8;

}  // namespace

Profile empty_profile(const std::string& cluster_name, const MeasuredData& data) {
  Profile profile;
  profile.tool = "paceline " + std::string(kVersion);
  profile.model_version = kModelVersion;
  profile.date = today();
  profile.cluster = cluster_name;
  profile.sources = sources_of(data);
  return profile;
}

CollectiveFit fit_collectives(const FitRequest& request, const MeasuredData& data) {
  const MeasuredPoints measured = require_points(request, data);
  CollectiveFit result;
  const auto fitted = [&](AlgorithmChoice choose) {
    return fit_costs(measured.places, measured.points, choose, request.progress, request.threads);
  };
  CostFit fit = fitted(AlgorithmChoice::tuner);
  result.tuner_error = fit.mean_error;
  AlgorithmChoice choose = AlgorithmChoice::tuner;
  if (!any_version_stated(request, data) && request.collective.library == CollectiveLibrary::nccl) {
    CostFit fastest = fitted(AlgorithmChoice::fastest);
    result.fastest_error = fastest.mean_error;
    if (fastest.mean_error < kClearly * fit.mean_error) {
      fit = std::move(fastest);
      choose = AlgorithmChoice::fastest;
    }
  }
  result.profile = profile_of(request, data, measured, fit, choose);
  result.rows = measured.rows;
  for (std::size_t p = 0; p < measured.points.size(); ++p) {
    for (const std::size_t r : measured.points[p].rows) {
      const double more = std::log(data.collectives[r].time.value) - measured.points[p].log_time;
      result.rows[r].log_ratio = fit.log_ratio[p] + more;
    }
  }
  return result;
}

namespace {

// To four digits.
std::string shown_cost(const std::string& name, double value) {
  const std::string exact = cost_text(name, value);
  const std::size_t number = std::min(exact.find(' '), exact.size());
  double shown = 0;
  std::from_chars(exact.data(), exact.data() + number, shown);
  return formatted("%.4g", shown) + exact.substr(number);
}

std::string parameter_lines(const Profile& profile) {
  std::string text = formatted("%-34s %14s %14s  %s\n", "parameter", "fitted", "initial", "90 % within");
  std::vector<std::string> kept;
  for (const ProfileParameter& p : profile.parameters) {
    if (!p.fitted) {
      kept.push_back(p.name);
      continue;
    }
    text += formatted("%-34s %14s %14s  x/ %.3f\n", p.name.c_str(), shown_cost(p.name, p.value).c_str(),
                      shown_cost(p.name, p.initial).c_str(), std::exp(kNinety * p.deviation));
  }
  return text + (kept.empty()
                     ? ""
                     : "Not determined by these data, kept as they were: " + joined(kept, ", ") + "\n");
}

}  // namespace

std::vector<std::string> implausible(const Profile& profile) {
  constexpr double kFar = 3;           // prior deviations
  const double kMissed = std::log(2);  // of ln(measured / simulated), in the mean
  constexpr double kRounding = 1e-3;   // of ln(value)
  std::vector<std::string> lines;
  for (const ProfileParameter& p : profile.parameters) {
    const std::string value = p.name + ' ' + shown_cost(p.name, p.value);
    const double far = std::log(p.value / p.initial) / prior_deviation(p.name);
    if (p.fitted && p.name.ends_with("efficiency") && p.value > kMostEfficiency * (1 - kRounding)) {
      lines.push_back(value + " is the most that a fit may take: these links carry more than those of " +
                      profile.cluster);
    } else if (p.fitted && std::abs(far) > kFar) {
      lines.push_back(value + " is far from " + shown_cost(p.name, p.initial) + ", where such machines are");
    }
  }
  double sum = 0;
  for (const ProfilePoint& point : profile.points) {
    sum += point.log_ratio;
  }
  const double off = profile.points.empty() ? 0 : sum / static_cast<double>(profile.points.size());
  if (std::abs(off) > kMissed) {
    lines.push_back(formatted("what was measured takes %.3g times as long as on ", std::exp(off)) +
                    profile.cluster +
                    ", whatever the costs: another machine, another library or another layout was measured");
  }
  return lines;
}

std::string fit_table(const CollectiveFit& fit, const MeasuredData& data) {
  std::string text;
  std::size_t used = 0;
  double sum = 0;
  for (const FittedRow& row : fit.rows) {
    if (row.use == RowUse::fitted) {
      ++used;
      sum += std::abs(row.log_ratio);
    } else {
      const CollectiveMeasurement& measured = data.collectives[row.row];
      text += formatted("not fitted: %s:%lld, %lld bytes: ", measured.origin.file.c_str(),
                        static_cast<long long>(measured.origin.line),
                        static_cast<long long>(measured.bytes.value)) +
              row.note + "\n";
    }
  }
  text += parameter_lines(fit.profile);
  for (const std::string& line : implausible(fit.profile)) {
    text += "implausible: " + line + '\n';
  }
  text += formatted("%zu of %zu rows fitted; the model alone is off by %.1f %% (geometric mean)\n", used,
                    fit.rows.size(), 100 * std::expm1(used > 0 ? sum / static_cast<double>(used) : 0));
  if (fit.fastest_error > 0) {
    text += formatted("algorithms: the tuner's choice is off by %.1f %%, always the fastest by %.1f %%: %s\n",
                      100 * std::expm1(fit.tuner_error), 100 * std::expm1(fit.fastest_error),
                      fit.profile.choose == AlgorithmChoice::tuner ? "the tuner's" : "the fastest");
  }
  return text;
}

}  // namespace paceline
