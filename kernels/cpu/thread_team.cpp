#include "kernels/cpu/thread_team.h"

#include <algorithm>
#include <cassert>

namespace paceline {
namespace {

// Looks this often before it goes to sleep: kernels follow one another closely.
constexpr int kLooks = 2000;

template <class Value>
void wait_while_equal(const std::atomic<Value>& changing, Value old) {
  for (int look = 0; look < kLooks; ++look) {
    if (changing.load(std::memory_order_acquire) != old) {
      return;
    }
  }
  changing.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadTeam::ThreadTeam(int threads) : size_(threads) {
  assert(threads >= 1);
  for (int member = 1; member < threads; ++member) {
    threads_.emplace_back([this, member] { serve(member); });
  }
}

ThreadTeam::~ThreadTeam() {
  over_ = true;
  ++round_;
  round_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void ThreadTeam::serve(int member) {
  std::uint32_t seen = 0;
  while (true) {
    wait_while_equal(round_, seen);
    ++seen;
    if (over_) {
      return;
    }
    (*task_)(member);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      busy_.notify_one();
    }
  }
}

void ThreadTeam::run(const std::function<void(int)>& task) {
  task_ = &task;
  busy_ = size_ - 1;
  round_.fetch_add(1, std::memory_order_acq_rel);
  round_.notify_all();
  task(0);
  for (int left = busy_.load(std::memory_order_acquire); left != 0;
       left = busy_.load(std::memory_order_acquire)) {
    wait_while_equal(busy_, left);
  }
}

void ThreadTeam::split(std::int64_t count, std::int64_t grain,
                       const std::function<void(std::int64_t, std::int64_t)>& part) {
  const std::int64_t grains = (count + grain - 1) / grain;
  run([&](int member) {
    const std::int64_t begin = grains * member / size_ * grain;
    const std::int64_t end = std::min(count, grains * (member + 1) / size_ * grain);
    if (begin < end) {
      part(begin, end);
    }
  });
}

}  // namespace paceline
