// How often to save: formulas for exponential failures. d: what a checkpoint takes of the training's time, M: mean
// time between failures of the system, R: of a restart, detection and load included.
#pragma once

#include "core/units.h"
#include "sim/campaign/campaign_spec.h"

namespace paceline {

// sqrt(2 d M) (Young 1974).
Seconds young_interval(Seconds d, Seconds m);
// sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + d / 18M) - d for d < 2M, else M (Daly 2006, equation 37).
Seconds daly_interval(Seconds d, Seconds m);

// Expected wall time for a second of work that is saved every t: M e^(R/M) (e^((t+d)/M) - 1) / t (Daly 2006), failures
// during checkpoints and restarts included. Infinite where it is beyond 10^300. Requires: t, M > 0.
double expected_wall_per_work(Seconds t, Seconds d, Seconds r, Seconds m);

// Where that is least, at least `least`: by golden section on the interval's logarithm, to a millionth.
Seconds best_interval(Seconds d, Seconds m, Seconds least);

// A campaign's d, R and M, in the mean over its kinds of failure. An upload beside training delays when a checkpoint
// counts, so that what a failure undoes is more by as much: it is added to R.
struct IntervalInputs {
  Seconds d, r, m;  // m: 0 where nothing fails by itself
};
IntervalInputs interval_inputs(const CampaignSpec&);

// The upload: one at a time.
Seconds least_interval(const CheckpointTimes&);

// What each rule says for a campaign, none below that. Requires: m > 0.
struct RuleIntervals {
  Seconds young, daly, best;
};
RuleIntervals rule_intervals(const CampaignSpec&);

// With the interval that its rule says; unchanged with a fixed one. Requires: m > 0 with a rule.
CampaignSpec with_interval(CampaignSpec);

}  // namespace paceline
