// What does a ring lose where two neighbours have no NVLink to each other, and what do the rings of every part
// of the cube mesh carry?
//
// A GPU between them relays: the FIFO lies in its memory, the sender writes there over one NVLink and the
// receiver reads from there over another (NCCL's NVB). What asks for the data goes the other way, 16 bytes for
// 128. Of the ring 0, 1, 2 on the links 0 - 1 - 2, each of B, the way 2 -> 0 leads over 1: each direction of
// each link carries the ring once, and 0 -> 1 what GPU 0 asks for besides, 9/8 in all. All wait for the
// slowest: the ring runs at 8/9 B.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "sim/collective/nccl.h"
#include "sim/report/collective_cost.h"

namespace paceline {
namespace {

struct RelayRing {
  double bus = 0;   // GB/s, all channels together, at the rate of the slowest hop
  SimTime longest;  // latency of a hop
};

RelayRing ring_of(const ClusterSpec& cluster) {
  const Topology topology = build_topology(cluster);
  CollectiveSpec spec;
  spec.algorithm = "ring";
  spec.protocol = "simple";
  CollectivePlanner planner = nccl_planner(topology, spec, {});
  constexpr std::array kSize{Bytes(64 << 20)};
  const CollectiveCost cost = cost_collectives(planner, CollectiveKind::all_reduce, kSize, false).front();
  RelayRing ring;
  BytesPerSecond slowest = cost.plan.hops.front().rate;
  for (const HopCost& hop : cost.plan.hops) {
    slowest = std::min(slowest, hop.rate);
    ring.longest = std::max(ring.longest, hop.latency);
  }
  ring.bus = slowest.value * cost.channels / 1e9;
  return ring;
}

ClusterSpec three_gpus(std::vector<NvlinkPair> mesh) {
  ClusterSpec cluster;
  cluster.node = node_preset("dgx1-v100");
  cluster.node.gpus = 3;
  cluster.node.mesh = std::move(mesh);
  return cluster;
}

TEST_CASE("a ring through a relay runs at eight ninths of its links") {
  const RelayRing chain = ring_of(three_gpus({{0, 1, 1}, {1, 2, 1}}));
  const RelayRing triangle = ring_of(three_gpus({{0, 1, 1}, {1, 2, 1}, {0, 2, 1}}));
  CHECK(chain.bus == Approx(22.0 * 8 / 9));
  CHECK(triangle.bus == Approx(2 * 22.0));  // one each way round
  // Written over one link, asked for and read over the other: three times a link's latency, where an ordinary
  // way has two.
  CHECK(to_seconds(chain.longest - triangle.longest).value ==
        Approx(three_gpus({}).node.nvlink_latency.value));
}

TEST_CASE("rings on every number of GPUs of the V100 cube mesh") {
  // A GPU's NVLinks to the others in use bound the rings that pass it, those between two parts the rings that
  // pass both. Of GPUs 0 to n - 1:
  struct ExpectedRelay {
    int gpus, rings;
    double share;  // of a link's 22 GB/s
  };
  for (const ExpectedRelay& is : {ExpectedRelay{2, 1, 1},  // 0 - 1 is one link
                                  {3, 2, 1},               // GPU 0 has two
                                  {4, 4, 1},               // GPU 0 has four; measured 85.3 GB/s
                                  {5, 2, 8.0 / 9},         // GPU 4 has two, both to GPU 0, which relays
                                  {6, 2, 1},               // 4 - 5 is one link, and all rings pass it
                                  {7, 4, 1},               // GPU 4 has four
                                  {8, 6, 1}}) {            // each GPU has six; measured 134.5 GB/s
    ClusterSpec cluster;
    cluster.node = node_preset("dgx1-v100");
    cluster.gpus_per_node = is.gpus;
    CAPTURE(is.gpus);
    CHECK(ring_of(cluster).bus == Approx(is.rings * is.share * 22));
  }
}

}  // namespace
}  // namespace paceline
