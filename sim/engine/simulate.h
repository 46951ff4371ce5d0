// simulate: runs a job. The only thing that has a clock.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/names.h"
#include "core/time.h"
#include "sim/job.h"

namespace paceline {

enum class EngineKind : std::uint8_t { event, vector };
template <>
inline constexpr auto kNames<EngineKind> =
    names<EngineKind>({{"event", EngineKind::event}, {"vector", EngineKind::vector}});

// Where a rank's time went. Every instant counts once; `other` is the rest of the steady iterations.
struct Breakdown {
  SimTime compute, exposed_communication, straggler_wait, server_wait, input_wait, other;
};

// At how many collectives others waited for a rank's doing, and by how much of its own doing it launched later
// than the second last.
struct Blame {
  std::int64_t count = 0;
  SimTime total;
};

// One collective of the steady program, summed over the steady iterations; times from the iteration's start
// (the latest rank's end of the one before).
struct CollectiveTiming {
  SimTime ready;   // its input exists on the last rank: its stream has ended what stands before it
  SimTime launch;  // the last rank launches it
  SimTime end;     // it has ended on every rank
};

// When an operation of a traced rank was on its stream. kernel: running; collective: launch to end; wait:
// from the compute stream's arrival to its release; take_batch and synchronize: the host's wait.
struct OpSpan {
  SimTime start, end;
};
struct TracedIteration {
  std::uint32_t iteration = 0;
  Rank rank;
  std::vector<OpSpan> ops;      // by index in the program
  std::vector<SimTime> issued;  // by index: the host had issued it, which took the operation's host_cost
};

// What a rank did in a steady iteration: computed, waited, and was waited for by all ranks together. Waiting for
// those who end an iteration later counts in the next one, after the last one in that.
struct RankStep {
  SimTime compute, waiting;
  PicosecondSum waited_for = 0;
  friend bool operator==(const RankStep&, const RankStep&) = default;
};

// What all ranks together spent waiting on a collective of the steady program, over the steady iterations: for
// what its last rank did later than they, and for the collective itself.
struct CollectiveWaits {
  PicosecondSum straggler = 0, exposed = 0;
};

// What servers did. Staleness of a gradient: updates between the answer that it was computed from and its own.
struct Served {
  struct Round {
    std::vector<std::uint64_t> staleness;  // [n]: pushes of which it was n
    std::uint64_t pushes = 0, dropped = 0;
  };
  Round first, later;  // each worker's first push of each shard; all others
  std::uint64_t updates = 0;
  std::uint64_t held_back = 0;  // answers that waited for the slowest worker: the bound on staleness was met
};

// A collective that was decided while the run went (Negotiation).
struct DecidedCollective {
  std::vector<std::uint32_t> tensors;  // by their places in Negotiation::tensors
  Bytes bytes;
  std::uint32_t plan = 0;  // in Decisions::plans
  SimTime queued;          // by the last rank, the last of them
  SimTime decided;
  SimTime start;   // on the last rank
  SimTime end;     // on all
  SimTime margin;  // before and after it: copies into and out of a buffer
};
struct Decisions {
  std::vector<std::vector<DecidedCollective>> iterations;  // by iteration, in their order
  std::vector<CollectivePlan> plans;                       // the job's, then those that were made for it
  GraphList graphs;                                        // likewise
};

struct Result {
  EngineKind engine = EngineKind::vector;
  std::string engine_reason;           // why automatic took this engine
  std::vector<SimTime> iteration_end;  // latest rank's end, by iteration; 0 is the warm-up
  std::vector<std::vector<SimTime>>
      own_ends;                      // with servers: by rank, of its own iterations, all till the run's end
  Served served;                     // with servers
  std::vector<Breakdown> breakdown;  // by rank, over the steady iterations
  std::vector<Blame> blame;          // by rank, over the steady iterations
  std::vector<CollectiveTiming> timing;  // by collective of the steady program
  std::vector<CollectiveWaits> waits;    // by collective of the steady program
  // By rank: what the others waited for it, as the last to launch a collective or to end an iteration; all of
  // them together are the straggler_wait of all ranks. Among equally late ranks the first one is charged.
  std::vector<PicosecondSum> waited_for;
  // By rank: the first of those charged that it was just as late as, by their own time; itself: none.
  std::vector<Rank> as_late_as;
  std::vector<Rank> last_to_end;     // by iteration
  std::vector<Rank> last_to_launch;  // by steady iteration, by group of each steady row (program_layout.h)
  std::uint64_t fingerprint = 0;     // over every launch, collective end and iteration end of every rank
  std::uint64_t events = 0;          // event engine: ends of operations, occupancies and arrivals
  std::vector<TracedIteration> trace;
  Decisions decisions;               // of a job with a negotiation
  std::vector<RankStep> rank_steps;  // by steady iteration, by rank, where asked for
};

// Which ranks and iterations to record. Iteration 0 is the warm-up.
struct TraceRequest {
  std::vector<Rank> ranks;  // ascending, each once; those that the job doesn't have are left out
  std::uint32_t first = 0, iterations = 0;
  std::uint32_t rank_steps = 0;  // also what each rank did in so many first steady iterations

  bool wants(std::uint32_t iteration) const { return iteration - first < iterations; }
};

// Half of the clock's range: events lie ahead of the clock, and times from an iteration's start are summed over
// iterations that overlap.
inline constexpr SimTime kLongestRun{kNever.ps / 2};
inline constexpr int kLongestRunDays = static_cast<int>(to_seconds(kLongestRun).value / 86400);

// Why the vector engine can't run this job exactly, or nullopt when it can.
std::optional<std::string> why_not_vector(const TrainingJob&);

// Told how many iterations have ended, the warm-up among them, and how many there will be: of more each time, in
// the end of all. With servers those of the first rank. May be empty; changes nothing of the run.
using StepProgress = std::function<void(std::size_t done, std::size_t all)>;

// Throws InputError when run.engine is vector and the job needs the event engine, or when the run could
// take longer than kLongestRun.
Result simulate(const TrainingJob&, const RunSpec&, const TraceRequest& = {}, const StepProgress& = {});

// The engines themselves. Requires: the job fits the clock; for the vector engine, !why_not_vector(job).
Result run_event_engine(const TrainingJob&, const RunSpec&, const TraceRequest& = {},
                        const StepProgress& = {});
Result run_vector_engine(const TrainingJob&, const RunSpec&, const TraceRequest& = {},
                         const StepProgress& = {});

}  // namespace paceline
