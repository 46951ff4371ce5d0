// Work that Ctrl-C ends: Python handles signals on the thread that it runs, and simulations never wait for the
// interpreter.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <future>

namespace paceline::python {

// Thrown through work to end it: the interpreter has an exception to raise.
struct Stopped {};

inline void hear_signals() {
  const nanobind::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() != 0) {
    throw nanobind::python_error();
  }
}

// Calls work(go_on) on a thread of its own, and on this one `look` ten times in a second and when it has ended. What
// `look` throws ends the work at its next call of go_on, and is thrown; else what the work throws. Requires: called
// without the interpreter's lock.
template <class Work, class Look>
void watched(const Work& work, const Look& look) {
  constexpr std::chrono::milliseconds kPatience{100};
  std::atomic<bool> stop = false;
  std::future<void> ended = std::async(std::launch::async, [&] {
    work([&] {
      if (stop) {
        throw Stopped();
      }
    });
  });
  std::exception_ptr seen;
  for (bool last = false; !last && !seen;) {
    last = ended.wait_for(kPatience) == std::future_status::ready;
    try {
      look();
    } catch (...) {
      seen = std::current_exception();
    }
  }
  stop = seen != nullptr;
  ended.wait();
  if (seen) {
    std::rethrow_exception(seen);
  }
  ended.get();
}

}  // namespace paceline::python
