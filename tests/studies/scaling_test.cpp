// Is each GPU's share of the batch, and what it is compared with, what the study says?
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>

#include "scenarios/json.h"
#include "scenarios/limits.h"
#include "scenarios/predict.h"
#include "sim/layers/layer_spans.h"
#include "studies/edit.h"
#include "studies/evaluate.h"
#include "studies/study.h"
#include "studies/sweep.h"
#include "tests/dice.h"
#include "tests/studies/small_study.h"

namespace paceline {
namespace {

const std::string kMeasured =
    R"({"cluster": {"node": "dgx-a100"}, "model": "resnet18",
        "training": {"batch_per_gpu": 64, "measured": "2000 samples/s"}, "run": {"iterations": 2}})";

Study study_of(const std::string& scenario, const std::string& gpus, const std::string& more) {
  return study(R"([{"key": "gpus", "values": )" + gpus + "}]", scenario, more);
}

std::string shares(const Study& s) {
  std::string text;
  for (const StudyPoint& point : s.points) {
    const PointScenario made = scenario_of(s, point);
    if (made.wrong) {
      text += std::string(made.wrong->what()) + "; ";
      continue;
    }
    const Scenario scenario = parse_scenario(to_line(made.scenario), "s.json");
    const TrainingSpec& t = scenario.training;
    text += std::to_string(scenario.cluster.nodes) + "x" + std::to_string(scenario.cluster.gpus_per_node) +
            ": " + std::to_string(t.accumulation) + " of " + std::to_string(t.batch_per_gpu);
    for (const MeasuredRate& rate : t.measured) {
      text += rate.batch_per_gpu > 0 && rate.batch_per_gpu != t.batch_per_gpu
                  ? " (" + std::to_string(rate.batch_per_gpu) + ")"
                  : "";
    }
    text += "; ";
  }
  return text;
}

double at(const std::string& line, const char* pointer) {
  const Json written = parse_json(line);
  const Json* value = value_at(written, pointer);
  REQUIRE(value != nullptr);
  return value->as<double>() != nullptr ? *value->as<double>()
                                        : static_cast<double>(*value->as<std::int64_t>());
}

TEST_CASE("gpus are nodes, or a part of one") {
  CHECK(shares(study_of(kSmall, "[1, 4, 8, 16, 32]", "")) ==
        "1x1: 1 of 8; 1x4: 1 of 8; 1x8: 1 of 8; 2x8: 1 of 8; 4x8: 1 of 8; ");
  CHECK(shares(study_of(kSmall, "[12]", "")) ==
        "s.json: /axes/0: expected GPUs of whole nodes of 8, or fewer than a node has, found 12; ");
  // Where the scenario uses a part of each node, that is a node.
  const std::string half = R"({"cluster": {"node": "dgx-a100", "gpus_per_node": 4}, "model": "resnet18",
                               "training": {"batch_per_gpu": 8}})";
  CHECK(shares(study_of(half, "[2, 4, 12]", "")) == "1x2: 1 of 8; 1x4: 1 of 8; 3x4: 1 of 8; ");
  // A node that another axis names.
  const Study nodes = parse_study("{\"scenario\": " + kSmall + R"(, "axes": [{"key": "gpus", "values": [16]},
      {"key": "/cluster/node", "values": ["dgx2-v100", "dgx-a100"]}]})",
                                  "s.json");
  CHECK(shares(nodes) == "1x16: 1 of 8; 2x8: 1 of 8; ");
}

TEST_CASE("weak scaling keeps the batch of a GPU") {
  CHECK(shares(study_of(kMeasured, "[1, 16]", R"(, "scaling": "weak")")) == "1x1: 1 of 64; 2x8: 1 of 64; ");
}

TEST_CASE("strong scaling keeps the global batch, in as few equal passes as fit") {
  const std::string strong = R"(, "scaling": "strong", "global_batch": )";
  CHECK(shares(study_of(kMeasured, "[1, 2, 8, 16, 64]", strong + "1024")) ==
        "1x1: 16 of 64; 1x2: 8 of 64; 1x8: 2 of 64; 2x8: 1 of 64; 8x8: 1 of 16 (64); ");
  CHECK(shares(study_of(kMeasured, "[8]", strong + "600")) ==
        "1x8: 3 of 25 (64); ");  // 75 is not two equal passes
  CHECK(shares(study_of(kMeasured, "[8]", strong + "536")) == "1x8: 67 of 1 (64); ");  // 67 is a prime
  CHECK(shares(study_of(kSmall, "[64]", strong + "64")) == "8x8: 1 of 1; ");           // nothing was measured
  CHECK(shares(study_of(kMeasured, "[24]", strong + "1000")) ==
        "s.json: /scaling: expected a global batch of which every GPU does as much, found 1000 samples for "
        "24 GPUs; ");
  CHECK(shares(study_of(kMeasured, "[1]", strong + "1000000007")) ==
        "s.json: /scaling: expected a global batch that a GPU does in at most 10000 equal passes of at "
        "most 64, found "
        "1000000007 samples for a GPU; ");
  Json timed = parse_json(kSmall);  // the times of its batch of 8
  set_at(timed, "/training/layer_times",
         Json::Array(41, parse_json(R"({"forward": "1 us", "backward": "1 us"})")), {});
  CHECK(shares(study_of(to_line(timed), "[8, 16]", strong + "64")) ==
        "1x8: 1 of 8; s.json: /training/layer_times: expected no layer_times, which hold for the batch of 8, "
        "where "
        "strong scaling has a batch of 4; measured rates hold for any; ");
  // Left out, it is the scenario's: 2 nodes of 8 GPUs, 3 passes of 64.
  Json scenario = parse_json(kMeasured);
  set_at(scenario, "/cluster/nodes", 2, {});
  set_at(scenario, "/training/accumulation", 3, {});
  const Study own = study_of(to_line(scenario), "[8, 16, 48]", R"(, "scaling": "strong")");
  CHECK(own.global_batch == 3072);
  CHECK(shares(own) == "1x8: 6 of 64; 2x8: 3 of 64; 6x8: 1 of 64; ");
}

// One GPU of the scenario, with that many passes; its rate was measured with one.
double one_gpu(const std::string& scenario, std::int64_t passes) {
  Json lone = parse_json(scenario);
  set_at(lone, "/cluster/gpus_per_node", 1, {});
  set_at(lone, "/training/accumulation", passes, {});
  if (const Json* rate = value_at(lone, "/training/measured")) {
    set_at(lone, "/training/measured", Json::Object{{"rate", *rate}, {"accumulation", 1}}, {});
  }
  return predict(parse_scenario(to_line(lone), "s.json")).report.step.mean.value;
}

TEST_CASE("strong scaling compares with one GPU that accumulates") {
  const Study s = study_of(kMeasured, "[1, 16, 64]", R"(, "scaling": "strong", "global_batch": 1024)");
  const double reference = one_gpu(kMeasured, 16);
  REQUIRE(s.points.size() == 3);
  for (const StudyPoint& point : s.points) {
    const std::string line = sweep_line(s, point);
    const double gpus = at(line, "/gpus");
    CHECK(at(line, "/scaling_efficiency") ==
          Approx(reference / (gpus * at(line, "/step_time_s/mean"))).epsilon(1e-10));
    CHECK(at(line, "/samples_per_step") == 1024);
    CHECK((gpus == 1) == (at(line, "/scaling_efficiency") == 1));
  }
}

TEST_CASE("what disturbs GPUs is no part of the reference, jitter is") {
  Json scenario = parse_json(kSmall);
  set_at(scenario, "/cluster/nodes", 2, {});
  set_at(scenario, "/cluster/degraded_links",
         parse_json(R"([{"from": "node1/nic0", "bandwidth_factor": 0.5}])"), {});
  set_at(scenario, "/background", parse_json(R"([{"from": 0, "to": 9, "rate": "1 GB/s"}])"), {});
  set_at(scenario, "/variability/slow_gpus", parse_json(R"([{"ranks": [12], "factor": 2}])"), {});
  const Study s = study_of(to_line(scenario), "[16]", R"(, "scaling": "strong", "global_batch": 128)");
  Json lone = parse_json(kSmall);
  set_at(lone, "/cluster/gpus_per_node", 1, {});
  set_at(lone, "/training/accumulation", 16, {});
  const double reference = predict(parse_scenario(to_line(lone), "s.json")).report.step.mean.value;
  const std::string line = sweep_line(s, s.points[0]);
  CHECK(at(line, "/scaling_efficiency") ==
        Approx(reference / (16 * at(line, "/step_time_s/mean"))).epsilon(1e-10));
  CHECK(at(line, "/scaling_efficiency") < 0.6);  // one GPU is half as fast
}

TEST_CASE("weak scaling keeps the prediction's efficiency") {
  const Study s = study_of(kMeasured, "[16]", R"(, "scaling": "weak")");
  const Prediction p = predict(parse_scenario(to_line(scenario_of(s, s.points[0]).scenario), "s.json"));
  CHECK(at(sweep_line(s, s.points[0]), "/scaling_efficiency") == p.report.scaling_efficiency);
}

TEST_CASE("more passes than a scenario may say are extended from fewer", "[release]") {
  CHECK_NOTHROW(one_gpu(kMeasured, kMostPasses));
  CHECK_THROWS_WITH(one_gpu(kMeasured, kMostPasses + 1), Catch::Contains("from 1 to 10000, found 10001"));
  std::map<std::pair<std::string, std::int64_t>, double> known;
  const auto simulated_once = [&](const std::string& scenario, std::int64_t passes) {
    const auto [at, fresh] = known.try_emplace({scenario, passes});
    at->second = fresh ? one_gpu(scenario, passes) : at->second;
    return at->second;
  };
  const auto plain = [&](std::int64_t passes) { return simulated_once(kMeasured, passes); };
  const auto jittered = [&](std::int64_t passes) { return simulated_once(kSmall, passes); };
  const std::int64_t passes = thorough() ? 4999 : 1999;
  const double simulated = jittered(passes);
  CHECK(extended_step(passes, plain) == Approx(plain(passes)).epsilon(1e-10));
  CHECK(extended_step(passes, jittered) == Approx(simulated).epsilon(1e-3));
  CHECK(lone_step(passes, jittered) == simulated);
  CHECK(lone_step(kMostPasses + 1, plain) == extended_step(kMostPasses + 1, plain));
  // 2,048 passes of each GPU of 8, 16,384 of one alone.
  const Study s = study_of(kMeasured, "[8]", R"(, "scaling": "strong", "global_batch": 1048576)");
  const std::string line = sweep_line(s, s.points[0]);
  CHECK(at(line, "/scaling_efficiency") ==
        Approx(extended_step(16384, plain) / (8 * at(line, "/step_time_s/mean"))).epsilon(1e-10));
  CHECK(at(line, "/scaling_efficiency") > 0.99);
  CHECK(at(line, "/scaling_efficiency") <= 1);
  // A prime number of samples alone is that many passes of one.
  const std::optional<BatchShare> alone =
      scenario_of(study_of(kMeasured, "[1]", R"(, "scaling": "strong", "global_batch": 9973)"),
                  {{{"gpus", 1}}})
          .alone;
  REQUIRE(alone.has_value());
  CHECK(alone->accumulation == 9973);
}

TEST_CASE("where other jobs have nodes, gpus are this job's") {
  const std::string shared = R"({"cluster": {"node": "dgx-a100", "nodes": 8, "job_nodes": 2},
                                 "model": "resnet18", "training": {"batch_per_gpu": 8}})";
  const Study s = study_of(shared, "[4, 8, 64, 128]", "");
  for (std::size_t i = 0; i < 3; ++i) {
    const Json line = parse_json(sweep_line(s, s.points[i]));
    REQUIRE(line.find("error") == nullptr);
    CHECK(to_line(*line.find("gpus")) == to_line(s.points[i].axes[0].value));
    CHECK(*value_at(line, "/scaling_efficiency")->as<double>() <= 1);
  }
  CHECK(to_line(*value_at(scenario_of(s, s.points[0]).scenario, "/cluster")) ==
        R"({"node": "dgx-a100", "nodes": 8, "job_nodes": 1, "gpus_per_node": 4})");
  const Json more = parse_json(sweep_line(s, s.points[3]));
  REQUIRE(more.find("error") != nullptr);
  CHECK_THAT(*value_at(more, "/error/place")->as<std::string>(), Catch::StartsWith("/cluster"));
}

TEST_CASE("an axis of GPUs per node is not undone by fewer gpus") {
  const Study s = parse_study("{\"scenario\": " + kSmall + R"(, "axes": [{"key": "gpus", "values": [2, 4]},
      {"key": "/cluster/gpus_per_node", "values": [4]}]})",
                              "s.json");
  CHECK(shares(s) ==
        "s.json: /axes/0: expected at least the 4 GPUs of a node that the axis \"/cluster/gpus_per_node\" "
        "gives, found 2; 1x4: 1 of 8; ");
}

Scenario measured_as(const std::string& rates, std::int64_t batch, int accumulation) {
  Json written = parse_json(kMeasured);
  set_at(written, "/training/batch_per_gpu", batch, {});
  set_at(written, "/training/accumulation", accumulation, {});
  set_at(written, "/training/measured", parse_json(rates), {});
  return parse_scenario(to_line(written), "s.json");
}

std::vector<LayerSpan> spans_of(const Scenario& s) {
  return layer_spans(s.model, {s.gpu, s.training.roofline, s.training.precision}, s.training).layers;
}

double pass_of(const Scenario& s) {
  double seconds = 0;
  for (const LayerSpan& span : spans_of(s)) {
    seconds += to_seconds(span.forward + span.backward).value;
  }
  return seconds;
}

double step_of(Scenario s) {
  s.cluster.nodes = s.cluster.gpus_per_node = 1;
  return predict(s).report.step.mean.value;
}

TEST_CASE("a rate measured with another batch scales every layer alike") {
  const Scenario own = measured_as(R"("2000 samples/s")", 64, 1);
  const Scenario other = measured_as(R"({"rate": "2000 samples/s", "batch_per_gpu": 64})", 16, 1);
  const GpuCosts costs{own.gpu, own.training.roofline, own.training.precision};
  const auto measured = spans_of(own), smaller = spans_of(other);
  const auto priced_64 = layer_times(costs, own.model, 64), priced_16 = layer_times(costs, own.model, 16);
  const double factor = to_seconds(measured[0].forward).value / priced_64[0].forward.value;
  CHECK(factor > 0.1);
  for (std::size_t l = 0; l < smaller.size(); ++l) {
    CHECK(to_seconds(smaller[l].forward).value ==
          Approx(priced_16[l].forward.value * factor).margin(1e-12).epsilon(1e-6));
    CHECK(to_seconds(smaller[l].backward).value ==
          Approx(priced_16[l].backward.value * factor).margin(1e-12).epsilon(1e-6));
  }
}

TEST_CASE("a rate is met with the accumulation that it was measured with, whatever another step has") {
  for (const int accumulation : {1, 2, 8, 64}) {
    CAPTURE(accumulation);
    CHECK(step_of(measured_as(R"("1000 samples/s")", 64, accumulation)) ==
          Approx(0.064 * accumulation).epsilon(1e-10));
    const std::string rates =
        R"({"rate": "1000 samples/s", "accumulation": )" + std::to_string(accumulation) + "}";
    CHECK(step_of(measured_as(rates, 64, accumulation)) == Approx(0.064 * accumulation).epsilon(1e-10));
  }
  // One optimizer step for eight passes instead of for each.
  const double with_one = step_of(measured_as(R"({"rate": "1000 samples/s", "accumulation": 1})", 64, 8));
  const double with_eight = step_of(measured_as(R"({"rate": "1000 samples/s", "accumulation": 8})", 64, 1));
  CHECK(with_one < 8 * 0.064);
  CHECK(with_eight > 0.064);
}

TEST_CASE("between two measured batches a pass is affine, beyond them it grows as it is priced") {
  const std::string rates =
      R"([{"rate": "1200 samples/s", "batch_per_gpu": 64}, {"rate": "800 samples/s", "batch_per_gpu": 16}])";
  CHECK(step_of(measured_as(rates, 64, 1)) == Approx(64.0 / 1200).epsilon(1e-10));
  CHECK(step_of(measured_as(rates, 16, 1)) == Approx(16.0 / 800).epsilon(1e-10));
  const double low = pass_of(measured_as(rates, 16, 1)), high = pass_of(measured_as(rates, 64, 1));
  CHECK(pass_of(measured_as(rates, 40, 1)) == Approx((low + high) / 2).epsilon(1e-6));
  const Scenario s = measured_as(rates, 128, 1);
  const auto priced = [&](std::int64_t batch) {
    double seconds = 0;
    for (const LayerTime& t :
         layer_times({s.gpu, s.training.roofline, s.training.precision}, s.model, batch)) {
      seconds += t.forward.value + t.backward.value;
    }
    return seconds;
  };
  CHECK(pass_of(s) == Approx(high * priced(128) / priced(64)).epsilon(1e-6));
  CHECK(pass_of(measured_as(rates, 4, 1)) == Approx(low * priced(4) / priced(16)).epsilon(1e-6));
}

TEST_CASE("measured rates are written as they were said") {
  for (const char* const rates : {R"("2000 samples/s")", R"({"rate": "2000 samples/s", "batch_per_gpu": 32})",
                                  R"({"rate": "2000 samples/s", "accumulation": 3})",
                                  R"([{"rate": "2000 samples/s", "batch_per_gpu": 32}, "1500 samples/s"])"}) {
    const Scenario read = measured_as(rates, 64, 1);
    CHECK(to_line(*value_at(parse_json(to_json(read)), "/training/measured")) == to_line(parse_json(rates)));
  }
}

TEST_CASE("measured rates that can't be say why") {
  CHECK_THROWS_WITH(measured_as("[]", 64, 1), "s.json: /training/measured: expected 1 to 100 rates, found 0");
  CHECK_THROWS_WITH(
      measured_as(R"(["2000 samples/s", {"rate": "1 samples/s", "batch_per_gpu": 64}])", 64, 1),
      "s.json: /training/measured: expected one measured rate for each batch, found two for 64");
  CHECK_THROWS_WITH(
      measured_as(R"("2000 tokens/s")", 64, 1),
      "s.json: /training/measured: expected a rate in samples/s, as a sample of resnet18 is no tokens "
      "(224x224 image), found one in tokens/s");
  Json written = parse_json(kMeasured);
  set_at(written, "/training/measured", parse_json(R"({"rate": "1 samples/s", "batch_per_gpu": 32})"), {});
  set_at(written, "/training/layer_times", parse_json(R"([{"forward": "1 us", "backward": "1 us"}])"), {});
  CHECK_THROWS_WITH(
      parse_scenario(to_line(written), "s.json"),
      "s.json: /training: expected no layer_times, which hold for one batch, with a rate measured "
      "with 32 and not 64");
}

TEST_CASE("a rate above the GPU's dense peak asks whether it is a node's") {
  // ResNet-18: 1.8 GMACs forward; an A100 has 156 TFLOP/s in tf32, 14,000 samples/s of forward and backward.
  CHECK_THROWS_WITH(step_of(measured_as(R"("64000 samples/s")", 64, 1)),
                    Catch::Contains("/training/measured") &&
                        Catch::Contains("times the dense peak of A100") &&
                        Catch::Contains("is it the rate of a node?"));
}

TEST_CASE("a rate in tokens is one of samples") {
  const auto rate = [](const std::string& measured) {
    return parse_scenario(R"({"cluster": "dgx-a100", "model": "gpt2_small",
        "training": {"batch_per_gpu": 4, "precision": "bf16", "measured": )" +
                              measured + "}}",
                          "s.json")
        .training.measured.front()
        .rate.value;
  };
  CHECK(rate(R"("51200 tokens/s")") == Approx(50));
  CHECK(rate(R"({"rate": "51200 tokens/s", "batch_per_gpu": 8})") == Approx(50));
  CHECK_THROWS_WITH(
      rate(R"("51.2k tok/s")"),
      R"(s.json: /training/measured: expected a rate such as "400 samples/s", found "51.2k tok/s": unknown )"
      R"(unit "k tok/s"; write "51200 tokens/s")");
  CHECK_THROWS_WITH(rate(R"({"rate": 400})"), Catch::Contains("/training/measured/rate: ") &&
                                                  Catch::Contains("the units are samples/s or tokens/s"));
}

}  // namespace
}  // namespace paceline
