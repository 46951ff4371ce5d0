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

namespace {

// To the next rank, from a rank's last segment down; it sends one after the other.
HostGraph gathering_ring(const RankLayout& layout, std::span<const int> nics, std::uint32_t segments) {
  const std::uint32_t n = layout.ranks(), all = n * segments, between = all - 2 * segments;
  GraphBuilder builder(1, n);
  builder.reserve(n, n);
  const std::uint32_t script = builder.add_script(
      all,
      {{.times = segments, .send = kFirst, .own = true, .keep = true, .block = segments - 1, .stride = -1},
       {.times = between, .receive = kFirst, .send = kFirst, .keep = true, .block = -1, .stride = -1},
       {.times = segments, .receive = kFirst, .keep = true, .block = 2 * segments - 1, .stride = -1}});
  for (std::uint32_t r = 0; r < n; ++r) {
    builder.add_thread_block(r, 0, script, 1, 1, std::int64_t{r} * segments);
  }
  RankWires wires(builder, layout, nics);
  wires.connect_ring(0, 1);
  return {builder.finish(), 0};
}

// To the rank before. A rank says that it is ready for a segment, and asks for its own next one to be sent, when it has
// received the one before the last and that rank's word for it has come. Its kernel sends what is asked for as soon as
// the receiver is ready for it, one after the other: the rank waits for no transfer. All of a rank's last segments are
// reduced before it passes any on.
HostGraph reducing_ring(const RankLayout& layout, std::span<const int> nics, std::uint32_t segments) {
  constexpr std::uint32_t kAtOnce = 2;  // that a rank has asked for
  const std::uint32_t n = layout.ranks(), all = n * segments, sends = all - segments;
  GraphBuilder builder(1, n);
  builder.reserve(2 * std::size_t{n}, 5 * std::size_t{n});
  // In: to be reduced, the receiver's word, gathered; of the kernel: a segment, the receiver's word.
  const Ports reduced = ports(0, 2), gathered = ports(1, 2), both = ports(0, 2);
  // Out: to the kernel, the words to the sender's kernel and to the sender.
  const Ports asks = ports(0, 3);
  const std::int64_t first = segments, behind = std::int64_t{kAtOnce} - segments;  // of what a rank sends
  const bool passes_on = behind == 0;                                              // what has just come
  const std::uint32_t script =
      builder.add_script(all, {{.times = kAtOnce, .send = asks, .own = true, .block = first, .stride = 1},
                               {.times = sends - kAtOnce,
                                .receive = reduced,
                                .send = asks,
                                .own = true,
                                .keep = !passes_on,
                                .block = 2 * first,
                                .stride = 1,
                                .sent = behind},
                               {.times = kAtOnce,
                                .receive = reduced,
                                .own = true,
                                .keep = true,
                                .block = std::int64_t{all} - kAtOnce + first,
                                .stride = 1},
                               {.times = kAtOnce, .send = asks, .block = 0, .stride = 1},
                               {.times = sends - kAtOnce,
                                .receive = gathered,
                                .send = asks,
                                .keep = true,
                                .block = first,
                                .stride = 1,
                                .sent = behind},
                               {.times = kAtOnce,
                                .receive = gathered,
                                .keep = true,
                                .block = std::int64_t{all} - kAtOnce,
                                .stride = 1}});
  const std::uint32_t kernel = builder.add_script(
      all, {{.times = sends, .receive = both, .send = kFirst, .block = first, .stride = 1},
            {.times = sends, .receive = both, .send = ports(1, 1), .block = 0, .stride = 1}});
  for (std::uint32_t r = 0; r < n; ++r) {
    builder.add_thread_block(r, 0, script, 3, 3, std::int64_t{r} * segments);
  }
  for (std::uint32_t r = 0; r < n; ++r) {
    builder.add_detached(r, 0, kernel, 2, 2, std::int64_t{r} * segments);
  }
  RankWires wires(builder, layout, nics);
  const auto before = [n](std::uint32_t r) { return (r + n - 1) % n; };
  for (std::uint32_t r = 0; r < n; ++r) {
    wires.connect({n + r, 0}, {before(r), 0});
  }
  for (std::uint32_t r = 0; r < n; ++r) {
    wires.connect({n + r, 1}, {before(r), 2});
  }
  for (std::uint32_t r = 0; r < n; ++r) {
    builder.connect({r, 0}, {n + r, 0}, Wire::inside);
    builder.connect({before(r), 1}, {n + r, 1}, Wire::word);
    builder.connect({before(r), 2}, {r, 1}, Wire::word);
  }
  return {builder.finish(), n};
}

}  // namespace

HostGraph gloo_ring_graph(CollectiveKind kind, const RankLayout& layout, std::span<const int> nics,
                          std::uint32_t segments) {
  assert(kind == CollectiveKind::all_gather || kind == CollectiveKind::all_reduce);
  return kind == CollectiveKind::all_gather ? gathering_ring(layout, nics, segments)
                                            : reducing_ring(layout, nics, segments);
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
