#include "core/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace paceline {

int all_cores() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

void for_each_on_threads(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  const std::size_t most = std::min<std::size_t>(count, static_cast<std::size_t>(std::max(threads, 1)));
  std::atomic<std::size_t> next = 0;
  std::size_t failed = count;
  std::exception_ptr failure;
  std::mutex failing;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(failing);
        if (i < failed) {
          failed = i;
          failure = std::current_exception();
        }
        next = count;
      }
    }
  };
  std::vector<std::jthread> others;
  others.reserve(most);
  try {
    for (std::size_t t = 1; t < most; ++t) {
      others.emplace_back(run);
    }
  } catch (const std::system_error&) {  // no more threads: those that there are do all of it
  }
  run();
  others.clear();
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace paceline
