#include "sim/engine/servers.h"

#include <algorithm>
#include <utility>

namespace paceline {

Servers::Servers(const TrainingJob& job)
    : serving_(job.serving),
      ranks_(job.ranks()),
      servers_(job.serving.empty() ? 0 : job.member_count() - job.ranks()),
      shards_(job.serving.shards.size()),
      workers_(shards_.size() * ranks_) {
  if (!serving_.synchronous && serving_.staleness != Serving::kAnyStaleness) {
    for (ShardState& shard : shards_) {
      shard.pushed.push_back(serving_.workers);
    }
  }
}

// Computed from parameters that an update has replaced.
bool Servers::stale(const Push& push) const {
  return serving_.synchronous &&
         workers_[place(push.shard, push.from)].version != shards_[push.shard].version;
}

SimTime Servers::begin(Server& server) {
  const Push& push = server.waiting.front();
  return stale(push) ? SimTime{} : serving_.shards[push.shard].take;
}

std::optional<SimTime> Servers::arrive(std::uint32_t shard, std::uint32_t from, SimTime now) {
  Server& server = servers_[serving_.shards[shard].server - ranks_];
  workers_[place(shard, from)].held = {now, kNever};
  server.waiting.push_back({shard, from});
  return server.waiting.size() == 1 ? std::optional(begin(server)) : std::nullopt;
}

std::optional<SimTime> Servers::finish(std::uint32_t member, SimTime now, std::vector<Answer>& answers) {
  Server& server = servers_[member - ranks_];
  const Push push = server.waiting.front();
  ShardState& shard = shards_[push.shard];
  if (std::exchange(server.updates, false)) {
    ++shard.version;
    ++served_.updates;
    shard.summed = 0;
    answer_all(push.shard, now, answers);
  } else {
    take(push, now, answers);
    if (serving_.synchronous && shard.summed == serving_.quorum) {
      server.updates = true;
      return serving_.shards[push.shard].update;
    }
  }
  server.waiting.pop_front();
  return server.waiting.empty() ? std::nullopt : std::optional(begin(server));
}

void Servers::take(const Push& push, SimTime now, std::vector<Answer>& answers) {
  ShardState& shard = shards_[push.shard];
  Worker& worker = workers_[place(push.shard, push.from)];
  Served::Round& round = worker.pushes == 0 ? served_.first : served_.later;
  ++worker.pushes;
  ++round.pushes;
  if (stale(push)) {
    ++round.dropped;
    answer(push.shard, push.from, now, answers);
    return;
  }
  const std::uint32_t behind = shard.version - worker.version;
  round.staleness.resize(std::max<std::size_t>(round.staleness.size(), behind + 1));
  ++round.staleness[behind];
  if (serving_.synchronous) {
    ++shard.summed;
    shard.answered.push_back(push.from);
    return;
  }
  ++shard.version;
  ++served_.updates;
  if (!shard.pushed.empty()) {
    const std::uint32_t ahead = worker.pushes - shard.slowest;
    shard.pushed.resize(std::max<std::size_t>(shard.pushed.size(), ahead + 1));
    --shard.pushed[ahead - 1];
    ++shard.pushed[ahead];
  }
  if (too_far_ahead(shard, worker)) {
    shard.answered.push_back(push.from);
    served_.held_back += shard.pushed.front() > 0 ? 1 : 0;
  } else {
    answer(push.shard, push.from, now, answers);
  }
  // Nobody is further ahead than who waits, so all that wait are answered when the slowest has come on.
  if (!shard.pushed.empty() && shard.pushed.front() == 0) {
    shard.pushed.pop_front();
    ++shard.slowest;
    answer_all(push.shard, now, answers);
  }
}

bool Servers::too_far_ahead(const ShardState& shard, const Worker& worker) const {
  return !shard.pushed.empty() && worker.pushes - shard.slowest > serving_.staleness;
}

void Servers::answer(std::uint32_t shard, std::uint32_t worker, SimTime now, std::vector<Answer>& answers) {
  Worker& answered = workers_[place(shard, worker)];
  answered.version = shards_[shard].version;
  answered.held.to = now;
  answers.push_back({shard, worker});
}

void Servers::answer_all(std::uint32_t shard, SimTime now, std::vector<Answer>& answers) {
  for (const std::uint32_t worker : shards_[shard].answered) {
    answer(shard, worker, now, answers);
  }
  shards_[shard].answered.clear();
}

}  // namespace paceline
