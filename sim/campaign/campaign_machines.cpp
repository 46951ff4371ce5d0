#include "sim/campaign/campaign_machines.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace paceline {
namespace {

constexpr std::uint32_t kTraced = std::numeric_limits<std::uint32_t>::max();  // the count of no drawn failure
constexpr CampaignTime kNeverInCampaigns(std::numeric_limits<PicosecondSum>::max());

}  // namespace

CampaignMachines::CampaignMachines(const CampaignSpec& spec)
    : spec_(spec), times_(spec), passing_(spec.passing.size()), spares_(spec.spares) {}

// Of the trace's and the drawn ones.
const PartFailure* CampaignMachines::next_failure() {
  const PartFailure* drawn = times_.next();
  if (traced_ < spec_.trace.size() && (drawn == nullptr || spec_.trace[traced_].at <= drawn->at)) {
    const TracedFailure& traced = spec_.trace[traced_];
    from_trace_ = {traced.at, static_cast<std::uint32_t>(traced.kind), traced.part, kTraced};
    return &from_trace_;
  }
  return drawn;
}

Passed CampaignMachines::pass(CampaignTime until) {
  while (true) {
    const PartFailure* failure = next_failure();
    const bool quiet = !quiet_.empty() && (failure == nullptr || quiet_.begin()->first <= failure->at);
    const CampaignTime next = quiet                ? quiet_.begin()->first
                              : failure != nullptr ? failure->at
                                                   : kNeverInCampaigns;
    if (spec_.length < until && spec_.length <= next) {
      now_ = spec_.length;
      return Passed::over;
    }
    if (next > until || (next == until && !quiet)) {
      now_ = until;
      return Passed::all;
    }
    now_ = std::max(now_, next);
    if (quiet) {
      const Quiet event = quiet_.begin()->second;
      quiet_.erase(quiet_.begin());
      happen(event);
    } else if (strike(*failure)) {
      return Passed::struck;
    }
  }
}

CampaignTime CampaignMachines::next_change() {
  const CampaignTime quiet = quiet_.empty() ? kNeverInCampaigns : quiet_.begin()->first;
  const PartFailure* next = next_failure();
  return std::max(now_, std::min(quiet, next == nullptr ? kNeverInCampaigns : next->at));
}

void CampaignMachines::happen(const Quiet& event) {
  if (event.repaired) {
    ++spares_;
  } else {
    const std::size_t which = event.state.kind - spec_.failures.size();
    --passing_[which];
    if (spec_.passing[which].stands && --standing_ == 0) {
      stood_ += now_ - stands_since_;
    }
    times_.renew(event.state, now_);
  }
}

// False where it is no failure of the job: a state that passes; a failure of places that are empty.
bool CampaignMachines::strike(const PartFailure& next) {
  const PartFailure failure = next;
  if (failure.count == kTraced) {
    ++traced_;
  } else {
    times_.take();
  }
  if (failure.kind >= spec_.failures.size()) {
    const std::size_t which = failure.kind - spec_.failures.size();
    ++passing_[which];
    if (spec_.passing[which].stands && standing_++ == 0) {
      stands_since_ = now_;
    }
    quiet_.emplace(now_ + spec_.passing[which].lasts, Quiet{false, failure});
    return false;
  }
  const FailureKind& kind = spec_.failures[failure.kind];
  const std::vector<std::uint32_t> nodes = nodes_of(kind, failure.part);
  const bool hits = nodes.empty() ||
                    std::ranges::any_of(nodes, [&](std::uint32_t node) { return !vacant_.contains(node); });
  strike_ = {failure.kind, failure.part, {}};
  if (kind.takes != FailureTakes::process) {
    take_nodes(kind, failure);
  }
  // What breaks with its node is new when the place is filled; a switch, when it is repaired.
  if (failure.count != kTraced && kind.takes != FailureTakes::node) {
    times_.renew(failure, kind.takes == FailureTakes::leaf ? now_ + kind.repair : now_);
  }
  return hits;
}

void CampaignMachines::take_nodes(const FailureKind& kind, const PartFailure& failure) {
  for (const std::uint32_t node : nodes_of(kind, failure.part)) {
    if (vacant_.insert(node).second) {
      times_.node_leaves(node, now_);
      quiet_.emplace(now_ + kind.repair, Quiet{});
      strike_.taken.push_back(node);
      if (kind.takes == FailureTakes::node && failure.count != kTraced) {
        broken_[node] = failure;
      }
    }
  }
}

// Around a part, or below a switch.
std::vector<std::uint32_t> CampaignMachines::nodes_of(const FailureKind& kind, std::uint32_t part) const {
  switch (kind.of) {
    case FailingPart::gpu:
      return {part / static_cast<std::uint32_t>(spec_.gpus_per_node)};
    case FailingPart::nic:
      return {part / static_cast<std::uint32_t>(spec_.nics_per_node)};
    case FailingPart::node:
      return {part};
    case FailingPart::leaf_switch: {
      const auto below = static_cast<std::uint32_t>(spec_.nodes_per_leaf);
      const std::uint32_t first = part * below;
      std::vector<std::uint32_t> nodes(std::min(below, static_cast<std::uint32_t>(spec_.nodes) - first));
      std::iota(nodes.begin(), nodes.end(), first);
      return nodes;
    }
    case FailingPart::software:
      break;
  }
  return {};
}

CampaignTime CampaignMachines::next_repair() const {
  const auto found = std::ranges::find_if(quiet_, [](const auto& event) { return event.second.repaired; });
  return found == quiet_.end() ? kNeverInCampaigns : found->first;
}

void CampaignMachines::fill_one() {
  const std::uint32_t node = *vacant_.begin();
  --spares_;
  vacant_.erase(vacant_.begin());
  times_.node_returns(node, now_);
  if (const auto broken = broken_.find(node); broken != broken_.end()) {
    times_.renew(broken->second, now_);
    broken_.erase(broken);
  }
}

}  // namespace paceline
