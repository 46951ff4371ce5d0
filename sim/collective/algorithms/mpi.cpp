#include <array>
#include <bit>
#include <cassert>

#include "sim/collective/algorithms/rank_wires.h"
#include "sim/collective/host_collectives.h"

namespace paceline {
namespace {

std::vector<Step> mpi_ring_steps(CollectiveKind kind, std::uint32_t n) {
  constexpr Ports kReduce{0, 1};
  const Ports gather = ports(kind == CollectiveKind::all_reduce ? 1 : 0, 1);
  const Step send{.send = kReduce, .own = true, .block = n - 1};
  const Step reduce{
      .times = n - 2, .receive = kReduce, .send = kReduce, .own = true, .block = n - 2, .stride = -1};
  const Step pass{
      .times = n - 2, .receive = gather, .send = gather, .keep = true, .block = n - 1, .stride = -1};
  const Step last{.receive = gather, .keep = true, .block = 1};
  switch (kind) {
    case CollectiveKind::all_reduce:
      return {send, reduce, {.receive = kReduce, .send = gather, .own = true, .keep = true}, pass, last};
    case CollectiveKind::reduce_scatter:
      return {send, reduce, {.receive = kReduce, .own = true, .keep = true}};
    default:
      assert(kind == CollectiveKind::all_gather);
      return {{.send = gather, .own = true, .keep = true}, pass, last};
  }
}

HostGraph chain(const RankLayout& layout, std::span<const int> nics, std::uint32_t root) {
  const std::uint32_t n = layout.ranks();
  GraphBuilder builder(1, n);
  const std::uint32_t first = builder.add_script(1, {Step{.send = kFirst, .own = true, .keep = true}});
  const std::uint32_t between =
      builder.add_script(1, {Step{.receive = kFirst, .send = kFirst, .keep = true}});
  const std::uint32_t last = builder.add_script(1, {Step{.receive = kFirst, .keep = true}});
  for (std::uint32_t r = 0; r < n; ++r) {
    const bool begins = r == root, ends = (r + 1) % n == root;
    builder.add_thread_block(r, 0, begins ? first : ends ? last : between, begins ? 0 : 1, ends ? 0 : 1);
  }
  RankWires wires(builder, layout, nics);
  for (std::uint32_t turn = 0; turn + 1 < n; ++turn) {
    wires.connect({(root + turn) % n, 0}, {(root + turn + 1) % n, 0});
  }
  return {builder.finish(), 0};
}

// Recursive doubling over the `core` ranks that a power of two leaves; the `extra` others are the even ones
// at the beginning: they give their data to their right neighbour first and get the sum at the end.
struct Doubling {
  explicit Doubling(std::uint32_t ranks)
      : rounds(static_cast<std::uint32_t>(std::bit_width(ranks)) - 1),
        core(std::uint32_t{1} << rounds),
        extra(ranks - core) {}

  bool gives(std::uint32_t rank) const { return rank < 2 * extra && rank % 2 == 0; }
  bool takes(std::uint32_t rank) const { return rank < 2 * extra && rank % 2 == 1; }
  std::uint32_t rank_of(std::uint32_t place) const { return place < extra ? 2 * place + 1 : place + extra; }

  // In ports: what it takes from its neighbour, then one a round; out ports: one a round, then the neighbour.
  std::vector<Step> steps(bool with_neighbour) const {
    const std::uint32_t first = with_neighbour ? 1 : 0;
    std::vector<Step> all;
    for (std::uint32_t k = 0; k <= rounds; ++k) {
      const bool receives = k + first > 0, sends = k < rounds || with_neighbour;
      all.push_back({.receive = receives ? ports(k + first - 1, 1) : Ports{},
                     .send = sends ? ports(k, 1) : Ports{},
                     .own = true,
                     .keep = receives});
    }
    return all;
  }

  std::uint32_t rounds, core, extra;
};

}  // namespace

HostGraph mpi_ring_graph(CollectiveKind kind, const RankLayout& layout, std::span<const int> nics,
                         std::uint32_t root) {
  if (kind == CollectiveKind::broadcast) {
    return chain(layout, nics, root);
  }
  const std::uint32_t n = layout.ranks(), rings = kind == CollectiveKind::all_reduce ? 2 : 1;
  GraphBuilder builder(1, n);
  builder.reserve(n, std::size_t{rings} * n);
  const std::uint32_t script = builder.add_script(n, mpi_ring_steps(kind, n));
  for (std::uint32_t r = 0; r < n; ++r) {
    builder.add_thread_block(r, 0, script, rings, rings, r);
  }
  RankWires wires(builder, layout, nics);
  for (std::uint32_t port = 0; port < rings; ++port) {
    wires.connect_ring(port, 1);
  }
  return {builder.finish(), kind == CollectiveKind::all_gather ? 0 : n};
}

HostGraph recursive_doubling_graph(const RankLayout& layout, std::span<const int> nics) {
  const std::uint32_t n = layout.ranks();
  const Doubling doubling(n);
  GraphBuilder builder(1, n);
  const std::uint32_t gives =
      builder.add_script(1, {Step{.send = kFirst, .own = true}, Step{.receive = kFirst, .keep = true}});
  const std::array<std::uint32_t, 2> core{builder.add_script(1, doubling.steps(false)),
                                          builder.add_script(1, doubling.steps(true))};
  for (std::uint32_t r = 0; r < n; ++r) {
    const std::uint32_t neighbour = doubling.takes(r) ? 1 : 0;
    const std::uint32_t width = doubling.gives(r) ? 1 : doubling.rounds + neighbour;
    builder.add_thread_block(r, 0, doubling.gives(r) ? gives : core[neighbour], width, width);
  }
  RankWires wires(builder, layout, nics);
  for (std::uint32_t r = 0; r < 2 * doubling.extra; r += 2) {
    wires.connect({r, 0}, {r + 1, 0});
  }
  for (std::uint32_t place = 0; place < doubling.core; ++place) {
    for (std::uint32_t k = 0; k < doubling.rounds; ++k) {
      const std::uint32_t from = doubling.rank_of(place), to = doubling.rank_of(place ^ (1U << k));
      wires.connect({from, k}, {to, k + (doubling.takes(to) ? 1 : 0)});
    }
  }
  for (std::uint32_t r = 0; r < 2 * doubling.extra; r += 2) {
    wires.connect({r + 1, doubling.rounds}, {r, 0});
  }
  return {builder.finish(), doubling.extra + doubling.core * doubling.rounds};
}

}  // namespace paceline
