// The collectives that are measured, how many elements a size means, and the numbers that travel, which tell
// whether the result is right.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/names.h"

namespace paceline::measure {

enum class CollectiveKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, sendrecv };

}  // namespace paceline::measure

namespace paceline {

// As in the CSV and in --collectives.
template <>
inline constexpr auto kNames<measure::CollectiveKind> =
    names<measure::CollectiveKind>({{"all_reduce", measure::CollectiveKind::all_reduce},
                                    {"all_gather", measure::CollectiveKind::all_gather},
                                    {"reduce_scatter", measure::CollectiveKind::reduce_scatter},
                                    {"broadcast", measure::CollectiveKind::broadcast},
                                    {"sendrecv", measure::CollectiveKind::sendrecv}});

}  // namespace paceline

namespace paceline::measure {

// `bytes` is the column "size" of nccl-tests: the whole buffer that all_reduce and broadcast work on, that
// all_gather collects and reduce_scatter starts from, or what every rank sends (sendrecv: rank r to r + 1,
// the last to 0; one rank sends to itself). Elements are fp32, all_reduce and reduce_scatter sum, broadcast
// is from rank 0.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::int64_t bytes = 0;  // Requires: a result of whole_size()

  friend bool operator==(const Collective&, const Collective&) = default;
};

// The nearest size not above `bytes` (but at least one element per part) that the collective can have:
// whole elements, for all_gather and reduce_scatter the same number on each rank.
std::int64_t whole_size(CollectiveKind, std::int64_t bytes, int ranks);

// Elements of one rank's send and receive buffers.
std::int64_t send_elements(const Collective&, int ranks);
std::int64_t recv_elements(const Collective&, int ranks);

// What rank `rank` sends, and the first element of its result that is wrong. Small whole numbers, whose sums
// are exact in fp32 up to 1024 ranks in any order.
std::vector<float> pattern(const Collective&, int rank, int ranks);
struct WrongElement {
  std::int64_t index = 0;
  float found = 0, expected = 0;
};
std::optional<WrongElement> first_wrong(const Collective&, std::span<const float> result, int rank,
                                        int ranks);

}  // namespace paceline::measure
