#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include "kernels/cuda/device.cuh"

namespace paceline::cuda {
namespace {

constexpr int kWideBlock = 1024;  // threads of the histogram and of the single blocks

// What the passes hand on. When all digits are picked, `threshold` is the key of the smallest kept value and
// `need` how many values with just that key are kept.
struct Selection {
  std::uint32_t threshold, need;
  std::uint32_t histogram[kMostBins];
};
struct TileCounts {
  std::uint32_t larger, equal;  // counted in the tile; after the scan, before it
};

__global__ void begin_kernel(Selection* selection, std::uint32_t keep) {
  for (int bin = threadIdx.x; bin < kMostBins; bin += kWideBlock) {
    selection->histogram[bin] = 0;
  }
  if (threadIdx.x == 0) {
    selection->threshold = 0;
    selection->need = keep;
  }
}

// Counts a digit of the keys whose higher digits are the threshold's.
template <class T>
__global__ void histogram_kernel(const T* __restrict__ x, std::int64_t count, Selection* selection,
                                 int digit) {
  __shared__ std::uint32_t bins[kMostBins];
  for (int bin = threadIdx.x; bin < kMostBins; bin += kWideBlock) {
    bins[bin] = 0;
  }
  const std::uint32_t threshold = selection->threshold;
  __syncthreads();
  const auto add = [&](float value) {
    const std::uint32_t key = magnitude_key(value);
    if (same_prefix(key, threshold, digit)) {
      atomicAdd(&bins[digit_of(key, digit)], 1u);
    }
  };
  const std::int64_t vectors = count / kWide<T>;
  for (std::int64_t i = thread_index(); i < vectors; i += thread_count()) {
    float values[kWide<T>];
    load_floats(x + i * kWide<T>, values);
#pragma unroll
    for (int j = 0; j < kWide<T>; ++j) {
      add(values[j]);
    }
  }
  const std::int64_t rest = vectors * kWide<T> + thread_index();
  if (rest < count) {
    add(to_float(x[rest]));
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < digit_bins(digit); bin += kWideBlock) {
    if (bins[bin] != 0) {
      atomicAdd(&selection->histogram[bin], bins[bin]);
    }
  }
}

// One block. From the largest digit down: the one at which `need` values are reached. Leaves the histogram
// zero.
__global__ void pick_digit_kernel(Selection* selection, int digit) {
  using Scan = cub::BlockScan<std::uint32_t, kWideBlock>;
  __shared__ typename Scan::TempStorage scratch;
  const int bins = digit_bins(digit);
  const int top = bins - 1 - 2 * static_cast<int>(threadIdx.x);  // this thread's bins: top and the one below
  std::uint32_t counts[2] = {0, 0}, before[2];
  for (int j = 0; j < 2 && top - j >= 0; ++j) {
    counts[j] = selection->histogram[top - j];
    selection->histogram[top - j] = 0;
  }
  const std::uint32_t need = selection->need;
  Scan(scratch).ExclusiveSum(counts, before);
  for (int j = 0; j < 2; ++j) {
    if (before[j] < need && need <= before[j] + counts[j]) {
      selection->threshold |= static_cast<std::uint32_t>(top - j) << digit_shift(digit);
      selection->need = need - before[j];
    }
  }
}

// This thread's values of the tile, in index order. Returns how many there are.
template <class T>
__device__ int load_part(const T* x, std::int64_t count, std::int64_t begin, T (&values)[kValuesOfThread]) {
  if (begin + kValuesOfThread <= count) {
#pragma unroll
    for (int i = 0; i < kValuesOfThread; i += kWide<T>) {
      const auto vector = load<T, kWide<T>>(x + begin + i);
#pragma unroll
      for (int j = 0; j < kWide<T>; ++j) {
        values[i + j] = vector.at[j];
      }
    }
    return kValuesOfThread;
  }
#pragma unroll
  for (int i = 0; i < kValuesOfThread; ++i) {
    if (begin + i < count) {
      values[i] = x[begin + i];
    }
  }
  return static_cast<int>(max(std::int64_t{0}, count - begin));
}

// Larger ones in the low half, equal ones in the high half: a tile has at most 4096 of either.
template <class T>
__device__ std::uint32_t count_part(const T (&values)[kValuesOfThread], int length, std::uint32_t threshold) {
  std::uint32_t packed = 0;
#pragma unroll
  for (int i = 0; i < kValuesOfThread; ++i) {
    if (i < length) {
      const std::uint32_t key = magnitude_key(to_float(values[i]));
      packed += key > threshold ? 1u : key == threshold ? 1u << 16 : 0u;
    }
  }
  return packed;
}

__device__ std::int64_t first_of_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * kTile + threadIdx.x * kValuesOfThread;
}

template <class T>
__global__ void count_tiles_kernel(const T* __restrict__ x, std::int64_t count, const Selection* selection,
                                   TileCounts* tiles) {
  using Reduce = cub::BlockReduce<std::uint32_t, kTileThreads>;
  __shared__ typename Reduce::TempStorage scratch;
  T values[kValuesOfThread];
  const int length = load_part(x, count, first_of_thread(), values);
  const std::uint32_t packed = Reduce(scratch).Sum(count_part(values, length, selection->threshold));
  if (threadIdx.x == 0) {
    tiles[blockIdx.x] = {packed & 0xffffu, packed >> 16};
  }
}

// One block: turns the counts of the tiles into the counts before each.
__global__ void scan_tiles_kernel(TileCounts* tiles, std::int64_t count) {
  using Scan = cub::BlockScan<std::uint32_t, kWideBlock>;
  __shared__ typename Scan::TempStorage scratch[2];
  TileCounts carried{0, 0};
  for (std::int64_t begin = 0; begin < count; begin += kWideBlock) {
    const std::int64_t tile = begin + threadIdx.x;
    TileCounts counts = tile < count ? tiles[tile] : TileCounts{0, 0};
    TileCounts sums;
    Scan(scratch[0]).ExclusiveSum(counts.larger, counts.larger, sums.larger);
    Scan(scratch[1]).ExclusiveSum(counts.equal, counts.equal, sums.equal);
    if (tile < count) {
      tiles[tile] = {carried.larger + counts.larger, carried.equal + counts.equal};
    }
    carried = {carried.larger + sums.larger, carried.equal + sums.equal};
    __syncthreads();
  }
}

template <class T>
__global__ void compact_kernel(const T* __restrict__ x, std::int64_t count, const Selection* selection,
                               const TileCounts* tiles, T* __restrict__ kept,
                               std::int32_t* __restrict__ indices) {
  using Scan = cub::BlockScan<std::uint32_t, kTileThreads>;
  __shared__ typename Scan::TempStorage scratch;
  const std::uint32_t threshold = selection->threshold, need = selection->need;
  const std::int64_t begin = first_of_thread();
  T values[kValuesOfThread];
  const int length = load_part(x, count, begin, values);
  std::uint32_t before = 0;
  Scan(scratch).ExclusiveSum(count_part(values, length, threshold), before);
  std::uint32_t larger = tiles[blockIdx.x].larger + (before & 0xffffu);
  std::uint32_t equal = tiles[blockIdx.x].equal + (before >> 16);
#pragma unroll
  for (int i = 0; i < kValuesOfThread; ++i) {
    const std::uint32_t key = i < length ? magnitude_key(to_float(values[i])) : 0u;
    const bool is_larger = i < length && key > threshold;
    const bool is_equal = i < length && key == threshold;
    if (is_larger || (is_equal && equal < need)) {
      const std::uint32_t to = kept_before(larger, equal, need);
      kept[to] = values[i];
      indices[to] = static_cast<std::int32_t>(begin + i);
    }
    larger += is_larger ? 1u : 0u;
    equal += is_equal ? 1u : 0u;
  }
}

}  // namespace

std::int64_t top_k_scratch(std::int64_t count) {
  return static_cast<std::int64_t>(sizeof(Selection)) +
         tiles_of(count) * static_cast<std::int64_t>(sizeof(TileCounts));
}

void launch_top_k(Element element, const void* data, std::int64_t count, std::int64_t keep, void* values,
                  std::int32_t* indices, void* scratch, cudaStream_t stream) {
  auto* selection = static_cast<Selection*>(scratch);
  auto* tiles = reinterpret_cast<TileCounts*>(selection + 1);
  const auto tile_count = static_cast<unsigned>(tiles_of(count));
  launch(begin_kernel, Grid{1, kWideBlock}, stream, selection, static_cast<std::uint32_t>(keep));
  for_element(element, [&]<class T>(T*) {
    const auto* x = static_cast<const T*>(data);
    const auto blocks = static_cast<unsigned>(
        std::clamp<std::int64_t>(divide_up(count / kWide<T>, kWideBlock), 1, 2 * processor_count()));
    for (int digit = 0; digit < kDigits; ++digit) {
      launch(histogram_kernel<T>, Grid{blocks, kWideBlock}, stream, x, count, selection, digit);
      launch(pick_digit_kernel, Grid{1, kWideBlock}, stream, selection, digit);
    }
    launch(count_tiles_kernel<T>, Grid{tile_count, kTileThreads}, stream, x, count, selection, tiles);
    launch(scan_tiles_kernel, Grid{1, kWideBlock}, stream, tiles, tile_count);
    launch(compact_kernel<T>, Grid{tile_count, kTileThreads}, stream, x, count, selection, tiles,
           static_cast<T*>(values), indices);
  });
  check(cudaGetLastError(), "launching top_k");
}

}  // namespace paceline::cuda
