#include "sim/report/critical_path.h"

#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>

#include "sim/engine/program_layout.h"

namespace paceline {
namespace {

// What a kernel of a phase does.
std::string words_of(Phase phase) {
  return phase == Phase::exchange ? "copies"
         : phase == Phase::update ? "optimizer"
                                  : std::string(name_of(phase));
}

// Who came last to each group of each collective of an iteration.
std::span<const Rank> last_to_launch(const JobLayout& layout, const Result& result, std::uint32_t iteration) {
  const std::size_t each = layout.steady_records;
  return std::span(result.last_to_launch).subspan((iteration - 1) * each, each);
}

class Walk {
 public:
  Walk(const TrainingJob& job, const Result& traced, std::uint32_t iteration)
      : job_(job),
        groups_(job),
        layout_(job),
        traced_(traced),
        iteration_(iteration),
        last_launch_(last_to_launch(layout_, traced, iteration)),
        began_(traced.iteration_end[iteration - 1]),
        now_(traced.iteration_end[iteration]) {
    go_to(traced.last_to_end[iteration]);
    at_ = program_->ops.size();
  }

  // From the end to the beginning.
  std::vector<PathSegment> back() {
    while (now_ > began_) {
      const std::size_t before = previous_on_stream();
      SimTime free = before == at_ ? began_ : std::max(began_, spans_[before].end);
      if (free < now_ || (before != at_ && program_->ops[before].kind == OpKind::join)) {
        if (const std::optional<std::size_t> beside = last_beside(); beside && spans_[*beside].end >= free) {
          free = spans_[*beside].end;
          if (free == now_) {
            add_kernel_beside(*beside);
            continue;
          }
        }
      }
      if (free < now_) {
        add_idle(before == at_ ? 0 : before + 1, free);
        continue;
      }
      at_ = before;
      const Op& op = program_->ops[before];
      if (op.kind == OpKind::kernel) {
        add(PathKind::compute, op.purpose, words_of(op.purpose.phase), spans_[before].start);
      } else if (spans_[before].start < spans_[before].end && op.kind != OpKind::join) {
        if (op.kind == OpKind::wait && op.lag == 0) {
          add_collective(op.index);
        } else {  // a message, or a collective of an iteration before
          add(PathKind::communication, op.purpose, op.label, spans_[before].start, &op);
        }
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
    program_ = &job_.program(rank, iteration_);
    collectives_ = layout_.roles[job_.role_of(rank.index())].front().of(iteration_).collectives;
  }

  // The operation of the compute stream before at_ that was over; at_ where there is none.
  std::size_t previous_on_stream() const {
    for (std::size_t i = at_; i-- > 0;) {
      if (runs_on_compute_stream(program_->ops[i]) && spans_[i].end > SimTime{} && spans_[i].end <= now_) {
        return i;
      }
    }
    return at_;
  }

  // The last kernel beside the compute stream that was over.
  std::optional<std::size_t> last_beside() const {
    std::optional<std::size_t> last;
    for (std::size_t i = 0; i < program_->ops.size(); ++i) {
      if (runs_beside_compute_stream(program_->ops[i]) && spans_[i].start < spans_[i].end &&
          spans_[i].end <= now_ && (!last || spans_[i].end > spans_[*last].end)) {
        last = i;
      }
    }
    return last;
  }

  // It ended at now_: back to what ran before it, or to the collective that it comes after.
  void add_kernel_beside(std::size_t kernel) {
    const Op& op = program_->ops[kernel];
    add(PathKind::compute, op.purpose, words_of(op.purpose.phase), spans_[kernel].start);
    at_ = program_->ops.size();
    const bool after_collective =
        op.after == After::op && program_->ops[op.after_op].kind == OpKind::collective;
    if (after_collective && spans_[op.after_op].end == now_ && now_ > began_) {
      add_collective(program_->ops[op.after_op].index);
    }
  }

  // [from, now_) belongs to the path. `collective`: what communicates; each is a piece of its own.
  void add(PathKind kind, const Purpose& purpose, std::string what, SimTime from,
           const Op* collective = nullptr) {
    from = std::max(from, began_);
    if (from == now_) {
      return;
    }
    if (!segments_.empty() && segments_.back().kind == kind && segments_.back().rank == rank_ &&
        segments_.back().purpose.phase == purpose.phase && collective == collective_ &&
        (kind == PathKind::compute || segments_.back().purpose.bucket == purpose.bucket) &&
        (kind != PathKind::launch || segments_.back().what == what)) {
      segments_.back().start = from;
    } else {
      segments_.push_back({kind, rank_, purpose, std::move(what), from, now_});
    }
    collective_ = collective;
    now_ = from;
  }

  // The stream had nothing to do since `from`; the host was at operations from `first_op` on.
  void add_idle(std::size_t first_op, SimTime from) {
    for (std::size_t i = at_; i-- > first_op;) {
      if (program_->ops[i].kind == OpKind::take_batch) {
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
      const CollectiveLayout of = collectives_[index];
      go_to(last_launch_[layout_.rows[of.row].first_steady + groups_.group(of.family, left.value)]);
      index = number_of(of.row);
      if (spans_[collectives_[index].op].start >= now_) {
        go_to(left);
        index = number_of(of.row);
      }
      at_ = collectives_[index].op;
      const SimTime launch = spans_[at_].start;
      const Op& collective = program_->ops[at_];
      add(PathKind::communication, collective.purpose, collective.label, launch, &collective);
      const std::optional<std::uint32_t> queued = queued_before(index);
      const std::size_t before = previous_on_stream();
      if (now_ == began_ ||
          (collective.after == After::compute && before != at_ && spans_[before].end == launch)) {
        return;
      }
      if (queued && spans_[collectives_[*queued].op].end == launch) {
        index = *queued;
      } else if (collective.after == After::decision) {
        if (const std::optional<std::uint32_t> earlier = go_to_what_it_was_issued_after(index)) {
          index = *earlier;
        } else {
          return;
        }
      } else if (collective.after == After::compute) {
        return;
      } else if (collective.after == After::nothing || spans_[collective.after_op].end < launch) {
        add_idle(0, began_);  // the host was late
        return;
      } else if (program_->ops[collective.after_op].kind == OpKind::collective) {
        index = program_->ops[collective.after_op].index;
      } else {
        at_ = runs_beside_compute_stream(program_->ops[collective.after_op]) ? program_->ops.size()
                                                                             : collective.after_op + 1;
        return;
      }
    }
  }

  // A decided collective was launched at now_. Before that its last tensor was made, it was agreed on, and the
  // one before it in its queue ended: the path goes on with the last of these, and what lies between is launches
  // and the agreement. Returns that collective, if it is this.
  std::optional<std::uint32_t> go_to_what_it_was_issued_after(std::uint32_t index) {
    const std::vector<DecidedCollective>& all = traced_.decisions.iterations[iteration_];
    const Negotiation& rules = *job_.negotiation;
    const auto made_by = [&](std::uint32_t i) { return rules.tensors[all[i].tensors.back()].after_op; };
    const auto made_at = [&](std::uint32_t i) { return spans_[made_by(i)].end; };
    const std::optional<std::uint32_t> queued = queued_before(index);
    const SimTime free = queued ? spans_[collectives_[*queued].op].end : SimTime{};
    const SimTime decided = all[index].decided;
    if (made_at(index) >= std::max(free, decided)) {
      return go_to_kernel(made_by(index));
    }
    if (free >= decided) {
      add(PathKind::launch, {}, "launch", free);
      return now_ == began_ ? std::nullopt : queued;
    }
    add(PathKind::launch, {}, "launch", decided);
    // No cycle begins before all that was agreed on earlier is issued, which may wait for data.
    std::uint32_t first = index;
    while (first > 0 && all[first - 1].decided == decided) {
      --first;
    }
    std::optional<std::uint32_t> held_by;
    for (std::uint32_t i = 0; rules.waits_for_data && i < first; ++i) {
      if (made_at(i) > all[index].queued && (!held_by || made_at(i) > made_at(*held_by))) {
        held_by = i;
      }
    }
    if (queued && free > all[index].queued && (!held_by || free > made_at(*held_by))) {
      add(PathKind::launch, {}, "agreement", free);
      return now_ == began_ ? std::nullopt : queued;
    }
    if (held_by) {
      add(PathKind::launch, {}, "agreement", made_at(*held_by));
      return go_to_kernel(made_by(*held_by));
    }
    add(PathKind::launch, {}, "agreement", all[index].queued);
    add_idle(0, began_);  // the host was late
    return std::nullopt;
  }
  std::nullopt_t go_to_kernel(std::uint32_t op) {
    add(PathKind::launch, {}, "launch", spans_[op].end);
    at_ = op + 1;
    return std::nullopt;
  }

  // Of a collective of this row in the program at hand.
  std::uint32_t number_of(std::uint32_t row) const {
    const auto at = std::ranges::find(collectives_, row, &CollectiveLayout::row);
    return static_cast<std::uint32_t>(at - collectives_.begin());
  }

  // The collective before this one in its queue.
  std::optional<std::uint32_t> queued_before(std::uint32_t index) const {
    for (std::uint32_t i = index; i-- > 0;) {
      if (collectives_[i].queue == collectives_[index].queue && spans_[collectives_[i].op].end > SimTime{}) {
        return i;
      }
    }
    return std::nullopt;
  }

  const TrainingJob& job_;
  Groups groups_;
  JobLayout layout_;
  const Result& traced_;
  std::uint32_t iteration_;
  std::span<const Rank> last_launch_;
  SimTime began_;
  Rank rank_;
  std::span<const OpSpan> spans_;  // of rank_, and what it did:
  const Program* program_ = nullptr;
  std::span<const CollectiveLayout> collectives_;
  std::size_t at_ = 0;  // operations from here on are behind us
  SimTime now_;
  std::vector<PathSegment> segments_;
  const Op* collective_ = nullptr;  // of the last one
};

}  // namespace

TraceRequest ranks_on_path(const TrainingJob& job, const Result& result, std::uint32_t iteration) {
  const std::span<const Rank> launched = last_to_launch(JobLayout(job), result, iteration);
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
