// How well a prediction explains a log: the probability of what was measured, given how far predictions are
// known to be off.
//
// ln(measured / predicted) is a Gaussian process (calibrate/fit/discrepancy.h): every row as far off as its
// interval says, near sizes alike. How much of that this machine has isn't known; so the probability is the mean
// over some shares of it, and over two sizes of the noise: a prediction that needs less of both explains
// more. A row may be an outlier, at a price.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "calibrate/fit/discrepancy.h"

namespace paceline {

struct EvidenceRow {
  DiscrepancyPoint at;   // where; log_ratio and noise don't count
  double deviation = 0;  // how far the model may be off, of ln(time)
  double noise = 0;      // of the measurement, likewise
};

class Evidence {
 public:
  // Cost: the cube of the number of rows.
  explicit Evidence(std::span<const EvidenceRow>);
  ~Evidence();
  Evidence(Evidence&&) noexcept;
  Evidence& operator=(Evidence&&) noexcept;

  // ln of the probability density of these ln(measured / predicted). Cost: the square of the number of rows, for
  // each outlier once more.
  double of(std::span<const double> log_ratio) const;

 private:
  struct Cells;
  std::unique_ptr<Cells> cells_;
};

// ln of the mean of exp; of nothing: minus infinity.
double log_mean_exp(std::span<const double>);

}  // namespace paceline
