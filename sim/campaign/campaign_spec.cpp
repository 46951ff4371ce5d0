#include "sim/campaign/campaign_spec.h"

namespace paceline {

std::uint32_t parts_of(const CampaignSpec& spec, FailingPart part) {
  const auto nodes = static_cast<std::uint32_t>(spec.nodes);
  switch (part) {
    case FailingPart::gpu:
      return nodes * static_cast<std::uint32_t>(spec.gpus_per_node);
    case FailingPart::node:
      return nodes;
    case FailingPart::nic:
      return nodes * static_cast<std::uint32_t>(spec.nics_per_node);
    case FailingPart::leaf_switch:
      return (nodes + static_cast<std::uint32_t>(spec.nodes_per_leaf) - 1) /
             static_cast<std::uint32_t>(spec.nodes_per_leaf);
    case FailingPart::software:
      break;
  }
  return 1;
}

bool memory_survives(const CampaignSpec& spec, const FailureKind& kind) {
  return kind.takes == FailureTakes::process ||
         (spec.nodes > 1 && (kind.takes == FailureTakes::node || spec.nodes_per_leaf == 1));
}

CampaignTime system_mtbf(const CampaignSpec& spec) {
  double rate = 0;
  for (const FailureKind& kind : spec.failures) {
    rate += kind.mtbf.ps == 0 ? 0 : parts_of(spec, kind.of) / static_cast<double>(kind.mtbf.ps);
  }
  return rate == 0 ? CampaignTime() : CampaignTime(static_cast<PicosecondSum>(1 / rate));
}

}  // namespace paceline
