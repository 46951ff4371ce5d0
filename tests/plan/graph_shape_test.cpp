// Who is whose neighbour, over which NIC, and how many bytes leave each GPU and NIC.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <vector>

#include "sim/collective/algorithms.h"
#include "symbolic.h"
#include "tests/random_graphs.h"
#include "ways.h"

namespace paceline {
namespace {

// Blocks that one loop of all channels sends: by rank, out and in, over links inside the node, and over NICs.
struct Traffic {
  std::vector<std::int64_t> out, in;
  std::map<std::pair<std::uint32_t, int>, std::int64_t> nic_out, nic_in;  // by node and NIC
};

bool leaves_node(const CollectiveGraph& graph, const Fifo& fifo, std::uint32_t gpus) {
  const bool fabric = fifo.wire == Wire::gpu_to_fabric || fifo.wire == Wire::fabric_to_gpu;
  const bool gpu_to_gpu = fifo.wire == Wire::gpu_to_gpu;
  return fabric || (gpu_to_gpu &&
                    graph.thread_blocks[fifo.from].rank / gpus != graph.thread_blocks[fifo.to].rank / gpus);
}

Traffic traffic(const CollectiveGraph& graph, const RankLayout& layout) {
  const Symbolic symbolic(graph, {});
  REQUIRE(symbolic.error().empty());
  Traffic result{std::vector<std::int64_t>(graph.ranks), std::vector<std::int64_t>(graph.ranks), {}, {}};
  const std::uint32_t gpus = layout.gpus_per_node;
  for (std::size_t f = 0; f < graph.fifos.size(); ++f) {
    const Fifo& fifo = graph.fifos[f];
    if (fifo.wire == Wire::word) {
      continue;
    }
    const std::uint32_t from = graph.thread_blocks[fifo.from].rank, to = graph.thread_blocks[fifo.to].rank;
    const bool leaves = leaves_node(graph, fifo, gpus);
    if (from != ThreadBlock::kSwitch) {
      CHECK(leaves == (fifo.nic_out >= 0));
      (leaves ? result.nic_out[{from / gpus, fifo.nic_out}] : result.out[from]) += symbolic.sent(f);
    }
    if (to != ThreadBlock::kSwitch) {
      CHECK(leaves == (fifo.nic_in >= 0));
      (leaves ? result.nic_in[{to / gpus, fifo.nic_in}] : result.in[to]) += symbolic.sent(f);
    }
  }
  return result;
}

std::int64_t sum(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}
template <class Map>
std::int64_t sum_of(const Map& values) {
  std::int64_t total = 0;
  for (const auto& [key, value] : values) {
    total += value;
  }
  return total;
}

bool all_are(const std::vector<std::int64_t>& values, std::int64_t expected) {
  return std::all_of(values.begin(), values.end(), [&](std::int64_t value) { return value == expected; });
}

Traffic of(Algorithm algorithm, CollectiveKind kind, const RankLayout& layout, const ChannelGraphs& found,
           std::uint32_t channels = 1) {
  return traffic(make_graph(algorithm, kind, layout, found, channels), layout);
}

TEST_CASE("a ring moves 2(n-1)/n of the data out of every GPU, its halves (n-1)/n, its chains all of it") {
  Dice dice(3);
  for (std::uint32_t n = 2; n <= kMostRanks; ++n) {
    for (const RankLayout& layout : layouts(n)) {
      const ChannelGraphs found = random_graphs(dice, layout.gpus_per_node);
      const std::int64_t crossings = layout.nodes > 1 ? layout.nodes : 0;
      const auto check = [&](CollectiveKind kind, std::int64_t steps, std::int64_t hops) {
        const Traffic seen = of(Algorithm::ring, kind, layout, found);
        CHECK(sum(seen.out) + sum_of(seen.nic_out) == steps * hops);
        CHECK(sum_of(seen.nic_out) <= steps * crossings);
        CHECK(sum(seen.in) + sum_of(seen.nic_in) == steps * hops);
      };
      check(CollectiveKind::all_reduce, 2 * n - 2, n);
      check(CollectiveKind::all_gather, n - 1, n);
      check(CollectiveKind::reduce_scatter, n - 1, n);
      check(CollectiveKind::broadcast, 1, n - 1);
      check(CollectiveKind::reduce, 1, n - 1);
    }
  }
}

TEST_CASE("a ring visits the GPUs of each node in the channel's order, by the channel's NICs") {
  Dice dice(4);
  for (const std::uint32_t nodes : {1U, 2U, 3U, 4U}) {
    const RankLayout layout{nodes, 8};
    ChannelGraphs found;
    found.ring = random_graph(dice, 8, 4, true);
    const CollectiveGraph graph = make_graph(Algorithm::ring, CollectiveKind::all_reduce, layout, found, 8);
    for (const Fifo& fifo : graph.fifos) {
      const ThreadBlock &from = graph.thread_blocks[fifo.from], &to = graph.thread_blocks[fifo.to];
      const auto on = [&](const ThreadBlock& thread_block) -> const NodeChannel& {
        return found.ring.channels[(thread_block.channel % 4) ^ (thread_block.rank / 8 % 2)];
      };
      const auto place = [&](const ThreadBlock& thread_block) {
        const std::vector<int>& gpus = on(thread_block).gpus;
        return static_cast<std::uint32_t>(
            std::find(gpus.begin(), gpus.end(), static_cast<int>(thread_block.rank % 8)) - gpus.begin());
      };
      const bool last = place(from) == 7;
      CHECK(place(to) == (place(from) + 1) % 8);
      CHECK(to.rank / 8 == (from.rank / 8 + (last ? 1 : 0)) % nodes);
      CHECK(fifo.nic_out == (last && nodes > 1 ? on(from).nic_out : -1));
      CHECK(fifo.nic_in == (last && nodes > 1 ? on(to).nic_in : -1));
      const bool wraps_odd = nodes % 2 == 1 && to.rank / 8 == 0;  // an odd number of nodes crosses rails once
      CHECK((fifo.nic_out == fifo.nic_in || wraps_odd));
    }
  }
}

TEST_CASE("a pair of tree channels sends at most 2 S from a GPU's node, S where there are two nodes") {
  Dice dice(5);
  for (std::uint32_t n = 2; n <= kMostRanks; ++n) {
    for (const RankLayout& layout : layouts(n)) {
      ChannelGraphs found = random_graphs(dice, layout.gpus_per_node);
      found.tree.channels.resize(1);
      const Traffic seen = of(Algorithm::tree, CollectiveKind::all_reduce, layout, found, 2);  // S: 2 blocks
      std::vector<std::int64_t> by_node(layout.nodes);
      for (const auto& [nic, blocks] : seen.nic_out) {
        by_node[nic.first] += blocks;
      }
      CHECK(*std::max_element(by_node.begin(), by_node.end()) <= 4);
      CHECK(sum(by_node) == 4 * (layout.nodes - 1));
      CHECK((layout.nodes != 2 || all_are(by_node, 2)));
      CHECK(*std::max_element(seen.out.begin(), seen.out.end()) <= 4);
      CHECK(sum(seen.out) == 4 * layout.nodes * (layout.gpus_per_node - 1));
    }
  }
}

TEST_CASE("NVLink SHARP takes (1 + 1/n) of the data out of every GPU and into it, each half its own part") {
  Dice dice(6);
  for (std::uint32_t n = 2; n <= kMostRanks; ++n) {
    const RankLayout layout{1, n};
    ChannelGraphs found;
    found.nvls = random_heads(dice, n, false);
    const auto check = [&](CollectiveKind kind, std::int64_t out, std::int64_t in) {
      const Traffic seen = of(Algorithm::nvls, kind, layout, found);
      CHECK(all_are(seen.out, out));
      CHECK(all_are(seen.in, in));
    };
    check(CollectiveKind::all_reduce, n + 1, n + 1);
    check(CollectiveKind::all_gather, 1, n);
    check(CollectiveKind::reduce_scatter, n, 1);
  }
}

TEST_CASE("over several nodes every head's NIC carries its share of the node's data") {
  Dice dice(7);
  for (const RankLayout layout : {RankLayout{2, 4}, RankLayout{3, 8}, RankLayout{5, 2}, RankLayout{4, 1}}) {
    const std::uint32_t gpus = layout.gpus_per_node, nodes = layout.nodes;
    ChannelGraphs found = random_graphs(dice, gpus);
    found.nvls = found.collnet_direct = random_heads(dice, gpus, false);
    const auto each_nic = [&](const Traffic& seen, std::size_t nics, std::int64_t out, std::int64_t in) {
      CHECK(seen.nic_out.size() == nics * nodes);
      CHECK(seen.nic_in.size() == nics * nodes);
      for (const auto& [nic, blocks] : seen.nic_out) {
        CHECK(blocks == out);
      }
      for (const auto& [nic, blocks] : seen.nic_in) {
        CHECK(blocks == in);
      }
    };
    for (const Algorithm algorithm : {Algorithm::nvls, Algorithm::collnet_direct}) {
      if (!runs(algorithm, CollectiveKind::all_reduce, layout)) {
        continue;
      }
      each_nic(of(algorithm, CollectiveKind::all_reduce, layout, found), gpus, 1, 1);
      each_nic(of(algorithm, CollectiveKind::all_gather, layout, found), gpus, 1, nodes);
      each_nic(of(algorithm, CollectiveKind::reduce_scatter, layout, found), gpus, nodes, 1);
    }
    each_nic(of(Algorithm::collnet_chain, CollectiveKind::all_reduce, layout, found), 1, 1, 1);
    const Traffic direct = of(Algorithm::collnet_direct, CollectiveKind::all_reduce, layout, found);
    CHECK(all_are(direct.out, 2 * (gpus - 1)));
    if (gpus > 1) {
      const Traffic tree = of(Algorithm::nvls_tree, CollectiveKind::all_reduce, layout, found);
      CHECK(all_are(tree.out, gpus + 1));
      CHECK(all_are(tree.in, gpus + 1));
      CHECK(sum_of(tree.nic_out) == 2 * gpus * (nodes - 1));
    }
  }
}

TEST_CASE("PAT, hierarchical and point-to-point send what they must") {
  Dice dice(8);
  for (std::uint32_t n = 2; n <= kMostRanks; ++n) {
    for (const RankLayout& layout : layouts(n)) {
      const ChannelGraphs found = random_graphs(dice, layout.gpus_per_node);
      const std::uint32_t gpus = layout.gpus_per_node, nodes = layout.nodes;
      if (gpus == 1) {
        CHECK(sum_of(of(Algorithm::pat, CollectiveKind::all_gather, layout, found).nic_out) == n * (n - 1));
        CHECK(sum_of(of(Algorithm::pat, CollectiveKind::reduce_scatter, layout, found).nic_out) ==
              n * (n - 1));
      }
      if (nodes > 1) {
        const Traffic seen = of(Algorithm::hierarchical, CollectiveKind::all_reduce, layout, found);
        CHECK(all_are(seen.out, 2 * (gpus - 1) * nodes));
        CHECK(sum_of(seen.nic_out) == 2 * (nodes - 1) * n);
      }
      const Traffic all = of(Algorithm::point_to_point, CollectiveKind::all_to_all, layout, found);
      CHECK(all_are(all.out, gpus - 1));
      CHECK(sum_of(all.nic_out) == n * (n - gpus));
      const Traffic one = of(Algorithm::point_to_point, CollectiveKind::send_recv, layout, found);
      CHECK(sum(one.out) + sum_of(one.nic_out) == n);
    }
  }
}

TEST_CASE("all_to_all goes round its peers in NCCL's order") {
  const auto order = [](RankLayout layout) {  // of rank 0
    ChannelGraphs found;
    std::vector<int> gpus(layout.gpus_per_node);
    std::iota(gpus.begin(), gpus.end(), 0);
    found.ring.channels = {channel_through(gpus)};
    const CollectiveGraph graph =
        make_graph(Algorithm::point_to_point, CollectiveKind::all_to_all, layout, found, 1);
    std::vector<std::uint32_t> peers;
    for (std::uint32_t port = 0; port + 1 < layout.ranks(); ++port) {
      peers.push_back(graph.thread_blocks[graph.fifos[graph.out[port]].to].rank);
    }
    return peers;
  };
  using Peers = std::vector<std::uint32_t>;
  CHECK(order({16, 1}) == Peers{1, 3, 6, 10, 15, 5, 12, 4, 13, 7, 2, 14, 11, 9, 8});
  CHECK(order({5, 1}) == Peers{1, 3, 2, 4});
  CHECK(order({1, 5}) == Peers{1, 2, 3, 4});
  CHECK(order({3, 2}) == Peers{1, 2, 3, 4, 5});
  CHECK(order({2, 12}) ==  // groups of four
        Peers{1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 20, 21, 22, 23, 16, 17, 18, 19});
}

TEST_CASE("a million thread blocks cost little: scripts are shared") {
  Dice dice(9);
  const RankLayout layout{2048, 8};
  const ChannelGraphs found = random_graphs(dice, 8);
  const CollectiveGraph ring = make_graph(Algorithm::ring, CollectiveKind::all_reduce, layout, found, 32);
  CHECK(ring.thread_blocks.size() == 524288);
  CHECK(ring.fifos.size() == 524288);
  CHECK(ring.scripts.size() == 1);
  CHECK(ring.scripts[0].steps.size() == 5);
  const CollectiveGraph tree = make_graph(Algorithm::tree, CollectiveKind::all_reduce, layout, found, 32);
  CHECK(tree.scripts.size() <= 12);
  CHECK(tree.fifos.size() == 32 * 2 * 16383);
}

}  // namespace
}  // namespace paceline
