#pragma once

#include <sys/resource.h>

#include <stdexcept>

namespace paceline {

// While it lives, the process may take so many seconds of processor time more, five times as many where it isn't
// optimised; then the system ends it (SIGXCPU).
class ProcessorBudget {
 public:
  explicit ProcessorBudget(rlim_t seconds) {
#ifndef NDEBUG
    seconds *= 5;
#endif
    rusage used{};
    if (::getrusage(RUSAGE_SELF, &used) != 0 || ::getrlimit(RLIMIT_CPU, &before_) != 0) {
      throw std::runtime_error("no limit of processor time");
    }
    const auto so_far = static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1);
    set({so_far + seconds, before_.rlim_max});
  }
  ProcessorBudget(const ProcessorBudget&) = delete;
  ProcessorBudget& operator=(const ProcessorBudget&) = delete;
  ~ProcessorBudget() { ::setrlimit(RLIMIT_CPU, &before_); }

 private:
  static void set(const rlimit& limit) {
    if (::setrlimit(RLIMIT_CPU, &limit) != 0) {
      throw std::runtime_error("no limit of processor time");
    }
  }
  rlimit before_{};
};

}  // namespace paceline
