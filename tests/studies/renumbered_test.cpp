// Are nodes alike whatever their numbers? Rank 0 alone is another: what DDP broadcasts comes from it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "scenarios/predict.h"

namespace paceline {
namespace {

// Mean steps with the NIC of each node in turn at half its rate.
std::vector<double> steps(bool broadcast_buffers, int iterations) {
  std::vector<double> made;
  for (int node = 0; node < 4; ++node) {
    const std::string run = R"("run": {"iterations": )" + std::to_string(iterations) + "}}";
    const Scenario scenario =
        parse_scenario(R"({"cluster": {"node": "dgx1-v100", "nodes": 4, "degraded_links": [{"from": "node)" +
                           std::to_string(node) + R"(/nic0", "bandwidth_factor": 0.5}]}, "model": "resnet18",
            "training": {"batch_per_gpu": 2, "collective": {"algorithm": "ring", "protocol": "simple"},
            "ddp": {"broadcast_buffers": )" +
                           (broadcast_buffers ? "true" : "false") + "}}, " + run,
                       "");
    const Result result = predict(scenario).result;
    made.push_back(static_cast<double>((result.iteration_end.back() - result.iteration_end.front()).ps));
  }
  return made;
}

double range(const std::vector<double>& values) {
  return std::ranges::max(values) - std::ranges::min(values);
}

}  // namespace

// The chain of a broadcast ends before rank 0, and nobody waits for what the last node sends: a slow NIC counts for less
// there, or more. Without broadcasts what differs is what ranks bring from the warm-up, once.
TEST_CASE("a slow NIC costs as much on each node, but for broadcasts from rank 0") {
  const std::vector<double> few = steps(false, 10), many = steps(false, 80);
  CHECK(range(few) < 2e-3 * few.front());
  CHECK(range(many) < 1.1 * range(few) + 1e-6 * many.front());
  CHECK(range(steps(true, 80)) > 5e-3 * many.front());
}

}  // namespace paceline
