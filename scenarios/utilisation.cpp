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
  const auto precision = static_cast<std::size_t>(s.training.precision);
  double peak = s.gpu.peak[precision].value * static_cast<double>(p.job.ranks());
  if (!s.gpus.empty()) {
    peak = 0;
    for (const GpuKind& kind : s.gpus) {
      peak += kind.gpu.peak[precision].value * kind.nodes * gpus_of_node(s.cluster);
    }
  }
  const double each = p.report.throughput / peak;
  return {p.report.throughput * static_cast<double>(s.model.tokens), each * layers,
          each * (layers + attention)};
}

std::string compute_source(const Scenario& s) {
  const bool of_kinds = !s.gpus.empty() && !s.gpus.front().measured.empty();
  return !s.training.measured.empty() || of_kinds ? "measured"
         : !s.training.layer_times.empty()        ? "given"
                                                  : "roofline";
}

}  // namespace paceline
