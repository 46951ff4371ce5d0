// The trainer: a compute thread walks over the operations of an iteration, the main thread communicates: it
// does the all-reduces one at a time, in the order they were handed over, as DDP's communication stream does.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "calibrate/measure/session.h"
#include "calibrate/measure/steps.h"
#include "calibrate/measure/wait.h"

namespace paceline::measure {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Counts of all-reduces handed over and done since the start: both threads work in the same order.
class Exchange {
 public:
  void hand_over() {
    change([&] { ++handed_; });
  }
  void done() {
    change([&] { ++done_; });
  }
  void close() {
    change([&] { closed_ = true; });
  }

  void wait_done(std::int64_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= count; });
  }
  // False when there are no more.
  bool wait_handed(std::int64_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return handed_ >= count || closed_; });
    return handed_ >= count;
  }

 private:
  template <class Change>
  void change(Change apply) {
    {
      const std::lock_guard lock(mutex_);
      apply();
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t handed_ = 0, done_ = 0;
  bool closed_ = false;
};

class Trainer {
 public:
  Trainer(Session& session, const std::vector<StepOperation>& operations)
      : session_(session), operations_(operations) {
    for (const StepOperation& operation : operations_) {
      if (operation.kind == StepOperation::Kind::collective) {
        collectives_.push_back(
            {CollectiveKind::all_reduce,
             whole_size(CollectiveKind::all_reduce, operation.bytes, session.place.ranks)});
      }
    }
  }

  // When each iteration ended on this rank; the first entry is the start.
  std::vector<double> run(int iterations);

 private:
  void compute_thread(int iterations);
  void iteration();
  void communicate();
  void check_last() const;

  Session& session_;
  const std::vector<StepOperation>& operations_;
  std::vector<Collective> collectives_;
  Exchange exchange_;
  std::int64_t before_ = 0;  // all-reduces of the iterations before; compute thread
  std::vector<double> ends_;
};

void Trainer::iteration() {
  for (const StepOperation& operation : operations_) {
    switch (operation.kind) {
      case StepOperation::Kind::compute:
        if (session_.options.real_compute) {
          session_.backend.compute(operation.duration_s);
        } else {
          precise_wait(operation.duration_s);
        }
        break;
      case StepOperation::Kind::collective:
        exchange_.hand_over();
        break;
      case StepOperation::Kind::wait:
        exchange_.wait_done(before_ + operation.index + 1);
        break;
    }
  }
  before_ += static_cast<std::int64_t>(collectives_.size());
  exchange_.wait_done(before_);
}

void Trainer::compute_thread(int iterations) {
  ends_.push_back(now());
  for (int i = 0; i < iterations; ++i) {
    if (const std::optional<Fault> fault = session_.fault_at(i)) {
      suffer(*fault);
    }
    iteration();
    session_.control.progress();
    ends_.push_back(now());
  }
}

void Trainer::communicate() {
  for (std::int64_t count = 0; exchange_.wait_handed(count + 1); ++count) {
    session_.control.progress();
    session_.backend.run(collectives_[static_cast<std::size_t>(count) % collectives_.size()]);
    exchange_.done();
  }
}

std::vector<double> Trainer::run(int iterations) {
  if (!collectives_.empty()) {
    const Collective largest =
        *std::max_element(collectives_.begin(), collectives_.end(),
                          [](const Collective& a, const Collective& b) { return a.bytes < b.bytes; });
    session_.backend.load(largest, pattern(largest, session_.place.rank, session_.place.ranks));
  }
  if (session_.options.real_compute) {
    session_.backend.compute(1e-6);  // calibrates
  }
  session_.control.progress();
  session_.backend.barrier();
  std::exception_ptr error;
  std::thread computing([&] {
    try {
      compute_thread(iterations);
    } catch (...) {
      error = std::current_exception();
    }
    exchange_.close();
  });
  try {
    communicate();
  } catch (const std::exception& failure) {
    session_.control.error(failure.what());  // the compute thread waits for ever for what failed
  }
  computing.join();
  if (error) {
    std::rethrow_exception(error);
  }
  check_last();
  return ends_;
}

void Trainer::check_last() const {
  std::string wrong;
  if (!collectives_.empty()) {
    std::vector<float> result = session_.backend.result(collectives_.back());
    const std::optional<Fault>& fault = session_.options.fault;
    if (fault && fault->kind == Fault::Kind::wrong && fault->rank == session_.place.rank) {
      result.front() += 1;
    }
    const auto element = first_wrong(collectives_.back(), result, session_.place.rank, session_.place.ranks);
    wrong = element ? "element " + std::to_string(element->index) + " of its last all-reduce is wrong" : "";
  }
  session_.require_right("the training", wrong);
}

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

ResultRow train_row(ResultRow row, const Options& options, const std::vector<StepOperation>& operations) {
  row.kind = "step";
  row.name = "step_median";
  row.precision = "fp32";
  row.m = options.iterations;
  row.condition = "train=" + file_name(options.train) + (options.real_compute ? " compute=real" : "");
  for (const StepOperation& operation : operations) {
    row.size_bytes += operation.bytes;
  }
  return row;
}

void train(Session& session, const std::vector<StepOperation>& operations, const ResultRow& median,
           const std::function<void(const ResultRow&)>& write) {
  session.control.now("training " + session.options.train);
  Trainer trainer(session, operations);
  const std::vector<double> ends = trainer.run(session.options.iterations + 1);
  const std::vector<std::vector<double>> all = session.gather_times(ends);
  if (!session.leads()) {
    return;
  }
  const std::vector<double> steps = step_times(all, session.one_clock);
  const auto put = [&](ResultRow row, const Spread& spread) {
    row.time_us = spread.median * 1e6;
    row.min_us = spread.min * 1e6;
    row.max_us = spread.max * 1e6;
    row.repeats = spread.repeats;
    write(row);
  };
  ResultRow step = median;
  step.name = "step";
  for (std::size_t i = 0; i < steps.size(); ++i) {
    step.m = static_cast<std::int64_t>(i);
    put(step, {steps[i], steps[i], steps[i], i == 0 ? 0 : 1});
  }
  put(median, spread_of({steps.begin() + 1, steps.end()}));
}

}  // namespace paceline::measure
