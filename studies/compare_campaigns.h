// Strategies side by side where the scenario gives the step: that is the same for all; what they differ in is what a
// checkpoint and a load take, and so what is left of the days.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "scenarios/campaign.h"
#include "studies/compare.h"
#include "studies/strategy_choice.h"

namespace paceline {

struct ComparedCampaign {
  StrategyChoice choice;
  CampaignPrediction campaign;
};

struct CampaignComparison {
  Scenario scenario;                         // of the first
  std::vector<ComparedCampaign> strategies;  // as asked for
  std::string verdict;                       // who keeps most
};

// Whether a scenario, as it is written, gives its step.
bool gives_step(const Json& scenario);

// As compare(). Throws InputError for a scenario without faults, and as predict_campaign does.
CampaignComparison compare_campaigns(const Json& scenario, const std::string& file,
                                     const std::vector<StrategyChoice>&, int jobs,
                                     const std::function<Scenario(Scenario)>& adjust,
                                     const ComparisonProgress& progress = {});

std::string comparison_text(const CampaignComparison&);
std::string comparison_json(const CampaignComparison&);

}  // namespace paceline
