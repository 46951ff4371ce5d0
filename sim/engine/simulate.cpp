#include "sim/engine/simulate.h"

#include "core/error.h"
#include "sim/engine/require_runnable.h"
#include "sim/engine/run_bounds.h"
#include "sim/engine/variability.h"

namespace paceline {

Result simulate(const TrainingJob& job, const RunSpec& run, const TraceRequest& trace,
                const StepProgress& progress) {
  require_runnable(job);
  require_clock_range(job, run);
  const std::optional<std::string> obstacle = why_not_vector(job);
  if (run.engine == EngineChoice::vector && obstacle) {
    throw InputError(
        "the vector engine can't run this job exactly: " + *obstacle + "; use \"auto\" or \"event\"",
        "/run/engine");
  }
  const bool vector =
      run.engine == EngineChoice::vector || (run.engine == EngineChoice::automatic && !obstacle);
  if (job.ranks() > 1 && (!vector || job.roles.size() > 1 || ranks_differ(job.variability))) {
    require_patience(job, run, vector);
  }
  Result result =
      vector ? run_vector_engine(job, run, trace, progress) : run_event_engine(job, run, trace, progress);
  result.engine_reason = run.engine != EngineChoice::automatic ? "as asked"
                         : obstacle ? *obstacle
                                    : "no link is shared by competing flows, so it is exact";
  return result;
}

}  // namespace paceline
