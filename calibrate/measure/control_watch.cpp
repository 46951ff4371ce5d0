#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "calibrate/measure/control_state.h"

namespace paceline::measure {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLongestHeartbeat = 0.5;

// Seconds from one sign of life to the next.
double heartbeat(double timeout) { return std::min(kLongestHeartbeat, timeout / 8); }

}  // namespace

std::string named(const std::vector<Member>& members, const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (const int rank : ranks) {
    text += (rank == ranks.front() ? "" : ", ") + std::to_string(rank) + " on " + members[rank].host;
  }
  return text;
}

// --- rank 0 watches ---

void Control::State::handle(Member& member, const Frame& frame) {
  member.heard = Clock::now();
  switch (frame.message) {
    case Message::data:
      member.data.push_back(frame.payload);
      arrived.notify_all();
      break;
    case Message::progress: {
      const auto now = Reader(frame.payload).get<std::uint64_t>();
      if (now != member.steps) {
        member.steps = now;
        member.stepped = Clock::now();
      }
      break;
    }
    case Message::error:
      member.error = frame.payload;
      member.gone = member.gone.value_or(Clock::now());
      break;
    case Message::goodbye:
      member.left = true;
      arrived.notify_all();
      break;
    default:
      throw std::runtime_error("the control channel received a message out of place");
  }
}

void Control::State::read_members(double patience) {
  std::vector<pollfd> entries;
  std::vector<Member*> polled;
  for (Member& member : members) {
    if (member.socket.open()) {
      entries.push_back({member.socket.descriptor(), POLLIN, 0});
      polled.push_back(&member);
    }
  }
  if (entries.empty()) {
    std::this_thread::sleep_for(std::chrono::duration<double>(patience));
    return;
  }
  poll(entries.data(), entries.size(), static_cast<int>(patience * 1e3));
  const std::lock_guard lock(mutex);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].revents == 0) {
      continue;
    }
    const bool alive = polled[i]->socket.receive_available();
    while (const std::optional<Frame> frame = polled[i]->socket.next_frame()) {
      handle(*polled[i], *frame);
    }
    if (!alive) {
      const std::lock_guard no_frame_under_way(sending);
      polled[i]->socket.close();
      polled[i]->gone = polled[i]->gone.value_or(Clock::now());
    }
  }
}

void Control::State::beat_members() {
  const std::lock_guard lock(sending);
  for (Member& member : members) {
    if (member.socket.open()) {
      member.socket.send(Message::progress, {});
    }
  }
}

void Control::State::judge_losses() {
  int first = -1;
  const auto earlier = [&](const Member& a, const Member& b) {
    // A death explains an error, not the other way round.
    return a.error.has_value() != b.error.has_value() ? !a.error : *a.gone < *b.gone;
  };
  bool grace_over = false;
  for (int rank = 0; rank < place.ranks; ++rank) {
    const Member& member = members[rank];
    if (!member.gone || member.left) {
      continue;
    }
    grace_over = grace_over || seconds_since(*member.gone) > kGrace;
    if (first < 0 || earlier(member, members[first])) {
      first = rank;
    }
  }
  if (first >= 0 && grace_over) {
    const std::optional<std::string>& error = members[first].error;
    end(named(members, {first}) + (error ? " failed during " : " died during ") + current() +
        (error ? ": " + *error : ""));
  }
}

void Control::State::judge_progress() {
  if (const std::uint64_t own = steps; own != members[0].steps) {
    members[0].steps = own;
    members[0].stepped = Clock::now();
  }
  members[0].heard = Clock::now();
  std::uint64_t least = members[0].steps;
  for (const Member& member : members) {
    least = member.left ? least : std::min(least, member.steps);
  }
  std::vector<int> behind, silent;
  for (int rank = 0; rank < place.ranks; ++rank) {
    const Member& member = members[rank];
    if (member.left || member.steps != least) {
      continue;
    }
    if (seconds_since(member.stepped) < timeout) {
      return;  // the slowest is still going
    }
    behind.push_back(rank);
    if (seconds_since(member.heard) > timeout / 2) {
      silent.push_back(rank);
    }
  }
  if (behind.empty()) {
    return;
  }
  const std::vector<int>& guilty = silent.empty() ? behind : silent;
  const std::string during = " during " + current();
  if (static_cast<int>(guilty.size()) == place.ranks && place.ranks > 1) {
    end("every rank hangs" + during + " (none is behind the others: the network or the library)");
  }
  end(named(members, guilty) + (guilty.size() == 1 ? " hangs" : " hang") + during);
}

void Control::State::judge() {
  judge_losses();
  judge_progress();
}

void Control::State::watch_members() {
  Instant beaten = Clock::now(), looked = Clock::now();
  try {
    while (!finished) {
      read_members(0.05);
      if (finished) {
        return;
      }
      if (seconds_since(looked) > timeout) {
        // This process itself was stopped: the others have given it up, and their absence says nothing of
        // them.
        end(named(members, {0}) + " hangs during " + current());
      }
      looked = Clock::now();
      if (seconds_since(beaten) > heartbeat(timeout)) {
        beaten = Clock::now();
        beat_members();
      }
      judge();
    }
  } catch (const std::exception& error) {
    end(std::string("the control channel of rank 0 on ") + place.host + " failed: " + error.what());
  }
}

// --- the other ranks watch ---

void Control::State::watch_rank_0() {
  Instant beaten{};
  while (!finished) {
    pollfd entry{to_rank_0.descriptor(), POLLIN, 0};
    poll(&entry, 1, 50);
    const std::lock_guard lock(mutex);
    const bool alive = to_rank_0.receive_available();
    while (const std::optional<Frame> frame = to_rank_0.next_frame()) {
      rank_0_heard = Clock::now();
      if (frame->message == Message::stop) {
        _exit(1);
      }
      if (frame->message == Message::goodbye) {
        finished = true;
      }
      if (frame->message == Message::answer) {
        answers.push_back(frame->payload);
      }
      arrived.notify_all();
    }
    if (finished) {
      return;
    }
    const bool silent = seconds_since(rank_0_heard) > 1.5 * timeout + 1;
    if (!alive || silent) {
      if (place.rank == 1) {  // one voice is enough
        on_failure("rank 0 on " + rank_0_host + (alive ? " hangs" : " died") + " during " + doing);
      }
      _exit(1);
    }
    if (seconds_since(beaten) > heartbeat(timeout)) {
      beaten = Clock::now();
      const std::lock_guard one_frame(sending);
      to_rank_0.send(Message::progress, Writer().put(steps.load()).bytes());
    }
  }
}

}  // namespace paceline::measure
