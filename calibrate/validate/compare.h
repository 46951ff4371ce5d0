// Calibrates on what a case fits, predicts what it tests, and puts both beside the measurements.
#pragma once

#include <vector>

#include "calibrate/validate/figures.h"
#include "calibrate/validate/validation_set.h"
#include "scenarios/profile.h"

namespace paceline {

// Throws InputError: a file that can't be read, a row that is both fitted and tested, nothing to fit.
ComparedCase compare(const CollectiveCase&);
ComparedCase compare(const TrainingCase&);
ComparedCase compare(const StepCase&);
// What a fit of these rows knows of the machine.
Profile fitted_profile(const std::vector<ChosenRows>&);
// Its cases, on all cores. Cost: that of the fits.
std::vector<ComparedCase> compare(const ValidationSet&);

}  // namespace paceline
