#include "scenarios/utilisation.h"

namespace paceline {

Utilisation utilisation(const Prediction& p) {
  constexpr double kPasses = 3;  // forward, and backward twice as much
  const Scenario& s = p.scenario;
  double layers = 0, attention = 0;
  for (const Layer& layer : s.model.layers) {
    (layer.kind == LayerKind::attention ? attention : layers) +=
        kPasses * kFlopsPerMac * static_cast<double>(layer.forward_macs);
  }
  const double peak = s.gpu.peak[static_cast<std::size_t>(s.training.precision)].value;
  const double each = p.report.throughput / (static_cast<double>(p.job.ranks()) * peak);
  return {p.report.throughput * static_cast<double>(s.model.tokens), each * layers,
          each * (layers + attention)};
}

std::string compute_source(const Scenario& s) {
  return !s.training.measured.empty() ? "measured" : !s.training.layer_times.empty() ? "given" : "roofline";
}

}  // namespace paceline
