#include "calibrate/validate/judge.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "calibrate/import/import.h"
#include "calibrate/validate/reports.h"
#include "core/text.h"
#include "scenarios/readable.h"

namespace paceline {
namespace {

std::string speed_text(double speed) { return formatted("%.0f %%", 100 * speed); }

// "2 nodes of 8 GPUs, all_reduce"
std::string place_text(const MeasuredPlace& place) {
  return std::string(name_of(place.kind)) + " on " + plural(place.nodes(), "node") + " of " +
         plural(place.gpus_per_node(), "GPU");
}

// "as expected up to 64 MiB; at 78 % of the expected speed from 128 MiB on"
std::string stretches_text(const std::vector<Stretch>& all) {
  std::string text;
  for (std::size_t s = 0; s < all.size(); ++s) {
    const Stretch& each = all[s];
    text += (s > 0 ? "; " : "") + (each.expected ? std::string("as expected")
                                                 : "at " + speed_text(each.speed) + " of the expected speed");
    if (all.size() == 1) {
      text += each.rows > 1 ? " at all sizes" : " at its one size";
    } else if (s == 0) {
      text += " up to " + size_text(each.last.value);
    } else if (s + 1 == all.size()) {
      text += " from " + size_text(each.first.value) + " on";
    } else {
      text += " from " + size_text(each.first.value) + " to " + size_text(each.last.value);
    }
  }
  return text;
}

std::string alike_text(const Cause& cause) {
  return joined(cause.names, ", ", ", or ") + (cause.names.size() > 1 ? " (which look the same here)" : "");
}

// Of a machine that is as described, as far as can be told, though some rows are not as expected.
std::string unexplained_text(const JudgedLog& judged, const Cause* near) {
  constexpr const char* kSharper = "a profile of such a machine would judge more sharply";
  return near != nullptr && explains(judged.diagnosed, *near)
             ? alike_text(*near) + " would explain that, but " + (near->names.size() > 1 ? "are" : "is") +
                   " less likely than nothing; more sizes, or " + kSharper
             : std::string("no single fault that is known here explains that; ") + kSharper;
}

// The runner-up is named with the best where it is not much less likely.
std::string explanation_text(const JudgedLog& judged) {
  constexpr double kClose = 3;  // of ln(odds)
  const Diagnosis& diagnosis = judged.diagnosis;
  const Cause* const second = diagnosis.ranked.size() > 1 ? &diagnosis.ranked[1] : nullptr;
  const bool near =
      second != nullptr && !second->names.empty() && diagnosis.best().log_odds - second->log_odds < kClose;
  const bool all_expected = std::ranges::all_of(judged.stretches, &Stretch::expected);
  const std::string launch = launch_text(diagnosis.best());
  if (diagnosis.healthy()) {
    return all_expected ? launch.empty() ? "" : launch + " explains it"
                        : (launch.empty() ? "" : launch + " is counted; ") +
                              unexplained_text(judged, near ? second : nullptr);
  }
  std::string text = alike_text(diagnosis.best());
  if (near) {
    text += "; or " + joined(second->names, ", ", ", or ");
  }
  text += launch.empty() ? "" : ", with " + launch;
  return explains(judged.diagnosed, diagnosis.best())
             ? text + " explains it"
             : text + (launch.empty() ? "" : ",") + " comes nearest, but leaves " +
                   percent_text(diagnosis.best().error);
}

// "3 rows are faster than the links allow, which is impossible: from 2 MiB to 8 MiB"
std::string impossible_text(const ExpectedLog& log, std::size_t place) {
  std::size_t rows = 0;
  Bytes first, last;
  for (std::size_t p = 0; p < log.points.size(); ++p) {
    if (log.points[p].place == place && log.expected[p].impossible) {
      first = rows == 0 ? log.points[p].bytes : first;
      last = log.points[p].bytes;
      rows += log.points[p].rows.size();
    }
  }
  if (rows == 0) {
    return {};
  }
  return plural(static_cast<std::int64_t>(rows), "row") +
         " faster than the links allow, which is impossible: " + size_text(first.value) +
         (first == last ? "" : " to " + size_text(last.value)) +
         "; look at the columns' units, the number of GPUs, and --cluster";
}

// exp(mean |ln(measured / predicted)|) - 1 of a place's points, the launch cost counted.
double error_at(const ExpectedLog& log, std::size_t place, Seconds launch) {
  double sum = 0;
  int points = 0;
  for (std::size_t p = 0; p < log.points.size(); ++p) {
    if (log.points[p].place == place && !log.expected[p].impossible) {
      sum += std::abs(log.points[p].log_time - std::log(log.expected[p].time.value + launch.value));
      ++points;
    }
  }
  return std::expm1(sum / points);
}

std::int64_t wrong_rows(const MeasuredData& data) {
  return std::ranges::count_if(data.collectives, &CollectiveMeasurement::wrong_values);
}

std::vector<std::string> verdict_of(const JudgedLog& judged) {
  std::vector<std::string> lines;
  if (const auto wrong = wrong_rows(judged.data); wrong > 0) {
    lines.push_back(
        plural(wrong, "row") +
        " moved wrong values (#wrong): the machine corrupts data, whatever the times say; look at "
        "ECC and Xid errors, and run nccl-tests on parts of it");
  }
  for (std::size_t p = 0; p < judged.log.places.size(); ++p) {
    std::vector<Stretch> here;
    std::ranges::copy_if(judged.stretches, std::back_inserter(here),
                         [&](const Stretch& s) { return s.place == p; });
    if (std::string bad = impossible_text(judged.log, p); !bad.empty()) {
      lines.push_back(place_text(judged.log.places[p]) + ": " + bad);
    }
    if (!here.empty()) {
      lines.push_back(place_text(judged.log.places[p]) + ": " + stretches_text(here) + " (off by " +
                      percent_text(error_at(judged.log, p, judged.diagnosis.best().launch)) +
                      " in the mean)");
    }
  }
  if (const std::string why = explanation_text(judged); !why.empty()) {
    lines.push_back(why);
  }
  return lines;
}

}  // namespace

bool JudgedLog::healthy() const {
  return diagnosis.healthy() && std::ranges::none_of(log.expected, &ExpectedPoint::impossible) &&
         wrong_rows(data) == 0;
}

bool as_expected(const ExpectedPoint& expected, Seconds measured, Seconds launch) {
  return !expected.impossible && expected.interval.low <= measured &&
         measured <= expected.interval.high + launch;
}

namespace {

// Where rows are as expected, and where not: outside of their interval, or where the fault that explains the
// log changes a time by a fifth of its most. A row alone among others doesn't count.
std::vector<Stretch> stretches_of(const ExpectedLog& log, const Diagnosis& diagnosis) {
  const std::size_t n = log.points.size();
  std::vector<bool> expected(n);
  const Cause& best = diagnosis.best();
  // How much longer it took than expected, in ln.
  const auto longer = [&](std::size_t p) {
    return log.points[p].log_time - std::log(log.expected[p].time.value + best.launch.value);
  };
  constexpr double kActs = 0.2;  // of what it changes most: where a fault shows
  double most = 0;
  for (const double more : best.log_more) {
    most = std::max(most, std::abs(more));
  }
  for (std::size_t p = 0; p < n; ++p) {
    const double more = diagnosis.healthy() ? 0 : best.log_more[p];
    const bool acts =
        more != 0 && std::abs(more) >= kActs * most && longer(p) / more > 0.5;  // nearer to the fault's
    expected[p] =
        !acts && as_expected(log.expected[p], Seconds(std::exp(log.points[p].log_time)), best.launch);
  }
  const auto same_place = [&](std::size_t a, std::size_t b) {
    return log.points[a].place == log.points[b].place;
  };
  for (std::size_t p = 1; p + 1 < n; ++p) {
    if (same_place(p - 1, p) && same_place(p, p + 1) && expected[p - 1] == expected[p + 1]) {
      expected[p] = expected[p - 1];
    }
  }
  std::vector<Stretch> all;
  for (std::size_t p = 0; p < n; ++p) {
    if (p == 0 || !same_place(p - 1, p) || expected[p] != expected[p - 1]) {
      all.push_back({log.points[p].place, log.points[p].bytes, log.points[p].bytes, 0, expected[p], 0});
    }
    Stretch& stretch = all.back();
    stretch.last = log.points[p].bytes;
    ++stretch.rows;
    stretch.speed -= longer(p);
  }
  for (Stretch& stretch : all) {
    stretch.speed = std::exp(stretch.speed / static_cast<double>(stretch.rows));
  }
  return all;
}

// What of the profile holds on the machine that the log is judged by.
Profile profile_for(const LogFiles& given, const FitRequest& request, const MeasuredData& data) {
  if (!given.profile) {
    return {};
  }
  ClusterSpec cluster = request.cluster;
  for (const MeasuredPlace& place : gather_points(request, data).places) {
    cluster.nodes = std::max(cluster.nodes, place.nodes());
  }
  return for_machine(*given.profile, cluster);
}

}  // namespace

JudgedLog judge(const LogFiles& given) {
  JudgedLog judged;
  FitRequest request = request_of(given.files);
  judged.data = import_files(given.files.files);
  for (const Remark& remark : judged.data.remarks) {
    judged.remarks.push_back(remark_line(remark));
  }
  std::ranges::copy(log_remarks(request, judged.data), std::back_inserter(judged.remarks));
  const Profile profile = profile_for(given, request, judged.data);
  request.collective = with_costs(request.collective, profile, request.nccl_stated);
  const MeasuredPoints measured = require_points(request, judged.data);
  judged.log = expected_log(request, measured, judged.data, profile);
  for (const FittedRow& row : measured.rows) {
    judged.rows.push_back({row.row, 0, false, row.note});
  }
  for (std::size_t p = 0; p < judged.log.points.size(); ++p) {
    for (const std::size_t row : judged.log.points[p].rows) {
      judged.rows[row] = {row, p, true, {}};
    }
  }
  judged.diagnosed = thinned(judged.log);
  if (judged.diagnosed.points.empty()) {  // all are impossible
    judged.diagnosis.ranked.emplace_back();
  } else {
    std::vector<std::string> unseen;
    const std::vector<Suspect> suspects = suspects_of(judged.diagnosed, given.files.progress, unseen);
    judged.diagnosis = diagnose(judged.diagnosed, suspects);
    judged.diagnosis.unseen = std::move(unseen);
  }
  judged.stretches = stretches_of(judged.diagnosed, judged.diagnosis);
  judged.verdict = verdict_of(judged);
  return judged;
}

}  // namespace paceline
