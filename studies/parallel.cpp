#include "studies/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "core/error.h"

namespace paceline {
namespace {

constexpr const char* kNoMemory = "out of memory";

}  // namespace

void for_each_on_threads(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  std::mutex failing;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(failing);
        failure = failure ? failure : std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::jthread> others;
  const std::size_t most = std::min<std::size_t>(count, static_cast<std::size_t>(std::max(threads, 1)));
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

std::string fault_of(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const InputError&) {
    throw;
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  } catch (const std::exception& error) {
    return std::string("internal error: ") + error.what();
  }
}

std::vector<std::string> faults_of(std::size_t count, int threads,
                                   const std::function<void(std::size_t)>& work) {
  std::vector<std::string> faults(count);
  const auto run = [&](std::size_t i) { faults[i] = fault_of([&] { work(i); }); };
  for_each_on_threads(count, threads, run);
  for (std::size_t i = 0; i < count && threads > 1; ++i) {
    if (faults[i] == kNoMemory) {
      run(i);
    }
  }
  return faults;
}

}  // namespace paceline
