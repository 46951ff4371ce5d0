// Parameter servers: pushes that wait their turn, updates, and who is answered when (Serving, sim/job.h). Without a
// clock: told when a push arrives and when a server has done what it was busy with.
//
// Sources: TensorFlow SyncReplicasOptimizer and ConditionalAccumulator (fresh and stale gradients); Petuum Bosen
// ssp_consistency_controller.cpp (a read waits for the slowest clock); docs/model.md, "Parameter servers".
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/job.h"

namespace paceline {

class Servers {
 public:
  struct Answer {
    std::uint32_t shard = 0, to = 0;
  };
  // From the arrival of a worker's last push of a shard to the answer.
  struct Held {
    SimTime from, to;
  };

  explicit Servers(const TrainingJob&);

  // A push has arrived at its server. Returns how long that is busy with it, if it was idle.
  std::optional<SimTime> arrive(std::uint32_t shard, std::uint32_t from, SimTime now);
  // A server has done what it was busy with. Appends whom it answers, in the order of their pushes; returns how
  // long it is busy with what comes next.
  std::optional<SimTime> finish(std::uint32_t server, SimTime now, std::vector<Answer>&);

  Held held(std::uint32_t shard, std::uint32_t worker) const { return workers_[place(shard, worker)].held; }
  const Served& served() const { return served_; }

 private:
  struct Push {
    std::uint32_t shard = 0, from = 0;
  };
  struct Server {
    std::deque<Push> waiting;  // the first is the one that it is busy with
    bool updates = false;      // it is busy with the update that the first has completed
  };
  struct ShardState {
    std::uint32_t version = 0;            // updates
    std::uint32_t summed = 0;             // pushes of the coming update
    std::vector<std::uint32_t> answered;  // not yet: who waits for an answer
    std::uint32_t slowest = 0;            // pushes of who has pushed least often
    std::deque<std::uint32_t> pushed;     // [n]: how many workers have pushed n times more often than that
  };
  struct Worker {  // of a shard
    std::uint32_t version = 0, pushes = 0;
    Held held;
  };

  std::size_t place(std::uint32_t shard, std::uint32_t worker) const { return shard * ranks_ + worker; }
  bool stale(const Push&) const;
  SimTime begin(Server&);
  void take(const Push&, SimTime now, std::vector<Answer>&);
  void answer(std::uint32_t shard, std::uint32_t worker, SimTime now, std::vector<Answer>&);
  void answer_all(std::uint32_t shard, SimTime now, std::vector<Answer>&);
  bool too_far_ahead(const ShardState&, const Worker&) const;

  const Serving& serving_;
  std::size_t ranks_;
  std::vector<Server> servers_;  // by member, less the ranks
  std::vector<ShardState> shards_;
  std::vector<Worker> workers_;  // [shard * ranks + worker]
  Served served_;
};

}  // namespace paceline
