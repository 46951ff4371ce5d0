// What was measured, as values: what `calibrate/measure` writes, `calibrate/import` reads and `calibrate/fit`
// fits. Times are medians or means over many runs, of the slowest rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/units.h"
#include "sim/collective/plan.h"

namespace paceline {

// Where a value was read: for messages.
struct Origin {
  std::string file;
  std::int64_t line = 0;  // 1 is the first; 0: the file as a whole
};

// One size of one collective, all ranks entering together.
struct CollectiveMeasurement {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes bytes;                      // the column "size" of nccl-tests
  Seconds time;                     // the smaller of in-place and out-of-place, where there are both
  int ranks = 0;                    // 0: not stated
  int nodes = 0;                    // 0: not stated
  std::string nccl;                 // "2.18"; empty: not stated
  std::string algorithm, protocol;  // NCCL_ALGO and NCCL_PROTO, where stated
  int channels = 0;                 // NCCL_MAX_NCHANNELS, where stated
  std::string nvls;                 // "off" where NCCL_NVLS_ENABLE=0 is stated
  int gpus_per_process = 0;         // that one host thread launches for (nccl-tests' -g); 0: not stated
  Bytes buffer{0};                  // NCCL_BUFFSIZE, where known
  int socket_threads = 0;           // NCCL_SOCKET_NTHREADS, where stated
  int sockets_per_thread = 0;       // NCCL_NSOCKS_PERTHREAD, where stated
  std::string table;                // which run it belongs to: the file's name, and "#2" for its second table
  Origin origin;
  std::string gpu;  // "NVIDIA H100 80GB HBM3"; empty: not stated, or of several kinds
  int fullest = 0;  // GPUs of the fullest node, where nodes have unequal numbers of them; 0: they don't
  // Settings and conditions stated that no prediction knows: "NCCL_IB_DISABLE=1, graph: 5".
  std::string unmodelled;
  bool wrong_values = false;  // the collective's result was not what it should be (#wrong)
};

// One kernel on one device. Shapes: m, n, k of a matrix product; others have m elements (rows m of n where
// they work by rows).
struct KernelMeasurement {
  std::string kernel;     // "gemm", "layer_norm", "adam" ...
  std::string precision;  // "fp32", "bf16" ...
  std::int64_t m = 0, n = 0, k = 0;
  Flops work;
  Bytes traffic;
  Seconds time;
  std::string device;
  Origin origin;
  std::string kind = "kernel";  // or "launch", "memory"
};

// Time of one layer or module in one training step, from a profiler's trace.
struct LayerMeasurement {
  std::string layer;
  Seconds forward, backward;
  Origin origin;
  Seconds update;           // of the optimizer, which is a layer of its own
  bool host_bound = false;  // the host's time: the GPU waited for it
};

// One whole step of a probe (calibrate/measure).
struct StepMeasurement {
  std::string name, precision;
  int ranks = 1, nodes = 1;
  Seconds time;
  std::string device;
  Origin origin;
};

// Measured while something else ran: never to be mixed with what ran alone.
struct ConditionedCollective {
  std::string condition;
  CollectiveMeasurement measurement;
};
struct ConditionedKernel {
  std::string condition;
  KernelMeasurement measurement;
};

// When the last rank is ready to reduce a bucket of gradients, begins to, and has ended it, from the step's start.
struct BucketMeasurement {
  std::string moment;  // "ready", "start", "end"
  int bucket = 0, ranks = 1;
  Bytes bytes;
  Seconds time;
  Origin origin;
};

// Throughput of a whole training run.
struct TrainingMeasurement {
  int ranks = 1, nodes = 1;
  double samples_per_second = 0;
  std::string table;
  Origin origin;
  int accumulation = 0;              // passes of a step; 0: not stated
  std::int64_t batch_per_gpu = 0;    // samples of a pass; 0: not stated
  std::int64_t servers = 0;          // parameter servers; 0: not stated
  double tokens_per_second = 0;      // where the row states them in place of samples_per_second
  std::string model{}, precision{};  // as the row names them; empty: not stated
};

// A row or table that could not be used as it stands, and what was done with it.
struct Remark {
  std::string text;
  Origin origin;
};

// A file that was read: the provenance of what is fitted to it.
struct DataFile {
  std::string path;
  std::string format;  // "nccl-tests", "nccl-tests JSON", "CSV", "Kineto trace"
  std::uint64_t hash = 0;
  std::int64_t rows = 0;  // that were read as measurements
};

struct MeasuredData {
  std::vector<CollectiveMeasurement> collectives;
  std::vector<KernelMeasurement> kernels;
  std::vector<LayerMeasurement> layers;
  std::vector<TrainingMeasurement> training;
  std::vector<StepMeasurement> steps;
  std::vector<BucketMeasurement> buckets;
  std::vector<ConditionedCollective> conditioned;
  std::vector<ConditionedKernel> conditioned_kernels;
  std::vector<Remark> remarks;
  std::vector<DataFile> files;
};

}  // namespace paceline
