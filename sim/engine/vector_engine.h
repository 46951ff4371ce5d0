// The vector engine: a synchronous step as max and + over vectors of times, one element per rank.
//
// Where no link is shared by collectives that could be live together (why_not_vector), every rank meets the
// collectives in the same order and nothing depends on run-time state, so the ranks can be carried together
// from one operation to the next. A collective that runs ahead is run as soon as what it comes after is known, for
// it may slow down kernels that were issued before it. Equal to the event engine to the picosecond. Iterations that can
// only be as the one before are repeated (vector_engine_repeat.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/fingerprint.h"
#include "sim/collective/collective_times.h"
#include "sim/engine/program_layout.h"
#include "sim/engine/simulate.h"
#include "sim/engine/trajectory.h"
#include "sim/engine/variability.h"

namespace paceline {

class VectorEngine {
 public:
  // Requires: !why_not_vector(job); the job outlives the engine.
  VectorEngine(const TrainingJob&, std::uint64_t seed, const TraceRequest& = {});

  void run_iteration();  // the next one; the first is the warm-up
  Result finish();       // of the iterations run. Requires: at least two. Ends the engine's life

  std::uint32_t repeated() const { return repeated_; }  // iterations that were not simulated

 private:
  struct Busy {                             // of a communication queue, by rank
    std::vector<SimTime> launch, end, own;  // own: time when what it comes after had ended
  };
  struct OpEnd {  // by rank
    std::vector<SimTime> at, own;
  };
  struct Totals {  // over the steady iterations, as in Result
    std::vector<SimTime> compute, exposed, straggler, waited_for_input;  // by rank
    std::vector<PicosecondSum> waited_for;
    std::vector<Blame> blame;
    std::vector<CollectiveTiming> timing;
    std::vector<CollectiveWaits> waits;
  };

  void begin_iteration();
  std::uint32_t run_kernels(std::uint32_t first_op);  // returns the last one
  void run_kernel_block(std::size_t first_op, std::size_t last_op, std::size_t first_rank, std::size_t count);
  void run_kernel_in_detail(std::uint32_t op, std::size_t rank, SimTime issued, double jitter);
  void run_collectives(std::uint32_t last_issued);
  std::optional<SimTime> issue_cost_of_next(std::uint32_t queue, std::uint32_t last_issued);
  void run_collective(std::uint32_t number, SimTime issue_cost);
  void run_wait(const Op&, std::uint32_t op);
  void take_batch(const Op&, std::uint32_t op);
  void synchronize(const Op&, std::uint32_t op);
  void leave_out(std::uint32_t op);
  void keep_end(std::uint32_t op);
  void add_facts(std::uint32_t number);
  void add_timing(const Op&, SimTime ready, SimTime latest);
  void charge_collectives();
  void account_idle(SimTime next_host_cost);
  SimTime waits_for_input(std::size_t rank, SimTime from, SimTime to) const;
  SimTime finished_before(std::size_t rank, SimTime from, SimTime until) const;
  SimTime run_slowed(std::size_t rank, SimTime start, SimTime duration);
  void end_iteration();
  void close_iteration(SimTime latest, Rank last);
  void charge_end(PicosecondSum waited);
  void keep_rank_steps();
  void record(std::uint32_t op, std::size_t rank, OpSpan span, SimTime issued);
  bool traces(std::size_t first_rank, std::size_t count) const;

  // Steps that are alike (vector_engine_repeat.cpp).
  static bool may_repeat(const TrainingJob&);
  std::optional<std::vector<SimTime>> describe() const;
  void compare_with_before(SimTime period);
  bool repeats() const;
  void repeat();

  const ProgramLayout& layout() const { return layouts_.main().of(iteration_); }
  const Program& program() const { return *layout().program; }
  const CollectiveLayout& collective(std::uint32_t number) const { return layout().collectives[number]; }
  Busy& busy(std::uint32_t iteration, std::uint32_t number) {
    return busy_[iteration % (busy_.size() / most_collectives_) * most_collectives_ + number];
  }
  std::uint32_t record_of(const CollectiveLayout& of, std::uint32_t rank) const {
    return of.first_record + groups_.group(of.family, rank);
  }

  const TrainingJob& job_;
  TraceRequest trace_;
  Groups groups_;
  JobLayout layouts_;
  Variability variability_;
  Sampler input_jitter_;
  std::uint64_t seed_;
  CollectiveTimes times_;
  bool slowed_;         // collectives slow kernels down
  bool may_repeat_;     // iterations that can only be as the one before
  bool short_kernels_;  // every kernel's duration fits round_small_picoseconds
  bool own_input_;      // waits for input are a rank's own time

  std::uint32_t iteration_ = 0;
  std::uint32_t batches_ = 0;      // taken so far by each rank
  bool at_start_ = false;          // no stream operation of this iteration has begun yet
  bool after_batch_ = false;       // nor since the last batch was taken
  SimTime counted_from_ = kNever;  // start of the steady iterations; kNever during the warm-up
  SimTime previous_end_;           // latest rank's end of the previous iteration

  // By rank:
  std::vector<SimTime> host_, stream_;               // free from
  std::vector<std::vector<SimTime>> communication_;  // by queue: free from
  std::vector<SimTime> own_, own_before_;  // own time: now, and at the end of the previous iteration
  std::vector<double> factor_;
  std::vector<SimTime> batch_begin_, batch_ready_;  // the host's last wait for a batch
  std::vector<SimTime> prepared_;                   // when the present collective's thread blocks may start
  std::vector<std::vector<SimTime>> consumed_;      // when batch b was taken: [b % prefetch]
  std::vector<std::vector<SimTime>> ends_;          // of iteration i: [i % ends_.size()]
  std::vector<std::vector<std::vector<OpSpan>>>
      slowing_;  // by queue, by rank: collectives that may slow its next kernels
  std::vector<std::uint32_t> next_collective_;  // by queue: the first of this iteration that has not run
  std::size_t most_collectives_ = 1;            // of an iteration
  std::vector<Busy> busy_;               // by iteration, those that waits may look back to, and by collective
  std::vector<OpEnd> op_end_;            // of this iteration's operations that collectives come after
  std::vector<LastLaunch> last_launch_;  // of this iteration, by record (JobLayout)
  std::vector<CollectiveWaits> waits_;   // likewise
  Totals totals_, totals_before_;        // before the last iteration
  std::optional<std::vector<SimTime>> state_before_;  // at the end of the last iteration
  bool alike_ = false;                                // it is what it was at the end of the one before
  std::uint32_t repeated_ = 0;
  std::vector<std::uint32_t> traced_;  // by place_traced
  std::vector<double> jitter_;         // of a block of ranks: four operations
  Result result_;
  Fingerprint fingerprint_;
};

}  // namespace paceline
