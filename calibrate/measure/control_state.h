// What control.cpp (the main thread's side), control_meeting.cpp (the start) and control_watch.cpp (the
// watching thread) share.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "calibrate/measure/control.h"
#include "calibrate/measure/wire.h"

namespace paceline::measure {

using Instant = std::chrono::steady_clock::time_point;
inline double seconds_since(Instant start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A process that dies takes others with it: what arrives this soon after may be the cause.
inline constexpr double kGrace = 0.1;

// Another rank as rank 0 sees it.
struct Member {
  Socket socket;
  std::string host;
  std::uint64_t steps = 0;
  Instant heard = std::chrono::steady_clock::now(), stepped = std::chrono::steady_clock::now();
  std::deque<std::string> data;
  bool left = false;  // said goodbye
  std::optional<Instant> gone;
  std::optional<std::string> error;
};

// "rank 2 on HOST", "ranks 1 on HOST, 3 on HOST".
std::string named(const std::vector<Member>&, const std::vector<int>& ranks);

struct Control::State {
  Place place;
  double timeout = 60;
  OnFailure on_failure;
  std::vector<Member> members;  // rank 0 only: by rank, itself first
  Socket to_rank_0;             // other ranks
  std::string rank_0_host;
  Instant rank_0_heard = std::chrono::steady_clock::now();
  std::deque<std::string> answers;

  std::mutex mutex;    // of all above that changes, and `doing`
  std::mutex sending;  // one frame at a time
  std::condition_variable arrived;
  std::string doing = "the start";
  std::atomic<std::uint64_t> steps{0};
  std::atomic<bool> finished{false}, ending{false};
  std::thread watcher;

  bool leads() const { return place.rank == 0; }
  std::string current() {
    const std::lock_guard lock(mutex);
    return doing;
  }

  void meet(const Share& share);
  void listen_for(const Share& share);
  void welcome_all(const Socket& listener, const std::string& token);
  bool welcome(Socket&, const std::string& token);
  std::vector<int> missing() const;
  void join(const std::function<Rendezvous()>& where, int ports);
  bool join_at(const std::string& address, int port, const std::string& token);
  Rendezvous by_secret() const;
  std::string file_name() const;  // of the MeetingFile
  std::string interface() const;

  void watch_members();
  void read_members(double patience);
  void handle(Member&, const Frame&);
  void judge();
  void judge_losses();
  void judge_progress();
  void beat_members();
  void watch_rank_0();

  [[noreturn]] void end(const std::string& message);
};

}  // namespace paceline::measure
