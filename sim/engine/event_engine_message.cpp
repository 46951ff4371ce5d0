// The event engine's messages, and who waits for them.
#include <algorithm>

#include "sim/engine/event_engine.h"

namespace paceline {

void EventEngine::send(ThreadId thread, const Op& op, SimTime now) {
  const std::uint32_t from = place_[thread.index()].member;
  const auto send_to = [&](std::uint32_t to) {
    const MessageRoute& route = mailboxes_.route(from, to);
    const MessageId message = mailboxes_.send({from, to, op.index});
    if (route.links.empty()) {
      const Seconds bytes(static_cast<double>(op.bytes.value) / route.rate.value);
      timeline_.push(now + route.latency + to_sim_time(bytes), EventKind::message, message.value);
    } else {
      network_->start(route.links, route.rate, op.bytes, kMessage | message.value, now, Clock::shared);
    }
  };
  if (op.to == kPeer) {
    send_to(thread_[thread.index()].peer);
    return;
  }
  groups_.for_each(op.to, groups_.group(op.to, from), [&](std::uint32_t to) {
    if (to != from) {
      send_to(to);
    }
  });
}

// A message has left its sender.
void EventEngine::end_sending(MessageId message, SimTime now) {
  const auto& [from, to, channel] = mailboxes_.on_the_way(message);
  timeline_.push(now + mailboxes_.route(from, to).latency, EventKind::message, message.value);
}

void EventEngine::deliver(MessageId message, SimTime now) {
  const std::uint32_t member = mailboxes_.deliver(message).to;
  for (std::optional<ThreadId> thread(member); thread; thread = place_[thread->index()].next_of_member) {
    advance_stream(*thread, now);
    advance_host(*thread, now);
  }
}

// Whether there was a message to take.
bool EventEngine::receive(ThreadId thread, const Op& op) {
  const std::optional<std::uint32_t> from = mailboxes_.take(place_[thread.index()].member, op.index);
  thread_[thread.index()].peer = from.value_or(thread_[thread.index()].peer);
  return from.has_value();
}

bool EventEngine::pass_gate(ThreadId thread, const Op& op, SimTime now) {
  const std::uint32_t iteration = thread_[thread.index()].stream.iteration;
  const std::uint32_t reached = mailboxes_.reached(place_[thread.index()].member, op.index, op.gate.quorum);
  if (reached + op.lag < iteration + 1) {
    return false;
  }
  if (op.gate.adopt && reached > iteration + 1) {
    adopt(thread, reached - 1, now);
  }
  return true;
}

// Goes on with a later iteration; those between end here.
void EventEngine::adopt(ThreadId thread, std::uint32_t iteration, SimTime now) {
  ThreadState& state = thread_[thread.index()];
  const std::uint32_t left_out = iteration - state.stream.iteration;
  if (is_rank(thread)) {
    open_iteration(state.host.iteration + left_out);
  }
  OpSpan& waited = span(thread, state.stream);
  waited = {state.stream_waits ? waited.start : now, now};
  for (std::uint32_t i = state.stream.iteration;
       is_rank(thread) && i < std::min(iteration, last_iteration_ + 1); ++i) {
    end_rank_iteration(thread, i, now);
    ++slot(i).ranks_done;
  }
  state.stream.iteration += left_out;
  state.host.iteration += left_out;
  state.completed += left_out;
  if (is_rank(thread)) {
    state.factor = variability_.rank_factor(Rank(thread.value), iteration);
    span(thread, state.stream).start = now;
    close_complete_iterations();
  }
}

}  // namespace paceline
