// Campaigns of scenarios: states that are simulated once beside steps that are simulated each; bytes over their routes.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "scenarios/campaign.h"
#include "scenarios/gpu_memory.h"
#include "sim/engine/simulate.h"
#include "tests/campaign/small_campaign.h"
#include "tests/error_of.h"
#include "tests/example.h"

using namespace paceline;

namespace {

Scenario scenario_of(const std::string& training, const std::string& faults, int gpus = 8) {
  return parse_scenario(R"({"cluster": {"node": {"preset": "dgx-a100", "pcie_bandwidth": "20 GB/s", "nics": 2,
      "nic_bandwidth": "10 GB/s"}, "nodes": 4, "gpus_per_node": )" +
                            std::to_string(gpus) +
                            R"(}, "model": "resnet18", "run": {"iterations": 5000},
      "variability": {"per_iteration": {"distribution": "lognormal", "cv": 0.05}},
      "training": {"batch_per_gpu": 32)" +
                            training + R"(}, "faults": )" + faults + "}",
                        "s.json");
}

// Three states, 10^5 steps: in each, as many steps as the campaign made are simulated one by one.
TEST_CASE("steps reused by state are within 0.1 % of all steps simulated", "[release]") {
  const Scenario scenario = scenario_of("", R"({"steps": 100000, "elastic": {"min_nodes": 1},
      "failures": [{"of": "node", "repair": "1500 s"}],
      "events": [{"time": "200 s", "what": "node", "which": 1}, {"time": "500 s", "what": "node", "which": 2}],
      "restart": {"load": "3 s"}, "checkpoint": {"stall": "2 s", "interval": {"steps": 1000}}})",
                                        2);
  Machines machines;
  const CampaignPrediction p =
      predict_campaign(scenario, machines, {.log = true, .levers = true, .progress = {}});
  const CampaignReport& report = p.reports.front();
  CHECK(p.states == 3);
  CHECK(p.healthy.steps.size() == 5000);
  CHECK(report.steps == 100'000);
  std::map<std::string, std::pair<std::int64_t, double>> made;  // by state: steps, seconds
  std::int64_t before = 0;
  for (const CampaignEvent& event : report.events) {
    if (event.what == "steps") {
      auto& [steps, time] = made[event.which];
      steps += std::max<std::int64_t>(event.steps - before, 0);
      time += event.steps > before ? in_seconds(event.to - event.from) : 0;
    }
    before = event.steps;
  }
  REQUIRE(made.size() == 3);
  double simulated = 0, reused = 0;
  for (const auto& [which, of] : made) {
    Scenario state = scenario;
    state.faults.reset();
    state.cluster.nodes = which[0] - '0';
    state.run.iterations = static_cast<int>(of.first);
    state.run.seed = 77;
    auto [topology, job] = machines.build(state);
    const Result result = simulate(job, state.run);
    simulated += to_seconds(result.iteration_end.back() - result.iteration_end.front()).value;
    reused += of.second;
  }
  CAPTURE(simulated, reused);
  CHECK(reused == Approx(simulated).epsilon(0.001));
}

TEST_CASE("an elastic job on fewer nodes has nothing to do with the GPUs and links of the others") {
  const Scenario scenario = parse_scenario(R"({
    "cluster": {"node": {"preset": "dgx-a100", "nics": 2}, "nodes": 4, "gpus_per_node": 2,
      "degraded_links": [{"from": "node3/nic0", "bandwidth_factor": 0.5}, {"from": "node1/nic0", "bandwidth_factor": 0.5},
        {"from": "node3/gpu0", "to": "node3/nvswitch", "bandwidth_factor": 0.5}]},
    "model": "resnet18", "run": {"iterations": 4}, "training": {"batch_per_gpu": 32},
    "variability": {"slow_gpus": [{"ranks": [5, 7], "factor": 1.5}], "spared_gpus": [4, 6]},
    "background": [{"from": 0, "to": 7, "rate": "1 GB/s"}, {"from": 5, "to": 0, "rate": "1 GB/s"}],
    "faults": {"steps": 3000, "failures": [{"of": "node", "repair": "1500 s"}],
      "events": [{"time": "10 s", "what": "node", "which": 1}], "restart": {"load": "3 s"},
      "checkpoint": {"stall": "2 s", "interval": {"steps": 1000}}, "elastic": {"min_nodes": 1}}})",
                                           "s.json");
  const Scenario fewer = on_first_nodes(scenario, 3);
  CHECK(gpus_of_job(fewer.cluster) == 6);
  CHECK(fewer.variability.slow_gpus.front().ranks == std::vector<std::int64_t>{5});
  CHECK(fewer.variability.spared_gpus == std::vector<std::int64_t>{4});
  REQUIRE(fewer.background.size() == 1);
  CHECK(fewer.background.front().from == 5);
  REQUIRE(fewer.cluster.degraded.size() == 1);
  CHECK(fewer.cluster.degraded.front().from == "node1/nic0");
  Machines machines;
  const CampaignPrediction p =
      predict_campaign(scenario, machines, {.log = true, .levers = false, .progress = {}});
  CHECK(p.states == 2);
  CHECK(p.reports.front().steps == 3000);
  // A job on a part of the cluster leaves nodes behind, not links: they are others' now.
  Scenario part = scenario;
  part.cluster.job_nodes = 4;
  part.cluster.nodes = 5;
  CHECK(on_first_nodes(part, 3).cluster.degraded.size() == 3);
  CHECK(on_first_nodes(part, 3).background.size() == 2);
}

Scenario elastic_job(const std::string& training, const std::string& elastic, const std::string& more = "") {
  return parse_scenario(
      R"({"cluster": {"node": "dgx-a100", "nodes": 8}, "model": "llama3_8b", "training": {"precision": "bf16", )" +
          training +
          R"(}, "faults": {"length": "9 h", "failures": [{"of": "node", "mtbf": "50 d", "repair": "1 h"}],
          "restart": {"load": "9 s"}, "checkpoint": {"stall": "1 s", "storage_bandwidth": "1 GB/s"},
          "elastic": {)" +
          elastic + "}" + more + "}}",
      "s.json");
}

TEST_CASE(
    "fewer nodes keep the batch in more passes where it accumulates, else in a larger one, at the same "
    "rate") {
  const auto left = [](const std::string& training) {
    return on_nodes_left(elastic_job(training, R"("min_nodes": 1, "keep_batch": true)"), 7).training;
  };
  const TrainingSpec passes = left(R"("batch_per_gpu": 1, "accumulation": 8)");
  CHECK(passes.batch_per_gpu == 1);
  CHECK(passes.accumulation == 10);  // 512 samples on 56 GPUs: 10 on the fullest
  const TrainingSpec larger = left(R"("batch_per_gpu": 8, "measured": "2 samples/s")");
  CHECK(larger.batch_per_gpu == 10);
  CHECK(larger.accumulation == 1);
  REQUIRE(larger.measured.size() == 1);
  CHECK(larger.measured.front().batch_per_gpu == 8);
  CHECK(left(R"("batch_per_gpu": 8)").measured.empty());
  CHECK(on_nodes_left(elastic_job(R"("batch_per_gpu": 8)", R"("min_nodes": 1)"), 7).training.batch_per_gpu ==
        8);
}

TEST_CASE("an elastic job says before it runs with how many nodes it can't") {
  CHECK(error_of([] {
          elastic_job(R"("batch_per_gpu": 1, "strategy": "fsdp", "fsdp": {"shard_group": 16})",
                      R"("min_nodes": 6)");
        }) ==
        "s.json: /faults/elastic/min_nodes: expected to go on with 7 nodes, found that it can't: expected a "
        "shard group "
        "that divides the 56 ranks, found 16; min_nodes, or /training/fsdp/shard_group, says otherwise");
  CHECK(error_of([] {
          elastic_job(R"("batch_per_gpu": 1, "strategy": "fsdp", "fsdp": {"shard_group": "node"})",
                      R"("min_nodes": 1)");
        }).empty());
  const auto fsdp = R"("batch_per_gpu": 2, "strategy": "fsdp", "optimizer": "adam")";
  CHECK(too_few_left(elastic_job(fsdp, R"("min_nodes": 2)")).empty());
  const Scenario scenario = elastic_job(fsdp, R"("min_nodes": 1)");
  CHECK_THAT(too_few_left(scenario),
             Catch::StartsWith("with 1 node, with which the job goes on, it does not fit: ") &&
                 Catch::EndsWith("; 2 nodes are the fewest"));
  CHECK_THROWS_WITH(require_fit(scenario), Catch::StartsWith("/faults/elastic/min_nodes: with 1 node"));
}

TEST_CASE("what kinds of node decide is the same in whichever order they stand, or refused") {
  const auto mixed = [](const char* first, const char* second, const std::string& more) {
    return parse_scenario(R"({"cluster": {"gpus": [{"node": ")" + std::string(first) +
                              R"(", "nodes": 1}, {"node": ")" + second +
                              R"(", "nodes": 1}]}, "model": "resnet18", "training": {"batch_per_gpu": 32},
        "faults": {"length": "9 h", "failures": [{"of": "node", "mtbf": "5 d", "repair": "1 h"}],
        "checkpoint": {"storage_bandwidth": "1 GB/s", "kind": "async"})" +
                              more + "}}",
                          "s.json");
  };
  const CampaignSpec a = campaign_spec(mixed("dgx-a100", "dgx-h100", "")),
                     h = campaign_spec(mixed("dgx-h100", "dgx-a100", ""));
  CHECK(a.checkpoint.stall == h.checkpoint.stall);
  CHECK(a.checkpoint.upload == h.checkpoint.upload);
  const std::string slow = R"(, "slow_nodes": [{"every": "5 d", "lasts": "6 h", "factor": 1.5}])";
  CHECK_THROWS_WITH(mixed("dgx-a100", "dgx-h100", slow),
                    Catch::Contains("/faults/slow_nodes: expected nodes that are all alike"));
  CHECK_NOTHROW(mixed("dgx-a100", "dgx-h100", slow + R"(, "step": "1 s")"));
}

TEST_CASE("bytes over their routes: what is whole is saved by one GPU, shards by all") {
  const auto times = [](const std::string& training, const std::string& kind) {
    return campaign_spec(scenario_of(training, R"({"length": "1 d", "step": "1 s", "failures": [],
        "checkpoint": {"interval": "1 h", "bytes": "640 GB", "storage_bandwidth": "40 GB/s", "kind": ")" +
                                                   kind + R"("}})"));
  };
  const std::string adam = R"(, "optimizer": "adam")", fsdp = adam + R"(, "strategy": "fsdp")";
  // DDP: 640 GB over one GPU's 20 GB/s and one node's 20 GB/s; each of 4 nodes loads all: 2560 GB at 40 GB/s.
  const CampaignSpec ddp = times(adam, "sync");
  CHECK(in_seconds(ddp.checkpoint.stall) == Approx(32 + 32));
  CHECK(in_seconds(ddp.restart.load) == Approx(64 + 32));
  // Shards: 20 GB a GPU, 160 GB a node; storage takes 640 GB in 16 s, a node's NICs 8 s.
  const CampaignSpec shards = times(fsdp, "sync");
  CHECK(in_seconds(shards.checkpoint.stall) == Approx(1 + 16).epsilon(0.01));
  CHECK(in_seconds(shards.restart.load) == Approx(1 + 16).epsilon(0.01));
  const CampaignSpec async = times(fsdp, "async");
  CHECK(in_seconds(async.checkpoint.stall) == Approx(1).epsilon(0.01));
  CHECK(in_seconds(async.checkpoint.upload) == Approx(16).epsilon(0.01));
  const CampaignSpec memory = times(fsdp, "two_level");
  CHECK(in_seconds(memory.checkpoint.memory_copy) == Approx(8).epsilon(0.01));
  CHECK(in_seconds(memory.restart.load_from_memory) == Approx(1).epsilon(0.01));
  CHECK(in_seconds(memory.restart.fetch_from_peer) == Approx(8).epsilon(0.01));
}

// 12 bytes a parameter are kept by shards of FSDP: a master copy and two moments; one GPU alone has 2 more.
TEST_CASE("what FSDP saves is what its GPUs load") {
  const auto times = [](const std::string& strategy) {
    const Scenario scenario = parse_scenario(
        R"({"cluster": {"node": "dgx-h100", "nodes": 8}, "model": "llama3_8b", "training": {"batch_per_gpu": 1,
        "precision": "bf16", "optimizer": "adamw", "strategy": )" +
            strategy +
            R"(}, "faults": {"length": "1 d", "step": "2 s", "failures": [{"of": "gpu", "mtbf": "5 y",
        "repair": "1 d"}], "checkpoint": {"interval": "1 h", "storage_bandwidth": "1 GB/s"}}})",
        "s.json");
    const CampaignSpec spec = campaign_spec(scenario);
    return std::pair(in_seconds(spec.checkpoint.stall), in_seconds(spec.restart.load));
  };
  const auto [saved, loaded] = times(R"("fsdp")");
  CHECK(saved == Approx(loaded));
  CHECK(saved == Approx(12 * 8.030261248).epsilon(0.002));
  const auto [zero, back] = times(R"("zero", "zero": {"stage": 3})");
  CHECK(zero == Approx(back));
  CHECK(zero == Approx(14 * 8.030261248).epsilon(0.002));
}

TEST_CASE("a goal's intervals are where its inequality holds") {
  const double m = 3.09 * 3600, d = 40;
  const Goal goal = intervals_for(0.9, Seconds(d), Seconds(m), {});
  const auto lost = [&](double t, double r) { return d / t + (t / 2 + r) / m; };
  int held = 0;
  for (const GoalRow& row : goal.rows) {
    const double r = row.restart.value;
    if (row.to.value > 0) {
      ++held;
      CHECK(lost(row.from.value, r) == Approx(0.1));
      CHECK(lost(row.to.value, r) == Approx(0.1));
      CHECK(lost(std::sqrt(row.from.value * row.to.value), r) < 0.1);
      CHECK(row.restart < goal.longest_restart);
    } else {
      CHECK(row.restart > goal.longest_restart);
    }
  }
  CHECK(held >= 2);
  CHECK(held < static_cast<int>(goal.rows.size()));
  // No interval is below an upload, and with a long one the restart must be shorter.
  const double least = 1200;
  const Goal slow = intervals_for(0.9, Seconds(d), Seconds(m), Seconds(least));
  CHECK(lost(least, slow.longest_restart.value) == Approx(0.1));
  for (std::size_t r = 0; r < slow.rows.size(); ++r) {
    const GoalRow &row = slow.rows[r], &without = goal.rows[r];
    if (row.to.value > 0) {
      CHECK(row.from.value == std::max(without.from.value, least));
      CHECK(row.to == without.to);
      CHECK(row.restart < slow.longest_restart);
    } else {
      CHECK(row.restart > slow.longest_restart);
    }
  }
}

TEST_CASE("Llama 3's interruptions: 419 in 54 days, one every 3.09 h", "[release]") {
  const Scenario scenario = example("faults_16384");
  Machines machines;
  const CampaignPrediction p = predict_campaign(scenario, machines);
  CHECK(p.inputs.m.value / 3600 == Approx(3.093).margin(0.001));
  std::vector<double> counts;
  for (const CampaignReport& report : p.reports) {
    double count = 0;
    for (const std::int64_t failures : report.failures) {
      count += static_cast<double>(failures);
    }
    counts.push_back(count);
    REQUIRE((report.goodput + all_losses(report)).ps == report.wall.ps);
  }
  REQUIRE(counts.size() == 100);
  const Spread spread = spread_of(counts);
  CHECK(std::abs(spread.mean - 419) < 3 * std::sqrt(419.0 / 100));
  CHECK(spread.deviation == Approx(std::sqrt(419.0)).epsilon(0.25));
  CHECK_THAT(campaign_table(scenario, p), Catch::Contains("Poisson's at that rate are 419 (385 to 453)"));
}

// One node has no peer; of a leaf's two both are gone; storage, and a peer, have what is left.
TEST_CASE("checkpoints that no copy of is left are told with what takes them") {
  const auto fatal = [](int nodes, const std::string& kind, const std::string& failure) {
    const Scenario scenario = parse_scenario(
        R"({"cluster": {"node": "dgx-a100", "nodes": )" + std::to_string(nodes) +
            R"(, "fabric": {"kind": "leaf_spine", "nodes_per_leaf": 2}}, "model": "resnet18",
            "training": {"batch_per_gpu": 32}, "faults": {"length": "9 d", "step": "1 s", "failures": [)" +
            failure +
            R"(], "restart": {"load": "9 s"}, "checkpoint": {"stall": "1 s", "storage_bandwidth": "1 GB/s",
            "kind": ")" +
            kind + R"("}}})",
        "s.json");
    Machines machines;
    const CampaignPrediction p = predict_campaign(scenario, machines);
    const std::string page = campaign_table(scenario, p), json = to_text(Json(campaign_json(scenario, p)));
    const std::vector<std::string> names = fatal_failures(p.spec);
    CHECK((page.find("none survives") != std::string::npos) == !names.empty());
    CHECK((json.find(R"("lost_with": [])") != std::string::npos) == names.empty());
    return names;
  };
  const std::string node = R"({"of": "node", "mtbf": "5 d", "repair": "1 h"})",
                    leaf = R"({"of": "switch", "mtbf": "50 d", "repair": "1 h"})";
  CHECK(fatal(1, "in_memory", node) == std::vector<std::string>{"node"});
  CHECK(fatal(4, "in_memory", node).empty());
  CHECK(fatal(4, "in_memory", node + ',' + leaf) == std::vector<std::string>{"switch"});
  CHECK(fatal(4, "two_level", node + ',' + leaf).empty());
  CHECK(fatal(4, "sync", leaf).empty());
}

TEST_CASE("a dead link is a failure where it lasts longer than a collective waits") {
  const auto with = [](const char* lasts) {
    return campaign_spec(scenario_of("", std::string(R"({"length": "9 d", "step": "1 s", "failures": [],
        "link_flaps": [{"every": "5 d", "bandwidth_factor": 0, "lasts": ")") +
                                             lasts + R"("}],
        "restart": {"load": "1 s"}, "checkpoint": {"interval": "1 h", "stall": "1 s"}})"));
  };
  const CampaignSpec stands = with("5 min"), fails = with("11 min");
  CHECK(stands.failures.empty());
  CHECK((stands.passing.front().stands && stands.passing.front().every.ps > 0));
  REQUIRE(fails.failures.size() == 1);
  CHECK((fails.failures.front().hangs && fails.failures.front().takes == FailureTakes::process));
  CHECK(in_seconds(fails.failures.front().found_after) == Approx(600.1));
  CHECK(fails.passing.front().every.ps == 0);
}

}  // namespace
