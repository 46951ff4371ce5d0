// Messages on their way and in their receivers' mailboxes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/job.h"

namespace paceline {

using MessageId = Id<struct MessageTag>;  // one on its way

class Mailboxes {
 public:
  struct Message {
    std::uint32_t from = 0, to = 0, channel = 0;
  };

  explicit Mailboxes(const TrainingJob&);

  // Throws InputError where the job has no route from one to the other.
  const MessageRoute& route(std::uint32_t from, std::uint32_t to) const;

  // Delivered, the id is another's.
  MessageId send(const Message&);
  Message deliver(MessageId);
  const Message& on_the_way(MessageId id) const { return on_the_way_[id.index()]; }

  // Who sent the oldest message that was not taken yet, which is taken; nullopt: there is none.
  std::optional<std::uint32_t> take(std::uint32_t member, std::uint32_t channel);
  // The largest n for which `quorum` members have sent n messages each.
  std::uint32_t reached(std::uint32_t member, std::uint32_t channel, std::uint32_t quorum) const;

 private:
  struct Count {
    std::uint32_t from = 0, messages = 0;
  };
  struct Mailbox {
    std::vector<std::uint32_t> senders;  // of the messages, in the order of arrival
    std::size_t taken = 0;
    std::vector<Count> counts;                // by sender, ascending
    std::vector<std::uint32_t> members_with;  // [n]: how many have sent n + 1 messages or more
  };
  Mailbox& of(std::uint32_t member, std::uint32_t channel) { return boxes_[member * channels_ + channel]; }
  const Mailbox& of(std::uint32_t member, std::uint32_t channel) const {
    return boxes_[member * channels_ + channel];
  }

  const std::vector<MessageRoute>& routes_;
  std::size_t channels_ = 0;
  std::vector<Mailbox> boxes_;  // [member * channels + channel]
  std::vector<Message> on_the_way_;
  std::vector<MessageId> free_;
};

}  // namespace paceline
