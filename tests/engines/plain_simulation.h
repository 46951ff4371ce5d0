// A job with members, messages and gates, simulated in the most obvious way: at each instant everybody is asked
// again and again whether it can go on, until nobody can; then the next instant comes. Collectives are meetings
// (tests/meetings.h): over for all members of the group when the plan's latency has passed since the last launch.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/engine/variability.h"
#include "sim/job.h"

namespace paceline {

class PlainSimulation {
 public:
  using Spans = std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t>, std::pair<SimTime, SimTime>>;

  PlainSimulation(const TrainingJob& job, const RunSpec& run)
      : job_(job),
        last_(static_cast<std::uint32_t>(run.iterations)),
        factors_(job.variability, job.ranks(), run.seed) {
    for (std::uint32_t m = 0; m < job.ranks(); ++m) {
      for (const Thread& thread : job.roles[job.role_of(m)].threads) {
        threads_.push_back({m, &thread, &thread == &job.roles[job.role_of(m)].threads.front()});
      }
    }
  }

  // Start and end of what each rank's compute stream and queues did, by rank, iteration and operation.
  Spans run() {
    const auto goes_on = [this](const State& t) { return t.first && !over(t); };
    while (std::ranges::any_of(threads_, goes_on)) {
      for (bool moved = true; moved;) {
        moved = false;
        for (State& t : threads_) {
          moved = host(t) || stream(t) || queues(t) || moved;
        }
        for (std::uint32_t server = static_cast<std::uint32_t>(job_.ranks()); server < job_.member_count();
             ++server) {
          moved = serve(server) || moved;
        }
      }
      SimTime next = kNever;
      for (const SimTime at : times_) {
        next = at > now_ ? std::min(next, at) : next;
      }
      std::erase_if(times_, [&](SimTime at) { return at <= now_; });
      if (next == kNever) {
        break;
      }
      now_ = next;
    }
    return std::ranges::any_of(threads_, goes_on) ? Spans{} : spans_;  // or all wait for ever
  }

 private:
  struct Place {
    std::uint32_t iteration = 0;
    std::size_t op = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Queue {
    Place at;  // the operation, a collective of this queue or not
    bool launched = false;
  };
  struct State {
    std::uint32_t member = 0;
    const Thread* thread = nullptr;
    bool first = true;
    Place host{}, stream{};
    std::optional<SimTime> issued{}, kernel_end{}, waits_since{};
    std::map<std::uint32_t, Queue> queues{};
  };
  struct Mail {
    SimTime at;
    std::uint32_t from = 0;
    bool taken = false;
  };
  struct Busy {
    SimTime until;
    std::uint32_t shard = 0, from = 0;
    bool updates = false;
  };
  struct Shards {
    std::uint32_t version = 0;
    std::vector<std::uint32_t> summed, waiting;           // who
    std::map<std::uint32_t, std::uint32_t> read, pushed;  // by worker: the version that it has, its pushes
  };
  struct Meeting {
    std::size_t launched = 0;
    SimTime begin{}, end = kNever;
  };

  bool endless() const { return !job_.serving.empty(); }
  bool over(const State& t) const {
    return t.stream.iteration > last_ && std::ranges::all_of(t.queues, [this](const auto& queue) {
             return queue.second.at.iteration > last_;
           });
  }
  const Op& op(const State& t, Place at) const { return t.thread->program(at.iteration).ops[at.op]; }
  Place after(const State& t, Place at) const {
    return at.op + 1 < t.thread->program(at.iteration).ops.size() ? Place{at.iteration, at.op + 1}
                                                                  : Place{at.iteration + 1, 0};
  }
  SimTime until(SimTime at) {
    times_.push_back(at);
    return at;
  }

  bool host(State& t) {
    if (t.issued) {
      if (*t.issued > now_) {
        return false;
      }
      t.issued.reset();
      t.host = after(t, t.host);
      return true;
    }
    const auto ahead = static_cast<std::uint32_t>(job_.host_runs_ahead);
    if ((!endless() && t.host.iteration > last_) || (t.host.op == 0 && done(t) + ahead < t.host.iteration)) {
      return false;
    }
    const bool runs = op(t, t.host).runs_in(t.host.iteration);
    if (runs && op(t, t.host).kind == OpKind::synchronize && t.stream < t.host) {
      return false;
    }
    if (runs) {
      t.issued = until(now_ + op(t, t.host).host_cost);
    } else {
      t.host = after(t, t.host);
    }
    return true;
  }

  // Iterations whose last operation of the compute stream is over.
  std::uint32_t done(const State& t) const {
    const std::vector<Op>& ops = t.thread->program(t.stream.iteration).ops;
    std::size_t last = ops.size();
    while (last-- > 0 && !runs_on_compute_stream(ops[last])) {
    }
    return t.stream.iteration + (t.stream.op > last ? 1 : 0);
  }

  bool stream(State& t) {
    if ((!endless() && t.stream.iteration > last_) || !(t.stream < t.host)) {
      return false;
    }
    const Op& next = op(t, t.stream);
    if (next.runs_in(t.stream.iteration)) {
      if (next.kind == OpKind::kernel && !t.kernel_end) {
        const double factor =
            t.member < job_.ranks() ? factors_.rank_factor(Rank(t.member), t.stream.iteration) : 1;
        t.kernel_end = until(now_ + disturbed(next.duration, factor, 1));
        t.waits_since = now_;
        return true;
      }
      if (!t.waits_since) {
        t.waits_since = now_;
      }
      if (!passes(t, next)) {
        return false;
      }
      if (next.kind != OpKind::collective && next.kind != OpKind::send && t.first &&
          t.member < job_.ranks()) {
        spans_[{t.member, t.stream.iteration, t.stream.op}] = {*t.waits_since, now_};
      }
    }
    t.kernel_end.reset();
    t.waits_since.reset();
    t.stream = after(t, t.stream);
    return true;
  }

  bool passes(State& t, const Op& next) {
    switch (next.kind) {
      case OpKind::kernel:
        return *t.kernel_end <= now_;
      case OpKind::wait:
        return t.stream.iteration < next.lag || met(t, t.stream.iteration - next.lag, next.index);
      case OpKind::send:
        for (const std::uint32_t to : group(next.to, t.member)) {
          post(t.member, to, next.index, next.bytes);
        }
        return true;
      case OpKind::gate: {
        std::map<std::uint32_t, std::uint32_t> sent;
        for (const Mail& one : mail_[{t.member, next.index}]) {
          sent[one.from] += one.at <= now_ ? 1 : 0;
        }
        std::vector<std::uint32_t> counts;
        for (const auto& [from, count] : sent) {
          counts.push_back(count);
        }
        std::ranges::sort(counts, std::ranges::greater{});
        const std::uint32_t reached = counts.size() < next.quorum ? 0 : counts[next.quorum - 1];
        return reached + next.lag >= t.stream.iteration + 1;
      }
      case OpKind::collective:
      case OpKind::take_batch:
      case OpKind::synchronize:
        return true;
    }
    return true;
  }

  void post(std::uint32_t from, std::uint32_t to, std::uint32_t channel, Bytes bytes) {
    for (const MessageRoute& route : job_.routes) {
      if (route.from == from && route.to == to) {
        const Seconds takes(static_cast<double>(bytes.value) / route.rate.value);
        mail_[{to, channel}].push_back({until(now_ + route.latency + to_sim_time(takes)), from});
      }
    }
    if (from == to) {
      mail_[{to, channel}].push_back({now_, from});
    }
  }

  // One push after the other, the oldest first.
  bool serve(std::uint32_t server) {
    std::optional<Busy>& busy = busy_[server];
    if (busy) {
      if (busy->until > now_) {
        return false;
      }
      const Busy done = *busy;
      busy.reset();
      done.updates ? update(done) : take(server, done);
      return true;
    }
    Mail* oldest = nullptr;
    std::uint32_t of = 0;
    for (std::uint32_t shard = 0; shard < job_.serving.shards.size(); ++shard) {
      for (Mail& one : mail_[{server, shard}]) {
        if (!one.taken && one.at <= now_ && (oldest == nullptr || one.at < oldest->at)) {
          oldest = &one;
          of = shard;
        }
      }
    }
    if (oldest != nullptr) {
      oldest->taken = true;
      const SimTime takes = fresh(of, oldest->from) ? job_.serving.shards[of].take : SimTime{};
      busy = Busy{until(now_ + takes), of, oldest->from};
    }
    return oldest != nullptr;
  }
  bool fresh(std::uint32_t shard, std::uint32_t from) {
    return !job_.serving.synchronous || shards_[shard].read[from] == shards_[shard].version;
  }
  void answer(std::uint32_t shard, std::uint32_t worker) {
    shards_[shard].read[worker] = shards_[shard].version;
    post(job_.serving.shards[shard].server, worker, shard, job_.serving.shards[shard].answer);
  }
  void update(const Busy& done) {
    Shards& shard = shards_[done.shard];
    ++shard.version;
    for (const std::uint32_t worker : std::exchange(shard.summed, {})) {
      answer(done.shard, worker);
    }
  }
  void take(std::uint32_t server, const Busy& done) {
    Shards& shard = shards_[done.shard];
    const Serving& serving = job_.serving;
    ++shard.pushed[done.from];
    if (!serving.synchronous) {
      ++shard.version;
      shard.waiting.push_back(done.from);
      const auto least = [&] {
        std::uint32_t fewest = shard.pushed.size() < serving.workers ? 0 : shard.pushed.begin()->second;
        for (const auto& [worker, pushes] : shard.pushed) {
          fewest = std::min(fewest, pushes);
        }
        return fewest;
      }();
      for (const std::uint32_t worker : std::exchange(shard.waiting, {})) {
        shard.pushed[worker] - least <= serving.staleness ? answer(done.shard, worker)
                                                          : shard.waiting.push_back(worker);
      }
    } else if (!fresh(done.shard, done.from)) {
      answer(done.shard, done.from);
    } else {
      shard.summed.push_back(done.from);
      if (shard.summed.size() == serving.quorum) {
        busy_[server] = Busy{until(now_ + serving.shards[done.shard].update), done.shard, done.from, true};
      }
    }
  }

  std::vector<std::uint32_t> group(std::uint32_t family, std::uint32_t member) const {
    if (family != kWorld) {
      return job_.families[family].groups[job_.families[family].group_of[member]];
    }
    std::vector<std::uint32_t> all(job_.ranks());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  Meeting& meeting(const State& t, std::uint32_t iteration, std::uint32_t number) {
    const std::uint32_t family = job_.plans[t.thread->program(iteration).collectives[number]].family;
    return meetings_[{family, group(family, t.member).front(), iteration, number}];
  }
  bool met(const State& t, std::uint32_t iteration, std::uint32_t number) {
    const SimTime end = meeting(t, iteration, number).end;
    const auto& ops = t.thread->program(iteration).ops;
    const auto op = std::ranges::find_if(
        ops, [number](const Op& each) { return each.kind == OpKind::collective && each.index == number; });
    return end < kNever && until(end + op->conclude) <= now_;
  }

  bool queues(State& t) {
    bool moved = false;
    for (const Program* program : {&t.thread->warm_up, &t.thread->steady}) {
      for (const Op& each : program->ops) {
        if (each.kind == OpKind::collective) {
          t.queues.try_emplace(each.queue);
        }
      }
    }
    for (auto& [number, queue] : t.queues) {
      while (queue.at.iteration <= last_) {
        const Op& next = op(t, queue.at);
        if (next.kind == OpKind::collective && next.queue == number && next.runs_in(queue.at.iteration)) {
          if (!queue.launched && may_launch(t, queue.at, next)) {
            launch(t, queue, next);
            moved = true;
          }
          if (!queue.launched || !met(t, queue.at.iteration, next.index)) {
            break;
          }
          spans_[{t.member, queue.at.iteration, queue.at.op}].second = now_;
          queue.launched = false;
          moved = true;
        }
        queue.at = after(t, queue.at);
      }
    }
    return moved;
  }

  bool may_launch(State& t, Place at, const Op& next) {
    if (!(at < t.host)) {
      return false;
    }
    if (next.after == After::op) {
      const Op& before = op(t, {at.iteration, next.after_op});
      return before.kind == OpKind::collective ? met(t, at.iteration, before.index)
                                               : Place{at.iteration, next.after_op} < t.stream;
    }
    return next.after == After::nothing || at < t.stream;
  }

  void launch(State& t, Queue& queue, const Op& next) {
    queue.launched = true;
    spans_[{t.member, queue.at.iteration, queue.at.op}].first = now_;
    Meeting& at = meeting(t, queue.at.iteration, next.index);
    const CollectivePlan& plan = job_.plans[t.thread->program(queue.at.iteration).collectives[next.index]];
    at.begin = std::max(at.begin, now_ + next.prepare);
    if (++at.launched == group(plan.family, t.member).size()) {
      at.end = at.begin + plan.hops.front().latency;
    }
  }

  const TrainingJob& job_;
  std::uint32_t last_;
  Variability factors_;
  SimTime now_;
  std::vector<State> threads_;
  std::vector<SimTime> times_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Mail>> mail_;  // by member, channel
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>, Meeting> meetings_;
  std::map<std::uint32_t, std::optional<Busy>> busy_;  // by server
  std::map<std::uint32_t, Shards> shards_;
  Spans spans_;
};

}  // namespace paceline
