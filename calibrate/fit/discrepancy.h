// What is left between measured collectives and the fitted model, as a Gaussian process on ln(measured /
// simulated): near what was measured it follows the measurements, far from it it returns to 0 and its
// deviation grows to that of tables that were not fitted.
//
// (Kennedy, O'Hagan 2001, Bayesian calibration of computer models.) The covariance of two points falls with
// the distance of their sizes (Matern 3/2 in log2), and with that of their numbers of GPUs and nodes.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/units.h"
#include "sim/collective/plan.h"

namespace paceline {

struct DiscrepancyPoint {
  CollectiveKind kind = CollectiveKind::all_reduce;
  int nodes = 1, gpus_per_node = 1;
  Bytes bytes;
  double log_ratio = 0;  // mean of ln(measured / simulated)
  double noise = 0;      // standard deviation of the mean
};

struct Discrepancy {
  double mean = 0, deviation = 0;
};

// Lengths of the covariance and its scales (docs/model.md says how they were found).
struct DiscrepancyScales {
  double deviation = 0.12;       // far from all points
  double level = 0.02;           // of a table as a whole
  double size = 3;               // log2 of bytes
  double gpus = 2, nodes = 1.5;  // log2
  double across = 0.5;           // correlation of one node with several
};

// Of ln(measured / simulated) at two points.
double covariance(const DiscrepancyPoint&, const DiscrepancyPoint&, const DiscrepancyScales&);

class DiscrepancyModel {
 public:
  // Cost: the cube of the number of points.
  explicit DiscrepancyModel(std::span<const DiscrepancyPoint>, const DiscrepancyScales& = {});
  ~DiscrepancyModel();
  DiscrepancyModel(DiscrepancyModel&&) noexcept;
  DiscrepancyModel& operator=(DiscrepancyModel&&) noexcept;

  Discrepancy at(CollectiveKind, int nodes, int gpus_per_node, Bytes) const;

 private:
  struct Solved;
  std::unique_ptr<Solved> solved_;
};

}  // namespace paceline
