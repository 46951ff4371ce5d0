// Of a PyTorch profiler's trace, what layer times are made from: some 40 bytes an event, whatever its JSON
// took.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "calibrate/import/findings.h"

namespace paceline {

inline constexpr std::int64_t kNone = -1;

// Times are the trace's: us from some beginning.
struct TraceSpan {
  double start = 0, end = 0;
  std::int32_t name = 0, thread = 0;
};
struct TraceOperator : TraceSpan {  // cat cpu_op
  std::int64_t sequence = kNone;    // joins a backward operator to its forward one
  std::int64_t external = kNone;
  bool backward = false;
};
struct TraceLaunch {  // cat cuda_runtime, cuda_driver
  std::int64_t correlation = kNone;
  double start = 0;
  std::int32_t thread = 0;
};
struct TraceKernel {  // cat kernel, gpu_memcpy, gpu_memset
  std::int64_t correlation = kNone, external = kNone;
  double start = 0, end = 0;
  std::int64_t stream = 0;  // of a device
  bool nccl = false;
};

class TraceNames {
 public:
  std::int32_t id(const std::string& name) {
    const auto [found, is_new] = ids_.try_emplace(name, static_cast<std::int32_t>(names_.size()));
    if (is_new) {
      names_.push_back(name);
    }
    return found->second;
  }
  const std::string& operator[](std::int32_t id) const { return names_[static_cast<std::size_t>(id)]; }

 private:
  std::unordered_map<std::string, std::int32_t> ids_;
  std::vector<std::string> names_;
};

struct TraceRecords {
  TraceNames names;
  std::vector<TraceSpan> steps;        // ProfilerStep#k
  std::vector<TraceSpan> modules;      // nn.Module calls (with_modules or with_stack)
  std::vector<TraceSpan> annotations;  // record_function of the user
  std::vector<TraceSpan> optimizers;   // Optimizer.step#...
  std::vector<TraceOperator> operators;
  std::vector<TraceLaunch> launches;
  std::vector<TraceKernel> kernels;
};

// Adds a LayerMeasurement for each layer: the median over its steps.
void find_layers(TraceRecords&, Findings&);

}  // namespace paceline
