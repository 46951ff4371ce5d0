// Threads that stay: a team runs one function on every member at once, the caller being member 0.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace paceline {

class ThreadTeam {
 public:
  // Requires: threads >= 1.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return size_; }

  // Calls task(0) ... task(size - 1) at the same time, returns when all are done. One caller at a time; the
  // task does not throw. Cost: some microseconds to wake the others.
  void run(const std::function<void(int member)>& task);
  // Splits [0, count) into equal parts, one per member, at multiples of `grain`; empty parts are not called.
  void split(std::int64_t count, std::int64_t grain,
             const std::function<void(std::int64_t begin, std::int64_t end)>& part);

 private:
  void serve(int member);

  int size_;
  const std::function<void(int)>* task_ = nullptr;
  std::atomic<std::uint32_t> round_{0};  // counts tasks; members wait for it to change
  std::atomic<int> busy_{0};             // members still at the task
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

}  // namespace paceline
