#include <algorithm>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/training_interval.h"
#include "calibrate/import/import.h"
#include "calibrate/validate/compare.h"
#include "core/error.h"
#include "scenarios/predict.h"

namespace paceline {

// As steps a second. Beside the prediction the step of one rank alone: nothing to wait for.
ComparedCase compare(const StepCase& from) {
  const Profile profile = fitted_profile(from.fit);
  const Scenario scenario = with_profile(load_scenario(from.scenario), profile);
  const Prediction prediction = predict(scenario);
  const TrainingInterval interval = training_interval(scenario, profile);
  const auto ranks = static_cast<int>(prediction.job.ranks());
  const MeasuredData data = import_file(from.data);
  const auto step = std::ranges::find_if(data.steps, [&](const StepMeasurement& one) {
    return one.name == "step_median" && one.ranks == ranks;
  });
  if (step == data.steps.end()) {
    throw InputError("expected a step_median of " + std::to_string(ranks) + " ranks, found none", {},
                     from.data);
  }
  const Seconds predicted = prediction.report.step.p50;
  const double median_of_mean = predicted / prediction.report.step.mean;
  ComparedRow row;
  row.table = from.name;
  row.origin = step->origin;
  row.ranks = row.nodes = ranks;
  row.measured = 1 / step->time.value;
  row.predicted = 1 / predicted.value;
  row.low = 1 / (interval.high.value * median_of_mean);
  row.high = 1 / (interval.low.value * median_of_mean);
  row.scaled = prediction.report.scaling_efficiency > 0
                   ? prediction.report.throughput / prediction.report.scaling_efficiency /
                         static_cast<double>(prediction.job.samples_per_iteration)
                   : row.predicted;
  ComparedCase result{from.name, {}, from.source, {std::move(row)}, from.excluded};
  for (const ChosenRows& part : from.fit) {
    result.fitted.push_back(part.table.name);
  }
  return result;
}

}  // namespace paceline
