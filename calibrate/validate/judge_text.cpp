// The pages of `paceline calibrate compare` and `diagnose`.
#include <algorithm>
#include <cmath>
#include <set>

#include "calibrate/validate/judge.h"
#include "calibrate/validate/reports.h"
#include "core/text.h"
#include "scenarios/readable.h"

namespace paceline {
namespace {

std::string microseconds(double seconds) {
  const double us = seconds * 1e6;
  return formatted(us < 100 ? "%.2f" : us < 10'000 ? "%.1f" : "%.0f", us);
}

std::string settings_text(const CollectiveSpec& spec, bool nccl_stated) {
  std::string text =
      in_words(spec) +
      (nccl_stated || spec.library != CollectiveLibrary::nccl ? "" : " (not stated: the newest is assumed)");
  text += spec.algorithm.empty() ? "" : ", NCCL_ALGO=" + spec.algorithm;
  text += spec.protocol.empty() ? "" : ", NCCL_PROTO=" + spec.protocol;
  text += spec.max_channels == 0 ? "" : ", NCCL_MAX_NCHANNELS=" + std::to_string(spec.max_channels);
  text += spec.socket_threads == 0 ? ""
                                   : ", " + std::to_string(spec.socket_threads) + " socket threads of " +
                                         plural(spec.sockets_per_thread, "socket");
  return text + (spec.nvls ? "" : ", NVLS off");
}

std::string heading(const JudgedLog& judged, std::size_t place) {
  const MeasuredPlace& at = judged.log.places[place];
  std::set<std::string> tables;
  for (const JudgedRow& row : judged.rows) {
    if (row.judged && judged.log.points[row.point].place == place) {
      tables.insert(judged.data.collectives[row.row].table);
    }
  }
  return joined(std::vector<std::string>(tables.begin(), tables.end()), ", ") + ": " +
         std::string(name_of(at.kind)) + " on " + plural(at.nodes(), "node") + " of " +
         plural(at.gpus_per_node(), "GPU") +
         (at.nodes_stated ? "" : " (not stated: full nodes are assumed)") + ", " +
         settings_text(at.spec, judged.log.nccl_stated || at.nccl_stated) + '\n';
}

std::string ran_as(const CollectiveCost& cost) {
  return cost.channels == 0
             ? "none"
             : std::string(name_of(cost.plan.algorithm)) + '/' + std::string(name_of(cost.plan.protocol)) +
                   '/' + std::to_string(cost.channels);
}

std::string mark_of(const ExpectedPoint& expected, Seconds measured, Seconds launch) {
  return expected.impossible                        ? "impossible"
         : measured < expected.interval.low         ? "fast"
         : !as_expected(expected, measured, launch) ? "slow"
         : measured > expected.interval.high        ? "launch"
                                                    : "";
}

std::string rows_text(const JudgedLog& judged, std::size_t place) {
  std::vector<Cells> cells{{"size", "measured us", "predicted us", "90 % from", "to", "ratio", "as", ""}};
  for (const JudgedRow& row : judged.rows) {
    if (!row.judged || judged.log.points[row.point].place != place) {
      continue;
    }
    const Seconds measured = judged.data.collectives[row.row].time;
    const ExpectedPoint& expected = judged.log.expected[row.point];
    const CollectiveInterval& interval = expected.interval;
    cells.push_back({size_text(judged.log.points[row.point].bytes.value), microseconds(measured.value),
                     microseconds(expected.time.value), microseconds(interval.low.value),
                     microseconds(interval.high.value), formatted("%.2f", measured / expected.time),
                     ran_as(expected.cost), mark_of(expected, measured, judged.diagnosis.best().launch)});
  }
  return aligned(cells);
}

std::string first_of_page(const JudgedLog& judged) {
  std::string text;
  for (const std::string& line : judged.remarks) {
    text += line + '\n';
  }
  return text + version_remarks(judged.data);
}

std::string left_out_text(const JudgedLog& judged) {
  std::string text;
  for (const JudgedRow& row : judged.rows) {
    if (!row.judged) {
      const CollectiveMeasurement& one = judged.data.collectives[row.row];
      text += formatted("left out: %s:%lld, %lld bytes: ", one.origin.file.c_str(),
                        static_cast<long long>(one.origin.line), static_cast<long long>(one.bytes.value)) +
              row.left_out + '\n';
    }
  }
  return text;
}

std::string names_text(const Cause& one) {
  const std::string cost = launch_text(one), launch = cost.empty() ? "" : ", with " + cost;
  if (one.names.empty()) {
    return "nothing: a machine as it is described" + launch;
  }
  return joined(one.names, ", or ") + launch;
}

// e^19 is 10^8.3.
std::string times_text(double log_odds) {
  constexpr double kNoMore = 12;  // powers of ten
  const double powers = std::abs(log_odds) / std::log(10);
  const std::string text = powers > kNoMore ? "over 10^12"
                           : powers < 1     ? formatted("%.1f", std::pow(10, powers))
                           : powers < 4     ? formatted("%.0f", std::pow(10, powers))
                                            : formatted("10^%.0f", powers);
  return text + (log_odds < 0 ? " times less" : " times more");
}

}  // namespace

std::string compare_text(const JudgedLog& judged) {
  std::string text = first_of_page(judged) + left_out_text(judged);
  for (std::size_t p = 0; p < judged.log.places.size(); ++p) {
    text += heading(judged, p) + rows_text(judged, p) + '\n';
  }
  for (const std::string& line : judged.verdict) {
    text += line + '\n';
  }
  return text;
}

std::string diagnose_text(const JudgedLog& judged) {
  std::string text = first_of_page(judged) + left_out_text(judged);
  for (std::size_t p = 0; p < judged.log.places.size(); ++p) {
    text += heading(judged, p);
  }
  const Diagnosis& diagnosis = judged.diagnosis;
  constexpr std::size_t kShown = 5;
  std::vector<Cells> cells{{"how likely", "rows off by", "what is wrong"}};
  for (std::size_t e = 0; e < diagnosis.ranked.size(); ++e) {
    const Cause& one = diagnosis.ranked[e];
    if (e < kShown || one.names.empty()) {
      cells.push_back({one.names.empty() ? "1" : times_text(one.log_odds),
                       formatted("%.1f %%", 100 * one.error), names_text(one)});
    }
  }
  text += judged.diagnosed.points.empty() ? "\n" : '\n' + aligned(cells, 3) + '\n';
  for (const std::string& line : judged.verdict) {
    text += line + '\n';
  }
  if (!diagnosis.healthy()) {
    text += "look at: " + diagnosis.best().look + '\n';
  }
  if (!diagnosis.unseen.empty()) {
    text += "would not show in these sizes:";
    for (const std::string& name : diagnosis.unseen) {
      text += (&name == diagnosis.unseen.data() ? " " : ", ") + name;
    }
    text += '\n';
  }
  return text;
}

}  // namespace paceline
