#include "studies/explain.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <set>
#include <span>
#include <variant>

#include "core/error.h"
#include "core/parallel.h"
#include "core/text.h"
#include "scenarios/quantities.h"
#include "scenarios/readable.h"
#include "scenarios/writer.h"
#include "sim/engine/simulate.h"

namespace paceline {
namespace {

// A second run, as far as the median step, which traces those ranks that are on its path.
CriticalPath path_of_median_step(const Prediction& p) {
  const std::uint32_t iteration = median_iteration(p.result);
  RunSpec as_far = p.scenario.run;
  as_far.iterations = static_cast<int>(iteration);
  return critical_path(p.job, simulate(p.job, as_far, ranks_on_path(p.job, p.result, iteration)), iteration);
}

double samples(const Scenario& s) {
  return static_cast<double>(s.training.batch_per_gpu) * s.training.accumulation;
}

using Outcome = std::variant<std::monostate, Sensitivity, Impossible>;

// The changed scenario goes through the reader, whose limits it must keep. That no lever of ours is refused
// for another reason is for the tests: its edits are made from values.
Outcome pulled(const Prediction& p, const Lever& lever, Machines& machines) {
  try {
    const Scenario changed = parse_scenario(to_line(scenario_json(lever.changed)), "");
    const Seconds step = mean_step_of(changed, machines);
    const double ratio = step / p.report.step.mean * samples(p.scenario) / samples(changed);
    return Sensitivity{lever, step, ratio - 1};
  } catch (const InputError& error) {
    return Impossible{lever.change, error.what()};
  }
}

// The same job with cycles that nobody could tell from its own, which fall otherwise into its steps.
std::vector<Scenario> other_phases(const Prediction& p) {
  std::vector<Scenario> made;
  for (const double factor : {0.98, 0.99, 1.01, 1.02}) {
    if (p.job.negotiation) {
      made.push_back(p.scenario);
      made.back().training.horovod.cycle_time = to_seconds(p.job.negotiation->cycle) * factor;
    }
  }
  return made;
}

std::string percent(double share) { return fixed(100 * share, 1) + " %"; }

std::string sentence(const Prediction& p, const Sensitivity& s) {
  std::string kind(name_of(s.lever.kind));
  kind[0] = to_upper(kind[0]);
  const double more = s.step / p.report.step.mean / (1 + s.change);  // samples in a step
  return kind + ": " + s.lever.advice + " a step takes " + readable_time(s.step) +
         (std::abs(more - 1) > 1e-9 ? " for " + number_text(std::round(more)) + " times the samples" : "") +
         " instead of " + readable_time(p.report.step.mean) + ": " + percent(-s.change) +
         " less time per sample.";
}

// What a lever is about: the first key that it changes, but for the rates that say what they were measured with.
const std::string& key_of(const Lever& lever) {
  const auto of_rate = [](const Edit& edit) { return edit.key.ends_with("/measured"); };
  const auto found = std::ranges::find_if_not(lever.edits, of_rate);
  return (found == lever.edits.end() ? lever.edits.front() : *found).key;
}

// Of several changes of one key the best is enough, and of several that come to the same.
std::vector<std::string> best(const Prediction& p, const std::vector<Sensitivity>& sensitivities,
                              double spread) {
  constexpr std::size_t kBest = 3;
  constexpr double kWorthASentence = -0.005;
  std::vector<std::string> sentences;
  for (const LeverKind kind : {LeverKind::software, LeverKind::hardware}) {
    std::set<std::string> keys;
    std::set<double> steps;
    for (const Sensitivity& s : sensitivities) {
      if (s.lever.kind == kind && s.change <= kWorthASentence && -s.change > spread && steps.size() < kBest &&
          keys.insert(key_of(s.lever)).second && steps.insert(s.step.value).second) {
        sentences.push_back(sentence(p, s));
      }
    }
  }
  return sentences;
}

std::string rank_name(const Prediction& p, Rank rank) {
  return "rank " + std::to_string(rank.value) + " (" + gpu_name(p.scenario, rank) + ")";
}

SimTime length(const PathSegment& s) { return s.end - s.start; }

std::string path_line(const std::string& where, SimTime time, SimTime step, const std::string& what) {
  return "    " + padded_right(where, 36) + padded(readable_time(to_seconds(time)), 10) +
         padded(percent(to_seconds(time) / to_seconds(step)), 9) + what + '\n';
}

// What a GPU did without a break between two collectives, or collectives one after the other.
struct Stretch {
  std::vector<const PathSegment*> segments;
  SimTime time;
};

bool one_stretch(const PathSegment& a, const PathSegment& b) {
  const bool communication = a.kind == PathKind::communication;
  return communication == (b.kind == PathKind::communication) && (communication || a.rank == b.rank);
}

std::vector<Stretch> stretches(const CriticalPath& path) {
  std::vector<Stretch> all;
  for (const PathSegment& s : path.segments) {
    if (all.empty() || !one_stretch(*all.back().segments.back(), s)) {
      all.emplace_back();
    }
    all.back().segments.push_back(&s);
    all.back().time += length(s);
  }
  return all;
}

// "forward 22.2 ms, backward 38.1 ms", in the order in which they begin; "all_reduce bucket 4 to bucket 37"
std::string parts_text(const Stretch& stretch) {
  const PathSegment &first = *stretch.segments.front(), &last = *stretch.segments.back();
  if (first.kind == PathKind::communication) {
    return first.what + (first.what == last.what ? "" : " ... " + last.what);
  }
  std::vector<std::pair<std::string, SimTime>> parts;
  for (const PathSegment* s : stretch.segments) {
    auto part = std::ranges::find(parts, s->what, &std::pair<std::string, SimTime>::first);
    part = part == parts.end() ? parts.insert(part, {s->what, SimTime{}}) : part;
    part->second += length(*s);
  }
  std::string text;
  for (const auto& [what, time] : parts) {
    text +=
        (text.empty() ? "" : ", ") + what + (parts.size() > 1 ? ' ' + readable_time(to_seconds(time)) : "");
  }
  return text;
}

}  // namespace

// In order of time; what is short is added up at the end.
std::string path_text(const Prediction& p, const CriticalPath& path) {
  constexpr std::size_t kShown = 12;
  const std::vector<Stretch> all = stretches(path);
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) { return all[i].time; });
  order.resize(std::min(order.size(), kShown));
  std::ranges::sort(order);
  const SimTime step = path.segments.empty() ? SimTime{} : path.segments.back().end - path.began;
  SimTime rest = step;
  std::string text = "\n  critical path of step " + std::to_string(path.iteration) +
                     ", which took the median time (" + readable_time(to_seconds(step)) + ")\n";
  for (const std::size_t i : order) {
    const PathSegment& first = *all[i].segments.front();
    text += path_line(first.kind == PathKind::communication ? "communication" : rank_name(p, first.rank),
                      all[i].time, step, "  " + parts_text(all[i]));
    rest = rest - all[i].time;
  }
  if (rest > SimTime{}) {
    text += path_line(std::to_string(all.size() - order.size()) + " shorter pieces", rest, step, "");
  }
  return text;
}

std::string collectives_text(const Prediction& p) {
  constexpr std::size_t kShown = 5;
  constexpr double kWorthALine = 1e-3;
  std::vector<CollectiveReport> most = p.report.collectives;
  std::ranges::stable_sort(most, std::ranges::greater{}, &CollectiveReport::exposed_communication);
  std::string text;
  const auto line = [&](const std::string& what, const std::string& size, Seconds exposed) {
    text += "    " + padded_right(what, 30) + padded_right(size, 26) + padded(readable_time(exposed), 10) +
            padded(percent(exposed / p.report.step.mean), 10) + '\n';
  };
  std::size_t shown = 0;
  for (; shown < std::min(kShown, most.size()); ++shown) {
    const CollectiveReport& c = most[shown];
    if (c.exposed_communication / p.report.step.mean <= kWorthALine) {
      break;
    }
    line(c.label, readable_size(c.bytes), c.exposed_communication);
  }
  Seconds rest;
  for (std::size_t i = shown; i < most.size(); ++i) {
    rest = rest + most[i].exposed_communication;
  }
  if (rest / p.report.step.mean > kWorthALine) {
    const std::size_t left = most.size() - shown;
    line(std::to_string(left) + (shown == 0 ? " collectives" : left == 1 ? " other" : " others"), "", rest);
  }
  return text.empty() ? text : "\n  which collectives are waited for (mean of all GPUs)\n" + text;
}

namespace {

std::string change_text(const Explanation& e) {
  constexpr std::size_t kShown = 8;
  constexpr double kWorthALine = 1e-3;
  std::string text;
  std::size_t shown = 0, without = 0;
  for (const Sensitivity& s : e.sensitivities) {
    const bool worth = std::abs(s.change) >= kWorthALine && shown < kShown;
    shown += worth ? 1 : 0;
    without += worth ? 0 : 1;
    if (worth) {
      const bool says_nothing = std::abs(s.change) <= e.spread;
      text += "    " + padded_right(s.lever.change, 56) + padded(readable_time(s.step), 10) +
              padded((s.change > 0 ? "+" : "") + percent(s.change), 10) + "  " +
              (says_nothing ? "within the spread" : std::string(name_of(s.lever.kind))) + '\n';
    }
  }
  if (without > 0) {
    text += "    " + plural(static_cast<std::int64_t>(without), "other change") +
            ": less than these, or than 0.1 %\n";
  }
  if (constexpr double kWorthSaying = 1e-3; e.spread >= kWorthSaying) {
    text += "    the spread: " + percent(e.spread) +
            ", as steps have not settled, or cycles may fall otherwise; less says nothing\n";
  }
  for (const Impossible& refused : e.not_possible) {
    text += "    not possible here: " + refused.change + " (" + refused.reason + ")\n";
  }
  return text.empty() ? text : "\n  what would change the step (each simulated again; per sample)\n" + text;
}

std::string best_text(const Explanation& e) {
  std::string text = "\n  best levers, what costs nothing first\n";
  for (std::size_t i = 0; i < e.best_levers.size(); ++i) {
    text += "    " + std::to_string(i + 1) + ". " + e.best_levers[i] + '\n';
  }
  constexpr double kHalfAPercent = 0.005;
  return !e.best_levers.empty() ? text
         : e.spread > kHalfAPercent
             ? "\n  No change that was tried saves more than the spread of " + percent(e.spread) + ".\n"
             : "\n  No change that was tried saves half a percent of the step.\n";
}

}  // namespace

Json path_json(const Prediction& p, const CriticalPath& path) {
  Json::Array segments;
  for (const PathSegment& s : path.segments) {
    segments.push_back(Json::Object{{"kind", name_of(s.kind)},
                                    {"rank", static_cast<std::int64_t>(s.rank.value)},
                                    {"gpu", gpu_name(p.scenario, s.rank)},
                                    {"what", s.what},
                                    {"start_ps", (s.start - path.began).ps},
                                    {"duration_ps", length(s).ps}});
  }
  const SimTime step = path.segments.empty() ? SimTime{} : path.segments.back().end - path.began;
  return Json::Object{{"step", static_cast<std::int64_t>(path.iteration)},
                      {"step_ps", step.ps},
                      {"segments", std::move(segments)}};
}

Explanation explain(const Prediction& p, int jobs, Machines& machines, const ExplanationSoFar& so_far) {
  Explanation e;
  const std::vector<Lever> tried = levers(p, machines);
  const std::vector<Scenario> phases = other_phases(p);
  std::vector<double> off(phases.size());
  std::vector<Outcome> found(tried.size());
  std::mutex telling;
  std::size_t done = 0;
  const Sensitivity* best_so_far = nullptr;
  for_each_on_threads(tried.size() + 1 + phases.size(), jobs, [&](std::size_t i) {
    if (i == 0) {
      if (!p.report.servers) {  // whose workers have no step that all share
        e.path = path_of_median_step(p);
        const std::lock_guard lock(telling);
        so_far.path(e.path);
      }
      return;
    }
    if (i > tried.size()) {
      const std::size_t which = i - 1 - tried.size();
      off[which] = std::abs(mean_step_of(phases[which], machines) / p.report.step.mean - 1);
      return;
    }
    found[i - 1] = pulled(p, tried[i - 1], machines);
    const std::lock_guard lock(telling);
    ++done;
    const auto* one = std::get_if<Sensitivity>(&found[i - 1]);
    if (one != nullptr && one->lever.kind != LeverKind::unobtainable &&
        one->change < (best_so_far == nullptr ? 0 : best_so_far->change)) {
      best_so_far = one;
    }
    so_far.tried(done, tried.size(), best_so_far);
  });
  for (Outcome& outcome : found) {
    if (auto* one = std::get_if<Sensitivity>(&outcome)) {
      e.sensitivities.push_back(std::move(*one));
    } else {
      e.not_possible.push_back(std::get<Impossible>(std::move(outcome)));
    }
  }
  std::ranges::stable_sort(e.sensitivities, {}, &Sensitivity::change);
  e.spread = p.report.drift ? std::abs(p.report.drift->change) : 0;
  for (const double each : off) {
    e.spread = std::max(e.spread, each);
  }
  e.best_levers = best(p, e.sensitivities, e.spread);
  return e;
}

Json::Object explanation_json(const Prediction& p, const Explanation& e) {
  Json::Array sensitivities, sentences, not_possible;
  for (const Impossible& refused : e.not_possible) {
    not_possible.push_back(refused.change + ": " + refused.reason);
  }
  for (const Sensitivity& s : e.sensitivities) {
    Json::Array edits;
    for (const Edit& edit : s.lever.edits) {
      edits.push_back(Json::Object{{"key", edit.key}, {"value", edit.value}});
    }
    sensitivities.push_back(Json::Object{{"change", s.lever.change},
                                         {"kind", name_of(s.lever.kind)},
                                         {"edits", std::move(edits)},
                                         {"step_time_s", s.step.value},
                                         {"time_per_sample_change", s.change}});
  }
  for (const std::string& sentence : e.best_levers) {
    sentences.push_back(sentence);
  }
  Json::Object members{{"critical_path", p.report.servers ? Json() : path_json(p, e.path)},
                       {"sensitivities", std::move(sensitivities)},
                       {"not_possible", std::move(not_possible)},
                       {"best_levers", std::move(sentences)}};
  if (e.spread > 0) {
    members.push_back({"spread", e.spread});
  }
  return members;
}

std::string levers_text(const Explanation& e) { return change_text(e) + best_text(e); }

}  // namespace paceline
