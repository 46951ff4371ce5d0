#include "sim/strategy/run_length.h"

#include <algorithm>

namespace paceline {

RunSpec with_length(RunSpec run, const TrainingSpec& training) {
  if (training.strategy == StrategyKind::local_sgd) {
    const int period = training.local_sgd.period;
    run.iterations = (run.iterations + period - 1) / period * period;
  } else if (training.strategy == StrategyKind::ddp && training.ddp.join) {
    run.iterations = std::max(1, static_cast<int>(std::ranges::max(training.ddp.join->batches)) - 1);
  }
  return run;
}

}  // namespace paceline
