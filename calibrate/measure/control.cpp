#include "calibrate/measure/control.h"

#include <unistd.h>

#include <algorithm>

#include "calibrate/measure/control_state.h"

namespace paceline::measure {

Control::Control(const Place& place, double timeout_s, const Share& share, OnFailure on_failure)
    : state_(std::make_unique<State>()) {
  state_->place = place;
  state_->timeout = timeout_s;
  state_->on_failure = std::move(on_failure);
  if (place.rank == 0) {
    state_->members.resize(static_cast<std::size_t>(place.ranks));
    state_->members[0].host = place.host;
  }
  if (place.ranks > 1) {
    state_->meet(share);
  }
  state_->watcher = std::thread([this] {
    if (state_->leads()) {
      state_->watch_members();
    } else {
      state_->watch_rank_0();
    }
  });
}

Control::~Control() {
  if (state_->watcher.joinable()) {
    state_->finished = true;
    state_->watcher.join();
  }
}

// --- the end ---

void Control::State::end(const std::string& message) {
  if (ending.exchange(true)) {
    // The other thread is ending the process.
    while (true) {
      pause();
    }
  }
  on_failure(message);
  for (Member& member : members) {
    if (member.socket.open() && !member.gone) {
      member.socket.send(Message::stop, {});
    }
  }
  _exit(1);
}

void Control::fail(int rank, const std::string& what) {
  state_->end(named(state_->members, {rank}) + " " + what);
}

void Control::error(const std::string& what) {
  if (state_->leads()) {
    // A rank that died is the likelier cause: leave its connection the time to break.
    std::this_thread::sleep_for(std::chrono::duration<double>(2 * kGrace));
    fail(0, "failed during " + state_->current() + ": " + what);
  }
  {
    const std::lock_guard lock(state_->sending);
    state_->to_rank_0.send(Message::error, what);
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(state_->timeout));  // rank 0 tells us to stop
  _exit(1);
}

void Control::stopped(const std::string& why) {
  if (state_->leads()) {
    state_->end(why + " during " + state_->current());
  }
  _exit(1);
}

// --- main thread ---

std::vector<std::string> Control::gather(const std::string& own) {
  progress();
  State& s = *state_;
  if (!s.leads()) {
    const std::lock_guard lock(s.sending);
    s.to_rank_0.send(Message::data, own);
    return {};
  }
  std::unique_lock lock(s.mutex);
  s.members[0].data.push_back(own);
  s.arrived.wait(lock, [&] {
    return std::all_of(s.members.begin(), s.members.end(), [](const Member& m) { return !m.data.empty(); });
  });
  std::vector<std::string> all;
  for (Member& member : s.members) {
    all.push_back(std::move(member.data.front()));
    member.data.pop_front();
  }
  return all;
}

std::string Control::spread(const std::string& of_rank_0) {
  progress();
  State& s = *state_;
  if (s.leads()) {
    const std::lock_guard lock(s.sending);
    for (Member& member : s.members) {
      if (member.socket.open()) {
        member.socket.send(Message::answer, of_rank_0);
      }
    }
    return of_rank_0;
  }
  std::unique_lock lock(s.mutex);
  s.arrived.wait(lock, [&] { return !s.answers.empty(); });
  std::string answer = std::move(s.answers.front());
  s.answers.pop_front();
  return answer;
}

void Control::progress() { ++state_->steps; }

void Control::now(const std::string& doing) {
  const std::lock_guard lock(state_->mutex);
  state_->doing = doing;
  progress();
}

void Control::finish() {
  State& s = *state_;
  progress();
  if (!s.leads()) {
    {
      const std::lock_guard lock(s.sending);
      s.to_rank_0.send(Message::goodbye, {});
    }
    std::unique_lock lock(s.mutex);
    s.arrived.wait(lock, [&] { return s.finished.load(); });
  } else if (s.place.ranks > 1) {
    {
      std::unique_lock lock(s.mutex);
      s.arrived.wait(lock, [&] {
        return std::all_of(s.members.begin() + 1, s.members.end(), [](const Member& m) { return m.left; });
      });
      s.finished = true;
    }
    const std::lock_guard lock(s.sending);
    for (Member& member : s.members) {
      if (member.socket.open()) {
        member.socket.send(Message::goodbye, {});
      }
    }
  }
  s.finished = true;
  s.watcher.join();
}

}  // namespace paceline::measure
