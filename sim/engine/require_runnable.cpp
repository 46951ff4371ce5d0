#include "sim/engine/require_runnable.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "core/error.h"
#include "sim/engine/program_layout.h"

namespace paceline {
namespace {

void require(bool holds, const std::string& what) {
  if (!holds) {
    throw InputError("expected a job " + what, "/training");
  }
}

class Check {
 public:
  explicit Check(const TrainingJob& job) : job_(job) {}

  void members() const {
    require(job_.member_count() >= job_.ranks(), "that has its ranks among its members");
    for (std::size_t r = 0; r < job_.ranks(); ++r) {
      require(job_.role_of(r) < job_.roles.size(), "whose ranks play roles that it has");
    }
    for (const Family& family : job_.families) {
      require(family.group_of.size() >= job_.ranks(), "whose families know the group of each rank");
    }
    for (const MessageRoute& route : job_.routes) {
      for (const LinkId link : route.links) {
        require(link.index() < job_.communicator.shared_capacity.size(),
                "whose routes cross links that it has");
      }
    }
  }

  void serving() const {
    const Serving& serving = job_.serving;
    for (const Shard& shard : serving.shards) {
      require(shard.server >= job_.ranks() && shard.server < job_.member_count(),
              "whose shards are kept by servers that it has");
    }
    require(serving.empty() || (serving.quorum > 0 && serving.quorum <= serving.workers),
            "whose updates take pushes of some of its workers");
  }

  void roles() {
    for (std::uint32_t r = 0; r < job_.roles.size(); ++r) {
      require(!job_.roles[r].threads.empty(), "whose roles have threads");
      for (const Thread& thread : job_.roles[r].threads) {
        const bool accounted = &thread == &job_.roles[r].threads.front();
        for (const Program* program : {&thread.warm_up, &thread.steady}) {
          this->program(r, thread, *program, accounted);
        }
      }
    }
  }

 private:
  void program(std::uint32_t role, const Thread& thread, const Program& program, bool accounted) {
    require(std::ranges::any_of(program.ops, runs_on_compute_stream),
            "whose programs have operations of the compute stream");
    require(accounted || program.collectives.empty(),
            "whose collectives are the ranks', on their first thread");
    std::vector<const Op*> collectives;
    for (const Op& op : program.ops) {
      if (op.kind == OpKind::collective) {
        collectives.push_back(&op);
      }
    }
    std::size_t issued = 0;  // collectives
    std::vector<std::uint32_t> joined;
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      const Op& op = program.ops[i];
      require(op.every > 0, "whose operations are in some iterations");
      require(op.lag == 0 || op.kind != OpKind::wait || op.index >= collectives.size() ||
                  collectives[op.index]->from == 0,
              "whose waits look back to collectives that were there from the beginning");
      switch (op.kind) {
        case OpKind::collective:
          require(op.index == issued && op.index < program.collectives.size(),
                  "whose collectives are numbered in the order of their issue");
          collective(program, i);
          ++issued;
          break;
        case OpKind::wait:
          require(op.index < (op.lag == 0 ? issued : collectives.size()),
                  "whose waits are for collectives that were issued before");
          require(only_with(op, *collectives[op.index]) && op.lag % collectives[op.index]->every == 0,
                  "whose waits are in iterations that have their collective");
          require(op.lag == 0 || op.index < thread.warm_up.collectives.size(),
                  "whose waits look back to collectives that the warm-up has");
          break;
        case OpKind::send:
          message(role, op);
          break;
        case OpKind::take_batch:
          require(accounted && job_.input, "whose batches are taken by ranks, of a loader");
          break;
        case OpKind::kernel:
          beside(program, static_cast<std::uint32_t>(i));
          break;
        case OpKind::join:
          require(op.after_op < i && runs_beside_compute_stream(program.ops[op.after_op]) &&
                      only_with(op, program.ops[op.after_op]),
                  "whose joins are of kernels beside the compute stream that were issued before");
          joined.push_back(op.after_op);
          break;
        case OpKind::synchronize:
        case OpKind::gate:
          break;
      }
    }
    all_joined(program, joined);
    require(collectives.size() == program.collectives.size(), "whose plans are those of its collectives");
    require(job_.serving.empty() || collectives.empty(),
            "without collectives, as its workers are each in an iteration of their own");
  }

  // Every kernel beside the compute stream is over when a join is, so that the iteration ends with all of them.
  static void all_joined(const Program& program, const std::vector<std::uint32_t>& joined) {
    std::vector<bool> over(program.ops.size());
    for (std::optional<std::uint32_t> at : joined) {
      for (; at && !over[*at]; at = predecessor(program, *at)) {
        over[*at] = true;
      }
    }
    std::map<std::uint32_t, std::size_t> last;
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      if (runs_beside_compute_stream(program.ops[i])) {
        last[program.ops[i].stream] = i;
      }
    }
    for (const auto& [stream, kernel] : last) {
      require(over[kernel], "whose compute stream waits for the last kernel of every other stream");
    }
  }

  // Whether an operation can't begin before the compute stream has come to its iteration.
  static bool in_own_iteration(const Program& program, std::uint32_t i) {
    std::optional<std::uint32_t> at = i;
    while (const std::optional<std::uint32_t> before = predecessor(program, *at)) {
      at = before;
    }
    const Op& first = program.ops[*at];
    return runs_on_compute_stream(first) ||
           (first.kind == OpKind::collective && first.after == After::compute);
  }

  static void beside(const Program& program, std::uint32_t i) {
    const Op& op = program.ops[i];
    if (op.stream == 0) {
      return;
    }
    require(op.after == After::nothing || op.after == After::op,
            "whose kernels beside the compute stream come after an operation, or nothing");
    if (op.after == After::op) {
      constexpr const char* kIssued =
          "whose kernels come after operations of a stream or a queue that were issued before them";
      require(op.after_op < i, kIssued);
      const Op& before = program.ops[op.after_op];
      require(
          before.kind != OpKind::take_batch && before.kind != OpKind::synchronize && only_with(op, before),
          kIssued);
    }
    require(in_own_iteration(program, i),
            "whose kernels beside the compute stream come after it in their iteration");
  }

  void collective(const Program& program, std::size_t i) {
    const Op& op = program.ops[i];
    if (op.after == After::op) {
      require(op.after_op < i, "whose collectives come after operations that were issued before them");
      const Op& before = program.ops[op.after_op];
      require(
          before.kind != OpKind::take_batch && before.kind != OpKind::synchronize && only_with(op, before),
          "whose collectives come after operations of a stream or a queue, in all iterations that have them");
    }
    const std::uint32_t number = program.collectives[op.index];
    require(number < job_.plans.size(), "whose collectives have plans");
    const CollectivePlan& plan = job_.plans[number];
    require(plan.family == kWorld || plan.family < job_.families.size(),
            "whose plans are for families that it has");
    if (job_.ranks() > 1) {
      require(plan.graph < job_.communicator.graphs.size(), "whose plans run on graphs that it has");
      const auto [at, added] = queue_of_graph_.try_emplace(plan.graph, op.queue);
      require(at->second == op.queue, "each of whose graphs belongs to one queue");
    }
  }

  bool is_answered(std::uint32_t channel, std::uint32_t to) const {
    return to < job_.ranks() || job_.serving.empty() ||
           (channel < job_.serving.shards.size() && job_.serving.shards[channel].server == to);
  }

  void message(std::uint32_t role, const Op& op) const {
    require(op.to == kWorld || op.to < job_.families.size(), "whose messages are for families that it has");
    require(op.source == kNoIndex || op.source < job_.member_count(),
            "whose messages are read from its members");
    for (std::size_t m = 0; op.to != kWorld && m < job_.ranks(); ++m) {
      const Family& family = job_.families[op.to];
      const bool sends = job_.role_of(m) == role;
      require(!sends || (m < family.group_of.size() && family.group_of[m] != kNoIndex),
              "whose senders have the group that they send to");
      require(!sends || std::ranges::all_of(family.groups[family.group_of[m]],
                                            [&](std::uint32_t to) { return is_answered(op.index, to); }),
              "whose servers are sent what they serve");
    }
  }

  const TrainingJob& job_;
  std::map<std::uint32_t, std::uint32_t> queue_of_graph_;
};

}  // namespace

void require_runnable(const TrainingJob& job) {
  Check check(job);
  check.members();
  check.serving();
  check.roles();
}

}  // namespace paceline
