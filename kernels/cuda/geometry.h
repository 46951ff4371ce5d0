// How work is cut into blocks and threads. Pure host arithmetic in 64 bits: tested without a GPU.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace paceline::cuda {

struct Grid {
  unsigned blocks = 1;
  unsigned columns = 1, rows = 1;  // threads of a block
};

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// A grid-stride loop over `items` vectors: enough blocks of 256 threads for all, at most eight on each of
// `processors` (a full multiprocessor holds 2048 threads).
inline Grid stride_grid(std::int64_t items, int processors) {
  const std::int64_t wanted = std::max<std::int64_t>(1, divide_up(items, 256));
  return {static_cast<unsigned>(std::min<std::int64_t>(wanted, std::int64_t{8} * processors)), 256, 1};
}

// A team of threads to each row: one warp and eight rows a block while a lane has at most eight vectors,
// else a block of its own with a power of two of threads, at most 1024.
inline Grid row_grid(std::int64_t rows, std::int64_t vectors_in_row, int processors) {
  Grid grid{1, 32, 8};
  if (vectors_in_row > 32 * 8) {
    const auto quarter = static_cast<std::uint64_t>(divide_up(vectors_in_row, 4));
    grid.columns = static_cast<unsigned>(std::min<std::uint64_t>(1024, std::bit_ceil(quarter)));
    grid.rows = 1;
  }
  const unsigned resident = std::max(1u, 2048u / (grid.columns * grid.rows));
  const std::int64_t wanted = std::max<std::int64_t>(1, divide_up(rows, grid.rows));
  grid.blocks =
      static_cast<unsigned>(std::min<std::int64_t>(wanted, std::int64_t{4} * resident * processors));
  return grid;
}

// The compaction of top-k: one block of 256 threads per 4096 values.
inline constexpr int kTileThreads = 256, kValuesOfThread = 16;
inline constexpr int kTile = kTileThreads * kValuesOfThread;
constexpr std::int64_t tiles_of(std::int64_t count) { return divide_up(count, kTile); }

// How many sets of buffers a timed kernel goes round, so that a set has left the cache when its turn comes
// again: together at least twice the cache, but at most 256 and at most what fits `memory`. A set that is
// twice the cache by itself needs no second.
inline int rotation_count(std::int64_t bytes_of_set, std::int64_t cache_bytes, std::int64_t memory) {
  if (bytes_of_set == 0) {
    return 1;
  }
  const std::int64_t wanted = std::min(divide_up(2 * cache_bytes, bytes_of_set), memory / bytes_of_set);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, 256));
}

}  // namespace paceline::cuda
