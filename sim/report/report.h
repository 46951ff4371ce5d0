// What a run means: step time, throughput, where the time goes, who delayed whom.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/units.h"
#include "sim/engine/simulate.h"
#include "sim/report/drift.h"
#include "topology/topology.h"

namespace paceline {

struct StepTime {
  Seconds mean, p50, p95, p99, min, max;  // percentiles: nearest rank
};

struct BreakdownSeconds {
  Seconds compute, exposed_communication, straggler_wait, server_wait, input_wait,
      other;  // sum: mean step time
};

struct BucketReport {
  Bytes bytes;
  Seconds ready, start, end;  // from the iteration's start, mean over the steady iterations
};

// What waiting for a collective costs a step, mean over ranks: for what its last rank did later, and for the
// collective itself.
struct CollectiveReport {
  std::string label;  // "all_reduce bucket 3"
  Bytes bytes;
  std::uint32_t every = 1;  // steps
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  Seconds straggler_wait, exposed_communication;
};

struct StragglerReport {
  Rank rank;
  std::string gpu;               // "node3/gpu5"
  std::int64_t collectives = 0;  // at which others waited for what it did later than they
  Seconds delay;                 // by which it launched later than the second last by its own doing, in total
  Seconds waited;                // of a step, that ranks waited for this one, mean over all ranks
  std::vector<Rank> as_late;     // others that were just as late when this one was charged
};

// What servers do to the gradients. Bytes: of a step of all workers.
struct ServersReport {
  double mean_staleness = 0;             // updates between a gradient's parameters and its own
  std::uint64_t staleness_p95 = 0;       // nearest rank
  std::vector<std::uint64_t> staleness;  // [n]: gradients of which it was n
  double dropped_share = 0;              // of gradients that were pushed
  std::uint64_t updates = 0;
  Bytes hottest_server_in;  // pushed to the server that is sent most
};

// What Horovod reduced together in the last step: when the last tensor was queued on the last rank, and agreed on, from
// the step's start; its start on the last rank, its end on all.
struct FusionReport {
  std::size_t tensors = 0;
  Bytes bytes;
  Seconds queued, agreed, start, end;
};

// What a communication hook saves and costs.
struct CompressionReport {
  double ratio = 0;  // of what a GPU sends: all gradients by a ring all-reduce, by what the hook exchanges
  Seconds kernels;   // of the hook, in a step of a GPU that nothing disturbs
};

// Of steps that end with an average of the parameters (local SGD), and of those between. A step's time is between the
// latest ranks' ends, however far the others are ahead.
struct PeriodReport {
  std::uint32_t steps = 0;  // that a period has
  Seconds synchronising, local;
};

struct Report {
  StepTime step;  // with servers: of all workers, of the iterations that were asked for
  Seconds warm_up;
  double throughput = 0;          // samples/s, of steps that go on like this for ever
  double counted_throughput = 0;  // of the counted steps: above it where they ate prefetched batches
  double scaling_efficiency = 0;  // throughput / what all GPUs would do alone
  BreakdownSeconds breakdown;     // mean over ranks
  Rank worst_rank;                // the one with most compute
  BreakdownSeconds worst_breakdown;
  std::vector<BucketReport> buckets;
  // Their exposed_communication together is the breakdown's; the stragglers' `waited` together is its
  // straggler_wait.
  std::vector<CollectiveReport> collectives;  // in issue order
  std::vector<StragglerReport> stragglers;    // most waited for first, those that delayed anybody
  Seconds exchange;  // of gradients: from the last rank's launch of each collective to its end, together
  std::optional<CompressionReport> compression;
  std::optional<ServersReport> servers;
  std::vector<FusionReport> fusions;
  std::optional<PeriodReport> period;  // where not all steps are of one kind
  std::optional<Drift> drift;  // steps have not settled; with servers those of all workers, by their number
};

// Of the steady iterations.
Seconds mean_step(const Result&);

// The first steady iteration that took the median time (p50).
std::uint32_t median_iteration(const Result&);

// Samples/s of steps that go on like this for ever.
double lasting_throughput(const TrainingJob&, const Result&);

// alone: samples/s that all GPUs together would do if each were alone (build_reference_job). gradients: of a GPU.
Report summarize(const TrainingJob&, const Result&, const Topology&, double alone, Bytes gradients = {});

}  // namespace paceline
