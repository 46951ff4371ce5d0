#include "sim/strategy/buffers.h"

namespace paceline {

std::vector<Buffers> buffers_of(const Model& model) {
  Bytes statistics, counters;
  for (const Layer& layer : model.layers) {
    if (layer.kind == LayerKind::batch_norm) {
      for (const std::int64_t elements : layer.parameters) {
        statistics = statistics + Bytes(4 * elements);
      }
      counters = counters + Bytes(8);
    }
  }
  return counters.value == 0
             ? std::vector<Buffers>{}
             : std::vector<Buffers>{{Payload::statistics, statistics}, {Payload::counters, counters}};
}

}  // namespace paceline
