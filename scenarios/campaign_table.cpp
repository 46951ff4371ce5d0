// The page of a campaign.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>

#include "core/unknown_name.h"
#include "scenarios/campaign.h"
#include "scenarios/gpu_memory.h"
#include "scenarios/readable.h"

namespace paceline {
namespace {

std::string percent(double share, int decimals = 1) { return fixed(100 * share, decimals) + " %"; }

Spread over_seeds(const CampaignPrediction& p, const std::function<double(const CampaignReport&)>& of) {
  std::vector<double> values;
  for (const CampaignReport& report : p.reports) {
    values.push_back(of(report));
  }
  return spread_of(std::move(values));
}

// "91.3 % (90.4 % to 92.0 %)": the mean, and what 5 and 95 % of the seeds don't reach.
std::string spread_text(const Spread& s, const std::function<std::string(double)>& shown) {
  return shown(s.mean) + (s.p5 < s.p95 ? " (" + shown(s.p5) + " to " + shown(s.p95) + ")" : "");
}

std::string campaign_head(const Scenario& s, const CampaignPrediction& p) {
  std::string text = "campaign: ";
  text += s.faults->length.value > 0 ? readable_duration(to_seconds(s.faults->length)) + " on " : "";
  text += plural(p.spec.nodes, "node") + " with " + plural(gpus_of_job(s.cluster), "GPU");
  text += p.spec.spares > 0 ? " and " + plural(p.spec.spares, "spare node") : "";
  return text + ", " + plural(static_cast<std::int64_t>(p.reports.size()), "seed") +
         (p.reports.size() > 1 ? " (5 to 95 % of them)\n" : "\n");
}

std::string failing(const CampaignPrediction& p) {
  if (p.inputs.m.value == 0) {
    return row("failures", p.spec.trace.empty() ? "none" : "as the trace says");
  }
  std::vector<std::pair<double, std::string>> kinds;
  for (const FailureKind& kind : p.spec.failures) {
    if (kind.mtbf.ps > 0) {
      const Seconds every = to_seconds(kind.mtbf) / parts_of(p.spec, kind.of);
      kinds.emplace_back(every.value, kind.name + " every " + readable_duration(every));
    }
  }
  std::ranges::sort(kinds);
  std::string text = "one every " + readable_duration(p.inputs.m) + " in the whole system";
  std::string lines = row("failures", text);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    lines += row("", kinds[i].second);
  }
  return lines;
}

std::string checkpoints(const CampaignPrediction& p) {
  const CheckpointTimes& c = p.spec.checkpoint;
  const auto [d, r, m] = p.inputs;
  std::string text =
      c.steps > 0 ? "every " + plural(c.steps, "step") : "every " + readable_duration(to_seconds(c.interval));
  text += c.rule == IntervalRule::fixed ? "" : " (" + std::string(name_of(c.rule)) + ")";
  text += ", training stands for " + readable_duration(to_seconds(c.stall));
  text += c.upload.ps > 0 ? ", uploads in " + readable_duration(to_seconds(c.upload)) : "";
  std::string lines = row("checkpoints", text);
  if (m.value > 0) {
    const RuleIntervals rules = rule_intervals(p.spec);
    lines += row("", "Young: " + readable_duration(rules.young) + ", Daly: " + readable_duration(rules.daly) +
                         ", best: " + readable_duration(rules.best));
    lines += row("restart", readable_duration(r) + " from a failure to the first step" +
                                (c.upload.ps > 0 || c.memory ? ", late uploads in it" : ""));
  }
  if (const std::vector<std::string> fatal = fatal_failures(p.spec); !fatal.empty()) {
    lines += row(
        "", "none survives " + quoted_list(fatal, "or") + ": memory alone has one, and it is gone with it;");
    lines += row("", "then the job begins anew, which no formula here counts");
  }
  return lines;
}

// Of the time, over the seeds.
double lost_to(const CampaignPrediction& p, std::span<const CampaignLoss> losses) {
  return over_seeds(p,
                    [&](const CampaignReport& r) {
                      CampaignTime lost{};
                      for (const CampaignLoss loss : losses) {
                        lost = lost + r.losses[static_cast<std::size_t>(loss)];
                      }
                      return r.wall.ps == 0 ? 0 : to_seconds(lost) / to_seconds(r.wall);
                    })
      .mean;
}

constexpr double kShownShare = 5e-5;
// What no interval between checkpoints saves.
constexpr std::array kBeyondIntervals{CampaignLoss::waiting_for_nodes, CampaignLoss::slow_states,
                                      CampaignLoss::fewer_nodes};

std::string losses(const CampaignPrediction& p) {
  std::vector<std::pair<double, std::string>> shares;
  for (const auto& [name, loss] : kNames<CampaignLoss>) {
    shares.emplace_back(-lost_to(p, std::array{loss}), with_spaces(name));
  }
  std::ranges::stable_sort(shares, {}, &std::pair<double, std::string>::first);
  std::string lines;
  for (const auto& [share, name] : shares) {
    if (std::abs(share) >= kShownShare) {
      lines += row(lines.empty() ? "lost" : "", padded(percent(-share, 2), 8) + "  " + name);
    }
  }
  return lines;
}

std::string ends(const CampaignPrediction& p) {
  std::string lines;
  for (const auto& [name, end] : kNames<CampaignEnd>) {
    const auto count = std::ranges::count(p.reports, end, &CampaignReport::end);
    if (count > 0 && end != CampaignEnd::length && end != CampaignEnd::work_done) {
      lines +=
          row("", plural(count, "campaign") + " ended early: " +
                      (end == CampaignEnd::max_restarts ? std::string("max_restarts")
                                                        : std::to_string(kMostRestartsWithoutProgress) +
                                                              " restarts in a row without a checkpoint"));
    }
  }
  return lines;
}

// What independent failures at the system's rate would give, where there are enough to be nearly normal.
std::string poisson(const CampaignPrediction& p) {
  constexpr double kEnough = 20, kOf5Percent = 1.645;  // a normal distribution's 5 %, in deviations
  const bool exponential =
      p.spec.trace.empty() &&
      std::ranges::all_of(p.spec.failures, [](const FailureKind& kind) { return kind.shape == 1; });
  const double wall = over_seeds(p, [](const CampaignReport& r) { return to_seconds(r.wall).value; }).mean;
  const double mean = p.inputs.m.value > 0 ? wall / p.inputs.m.value : 0;
  if (!exponential || mean < kEnough || p.reports.size() < 2) {
    return "";
  }
  const double far = kOf5Percent * std::sqrt(mean);
  return row("", "Poisson's at that rate are " + fixed(mean, 0) + " (" + fixed(mean - far, 0) + " to " +
                     fixed(mean + far, 0) + "), less while parts are out");
}

std::string done(const Scenario& s, const CampaignPrediction& p) {
  const auto count = [](double value) { return readable_count(std::round(value)); };
  std::string lines =
      row("goodput", spread_text(over_seeds(p, [](const CampaignReport& r) { return r.goodput_share(); }),
                                 [](double share) { return percent(share, 2); }));
  lines += row(
      "done", spread_text(over_seeds(p, [](const CampaignReport& r) { return static_cast<double>(r.steps); }),
                          count) +
                  " steps of " + readable_duration(to_seconds(p.healthy.mean)) +
                  (p.given ? ", as told" : ", as simulated"));
  lines += row(
      "", spread_text(over_seeds(p, [](const CampaignReport& r) { return static_cast<double>(r.samples); }),
                      count) +
              " samples");
  if (s.faults->steps > 0 || s.faults->samples > 0) {
    lines += row("after",
                 spread_text(over_seeds(p, [](const CampaignReport& r) { return to_seconds(r.wall).value; }),
                             [](double t) { return readable_duration(Seconds(t)); }));
  }
  lines += row("interruptions", spread_text(over_seeds(p,
                                                       [](const CampaignReport& r) {
                                                         double sum = 0;
                                                         for (const std::int64_t failures : r.failures) {
                                                           sum += static_cast<double>(failures);
                                                         }
                                                         return sum;
                                                       }),
                                            count));
  return lines + poisson(p) + ends(p);
}

std::string goal(const Scenario& s, const CampaignPrediction& p) {
  if (p.inputs.m.value == 0) {
    return "";
  }
  const double share = s.faults->goal;
  const Goal g = intervals_for(share, p.inputs.d, p.inputs.m, least_interval(p.spec.checkpoint));
  const std::string asks = percent(share, 0) + " ask for d/t + (t/2 + R)/M <= " + fixed(1 - share, 3) + ": ";
  if (g.longest_restart.value <= 0) {
    return row("goal", asks + "no interval does it with this checkpoint");
  }
  std::string lines = row("goal", asks + "a restart of at most " + readable_duration(g.longest_restart));
  if (const double beyond = lost_to(p, kBeyondIntervals); beyond > kShownShare) {
    lines += row(
        "", beyond < 1 - share
                ? percent(beyond, 2) + " more are lost to nodes that are missing or slow"
                : "which isn't enough here: nodes that are missing or slow alone lose " + percent(beyond, 1));
  }
  for (const GoalRow& each : g.rows) {
    if (each.to.value > 0) {
      lines += row("", "with one of " + readable_duration(each.restart) + ": every " +
                           readable_duration(each.from) + " to " + readable_duration(each.to));
    }
  }
  return lines;
}

std::string levers(const CampaignPrediction& p) {
  const double now = over_seeds(p, [](const CampaignReport& r) { return r.goodput_share(); }).mean;
  std::string lines;
  for (const LeverGoodput& lever : p.levers) {
    const double more = lever.goodput - now;
    lines += row(lines.empty() ? "what if" : "", padded((more >= 0 ? "+" : "") + fixed(100 * more, 2), 7) +
                                                     "  points of goodput with " +
                                                     std::string(name_of(lever.lever)));
  }
  return lines;
}

// Whether the last nodes, which go first, take slow GPUs or degraded links with them.
bool heals(const Scenario& s) {
  if (!s.faults->elastic || s.faults->step) {
    return false;
  }
  const Scenario left = on_nodes_left(s, s.faults->elastic->min_nodes);
  const auto slow = [](const Scenario& of) {
    std::size_t ranks = 0;
    for (const SlowGpus& each : of.variability.slow_gpus) {
      ranks += each.ranks.size();
    }
    return ranks;
  };
  return slow(left) < slow(s) || left.cluster.degraded.size() < s.cluster.degraded.size();
}

}  // namespace

std::string campaign_table(const Scenario& s, const CampaignPrediction& p) {
  std::string lines =
      campaign_head(s, p) + failing(p) + checkpoints(p) + done(s, p) + losses(p) + goal(s, p) + levers(p);
  if (heals(s)) {
    lines += row("elastic",
                 "whichever node fails, the last ones go, and with them what is slow or degraded there;");
    lines += row("", "the others' steps are faster then, so that goodput may pass 100 %");
  }
  if (const std::string why = too_few_left(s); !why.empty()) {
    lines += row("memory", why);
    lines += row("", "(faults.elastic.min_nodes): the steps above take it as if it did");
  }
  if (!p.given) {
    lines += row("states", plural(static_cast<std::int64_t>(p.states), "state") +
                               " of the cluster simulated, " + plural(s.run.iterations, "step") + " each");
    lines += row("", "a step takes " + why_taken(p));
  }
  return lines;
}

}  // namespace paceline
