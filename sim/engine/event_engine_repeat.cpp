// The event engine where steps are alike: when the state at the end of an iteration is that at the end of the
// one before, only later, all that is to come is what has just been, only later.
#include <algorithm>
#include <bit>

#include "core/state_digest.h"
#include "sim/engine/event_engine.h"

namespace paceline {
namespace {

// A time that is not recorded is 0 (or before it, in LastLaunch).
bool recorded(SimTime t) { return t > SimTime{}; }

void add_recorded(StateDigest& digest, SimTime t, SimTime now) { digest.add(recorded(t) ? t - now : kNever); }

// What was is over.
void add_known(StateDigest& digest, SimTime t, SimTime now) { digest.add(std::max(t, now) - now); }

void add_place(StateDigest& digest, OpPlace at, std::uint32_t closed) {
  digest.add(std::int64_t{at.iteration} - closed);
  digest.add(at.op);
}

void shift_recorded(SimTime& t, SimTime by) {
  if (recorded(t)) {
    t += by;
  }
}

}  // namespace

// All that decides what follows, as seen from `now` and from the iteration that has just closed. The lists of
// members are whole: whoever adds one has to say here what becomes of it.
StateDigest EventEngine::describe(std::uint32_t closed, SimTime now) {
  StateDigest digest;
  describe_threads(digest, closed, now);
  describe_queues(digest, closed, now);
  describe_graphs(digest, closed, now);
  describe_pending(digest, now);
  for (std::size_t ahead = 1; ahead < slots_.size(); ++ahead) {
    describe_records(digest, closed + static_cast<std::uint32_t>(ahead), now);
  }
  return digest;
}

// Hosts, streams and loaders.
void EventEngine::describe_threads(StateDigest& digest, std::uint32_t closed, SimTime now) {
  for (const ThreadState& state : thread_) {
    const auto& [host, stream, collective, host_busy, host_waits, loader_busy, stream_waits, kernel_runs,
                 kernel_stream, kernel, kernel_ready, communicating, completed, produced, consumed,
                 kernel_event, work_left_at, work, factor, own, idle_from, server_wait] = state;
    add_place(digest, host, closed);
    add_place(digest, stream, closed);
    add_place(digest, job_.workers > 0 ? collective : stream, closed);
    std::uint32_t flags = 0;
    for (const bool flag : {host_busy, host_waits, loader_busy, stream_waits, kernel_runs}) {
      flags = 2 * flags + (flag ? 1 : 0);
    }
    digest.add(flags);
    digest.add(communicating);
    digest.add(std::int64_t{completed} - closed);
    digest.add(produced - consumed);  // server_wait: jobs with messages are not repeated
    if (kernel_runs) {                // kernel_event: below, with the events
      digest.add(kernel_stream);
      add_place(digest, kernel, closed);
      digest.add(work_left_at - now);
      digest.add(static_cast<std::int64_t>(work >> 64));
      digest.add(static_cast<std::uint64_t>(work));
    }
    digest.add(std::bit_cast<std::uint64_t>(factor));
    digest.add(own);
    digest.add(idle_from - now);
    add_recorded(digest, kernel_ready == kNever ? SimTime{} : kernel_ready, now);
  }
  for (std::uint32_t t = 0; t < thread_.size(); ++t) {
    for (std::uint32_t s = 1; s <= streams_beside(ThreadId(t)); ++s) {
      const auto& [iteration, position, kernel, before, kind, queue, ready, own] =
          beside(ThreadId(t), s);  // the first two decide the next four
      digest.add(std::int64_t{iteration} - closed);
      digest.add(position);
      add_recorded(digest, ready == kNever ? SimTime{} : ready, now);
      digest.add(own);
    }
  }
}

// Queues, and the collectives in which all meet.
void EventEngine::describe_queues(StateDigest& digest, std::uint32_t closed, SimTime now) {
  for (const auto& [collective, thread_blocks_left, runs, stage, left] : queues_) {
    add_place(digest, collective, closed);
    digest.add(thread_blocks_left);
    digest.add(std::uint32_t{runs});  // stage: jobs with a negotiation are not repeated
    add_known(digest, left, now);
  }
  for (const std::optional<Meeting>& meeting : meetings_) {
    digest.add(meeting ? meeting->entered : 0);
    for (std::uint32_t r = 0; meeting && meeting->entered > 0 && r < ranks_; ++r) {
      add_recorded(digest, meeting->launch[r], now);
    }
  }
  if (times_) {
    times_->for_each_switch_end([&](SimTime end) { add_known(digest, end, now); });
  }
}

// Thread blocks, FIFOs and sockets.
void EventEngine::describe_graphs(StateDigest& digest, std::uint32_t closed, SimTime now) {
  for (std::uint32_t w = 0; w + 1 < graphs_.thread_blocks.size(); ++w) {
    const auto& [at, rank, script, plan, graph, first_in, first_out, unfinished, queue, active, ready, waits,
                 free, times, planned,
                 use] = graphs_.thread_blocks[w];  // waits follows from the rest
    digest.add(std::uint32_t{active});
    if (active) {
      const auto& [phase, step, moves_left, loops_left] = at;
      for (const std::uint32_t word : {plan, unfinished, queue.value, phase, step, moves_left}) {
        digest.add(word);
      }
      digest.add(loops_left);
      add_known(digest, free, now);
    }
    if (rank == ThreadBlock::kSwitch && !(times_ && meetings_[graph])) {
      if (use.iteration <= last_iteration_) {
        add_place(digest, use, closed);
      } else {
        digest.add(kNever);
      }
    }
  }
  for (const FifoState& fifo : graphs_.fifos) {
    const auto& [from, to, hop, shared, socket, behind, sent, sent_before, arrived, received, last_arrival,
                 sent_at, flow] = fifo;
    digest.add(sent - received);
    digest.add(arrived - received);
    digest.add(sent - sent_before);
    add_known(digest, last_arrival, now);  // sent_at: below, with the flows
  }
  for (std::uint32_t f = 0; ahead_ && f < graphs_.fifos.size(); ++f) {
    describe_slices(digest, FifoId(f), now);
  }
  for (const Socket& socket : graphs_.sockets) {
    for (std::optional<FifoId> at = socket.first; at; at = graphs_[*at].behind) {
      digest.add(at->value);
    }
    digest.add(kNever);
  }
}

// Events and flows, in their order.
void EventEngine::describe_pending(StateDigest& digest, SimTime now) {
  for (const Event& event : timeline_.in_order()) {
    if (event.kind == EventKind::kernel_end && event.sequence != thread_[event.subject].kernel_event) {
      continue;  // stale
    }
    digest.add(event.time - now);
    digest.add(static_cast<std::uint32_t>(event.kind));
    digest.add(event.subject);
  }
  if (network_) {
    network_->for_each_flow([&](const FlowNetwork::LiveFlow& flow) {
      digest.add(std::bit_cast<std::uint64_t>(flow.rate.value));
      if (flow.end) {
        digest.add(flow.tag);
        digest.add(graphs_.fifos[flow.tag].sent_at - now);
        digest.add(std::bit_cast<std::uint64_t>(flow.remaining));
        digest.add(flow.settled - now);
        digest.add(*flow.end - now);
      }
    });
  }
}

// Ahead of the clock: what of a FIFO's slices its receiver or its sender may still ask for.
void EventEngine::describe_slices(StateDigest& digest, FifoId id, SimTime now) {
  const FifoState& fifo = graphs_[id];
  const ThreadBlockState& sender = graphs_[fifo.from];
  const std::uint64_t slots = sender.active ? plans_[sender.plan].slots : 0;
  std::uint64_t slice = std::max(fifo.sent_before, fifo.sent - std::min(fifo.sent, slots));
  for (slice = std::min(slice, fifo.received); slice < fifo.arrived; ++slice) {
    add_known(digest, slices_.ring(id)[slice], now);
  }
}

// What is recorded of an iteration that some rank may be in.
void EventEngine::describe_records(StateDigest& digest, std::uint32_t iteration, SimTime now) {
  const auto& [spans, collectives, own, rank_end, own_at_end, ranks_done, collectives_ended, launched, issued,
               facts, decided, queued, tensors_decided] = slot(iteration);
  for (const OpSpan& span : spans) {
    add_recorded(digest, span.start, now);
    add_recorded(digest, span.end, now);
  }
  for (const auto& [launch, ready, end] : collectives) {
    for (const LastLaunch::Launch& each : {launch.last, launch.second}) {
      add_recorded(digest, each.at, now);
      digest.add(each.own);
      digest.add(each.rank);
    }
    add_recorded(digest, ready, now);
    add_recorded(digest, end, now);
  }
  for (const SimTime time : own) {
    digest.add(time);
  }
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    add_recorded(digest, rank_end[r], now);
    digest.add(own_at_end[r]);
  }
  digest.add(ranks_done);
  digest.add(collectives_ended);
  digest.add(std::uint32_t{launched});
  for (const SimTime t : issued) {
    add_recorded(digest, t, now);
  }
}

// Whether the end of the run changes nothing in what came before it: no collective of an iteration ran beside
// one of the iteration before.
bool EventEngine::iterations_apart(std::uint32_t closed) const {
  return last_overlap_ <= closed && std::ranges::all_of(queues_, [closed](const QueueState& queue) {
           return queue.collective.iteration > closed;
         });
}

// Whether the times of switches are all that matters of what they did.
bool EventEngine::switches_settled(SimTime now) const {
  SimTime next = now;  // no collective is launched before it
  for (const std::optional<Meeting>& meeting : meetings_) {
    for (std::uint32_t r = 0; meeting && meeting->entered > 0 && r < ranks_; ++r) {
      next = recorded(meeting->launch[r]) ? std::min(next, meeting->launch[r]) : next;
    }
  }
  return !times_ || times_->settled_by(next);
}

// After everything that happened at the instant at which an iteration closed.
void EventEngine::repeat_if_alike(std::uint32_t closed, SimTime now) {
  if (!may_repeat_ || closed == last_iteration_ || !iterations_apart(closed) || !switches_settled(now)) {
    seen_.reset();
    return;
  }
  const Seen seen{closed, now, describe(closed, now)};
  if (seen_ && seen_->closed + 1 == closed && seen_->state == seen.state) {
    for (std::uint32_t next = closed + 1; next <= last_iteration_; ++next) {
      repeat(next, now - seen_->at);
      ++repeated_;
    }
  }
  seen_ = seen;
}

// Records `iteration` as the one before it, which has closed, and closes it.
void EventEngine::repeat(std::uint32_t iteration, SimTime period) {
  std::swap(slot(iteration), slot(iteration - 1));
  auto& [spans, collectives, own, rank_end, own_at_end, ranks_done, collectives_ended, launched, issued,
         facts, decided, queued, tensors_decided] = slot(iteration);
  for (OpSpan& span : spans) {
    shift_recorded(span.start, period);
    shift_recorded(span.end, period);
  }
  for (CollectiveRecord& record : collectives) {
    for (SimTime* t : {&record.launch.last.at, &record.launch.second.at, &record.ready, &record.end}) {
      shift_recorded(*t, period);
    }
  }
  for (std::vector<SimTime>* times : {&rank_end, &issued}) {
    for (SimTime& t : *times) {
      shift_recorded(t, period);
    }
  }
  facts = {};
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    const ThreadId rank(r);
    const std::vector<CollectiveLayout>& collectives_of = layout(rank, iteration).collectives;
    for (std::uint32_t k = 0; k < collectives_of.size(); ++k) {
      const OpSpan& ran = span(rank, {iteration, collectives_of[k].op});
      facts.add(subject(Fact::launch, iteration, k), r, ran.start);
      facts.add(subject(Fact::collective_end, iteration, k), r, ran.end);
    }
    facts.add(subject(Fact::iteration_end, iteration), r, rank_end[r]);
  }
  close_iteration(iteration);
}

}  // namespace paceline
