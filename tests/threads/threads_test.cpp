// What runs on several threads, for the thread sanitizer to watch (preset tsan), and everywhere else that the
// number of threads changes nothing.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "calibrate/fit/collective_points.h"
#include "core/parallel.h"
#include "scenarios/campaign.h"
#include "scenarios/predict.h"
#include "scenarios/scenario.h"
#include "studies/explain.h"
#include "studies/sweep.h"
#include "tests/files.h"
#include "tests/load_study.h"
#include "tests/studies/small_study.h"

namespace paceline {
namespace {

TEST_CASE("a sweep on two and on eight threads gives the lines of one") {
  const TemporaryFolder folder;
  folder.write("c.json", R"({"node": "dgx-a100", "nodes": 2})");
  folder.write("base.json", R"({"cluster": "./c.json", "model": "resnet18", "training": {"batch_per_gpu": 8},
      "variability": {"per_operation": {"distribution": "lognormal", "cv": 0.05}}, "run": {"iterations": 2}})");
  // Points that share clusters, references and files; and some that can't be.
  const std::string path =
      folder.write("s.json", R"({"scenario": "base.json", "scaling": "strong", "global_batch": 64,
      "axes": [{"key": "gpus", "values": [1, 2, 4, 8, 12, 16]}, {"key": "/run/seed", "values": [1, 2]},
               {"key": "/training/collective/algorithm", "values": ["", "tree"]}]})");
  sweep(load_study(path), {folder.file("1"), 1, {}});
  const std::vector<std::string> lines = sorted_lines(folder.file("1/results.jsonl"));
  CHECK(lines.size() == 24);
  for (const int jobs : {2, 8}) {
    std::size_t told = 0;
    const std::string out = folder.file(std::to_string(jobs));
    const auto count = [&](const SweepProgress&) { ++told; };
    CHECK(sweep(load_study(path), {out, jobs, count}).faults.empty());
    CHECK(told == 24);
    CHECK(sorted_lines(out + "/results.jsonl") == lines);
  }
}

TEST_CASE("each piece is done once, and the first that fails is told") {
  for (const int threads : {1, 4}) {
    std::vector<std::atomic<int>> done(100);
    for_each_on_threads(done.size(), threads, [&](std::size_t i) { ++done[i]; });
    CHECK(std::ranges::all_of(done, [](const std::atomic<int>& times) { return times == 1; }));
    std::vector<std::atomic<int>> begun(1000);
    const auto fail_from_3 = [&](std::size_t i) {
      ++begun[i];
      if (i >= 3) {
        throw std::runtime_error(std::to_string(i));
      }
    };
    CHECK_THROWS_WITH(for_each_on_threads(begun.size(), threads, fail_from_3), "3");
    CHECK(begun.back() == 0);
  }
}

TEST_CASE("sizes that are simulated side by side take what each takes alone") {
  MeasuredPlace place;
  place.cluster = load_cluster("dgx-a100");
  place.cluster.nodes = 2;
  std::vector<Bytes> sizes;
  for (std::int64_t bytes = 64; bytes <= 1 << 28; bytes += bytes / 4 / 16 * 16 + 16) {
    sizes.push_back(Bytes(bytes));
  }
  REQUIRE(sizes.size() > 50);  // several parts
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::broadcast}) {
    for (const AlgorithmChoice choose : {AlgorithmChoice::tuner, AlgorithmChoice::fastest}) {
      place.kind = kind;
      PlaceModel together(place, sizes, choose, {}, 4);
      const std::vector<double> all = together.log_times(together.costs());
      for (std::size_t s = 0; s < sizes.size(); s += 7) {
        PlaceModel alone(place, std::span(&sizes[s], 1), choose);
        INFO(sizes[s].value << " bytes");
        CHECK(alone.log_times(alone.costs()).front() == all[s]);
      }
    }
  }
}

TEST_CASE("an explanation on two and on eight threads is that of one") {
  const Prediction prediction = predict(parse_scenario(kSmall, "s.json"));
  const auto text = [&](int jobs) {
    Machines machines;
    const Explanation why = explain(prediction, jobs, machines);
    return collectives_text(prediction) + path_text(prediction, why.path) + levers_text(why) +
           to_line(Json(explanation_json(prediction, why)));
  };
  const std::string one = text(1);
  CHECK(one.size() > 500);
  CHECK(text(2) == one);
  CHECK(text(8) == one);
}

// Three nodes that leave and return, one slow now and then; steps jitter.
const std::string kElastic = R"({"cluster": {"node": "dgx-a100", "nodes": 3}, "model": "resnet18",
    "training": {"batch_per_gpu": 8, "optimizer": "adam"}, "run": {"iterations": 3},
    "variability": {"per_iteration": {"distribution": "lognormal", "cv": 0.05}},
    "faults": {"length": "20 min", "seeds": 2, "elastic": {"min_nodes": 1},
    "failures": [{"of": "node", "mtbf": "40 min", "repair": "4 min"}],
    "slow_nodes": [{"every": "40 min", "lasts": "2 min", "factor": 1.3}],
    "restart": {"load": "5 s"}, "checkpoint": {"stall": "1 s", "interval": "2 min"}}})";

TEST_CASE("campaigns that are computed side by side are those that are computed alone") {
  const Scenario scenario = parse_scenario(kElastic, "s.json");
  const auto text = [&](Machines& machines) {
    const CampaignPrediction p =
        predict_campaign(scenario, machines, {.log = true, .levers = true, .progress = {}});
    return to_line(Json(campaign_json(scenario, p))) + campaign_events_csv(p.reports.front());
  };
  Machines alone, shared;
  const std::string one = text(alone);
  std::vector<std::string> several(8);
  for_each_on_threads(several.size(), 8, [&](std::size_t i) { several[i] = text(shared); });
  for (const std::string& each : several) {
    CHECK(each == one);
  }
}

TEST_CASE("a sweep over campaigns on two and on eight threads gives the lines of one") {
  const Study campaigns = study(R"([{"key": "/faults/failures/0/mtbf", "values": ["40 min", "2 h"]},
      {"key": "/faults/spares", "values": [0, 1]}, {"key": "/run/seed", "values": [1, 2]}])",
                                kElastic);
  const TemporaryFolder folder;
  sweep(campaigns, {folder.file("1"), 1, {}});
  const std::vector<std::string> lines = sorted_lines(folder.file("1/results.jsonl"));
  CHECK(lines.size() == 8);
  for (const int jobs : {2, 8}) {
    const std::string out = folder.file(std::to_string(jobs));
    CHECK(sweep(campaigns, {out, jobs, {}}).faults.empty());
    CHECK(sorted_lines(out + "/results.jsonl") == lines);
  }
}

}  // namespace
}  // namespace paceline
