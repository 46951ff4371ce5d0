// nccl_then_ring on links that differ, against a fluid simulation written from the rules: whatever is on its way from one
// node to the next has an equal share of that way, and a gradient's ring waits for its own chunks alone.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/strategy/build_job.h"
#include "tests/dice.h"
#include "tests/meetings.h"

namespace paceline {
namespace {

struct Rings {
  std::vector<std::int64_t> elements;  // of each gradient, which all exist at once
  std::vector<double> rate;            // from node i to the next, B/s
  double compute = 0;                  // seconds
};

TrainingJob rings_job(const Rings& of) {
  const auto nodes = static_cast<std::uint32_t>(of.rate.size());
  Workload work;
  work.training.host = {Seconds(0), Seconds(0), 1};
  work.training.batch_per_gpu = 1;
  work.training.strategy = StrategyKind::mirrored;
  work.costs.gpu.memory_bandwidth = BytesPerSecond(1e18);
  Layer layer;
  layer.name = "all";
  layer.parameters = of.elements;
  work.model.layers.push_back(layer);
  work.layers.push_back({to_sim_time(Seconds(of.compute / 2)), to_sim_time(Seconds(of.compute / 2)), 1, 1});
  MirroredSpec spec;
  spec.cross_device_ops = CrossDeviceOps::nccl_then_ring;
  CollectivePlanner planner = meeting_planner({nodes, 1}, [](const CollectiveRequest&) { return SimTime{}; });
  TrainingJob job = build_job(spec, work, planner);
  for (std::uint32_t node = 0; node < nodes; ++node) {
    const BytesPerSecond rate(of.rate[node]);
    job.communicator.shared_capacity.push_back(rate);
    job.routes.push_back({node, (node + 1) % nodes, SimTime{1}, rate, {LinkId(node)}});
  }
  return job;
}

// Ends of iterations, in seconds.
std::vector<double> flowing(const Rings& of, std::size_t iterations) {
  const std::size_t nodes = of.rate.size(), gradients = of.elements.size(), steps = 2 * (nodes - 1);
  struct Chunk {
    std::size_t from, gradient;
    double left;
  };
  struct Node {
    std::size_t iteration = 0, rings_left = 0;
    double computes_until = 0;
    std::vector<std::size_t> sent, came;  // by gradient, in all iterations
  };
  std::vector<Node> all(
      nodes, {0, 0, of.compute, std::vector<std::size_t>(gradients), std::vector<std::size_t>(gradients)});
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<Chunk> under_way;
  std::vector<double> ends(iterations);
  double now = 0;
  const auto send = [&](std::size_t node, std::size_t g) {
    under_way.push_back({node, g,
                         4.0 * static_cast<double>((of.elements[g] + static_cast<std::int64_t>(nodes) - 1) /
                                                   static_cast<std::int64_t>(nodes))});
    ++all[node].sent[g];
  };
  const auto goes_on = [&](std::size_t node, std::size_t g) {  // as far as its chunks have come
    Node& at = all[node];
    const std::size_t before = at.iteration * steps;
    if (at.computes_until < kNever || at.iteration == iterations || at.sent[g] == before) {
      return;
    }
    while (at.sent[g] < before + steps && at.came[g] >= at.sent[g]) {
      send(node, g);
    }
    if (at.sent[g] == before + steps && at.came[g] == at.sent[g] && --at.rings_left == 0) {
      ends[at.iteration] = std::max(ends[at.iteration], now);
      if (++at.iteration < iterations) {
        at.computes_until = now + of.compute;
      }
    }
  };
  while (std::ranges::min(all, {}, &Node::iteration).iteration < iterations) {
    std::vector<double> users(nodes);
    for (const Chunk& each : under_way) {
      ++users[each.from];
    }
    double step = kNever;
    for (const Chunk& each : under_way) {
      step = std::min(step, each.left * users[each.from] / of.rate[each.from]);
    }
    for (const Node& each : all) {
      step = std::min(step, each.computes_until - now);
    }
    now += step;
    std::vector<Chunk> come;
    for (Chunk& each : under_way) {
      each.left -= step * of.rate[each.from] / users[each.from];
      if (each.left < 1e-6) {
        come.push_back(each);
      }
    }
    std::erase_if(under_way, [](const Chunk& each) { return each.left < 1e-6; });
    for (const Chunk& each : come) {
      const std::size_t to = (each.from + 1) % nodes;
      ++all[to].came[each.gradient];
      goes_on(to, each.gradient);
    }
    for (std::size_t node = 0; node < nodes; ++node) {
      if (all[node].computes_until <= now) {
        all[node].computes_until = kNever;
        all[node].rings_left = gradients;
        for (std::size_t g = 0; g < gradients; ++g) {
          send(node, g);
        }
        for (std::size_t g = 0; g < gradients; ++g) {
          goes_on(node, g);
        }
      }
    }
  }
  return ends;
}

std::vector<double> simulated(const Rings& of, int iterations) {
  RunSpec run;
  run.iterations = iterations - 1;
  std::vector<double> ends;
  for (const SimTime end : simulate(rings_job(of), run).iteration_end) {
    ends.push_back(static_cast<double>(end.ps) * 1e-12);
  }
  return ends;
}

}  // namespace

TEST_CASE("nccl_then_ring on links that differ: as chunks flow") {
  Dice dice(41);
  for (std::uint64_t round = 0; round < rounds(200); ++round) {
    Rings of;
    of.elements.resize(1 + dice.below(8));
    std::ranges::generate(of.elements, [&] { return dice.between(1000, 5'000'000); });
    of.rate.resize(2 + dice.below(4));
    std::ranges::generate(of.rate, [&] { return dice.real(1e8, 1e9); });
    of.compute = dice.real(1e-3, 20e-3);
    CAPTURE(round, of.rate.size(), of.elements.size());
    const std::vector<double> ends = simulated(of, 4), expected = flowing(of, 4);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      REQUIRE(ends[i] == Approx(expected[i]).epsilon(1e-3));
    }
  }
}

// Alone a gradient's ring loses nothing to a slow node but the link's own time: there is always a chunk to send. Those of
// VGG-16 (a hundredth of their elements) share links with chunks of other steps of the ring, and lose much more.
TEST_CASE("nccl_then_ring: one slow node") {
  const std::vector<double> rate{1e9, 5e8, 1e9};
  const auto mean = [](const std::vector<double>& ends) { return (ends.back() - ends[4]) / 20; };
  const Rings one{{3'000'000}, rate, 1e-3};
  const double all_slow = 4 * 4e6 / 5e8 + one.compute;
  CHECK(mean(simulated(one, 25)) <= all_slow);
  CHECK(mean(simulated(one, 25)) == Approx(mean(flowing(one, 25))).epsilon(1e-3));
  const Rings vgg{{17, 369, 737, 1475, 2949, 5898, 5898, 11'796, 23'593, 23'593, 23'593, 23'593, 23'593,
                   1'027'604, 41, 167'772, 41, 40'960, 10},
                  {1e7, 5e6, 1e7},
                  14e-3};
  const double vgg_slow = 4 * 4 * 1'383'572 / 3.0 / 5e6 + vgg.compute;
  CHECK(mean(simulated(vgg, 25)) > 1.5 * vgg_slow);
  CHECK(mean(simulated(vgg, 25)) == Approx(mean(flowing(vgg, 25))).epsilon(0.02));
}

}  // namespace paceline
