#include "sim/campaign/campaigns.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace paceline {

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) {
    squares += (value - mean) * (value - mean);
  }
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(std::max(0.0, std::ceil(share * count) - 1))];
  };
  return {mean, values.size() > 1 ? std::sqrt(squares / (count - 1)) : 0, at(0.05), at(0.95)};
}

std::vector<CampaignReport> run_campaigns(CampaignSpec spec, const StepsOf& steps_of, int count,
                                          const std::function<void()>& ended) {
  std::vector<CampaignReport> reports;
  for (int i = 0; i < count; ++i) {
    reports.push_back(run_campaign(spec, steps_of));
    spec.log = false;
    ++spec.seed;
    if (ended) {
      ended();
    }
  }
  return reports;
}

CampaignSpec with_lever(CampaignSpec spec, CampaignLever lever) {
  const auto half = [](std::initializer_list<CampaignTime*> times) {
    for (CampaignTime* time : times) {
      time->ps /= 2;
    }
  };
  CheckpointTimes& checkpoint = spec.checkpoint;
  RestartTimes& restart = spec.restart;
  switch (lever) {
    case CampaignLever::half_the_checkpoint_time:
      half({&checkpoint.stall, &checkpoint.upload, &checkpoint.memory_copy});
      break;
    case CampaignLever::half_the_restart:
      half({&restart.stop, &restart.rendezvous, &restart.start, &restart.initialisation, &restart.load,
            &restart.load_from_memory, &restart.fetch_from_peer, &restart.replacement});
      break;
    case CampaignLever::twice_the_mtbf:
      for (FailureKind& kind : spec.failures) {
        kind.mtbf = kind.mtbf * 2;
      }
      break;
    case CampaignLever::two_spares_more:
      spec.spares += 2;
      break;
  }
  return spec;
}

}  // namespace paceline
