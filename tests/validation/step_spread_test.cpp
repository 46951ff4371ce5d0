// Do steps spread as published logs say they do?
#include <catch2/catch.hpp>
#include <string>

#include "scenarios/predict.h"
#include "scenarios/scenario.h"
#include "scenarios/step_spreads.h"

namespace paceline {
namespace {

Report run(int nodes, const std::string& spread, int iterations) {
  return predict(
             parse_scenario(R"({"cluster": {"node": "dgx-a100", "nodes": )" + std::to_string(nodes) + R"(},
      "model": "bert_large_mlperf",
      "training": {"batch_per_gpu": 20, "precision": "fp16", "gradients": "fp16", "strategy": "zero",
                   "optimizer": "lamb", "ddp": {"reduction": "after_backward"}},
      "variability": {"per_step": )" +
                                spread + R"(}, "run": {"iterations": )" + std::to_string(iterations) + "}}",
                            "s.json"))
      .report;
}

TEST_CASE("steps of all GPUs that vary together make nobody wait for anybody") {
  const Report varied = run(2, R"({"preset": "bert_8_gpus"})", 200);
  CHECK(varied.step.p95.value > 1.05 * varied.step.p50.value);
  CHECK(varied.breakdown.straggler_wait.value < 1e-6 * varied.step.mean.value);
  const Report plain = run(2, R"({"distribution": "none"})", 4);
  CHECK(varied.step.mean.value == Approx(plain.step.mean.value).epsilon(0.03));
}

// mlcommons/training_results_v0.7, NVIDIA, dgxa100_n32_ngc20.06_pytorch, BERT padded to 512 tokens: 9,074 single steps
// of ten runs; derived from MLPerf logs, not verified by MLCommons.
TEST_CASE("steps of BERT on 256 GPUs spread as those on 8, to a third") {
  constexpr double kP95 = 1.1142, kP99 = 1.4520;
  const Report spread = run(32, R"({"preset": "bert_8_gpus"})", 2000);
  const double p95 = spread.step.p95 / spread.step.p50, p99 = spread.step.p99 / spread.step.p50;
  CAPTURE(p95, p99);
  CHECK(p95 == Approx(kP95).epsilon(1.0 / 3));
  CHECK(p99 == Approx(kP99).epsilon(1.0 / 3));
}

TEST_CASE("a spread that nobody measured is refused with those that there are") {
  CHECK_THROWS_WITH(step_spread("bert_9_gpus"), Catch::Contains("bert_8_gpus"));
  for (const std::string& name : step_spread_names()) {
    CHECK(step_spread(name).values.size() == 200);
  }
}

}  // namespace
}  // namespace paceline
