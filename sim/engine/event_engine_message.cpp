// The event engine's messages, who waits for them, and the servers that answer some of them.
#include <algorithm>

#include "sim/engine/event_engine.h"

namespace paceline {

void EventEngine::send(ThreadId thread, const Op& op, SimTime now) {
  const std::uint32_t member = place_[thread.index()].member;
  const std::uint32_t from = op.source == kNoIndex ? member : op.source;
  groups_.for_each(op.to, groups_.group(op.to, member), [&](std::uint32_t to) {
    if (to >= ranks_ && job_.serving.window.value > 0) {
      Outbox& outbox = outboxes_[from];
      outbox.waiting.emplace(std::pair(op.purpose.layer, outbox.sent++),
                             Outbox::Push{to, op.index, op.bytes});
    } else {
      send(from, to, op.index, op.bytes, now);
    }
  });
  send_waiting(from, now);
}

void EventEngine::send(std::uint32_t from, std::uint32_t to, std::uint32_t channel, Bytes bytes,
                       SimTime now) {
  const MessageId id = mailboxes_.send(from, to, channel, bytes);
  const MessageRoute* const route = mailboxes_.on_the_way(id).route;
  if (route == nullptr) {
    timeline_.push(now, EventKind::message, id.value);
  } else if (route->links.empty()) {
    const Seconds takes(static_cast<double>(bytes.value) / route->rate.value);
    timeline_.push(now + to_sim_time(takes), EventKind::sent, id.value);
  } else {
    network_->start(route->links, route->rate, bytes, kMessage | id.value, now, Clock::shared);
  }
}

// Of what waits, front layers first, as much as the window holds; one message at least.
void EventEngine::send_waiting(std::uint32_t member, SimTime now) {
  if (outboxes_.empty()) {
    return;
  }
  Outbox& outbox = outboxes_[member];
  while (!outbox.waiting.empty()) {
    const auto [to, channel, bytes] = outbox.waiting.begin()->second;
    if (outbox.messages > 0 && outbox.bytes + bytes > job_.serving.window) {
      return;
    }
    outbox.waiting.erase(outbox.waiting.begin());
    outbox.bytes = outbox.bytes + bytes;
    ++outbox.messages;
    send(member, to, channel, bytes, now);
  }
}

// A message has left its sender.
void EventEngine::end_sending(MessageId id, SimTime now) {
  const Mailboxes::Message message = mailboxes_.on_the_way(id);
  timeline_.push(now + message.route->latency, EventKind::message, id.value);
  if (message.from < outboxes_.size() && message.to >= ranks_) {
    Outbox& outbox = outboxes_[message.from];
    outbox.bytes = outbox.bytes - message.bytes;
    --outbox.messages;
    send_waiting(message.from, now);
  }
}

void EventEngine::deliver(MessageId id, SimTime now) {
  const Mailboxes::Message message = mailboxes_.deliver(id);
  if (message.to >= ranks_) {
    const bool pushed = message.channel < job_.serving.shards.size();
    if (const auto busy = pushed ? servers_.arrive(message.channel, message.from, now) : std::nullopt) {
      timeline_.push(now + *busy, EventKind::served, message.to);
    }
    return;
  }
  const std::vector<std::uint32_t>& readers = reader_of_channel_[job_.role_of(message.to)];
  const std::uint32_t reader =
      message.channel < readers.size() ? readers[message.channel] : kNoIndex;  // of the member's threads
  if (reader != kNoIndex) {
    const ThreadId thread(reader == 0 ? message.to : place_[message.to].next_of_member->value + reader - 1);
    advance_stream(thread, now);
    advance_host(thread, now);
    return;
  }
  for (std::optional<ThreadId> thread(message.to); thread; thread = place_[thread->index()].next_of_member) {
    advance_stream(*thread, now);
    advance_host(*thread, now);
  }
}

// A server has done what it was busy with.
void EventEngine::end_serving(std::uint32_t server, SimTime now) {
  answers_.clear();
  const std::optional<SimTime> busy = servers_.finish(server, now, answers_);
  for (const auto& [shard, worker] : answers_) {
    send(server, worker, shard, job_.serving.shards[shard].answer, now);
  }
  if (busy) {
    timeline_.push(now + *busy, EventKind::served, server);
  }
}

bool EventEngine::pass_gate(ThreadId thread, const Op& op, SimTime now) {
  ThreadState& state = thread_[thread.index()];
  const std::uint32_t member = place_[thread.index()].member;
  const bool over = mailboxes_.reached(member, op.index, op.quorum) + op.lag >= state.stream.iteration + 1;
  if (const std::uint32_t shard = op.purpose.bucket;
      over && state.stream_waits && shard < job_.serving.shards.size()) {
    const auto [from, to] = servers_.held(shard, job_.serving.worker_of(member, shard));
    state.server_wait += overlap(span(thread, state.stream).start, now, from, to);
  }
  return over;
}

}  // namespace paceline
