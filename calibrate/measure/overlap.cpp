// A collective beside a kernel and a kernel beside a collective: the main thread communicates, a second one
// computes, and one of them is timed.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>

#include "calibrate/measure/session.h"

namespace paceline::measure {
namespace {

// Calls body(over) again and again on a thread of its own until join(), which throws what it threw.
class Companion {
 public:
  template <class Body>
  explicit Companion(Body body)
      : thread_([this, body] {
          try {
            while (!over_) {
              body(over_);
              started_ = true;
              started_.notify_one();
            }
          } catch (...) {
            error_ = std::current_exception();
            started_ = true;
            started_.notify_one();
          }
        }) {}
  ~Companion() {
    over_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;

  // Until body has returned once.
  void wait_started() const { started_.wait(false); }
  void join() {
    over_ = true;
    thread_.join();
    if (error_) {
      std::rethrow_exception(error_);
    }
  }

 private:
  std::atomic<bool> over_{false}, started_{false};
  std::exception_ptr error_;
  std::thread thread_;
};

using Clock = std::chrono::steady_clock;
using Instant = Clock::time_point;
double seconds_between(Instant from, Instant to) { return std::chrono::duration<double>(to - from).count(); }

constexpr double kKernelsToMeet = 10;
constexpr double kLeastRound = 20e-3;  // so that agreeing after it does not count

struct Alone {
  double collective_s = 0, kernel_s = 0;
};

Alone time_alone(Session& session, const Collective& collective, const RunnableKernel& kernel) {
  Backend& backend = session.backend;
  backend.load(collective, pattern(collective, session.place.rank, session.place.ranks));
  session.control.progress();
  backend.time(collective, 0);
  session.control.progress();
  const double communicating = session.largest(backend.time(collective, 0));
  backend.time_kernel(kernel, 1);
  const double computing = session.largest(backend.time_kernel(kernel, 1));
  return {communicating, computing};
}

// Calls once() equally often on every rank, in rounds, until every rank finds that it has enough after
// `elapsed_s`. What happens side by side can't be told beforehand, so the ranks agree after each round.
void in_rounds(Session& session, double round_s, const std::function<void()>& once,
               const std::function<bool(double elapsed_s)>& enough) {
  const Instant start = Clock::now();
  std::int64_t calls = 1;
  while (true) {
    const Instant round = Clock::now();
    for (std::int64_t call = 0; call < calls; ++call) {
      session.control.progress();
      once();
    }
    const double took = session.largest(seconds_between(round, Clock::now()));
    if (session.all(enough(seconds_between(start, Clock::now())))) {
      return;
    }
    const auto done = static_cast<double>(calls);
    calls = static_cast<std::int64_t>(std::clamp(done * round_s / took, 1.0, 4 * done));
  }
}

std::vector<double> collective_beside_kernel(Session& session, const Collective& collective,
                                             const RunnableKernel& kernel, const Alone& alone) {
  const Options& options = session.options;
  std::vector<double> times;
  Companion computing([&](const std::atomic<bool>&) { session.backend.time_kernel(kernel, 1); });
  computing.wait_started();
  in_rounds(
      session, std::max(kLeastRound, alone.kernel_s),
      [&] { times.push_back(session.backend.time(collective, 0)); },
      [&](double elapsed_s) {
        const auto made = static_cast<int>(times.size());
        // The two must have met: a few kernels long.
        const bool met = elapsed_s > kKernelsToMeet * alone.kernel_s;
        return made >= kLeastRepeats && ((made >= options.repeats && met) || elapsed_s > options.budget_s);
      });
  computing.join();
  return times;
}

// A kernel counts when collectives were still going on at its end.
std::vector<double> kernel_beside_collective(Session& session, const Collective& collective,
                                             const RunnableKernel& kernel, const Alone& alone) {
  const Options& options = session.options;
  std::vector<double> times;
  std::atomic<int> made{0};
  Companion computing([&](const std::atomic<bool>& over) {
    const double time = session.backend.time_kernel(kernel, 1);
    if (!over) {
      times.push_back(time);
      ++made;
    }
  });
  in_rounds(
      session, std::max(kLeastRound, alone.kernel_s), [&] { session.backend.run(collective); },
      [&](double elapsed_s) {
        return made >= kLeastRepeats && (made >= options.repeats || elapsed_s > options.budget_s);
      });
  computing.join();
  return times;
}

}  // namespace

std::optional<Spread> measure_overlap(Session& session, const PlanRow& row) {
  const RunnableKernel kernel = session.backend.make_kernel(*row.kernel);
  const Alone alone = time_alone(session, *row.collective, kernel);
  return session.spread_of_slowest(row.beside == Beside::kernel
                                       ? collective_beside_kernel(session, *row.collective, kernel, alone)
                                       : kernel_beside_collective(session, *row.collective, kernel, alone));
}

}  // namespace paceline::measure
