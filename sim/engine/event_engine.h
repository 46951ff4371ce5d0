// The event engine: every operation, transfer and step is an event; links are shared; anything may happen.
//
// Three actors per rank (host thread, compute stream, communication stream), a data loader, and the thread
// blocks of every collective graph. Each runs until it must wait, and is poked by what it waits for. Nothing
// is allocated in the loop.
//
// Where nothing random differs from step to step, it describes its state at the end of each iteration; when
// that is the state of one iteration before, only later, the rest is repeated (event_engine_repeat.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/state_digest.h"
#include "sim/collective/step_times.h"
#include "sim/engine/account.h"
#include "sim/engine/simulate.h"
#include "sim/engine/timeline.h"
#include "sim/engine/trajectory.h"
#include "sim/engine/variability.h"
#include "sim/network/flow_network.h"

namespace paceline {

// Whether iterations that can only be as the one before are simulated all the same; results are equal.
enum class AlikeSteps : std::uint8_t { repeated, simulated };

class EventEngine {
 public:
  // Requires: the job outlives the engine.
  EventEngine(const TrainingJob&, const RunSpec&, const TraceRequest& = {},
              AlikeSteps = AlikeSteps::repeated);

  void run();       // to the end of the last iteration
  Result finish();  // Requires: run()

  std::uint32_t repeated() const { return repeated_; }  // iterations that were not simulated

 private:
  struct Place {  // in the sequence of all operations of all iterations
    std::uint32_t iteration = 0, op = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  __extension__ using Work = __int128;
  static constexpr std::uint32_t kNotShared = 0xffffffffU, kNotTraced = 0xffffffffU;

  struct RankState {
    Place host, stream;  // the operation that each does next
    Place collective;    // the next one to end: its iteration, and in place of the operation its number in it
    bool host_busy = false, host_waits = false, loader_busy = false;
    bool stream_waits = false, kernel_runs = false, communicating = false;
    std::uint32_t completed = 0;               // iterations
    std::uint32_t produced = 0, consumed = 0;  // batches
    std::uint32_t reached = 0, launched = 0;   // collectives, over all iterations
    std::uint32_t thread_blocks_left = 0;      // of the collective that runs
    std::uint64_t kernel_event = 0;            // sequence of the event that ends the running kernel
    SimTime work_left_at;                      // the running kernel had `work` left at this time
    Work work = 0;
    double factor = 1;  // of this iteration's kernels
    SimTime own;        // its own time
    SimTime idle_from;  // the stream's last kernel or wait ended here
  };

  struct ThreadBlockState {
    Cursor at;
    std::uint32_t rank = ThreadBlock::kSwitch, script = 0;
    std::uint32_t plan = 0, graph = 0;
    std::uint32_t first_in = 0, first_out = 0;  // in in_ and out_
    std::uint32_t unfinished = 0;               // parts of the move that runs
    bool active = false;
    Place use;  // of a switch: the collective that it is in, as RankState::collective
  };
  // Counts over all collectives, but sent_before: sent before the sender's present one.
  struct FifoState {
    std::uint32_t from = 0, to = 0, hop = 0, shared = kNotShared;
    std::uint64_t sent = 0, sent_before = 0, arrived = 0, received = 0;
    SimTime last_arrival;  // chunks arrive in order, also those of a faster collective after a slower one
    SimTime sent_at;       // of a shared one: when its last transfer began
    FlowId flow{};         // of a shared one: what its last transfer was in the network
  };
  struct GraphState {
    std::vector<std::uint32_t> first_of_rank,
        of_rank;  // thread blocks of rank r: of_rank[first_of_rank[r] ..)
  };
  struct CollectiveRecord {
    LastLaunch launch;
    SimTime ready, end;
    std::vector<SimTime> own;  // by rank: its own time when its stream came to it
  };
  struct IterationSlot {        // of an iteration that some rank is in
    std::vector<OpSpan> spans;  // [rank * ops + op]
    std::vector<CollectiveRecord> collectives;
    std::vector<SimTime> rank_end, own_at_end;
    std::uint32_t ranks_done = 0;
    std::vector<SimTime> issued;  // [traced rank's place * ops + op]
    Fingerprint facts;
  };
  struct Seen {  // the state when an iteration had closed
    std::uint32_t closed = 0;
    SimTime at;
    StateDigest state;
  };

  void handle(const Event&, SimTime now);

  void advance_host(std::uint32_t rank, SimTime now);
  bool host_may_issue(std::uint32_t rank, SimTime now);
  void end_issue(std::uint32_t rank, SimTime now);
  void advance_loader(std::uint32_t rank, SimTime now);

  void advance_stream(std::uint32_t rank, SimTime now);
  bool run_stream_op(std::uint32_t rank, SimTime now);
  void leave_stream_op(std::uint32_t rank, SimTime now);
  void start_kernel(std::uint32_t rank, const Op&, SimTime now);
  void schedule_kernel_end(std::uint32_t rank);
  void end_kernel(std::uint32_t rank, SimTime now);

  void launch_next(std::uint32_t rank, SimTime now);
  void set_communicating(std::uint32_t rank, bool, SimTime now);
  void start_thread_blocks(std::uint32_t rank, SimTime now);
  void start_thread_block(std::uint32_t thread_block, std::uint32_t plan);
  bool may_move(const ThreadBlockState&, const FlatStep&) const;
  void advance_thread_block(std::uint32_t thread_block, SimTime now);
  void end_flow(std::uint32_t fifo, SimTime now);
  void end_move(std::uint32_t thread_block, SimTime now);
  void arrive(std::uint32_t fifo, SimTime now);
  void finish_thread_block(std::uint32_t thread_block, SimTime now);
  void next_use(std::uint32_t thread_block, Place&) const;
  void end_collective(std::uint32_t rank, SimTime now);
  void record_collective(std::uint32_t rank, Place, SimTime launch, SimTime end);

  void close_iteration(std::uint32_t iteration);
  void charge_waits(std::uint32_t iteration);
  void charge_end(PicosecondSum waited);
  IterationSlot empty_slot() const;
  void open_iteration(std::uint32_t iteration);
  void clear_slot(std::uint32_t iteration);
  StateDigest describe(std::uint32_t closed, SimTime now);
  void describe_records(StateDigest&, std::uint32_t iteration, SimTime now);
  bool iterations_apart(std::uint32_t closed) const;
  void repeat_if_alike(std::uint32_t closed, SimTime now);
  void repeat(std::uint32_t iteration, SimTime period);
  void lay_out_graphs();
  void start_switches(SimTime now);

  const Program& program(std::uint32_t iteration) const { return job_.program(iteration); }
  void note(Fact fact, Place at, std::uint32_t rank, SimTime now) {
    slot(at.iteration).facts.add(subject(fact, at.iteration, at.op), rank, now);
  }
  IterationSlot& slot(std::uint32_t iteration) { return slots_[iteration % slots_.size()]; }
  OpSpan& span(std::uint32_t rank, Place at) {
    return slot(at.iteration).spans[rank * program(at.iteration).ops.size() + at.op];
  }

  const TrainingJob& job_;
  RunSpec run_;
  TraceRequest trace_;
  std::uint32_t ranks_, last_iteration_;
  Variability variability_;
  Sampler input_jitter_;
  bool own_input_;  // waits for input are a rank's own time
  bool may_repeat_;
  Timeline timeline_;
  std::optional<FlowNetwork> network_;
  std::vector<std::uint64_t> ended_flows_;
  std::vector<RankState> rank_;
  // Of all graphs, one after the other; thread_blocks_ has one more, the end of the last one's ports:
  std::vector<GraphState> graphs_;
  std::vector<ThreadBlockState> thread_blocks_;
  std::vector<FifoState> fifos_;
  std::vector<std::uint32_t> in_, out_;
  std::vector<StepTimes> step_times_;  // by plan
  std::vector<IterationSlot> slots_;   // of the iterations from cleared_ on: iteration i at i % slots_.size()
  std::uint32_t cleared_ = 0;          // iterations that are closed and whose slots are free
  std::vector<SimTime> previous_rank_end_, own_before_;   // of the last closed iteration, by rank
  std::vector<SimTime> last_launch_, own_, own_of_last_;  // of the iteration that closes, by collective
  IterationWaits waits_;                                  // of the iteration that closes
  std::vector<std::uint32_t> traced_;  // by rank: its place among the traced ones, or kNotTraced; empty: none
  // Of the warm-up and of the steady program:
  std::vector<std::uint32_t> last_stream_op_;
  std::vector<std::vector<std::uint32_t>> collective_op_;  // operation of each collective
  std::uint32_t last_overlap_ =
      0;  // the last iteration that began collectives before the one before had ended its
  std::uint32_t repeated_ = 0;
  std::optional<Seen> seen_;
  Result result_;
};

}  // namespace paceline
