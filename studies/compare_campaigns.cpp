#include "studies/compare_campaigns.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "core/version.h"
#include "scenarios/readable.h"

namespace paceline {
namespace {

std::string points(double share) { return fixed(100 * share, 2) + " %"; }

double kept(const ComparedCampaign& each) { return goodput_of(each.campaign).mean; }

std::string duration(CampaignTime t) { return readable_duration(to_seconds(t)); }

std::string verdict_on(const std::vector<ComparedCampaign>& all) {
  constexpr double kAlike = 5e-5;
  const auto best = std::ranges::max_element(all, {}, kept);
  std::string text =
      best->choice.name + (all.size() == 1 ? " keeps " : " keeps most, ") + points(kept(*best));
  for (auto each = all.begin(); each != all.end(); ++each) {
    const double less = kept(*best) - kept(*each);
    if (each != best) {
      text += "; " + each->choice.name +
              (less < kAlike ? " keeps as much" : " loses " + fixed(100 * less, 2) + " points more");
    }
  }
  return text + '.';
}

}  // namespace

bool gives_step(const Json& scenario) { return value_at(scenario, "/faults/step") != nullptr; }

CampaignComparison compare_campaigns(const Json& scenario, const std::string& file,
                                     const std::vector<StrategyChoice>& choices, int jobs,
                                     const std::function<Scenario(Scenario)>& adjust,
                                     const ComparisonProgress& progress) {
  std::vector<Scenario> scenarios = scenarios_of(choices, scenario, file, adjust);
  std::vector<std::optional<CampaignPrediction>> campaigns(choices.size());
  Machines machines;
  std::mutex telling;
  for_each_on_threads(choices.size(), jobs, [&](std::size_t i) {
    const auto tell = [&](std::size_t done, std::size_t all) {
      const std::lock_guard lock(telling);
      progress(choices[i].name, done, all);
    };
    try {
      campaigns[i] = predict_campaign(scenarios[i], machines,
                                      {.log = false,
                                       .levers = false,
                                       .progress = progress ? CampaignProgress(tell) : CampaignProgress{}});
    } catch (const InputError& error) {
      throw InputError(choices[i].name + ": " + error.message(), error.place(), file);
    }
  });
  CampaignComparison comparison;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    comparison.strategies.push_back({choices[i], std::move(*campaigns[i])});
  }
  comparison.scenario = std::move(scenarios.front());
  comparison.verdict = verdict_on(comparison.strategies);
  return comparison;
}

std::string comparison_text(const CampaignComparison& comparison) {
  std::vector<Cells> rows{{"strategy", "checkpoint", "upload", "load", "every", "goodput", "5 % to 95 %"}};
  for (const auto& [choice, campaign] : comparison.strategies) {
    const CheckpointTimes& c = campaign.spec.checkpoint;
    const Spread goodput = goodput_of(campaign);
    rows.push_back({choice.name, duration(c.stall), c.upload.ps > 0 ? duration(c.upload) : "-",
                    duration(campaign.spec.restart.load),
                    c.steps > 0 ? plural(c.steps, "step") : duration(c.interval), points(goodput.mean),
                    goodput.p5 < goodput.p95 ? points(goodput.p5) + " to " + points(goodput.p95) : "-"});
  }
  const CampaignPrediction& any = comparison.strategies.front().campaign;
  return "days of training on " + plural(gpus_of_job(comparison.scenario.cluster), "GPU") + ", " +
         plural(static_cast<std::int64_t>(any.reports.size()), "seed") + "\n\n" + aligned(rows, 1) +
         "\nEach with the same step, " + readable_duration(to_seconds(any.healthy.mean)) +
         ", as told; checkpoint: for how long training stands\n\n" + comparison.verdict + '\n';
}

std::string comparison_json(const CampaignComparison& comparison) {
  Json::Array strategies;
  for (const auto& [choice, campaign] : comparison.strategies) {
    Json::Object edits, row{{"strategy", choice.name}};
    for (const Edit& edit : choice.edits) {
      edits.push_back({edit.key, edit.value});
    }
    row.push_back({"edits", std::move(edits)});
    row.push_back({"stall_s", to_seconds(campaign.spec.checkpoint.stall).value});
    row.push_back({"upload_s", to_seconds(campaign.spec.checkpoint.upload).value});
    row.push_back({"load_s", to_seconds(campaign.spec.restart.load).value});
    for (JsonMember& member : campaign_summary(campaign)) {
      row.push_back(std::move(member));
    }
    strategies.emplace_back(std::move(row));
  }
  return to_text(Json(Json::Object{{"paceline", kVersion},
                                   {"model_version", kModelVersion},
                                   {"strategies", std::move(strategies)},
                                   {"verdict", comparison.verdict},
                                   {"remarks", Json::Array()}}));
}

}  // namespace paceline
