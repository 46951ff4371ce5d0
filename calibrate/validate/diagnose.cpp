#include "calibrate/validate/diagnose.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "calibrate/fit/evidence.h"
#include "calibrate/validate/link_bound.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/text.h"
#include "kernels/gpu.h"

namespace paceline {
namespace {

// One machine in thirty has a fault, of each family alike.
constexpr double kFaulty = 0.03;

// Of ln(time). Two predictions that are nowhere further apart can't be told from each other, as no prediction is
// that good; and a fault that changes no time by more than a measurement's noise doesn't show.
constexpr double kAlike = 0.05, kShows = 0.03;

// What explains a log brings its rows nearer: to so much of how far off they are with nothing wrong.
constexpr double kNearer = 0.9;

constexpr std::size_t kMostJudged = 120;

// ln(seconds) that a healthy machine takes, by point.
std::vector<double> healthy_of(const ExpectedLog& log) {
  std::vector<double> healthy;
  for (std::size_t first = 0; first < log.points.size();) {
    const std::size_t end = end_of_place(log.points, first), at = log.points[first].place;
    const std::vector<Bytes> sizes = sizes_of(log.points, first, end);
    PlaceModel model(log.places[at], sizes, log.places[at].spec.choose);
    std::ranges::copy(model.log_times(model.costs()), std::back_inserter(healthy));
    first = end;
  }
  return healthy;
}

// ln(time with the fault / time expected), by point; nothing where no place can have it.
std::optional<std::vector<double>> more_with(const ExpectedLog& log, const std::vector<double>& healthy,
                                             const std::function<bool(MeasuredPlace&)>& change) {
  std::vector<double> more(log.points.size());
  std::vector<MeasuredPlace> changed;
  bool anywhere = false;
  for (std::size_t first = 0; first < log.points.size();) {
    const std::size_t end = end_of_place(log.points, first), at = log.points[first].place;
    try {
      MeasuredPlace place = log.places[at];
      if (change(place)) {
        forget_channels(place, log.places[at]);
        take_channels(place, changed);
        PlaceModel model(place, sizes_of(log.points, first, end), place.spec.choose);
        keep_channels(place, model);
        changed.push_back(place);
        const std::vector<double> times = model.log_times(model.costs());
        for (std::size_t p = first; p < end; ++p) {
          more[p] = times[p - first] - healthy[p];
        }
        anywhere = true;
      }
    } catch (const InputError&) {  // it can't run so
    }
    first = end;
  }
  return anywhere ? std::optional(more) : std::nullopt;
}

double farthest(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t p = 0; p < a.size(); ++p) {
    most = std::max(most, std::abs(a[p] - b[p]));
  }
  return most;
}

// Where no row says which NCCL ran, a healthy machine may have had any that is as new as its GPUs.
void add_other_versions(const ExpectedLog& log, const std::vector<double>& healthy,
                        std::vector<Suspect>& suspects) {
  if (log.nccl_stated) {
    return;
  }
  Suspect others{.name = "another NCCL", .look = "", .healthy = true, .log_more = {}};
  for (const NcclVersion version : likely_versions(log.places.front().cluster.node.compute_capability)) {
    const auto change = [&](MeasuredPlace& place) {
      place.spec.nccl = to_string(version);
      return true;
    };
    if (auto more = more_with(log, healthy, change)) {
      others.log_more.push_back(std::move(*more));
    }
  }
  suspects.push_back(std::move(others));
}

double error_of(const std::vector<double>& log_ratio) {
  double sum = 0;
  for (const double each : log_ratio) {
    sum += std::abs(each);
  }
  return std::expm1(sum / static_cast<double>(log_ratio.size()));
}

// What a program takes from one call to the next beyond NCCL's own start is no fault of the machine: with a
// framework, tens of microseconds. Each is as likely.
constexpr std::array kLaunches{0.0, 4e-6, 12e-6, 36e-6};  // s

// A launch cost is named only where it makes the rows e^3 times likelier.
constexpr double kTold = 3;
constexpr std::size_t kSettled = 5;  // causes whose launch cost is found to kLaunchStep: those that are shown
constexpr int kLaunchSteps = 18;
constexpr double kLaunchStep = kLaunches.back() / kLaunchSteps;

class Judge {
 public:
  explicit Judge(const ExpectedLog& log) : log_(log), evidence_(rows_of(log)) {}

  // Of the suspect's ways the likeliest, with the evidence of all.
  Cause cause(const Suspect& suspect) const {
    Cause result;
    result.names = {suspect.name};
    std::vector<double> each;
    for (const std::vector<double>& more : suspect.log_more) {
      for (const double launch : kLaunches) {
        const std::vector<double> ratio = log_ratios(more, launch);
        each.push_back(evidence_.of(ratio));
        if (each.back() >= *std::ranges::max_element(each)) {
          result.log_more = more;
          result.launch = Seconds(launch);
          result.error = error_of(ratio);
        }
      }
    }
    result.log_odds = log_mean_exp(each);
    return result;
  }

  // The launch cost under which the rows are the likeliest; none where that tells little.
  void settle_launch(Cause& cause) const {
    double most = evidence_.of(log_ratios(cause.log_more, 0)) + kTold;
    cause.launch = {};
    for (int step = 1; step <= kLaunchSteps; ++step) {
      const double launch = step * kLaunchStep;
      const double each = evidence_.of(log_ratios(cause.log_more, launch));
      if (each > most) {
        most = each;
        cause.launch = Seconds(launch);
      }
    }
    cause.error = error_of(log_ratios(cause.log_more, cause.launch.value));
  }

 private:
  static std::vector<EvidenceRow> rows_of(const ExpectedLog& log) {
    std::vector<EvidenceRow> rows;
    for (std::size_t p = 0; p < log.points.size(); ++p) {
      const MeasuredPlace& place = log.places[log.points[p].place];
      rows.push_back({{place.kind, place.nodes(), place.gpus_per_node(), log.points[p].bytes, 0, 0},
                      log.expected[p].deviation,
                      noise_of(log.points[p].bytes)});
    }
    return rows;
  }
  // ln(measured / predicted), by point.
  std::vector<double> log_ratios(const std::vector<double>& more, double launch) const {
    std::vector<double> ratio;
    for (std::size_t p = 0; p < more.size(); ++p) {
      ratio.push_back(log_.points[p].log_time -
                      std::log(log_.expected[p].time.value * std::exp(more[p]) + launch));
    }
    return ratio;
  }

  const ExpectedLog& log_;
  Evidence evidence_;
};

// What can't be told from one that is likelier is named with it, in the order of the faults' table.
void join_alike(const std::vector<Suspect>& suspects, std::vector<Cause>& ranked) {
  std::vector<Cause> joined;
  for (Cause& each : ranked) {
    const auto same = std::ranges::find_if(joined, [&](const Cause& known) {
      return !known.names.empty() && !each.names.empty() && farthest(known.log_more, each.log_more) < kAlike;
    });
    if (same == joined.end()) {
      joined.push_back(std::move(each));
    } else {
      same->names.push_back(each.names.front());
    }
  }
  for (Cause& each : joined) {
    const auto suspect = [&](const std::string& name) {
      return std::ranges::find(suspects, name, &Suspect::name);
    };
    std::ranges::sort(each.names, {}, suspect);
    for (const std::string& name : each.names) {
      const std::string& look = suspect(name)->look;
      if (each.look.find(look) == std::string::npos) {
        each.look += (each.look.empty() ? "" : "; ") + look;
      }
    }
  }
  ranked = std::move(joined);
}

// Causes that don't bring the rows nearer than nothing does explain no better, however likely.
void put_behind_nothing(std::vector<Cause>& ranked) {
  const auto nothing = std::ranges::find_if(ranked, [](const Cause& each) { return each.names.empty(); });
  const double error = nothing->error;
  const auto behind = std::stable_partition(ranked.begin(), nothing,
                                            [&](const Cause& each) { return each.error < kNearer * error; });
  for (auto each = behind; each != nothing; ++each) {
    each->log_odds = 0;
  }
  std::rotate(behind, nothing, nothing + 1);
}

// That all rows which name one name.
std::string gpu_of(const MeasuredData& data) {
  std::string gpu;
  for (const CollectiveMeasurement& row : data.collectives) {
    const std::string called = gpu_called(row.gpu);
    if (!called.empty() && !gpu.empty() && called != gpu) {
      return {};
    }
    gpu = called.empty() ? gpu : called;
  }
  return gpu;
}

}  // namespace

ExpectedLog expected_log(const FitRequest& request, const MeasuredPoints& measured, const MeasuredData& data,
                         const Profile& profile) {
  ExpectedLog log{measured.places, measured.points, {}, true, gpu_of(data)};
  log.nccl_stated = request.nccl_stated || !profile.nccl.empty() ||
                    std::ranges::none_of(data.collectives, [](const auto& row) { return row.nccl.empty(); });
  for (std::size_t first = 0; first < log.points.size();) {
    const std::size_t end = end_of_place(log.points, first);
    const MeasuredPlace& place = log.places[log.points[first].place];
    CollectiveTest test;
    test.kind = place.kind;
    test.cluster_name = request.cluster_name;
    test.cluster = place.cluster;
    test.collective = place.spec;
    test.nccl_stated = place.nccl_stated;
    test.sizes = sizes_of(log.points, first, end);
    const std::vector<double> bounds = link_bound_seconds(place, test.sizes);
    const CollectivePrediction prediction = predict_collectives(test, profile);
    for (std::size_t p = first; p < end; ++p) {
      const CollectiveCost& cost = prediction.result.rows[p - first];
      const CollectiveInterval& interval = prediction.intervals[p - first];
      log.expected.push_back({cost, to_seconds(cost.time), interval,
                              std::log(interval.high / interval.low) / (2 * kNinety),
                              std::exp(log.points[p].log_time) < bounds[p - first]});
    }
    first = end;
  }
  return log;
}

ExpectedLog thinned(const ExpectedLog& log) {
  std::vector<std::size_t> fitted;
  for (std::size_t p = 0; p < log.points.size(); ++p) {
    if (log.points[p].fitted) {
      fitted.push_back(p);
    }
  }
  std::erase_if(fitted, [&](std::size_t p) { return log.expected[p].impossible; });
  const std::size_t stride = (fitted.size() + kMostJudged - 1) / kMostJudged;
  ExpectedLog some{log.places, {}, {}, log.nccl_stated, log.gpu};
  for (std::size_t f = 0; f < fitted.size(); f += stride) {
    some.points.push_back(log.points[fitted[f]]);
    some.expected.push_back(log.expected[fitted[f]]);
  }
  return some;
}

std::vector<Suspect> suspects_of(const ExpectedLog& log, const FitProgress& progress,
                                 std::vector<std::string>& unseen) {
  const std::vector<double> healthy = healthy_of(log);
  std::vector<Suspect> suspects;
  std::vector<Fault> faults = faults_of(log.places.front().cluster, log.gpu);
  if (log.places.front().spec.library != CollectiveLibrary::nccl) {
    std::erase_if(faults, [](const Fault& fault) { return is_of_nccl(fault.family); });
  }
  std::map<std::string, bool> shows;
  std::vector<std::optional<std::vector<double>>> times(faults.size());
  std::mutex telling;
  std::size_t done = 0;
  for_each_on_threads(faults.size(), all_cores(), [&](std::size_t f) {
    times[f] = more_with(log, healthy, faults[f].change);
    const std::scoped_lock lock(telling);
    if (progress) {
      progress("faults simulated", ++done, faults.size());
    }
  });
  for (std::size_t f = 0; f < faults.size(); ++f) {
    const Fault& fault = faults[f];
    std::optional<std::vector<double>>& more = times[f];
    if (!more) {
      continue;
    }
    bool& seen = shows[fault.name];
    if (farthest(*more, std::vector<double>(more->size())) < kShows) {
      continue;
    }
    seen = true;
    if (suspects.empty() || suspects.back().name != fault.name) {
      suspects.push_back({.family = fault.family, .name = fault.name, .look = fault.look, .log_more = {}});
    }
    suspects.back().log_more.push_back(std::move(*more));
  }
  for (const Fault& fault : faults) {
    const auto at = shows.find(fault.name);
    if (at != shows.end() && !at->second) {
      unseen.push_back(fault.name);
      shows.erase(at);
    }
  }
  add_other_versions(log, healthy, suspects);
  return suspects;
}

std::string launch_text(const Cause& cause) {
  return cause.launch.value > 0 ? formatted("a launch cost of %.0f us", cause.launch.value * 1e6) : "";
}

bool explains(const ExpectedLog& log, const Cause& cause) {
  double half_widths = 0;
  for (const ExpectedPoint& each : log.expected) {
    half_widths += kNinety * each.deviation;
  }
  return std::log1p(cause.error) * static_cast<double>(log.expected.size()) <= half_widths;
}

Diagnosis diagnose(const ExpectedLog& log, const std::vector<Suspect>& suspects) {
  const Judge judge(log);
  std::map<FaultFamily, int> members;
  for (const Suspect& each : suspects) {
    members[each.family] += each.healthy ? 0 : 1;
  }
  const auto families = std::ranges::count_if(members, [](const auto& entry) { return entry.second > 0; });
  Suspect nothing{
      .name = "", .look = "", .healthy = true, .log_more = {std::vector<double>(log.points.size())}};
  Diagnosis diagnosis;
  for (const Suspect& each : suspects) {
    if (each.healthy) {
      nothing.log_more.insert(nothing.log_more.end(), each.log_more.begin(), each.log_more.end());
    }
  }
  Cause none = judge.cause(nothing);
  none.names.clear();
  for (const Suspect& each : suspects) {
    if (!each.healthy) {
      Cause one = judge.cause(each);
      one.log_odds +=
          std::log(kFaulty / (1 - kFaulty) / static_cast<double>(families) / members[each.family]) -
          none.log_odds;
      diagnosis.ranked.push_back(std::move(one));
    }
  }
  none.log_odds = 0;
  diagnosis.ranked.push_back(std::move(none));
  std::ranges::stable_sort(diagnosis.ranked, std::greater(), &Cause::log_odds);
  put_behind_nothing(diagnosis.ranked);
  join_alike(suspects, diagnosis.ranked);
  for (std::size_t c = 0; c < diagnosis.ranked.size(); ++c) {
    if (c < kSettled || diagnosis.ranked[c].names.empty()) {
      judge.settle_launch(diagnosis.ranked[c]);
    }
  }
  return diagnosis;
}

}  // namespace paceline
