#include "calibrate/replay/replay.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"

namespace paceline {
namespace {

class Steps {
 public:
  void compute(SimTime duration, const std::string& label) {
    if (pending_.ps == 0) {
      label_ = label;
    }
    pending_ += duration;
  }
  void other(const char* op, std::uint32_t index, std::int64_t bytes) {
    flush();
    add(op, index, 0, bytes, std::string(op) + ' ' + std::to_string(index));
  }
  std::string take() {
    flush();
    return std::move(text_);
  }

 private:
  void flush() {
    if (pending_.ps > 0) {
      add("compute", computes_++, to_microseconds(pending_), 0, label_);
      pending_ = {};
    }
  }
  void add(const char* op, std::uint32_t index, double us, std::int64_t bytes, std::string label) {
    std::ranges::replace_if(label, [](char c) { return c == ',' || c == '"' || c == '\n'; }, ' ');
    text_ += formatted("%s,%u,%.3f,%lld,", op, index, us, static_cast<long long>(bytes)) + label + '\n';
  }

  std::string text_ = "op,index,duration_us,bytes,label\n", label_;
  SimTime pending_;
  std::uint32_t computes_ = 0;
};

// The trainer has one queue, whose collectives come after what stands before them, in every step.
void require_alike(const Op& op) {
  if (op.every > 1 || op.from > 0 || op.until != kNoIndex || op.lag > 0 || op.queue > 0 ||
      op.after != After::compute) {
    throw InputError("expected a step as DDP makes it, found \"" + op.label + "\", which a replay can't do",
                     "/training");
  }
}

}  // namespace

std::string steps_csv(const TrainingJob& job) {
  if (job.roles.size() > 1) {
    throw InputError("expected ranks that all compute alike, found several kinds of GPU, or of batches",
                     "/training");
  }
  Steps steps;
  for (const Op& op : job.main().steady.ops) {
    require_alike(op);
    switch (op.kind) {
      case OpKind::kernel:
        steps.compute(op.duration, op.label);
        break;
      case OpKind::collective: {
        const CollectivePlan& plan = job.plans[job.main().steady.collectives[op.index]];
        if (op.purpose.payload == Payload::parameters) {
          throw InputError("expected DDP, whose steps the trainer runs, found another strategy",
                           "/training/strategy");
        }
        if (plan.kind != CollectiveKind::all_reduce) {
          throw InputError(
              "expected a step whose only collectives are all-reduces, found a broadcast: set "
              "\"broadcast_buffers\" to false to replay it",
              "/training/ddp/broadcast_buffers");
        }
        steps.other("collective", op.index, plan.bytes.value);
        break;
      }
      case OpKind::wait:
        steps.other("wait", op.index, 0);
        break;
      case OpKind::join:
        break;  // of kernels that require_alike refuses
      case OpKind::send:
      case OpKind::gate:
        throw InputError("expected a step whose ranks meet in all-reduces alone, found messages between them",
                         "/training");
      case OpKind::take_batch:
      case OpKind::synchronize:
        break;  // the trainer has no loader, and its host waits at the end of each step
    }
  }
  return steps.take();
}

namespace {

// Measured beside predicted, in ms; off by: of the step.
std::string line(const std::string& what, Seconds measured, Seconds predicted, Seconds step) {
  return formatted("%-24s %13.3f   %14.3f   %+.1f %%\n", what.c_str(), measured.value * 1e3,
                   predicted.value * 1e3, 100 * (predicted - measured).value / step.value);
}

// What the framework told of its buckets and waits, beside what the report says of them.
std::string parts_table(const Prediction& prediction, const MeasuredData& measured, Seconds step) {
  const auto ranks = static_cast<int>(prediction.job.ranks());
  const Report& report = prediction.report;
  std::string text;
  for (const BucketMeasurement& one : measured.buckets) {
    const auto b = static_cast<std::size_t>(one.bucket);
    if (one.ranks != ranks || b >= report.buckets.size()) {
      continue;
    }
    const BucketReport& bucket = report.buckets[b];
    if (one.bytes != bucket.bytes) {
      throw InputError("expected a bucket of " + std::to_string(bucket.bytes.value) + " bytes, found " +
                           std::to_string(one.bytes.value) + ": measured with other options",
                       "line " + std::to_string(one.origin.line), one.origin.file);
    }
    const Seconds predicted = one.moment == "ready"   ? bucket.ready
                              : one.moment == "start" ? bucket.start
                                                      : bucket.end;
    text += line("bucket " + std::to_string(b) + ' ' + one.moment, one.time, predicted, step);
  }
  for (const StepMeasurement& one : measured.steps) {
    const Seconds waiting = report.breakdown.straggler_wait;
    if (one.ranks == ranks && one.name == "exposed") {
      text += line("exposed, with waiting", one.time, report.breakdown.exposed_communication + waiting, step);
    } else if (one.ranks == ranks && one.name == "waiting") {
      text += line("waiting for others", one.time, waiting, step);
    }
  }
  return text.empty()
             ? text
             : "\n                         measured (ms)   predicted (ms)   off by, of the step\n" + text;
}

}  // namespace

std::string replay_table(const Prediction& prediction, const MeasuredData& measured) {
  const auto ranks = static_cast<int>(prediction.job.ranks());
  std::vector<double> times;
  for (const StepMeasurement& step : measured.steps) {
    if (step.ranks == ranks && step.name == "step_median") {
      times.push_back(step.time.value);
    }
  }
  if (times.empty()) {
    throw InputError("expected measured steps of " + std::to_string(ranks) + " ranks, found none");
  }
  const double predicted = prediction.report.step.p50.value;
  std::string text = "ranks   measured (ms)   predicted (ms)   error\n";
  for (const double time : times) {
    text += formatted("%5d   %13.3f   %14.3f   %+.1f %%\n", ranks, time * 1e3, predicted * 1e3,
                      100 * (predicted / time - 1));
  }
  return text + parts_table(prediction, measured, prediction.report.step.p50);
}

}  // namespace paceline
