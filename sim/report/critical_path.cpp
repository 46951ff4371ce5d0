#include "sim/report/critical_path.h"

#include <algorithm>
#include <span>
#include <stdexcept>

namespace paceline {
namespace {

std::span<const Rank> last_to_launch(const TrainingJob& job, const Result& result, std::uint32_t iteration) {
  const std::size_t each = job.main().steady.collectives.size();
  return std::span(result.last_to_launch).subspan((iteration - 1) * each, each);
}

// What a kernel of a phase does.
std::string words_of(Phase phase) {
  return phase == Phase::exchange ? "bucket copies"
         : phase == Phase::update ? "optimizer"
                                  : std::string(name_of(phase));
}

bool on_stream(const Op& op) { return op.kind == OpKind::kernel || op.kind == OpKind::wait; }

class Walk {
 public:
  Walk(const TrainingJob& job, const Result& traced, std::uint32_t iteration)
      : job_(job),
        traced_(traced),
        iteration_(iteration),
        last_launch_(last_to_launch(job, traced, iteration)),
        began_(traced.iteration_end[iteration - 1]),
        at_(job.main().steady.ops.size()),
        now_(traced.iteration_end[iteration]) {
    for (std::uint32_t i = 0; i < job.main().steady.ops.size(); ++i) {
      if (job.main().steady.ops[i].kind == OpKind::collective) {
        launch_op_.push_back(i);
      }
    }
    go_to(traced.last_to_end[iteration]);
  }

  // From the end to the beginning.
  std::vector<PathSegment> back() {
    while (now_ > began_) {
      const std::size_t before = previous_on_stream();
      const SimTime free = before == at_ ? began_ : std::max(began_, spans_[before].end);
      if (free < now_) {
        add_idle(before == at_ ? 0 : before + 1, free);
        continue;
      }
      at_ = before;
      const Op& op = job_.main().steady.ops[before];
      if (op.kind == OpKind::kernel) {
        add(PathKind::compute, op.purpose, words_of(op.purpose.phase), spans_[before].start);
      } else if (spans_[before].start < spans_[before].end) {
        add_collective(op.index);
      }
    }
    std::ranges::reverse(segments_);
    return std::move(segments_);
  }

 private:
  void go_to(Rank rank) {
    rank_ = rank;
    const auto found = std::ranges::find_if(
        traced_.trace, [&](const TracedIteration& t) { return t.rank == rank && t.iteration == iteration_; });
    if (found == traced_.trace.end()) {
      throw std::logic_error("critical path: a rank on it was not traced");
    }
    spans_ = found->ops;
  }

  // The operation of the compute stream before at_; at_ where there is none.
  std::size_t previous_on_stream() const {
    for (std::size_t i = at_; i-- > 0;) {
      if (on_stream(job_.main().steady.ops[i])) {
        return i;
      }
    }
    return at_;
  }

  // [from, now_) belongs to the path.
  void add(PathKind kind, const Purpose& purpose, std::string what, SimTime from) {
    from = std::max(from, began_);
    if (from == now_) {
      return;
    }
    if (!segments_.empty() && segments_.back().kind == kind && segments_.back().rank == rank_ &&
        segments_.back().purpose.phase == purpose.phase &&
        (kind == PathKind::compute || segments_.back().purpose.bucket == purpose.bucket)) {
      segments_.back().start = from;
    } else {
      segments_.push_back({kind, rank_, purpose, std::move(what), from, now_});
    }
    now_ = from;
  }

  // The stream had nothing to do since `from`; the host was at operations from `first_op` on.
  void add_idle(std::size_t first_op, SimTime from) {
    for (std::size_t i = at_; i-- > first_op;) {
      if (job_.main().steady.ops[i].kind == OpKind::take_batch) {
        add(PathKind::launch, {}, "launch", std::clamp(spans_[i].end, from, now_));
        add(PathKind::input_wait, {}, "input", std::clamp(spans_[i].start, from, now_));
      }
    }
    add(PathKind::launch, {}, "launch", from);
  }

  // It ended at now_ on rank_: back to the launch that it waited for, and to collectives queued before it.
  void add_collective(std::uint32_t index) {
    for (;;) {
      const Rank left = rank_;
      go_to(last_launch_[index]);
      if (spans_[launch_op_[index]].start >= now_) {
        go_to(left);
      }
      at_ = launch_op_[index];
      const SimTime launch = spans_[at_].start;
      const Op& collective = job_.main().steady.ops[at_];
      add(PathKind::communication, collective.purpose, collective.label, launch);
      const std::size_t before = previous_on_stream();
      const bool by_stream = before != at_ && spans_[before].end == launch;
      if (now_ == began_ || by_stream || index == 0 || spans_[launch_op_[index - 1]].end != launch) {
        return;
      }
      --index;
    }
  }

  const TrainingJob& job_;
  const Result& traced_;
  std::uint32_t iteration_;
  std::span<const Rank> last_launch_;     // by collective
  std::vector<std::uint32_t> launch_op_;  // by collective
  SimTime began_;
  Rank rank_;
  std::span<const OpSpan> spans_;  // of rank_
  std::size_t at_;                 // operations from here on are behind us
  SimTime now_;
  std::vector<PathSegment> segments_;
};

}  // namespace

TraceRequest ranks_on_path(const TrainingJob& job, const Result& result, std::uint32_t iteration) {
  const std::span<const Rank> launched = last_to_launch(job, result, iteration);
  std::vector<Rank> ranks(launched.begin(), launched.end());
  ranks.push_back(result.last_to_end[iteration]);
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return {std::move(ranks), iteration, 1};
}

CriticalPath critical_path(const TrainingJob& job, const Result& traced, std::uint32_t iteration) {
  return {iteration, traced.iteration_end[iteration - 1], Walk(job, traced, iteration).back()};
}

}  // namespace paceline
