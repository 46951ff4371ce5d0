#include "sim/collective/late_entries.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace paceline {
namespace {

constexpr SimTime kLongAgo{std::numeric_limits<std::int64_t>::min()};
// How many times of beginning may count, one attempt after the other.
constexpr std::size_t kAttempts[] = {1, 4, 16};
constexpr std::size_t kMostTimes = 16;
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

LateEntries::Classes::Classes(EqualThreadBlocks found) : of(std::move(found)), passes(of.graph) {}

LateEntries::LateEntries(const CollectiveGraph& graph) : graph_(graph) {}

bool LateEntries::run(const CollectivePlan& plan, std::span<SimTime> time) {
  constexpr std::uint32_t kLongestPause = 64;
  if (time.empty()) {
    return false;
  }
  if (pause_ > 0) {
    --pause_;
    return false;
  }
  find_latest(time, kMostTimes + 1, latest_);
  for (const std::size_t late : kAttempts) {
    if (run(plan, late, time)) {
      misses_ = 0;
      return true;
    }
    if (classes_ == nullptr || latest_.size() <= late) {
      break;  // more would have more classes
    }
  }
  misses_ = std::min(2 * misses_ + 1, kLongestPause);
  pause_ = misses_;
  return false;
}

bool LateEntries::run(const CollectivePlan& plan, std::size_t late, std::span<SimTime> time) {
  if (!find_classes(late, time)) {
    return false;
  }
  const std::vector<std::uint32_t>& class_of = classes_->of.class_of;
  const std::size_t count = classes_->of.graph.thread_blocks.size();
  const bool some_early = latest_.size() > late;
  const SimTime earliest = std::ranges::min(time), latest_early = some_early ? latest_[late] : SimTime{};
  lower_.resize(count);
  upper_.resize(count);
  for (std::size_t w = 0; w < time.size(); ++w) {
    const bool early = begins_[w] == EqualBegins::kUsual;
    lower_[class_of[w]] = early ? earliest : time[w];
    upper_[class_of[w]] = early ? latest_early : time[w];
  }
  const StepTimes steps(classes_->of.graph, plan);
  classes_->passes.run(plan, steps, lower_);
  if (some_early) {
    classes_->passes.run(plan, steps, upper_);
  } else {
    upper_ = lower_;
  }
  if (!decided()) {
    return false;
  }
  for (std::size_t w = 0; w < time.size(); ++w) {
    time[w] = upper_[class_of[w]];
  }
  return true;
}

// Whether the bounds say when ranks end, and that switches were done before or when.
bool LateEntries::decided() {
  end_.assign(graph_.ranks, kLongAgo);
  upper_end_ = end_;
  for (std::size_t w = 0; w < graph_.thread_blocks.size(); ++w) {
    if (const std::uint32_t rank = graph_.thread_blocks[w].rank; rank != ThreadBlock::kSwitch) {
      const std::uint32_t c = classes_->of.class_of[w];
      end_[rank] = std::max(end_[rank], lower_[c]);
      upper_end_[rank] = std::max(upper_end_[rank], upper_[c]);
    }
  }
  unknown_until_.reset();
  for (std::size_t c = 0; c < lower_.size(); ++c) {
    if (classes_->of.graph.thread_blocks[c].rank == ThreadBlock::kSwitch && lower_[c] != upper_[c]) {
      unknown_until_ = std::max(unknown_until_.value_or(kLongAgo), upper_[c]);
    }
  }
  return end_ == upper_end_ && (!unknown_until_ || *unknown_until_ <= std::ranges::min(end_));
}

// False: they are too many.
bool LateEntries::find_classes(std::size_t late, std::span<const SimTime> time) {
  const SimTime last_late = latest_[std::min(late, latest_.size()) - 1];
  begins_.clear();
  for (const SimTime t : time) {
    begins_.push_back(
        t < last_late ? EqualBegins::kUsual
                      : static_cast<std::uint32_t>(
                            std::ranges::lower_bound(latest_, t, std::ranges::greater{}) - latest_.begin()));
  }
  if (classes_ == nullptr || begins_ != known_) {
    if (!equal_) {
      equal_.emplace(graph_);
    }
    std::optional<EqualThreadBlocks> found = equal_->find(begins_, graph_.thread_blocks.size() / kFewer);
    classes_ = found ? std::make_unique<Classes>(std::move(*found)) : nullptr;
    known_ = begins_;
  }
  return classes_ != nullptr;
}

}  // namespace paceline
