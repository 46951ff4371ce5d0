// The event engine's communication streams, and the senders of every hop of every ring.
#include <algorithm>

#include "sim/engine/event_engine.h"

namespace paceline {

void EventEngine::launch_next(std::uint32_t rank, SimTime now) {
  RankState& state = rank_[rank];
  if (state.communicating || state.launched == state.reached) {
    return;
  }
  const Place at = state.collective;
  const std::uint32_t plan = program(at.iteration).collectives[at.op];
  slot(at.iteration).collectives[at.op].launch.add(rank, now);
  fingerprint_.add(subject(Fact::launch, at.iteration, at.op), rank, now);
  record_collective(rank, at, now, kNever);
  ++state.launched;
  state.channels_left = channels_;
  set_communicating(rank, true, now);
  for (std::uint32_t c = 0; c < channels_; ++c) {
    start_hop(c * ranks_ + position_[c * ranks_ + rank], plan, now);
  }
}

void EventEngine::start_hop(std::uint32_t index, std::uint32_t plan, SimTime now) {
  Hop& hop = hops_[index];
  const auto chunks = static_cast<std::uint32_t>(job_.plans[plan].chunks);
  hop.plan = plan;
  hop.sent = 0;
  hop.active = true;
  if (job_.plans[plan].kind == CollectiveKind::all_reduce) {
    hop.sends = hop.receives = chunks;
    hop.lag = 0;
  } else {
    const std::uint32_t in_chain = (index % ranks_ + ranks_ - root_position_[index / ranks_]) % ranks_;
    hop.receives = in_chain == 0 ? 0 : chunks;
    hop.sends = in_chain == ranks_ - 1 ? 0 : chunks;
    hop.lag = 1;
  }
  try_send(index, now);
  finish_hop_if_done(index, now);
}

void EventEngine::try_send(std::uint32_t index, SimTime now) {
  Hop& hop = hops_[index];
  if (!hop.active || hop.sending || hop.sent == hop.sends ||
      (hop.receives > 0 && hop.received - hop.received_before < hop.sent + hop.lag)) {
    return;
  }
  hop.sending = true;
  const Communicator& wires = job_.communicator;
  if (hop.shared != kNotShared) {
    network_->start(wires.shared_hops[hop.shared].links, wires.classes[hop_class_[index]].rate,
                    job_.plans[hop.plan].chunk, index, now);
  } else {
    timeline_.push(now + occupancy_[hop.plan][hop_class_[index]], EventKind::send_end, index);
  }
}

void EventEngine::end_send(std::uint32_t index, SimTime now) {
  Hop& hop = hops_[index];
  hop.sending = false;
  ++hop.sent;
  const SimTime latency = job_.communicator.classes[hop_class_[index]].latency;
  timeline_.push(now + latency, EventKind::arrival,
                 index % ranks_ == ranks_ - 1 ? index + 1 - ranks_ : index + 1);
  try_send(index, now);
  finish_hop_if_done(index, now);
}

void EventEngine::finish_hop_if_done(std::uint32_t index, SimTime now) {
  Hop& hop = hops_[index];
  if (!hop.active || hop.sent < hop.sends || hop.received - hop.received_before < hop.receives) {
    return;
  }
  hop.active = false;
  hop.received_before += hop.receives;
  const std::uint32_t rank = job_.communicator.channels[index / ranks_].order[index % ranks_].value;
  if (--rank_[rank].channels_left == 0) {
    end_collective(rank, now);
  }
}

void EventEngine::end_collective(std::uint32_t rank, SimTime now) {
  RankState& state = rank_[rank];
  const Place at = state.collective;
  CollectiveRecord& record = slot(at.iteration).collectives[at.op];
  record.end = std::max(record.end, now);
  fingerprint_.add(subject(Fact::collective_end, at.iteration, at.op), rank, now);
  record_collective(rank, at, kNever, now);
  if (++state.collective.op == program(at.iteration).collectives.size()) {
    state.collective = {at.iteration + 1, 0};
  }
  set_communicating(rank, false, now);
  launch_next(rank, now);
  advance_stream(rank, now);
  advance_host(rank, now);
}

// Puts a collective's launch or end into the record of its operation.
void EventEngine::record_collective(std::uint32_t rank, Place at, SimTime launch, SimTime end) {
  const std::uint32_t op = collective_op_[at.iteration == 0 ? 0 : 1][at.op];
  OpSpan& recorded = span(rank, {at.iteration, op});
  (launch < kNever ? recorded.start : recorded.end) = std::min(launch, end);
}

}  // namespace paceline
