// Is an explanation true? Sensitivities against independent runs, attributed times against the step.
#include "studies/explain.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "scenarios/predict.h"
#include "scenarios/run_table.h"
#include "sim/engine/simulate.h"
#include "sim/report/critical_path.h"
#include "tests/example.h"

namespace paceline {
namespace {

using nlohmann::json;

Explanation explained(const Prediction& p, int jobs) {
  Machines machines;
  return explain(p, jobs, machines);
}

TEST_CASE("a path names each gather of FSDP") {
  const Prediction p = predict(parse_scenario(R"({
    "cluster": {"node": "dgx-h100", "nodes": 4}, "model": "llama3_2_1b",
    "training": {"batch_per_gpu": 1, "precision": "bf16", "strategy": "fsdp"}, "run": {"iterations": 2}})",
                                              "fsdp.json"));
  const Explanation e = explained(p, 2);
  std::vector<std::string> gathers;
  for (const PathSegment& s : e.path.segments) {
    if (s.kind == PathKind::communication) {
      gathers.push_back(s.what);
    }
  }
  CHECK(std::ranges::count(gathers, "all_gather root") >= 1);
  CHECK(std::ranges::count(gathers, "all_gather layers.0") >= 1);
}

TEST_CASE("the list of collectives adds up to the exposed communication") {
  for (const char* const cap : {"\"200 kB\"", "\"2 MiB\"", "\"100 MiB\""}) {
    const Prediction p = predict(parse_scenario(
        R"({"cluster": {"node": "pcie-a100", "nodes": 8, "gpus_per_node": 1}, "model": "vgg16",
        "training": {"batch_per_gpu": 4, "ddp": {"bucket_cap": )" +
            std::string(cap) + R"(}}, "run": {"iterations": 2}})",
        "many.json"));
    double all = 0, listed = 0;
    for (const CollectiveReport& each : p.report.collectives) {
      all += 100 * (each.exposed_communication / p.report.step.mean);
    }
    const std::string text = collectives_text(p);
    INFO(text);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.ends_with(" %")) {
        const std::size_t end = line.size() - 2, start = line.rfind(' ', end - 1);
        listed += std::stod(line.substr(start, end - start));
      }
    }
    REQUIRE(all > 1);
    CHECK(listed == Approx(all).margin(0.4));  // six lines to a tenth, and what is less than that in all
    CHECK((p.report.collectives.size() <= 5 || text.find(" others ") != std::string::npos));
  }
}

json result_of(const Prediction& p) {
  return json::parse(result_json(p, explanation_json(p, explained(p, 2))));
}

TEST_CASE("Horovod: buckets are means of the steps that have so many fusions") {
  const Prediction p = predict(parse_scenario(R"({
    "cluster": {"node": {"preset": "dgx-a100"}, "nodes": 2}, "model": "bert_large",
    "training": {"batch_per_gpu": 8, "precision": "fp16", "strategy": "horovod"}, "run": {"iterations": 8}})",
                                              "horovod.json"));
  std::vector<std::vector<DecidedCollective>> steady = p.result.decisions.iterations;
  steady.erase(steady.begin());
  const auto [fewest, most] = std::ranges::minmax(steady, {}, &std::vector<DecidedCollective>::size);
  REQUIRE(fewest.size() < most.size());  // steps differ: of eight some, of four none
  REQUIRE(p.report.buckets.size() == most.size());
  for (std::size_t k = 0; k < most.size(); ++k) {
    double bytes = 0, starts = 0, steps = 0;
    for (std::size_t i = 0; i < steady.size(); ++i) {
      if (k < steady[i].size()) {
        bytes += static_cast<double>(steady[i][k].bytes.value);
        starts += to_seconds(steady[i][k].start - p.result.iteration_end[i]).value;
        steps += 1;
      }
    }
    CHECK(static_cast<double>(p.report.buckets[k].bytes.value) == Approx(bytes / steps));
    CHECK(p.report.buckets[k].start.value == Approx(starts / steps));
    CHECK(p.report.buckets[k].ready <= p.report.buckets[k].start);
    CHECK(p.report.buckets[k].start < p.report.buckets[k].end);
  }
}

// Its first collective comes after a decision, not after an operation: the path once went round it for ever.
TEST_CASE("Horovod's critical path has an end") {
  for (const char* name : {"slow_gpu_64", "first_node"}) {
    Scenario scenario = example(name, 1);
    scenario.training.strategy = StrategyKind::horovod;
    const Prediction p = predict(scenario);
    const CriticalPath path =
        critical_path(p.job, simulate(p.job, scenario.run, ranks_on_path(p.job, p.result, 1)), 1);
    SimTime sum;
    for (const PathSegment& segment : path.segments) {
      sum += segment.end - segment.start;
    }
    CHECK(sum == p.result.iteration_end[1] - p.result.iteration_end[0]);
  }
}

const char* const kExamples[] = {"slow_gpu_64", "input_bottleneck", "resnet50_v100_4x8", "first_node"};

TEST_CASE("a sensitivity is what an independent run of the edited scenario gives", "[release]") {
  for (const char* name : kExamples) {
    const json result = result_of(predict(example(name, 2)));
    CAPTURE(name);
    REQUIRE(result["sensitivities"].size() >= 4);
    for (const json& s : result["sensitivities"]) {
      CAPTURE(s["change"].get<std::string>());
      json scenario = result["scenario"];
      double samples = 1;
      for (const json& edit : s["edits"]) {
        scenario[json::json_pointer(edit["key"].get<std::string>())] = edit["value"];
      }
      const auto of = [](const json& whole, const char* key) { return whole["training"][key].get<double>(); };
      samples = of(scenario, "accumulation") * of(scenario, "batch_per_gpu") /
                (of(result["scenario"], "accumulation") * of(result["scenario"], "batch_per_gpu"));
      const Prediction again = predict(parse_scenario(scenario.dump(), "edited"));
      CHECK(s["step_time_s"].get<double>() == again.report.step.mean.value);
      CHECK(s["time_per_sample_change"].get<double>() ==
            Approx(again.report.step.mean.value / result["step_time_s"]["mean"].get<double>() / samples - 1)
                .margin(1e-12));
    }
  }
}

TEST_CASE("attributed times add up to the step") {
  for (const char* name : {"slow_gpu_64", "input_bottleneck", "resnet50_v100_4x8", "four_nodes"}) {
    CAPTURE(name);
    const json result = json::parse(result_json(predict(example(name, 3))));
    double exposed = 0, straggler = 0, at_collectives = 0;
    for (const json& c : result["collectives"]) {
      exposed += c["exposed_communication_s"].get<double>();
      at_collectives += c["straggler_wait_s"].get<double>();
    }
    for (const json& s : result["stragglers"]) {
      straggler += s["waited_s"].get<double>();
    }
    const json& parts = result["breakdown_s"];
    CHECK(exposed == Approx(parts["exposed_communication"].get<double>()).epsilon(1e-12));
    CHECK(straggler == Approx(parts["straggler_wait"].get<double>()).epsilon(1e-12));
    CHECK(at_collectives <= straggler * (1 + 1e-12));
    double sum = 0;
    for (const json& part : parts) {
      sum += part.get<double>();
    }
    CHECK(sum == Approx(result["step_time_s"]["mean"].get<double>()).epsilon(1e-12));
  }
}

TEST_CASE("the critical path in result.json adds up to a step of the run, in whole picoseconds",
          "[release]") {
  for (const char* name : kExamples) {
    CAPTURE(name);
    const Prediction p = predict(example(name, 3));
    const json path = result_of(p)["critical_path"];
    const auto step = path["step"].get<std::size_t>();
    std::int64_t sum = 0;
    for (const json& segment : path["segments"]) {
      CHECK(segment["start_ps"].get<std::int64_t>() == sum);
      sum += segment["duration_ps"].get<std::int64_t>();
    }
    CHECK(sum == path["step_ps"].get<std::int64_t>());
    CHECK(SimTime{sum} == p.result.iteration_end[step] - p.result.iteration_end[step - 1]);
    CHECK(to_seconds(SimTime{sum}) == p.report.step.p50);
  }
}

TEST_CASE("an explanation finds what was put into the scenario", "[release]") {
  const Prediction slow = predict(example("slow_gpu_64", 3));
  const Explanation e = explained(slow, 2);
  const auto hardware = std::ranges::find_if(
      e.best_levers, [](const std::string& sentence) { return sentence.starts_with("Hardware: "); });
  REQUIRE(hardware != e.best_levers.end());
  CHECK_THAT(*hardware,
             Catch::StartsWith("Hardware: without the slowness of rank 37 (node4/gpu5) a step takes "));
  for (const PathSegment& s : e.path.segments) {
    CHECK(s.rank == Rank(37));
  }
  const Explanation input = explained(predict(example("input_bottleneck", 3)), 2);
  REQUIRE_FALSE(input.best_levers.empty());
  CHECK_THAT(input.best_levers.back(), Catch::StartsWith("Hardware: with data loaders twice as fast"));
}

TEST_CASE("what costs nothing is advised before faster NICs, each key once", "[release]") {
  Scenario scenario = example("network_200g", 1);
  scenario.training.batch_per_gpu = 24;  // whose network counts
  const Prediction p = predict(scenario);
  const Explanation e = explained(p, 2);
  const auto saves = [&](const std::string& key) {
    double most = 0;
    for (const Sensitivity& s : e.sensitivities) {
      most = s.lever.edits.front().key == key ? std::max(most, -s.change) : most;
    }
    return most;
  };
  CHECK(saves("/training/ddp/bucket_cap") > 0.05);
  CHECK(saves("/training/collective/algorithm") > 0.1);
  std::vector<std::string> kinds;
  for (const std::string& sentence : e.best_levers) {
    kinds.push_back(sentence.substr(0, sentence.find(':')));
  }
  CHECK(std::ranges::count(kinds, "Software") >= 2);
  CHECK(std::ranges::count(kinds, "Software") <= 3);
  CHECK(std::ranges::is_sorted(kinds, std::ranges::greater()));
  CHECK_THAT(e.best_levers[static_cast<std::size_t>(std::ranges::count(kinds, "Software"))],
             Catch::StartsWith("Hardware: with twice the NIC bandwidth"));
  const json result = json::parse(result_json(p, explanation_json(p, e)));
  for (const json& s : result["sensitivities"]) {
    const std::string kind = s["kind"];
    CHECK((kind == "software" || kind == "hardware" || kind == "cannot be had"));
  }
  CHECK(result["not_possible"].empty());
}

TEST_CASE("levers that pin what a rate was measured with are about another key each") {
  const Prediction p = predict(parse_scenario(R"({"cluster": {"gpus_per_node": 4, "gpus": [
      {"nodes": 1, "node": "dgx-a100", "measured": "2 samples/s"},
      {"nodes": 1, "node": "dgx-h100", "measured": "4 samples/s"}]}, "model": "llama3_2_1b",
    "training": {"strategy": "fsdp", "batch_per_gpu": 1, "precision": "bf16", "gradients": "bf16", "optimizer": "sgd",
      "activation_checkpointing": "full"}, "run": {"iterations": 2}})",
                                              "kinds.json"));
  const std::vector<std::string> best = explained(p, 2).best_levers;
  const auto says = [&](const std::string& part) {
    return std::ranges::any_of(best,
                               [&](const std::string& each) { return each.find(part) != std::string::npos; });
  };
  CHECK(says("without activation checkpointing"));
  CHECK(says("with twice the accumulated batches"));
}

TEST_CASE("the explanation tells what it knows as it knows it") {
  const Prediction p = predict(example("first_node", 1));
  std::size_t paths = 0, told = 0, of = 0;
  const Sensitivity* last = nullptr;
  double best_change = 0;
  Machines machines;
  const Explanation e =
      explain(p, 2, machines,
              {.path = [&](const CriticalPath& path) { paths += path.segments.empty() ? 0 : 1; },
               .tried =
                   [&](std::size_t tried, std::size_t levers, const Sensitivity* best) {
                     CHECK(tried == ++told);
                     of = levers;
                     last = best;
                     best_change = best == nullptr ? 0 : best->change;
                   }});
  CHECK(paths == 1);
  CHECK(told == of);
  CHECK(of == e.sensitivities.size() + e.not_possible.size());
  double expected = 0;
  for (const Sensitivity& s : e.sensitivities) {
    expected = s.lever.kind == LeverKind::unobtainable ? expected : std::min(expected, s.change);
  }
  CHECK(best_change == expected);
  CHECK((last == nullptr) == (expected == 0));
}

TEST_CASE("the explanation is the same on any number of threads", "[release]") {
  const Prediction p = predict(example("slow_gpu_64", 2));
  const auto text = [&](int jobs) {
    const Explanation e = explained(p, jobs);
    return collectives_text(p) + path_text(p, e.path) + levers_text(e);
  };
  const std::string one = text(1);
  CHECK(text(4) == one);
  for (const char c : one) {
    CHECK(((c >= 0x20 && c < 0x7f) || c == '\n'));
  }
}

TEST_CASE("what is within the spread of Horovod's cycles is not advised, nor what is within the drift") {
  Scenario scenario = example("first_node", 20);
  scenario.training.strategy = StrategyKind::horovod;
  scenario.training.batch_per_gpu = 8;
  const Prediction p = predict(scenario);
  const Explanation e = explained(p, 2);
  double most = p.report.drift ? std::abs(p.report.drift->change) : 0;
  for (const double factor : {0.98, 0.99, 1.01, 1.02}) {  // the newest version's cycle is a millisecond
    Scenario other = scenario;
    other.training.horovod.cycle_time = Seconds(factor * 1e-3);
    most = std::max(most, std::abs(predict(other).report.step.mean / p.report.step.mean - 1));
  }
  REQUIRE(most > 0);
  CHECK(e.spread == Approx(most));
  CHECK(explanation_json(p, e).back().key == "spread");
  for (const Sensitivity& s : e.sensitivities) {
    const bool advised = std::ranges::any_of(e.best_levers, [&](const std::string& sentence) {
      return sentence.find(s.lever.advice + " a step takes") != std::string::npos;
    });
    CHECK((!advised || -s.change > e.spread));
  }
}

TEST_CASE("a run whose steps have not settled says so") {
  Scenario scenario = example("ring_of_nodes_8", 20);
  scenario.model = builtin_model("transformer_xl_base");  // its words have most of its gradients
  const Prediction p = predict(scenario);
  REQUIRE(p.report.drift);
  CHECK(p.report.drift->steps == 10);
  double first = 0, last = 0;
  for (std::size_t i = 1; i <= 20; ++i) {
    (i <= 10 ? first : last) +=
        static_cast<double>((p.result.iteration_end[i] - p.result.iteration_end[i - 1]).ps);
  }
  CHECK(p.report.drift->change == Approx(last / first - 1));
  CHECK(json::parse(result_json(p, {})).at("drift").at("steps") == 10);
  const std::string page = terminal_table(p);
  CHECK(page.find("steps have not settled: the last 10 take ") != std::string::npos);
  CHECK(page.find("(--iterations 100)") != std::string::npos);
  CHECK_FALSE(predict(example("first_node", 20)).report.drift);
}

}  // namespace
}  // namespace paceline
