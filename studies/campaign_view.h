// What a page shows of a campaign beside its result: what happened when, with the first seed.
#pragma once

#include "scenarios/campaign.h"
#include "studies/run_view.h"

namespace paceline {

// about: "whats" and "labels", the texts that columns number; "kinds", of failures; "seed"; "wall_s". Columns, a
// row for each event in order of time:
//   event_from_s event_to_s event_undone_s event_useful_s; event_what, event_label: in the texts; event_kind: of
// a failure, in the
//     kinds, of others 65,535; event_steps: done until then
// Requires: predictions with a log.
RunView campaign_view(const Scenario&, const CampaignPrediction&);

}  // namespace paceline
