#include "scenarios/run_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "core/fingerprint.h"
#include "scenarios/gpu_memory.h"
#include "scenarios/readable.h"
#include "scenarios/run_table_rows.h"
#include "scenarios/tables.h"
#include "scenarios/utilisation.h"

namespace paceline {
namespace {

// Text in lines of at most `width`, broken at spaces.
std::string wrapped(const std::string& text, std::size_t width) {
  std::istringstream words(text);
  std::string out, line, word;
  while (words >> word) {
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      out += line + '\n';
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + (line.empty() ? "" : "\n");
}

// One GPU has nobody to share with.
std::string plain(const Prediction& p) {
  const TrainingSpec& training = p.scenario.training;
  if (p.job.ranks() > 1 || p.report.servers) {
    return "";
  }
  const bool compresses = training.compression.kind != CompressionKind::none;
  return (training.strategy == StrategyKind::ddp
              ? ""
              : std::string(name_of(training.strategy)) +
                    " on one GPU is plain training: nothing is sharded\n") +
         (compresses ? "one GPU sends no gradients: nothing is compressed\n" : "");
}

// Where ranks join.
std::string inputs_row(const Prediction& p) {
  if (p.job.batches.empty()) {
    return "";
  }
  const auto [least, most] = std::ranges::minmax(p.job.batches);
  return row("inputs", "batches: " + std::to_string(least) + " to " + std::to_string(most) +
                           " a GPU; one that has finished adds zeros (join)");
}

std::string utilisation_row(const Prediction& p) {
  const Utilisation used = utilisation(p);
  const TrainingSpec& training = p.scenario.training;
  const FlopsPerSecond peak = p.scenario.gpu.peak[static_cast<std::size_t>(training.precision)];
  const std::string of =
      p.scenario.gpus.empty() ? number_text(peak.value / 1e12) + " TFLOP/s" : "their peaks";
  const std::string precision(name_of(training.precision));
  return row("utilisation", fixed(100 * used.of_layers, 1) + " % of " + of + " in " + precision +
                                (used.with_attention > used.of_layers
                                     ? " by layers with parameters, " + fixed(100 * used.with_attention, 1) +
                                           " % with attention"
                                     : "")) +
         (used.of_layers > 1 ? row("", "above the peak: is it a rate in another precision than " + precision +
                                           " (/training/precision)?")
                             : "");
}

// "160 on 8 GPUs, 80 on 8 GPUs": where they differ.
std::string batches_row(const Prediction& p) {
  const std::vector<std::int64_t>& set = p.scenario.training.batches;
  std::map<std::int64_t, std::int64_t, std::greater<>> gpus;
  for (const std::int64_t batch : set.empty() ? p.batches : set) {
    ++gpus[batch];
  }
  constexpr std::size_t kNamed = 4;
  std::string text;
  std::size_t named = 0;
  for (const auto& [batch, count] : gpus) {
    if (++named <= kNamed) {
      text += (text.empty() ? "" : ", ") + std::to_string(batch) + " on " + plural(count, "GPU");
    }
  }
  text += named > kNamed ? " and " + std::to_string(named - kNamed) + " others" : "";
  return text.empty() ? "" : row("batches", text + (set.empty() ? " in the end, as balanced" : ""));
}

// Steps that have not settled, and what tells.
std::string drift_rows(const Prediction& p) {
  if (!p.report.drift) {
    return "";
  }
  const auto& [steps, change] = *p.report.drift;
  constexpr int kTimes = 5;
  return row("", "steps have not settled: the last " + std::to_string(steps) + " take " +
                     fixed(100 * std::abs(change), 1) + (change > 0 ? " % longer" : " % less") +
                     " than the first " + std::to_string(steps) + ";") +
         row("",
             "more of them tell (--iterations " + std::to_string(kTimes * p.scenario.run.iterations) + ")");
}

std::string summary(const Prediction& p) {
  const Report& r = p.report;
  const bool spread = r.step.max - r.step.min > 1e-4 * r.step.mean;
  std::string step = readable_time(r.step.mean);
  step += spread ? "  (p50 " + readable_time(r.step.p50) + ", p95 " + readable_time(r.step.p95) + ", p99 " +
                       readable_time(r.step.p99) + ", max " + readable_time(r.step.max) + ")"
                 : "  (all steps alike)";
  const double lone = r.scaling_efficiency > 0
                          ? r.throughput / (r.scaling_efficiency * static_cast<double>(p.job.ranks()))
                          : 0;
  std::string throughput = readable_count(r.throughput) + " samples/s";
  if (const double tokens = utilisation(p).tokens_per_second; tokens > 0) {
    throughput += " (" + readable_count(tokens) + " tokens/s)";
  }
  const bool slower_at_last = r.counted_throughput > r.throughput &&
                              readable_count(r.counted_throughput) != readable_count(r.throughput);
  if (r.servers && slower_at_last) {
    throughput += " in the long run; these steps did " + readable_count(r.counted_throughput) + ",\n" +
                  row("", "as fast workers got ahead of the slowest, once");
    throughput.pop_back();
  } else if (slower_at_last) {
    throughput += ", what the loaders make; these steps did " + readable_count(r.counted_throughput) + "\n" +
                  row("", "on batches prefetched before them: more --iterations show the lasting step time");
    throughput.pop_back();
  }
  return strategy_rows(p) + row("step time", step) + drift_rows(p) + row("throughput", throughput) +
         row("scaling",
             fixed(100 * r.scaling_efficiency, 1) + " % of " +
                 (p.scenario.gpus.empty()
                      ? std::to_string(p.job.ranks()) + " times one GPU alone, which does " +
                            readable_count(lone) + " samples/s"
                      : "what all GPUs do, each of its kind alone: " +
                            readable_count(lone * static_cast<double>(p.job.ranks())) + " samples/s")) +
         batches_row(p) + inputs_row(p) + utilisation_row(p) + assumption_rows(p);
}

std::string part(const std::string& label, Seconds time, Seconds step) {
  constexpr double kBar = 40;
  const double share = step.value > 0 ? time / step : 0;
  const auto bar = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * kBar));
  return "    " + padded_right(label, 24) + padded(readable_time(time), 10) +
         padded(fixed(100 * share, 1), 7) + " %" + (bar > 0 ? "  " + std::string(bar, '#') : "") + '\n';
}

std::string parts(const Prediction& p) {
  const BreakdownSeconds& b = p.report.breakdown;
  const Seconds step = p.report.step.mean;
  return "\n  where a step goes (mean of all GPUs)\n" + part("compute", b.compute, step) +
         part("exposed communication", b.exposed_communication, step) +
         part("waiting for stragglers", b.straggler_wait, step) +
         (p.report.servers ? part("waiting for servers", b.server_wait, step) : "") +
         part("waiting for input", b.input_wait, step) + part("other (launches, idle)", b.other, step);
}

// The ranks that were just as late as a straggler.
std::string as_late(const Prediction& p, const StragglerReport& s) {
  constexpr std::size_t kNamed = 3;
  if (s.as_late.empty()) {
    return "";
  }
  std::string text = "      as late as it: ";
  for (std::size_t i = 0; i < std::min(kNamed, s.as_late.size()); ++i) {
    text += (i > 0 ? ", rank " : "rank ") + std::to_string(s.as_late[i].value) + " (" +
            gpu_name(p.scenario, s.as_late[i]) + ")";
  }
  return text +
         (s.as_late.size() > kNamed ? " and " + std::to_string(s.as_late.size() - kNamed) + " more\n" : "\n");
}

// Those that cost a thousandth of the step or more.
std::string stragglers(const Prediction& p) {
  constexpr std::size_t kShown = 3;
  constexpr double kWorthALine = 1e-3;
  std::string text;
  for (const StragglerReport& s :
       std::span(p.report.stragglers).first(std::min(kShown, p.report.stragglers.size()))) {
    if (s.waited > kWorthALine * p.report.step.mean) {
      text += "    " + padded_right("rank " + std::to_string(s.rank.value) + " (" + s.gpu + ")", 26) + ' ' +
              readable_time(s.waited) + " a step, mean of all GPUs" +
              (s.collectives > 0 ? "; at " + plural(s.collectives, "collective") : "") + '\n' + as_late(p, s);
    }
  }
  return text.empty() ? text : "\n  whom the others waited for most\n" + text;
}

std::string links(const Prediction& p) {
  constexpr std::size_t kShown = 3;
  const std::vector<LinkReport>& all = p.links;
  const std::size_t degraded = p.scenario.cluster.degraded.size();
  const std::string examined = degraded > all.size() ? " (the first " + std::to_string(all.size()) + " of " +
                                                           std::to_string(degraded) + " examined)"
                                                     : "";
  std::string text =
      all.empty() ? "" : "\n  degraded links: a step is shorter when this one is healthy" + examined + "\n";
  for (std::size_t i = 0; i < std::min(kShown, all.size()); ++i) {
    const double share = p.report.step.mean.value > 0 ? 100 * (all[i].step_delay / p.report.step.mean) : 0;
    text += "    " + padded_right(all[i].link, 26) + " by " + readable_time(all[i].step_delay) + " (" +
            fixed(share, 1) + " %)\n";
  }
  return text;
}

// Nothing where it fits, or where nobody knows.
std::string too_large(const Prediction& p, std::size_t width) {
  const std::string text = does_not_fit(p.scenario);
  return text.empty() ? ""
                      : wrapped(text + "; " + what_would_fit(p.scenario) +
                                    ". What follows is as if it fitted as it is.",
                                width) +
                            '\n';
}

// Not where it has been said first.
std::string memory(const Prediction& p) {
  if (!does_not_fit(p.scenario).empty()) {
    return "";
  }
  const GpuMemory m = memory_of(p.scenario);
  const Bytes gpu = memory_of_gpu(p.scenario);
  const std::string loss = loss_text(m, gpu);
  return row("memory", memory_text(m, gpu) + " a GPU") + row("", memory_parts_text(m)) +
         (loss.empty() ? "" : row("", loss));
}

}  // namespace

std::string headline(const Prediction& p) {
  const Scenario& s = p.scenario;
  const std::int64_t per_node = gpus_of_node(s.cluster);
  const int nodes = nodes_of_job(s.cluster);
  std::string line = s.model.name + " on " + plural(static_cast<std::int64_t>(p.job.ranks()), "GPU") + ": " +
                     plural(nodes, "node") + " (" + node_names(s.cluster) + ") x " +
                     std::to_string(per_node) + ' ';
  for (const GpuKind& kind : s.gpus) {
    line += (&kind == &s.gpus.front() ? "" : ", ") + kind.gpu.name + " in " + std::to_string(kind.nodes);
  }
  line += s.gpus.empty() ? s.gpu.name : "";
  if (nodes > 1) {
    line += ", " + with_spaces(name_of(s.cluster.fabric.kind));
  }
  return line + '\n';
}

std::string terminal_table(const Prediction& p) {
  constexpr std::size_t kWidth = 96, kShownDescription = 280;
  std::string question = p.scenario.description.substr(0, kShownDescription);
  question += question.size() < p.scenario.description.size() ? " ..." : "";
  return too_large(p, kWidth) + wrapped(question, kWidth) + headline(p) + plain(p) + '\n' + summary(p) +
         memory(p) + parts(p) + stragglers(p) + links(p);
}

std::string terminal_footer(const Prediction& p) {
  const int steps = p.scenario.run.iterations;
  const std::string periods =
      p.report.period
          ? " in whole periods of " + std::to_string(p.report.period->steps) + " (iterations are rounded up)"
          : "";
  return "\n  " + plural(steps, "step") + periods + " after one of warm-up (" +
         readable_time(p.report.warm_up) + "), seed " + std::to_string(p.scenario.run.seed) +
         ", fingerprint " + to_hex(p.result.fingerprint) + '\n' + "  " +
         std::string(name_of(p.result.engine)) + " engine: " + p.result.engine_reason + '\n';
}

}  // namespace paceline
