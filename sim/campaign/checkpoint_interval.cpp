#include "sim/campaign/checkpoint_interval.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/portable_math.h"

namespace paceline {

Seconds young_interval(Seconds d, Seconds m) { return Seconds(std::sqrt(2 * d.value * m.value)); }

Seconds daly_interval(Seconds d, Seconds m) {
  if (d >= 2 * m) {
    return m;
  }
  const double half = d / (2 * m);
  return young_interval(d, m) * (1 + std::sqrt(half) / 3 + half / 9) - d;
}

double expected_wall_per_work(Seconds t, Seconds d, Seconds r, Seconds m) {
  constexpr double kMostExponent = 690, kSmall = 1e-3;
  const double restart = r / m, segment = (t + d) / m;
  if (restart + segment > kMostExponent) {
    return std::numeric_limits<double>::infinity();
  }
  // e^x - 1 without losing digits.
  const double grown =
      segment < kSmall
          ? segment * (1 + segment / 2 * (1 + segment / 3 * (1 + segment / 4 * (1 + segment / 5))))
          : portable_exp(segment) - 1;
  return m.value * portable_exp(restart) * grown / t.value;
}

Seconds best_interval(Seconds d, Seconds m, Seconds least) {
  constexpr double kGolden = 0.61803398874989485, kClose = 1e-7;
  const auto cost = [&](double log_t) {
    return expected_wall_per_work(Seconds(portable_exp(log_t)), d, {}, m);
  };
  // The best one solves t / M = 1 - e^(-(t + d) / M), so it is below M.
  double low = portable_log(std::max(least.value, 1e-12));
  double high = std::max(low, portable_log(m.value));
  double a = high - kGolden * (high - low), b = low + kGolden * (high - low);
  double at_a = cost(a), at_b = cost(b);
  while (high - low > kClose) {
    if (at_a <= at_b) {
      high = b;
      b = a;
      at_b = at_a;
      a = high - kGolden * (high - low);
      at_a = cost(a);
    } else {
      low = a;
      a = b;
      at_a = at_b;
      b = low + kGolden * (high - low);
      at_b = cost(b);
    }
  }
  return Seconds(portable_exp((low + high) / 2));
}

IntervalInputs interval_inputs(const CampaignSpec& spec) {
  const RestartTimes& restart = spec.restart;
  const CampaignTime always = restart.stop + restart.rendezvous + restart.start + restart.initialisation;
  double rate = 0, per_second = 0;
  for (const FailureKind& kind : spec.failures) {
    if (kind.mtbf.ps > 0) {
      const double each = parts_of(spec, kind.of) / to_seconds(kind.mtbf).value;
      const bool takes_node = kind.takes != FailureTakes::process;
      const bool memory = spec.checkpoint.memory && memory_survives(spec, kind);
      const CampaignTime fetch = takes_node ? restart.fetch_from_peer : CampaignTime();
      rate += each;
      const CampaignTime stands = always + kind.found_after +
                                  (takes_node && spec.spares > 0 ? restart.replacement : CampaignTime()) +
                                  (memory ? restart.load_from_memory + fetch : restart.load);
      per_second += each * to_seconds(stands).value;
    }
  }
  const CampaignTime late = spec.checkpoint.memory ? spec.checkpoint.memory_copy : spec.checkpoint.upload;
  if (rate == 0) {
    return {to_seconds(spec.checkpoint.stall), {}, {}};
  }
  return {to_seconds(spec.checkpoint.stall), Seconds(per_second / rate) + to_seconds(late),
          Seconds(1 / rate)};
}

Seconds least_interval(const CheckpointTimes& checkpoint) {
  const std::int64_t every = checkpoint.memory ? checkpoint.storage_every : 1;
  return to_seconds(checkpoint.upload) / static_cast<double>(every);
}

RuleIntervals rule_intervals(const CampaignSpec& spec) {
  const auto [d, r, m] = interval_inputs(spec);
  const Seconds least = least_interval(spec.checkpoint);
  return {std::max(young_interval(d, m), least), std::max(daly_interval(d, m), least),
          best_interval(d, m, least)};
}

CampaignSpec with_interval(CampaignSpec spec) {
  CheckpointTimes& checkpoint = spec.checkpoint;
  if (checkpoint.rule == IntervalRule::fixed) {
    return spec;
  }
  const RuleIntervals all = rule_intervals(spec);
  const Seconds interval = checkpoint.rule == IntervalRule::young  ? all.young
                           : checkpoint.rule == IntervalRule::daly ? all.daly
                                                                   : all.best;
  checkpoint.interval = std::max(to_campaign_time(interval), CampaignTime(1));
  return spec;
}

}  // namespace paceline
