// GPUs of several kinds, batches of their own, and batches that follow speeds.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "scenarios/predict.h"
#include "scenarios/scenario.h"

namespace paceline {
namespace {

// Two nodes of two GPUs each: one kind at 800, one at 400 samples/s, whose passes take what the batch takes.
std::string mixed(const std::string& training, const std::string& more = "") {
  return R"({"cluster": {"node": "dgx-a100", "nodes": 2, "gpus_per_node": 2, "gpus": [
      {"nodes": 1, "gpu": "A100-80GB", "measured": [{"rate": "800 samples/s", "batch_per_gpu": 1}, {"rate": "800 samples/s", "batch_per_gpu": 1000}]},
      {"nodes": 1, "gpu": "V100-32GB", "measured": [{"rate": "400 samples/s", "batch_per_gpu": 1}, {"rate": "400 samples/s", "batch_per_gpu": 1000}]}]},
    "model": {"name": "small", "layers": [{"name": "a", "kind": "linear", "parameters": [1000], "forward_macs": 1000, "output_elements": 10}]},
    "training": {"batch_per_gpu": 120)" +
         training + R"(, "host": {"kernel_launch": "0 s", "collective_launch": "0 s"}})" + more + "}";
}

Report report_of(const std::string& text) { return predict(parse_scenario(text, "mixed.json")).report; }

TEST_CASE("even batches: the slow kind decides") {
  const Report report = report_of(mixed(""));
  const Seconds slow(120 / 400.0);
  CHECK(report.step.mean.value == Approx(slow.value).epsilon(1e-3));
  CHECK(report.breakdown.straggler_wait.value ==
        Approx(slow.value / 4).epsilon(1e-3));  // half of the GPUs, half of it
  CHECK(report.scaling_efficiency ==
        Approx(2 * 800.0 / (2 * 800 + 2 * 400)).epsilon(1e-3));  // of each kind alone
}

TEST_CASE("batches in proportion to speeds: all GPUs do what they can") {
  const Report report = report_of(mixed(R"(, "batches": [160, 160, 80, 80])"));
  CHECK(report.scaling_efficiency > 0.999);
  CHECK(report.breakdown.straggler_wait < 1e-3 * report.step.mean);
  CHECK(report.throughput == Approx(2 * 800 + 2 * 400).epsilon(1e-3));
}

// After one window of even batches.
TEST_CASE("balanced: two thirds and one third, no waiting but for rounding") {
  const Prediction p = predict(parse_scenario(
      mixed(R"(, "balance": {"window": 4})", R"(, "run": {"iterations": 24})"), "balanced.json"));
  REQUIRE(p.batches.size() == 4);
  CHECK(std::accumulate(p.batches.begin(), p.batches.end(), std::int64_t{0}) == 480);
  for (const std::size_t r : {0, 1}) {
    CHECK(std::abs(p.batches[r] - 160) <= 1);
    CHECK(std::abs(p.batches[r + 2] - 80) <= 1);
  }
  REQUIRE(p.result.iteration_end.size() == 25);
  const Seconds one_sample(1 / 400.0), together(480 / 2400.0);
  for (std::size_t i = 1; i < p.result.iteration_end.size(); ++i) {
    const Seconds step = to_seconds(p.result.iteration_end[i] - p.result.iteration_end[i - 1]);
    CHECK(step >= together);
    CHECK(step < (i <= 4 ? Seconds(0.301) : together + one_sample + Seconds(1e-3)));
  }
  const Seconds sum = p.report.breakdown.compute + p.report.breakdown.exposed_communication +
                      p.report.breakdown.straggler_wait + p.report.breakdown.other;
  CHECK(sum.value == Approx(p.report.step.mean.value).epsilon(1e-9));
  CHECK(p.result.last_to_end.size() == p.result.iteration_end.size());
}

// Four copies of 1,000 parameters, and 40 bytes a sample.
TEST_CASE("a GPU without room for its share has what it holds, and the other kind the rest") {
  const std::string limited =
      mixed(R"(, "balance": {"window": 4, "limit": "22 kB"})", R"(, "run": {"iterations": 8})");
  CHECK(predict(parse_scenario(limited, "limited.json")).batches ==
        std::vector<std::int64_t>{150, 150, 90, 90});
}

// The windows' draws go on where the ones before ended, so a balance that changes nothing is the same run.
TEST_CASE("windows of a balanced run have the draws of one run") {
  const std::string jitter = R"(, "variability": {"per_iteration": {"distribution": "lognormal", "cv": 0.2}},
      "run": {"iterations": 6})";
  const std::string even =
      R"({"cluster": {"node": "dgx-a100", "nodes": 1, "gpus_per_node": 2}, "model": "resnet18",
      "training": {"batch_per_gpu": 1, "measured": "500 samples/s")";
  const auto compute = [](const Prediction& p) {
    std::vector<std::int64_t> times;
    for (const Breakdown& b : p.result.breakdown) {
      times.push_back(b.compute.ps);
    }
    return times;
  };
  const Prediction plain = predict(parse_scenario(even + "}" + jitter + "}", "even.json"));
  // Two samples on two GPUs, each of which has one at least: nothing to balance.
  const auto balanced = [&](int window) {
    return predict(parse_scenario(
        even + R"(, "balance": {"window": )" + std::to_string(window) + "}}" + jitter + "}", "windows.json"));
  };
  CHECK(compute(balanced(6)) == compute(plain));
  for (std::size_t r = 0; r < 2; ++r) {  // a window's first step begins with both GPUs together
    CHECK(static_cast<double>(compute(balanced(2))[r]) ==
          Approx(static_cast<double>(compute(plain)[r])).epsilon(0.02));
  }
}

}  // namespace
}  // namespace paceline
