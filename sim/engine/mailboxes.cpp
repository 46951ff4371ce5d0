#include "sim/engine/mailboxes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"

namespace paceline {
namespace {

std::size_t channels_of(const TrainingJob& job) {
  std::size_t channels = job.serving.shards.size();
  for (const Role& role : job.roles) {
    for (const Thread& thread : role.threads) {
      for (const Program* program : {&thread.warm_up, &thread.steady}) {
        for (const Op& op : program->ops) {
          const bool on_a_channel = op.kind == OpKind::send || op.kind == OpKind::gate;
          channels = std::max<std::size_t>(channels, on_a_channel ? op.index + 1 : 0);
        }
      }
    }
  }
  return channels;
}

}  // namespace

Mailboxes::Mailboxes(const TrainingJob& job)
    : routes_(job.routes), channels_(channels_of(job)), boxes_(job.ranks() * channels_) {
  for (std::uint32_t member = 0; member <= job.member_count(); ++member) {
    const auto first = std::ranges::lower_bound(routes_, member, {}, &MessageRoute::from);
    first_route_.push_back(static_cast<std::uint32_t>(first - routes_.begin()));
  }
}

const MessageRoute& Mailboxes::route(std::uint32_t from, std::uint32_t to) const {
  const auto begin = routes_.begin() + first_route_[from], end = routes_.begin() + first_route_[from + 1];
  if (begin != end && to >= begin->to && to - begin->to < end - begin && begin[to - begin->to].to == to) {
    return begin[to - begin->to];  // where it is to all of them, one after the other
  }
  const auto at = std::ranges::lower_bound(begin, end, to, {}, &MessageRoute::to);
  if (at == end || at->to != to) {
    throw InputError("expected a route from member " + std::to_string(from) + " to member " +
                         std::to_string(to) + ", found none",
                     "/training");
  }
  return *at;
}

MessageId Mailboxes::send(std::uint32_t from, std::uint32_t to, std::uint32_t channel, Bytes bytes) {
  const Message message{from, to, channel, bytes, from == to ? nullptr : &route(from, to)};
  if (free_.empty()) {
    on_the_way_.push_back(message);
    free_.reserve(on_the_way_.capacity());
    return MessageId(on_the_way_.size() - 1);
  }
  const MessageId id = free_.back();
  free_.pop_back();
  on_the_way_[id.index()] = message;
  return id;
}

Mailboxes::Message Mailboxes::deliver(MessageId id) {
  const Message message = on_the_way_[id.index()];
  free_.push_back(id);
  if (const std::size_t at = message.to * channels_ + message.channel; at < boxes_.size()) {
    Mailbox& box = boxes_[at];
    if (!box.crowd && (box.only.from == message.from || box.only.from == kNoIndex)) {
      box.only = {message.from, box.only.messages + 1};
    } else {
      if (!box.crowd) {
        box.crowd =
            std::make_unique<Crowd>(Crowd{{box.only}, std::vector<std::uint32_t>(box.only.messages, 1)});
      }
      count(*box.crowd, message.from);
    }
  }
  return message;
}

// One more message.
void Mailboxes::count(Crowd& crowd, std::uint32_t from) {
  auto count = std::ranges::lower_bound(crowd.counts, from, {}, &Count::from);
  if (count == crowd.counts.end() || count->from != from) {
    count = crowd.counts.insert(count, {from, 0});
  }
  const std::uint32_t before = count->messages++;
  crowd.members_with.resize(std::max<std::size_t>(crowd.members_with.size(), before + 1));
  ++crowd.members_with[before];
}

std::uint32_t Mailboxes::reached(std::uint32_t member, std::uint32_t channel, std::uint32_t quorum) const {
  const Mailbox& box = boxes_[member * channels_ + channel];
  if (!box.crowd) {
    return quorum <= 1 ? box.only.messages : 0;
  }
  const std::vector<std::uint32_t>& members = box.crowd->members_with;  // which descend
  if (quorum == 1) {
    return static_cast<std::uint32_t>(members.size());
  }
  const auto end = std::ranges::partition_point(members, [quorum](std::uint32_t n) { return n >= quorum; });
  return static_cast<std::uint32_t>(end - members.begin());
}

}  // namespace paceline
