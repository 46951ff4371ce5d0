#include "sim/collective/late_entries.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace paceline {
namespace {

constexpr SimTime kLongAgo{std::numeric_limits<std::int64_t>::min()};
// Two runs of the classes and finding them have to cost less than one of all.
constexpr std::size_t kFewer = 4;

// The latest of these, at most `most` different ones, in descending order.
void find_latest(std::span<const SimTime> times, std::size_t most, std::vector<SimTime>& latest) {
  latest.clear();
  for (const SimTime t : times) {
    if (latest.size() == most && t <= latest.back()) {
      continue;
    }
    const auto at = std::ranges::lower_bound(latest, t, std::ranges::greater{});
    if (at == latest.end() || *at != t) {
      latest.insert(at, t);
      latest.resize(std::min(latest.size(), most));
    }
  }
}

}  // namespace

LateEntries::Classes::Classes(std::shared_ptr<const EqualThreadBlocks> found)
    : of(std::move(found)), passes(of->graph) {}

LateEntries::LateEntries(const EqualBegins& equal) : equal_(equal), graph_(equal.graph()) {}

bool LateEntries::run(const CollectivePlan& plan, std::span<SimTime> time) {
  constexpr std::uint32_t kLongestPause = 64;
  if (time.empty()) {
    return false;
  }
  if (pause_ > 0) {
    --pause_;
    return false;
  }
  find_latest(time, kAttempts.back() + 1, latest_);
  reach_ = {};
  for (std::size_t attempt = 0; attempt < kAttempts.size(); ++attempt) {
    const std::size_t late = kAttempts[attempt];
    if (latest_.size() > late && latest_[0] - latest_[late] < reach_) {
      continue;
    }
    if (run(plan, attempt, time)) {
      misses_ = 0;
      return true;
    }
    if (found_[attempt].classes == nullptr || latest_.size() <= late) {
      break;  // more would have more classes
    }
  }
  misses_ = std::min(2 * misses_ + 1, kLongestPause);
  pause_ = misses_;
  return false;
}

bool LateEntries::run(const CollectivePlan& plan, std::size_t attempt, std::span<SimTime> time) {
  Classes* const classes = find_classes(attempt, time);
  if (classes == nullptr) {
    return false;
  }
  const std::vector<std::uint32_t>& class_of = classes->of->class_of;
  const std::size_t count = classes->of->graph.thread_blocks.size(), late = kAttempts[attempt];
  const bool some_early = latest_.size() > late;
  const SimTime earliest = std::ranges::min(time), latest_early = some_early ? latest_[late] : SimTime{};
  lower_.resize(count);
  upper_.resize(count);
  for (std::size_t w = 0; w < time.size(); ++w) {
    const bool early = begins_[w] == EqualBegins::kUsual;
    lower_[class_of[w]] = early ? earliest : time[w];
    upper_[class_of[w]] = early ? latest_early : time[w];
  }
  const StepTimes steps(classes->of->graph, plan);
  if (some_early) {
    const std::array<std::span<SimTime>, 2> both{lower_, upper_};
    classes->passes.run(plan, steps, both);
  } else {
    classes->passes.run(plan, steps, lower_);
    upper_ = lower_;
  }
  if (!decided(*classes)) {
    SimTime most;
    for (std::size_t r = 0; r < end_.size(); ++r) {
      most = std::max(most, upper_end_[r] - end_[r]);
    }
    reach_ = latest_[0] - latest_early + most;
    return false;
  }
  for (std::size_t w = 0; w < time.size(); ++w) {
    time[w] = upper_[class_of[w]];
  }
  return true;
}

// Whether the bounds say when ranks end, and that switches were done before or when.
bool LateEntries::decided(const Classes& classes) {
  end_.assign(graph_.ranks, kLongAgo);
  upper_end_ = end_;
  for (std::size_t w = 0; w < graph_.thread_blocks.size(); ++w) {
    if (const std::uint32_t rank = graph_.thread_blocks[w].holds(); rank != ThreadBlock::kSwitch) {
      const std::uint32_t c = classes.of->class_of[w];
      end_[rank] = std::max(end_[rank], lower_[c]);
      upper_end_[rank] = std::max(upper_end_[rank], upper_[c]);
    }
  }
  unknown_until_.reset();
  for (std::size_t c = 0; c < lower_.size(); ++c) {
    if (classes.of->graph.thread_blocks[c].holds() == ThreadBlock::kSwitch && lower_[c] != upper_[c]) {
      unknown_until_ = std::max(unknown_until_.value_or(kLongAgo), upper_[c]);
    }
  }
  return end_ == upper_end_ && (!unknown_until_ || *unknown_until_ <= std::ranges::min(end_));
}

// Nothing: they are too many.
LateEntries::Classes* LateEntries::find_classes(std::size_t attempt, std::span<const SimTime> time) {
  const SimTime last_late = latest_[std::min(kAttempts[attempt], latest_.size()) - 1];
  begins_.clear();
  for (const SimTime t : time) {
    const auto place = std::ranges::lower_bound(latest_, t, std::ranges::greater{}) - latest_.begin();
    begins_.push_back(t < last_late ? EqualBegins::kUsual : static_cast<std::uint32_t>(place));
  }
  Found& found = found_[attempt];
  if (begins_ != found.begins) {
    std::shared_ptr<const EqualThreadBlocks> equal =
        equal_.find(begins_, graph_.thread_blocks.size() / kFewer);
    found.classes = equal != nullptr ? std::make_unique<Classes>(std::move(equal)) : nullptr;
    found.begins = begins_;
  }
  return found.classes.get();
}

}  // namespace paceline
