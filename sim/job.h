// TrainingJob: what every rank does in an iteration, as tables. Immutable; both engines run it.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "core/names.h"
#include "core/random.h"
#include "core/time.h"
#include "sim/collective/communicator.h"
#include "sim/training.h"

namespace paceline {

enum class OpKind : std::uint8_t {
  kernel,       // the compute stream is busy for `duration`, times the rank's factors
  collective,   // the communication stream runs collective `index`, once the compute stream has come here
  wait,         // the compute stream waits for collective `index` of this iteration
  take_batch,   // the host waits for the data loader
  synchronize,  // the host waits for the compute stream
};
template <>
inline constexpr auto kNames<OpKind> = names<OpKind>({{"kernel", OpKind::kernel},
                                                      {"collective", OpKind::collective},
                                                      {"wait", OpKind::wait},
                                                      {"take_batch", OpKind::take_batch},
                                                      {"synchronize", OpKind::synchronize}});

// The part of an iteration that an operation belongs to.
enum class Phase : std::uint8_t {
  forward,
  backward,
  accumulate,  // gradients of a micro-batch into those of the ones before
  exchange,    // of gradients between ranks: collectives, copies into buckets and back
  update,      // the optimizer
  other
};
template <>
inline constexpr auto kNames<Phase> = names<Phase>({{"forward", Phase::forward},
                                                    {"backward", Phase::backward},
                                                    {"accumulate", Phase::accumulate},
                                                    {"exchange", Phase::exchange},
                                                    {"update", Phase::update},
                                                    {"other", Phase::other}});

// What a collective carries.
enum class Payload : std::uint8_t {
  gradients,
  statistics,  // running mean and variance of batch norms, fp32
  counters,    // batches that a batch norm has seen, int64
  indices      // int32 per tensor: the order of buckets, which parameters were used
};

inline constexpr std::uint32_t kNoIndex = 0xffffffffU;

struct Purpose {
  Phase phase = Phase::other;
  std::uint32_t layer = kNoIndex, bucket = kNoIndex;  // the only one that it is for
  Payload payload = Payload::gradients;         // of a collective
};

// The host issues the operations in order, each at a cost; a stream can't begin what the host has not issued.
struct Op {
  OpKind kind = OpKind::kernel;
  std::uint32_t index = 0;  // collective, wait: which collective of the iteration
  SimTime duration;         // kernel: undisturbed
  SimTime host_cost;
  std::string label;  // for people: only pages and traces read it
  Purpose purpose{};
};

struct Program {
  std::vector<Op> ops;
  std::vector<std::uint32_t> collectives;  // plan of each collective of the iteration, in issue order
};

// The collectives that reduce a bucket of gradients, by bucket.
std::vector<std::uint32_t> bucket_collectives(const Program&);

struct InputPipeline {
  SimTime batch_time;
  int prefetch = 1;
  Distribution jitter;
};

struct TrainingJob {
  Communicator communicator;
  std::vector<CollectivePlan> plans;
  Program warm_up, steady;  // of iteration 0 and of the others
  std::optional<InputPipeline> input;
  VariabilitySpec variability;
  Slowdown slowdown;
  int host_runs_ahead = 1;
  std::int64_t samples_per_iteration = 0;  // of all ranks

  std::size_t ranks() const { return communicator.ranks; }
  const Program& program(std::uint32_t iteration) const { return iteration == 0 ? warm_up : steady; }
};

// The programs as text, one operation a line.
void print(const TrainingJob&, std::ostream&);

}  // namespace paceline
