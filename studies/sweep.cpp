#include "studies/sweep.h"

#include "studies/evaluate.h"
#include "studies/open_sweep.h"
#include "studies/pieces.h"

namespace paceline {

SweepOutcome sweep(const Study& study, const SweepOptions& options) {
  OpenSweep open(study, options);
  ReferenceSteps references;
  Machines machines;
  const std::vector<EqualPoints>& left = open.left();
  const std::vector<std::string> faults = faults_of(left.size(), options.jobs, [&](std::size_t i) {
    const ReadPoint point = read_point(study, study.points[left[i].points.front()]);
    open.write(i, point_members(study, point, references, machines));
  });
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!faults[i].empty()) {
      open.fail(i, faults[i]);
    }
  }
  return open.end();
}

}  // namespace paceline
