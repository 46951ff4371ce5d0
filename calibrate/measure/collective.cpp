#include "calibrate/measure/collective.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace paceline::measure {
namespace {

constexpr std::int64_t kElementBytes = sizeof(float);
constexpr std::int64_t kPatternPeriod = 13;  // prime, so that chunks of ranks do not look alike

bool in_parts(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
}

std::int64_t elements(const Collective& collective) { return collective.bytes / kElementBytes; }

// What rank r holds at element i of a buffer.
float held(std::int64_t rank, std::int64_t i) {
  return static_cast<float>(rank + 1 + (i + rank) % kPatternPeriod);
}

// Sum over all ranks at element i, by i % kPatternPeriod.
std::array<float, kPatternPeriod> sums_over_ranks(std::int64_t ranks) {
  std::array<float, kPatternPeriod> sums{};
  for (std::int64_t i = 0; i < kPatternPeriod; ++i) {
    std::int64_t sum = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      sum += static_cast<std::int64_t>(held(rank, i));
    }
    sums[static_cast<std::size_t>(i)] = static_cast<float>(sum);
  }
  return sums;
}

}  // namespace

std::int64_t whole_size(CollectiveKind kind, std::int64_t bytes, int ranks) {
  const std::int64_t part = kElementBytes * (in_parts(kind) ? ranks : 1);
  return std::max<std::int64_t>(1, bytes / part) * part;
}

std::int64_t send_elements(const Collective& collective, int ranks) {
  assert(collective.bytes == whole_size(collective.kind, collective.bytes, ranks));
  return collective.kind == CollectiveKind::all_gather ? elements(collective) / ranks : elements(collective);
}

std::int64_t recv_elements(const Collective& collective, int ranks) {
  return collective.kind == CollectiveKind::reduce_scatter ? elements(collective) / ranks
                                                           : elements(collective);
}

std::vector<float> pattern(const Collective& collective, int rank, int ranks) {
  std::vector<float> values(static_cast<std::size_t>(send_elements(collective, ranks)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = held(rank, static_cast<std::int64_t>(i));
  }
  return values;
}

std::optional<WrongElement> first_wrong(const Collective& collective, std::span<const float> result, int rank,
                                        int ranks) {
  const std::int64_t part = recv_elements(collective, ranks);
  if (static_cast<std::int64_t>(result.size()) != part) {
    return WrongElement{.index = static_cast<std::int64_t>(result.size())};
  }
  const std::int64_t sent = send_elements(collective, ranks);
  const auto sums = sums_over_ranks(ranks);
  const auto sum = [&](std::int64_t i) { return sums[static_cast<std::size_t>(i % kPatternPeriod)]; };
  for (std::int64_t i = 0; i < part; ++i) {
    float expected = 0;
    switch (collective.kind) {
      case CollectiveKind::all_reduce:
        expected = sum(i);
        break;
      case CollectiveKind::reduce_scatter:
        expected = sum(rank * part + i);
        break;
      case CollectiveKind::all_gather:
        expected = held(i / sent, i % sent);
        break;
      case CollectiveKind::broadcast:
        expected = held(0, i);
        break;
      case CollectiveKind::sendrecv:
        expected = held((rank + ranks - 1) % ranks, i);
        break;
    }
    if (result[i] != expected) {
      return WrongElement{i, result[i], expected};
    }
  }
  return std::nullopt;
}

}  // namespace paceline::measure
