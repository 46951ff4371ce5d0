// Is a known delay found again? Does the fit say what its rows can't tell? How far are two published rows?
#include "calibrate/fit/training_fit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/training_interval.h"
#include "calibrate/fit/training_prediction.h"
#include "core/error.h"
#include "scenarios/predict.h"
#include "sim/collective/communicator.h"
#include "sim/layers/layer_spans.h"
#include "tests/error_of.h"
#include "tests/example.h"

namespace paceline {
namespace {

constexpr double kRate = 1000;  // samples/s of one GPU

Scenario machine(const std::string& precision = "fp32") {
  return parse_scenario(R"({"cluster": {"node": {"preset": "dgx1-v100", "nics": 1}, "nodes": 2},
    "model": "resnet18", "training": {"batch_per_gpu": 128, "precision": ")" +
                            precision + R"("}})",
                        "machine");
}

Scenario on(Scenario scenario, int nodes, int gpus_per_node) {
  scenario.cluster.nodes = nodes;
  scenario.cluster.gpus_per_node = gpus_per_node;
  return scenario;
}

TrainingMeasurement row(int ranks, int nodes, double rate, int accumulation = 0, std::int64_t batch = 0) {
  return {ranks, nodes, rate, "test", {}, accumulation, batch};
}

Scenario with_delays(Scenario scenario, double milliseconds, double per_doubling) {
  scenario.training.measured = {{SamplesPerSecond(kRate), 0, 0, false}};
  scenario.variability.delays = {Seconds(milliseconds * 1e-3), per_doubling};
  return scenario;
}

double throughput(const Scenario& scenario) { return predict(scenario).report.throughput; }

// What a machine with these delays would show.
double simulated(int nodes, int gpus_per_node, double milliseconds, double per_doubling) {
  return throughput(with_delays(on(machine(), nodes, gpus_per_node), milliseconds, per_doubling));
}

double predicted(const TrainingFit& fit, const Scenario& scenario) {
  return predict_throughput(fit.result, scenario).samples_per_second;
}

TEST_CASE("tokens a second are samples of so many tokens, and no images") {
  TrainingMeasurement tokens = row(8, 1, 0);
  tokens.tokens_per_second = 8192;
  tokens.origin = {"rates.csv", 2};
  Model text, images;
  text.tokens = 2048;
  images.name = "resnet50";
  const std::vector<TrainingMeasurement> rows = in_samples({tokens, row(1, 1, 0.6)}, text);
  CHECK(rows[0].samples_per_second == 4);
  CHECK(rows[0].tokens_per_second == 8192);
  CHECK(rows[1].samples_per_second == 0.6);
  TrainingFit fit;
  fit.result.covariance.assign(4, 0);
  fit.rows = {{rows[0], 4.2}};
  CHECK_THAT(fit_text(fit), Catch::Contains("8 GPUs: measured 8192, fitted 8601.6 tokens/s (+5.00 %)"));
  CHECK(error_of([&] { in_samples({tokens}, images); }) ==
        "rates.csv: line 2: expected samples/s, as samples of resnet50 have no tokens, found tokens/s");
}

TEST_CASE("a rank that is named as slow and isn't among a row's GPUs slows none of them") {
  Scenario with = on(machine(), 1, 8), without = with;
  with.variability.slow_gpus = {{.ranks = {8, 11}, .fraction = {}, .factor = 3}};
  with.variability.spared_gpus = {11};
  const TrainingMeasurement eight = row(8, 1, 1000);
  CHECK(on_row(with, eight).variability.slow_gpus.front().ranks.empty());
  CHECK(on_row(with, eight).variability.spared_gpus.empty());
  with.cluster.nodes = 2;
  with.cluster.degraded = {{.from = "node1/nic0", .to = {}, .bandwidth_factor = 0.5, .extra_latency = {}}};
  const double expected = fit_training(without, std::span(&eight, 1)).rows.front().samples_per_second;
  CHECK(fit_training(with, std::span(&eight, 1)).rows.front().samples_per_second ==
        Approx(expected).epsilon(1e-14));
}

TEST_CASE("a degraded link of a server's own node is there for the rows, too") {
  Scenario base = on(machine(), 2, 8);
  base.training.strategy = StrategyKind::parameter_server;
  base.training.parameter_server.servers.count = 1;
  base.cluster.degraded = {{.from = "node2/nic0", .to = {}, .bandwidth_factor = 0.5, .extra_latency = {}},
                           {.from = "node3/nic0", .to = {}, .bandwidth_factor = 0.5, .extra_latency = {}}};
  const std::vector<DegradedLink> left = on_row(base, row(16, 2, 1000)).cluster.degraded;
  REQUIRE(left.size() == 1);
  CHECK(left.front().from == "node2/nic0");
}

TEST_CASE("batches by rank, a balance and others' traffic belong to no row of measurements") {
  const TrainingMeasurement sixteen = row(16, 2, 2000);
  const auto refused = [&](const auto& change) {
    Scenario base = on(machine(), 1, 8);
    change(base);
    return error_of([&] { fit_training(base, std::span(&sixteen, 1)); });
  };
  CHECK_THAT(refused([](Scenario& s) { s.training.batches = {32, 32, 32, 32, 32, 32, 16, 48}; }),
             Catch::Contains("/training/batches: expected none beside measured rows"));
  CHECK_THAT(refused([](Scenario& s) { s.training.balance.emplace(); }),
             Catch::Contains("/training/balance: expected none beside measured rows"));
  CHECK_THAT(refused([](Scenario& s) { s.background = {{20, 1, BytesPerSecond(1e9), {}}}; }),
             Catch::Contains("/background: expected none beside measured rows"));
  CHECK_THAT(refused([](Scenario& s) { s.other_jobs = {{4, 2, BytesPerSecond(1e9)}}; }),
             Catch::Contains("/other_jobs: expected none beside measured rows"));
  CHECK_THAT(refused([](Scenario& s) { s.gpus = {{1, s.gpu, {}, {}}, {1, s.gpu, {}, {}}}; }),
             Catch::Contains("/cluster/gpus: expected none beside measured rows"));
}

TEST_CASE("delays that were simulated are found again, and so are the rows they weren't fitted to") {
  for (const auto& delays : {std::pair(0.5, 0.01), std::pair(4.0, 0.0), std::pair(1.0, 0.06)}) {
    const double milliseconds = delays.first, per_doubling = delays.second;
    const auto at = [&](int nodes, int gpus) { return simulated(nodes, gpus, milliseconds, per_doubling); };
    const std::vector<TrainingMeasurement> rows{row(1, 1, kRate), row(2, 1, at(1, 2)), row(4, 1, at(1, 4)),
                                                row(8, 1, at(1, 8))};
    const TrainingFit fit = fit_training(machine(), rows);
    INFO(milliseconds << " ms and " << per_doubling << ": " << fit_text(fit));
    CHECK(fit.result.rates.front().rate.value == Approx(kRate).epsilon(2e-3));
    CHECK(fit.result.delays_fitted);
    CHECK(fit.result.delays.per_step.value == Approx(1e-3 * milliseconds).margin(0.8e-3));
    CHECK(fit.result.delays.per_doubling == Approx(per_doubling).margin(3e-3));
    for (const TrainingRow& each : fit.rows) {
      CHECK(each.samples_per_second == Approx(each.row.samples_per_second).epsilon(3e-3));
    }
    const ThroughputPrediction more = predict_throughput(fit.result, on(machine(), 2, 8));
    CHECK(more.samples_per_second == Approx(at(2, 8)).epsilon(0.005));
    CHECK(more.low < more.samples_per_second);
    CHECK(more.samples_per_second < more.high);
  }
}

TEST_CASE("a step of several GPUs is longer by the delays, as the header says") {
  constexpr double kMilliseconds = 2, kPerDoubling = 0.03;
  for (const int accumulation : {1, 4}) {
    for (const int gpus : {1, 2, 8}) {
      CAPTURE(accumulation, gpus);
      Scenario plain = with_delays(on(machine(), 1, gpus), 0, 0);
      plain.training.accumulation = accumulation;
      Scenario late = plain;
      late.variability.delays = {Seconds(kMilliseconds * 1e-3), kPerDoubling};
      double layers = 0;
      const GpuCosts costs{plain.gpu, plain.training.roofline, plain.training.precision};
      for (const LayerSpan& span : layer_spans(plain.model, costs, plain.training).layers) {
        layers += to_seconds(span.forward + span.backward).value;
      }
      const double longer =
          gpus == 1 ? 0
                    : 1e-3 * kMilliseconds + accumulation * layers * kPerDoubling * std::log2(gpus) /
                                                 std::sqrt(static_cast<double>(accumulation));
      // Communication is hidden but for the last bucket, which the longer step neither hides nor shows.
      CHECK(predict(late).report.step.mean.value - predict(plain).report.step.mean.value ==
            Approx(longer).epsilon(0.03).margin(1e-9));
    }
  }
}

TEST_CASE("one GPU's row leaves the delays at what published runs lose, and the fit says so") {
  const TrainingFit one = fit_training(machine(), std::vector{row(1, 1, kRate)});
  CHECK_FALSE(one.result.delays_fitted);
  CHECK(one.result.delays == kTypicalDelays);
  CHECK_THAT(fit_text(one), Catch::Contains("as published runs lose: these rows determine the rates alone"));
  CHECK(fit_training(machine("fp16"), std::vector{row(1, 1, kRate)}).result.delays == kTypicalDelays);

  const std::vector<TrainingMeasurement> two{
      row(1, 1, kRate),
      row(8, 1, simulated(1, 8, 1e3 * kTypicalDelays.per_step.value, kTypicalDelays.per_doubling))};
  const ThroughputPrediction wide = predict_throughput(one.result, on(machine(), 1, 8));
  // What several GPUs lose for what is theirs alone nobody has seen: up to 16 %, and no gain is as large.
  const auto slower = [](const ThroughputPrediction& p) { return std::log(p.samples_per_second / p.low); };
  const auto faster = [](const ThroughputPrediction& p) { return std::log(p.high / p.samples_per_second); };
  CHECK(slower(wide) == Approx(std::hypot(faster(wide), 0.146)));
  const ThroughputPrediction pair = predict_throughput(one.result, on(machine(), 1, 2));
  CHECK(slower(pair) == Approx(std::hypot(faster(pair), 0.073)));
  const ThroughputPrediction narrow =
      predict_throughput(fit_training(machine(), two).result, on(machine(), 1, 8));
  CHECK(narrow.samples_per_second == Approx(wide.samples_per_second).epsilon(0.002));
  CHECK(narrow.high / narrow.low < wide.high / wide.low);
}

TEST_CASE("a rate that was measured without checkpointing stands for a slower one with it") {
  Scenario scenario = parse_scenario(R"({"cluster": "dgx-h100", "model": "gpt2_small", "training":
      {"batch_per_gpu": 8, "precision": "bf16", "strategy": "fsdp", "activation_checkpointing": "full",
       "measured": {"rate": "80 samples/s", "activation_checkpointing": "none"}}})",
                                     "machine");
  scenario.variability.delays = kTypicalDelays;
  const double eight = throughput(on(scenario, 1, 8));
  scenario.variability.delays = {};
  const TrainingFit fit = fit_training(scenario, std::vector{row(8, 1, eight)});
  REQUIRE(fit.result.rates.size() == 1);
  CHECK(fit.result.rates[0].activation_checkpointing == ActivationCheckpointing::full);
  CHECK(fit.result.rates[0].rate.value < 0.85 * 80);
  CHECK(fit.result.delays.per_doubling == Approx(kTypicalDelays.per_doubling).margin(0.003));
}

TEST_CASE("without one GPU's row a linear table fits, and goes on linearly") {
  const std::vector<TrainingMeasurement> rows{row(8, 1, 16'000), row(16, 2, 32'000), row(32, 4, 64'000)};
  const Scenario resnet = parse_scenario(R"({"cluster": "dgx-a100", "model": "resnet50",
      "training": {"batch_per_gpu": 256, "precision": "fp16"}})",
                                         "machine");
  const TrainingFit fit = fit_training(resnet, rows);
  INFO(fit_text(fit));
  for (const TrainingRow& each : fit.rows) {
    CHECK(each.samples_per_second == Approx(each.row.samples_per_second).epsilon(1e-3));
  }
  CHECK(predicted(fit, on(resnet, 16, 8)) == Approx(256'000).epsilon(0.01));
  CHECK(predicted(fit, on(resnet, 32, 8)) == Approx(512'000).epsilon(0.01));
}

TEST_CASE("the smallest row's step is met with its own accumulation") {
  // 16 GPUs with one NIC for eight: a third of the step is communication, less with accumulation.
  for (const int accumulation : {1, 4}) {
    const std::vector<TrainingMeasurement> rows{row(16, 2, 9'000, accumulation)};
    const TrainingFit fit = fit_training(machine(), rows);
    INFO("accumulation " << accumulation);
    CHECK(predicted(fit, on_row(machine(), rows[0])) == Approx(9'000).epsilon(1e-4));
    CHECK(fit.result.rates.front().rate.value > 9'000 / 16.0);
    CHECK(fit.result.rates.front().accumulation == accumulation);
  }
}

// Its cycles make stairs of a step as a function of what kernels take: on one, slower kernels change nothing.
TEST_CASE("one row of Horovod's tells a rate, and how uncertain it is") {
  const auto [batch, rate] = GENERATE(table<int, double>({{64, 2300},
                                                          {64, 2350},
                                                          {64, 2400},
                                                          {64, 2450},
                                                          {64, 2500},
                                                          {8, 1381.08},
                                                          {8, 1650},
                                                          {8, 1714.47},
                                                          {8, 1750},
                                                          {4, 805.345}}));
  const Scenario horovod = parse_scenario(R"({"cluster": "dgx1-v100", "model": "resnet50",
      "training": {"strategy": "horovod", "batch_per_gpu": )" +
                                              std::to_string(batch) + R"(, "precision": "fp32"}})",
                                          "machine");
  const TrainingFit fit = fit_training(horovod, std::vector{row(8, 1, rate)});
  CAPTURE(rate, fit_text(fit));
  CHECK(std::ranges::all_of(fit.result.covariance, [](double entry) { return std::isfinite(entry); }));
  CHECK(fit.rows.front().samples_per_second == Approx(rate).epsilon(0.005));
  const ThroughputPrediction again = predict_throughput(fit.result, on(horovod, 1, 8));
  CHECK(again.samples_per_second == Approx(rate).epsilon(0.02));  // its rate is one GPU's, by other stairs
  CHECK(again.low < again.samples_per_second);
  CHECK(again.high > again.samples_per_second);
  // On wide stairs 1.55 at 2500 samples/s, and 1.71 at 1650.
  CHECK(again.high < (rate == 1650 ? 1.75 : 1.6) * again.low);
}

TEST_CASE("repeated rows are averaged") {
  const std::vector<TrainingMeasurement> rows{row(1, 1, 990), row(1, 1, 1010)};
  const TrainingFit fit = fit_training(machine(), rows);
  CHECK(fit.result.rates.front().rate.value == Approx(std::sqrt(990.0 * 1010)).epsilon(1e-4));
}

TEST_CASE("two batches on one GPU are two rates") {
  const std::vector<TrainingMeasurement> rows{row(1, 1, 1000, 0, 128), row(1, 1, 700, 0, 32)};
  const TrainingFit fit = fit_training(machine(), rows);
  REQUIRE(fit.result.rates.size() == 2);
  CHECK(fit.result.rates[0].batch_per_gpu == 32);
  CHECK(fit.result.rates[0].rate.value == Approx(700).epsilon(1e-4));
  CHECK(fit.result.rates[1].rate.value == Approx(1000).epsilon(1e-4));
  for (const TrainingMeasurement& each : rows) {
    CHECK(predicted(fit, on_row(machine(), each)) == Approx(each.samples_per_second).epsilon(1e-4));
  }
  const auto width = [&](std::int64_t batch) {
    const ThroughputPrediction p = predict_throughput(fit.result, on_row(machine(), row(1, 1, 1, 0, batch)));
    return p.high / p.low;
  };
  CHECK(width(8) > width(32));
}

Scenario sharded() {
  return parse_scenario(R"({"cluster": "dgx-a100",
    "model": {"transformer": {"layers": 3, "hidden": 256, "heads": 4, "vocabulary": 1000, "sequence": 64}},
    "training": {"strategy": "fsdp", "batch_per_gpu": 8, "precision": "bf16"}, "run": {"iterations": 2}})",
                        "machine");
}

TEST_CASE("sharded training is anchored to several GPUs") {
  const Scenario base = sharded();
  const DelaySpec delays = kTypicalDelays;
  const auto measured = [&](int nodes, int accumulation) {
    Scenario scenario = on(base, nodes, 8);
    scenario.training.accumulation = accumulation;
    scenario.training.measured = {{SamplesPerSecond(500), 0, 4, false}};
    scenario.variability.delays = delays;
    return throughput(scenario);
  };
  const TrainingFit fit = fit_training(base, std::vector{row(8, 1, measured(1, 4), 4)});
  CHECK(fit.result.rates.front().rate.value == Approx(500).epsilon(1e-4));
  const ThroughputPrediction more = predict_throughput(fit.result, on(base, 2, 8));
  CHECK(more.samples_per_second == Approx(measured(2, 1)).epsilon(1e-4));
  CHECK(more.low < 0.99 * more.samples_per_second);  // a row's own error at least
}

TEST_CASE("sharded training takes what a profile says of all-gathers and reduce-scatters") {
  const Scenario given = sharded();
  Profile profile;
  profile.cluster = "dgx-a100";
  profile.nccl = given.training.collective.nccl;
  for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
    for (const int shift : {10, 16, 22}) {  // three times as slow as simulated
      ProfilePoint point;
      point.kind = kind;
      point.gpus_per_node = 8;
      point.bytes = Bytes(1 << shift);
      point.log_ratio = std::log(3);
      point.noise = 0.01;
      point.nccl = given.training.collective.nccl;
      profile.points.push_back(point);
    }
  }
  const Scenario fitted = with_profile(given, profile);
  const std::vector<Correction>& corrections = fitted.training.collective.corrections;
  for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
    CHECK(correction(corrections, kind, Bytes(1 << 22)) == Approx(3).epsilon(0.01));
  }
  CHECK(correction(corrections, CollectiveKind::all_reduce, Bytes(1 << 20)) == 1);
  CHECK(predict(fitted).report.step.mean.value > 1.5 * predict(given).report.step.mean.value);

  const TrainingInterval interval = training_interval(fitted, profile);
  INFO(interval.why);
  CHECK_FALSE(interval.extrapolated);  // a unit of 1.5 MiB is between the sizes that were measured
  CHECK(interval.low < interval.step);
  CHECK(interval.step < interval.high);
}

TEST_CASE("a scenario's own rate and delays are the middle of its interval, whatever the profile's are") {
  Profile profile;
  profile.training.push_back(
      fit_training(on(machine(), 1, 8), std::vector{row(1, 1, kRate), row(8, 1, 7500)}).result);
  const Scenario plain = on(machine(), 2, 8);
  Scenario own = plain;
  own.training.measured = {{SamplesPerSecond(kRate / 2)}};
  Scenario late = plain;
  late.variability.delays = {Seconds(0.02), 0};
  Scenario none = plain;
  none.variability.delays = DelaySpec{};
  CHECK(with_profile(plain, profile).variability.delays == profile.training.front().delays);
  CHECK(with_profile(none, profile).variability.delays == DelaySpec{});
  for (const Scenario& each : {with_profile(plain, profile), with_profile(own, profile),
                               with_profile(late, profile), with_profile(none, profile)}) {
    const TrainingInterval interval = training_interval(each, profile);
    CHECK(interval.step.value == Approx(predict(each).report.step.mean.value).epsilon(0.01));
    CHECK(interval.low < interval.step);
    CHECK(interval.step < interval.high);
  }
  const auto told = [&](const Scenario& scenario) {
    return interval_text(training_interval(with_profile(scenario, profile), profile));
  };
  CHECK(told(plain).find("not used") == std::string::npos);
  CHECK(told(own).find("the profile's rate is not used") != std::string::npos);
  CHECK(told(none).find("the profile's delays are not used") != std::string::npos);
}

TEST_CASE("a step shorter than its communication is no anchor, and the message has both times") {
  const auto message = [](double rate) {
    try {
      fit_training(machine(), std::vector{row(16, 2, rate)});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  CHECK(message(20'000) == "none");
  // 2,048 samples in 2.048 ms; 47 MB of gradients take several times that over 100 Gb/s.
  CHECK_THAT(message(1e6),
             Catch::Contains("1e+06 samples/s are a step of 2.048 ms, and communication, copies, "
                             "launches and the optimizer alone take"));
}

TEST_CASE("a row that is faster than one GPU's rate leaves little time per step, and the fit meets it") {
  const std::vector<TrainingMeasurement> rows{row(1, 1, kRate), row(8, 1, 8.1 * kRate)};
  const TrainingFit fit = fit_training(machine(), rows);
  CHECK(fit.result.delays.per_step.value < 0.2 * kTypicalDelays.per_step.value);
  CHECK(fit.result.delays.per_doubling < 0);
  CHECK(fit.rows.back().samples_per_second == Approx(8.1 * kRate).epsilon(0.01));
}

TEST_CASE("unknown reduction: between both ways to reduce, both inside the interval") {
  const std::vector<TrainingMeasurement> rows{row(1, 1, kRate), row(8, 1, simulated(1, 8, 1, 0.016))};
  Scenario unknown = machine();
  unknown.training.ddp.reduction = Reduction::unknown;
  const double overlapped = predicted(fit_training(machine(), rows), on(machine(), 2, 8));
  const ThroughputPrediction both = predict_throughput(fit_training(unknown, rows).result, on(unknown, 2, 8));
  CHECK(both.samples_per_second < overlapped);
  CHECK(both.low < overlapped * overlapped / both.samples_per_second);
  CHECK(both.high > overlapped);
  // The profile remembers it for a scenario that doesn't name a reduction.
  CHECK(predict_throughput(fit_training(unknown, rows).result, on(machine(), 2, 8)).high ==
        Approx(both.high).epsilon(1e-9));
}

TEST_CASE("more nodes than measured widen the interval") {
  const std::vector<TrainingMeasurement> rows{row(1, 1, kRate), row(8, 1, simulated(1, 8, 1, 0.016))};
  const TrainingFit fit = fit_training(machine(), rows);
  const auto width = [&](int nodes) {
    const ThroughputPrediction p = predict_throughput(fit.result, on(machine(), nodes, 8));
    return p.high / p.low;
  };
  CHECK(width(1) < width(2));
  CHECK(width(2) < width(16));
}

// Servers so slow that one GPU waits for them, too: summing and updating 46.8 MB at 1 GB/s take longer than its
// backward pass leaves.
TEST_CASE(
    "one GPU was measured with its servers: its rate without them is found again, and so is a row with "
    "more") {
  Scenario base = machine();
  base.training.strategy = StrategyKind::parameter_server;
  base.training.parameter_server.servers = {1, ServerPlacement::with_workers, BytesPerSecond(1e9)};
  const auto served = [&](int nodes, int gpus_per_node, std::int64_t servers) {
    Scenario scenario = with_delays(on(base, nodes, gpus_per_node), 1.4, 0.016);
    scenario.training.parameter_server.servers.count = servers;
    return throughput(scenario);
  };
  const double one = served(1, 1, 1);
  CHECK(one < 0.9 * kRate);
  const TrainingFit fit = fit_training(base, std::vector{row(1, 1, one)});
  CHECK(fit.result.rates[0].rate.value == Approx(kRate).epsilon(1e-4));
  CHECK(fit.rows[0].samples_per_second == Approx(one).epsilon(1e-4));
  for (const std::int64_t servers : {1, 2, 4}) {
    CAPTURE(servers);
    TrainingMeasurement more = row(8, 2, 1);
    more.servers = servers;
    CHECK(predicted(fit, on_row(base, more)) == Approx(served(2, 4, servers)).epsilon(1e-4));
  }
  CHECK(served(2, 4, 4) > 1.5 * served(2, 4, 1));  // what the row says matters
  // A step that servers alone take longer than.
  CHECK_THAT(error_of([&] { fit_training(base, std::vector{row(1, 1, 2 * one)}); }),
             Catch::Contains("expected a step that leaves time for kernels"));
}

TEST_CASE("rows that can't be") {
  const auto fails = [](const std::vector<TrainingMeasurement>& rows) {
    CHECK_THROWS_AS(fit_training(machine(), rows), InputError);
  };
  fails({});
  fails({row(12, 1, kRate)});
  fails({row(9, 2, kRate)});
  fails({row(1, 1, 0)});
  fails({row(1, 0, kRate)});
  fails({row(1, 1, 1e5)});  // above the GPU's peak
}

// DLPerf, NGC PyTorch (scenarios/validation/training): fitted to 1 and 8 GPUs, checked on 16.
TEST_CASE("ResNet-50 on 16 V100 from its rows of 1 and 8") {
  const Scenario base = example("validation/training/dlperf_resnet50_ngc_pytorch_fp32");
  const std::vector<TrainingMeasurement> rows{row(1, 1, 367.29), row(8, 1, 2887.65)};
  const ThroughputPrediction p = predict_throughput(fit_training(base, rows).result, on(base, 2, 8));
  CHECK(std::abs(p.samples_per_second / 5716.79 - 1) < 0.04);
  CHECK(p.low < 5716.79);
  CHECK(p.high > 5716.79);
}

}  // namespace
}  // namespace paceline
