#include "sim/strategy/join.h"

#include <algorithm>
#include <string>

#include "sim/strategy/buffers.h"

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
    const Bytes all(parameter_count(work.model) * bytes_per_element(work.training.parameters));
    b.move(2 * all, {Phase::exchange}, "flatten parameters");
    std::vector<std::uint32_t> pieces;
    for (std::int64_t sent = 0; sent < all.value; sent += kPiece) {
      pieces.push_back(b.collective({CollectiveKind::broadcast, Bytes(std::min(kPiece, all.value - sent))},
                                    {.phase = Phase::exchange, .payload = Payload::parameters},
                                    "broadcast parameters"));
    }
    for (const Buffers& each : buffers_of(work.model)) {
      pieces.push_back(b.collective({CollectiveKind::broadcast, each.bytes},
                                    {.phase = Phase::exchange, .payload = each.what}, "broadcast buffers"));
    }
    for (const std::uint32_t each : pieces) {
      b.wait(each);
    }
    b.copy(2 * all, parameter_tensors(work.model), kNoIndex, "copy parameters back");
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

}  // namespace paceline
