// A job whose collectives were decided while it ran, as if they had been known.
#pragma once

#include "sim/engine/simulate.h"
#include "sim/job.h"

namespace paceline {

// Its collectives have the plans of the run's last iteration that had them, those of the warm-up its own; what no
// iteration had is in none. It runs as before. A job without a negotiation stays as it is.
TrainingJob as_decided(TrainingJob, const Decisions&);

}  // namespace paceline
