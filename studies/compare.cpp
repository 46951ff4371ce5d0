#include "studies/compare.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "core/unknown_name.h"
#include "scenarios/campaign.h"
#include "scenarios/gpu_memory.h"
#include "scenarios/readable.h"
#include "sim/strategy/compression.h"

namespace paceline {
namespace {

// The parts of a step, as a verdict calls them: the page's words, but for its "other (launches, idle)".
struct Part {
  const char* name;
  Seconds BreakdownSeconds::* seconds;
};
constexpr Part kParts[] = {{"compute", &BreakdownSeconds::compute},
                           {"exposed communication", &BreakdownSeconds::exposed_communication},
                           {"waiting for stragglers", &BreakdownSeconds::straggler_wait},
                           {"waiting for servers", &BreakdownSeconds::server_wait},
                           {"waiting for input", &BreakdownSeconds::input_wait},
                           {"launches and idle time", &BreakdownSeconds::other}};

// Of one set of samples of all workers.
Seconds step_of(const Prediction& p) {
  return Seconds(static_cast<double>(p.job.samples_per_iteration) / p.report.throughput);
}

// Workers that run ahead of each other have steps of their own.
std::string of_step(const Prediction& p) {
  constexpr double kAlike = 1e-3;
  return !p.report.servers || std::abs(step_of(p) / p.report.step.mean - 1) < kAlike
             ? " a step"
             : " for each " + plural(p.job.samples_per_iteration, "sample");
}

// Samples per second of gradients that are stale, or dropped, are no samples per second of others.
std::string at_the_price_of(const Prediction& p) {
  if (p.report.period) {
    return ", with parameters averaged every " + std::to_string(p.report.period->steps) + " steps";
  }
  if (!p.report.servers) {
    return "";
  }
  const ServersReport& servers = *p.report.servers;
  return (servers.mean_staleness > 0
              ? ", with gradients " + fixed(servers.mean_staleness, 1) +
                    " updates stale (95 %: " + std::to_string(servers.staleness_p95) + ")"
              : "") +
         (servers.dropped_share > 0
              ? ", with " + fixed(100 * servers.dropped_share, 1) + " % of gradients dropped"
              : "");
}

// "loses 12.1 ms a step, 9.9 ms of it exposed communication"; less than a thousandth is as fast.
std::string against(const Prediction& best, const Prediction& p) {
  constexpr double kAlike = 1e-3;
  const Seconds lost = step_of(p) - step_of(best);
  if (std::abs(lost / step_of(best)) < kAlike) {
    return "is as fast";
  }
  const bool slower = lost.value > 0;
  const auto more = [&](const Part& part) {
    const Seconds difference = p.report.breakdown.*part.seconds - best.report.breakdown.*part.seconds;
    return slower ? difference : Seconds(-difference.value);
  };
  const Part& most =
      *std::ranges::max_element(kParts, {}, [&](const Part& part) { return more(part).value; });
  return (slower ? "loses " : "would save ") + readable_time(slower ? lost : Seconds(-lost.value)) +
         (of_step(best) == of_step(p) ? of_step(p) : " for as many samples") + ", " +
         readable_time(more(most)) + (slower ? " more " : " less ") + most.name;
}

bool any_fits(const std::vector<ComparedStrategy>& all) {
  return std::ranges::any_of(all, [](const auto& each) { return fits(each.prediction); });
}

// Of those that fit; of all where none does.
template <class Better>
const ComparedStrategy& best_of(const std::vector<ComparedStrategy>& all, const Better& better) {
  const bool any = any_fits(all);
  const ComparedStrategy* best = nullptr;
  for (const ComparedStrategy& each : all) {
    if ((fits(each.prediction) || !any) && (best == nullptr || better(each.prediction, best->prediction))) {
      best = &each;
    }
  }
  return *best;
}

// Who is the fastest, at which amount, and how the others stand against it.
template <class Better, class Amount, class Against>
std::string verdict_by(const std::vector<ComparedStrategy>& all, const Better& better, const Amount& amount,
                       const Against& stands) {
  const bool any = any_fits(all);
  const bool all_fit = std::ranges::all_of(all, [](const auto& each) { return fits(each.prediction); });
  const ComparedStrategy& best = best_of(all, better);
  std::string text = any ? "" : "None of them fits; if it did, ";
  text += best.choice.name +
          (all.size() == 1 ? " takes "
           : all_fit       ? " is the fastest, with "
           : any           ? " is the fastest that fits, with "
                           : " would be the fastest, with ") +
          amount(best.prediction) + at_the_price_of(best.prediction);
  for (const ComparedStrategy& each : all) {
    if (&each != &best) {
      text += "; " + each.choice.name + (any && !fits(each.prediction) ? " does not fit, and " : " ") +
              stands(best.prediction, each.prediction) + at_the_price_of(each.prediction);
    }
  }
  return text + '.';
}

std::string verdict_on(const std::vector<ComparedStrategy>& all) {
  return verdict_by(
      all, [](const Prediction& a, const Prediction& b) { return step_of(a) < step_of(b); },
      [](const Prediction& p) { return readable_time(step_of(p)) + of_step(p); }, against);
}

// Where nothing said makes ZeRO's passes of accumulation another thing than DDP's or FSDP's.
std::string passes_that_differ(const std::vector<ComparedStrategy>& all) {
  std::vector<std::string> in_each, in_the_last;
  for (const ComparedStrategy& each : all) {
    const TrainingSpec& training = each.prediction.scenario.training;
    TrainingSpec otherwise = training;
    otherwise.no_sync = reduces_each_pass(training);
    if (each.prediction.job.ranks() == 1 || reduces_each_pass(training) == reduces_each_pass(otherwise)) {
      continue;  // nothing to reduce, one pass, or nothing of the kind
    }
    if (!reduces_each_pass(training)) {
      in_the_last.push_back(each.choice.name);
    } else if (!training.no_sync) {
      in_each.push_back(each.choice.name);
    }
  }
  return in_each.empty() || in_the_last.empty()
             ? ""
             : "gradients are reduced in each pass of accumulation by " + quoted_list(in_each, "and") +
                   ", as DeepSpeed does, and in the last alone by " + quoted_list(in_the_last, "and") +
                   " (training.no_sync)";
}

// Each on a thread; remarks are on what they are.
Comparison predicted(const std::vector<StrategyChoice>& choices, const std::vector<NamedScenario>& scenarios,
                     int jobs, const ComparisonProgress& progress) {
  Machines machines;
  std::vector<std::optional<Prediction>> predictions(choices.size());
  std::mutex telling;
  for_each_on_threads(choices.size(), jobs, [&](std::size_t i) {
    const auto tell = [&](std::size_t done, std::size_t all) {
      const std::lock_guard lock(telling);
      progress(choices[i].name, done, all);
    };
    try {
      predictions[i] =
          predict(scenarios[i].scenario, {}, machines, progress ? StepProgress(tell) : StepProgress{});
    } catch (const InputError& error) {
      throw error.in_file(scenarios[i].file);
    }
  });
  Comparison comparison;
  bool faults = false;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const SentBytes sent = sent_bytes(predictions[i]->job);
    comparison.strategies.push_back({choices[i], std::move(*predictions[i]), sent});
    const ComparedStrategy& each = comparison.strategies.back();
    if (each.prediction.report.compression && orthogonalises_by_qr(each.prediction.scenario.training)) {
      comparison.remarks.push_back(
          "the time of " + in_quotes(each.choice.name) +
          " is a guess: above rank 2 PyTorch orthogonalises fp32 by a QR, whose kernels aren't known here; "
          "Gram-Schmidt stands in its place");
    }
    faults = faults || each.prediction.scenario.faults;
  }
  if (std::string differ = passes_that_differ(comparison.strategies); !differ.empty()) {
    comparison.remarks.push_back(std::move(differ));
  }
  if (faults) {
    comparison.remarks.emplace_back(
        "steps are compared: faults don't count here, `paceline run` tells what they leave");
  }
  return comparison;
}

// The same work for a sample.
bool train_alike(const ComparedStrategy& a, const ComparedStrategy& b) {
  const Model &one = a.prediction.scenario.model, &other = b.prediction.scenario.model;
  return parameter_count(one) == parameter_count(other) && forward_macs(one) == forward_macs(other);
}

// Where GPUs or samples of a step differ: samples a second, of all GPUs and of one.
std::string verdict_by_rate(const std::vector<ComparedStrategy>& all) {
  constexpr double kAlike = 1.001;
  const auto rate = [](const Prediction& p) { return p.report.throughput; };
  const auto of_gpu = [&](const Prediction& p) { return rate(p) / static_cast<double>(p.job.ranks()); };
  const auto amount = [](double samples) { return readable_count(samples) + " samples/s"; };
  const ComparedStrategy& most =
      best_of(all, [&](const Prediction& a, const Prediction& b) { return of_gpu(a) > kAlike * of_gpu(b); });
  return verdict_by(
             all, [&](const Prediction& a, const Prediction& b) { return rate(a) > rate(b); },
             [&](const Prediction& p) { return amount(rate(p)); },
             [&](const Prediction& best, const Prediction& p) {
               return "has " + fixed(100 * rate(p) / rate(best), 1) + " % of that";
             }) +
         " A GPU does most in " + most.choice.name + ": " + amount(of_gpu(most.prediction)) + '.';
}

std::string verdict_on_scenarios(const std::vector<ComparedStrategy>& all) {
  const ComparedStrategy& first = all.front();
  const auto same_step = [&](const ComparedStrategy& each) {
    const TrainingJob &a = first.prediction.job, &b = each.prediction.job;
    return a.ranks() == b.ranks() && a.samples_per_iteration == b.samples_per_iteration;
  };
  const auto alike = [&](const ComparedStrategy& each) { return train_alike(first, each); };
  return !std::ranges::all_of(all, alike)
             ? "They train different models, or samples of different lengths: none is called the fastest."
         : std::ranges::all_of(all, same_step) ? verdict_on(all)
                                               : verdict_by_rate(all);
}

}  // namespace

bool fits(const Prediction& p) { return does_not_fit(p.scenario).empty(); }

Comparison compare(const Json& scenario, const std::string& file, const std::vector<StrategyChoice>& asked,
                   int jobs, const std::function<Scenario(Scenario)>& adjust,
                   const ComparisonProgress& progress) {
  const std::vector<StrategyChoice> choices = with_hooks_where_they_are(asked, scenario);
  std::vector<NamedScenario> scenarios;
  for (Scenario& each : scenarios_of(choices, scenario, file, adjust)) {
    scenarios.push_back({"", file, std::move(each)});
  }
  Comparison comparison = predicted(choices, scenarios, jobs, progress);
  comparison.verdict = verdict_on(comparison.strategies);
  std::vector<std::string> remarks = remarks_on(scenario, choices);
  comparison.remarks.insert(comparison.remarks.begin(), remarks.begin(), remarks.end());
  return comparison;
}

std::vector<std::string> short_names(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    names.push_back(std::filesystem::path(path).stem().string());
  }
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end() ? names : paths;
}

Comparison compare_scenarios(const std::vector<NamedScenario>& scenarios, int jobs,
                             const ComparisonProgress& progress) {
  std::vector<StrategyChoice> choices;
  for (const NamedScenario& each : scenarios) {
    if (!simulates_steps(each.scenario)) {
      throw InputError("expected scenarios whose steps are simulated, found one that gives its step",
                       "/faults/step", each.file);
    }
    if (std::ranges::count(choices, each.name, &StrategyChoice::name) > 0) {
      throw InputError("expected each scenario once, found " + in_quotes(each.name) + " twice", "SCENARIO");
    }
    choices.push_back({each.name, {}});
  }
  Comparison comparison = predicted(choices, scenarios, jobs, progress);
  comparison.of_scenarios = true;
  comparison.verdict = verdict_on_scenarios(comparison.strategies);
  return comparison;
}

}  // namespace paceline
