// Is a known delay found again? Does the fit say what its rows can't tell? How far are two published rows?
#include "calibrate/fit/training_fit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/training_interval.h"
#include "core/error.h"
#include "scenarios/predict.h"
#include "sim/collective/communicator.h"

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

TrainingMeasurement row(int ranks, int nodes, double rate, int accumulation = 0) {
  return {ranks, nodes, rate, "test", {}, accumulation};
}

// What a machine with this delay would show.
double simulated(int nodes, int gpus_per_node, double cv) {
  Scenario scenario = on(machine(), nodes, gpus_per_node);
  scenario.training.measured = {{SamplesPerSecond(kRate), 0, 0, false}};
  scenario.variability.per_iteration = {DistributionKind::exponential, cv, {}};
  scenario.run.iterations = 1000;
  return predict(scenario).report.throughput;
}

TEST_CASE("a delay that was simulated is found again, and so are the rows it wasn't fitted to") {
  for (const double cv : {0.01, 0.06, 0.3}) {
    const std::vector<TrainingMeasurement> rows{row(1, 1, kRate), row(8, 1, simulated(1, 8, cv))};
    const TrainingFit fit = fit_training(machine(), rows);
    INFO("cv " << cv);
    CHECK(fit.one_gpu_rate.value == Approx(kRate));
    CHECK(fit.delay_cv.determined);
    CHECK(fit.delay_cv.value == Approx(cv).epsilon(0.005));
    CHECK(fit.delay_cv.low < cv);
    CHECK(fit.delay_cv.high > cv);
    CHECK(fit.mean_error < 1e-3);
    const ThroughputPrediction more = predict_throughput(fit, on(machine(), 2, 8));
    CHECK(more.samples_per_second == Approx(simulated(2, 8, cv)).epsilon(0.003));
    CHECK(more.low < more.samples_per_second);
    CHECK(more.samples_per_second < more.high);
  }
}

TEST_CASE("a step of n GPUs grows by cv times the harmonic sum, as the header says") {
  constexpr double kDelay = 0.1;
  double harmonic = 0;
  for (int n = 2; n <= 8; ++n) {
    harmonic += 1.0 / n;
    if (n == 2 || n == 4 || n == 8) {
      const double growth = simulated(1, n, 0) / simulated(1, n, kDelay) - 1;
      CHECK(growth == Approx(kDelay * harmonic).epsilon(0.08));
    }
  }
}

TEST_CASE("one GPU's row leaves the delay at its default, and the fit says so") {
  const std::vector<TrainingMeasurement> one{row(1, 1, kRate)};
  const TrainingFit fp32 = fit_training(machine(), one), fp16 = fit_training(machine("fp16"), one);
  CHECK_FALSE(fp32.delay_cv.determined);
  CHECK(fp32.delay_cv.why.find("no row has several GPUs") != std::string::npos);
  CHECK(fp32.delay_cv.value < fp16.delay_cv.value);

  const std::vector<TrainingMeasurement> two{one[0], row(8, 1, simulated(1, 8, fp32.delay_cv.value))};
  const ThroughputPrediction wide = predict_throughput(fp32, on(machine(), 1, 8));
  const ThroughputPrediction narrow = predict_throughput(fit_training(machine(), two), on(machine(), 1, 8));
  CHECK(narrow.samples_per_second == Approx(wide.samples_per_second).epsilon(0.002));
  CHECK(narrow.high / narrow.low < wide.high / wide.low);
}

TEST_CASE("without one GPU's row the smallest one gives the rate, and can't give the delay as well") {
  const double prior = fit_training(machine(), std::vector{row(1, 1, kRate)}).delay_cv.value;
  const std::vector<TrainingMeasurement> eight{row(8, 1, simulated(1, 8, prior))};
  const TrainingFit fit = fit_training(machine(), eight);
  CHECK(fit.one_gpu_rate.value == Approx(kRate).epsilon(0.002));
  CHECK(fit.one_gpu_rate.low < 0.99 * kRate);
  CHECK_FALSE(fit.delay_cv.determined);
}

TEST_CASE("the smallest row's step is met with its own accumulation, to seven digits") {
  // 16 GPUs with one NIC for eight: a third of the step is communication, less with accumulation.
  for (const int accumulation : {1, 4}) {
    const std::vector<TrainingMeasurement> rows{row(16, 2, 9'000, accumulation)};
    const TrainingFit fit = fit_training(machine(), rows);
    INFO("accumulation " << accumulation);
    CHECK(predict_throughput(fit, on_row(machine(), rows[0])).samples_per_second ==
          Approx(9'000).epsilon(1e-6));
    CHECK(fit.one_gpu_rate.value > 9'000 / 16.0);
  }
}

Scenario sharded() {
  return parse_scenario(R"({"cluster": "dgx-a100",
    "model": {"transformer": {"layers": 3, "hidden": 256, "heads": 4, "vocabulary": 1000, "sequence": 64}},
    "training": {"strategy": "fsdp", "batch_per_gpu": 8, "precision": "bf16"}, "run": {"iterations": 2}})",
                        "machine");
}

TEST_CASE("sharded training is anchored to several GPUs, and no delays are assumed") {
  const Scenario base = sharded();
  const auto measured = [&](int nodes, int accumulation) {
    Scenario scenario = on(base, nodes, 8);
    scenario.training.accumulation = accumulation;
    scenario.training.measured = {{SamplesPerSecond(500), 0, 0, false}};
    return predict(scenario).report.throughput;
  };
  const TrainingFit fit = fit_training(base, std::vector{row(8, 1, measured(1, 4), 4)});
  CHECK(fit.one_gpu_rate.value == Approx(500).epsilon(1e-5));
  CHECK(fit.delay_cv.value == 0);
  CHECK_THAT(fit.delay_cv.why, Catch::Contains("none assumed: the one row set the rate"));
  const ThroughputPrediction more = predict_throughput(fit, on(base, 2, 8));
  CHECK(more.samples_per_second == Approx(measured(2, 1)).epsilon(1e-5));
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

TEST_CASE("a row that beats the network alone has no delay") {
  const std::vector<TrainingMeasurement> rows{row(1, 1, kRate), row(8, 1, 8.1 * kRate)};
  const TrainingFit fit = fit_training(machine(), rows);
  CHECK(fit.delay_cv.value == 0);
  CHECK(fit.delay_cv.why.find("no slower") != std::string::npos);
  CHECK(fit.mean_error > 0.01);
}

TEST_CASE("unknown overlap: between both ways to reduce, both inside the interval") {
  const std::vector<TrainingMeasurement> rows{row(1, 1, kRate), row(8, 1, simulated(1, 8, 0.02))};
  const Scenario wanted = on(machine(), 2, 8);
  const TrainingFit stated = fit_training(machine(), rows);
  const TrainingFit unknown = fit_training(machine(), rows, Overlap::unknown);
  const double overlapped = predict_throughput(stated, wanted).samples_per_second;
  const ThroughputPrediction both = predict_throughput(unknown, wanted);
  CHECK(both.samples_per_second < overlapped);
  CHECK(both.low < overlapped * overlapped / both.samples_per_second);
  CHECK(both.high > overlapped);
}

TEST_CASE("more nodes than measured widen the interval") {
  const std::vector<TrainingMeasurement> rows{row(1, 1, kRate), row(8, 1, simulated(1, 8, 0.02))};
  const TrainingFit fit = fit_training(machine(), rows);
  const auto width = [&](int nodes) {
    const ThroughputPrediction p = predict_throughput(fit, on(machine(), nodes, 8));
    return p.high / p.low;
  };
  CHECK(width(1) < width(2));
  CHECK(width(2) < width(16));
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
}

// DLPerf, NGC PyTorch (scenarios/validation/training): fitted to 1 and 8 GPUs, checked on 16.
TEST_CASE("ResNet-50 on 16 V100 from its rows of 1 and 8") {
  const Scenario base = load_scenario(std::string(PACELINE_SOURCE_DIR) +
                                      "/scenarios/validation/training/dlperf_resnet50_ngc_pytorch_fp32.json");
  const std::vector<TrainingMeasurement> rows{row(1, 1, 367.29), row(8, 1, 2887.65)};
  const ThroughputPrediction p = predict_throughput(fit_training(base, rows), on(base, 2, 8));
  CHECK(std::abs(p.samples_per_second / 5716.79 - 1) < 0.04);
  CHECK(p.low < 5716.79);
  CHECK(p.high > 5716.79);
}

}  // namespace
}  // namespace paceline
