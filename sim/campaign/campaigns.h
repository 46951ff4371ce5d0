// Many campaigns that differ in their seed alone, and what they say together.
#pragma once

#include <functional>
#include <vector>

#include "sim/campaign/campaign.h"

namespace paceline {

// Of a quantity over campaigns: the order statistics at 5 and 95 % (nearest rank).
struct Spread {
  double mean = 0, deviation = 0, p5 = 0, p95 = 0;
};
Spread spread_of(std::vector<double> values);

// With seeds spec.seed, spec.seed + 1 ...; only the first keeps a log; calls `ended` after each. Requires: count > 0.
std::vector<CampaignReport> run_campaigns(CampaignSpec, const StepsOf&, int count,
                                          const std::function<void()>& ended = {});

// The same campaigns with one thing changed.
enum class CampaignLever : std::uint8_t {
  half_the_checkpoint_time,
  half_the_restart,
  twice_the_mtbf,
  two_spares_more
};
template <>
inline constexpr auto kNames<CampaignLever> =
    names<CampaignLever>({{"half the checkpoint time", CampaignLever::half_the_checkpoint_time},
                          {"half the restart", CampaignLever::half_the_restart},
                          {"twice the MTBF", CampaignLever::twice_the_mtbf},
                          {"two spares more", CampaignLever::two_spares_more}});
CampaignSpec with_lever(CampaignSpec, CampaignLever);

}  // namespace paceline
