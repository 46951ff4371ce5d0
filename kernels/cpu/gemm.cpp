#include <algorithm>
#include <cstring>
#include <vector>

#include "core/simd.h"
#include "kernels/cpu/loops.h"

namespace paceline::cpu {
namespace {

// Blocks in the manner of Goto and van de Geijn (2008): a block of A (kBlockRows x kBlockDepth) stays in the
// second-level cache, a sliver of B (kBlockDepth x tile width) in the first.
constexpr std::int64_t kBlockRows = 192, kBlockDepth = 384, kBlockColumns = 1024;

struct Part {
  std::int64_t rows = 0, columns = 0, depth = 0;
  const float* a = nullptr;
  std::int64_t a_stride = 0;
  const float* b = nullptr;
  std::int64_t b_stride = 0;
  float* c = nullptr;
  std::int64_t c_stride = 0;
};

// Tiles of `height` rows, each stored column by column, the last filled up with zeros.
PACELINE_INLINE void pack_rows(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t depth,
                               std::int64_t height, float* to) {
  for (std::int64_t tile = 0; tile < rows; tile += height) {
    const std::int64_t real = std::min(height, rows - tile);
    for (std::int64_t i = 0; i < depth; ++i) {
      for (std::int64_t row = 0; row < height; ++row) {
        *to++ = row < real ? from[(tile + row) * stride + i] : 0.0F;
      }
    }
  }
}

// Tiles of `width` columns, each stored row by row.
PACELINE_INLINE void pack_columns(const float* from, std::int64_t stride, std::int64_t depth,
                                  std::int64_t columns, std::int64_t width, float* to) {
  for (std::int64_t tile = 0; tile < columns; tile += width) {
    const std::int64_t real = std::min(width, columns - tile);
    for (std::int64_t i = 0; i < depth; ++i) {
      const float* row = from + i * stride + tile;
      for (std::int64_t column = 0; column < width; ++column) {
        *to++ = column < real ? row[column] : 0.0F;
      }
    }
  }
}

// kRows x 2 kLanes elements of C, in registers over the whole depth.
template <int kLanes, int kRows>
PACELINE_INLINE void tile(std::int64_t depth, const float* a, const float* b, float* c, std::int64_t stride,
                          bool add) {
  using Vector __attribute__((vector_size(kLanes * sizeof(float)))) = float;
  Vector left[kRows], right[kRows];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
    left[row] = Vector{};
    right[row] = Vector{};
  }
  for (std::int64_t i = 0; i < depth; ++i) {
    Vector b0, b1;
    std::memcpy(&b0, b, sizeof b0);
    std::memcpy(&b1, b + kLanes, sizeof b1);
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      left[row] += a[row] * b0;
      right[row] += a[row] * b1;
    }
    a += kRows;
    b += std::int64_t{2} * kLanes;
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
    float* to = c + row * stride;
    if (add) {
      Vector c0, c1;
      std::memcpy(&c0, to, sizeof c0);
      std::memcpy(&c1, to + kLanes, sizeof c1);
      left[row] += c0;
      right[row] += c1;
    }
    std::memcpy(to, &left[row], sizeof left[row]);
    std::memcpy(to + kLanes, &right[row], sizeof right[row]);
  }
}

// A tile that sticks out of C is computed aside.
template <int kLanes, int kRows>
PACELINE_INLINE void edge_tile(std::int64_t depth, const float* a, const float* b, float* c,
                               std::int64_t stride, std::int64_t rows, std::int64_t columns, bool add) {
  float aside[kRows * 2 * kLanes];
  tile<kLanes, kRows>(depth, a, b, aside, 2 * kLanes, false);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      float& to = c[row * stride + column];
      to = (add ? to : 0.0F) + aside[row * 2 * kLanes + column];
    }
  }
}

template <int kLanes, int kRows>
PACELINE_INLINE void block(std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* a,
                           const float* b, float* c, std::int64_t stride, bool add) {
  constexpr auto kWidth = std::int64_t{2} * kLanes;
  for (std::int64_t column = 0; column < columns; column += kWidth) {
    for (std::int64_t row = 0; row < rows; row += kRows) {
      const std::int64_t high = std::min<std::int64_t>(kRows, rows - row);
      const std::int64_t wide = std::min(kWidth, columns - column);
      float* to = c + row * stride + column;
      if (high == kRows && wide == kWidth) {
        tile<kLanes, kRows>(depth, a + row * depth, b + column * depth, to, stride, add);
      } else {
        edge_tile<kLanes, kRows>(depth, a + row * depth, b + column * depth, to, stride, high, wide, add);
      }
    }
  }
}

template <int kLanes, int kRows>
PACELINE_INLINE void multiply(const Part& part, float* packed_a, float* packed_b) {
  for (std::int64_t column = 0; column < part.columns; column += kBlockColumns) {
    const std::int64_t wide = std::min(kBlockColumns, part.columns - column);
    for (std::int64_t from = 0; from < part.depth; from += kBlockDepth) {
      const std::int64_t deep = std::min(kBlockDepth, part.depth - from);
      pack_columns(part.b + from * part.b_stride + column, part.b_stride, deep, wide,
                   std::int64_t{2} * kLanes, packed_b);
      for (std::int64_t row = 0; row < part.rows; row += kBlockRows) {
        const std::int64_t high = std::min(kBlockRows, part.rows - row);
        pack_rows(part.a + row * part.a_stride + from, part.a_stride, high, deep, kRows, packed_a);
        block<kLanes, kRows>(high, wide, deep, packed_a, packed_b, part.c + row * part.c_stride + column,
                             part.c_stride, from > 0);
      }
    }
  }
}

#ifdef __x86_64__
__attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma"))) void multiply_avx512(const Part& part,
                                                                                            float* a,
                                                                                            float* b) {
  multiply<16, 12>(part, a, b);
}
__attribute__((target("avx2,fma"))) void multiply_avx2(const Part& part, float* a, float* b) {
  multiply<8, 6>(part, a, b);
}
#endif
void multiply_plain(const Part& part, float* a, float* b) { multiply<4, 6>(part, a, b); }

using Multiply = void (*)(const Part&, float*, float*);
Multiply best_multiply() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")) {
    return multiply_avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return multiply_avx2;
  }
#endif
  return multiply_plain;
}

// Members share C as a grid of parts, as square as their number allows.
struct Grid {
  int down = 1, across = 1;
};
Grid grid_for(int members, std::int64_t m, std::int64_t n) {
  Grid best{members, 1};
  double least = 1e300;
  for (int down = 1; down <= members; ++down) {
    if (members % down == 0) {
      const int across = members / down;
      // What a member packs: its rows of A and its columns of B.
      const double packed = static_cast<double>(m) / down + static_cast<double>(n) / across;
      if (packed < least) {
        least = packed;
        best = {down, across};
      }
    }
  }
  return best;
}

constexpr std::int64_t kTileRows = 12,
                       kTileColumns = 32;  // of the largest tile: parts begin on its multiples

std::int64_t boundary(std::int64_t size, std::int64_t tile_size, int part, int parts) {
  const std::int64_t tiles = (size + tile_size - 1) / tile_size;
  return std::min(size, tiles * part / parts * tile_size);
}

}  // namespace

void gemm(ThreadTeam& team, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
          float* c) {
  const Grid grid = grid_for(team.size(), m, n);
  const Multiply multiply_part = best_multiply();
  team.run([&](int member) {
    const int y = member / grid.across, x = member % grid.across;
    const std::int64_t top = boundary(m, kTileRows, y, grid.down);
    const std::int64_t bottom = boundary(m, kTileRows, y + 1, grid.down);
    const std::int64_t first = boundary(n, kTileColumns, x, grid.across);
    const std::int64_t last = boundary(n, kTileColumns, x + 1, grid.across);
    if (top == bottom || first == last) {
      return;
    }
    const std::int64_t depth = std::min(k, kBlockDepth);
    std::vector<float> packed_a((std::min(bottom - top, kBlockRows) + kTileRows) * depth);
    std::vector<float> packed_b((std::min(last - first, kBlockColumns) + kTileColumns) * depth);
    const Part part{bottom - top, last - first, k, a + top * k, k, b + first, n, c + top * n + first, n};
    multiply_part(part, packed_a.data(), packed_b.data());
  });
}

}  // namespace paceline::cpu
