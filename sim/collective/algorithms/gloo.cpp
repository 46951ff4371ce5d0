// gloo's collectives (gloo/allreduce.cc, allgather.cc, broadcast.cc) as ProcessGroupGloo asks for them.
#include <algorithm>
#include <bit>
#include <cassert>

#include "sim/collective/algorithms/rank_wires.h"
#include "sim/collective/host_collectives.h"

namespace paceline {

std::uint32_t gloo_segments_per_rank(std::uint32_t ranks, Bytes bytes) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 20;  // kMaxSegmentSize
  const std::int64_t of_size = (bytes.value + kLargest - 1) / kLargest;
  return static_cast<std::uint32_t>(std::max<std::int64_t>(2, (of_size + ranks - 1) / ranks));
}

// Each rank's part of the data is `segments`; two are under way at a time. All of a rank's last ones are reduced
// before it passes any on.
HostGraph gloo_ring_graph(CollectiveKind kind, const RankLayout& layout, std::span<const int> nics,
                          std::uint32_t segments) {
  const std::uint32_t n = layout.ranks(), all = n * segments, between = all - 2 * segments;
  const bool gathers = kind == CollectiveKind::all_gather;
  assert(gathers || kind == CollectiveKind::all_reduce);
  GraphBuilder builder(1, n);
  builder.reserve(n, std::size_t{gathers ? 1U : 2U} * n);
  const Ports gather = ports(gathers ? 0 : 1, 1);
  std::vector<Step> steps;
  if (gathers) {  // to the next rank, from its last segment down
    steps = {
        {.times = segments, .send = gather, .own = true, .keep = true, .block = segments - 1, .stride = -1},
        {.times = between, .receive = gather, .send = gather, .keep = true, .block = -1, .stride = -1},
        {.times = segments, .receive = gather, .keep = true, .block = 2 * segments - 1, .stride = -1}};
  } else {  // to the rank before
    steps = {
        {.times = segments, .send = kFirst, .own = true, .block = segments, .stride = 1},
        {.times = between,
         .receive = kFirst,
         .send = kFirst,
         .own = true,
         .block = 2 * segments,
         .stride = 1},
        {.times = segments, .receive = kFirst, .own = true, .keep = true, .block = 0, .stride = 1},
        {.times = segments, .send = gather, .block = 0, .stride = 1},
        {.times = between, .receive = gather, .send = gather, .keep = true, .block = segments, .stride = 1},
        {.times = segments, .receive = gather, .keep = true, .block = all - segments, .stride = 1}};
  }
  const std::uint32_t script = builder.add_script(all, std::move(steps)), rings = gathers ? 1 : 2;
  for (std::uint32_t r = 0; r < n; ++r) {
    builder.add_thread_block(r, 0, script, rings, rings, std::int64_t{r} * segments);
  }
  RankWires wires(builder, layout, nics);
  for (std::uint32_t port = 0; port < rings; ++port) {
    wires.connect_ring(port, gathers ? 1 : n - 1);
  }
  return {builder.finish(), gathers ? 0 : n};
}

HostGraph binomial_tree_graph(const RankLayout& layout, std::span<const int> nics, std::uint32_t root) {
  const std::uint32_t n = layout.ranks();
  // Places count from the root. A place hears from the one without its highest bit, and sends to those with one
  // bit above it.
  const auto children = [n](std::uint32_t place) {
    std::vector<std::uint32_t> all;
    for (std::uint32_t bit = std::bit_floor(place) * 2 + (place == 0 ? 1 : 0); place + bit < n; bit *= 2) {
      all.push_back(place + bit);
    }
    return all;
  };
  GraphBuilder builder(1, n);
  for (std::uint32_t r = 0; r < n; ++r) {
    const std::uint32_t place = (r + n - root) % n;
    const std::size_t out = children(place).size();
    const Step step{
        .receive = place == 0 ? Ports{} : kFirst, .send = ports(0, out), .own = place == 0, .keep = true};
    builder.add_thread_block(r, 0, builder.add_script(1, {step}), place == 0 ? 0 : 1, out);
  }
  RankWires wires(builder, layout, nics);
  for (std::uint32_t place = 0; place < n; ++place) {
    std::uint32_t port = 0;
    for (const std::uint32_t child : children(place)) {
      wires.connect({(root + place) % n, port++}, {(root + child) % n, 0});
    }
  }
  return {builder.finish(), 0};
}

}  // namespace paceline
