// The event engine: every operation and every transfer over shared links is an event; anything may happen.
//
// Moves of collectives' thread blocks are made ahead of the clock (event_engine_ahead.cpp), or are events as well.
//
// Actors: of each thread of each rank its host, its compute stream and its communication queues; of each rank
// a data loader; servers; the thread blocks of every collective graph. Each runs until it must wait, and is poked by
// what it waits for. Nothing is allocated in the loop but for messages, for iterations that are open as members drift,
// and by CollectiveTimes, where no link is shared and all ranks meet in a collective.
//
// Where nothing random differs from step to step, it describes its state at the end of each iteration; when that
// is the state of one iteration before, only later, the rest is repeated (event_engine_repeat.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "core/state_digest.h"
#include "sim/collective/collective_times.h"
#include "sim/collective/fusion.h"
#include "sim/collective/step_times.h"
#include "sim/engine/account.h"
#include "sim/engine/laid_out_graphs.h"
#include "sim/engine/mailboxes.h"
#include "sim/engine/program_layout.h"
#include "sim/engine/servers.h"
#include "sim/engine/simulate.h"
#include "sim/engine/slice_times.h"
#include "sim/engine/timeline.h"
#include "sim/engine/trajectory.h"
#include "sim/engine/variability.h"
#include "sim/network/flow_network.h"

namespace paceline {

// A host with its streams: the first of member m is m, and the ranks are the first members.
using ThreadId = Id<struct ThreadTag>;

// Whether iterations that can only be as the one before are simulated all the same; results are equal.
enum class AlikeSteps : std::uint8_t { repeated, simulated };

// How collectives come to their ends. by_times: by CollectiveTimes where no rank leaves one before all are in it and no
// link is shared, else move by move, ahead of the clock. by_steps: every move an event. Results are equal.
enum class CollectiveEnds : std::uint8_t { by_times, by_steps };

class EventEngine {
 public:
  // Requires: the job outlives the engine.
  EventEngine(const TrainingJob&, const RunSpec&, const TraceRequest& = {}, AlikeSteps = AlikeSteps::repeated,
              CollectiveEnds = CollectiveEnds::by_times);

  // To the end of the last iteration. Throws InputError where all wait for messages that nobody will send.
  void run(const StepProgress& = {});
  Result finish();  // Requires: run()

  std::uint32_t repeated() const { return repeated_; }  // iterations that were not simulated

 private:
  __extension__ using Work = __int128;
  static constexpr std::uint32_t kMostInRow = 64;
  static constexpr std::uint64_t kMessage = std::uint64_t{1}
                                            << 32;  // tag of a flow; else the number of a FIFO

  struct ThreadState {
    OpPlace host, stream;  // the operation that each does next
    OpPlace collective;    // the next one to begin, by its number; kept where workers share the queues
    bool host_busy = false, host_waits = false, loader_busy = false;
    bool stream_waits = false, kernel_runs = false;
    std::uint32_t kernel_stream = 0;  // of the running kernel, and which it is
    OpPlace kernel;
    SimTime kernel_ready = kNever;             // the compute stream's next one, which waits for the GPU
    std::uint32_t communicating = 0;           // queues whose collective runs
    std::uint32_t completed = 0;               // iterations
    std::uint32_t produced = 0, consumed = 0;  // batches
    std::uint64_t kernel_event = 0;            // sequence of the event that ends the running kernel
    SimTime work_left_at;                      // the running kernel had `work` left at this time
    Work work = 0;
    double factor = 1;    // of this iteration's kernels
    SimTime own;          // its own time
    SimTime idle_from;    // the stream's last kernel or wait ended here
    SimTime server_wait;  // of this iteration's waits: while a server held the push
  };
  struct StreamBeside {
    std::uint32_t iteration = 0, position = 0;  // of its next kernel, in ProgramLayout::beside
    OpPlace kernel, before;                     // that, and the operation or collective that it comes after
    enum class Before : std::uint8_t { nothing, compute, beside, collective } kind = Before::nothing;
    QueueId queue{};         // of the collective
    SimTime ready = kNever;  // when that was ready
    SimTime own;             // of its kernels since what they come after had ended
  };
  struct Meeting {  // of all ranks in a collective of a graph
    std::uint32_t entered = 0;
    std::vector<SimTime> launch;    // by rank
    std::vector<QueueId> queue;     // likewise
    std::vector<SimTime> conclude;  // likewise
  };
  struct QueueState {
    OpPlace collective;                    // the next one to end, by its number in the iteration
    std::uint32_t thread_blocks_left = 0;  // of the collective that runs
    bool runs = false;
    std::uint32_t stage = 0;  // of it
    SimTime left;             // ahead of the clock: when the last of its thread blocks that have ended had
  };
  // What doesn't change.
  struct ThreadPlace {
    const ThreadLayout* layout = nullptr;
    std::uint32_t member = 0;
    QueueId first_queue{};
    std::uint32_t first_beside = 0;       // of its streams beside the compute stream
    std::uint32_t first_span = kNoIndex;  // in IterationSlot::spans; kNoIndex: its time is not accounted for
    std::optional<ThreadId> next_of_member{};  // its next thread
  };

  struct Outbox {  // pushes that wait for the worker's window, and those on their way
    struct Push {
      std::uint32_t to = 0, channel = 0;
      Bytes bytes;
    };
    std::map<std::pair<std::uint32_t, std::uint32_t>, Push>
        waiting;  // by layer, then in the order of sending
    std::uint32_t sent = 0, messages = 0;
    Bytes bytes;
  };
  struct CollectiveRecord {  // of one group
    LastLaunch launch;
    SimTime ready, end;
  };
  struct IterationSlot {        // of an iteration that some rank is in
    std::vector<OpSpan> spans;  // [first_span of the rank + op]
    std::vector<CollectiveRecord> collectives;
    std::vector<SimTime> own;  // [row * ranks + rank]: its own time when its stream came to it
    std::vector<SimTime> rank_end, own_at_end;
    std::uint32_t ranks_done = 0;
    std::uint64_t collectives_ended = 0;  // by all ranks
    bool launched = false;                // any of its collectives, by any rank
    std::vector<SimTime> issued;          // [traced rank's place * ops + op]
    Fingerprint facts;
    std::vector<DecidedCollective> decided;
    std::vector<SimTime> queued;  // by tensor: by the last rank
    std::uint32_t tensors_decided = 0;
  };
  struct Background {  // a rank's thread that negotiates
    // awake: it has nothing to do, or waits for data; reduce: it waits for what its host reduces; else an event
    // will come.
    enum class Does : std::uint8_t { sleep, agree, issue, reduce, issue_rest, awake } does = Does::sleep;
    SimTime began;             // its cycle
    std::uint64_t queued = 0;  // tensors of all iterations, when it asked
    OpPlace next;              // the next collective to issue
  };
  struct Seen {  // the state when an iteration had closed
    std::uint32_t closed = 0;
    SimTime at;
    StateDigest state;
  };

  void place_threads();
  void prepare_meetings();
  Meeting empty_meeting() const;
  void prepare_result();
  void start();
  SimTime next_instant(SimTime flow_end) const;
  void end_flows(SimTime now);
  void clear_closed(SimTime now);
  void handle(const Event&, SimTime now);

  void advance_host(ThreadId thread, SimTime now);
  bool host_may_issue(ThreadId thread, SimTime now);
  std::uint32_t completed(ThreadId thread) const;
  void end_issue(ThreadId thread, SimTime now);
  void leave_host_op(ThreadId thread);
  void advance_loader(ThreadId rank, SimTime now);

  void advance_stream(ThreadId thread, SimTime now);
  bool run_stream_op(ThreadId thread, SimTime now);
  bool wait_on_stream(ThreadId thread, bool over, SimTime now);
  void leave_stream_op(ThreadId thread, SimTime now);
  void end_rank_iteration(ThreadId rank, std::uint32_t iteration, SimTime now);
  void start_kernel(ThreadId thread, std::uint32_t stream, OpPlace at, SimTime now);
  void schedule_kernel_end(ThreadId thread);
  void end_kernel(ThreadId thread, SimTime now);

  // Streams beside the compute stream (event_engine_streams.cpp).
  std::uint32_t streams_beside(ThreadId thread) const {
    return place_[thread.index()].layout->streams_beside;
  }
  StreamBeside& beside(ThreadId thread, std::uint32_t stream) {
    return beside_[place_[thread.index()].first_beside + stream - 1];
  }
  const StreamBeside& beside(ThreadId thread, std::uint32_t stream) const {
    return beside_[place_[thread.index()].first_beside + stream - 1];
  }
  std::optional<OpPlace> next_kernel(ThreadId thread, std::uint32_t stream) const;
  void skip_to_kernel(ThreadId thread, std::uint32_t stream);
  void note_next_kernel(ThreadId thread, StreamBeside&, std::uint32_t op);
  bool is_before_over(ThreadId thread, const StreamBeside&) const;
  bool ended_beside(ThreadId thread, OpPlace kernel) const;
  bool device_idle(ThreadId thread) const;
  void offer_kernel(ThreadId thread);
  void choose_kernels(SimTime now);
  void choose_kernel(ThreadId thread, SimTime now);
  void end_kernel_beside(ThreadId thread, SimTime now);

  void send(ThreadId thread, const Op&, SimTime now);
  void send(std::uint32_t from, std::uint32_t to, std::uint32_t channel, Bytes, SimTime now);
  void send_waiting(std::uint32_t member, SimTime now);
  void end_sending(MessageId message, SimTime now);
  void deliver(MessageId message, SimTime now);
  void end_serving(std::uint32_t server, SimTime now);
  bool pass_gate(ThreadId thread, const Op&, SimTime now);

  void launch_next(QueueId queue, SimTime now);
  void release_followers(ThreadId thread, OpPlace ended, SimTime own, SimTime now);
  bool may_launch(ThreadId thread, OpPlace collective) const;
  bool ended(ThreadId thread, OpPlace collective) const;
  void set_communicating(ThreadId thread, bool, SimTime now);
  struct Running {
    std::uint32_t plan = 0;
    SimTime prepare, conclude;
    After after = After::compute;
    std::span<const Stage> stages;
  };
  void enter_meeting(QueueId queue, const Running&, SimTime now);
  void start_thread_blocks(QueueId queue, SimTime now);
  void start_thread_block(ThreadBlockId thread_block, std::uint32_t plan);
  bool may_move(const ThreadBlockState&, const FlatStep&, SimTime now);
  void advance_thread_block(ThreadBlockId thread_block, SimTime now);
  void start_flow(FifoId fifo, SimTime now);
  void end_flow(FifoId fifo, SimTime now);
  void end_move(ThreadBlockId thread_block, SimTime now);
  void arrive(FifoId fifo, SimTime now);
  void finish_thread_block(ThreadBlockId thread_block, SimTime now);
  void begin_transfer(FifoId fifo, SimTime now);

  // Moves ahead of the clock (event_engine_ahead.cpp).
  void prepare_slices();
  void make_ready(ThreadBlockId thread_block);
  void start_ahead(QueueId queue, const Running&, SimTime begin, SimTime now);
  void move_ahead(SimTime now);
  void wake(ThreadBlockId thread_block, FifoId fifo);
  std::uint32_t possible_moves(ThreadBlockState&, const FlatStep&) const;
  bool make_moves(ThreadBlockId thread_block, SimTime now);
  void arrive_ahead(FifoId fifo, SimTime at);
  void end_transfer_ahead(FifoId fifo, SimTime arrival, SimTime end, SimTime now);
  void end_thread_block_ahead(ThreadBlockId thread_block);

  void next_use(ThreadBlockId thread_block, OpPlace&) const;
  const ProgramLayout& program_on(std::uint32_t graph, std::uint32_t iteration) const;
  Running running(QueueId queue) const;
  void conclude(QueueId queue, SimTime left, SimTime now);
  void end_collective(QueueId queue, SimTime now);
  OpPlace following(ThreadId thread, OpPlace collective, std::uint32_t queue = kNoIndex) const;
  bool waits_for_worker(ThreadId thread, OpPlace collective) const;

  // What is decided while the run goes (event_engine_negotiation.cpp).
  void run_background(ThreadId rank, SimTime now);
  void advance_background(ThreadId rank, SimTime now);
  void agree(SimTime now);
  void decide(std::uint32_t iteration, std::uint32_t first, std::uint32_t last, SimTime now);
  void note_queued(OpPlace issued, SimTime now);
  void use_graph(std::uint32_t plan, SimTime now);
  SimTime issue_cost(OpPlace collective, bool rest) const;
  void begin_stage(QueueId queue, SimTime now);
  bool next_stage(QueueId queue, SimTime now);
  std::uint32_t plan_of(const CollectiveRequest&, Stage::Where = Stage::Where::gpus);
  std::uint32_t plan_in_stages(Bytes, const NodeParts&);
  std::vector<Stage> stages_of(const NodeParts&);
  std::uint32_t add_plan(CollectivePlan);
  void add_graph();
  std::uint64_t queued_by(ThreadId rank) const;
  bool all_decided(std::uint32_t iteration) const;
  bool exists(ThreadId rank, OpPlace collective) const;
  bool may_launch_decided(ThreadId rank, OpPlace collective) const;
  void skip_nothing(OpPlace&) const;
  const DecidedCollective& decided(OpPlace collective) const {
    return slots_[collective.iteration % slots_.size()].decided[collective.op];
  }

  void end_own_iteration(ThreadId rank, std::uint32_t iteration, SimTime now);
  void keep_trace(ThreadId rank, std::uint32_t iteration, std::span<const OpSpan>);
  Result finish_own();
  void close_complete_iterations();
  std::uint64_t collectives_in(std::uint32_t iteration) const;
  void close_iteration(std::uint32_t iteration);
  void close_collectives(std::uint32_t iteration, SimTime began);
  void see_collectives(ThreadId rank, std::uint32_t iteration);
  void charge_waits(std::uint32_t iteration);
  void charge_end(PicosecondSum waited);
  void keep_rank_step(std::uint32_t rank, std::uint32_t iteration);
  IterationSlot empty_slot() const;
  void open_iteration(std::uint32_t iteration);
  void clear_slot(std::uint32_t iteration);
  StateDigest describe(std::uint32_t closed, SimTime now);
  void describe_threads(StateDigest&, std::uint32_t closed, SimTime now);
  void describe_queues(StateDigest&, std::uint32_t closed, SimTime now);
  void describe_graphs(StateDigest&, std::uint32_t closed, SimTime now);
  void describe_pending(StateDigest&, SimTime now);
  void describe_slices(StateDigest&, FifoId fifo, SimTime now);
  void describe_records(StateDigest&, std::uint32_t iteration, SimTime now);
  bool iterations_apart(std::uint32_t closed) const;
  bool switches_settled(SimTime now) const;
  void repeat_if_alike(std::uint32_t closed, SimTime now);
  void repeat(std::uint32_t iteration, SimTime period);
  void start_switches(SimTime now);
  void start_switch(ThreadBlockId thread_block, SimTime now);
  bool begin_next_use(ThreadBlockId thread_block);
  void start_negotiating(SimTime now);

  bool is_rank(ThreadId thread) const { return thread.value < ranks_; }
  QueueId queue_of(ThreadId thread, std::uint32_t number) const {
    return QueueId(place_[thread.index()].first_queue.value + number);
  }
  bool accounted(ThreadId thread) const { return place_[thread.index()].first_span != kNoIndex; }
  const ProgramLayout& layout(ThreadId thread, std::uint32_t iteration) const {
    return place_[thread.index()].layout->of(iteration);
  }
  const Program& program(ThreadId thread, std::uint32_t iteration) const {
    return *layout(thread, iteration).program;
  }
  void note(Fact fact, OpPlace at, ThreadId rank, SimTime now) {
    slot(at.iteration).facts.add(subject(fact, at.iteration, at.op), rank.value, now);
  }
  bool own_iterations() const { return !job_.serving.empty(); }
  IterationSlot& slot(std::uint32_t iteration) { return slots_[iteration % slots_.size()]; }
  OpSpan& span(ThreadId thread, OpPlace at) {
    return accounted(thread) ? slot(at.iteration).spans[place_[thread.index()].first_span + at.op]
                             : of_nobody_;
  }
  CollectiveRecord& record(ThreadId rank, OpPlace collective) {
    const CollectiveLayout& of = layout(rank, collective.iteration).collectives[collective.op];
    return slot(collective.iteration).collectives[of.first_record + groups_.group(of.family, rank.value)];
  }
  SimTime& own_at(ThreadId rank, OpPlace collective) {
    const std::uint32_t row = layout(rank, collective.iteration).collectives[collective.op].row;
    return slot(collective.iteration).own[row * ranks_ + rank.value];
  }

  const TrainingJob& job_;
  RunSpec run_;
  TraceRequest trace_;
  std::uint32_t ranks_, last_iteration_;
  Variability variability_;
  Sampler input_jitter_;
  bool own_input_;  // waits for input are a rank's own time
  bool may_repeat_;
  Groups groups_;
  JobLayout layouts_;
  Timeline timeline_;
  std::optional<FlowNetwork> network_;
  std::vector<std::uint64_t> ended_flows_;
  std::uint32_t spans_ = 0;   // operations of all ranks' programs
  std::size_t most_ops_ = 0;  // of any of them
  std::vector<std::uint64_t> ranks_of_role_;
  std::vector<ThreadPlace> place_;
  std::vector<std::vector<std::uint32_t>>
      reader_of_channel_;  // by role: the only thread that waits for its messages; kNoIndex: any may
  std::vector<ThreadState> thread_;
  std::vector<QueueState> queues_;
  std::vector<StreamBeside> beside_;
  std::vector<ThreadId> offered_;  // whose GPUs may have something to run, at the end of this instant
  std::vector<ThreadId> thread_of_queue_;
  LaidOutGraphs graphs_;
  std::vector<std::optional<Meeting>> meetings_;  // by graph; nothing where it is simulated step by step
  std::optional<CollectiveTimes> times_;
  std::vector<SimTime> meeting_end_;  // by rank
  // The job's, then those of what was decided; ahead of the clock one channel of the job's for all that are the same,
  // but where things are decided, of which the result has whole graphs:
  GraphList graph_list_;
  // Likewise:
  std::deque<CollectivePlan> plans_;
  std::deque<StepTimes> step_times_;  // by plan
  bool ahead_;                        // moves are made ahead of the clock
  SliceTimes slices_;
  std::vector<ThreadBlockId> ready_;  // a ring
  std::size_t first_ready_ = 0, ready_count_ = 0;
  std::array<SimTime, kMostInRow> begin_{};  // of the moves at hand
  Mailboxes mailboxes_;
  std::vector<Outbox> outboxes_;  // by rank, where messages have a window
  Servers servers_;
  std::vector<Servers::Answer> answers_;
  std::uint32_t ranks_left_;  // with own iterations: that have not made all that are asked for
  // Of the iterations from cleared_ on: iteration i at i % slots_.size(); with own iterations, of those of each rank.
  std::vector<IterationSlot> slots_;
  std::uint32_t cleared_ = 0;  // iterations that are closed and whose slots are free
  OpSpan of_nobody_;           // what threads do whose time is not accounted for
  std::vector<SimTime> previous_rank_end_, own_before_;  // of the last closed iteration, by rank
  std::vector<SeenCollective> seen_collectives_;         // of the rank and iteration that closes
  std::vector<CollectiveWaits> waits_;                   // of the iteration that closes, by record
  std::vector<std::uint32_t> traced_;                    // by place_traced
  // The last iteration that began collectives before the one before had ended its:
  std::uint32_t last_overlap_ = 0;
  std::uint32_t repeated_ = 0;
  std::optional<Seen> seen_;
  // Of a job with a negotiation.
  std::optional<CollectivePlanner> planner_, host_planner_;
  using Planned = std::tuple<Stage::Where, CollectiveKind, GroupShape, Bytes>;
  std::map<Planned, std::uint32_t> planned_;
  std::map<NodeParts, std::uint32_t> planned_in_stages_;
  std::optional<std::uint32_t> graph_of_nothing_;
  std::map<std::pair<bool, std::uint32_t>, std::uint32_t> graph_of_planner_;  // of hosts, its number -> ours
  std::vector<std::vector<std::uint32_t>> uses_of_graph_;  // plans of what was decided, in order
  std::vector<std::uint32_t> queued_before_op_;            // tensors whose kernels stand before it
  std::vector<Background> background_;
  std::uint32_t asked_ = 0;    // background threads in this cycle
  std::uint64_t decided_ = 0;  // tensors of all iterations
  Result result_;
};

}  // namespace paceline
