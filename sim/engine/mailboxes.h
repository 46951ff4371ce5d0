// Messages on their way, and how many each member has been sent.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/job.h"

namespace paceline {

using MessageId = Id<struct MessageTag>;  // one on its way

class Mailboxes {
 public:
  struct Message {
    std::uint32_t from = 0, to = 0, channel = 0;
    Bytes bytes;
    const MessageRoute* route = nullptr;  // nullptr: to itself
  };

  explicit Mailboxes(const TrainingJob&);

  // Delivered, the id is another's. Throws InputError where the job has no route from one to the other.
  MessageId send(std::uint32_t from, std::uint32_t to, std::uint32_t channel, Bytes bytes);
  Message deliver(MessageId);
  const Message& on_the_way(MessageId id) const { return on_the_way_[id.index()]; }

  // The largest n for which `quorum` members have sent n messages each.
  std::uint32_t reached(std::uint32_t member, std::uint32_t channel, std::uint32_t quorum) const;

 private:
  struct Count {
    std::uint32_t from = 0, messages = 0;
  };
  struct Crowd {                              // of several senders
    std::vector<Count> counts;                // by sender, ascending
    std::vector<std::uint32_t> members_with;  // [n]: how many have sent n + 1 messages or more
  };
  struct Mailbox {
    Count only{kNoIndex, 0};  // its only sender
    std::unique_ptr<Crowd> crowd{};
  };
  static void count(Crowd&, std::uint32_t from);
  const MessageRoute& route(std::uint32_t from, std::uint32_t to) const;

  const std::vector<MessageRoute>& routes_;
  std::vector<std::uint32_t> first_route_;  // by sender
  std::size_t channels_ = 0;
  std::vector<Mailbox> boxes_;  // [rank * channels + channel]
  std::vector<Message> on_the_way_;
  std::vector<MessageId> free_;
};

}  // namespace paceline
