// The event engine: every operation, transfer and step is an event; links are shared; anything may happen.
//
// Three actors per rank (host thread, compute stream, communication stream), a data loader, and one sender
// per hop of every ring. Each runs until it must wait, and is poked by what it waits for. Nothing is
// allocated in the loop.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/engine/timeline.h"
#include "sim/engine/trajectory.h"
#include "sim/engine/variability.h"
#include "sim/network/flow_network.h"

namespace paceline {

class EventEngine {
 public:
  // Requires: the job outlives the engine.
  EventEngine(const TrainingJob&, const RunSpec&, const TraceRequest& = {});

  void run();       // to the end of the last iteration
  Result finish();  // Requires: run()

 private:
  struct Place {  // in the sequence of all operations of all iterations
    std::uint32_t iteration = 0, op = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  __extension__ using Work = __int128;

  struct RankState {
    Place host, stream;  // the operation that each does next
    Place collective;    // the next one to end: its iteration, and in place of the operation its number in it
    bool host_busy = false, host_waits = false, loader_busy = false;
    bool stream_waits = false, kernel_runs = false, communicating = false;
    std::uint32_t completed = 0;               // iterations
    std::uint32_t produced = 0, consumed = 0;  // batches
    std::uint32_t reached = 0, launched = 0;   // collectives, over all iterations
    std::uint32_t channels_left = 0;           // of the collective that runs
    std::uint64_t kernel_event = 0;            // sequence of the event that ends the running kernel
    SimTime work_left_at;                      // the running kernel had `work` left at this time
    Work work = 0;
    double factor = 1;  // of this iteration's kernels
  };

  struct Hop {  // of one channel, at one position: a sender, and the receiver at the same position
    std::uint32_t sends = 0, sent = 0;    // of the active collective
    std::uint32_t receives = 0, lag = 0;  // send s needs s + lag chunks received
    std::uint32_t received = 0;           // over all collectives
    std::uint32_t received_before = 0;    // the active collective
    std::uint32_t plan = 0, shared = kNotShared;
    bool sending = false, active = false;
  };
  static constexpr std::uint32_t kNotShared = 0xffffffffU;

  struct CollectiveRecord {
    LastLaunch launch;
    SimTime ready, end;
  };
  struct IterationSlot {        // of an iteration that some rank is in
    std::vector<OpSpan> spans;  // [rank * ops + op]
    std::vector<CollectiveRecord> collectives;
    std::vector<SimTime> rank_end;
    std::uint32_t ranks_done = 0;
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
  void start_hop(std::uint32_t hop, std::uint32_t plan, SimTime now);
  void try_send(std::uint32_t hop, SimTime now);
  void end_send(std::uint32_t hop, SimTime now);
  void finish_hop_if_done(std::uint32_t hop, SimTime now);
  void end_collective(std::uint32_t rank, SimTime now);
  void record_collective(std::uint32_t rank, Place, SimTime launch, SimTime end);

  void close_iteration(std::uint32_t iteration);

  const Program& program(std::uint32_t iteration) const { return job_.program(iteration); }
  IterationSlot& slot(std::uint32_t iteration) { return slots_[iteration % slots_.size()]; }
  OpSpan& span(std::uint32_t rank, Place at) {
    return slot(at.iteration).spans[rank * program(at.iteration).ops.size() + at.op];
  }

  const TrainingJob& job_;
  RunSpec run_;
  TraceRequest trace_;
  std::uint32_t ranks_, channels_, last_iteration_;
  Variability variability_;
  Sampler input_jitter_;
  Timeline timeline_;
  std::optional<FlowNetwork> network_;
  std::vector<std::uint64_t> ended_flows_;
  std::vector<RankState> rank_;
  std::vector<Hop> hops_;                        // [channel * ranks + position]
  std::vector<std::uint32_t> position_;          // [channel * ranks + rank]
  std::vector<std::vector<SimTime>> occupancy_;  // [plan][class]
  std::vector<std::uint32_t> root_position_;     // by channel
  std::vector<IterationSlot> slots_;
  std::vector<SimTime> previous_rank_end_, last_launch_;
  std::vector<std::uint32_t> hop_class_;  // by hop
  // Of the warm-up and of the steady program:
  std::vector<std::uint32_t> last_stream_op_;
  std::vector<std::vector<std::uint32_t>> collective_op_;  // operation of each collective
  Result result_;
  Fingerprint fingerprint_;
};

}  // namespace paceline
