// TrainingJob: members that play roles, exchange with groups, wait for each other at gates and are served by parameter
// servers. Immutable; both engines run it.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/names.h"
#include "core/random.h"
#include "core/time.h"
#include "kernels/cost_model.h"
#include "sim/collective/communicator.h"
#include "sim/collective/family.h"
#include "sim/training.h"

namespace paceline {

inline constexpr std::uint32_t kNoIndex = 0xffffffffU;
inline constexpr std::uint32_t kWholeDevice = 0xffffffffU;

enum class OpKind : std::uint8_t {
  kernel,       // the compute stream is busy for `duration`, times the rank's factors
  collective,   // a communication queue runs collective `index`, once what it comes after has ended
  wait,         // the compute stream waits for collective `index` of the iteration `lag` before this one
  take_batch,   // the host waits for the data loader
  synchronize,  // the host waits for the compute stream, or the whole device
  send,         // the compute stream sends a message on channel `index`, and goes on
  gate,  // the compute stream waits until `quorum` members have sent as many messages on channel `index` as
         // this iteration, counted from 1, less the lag
  join   // the compute stream waits for `after_op`, a kernel of another stream, of the same iteration
};
template <>
inline constexpr auto kNames<OpKind> = names<OpKind>({{"kernel", OpKind::kernel},
                                                      {"collective", OpKind::collective},
                                                      {"wait", OpKind::wait},
                                                      {"take_batch", OpKind::take_batch},
                                                      {"synchronize", OpKind::synchronize},
                                                      {"send", OpKind::send},
                                                      {"gate", OpKind::gate},
                                                      {"join", OpKind::join}});

// The part of an iteration that an operation belongs to.
enum class Phase : std::uint8_t {
  forward,
  backward,
  accumulate,  // gradients of a micro-batch into those of the ones before
  exchange,    // between ranks: of gradients; copies into and out of what collectives carry
  update,      // the optimizer
  other,
  compress  // what a communication hook computes
};
template <>
inline constexpr auto kNames<Phase> = names<Phase>({{"forward", Phase::forward},
                                                    {"backward", Phase::backward},
                                                    {"accumulate", Phase::accumulate},
                                                    {"exchange", Phase::exchange},
                                                    {"update", Phase::update},
                                                    {"other", Phase::other},
                                                    {"compress", Phase::compress}});

// What a collective carries.
enum class Payload : std::uint8_t {
  gradients,
  parameters,  // in the precision of the kernels; averaged ones in that of `parameters`
  statistics,  // running mean and variance of batch norms, fp32
  counters,    // batches that a batch norm has seen, int64
  indices,  // int32 per tensor: the order of buckets, which parameters were used; of elements that a hook sends
  packed    // bytes that a hook has made of gradients
};

struct Purpose {
  Phase phase = Phase::other;
  std::uint32_t layer = kNoIndex, bucket = kNoIndex;  // the only one that it is for
  Payload payload = Payload::gradients;               // of a collective
  std::optional<Precision> format{};  // of gradients that are sent in another one than they have in memory
  friend bool operator==(const Purpose&, const Purpose&) = default;
};

// What a collective comes after, beside those issued to its queue before it; or a kernel of another stream than the
// compute stream, beside those issued to that stream before it (op, nothing).
enum class After : std::uint8_t {
  compute,  // all that was issued to the compute stream before it
  op,       // `after_op`, of a stream or a queue, which was issued before it in the same iteration
  nothing,
  decision  // what is decided of it while the run goes (Negotiation)
};

// The host issues the operations in order, each at a cost; a stream can't begin what the host has not issued.
struct Op {
  OpKind kind = OpKind::kernel;
  std::uint32_t index = 0;  // collective, wait: which collective of the iteration; else the channel
  SimTime duration{};       // kernel: undisturbed
  SimTime host_cost{};
  std::string label{};  // for people: only pages and traces read it
  Purpose purpose{};
  std::uint32_t every = 1;  // left out of iterations i unless this divides i; kNoIndex: of all
  std::uint32_t lag = 0;    // wait, gate: iterations that it may be behind
  std::uint32_t queue = 0;  // collective: which of the member's communication queues
  After after = After::compute;
  std::uint32_t after_op = 0;
  std::uint32_t stream = 0;       // kernel: 0: the compute stream; synchronize: which one, or kWholeDevice
  SimTime prepare{}, conclude{};  // collective: its queue is busy so long before it and after it
  SimTime poll{};                 // synchronize: the host looks only so often
  std::uint32_t to = 0;  // send: to the members of its group of this family; to itself it takes no time
  Bytes bytes{};         // send
  std::uint32_t source = kNoIndex;           // send: the member whose memory is read; left out: its own
  std::uint32_t quorum = 1;                  // gate
  std::uint32_t from = 0, until = kNoIndex;  // left out of the iterations before, and from this one on

  bool never_runs() const { return every == kNoIndex; }
  bool runs_in(std::uint32_t iteration) const {
    return iteration >= from && iteration < until &&
           (every == 1 || (iteration % every == 0 && !never_runs()));
  }
  // How many steps of a run that goes on have it once: what comes at its end alone is in none.
  double steps_each() const { return from > 0 ? std::numeric_limits<double>::infinity() : every; }
  friend bool operator==(const Op&, const Op&) = default;
};

inline bool runs_on_compute_stream(const Op& op) {
  return op.kind != OpKind::collective && op.kind != OpKind::take_batch && op.kind != OpKind::synchronize &&
         op.stream == 0;
}
inline bool runs_beside_compute_stream(const Op& op) { return op.kind == OpKind::kernel && op.stream > 0; }

struct Program {
  std::vector<Op> ops;
  std::vector<std::uint32_t> collectives;  // plan of each collective of the iteration, in issue order
  friend bool operator==(const Program&, const Program&) = default;
};

// The collectives that reduce a bucket of gradients, by bucket.
std::vector<std::uint32_t> bucket_collectives(const Program&);

struct InputPipeline {
  SimTime batch_time;
  int prefetch = 1;
  Distribution jitter;
};

// A host thread with its GPU: a compute stream, others beside it, and communication queues. The GPU runs one kernel at
// a time, of those that are ready the one that was so first, then that of the stream with the least number. All kernels
// of an iteration are over when the compute stream has ended it. It counts its own iterations.
struct Thread {
  Program warm_up, steady;  // of iteration 0 and of the others

  const Program& program(std::uint32_t iteration) const { return iteration == 0 ? warm_up : steady; }
};

// What its members do. The first thread of a member is the one whose time is accounted for.
struct Role {
  std::string name = "rank";
  std::vector<Thread> threads{1};
};

struct Member {
  std::uint32_t role = 0;  // of a rank
  DeviceId device;
};

// A message leaves its sender after bytes / rate, and arrives `latency` later. On links that others use too
// it has its fair share of them, up to `rate`.
struct MessageRoute {
  std::uint32_t from = 0, to = 0;  // members
  SimTime latency;
  BytesPerSecond rate;
  std::vector<LinkId> links{};      // numbered in Communicator::shared_capacity
  HopKind kind = HopKind::network;  // of its slowest part
};

// A part of the parameters that a server keeps. Its channel has its number: what workers send there to the server are
// pushes of gradients, each of which is answered with a message of parameters on the same channel.
struct Shard {
  std::uint32_t server = 0;  // member
  std::uint32_t place = 0;   // of the rank that pushes it, among those for which it does
  Bytes answer{};
  SimTime take{};    // how long a push keeps the server busy: summed, or applied (asynchronous)
  SimTime update{};  // and an update, once all pushes that it takes are summed
};

// What servers do with pushes: one after the other, in the order of arrival.
// Synchronous: an update takes `quorum` pushes that were computed from the parameters of the update before, and answers
// them; later ones of the same update are dropped, and answered at once. Asynchronous: each push is applied, and
// answered when every worker has pushed the shard at most `staleness` times less often.
struct Serving {
  static constexpr std::uint32_t kAnyStaleness = kNoIndex;

  std::vector<Shard> shards;   // by channel
  std::uint32_t workers = 0;   // that push each shard
  std::uint32_t together = 1;  // consecutive ranks of which one pushes for all
  bool synchronous = true;
  std::uint32_t quorum = 1;
  std::uint32_t staleness = kAnyStaleness;
  Bytes
      window{};  // what a worker has on its way at once, of the messages that wait those of front layers first; 0: all

  bool empty() const { return shards.empty(); }
  // Who pushes for a rank.
  std::uint32_t worker_of(std::uint32_t rank, std::uint32_t shard) const {
    return rank - rank % together + shards[shard].place;
  }
};

// A tensor whose reduction is decided while the run goes.
struct QueuedTensor {
  std::uint32_t after_op =
      0;  // of the main program: queued when the host has issued this kernel, which makes it
  Bytes bytes;
  Precision type = Precision::fp32;
};

// How what was decided is reduced: by one all-reduce, or in stages. Those: each node reduces and scatters, and gathers
// in the end; between, the same GPU of every node reduces its part, on GPUs or on their hosts, where the background
// thread copies it, waits for it, and issues the rest when it is back.
enum class ReducedBy : std::uint8_t { one_all_reduce, stages_on_gpus, stages_on_hosts };

// Between a rank's GPU and its host's memory.
struct HostCopy {
  DeviceId gpu, host;
  BytesPerSecond to_host, to_gpu;
  SimTime latency;
};

// Horovod's controller. Each rank has a background thread that begins a cycle `cycle` after the one before, or when
// that has ended: it agrees with all others on the tensors that every rank has queued, `cost` after the last of them
// asked; then it issues their fusions (sim/collective/fusion.h), one after the other. A fusion runs on queue 0
// when it is issued and its tensors exist; one of several tensors is copied into a buffer before it and out of it
// after it. The n-th of an iteration is collective n of the main program (After::decision), which has one for
// each tensor; those that are left over are nothing.
struct Negotiation {
  std::vector<QueuedTensor> tensors;  // in the order in which hosts queue them
  Bytes threshold;
  SimTime cycle, cost, first_cost;                   // first: until all tensors have been reduced once
  SimTime launch, copy_launch;                       // of a collective, of each copy
  bool waits_for_data = false;                       // a background thread issues nothing before it exists
  GpuCosts costs;                                    // of copies
  std::shared_ptr<const CollectivePlanner> planner;  // of collectives of GPUs; copied by each run
  ReducedBy reduced_by = ReducedBy::one_all_reduce;
  std::uint32_t in_node = 0, across = 0;             // in stages: families
  std::shared_ptr<const CollectivePlanner> hosts{};  // on hosts: of their all-reduces
  std::vector<HostCopy> copies{};                    // by rank
};

struct TrainingJob {
  std::vector<Role> roles{1};
  std::vector<Member> members;  // ranks first, then servers; empty: every rank plays the first role
  std::vector<Family> families;
  std::vector<MessageRoute> routes;  // by from, then to: of all pairs that messages take
  Communicator communicator;
  std::vector<CollectivePlan> plans;
  Serving serving;  // not empty: each rank counts iterations of its own
  std::optional<Negotiation> negotiation;
  std::optional<InputPipeline> input;
  VariabilitySpec variability;
  Slowdown slowdown;
  int host_runs_ahead = 1;
  bool one_process =
      false;  // whose main thread issues to all ranks: their hosts begin an iteration, and take a batch,
              // together
  std::uint32_t workers =
      0;  // a thread's collectives that run at once, begun in the order of their issue; 0: one
          // of each queue, whatever the others do
  std::int64_t samples_per_iteration = 0;  // of all ranks
  std::vector<std::uint32_t> batches;      // by rank: iterations in which it has samples; empty: in all

  std::size_t ranks() const { return communicator.ranks; }
  std::size_t member_count() const { return members.empty() ? ranks() : members.size(); }
  std::uint32_t role_of(std::size_t member) const { return members.empty() ? 0 : members[member].role; }
  // What every rank does where there is one role.
  Thread& main() { return roles.front().threads.front(); }
  const Thread& main() const { return roles.front().threads.front(); }
  const Program& program(Rank rank, std::uint32_t iteration) const {
    return roles[role_of(rank.index())].threads.front().program(iteration);
  }
};

// The programs as text, one operation a line.
void print(const TrainingJob&, std::ostream&);

}  // namespace paceline
