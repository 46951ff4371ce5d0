#include "sim/strategy/join.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/error.h"
#include "sim/strategy/buffers.h"
#include "sim/strategy/ddp.h"

namespace paceline {

std::uint32_t JoinContext::all_reduce(ProgramBuilder& b, Payload payload, Bytes bytes, const char* label) {
  b.move(bytes, {Phase::exchange}, "fill");
  return b.collective({CollectiveKind::all_reduce, bytes}, {.phase = Phase::exchange, .payload = payload},
                      label);
}

void JoinContext::wait_on_host(ProgramBuilder& b, std::uint32_t collective) {
  b.wait(collective);
  b.synchronize();
}

void JoinContext::notify(ProgramBuilder& b) {
  if (input_) {
    const std::uint32_t flag = all_reduce(b, Payload::statistics, Bytes(4), "all_reduce join");
    in(b, input_->batches, [&] { wait_on_host(b, flag); });
  }
}

void JoinContext::agree_on_rank(ProgramBuilder& b) {
  if (input_) {
    wait_on_host(b, all_reduce(b, Payload::counters, Bytes(8), "all_reduce rank"));
  }
}

void JoinContext::fill_zeros(ProgramBuilder& b, std::span<const Bytes> buckets) {
  if (input_) {
    in(b, input_->batches, [&] {
      for (std::uint32_t i = 0; i < buckets.size(); ++i) {
        b.copy(buckets[i], 1, i, "zeros of bucket " + std::to_string(i));
      }
    });
  }
}

void JoinContext::broadcast_model(ProgramBuilder& b, const Workload& work) {
  if (!input_) {
    return;
  }
  constexpr std::int64_t kPiece = 250 << 20;
  in(b, input_->steps - 1, [&] {
    wait_on_host(b, all_reduce(b, Payload::statistics, Bytes(4), "all_reduce join"));
    agree_on_rank(b);
    Bytes all(parameter_count(work.model) * bytes_per_element(work.training.parameters));
    std::vector<Buffers> others;
    for (const Buffers& each : buffers_of(work.model)) {  // what has the parameters' type goes with them
      if (each.what == Payload::statistics && same_format(work.training.parameters, Precision::fp32)) {
        all = all + each.bytes;
      } else {
        others.push_back(each);
      }
    }
    b.move(2 * all, {Phase::exchange}, "flatten the model");
    std::vector<std::uint32_t> pieces;
    for (std::int64_t sent = 0; sent < all.value; sent += kPiece) {
      pieces.push_back(b.collective({CollectiveKind::broadcast, Bytes(std::min(kPiece, all.value - sent))},
                                    {.phase = Phase::exchange, .payload = Payload::parameters},
                                    "broadcast the model"));
    }
    for (const Buffers& each : others) {
      pieces.push_back(b.collective({CollectiveKind::broadcast, each.bytes},
                                    {.phase = Phase::exchange, .payload = each.what}, "broadcast buffers"));
    }
    for (const std::uint32_t each : pieces) {
      b.wait(each);
    }
    b.copy(2 * all, parameter_tensors(work.model), kNoIndex, "copy the model back");
  });
}

Program JoinContext::limited(Program program) const {
  for (const Range& range : ranges_) {
    for (std::size_t i = range.first; i < range.end; ++i) {
      program.ops[i].from = range.from;
      program.ops[i].until = range.until;
    }
  }
  return program;
}

void require_no_join(const TrainingSpec& training) {
  if (training.ddp.join) {
    throw InputError(
        "expected the strategy ddp, whose ranks join, found " + std::string(name_of(training.strategy)),
        "/training/ddp/join");
  }
}

namespace {

// Iterations of the longest.
std::uint32_t require_joinable(const DdpSpec& ddp, const TrainingSpec& training, std::size_t ranks) {
  const std::string place = "/training/ddp/join";
  const std::vector<std::int64_t>& batches = ddp.join->batches;
  const auto refuse = [&](bool holds, const std::string& expected, const std::string& found) {
    if (holds) {
      throw InputError("expected " + expected + ", found " + found, place);
    }
  };
  if (batches.size() != ranks) {
    throw InputError("expected one number for each of " + std::to_string(ranks) + " GPUs, found " +
                         std::to_string(batches.size()),
                     place + "/batches");
  }
  const std::int64_t longest = std::ranges::max(batches);
  if (longest < 2) {
    throw InputError("expected a GPU with 2 batches or more, found 1 on each: the first is the warm-up",
                     place + "/batches");
  }
  refuse(training.accumulation > 1, "accumulation 1", std::to_string(training.accumulation));
  refuse(!training.batches.empty() || training.balance.has_value(), "batches of one size",
         "GPUs with batches of their own");
  refuse(ddp.reduction != Reduction::pytorch_ddp && ddp.reduction != Reduction::unknown,
         "pytorch_ddp, whose ranks join", std::string(name_of(ddp.reduction)));
  const Precision wire = ddp.wire.value_or(training.gradients);
  refuse(!same_format(wire, training.gradients), "no other format on the wire",
         "gradients in " + std::string(name_of(wire)));
  return static_cast<std::uint32_t>(longest);
}

}  // namespace

void add_join_programs(const DdpSpec& ddp, const MixedWork& mixed, PlanTable& plans, TrainingJob& job) {
  const std::uint32_t ranks = plans.layout().ranks();
  const std::uint32_t steps = require_joinable(ddp, mixed.works.front().training, ranks);
  constexpr std::size_t kMostRoles = 1000;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> known;  // by work and batches
  job.roles.clear();
  for (std::uint32_t r = 0; r < ranks; ++r) {
    const auto batches = static_cast<std::uint32_t>(ddp.join->batches[r]);
    const auto [at, added] =
        known.try_emplace({mixed.of(r), batches}, static_cast<std::uint32_t>(job.roles.size()));
    if (added) {
      if (job.roles.size() == kMostRoles) {
        throw InputError("expected at most " + std::to_string(kMostRoles) + " different numbers, found more",
                         "/training/ddp/join/batches");
      }
      const Workload& work = mixed.works[mixed.of(r)];
      const DdpUse use{.input = JoinedInput{batches, steps}};
      Thread thread{ddp_warm_up(ddp, use, work, plans), ddp_steady(ddp, use, work, plans)};
      job.roles.push_back({"rank", {std::move(thread)}});
    }
    job.members.push_back({at->second, {}});
    job.batches.push_back(batches);
  }
  job.families = plans.families();
}

}  // namespace paceline
