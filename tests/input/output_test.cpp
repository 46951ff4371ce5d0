// Do result.json and the terminal's page say what the prediction says, in a form that others can read?
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/fingerprint.h"
#include "scenarios/collective_options.h"
#include "scenarios/predict.h"
#include "scenarios/readable.h"
#include "scenarios/run_table.h"
#include "scenarios/tables.h"
#include "tests/example.h"
#include "tests/trace_of_first.h"

namespace paceline {
namespace {

using nlohmann::json;

TEST_CASE("result.json says what the report says, and its parts sum to the step") {
  const Prediction p = predict(example("slow_gpu_64"));
  const json r = json::parse(result_json(p));
  CHECK(r.at("engine") == "vector");
  CHECK(r.at("engine_reason").get<std::string>().size() > 10);
  CHECK(r.at("gpus") == 64);
  CHECK(r.at("iterations") == 20);
  CHECK(r.at("seed") == 1);
  CHECK(r.at("fingerprint") == to_hex(p.result.fingerprint));
  CHECK(r.at("step_time_s").at("mean") == p.report.step.mean.value);
  CHECK(r.at("step_time_s").at("mean").get<double>() == Approx(mean_step(p.result).value));
  const std::vector<std::string> quantiles{"min", "p50", "p95", "p99", "max"};
  for (std::size_t i = 1; i < quantiles.size(); ++i) {
    CHECK(r["step_time_s"].at(quantiles[i - 1]).get<double>() <=
          r["step_time_s"].at(quantiles[i]).get<double>());
  }
  for (const json& parts : {r.at("breakdown_s"), r.at("worst_rank").at("breakdown_s")}) {
    double sum = 0;
    for (const char* part : {"compute", "exposed_communication", "straggler_wait", "input_wait", "other"}) {
      sum += parts.at(part).get<double>();
    }
    CHECK(sum == Approx(r["step_time_s"]["mean"].get<double>()).epsilon(1e-12));
  }
  CHECK(r.at("throughput_samples_per_s").get<double>() ==
        Approx(64 * 16 / r["step_time_s"]["mean"].get<double>()).epsilon(1e-12));
  CHECK(r.at("scaling_efficiency").get<double>() < 1 / 1.1);  // one GPU is 15 % slow
  CHECK(r.at("worst_rank").at("rank") == 37);
  CHECK(r.at("stragglers").at(0).at("gpu") == "node4/gpu5");
  CHECK(r.at("stragglers").at(0).at("delay_s").get<double>() > 20 * 0.005);
  CHECK(r.at("warm_up_s").get<double>() > 0);
  CHECK(r.at("degraded_links").empty());
  std::int64_t bytes = 0;
  for (const json& bucket : r.at("buckets")) {
    bytes += bucket.at("bytes").get<std::int64_t>();
    CHECK(bucket.at("ready_s").get<double>() <= bucket.at("start_s").get<double>());
    CHECK(bucket.at("start_s").get<double>() < bucket.at("end_s").get<double>());
  }
  CHECK(bytes == 4 * parameter_count(p.scenario.model));
}

TEST_CASE("a result runs again from itself") {
  const Prediction first = predict(example("slow_gpu_64"));
  const std::string text = result_json(first);
  const Prediction second = predict(parse_scenario(text, "result.json"));
  CHECK(result_json(second) == text);
}

TEST_CASE("a degraded link is blamed with what its repair would bring") {
  Scenario ill = example("degraded_nic");
  ill.run.iterations = 3;
  Scenario healthy = ill;
  healthy.cluster.degraded.clear();
  const Prediction p = predict(ill);
  REQUIRE(p.links.size() == 1);
  CHECK(p.links[0].link == "node3/nic5");
  CHECK(p.links[0].step_delay.value ==
        Approx((mean_step(p.result) - mean_step(predict(healthy).result)).value).epsilon(1e-12));
  CHECK(p.links[0].step_delay.value > 0.05 * mean_step(p.result).value);
  const json r = json::parse(result_json(p));
  CHECK(r.at("degraded_links").at(0).at("link") == "node3/nic5");
  CHECK(r["degraded_links"][0].at("step_delay_s") == p.links[0].step_delay.value);
}

TEST_CASE("several degraded links are ranked, and a harmless one costs nothing") {
  Scenario s = example("degraded_nic");
  s.run.iterations = 3;
  s.cluster.degraded = {{"node0/nic1", std::nullopt, 1, Seconds(0)},
                        {"node3/nic5", "leaf5", 0.1, Seconds(0)},
                        {"node5/nic2", std::nullopt, 0.5, Seconds(0)}};
  const Prediction p = predict(s);
  REQUIRE(p.links.size() == 3);
  CHECK(p.links[0].link == "node3/nic5 - leaf5");
  CHECK(p.links[0].step_delay.value > 0);
  for (const LinkReport& link : p.links) {
    if (link.link == "node0/nic1") {
      CHECK(link.step_delay.value == 0);
    }
  }
  CHECK(std::ranges::is_sorted(p.links, std::ranges::greater{}, &LinkReport::step_delay));
}

TEST_CASE("no more links are examined than promised") {
  Scenario s = example("resnet50_v100_4x8");
  s.cluster.degraded.assign(20, {"node0/gpu0", std::nullopt, 0.9, Seconds(0)});
  CHECK(predict(s).links.size() == kMostLinksExamined);
}

TEST_CASE("the terminal's page is short, plain, and complete") {
  for (const char* name :
       {"slow_gpu_64", "degraded_nic", "input_bottleneck", "resnet50_v100_4x8", "first_node"}) {
    CAPTURE(name);
    const Prediction p = predict(example(name));
    const std::string page = terminal_table(p) + terminal_footer(p);
    CHECK(lines_of(page).size() <= 28);
    for (const std::string& line : lines_of(page)) {
      CHECK(line.size() <= 110);
      CHECK((line.empty() || line.back() != ' '));
      CHECK(std::ranges::all_of(line, [](char c) { return c >= 0x20 && c < 0x7f; }));
    }
    for (const std::string& word :
         {std::string("step time"), readable_time(p.report.step.mean), std::string("samples/s"),
          std::string("scaling"), std::string("compute"), std::string("exposed communication"),
          std::string("stragglers"), std::string("input"), std::string("other"), std::string("seed 1"),
          std::string("engine: "), to_hex(p.result.fingerprint)}) {
      CHECK_THAT(page, Catch::Contains(word));
    }
  }
}

TEST_CASE("the page names the slow GPU and the bad cable, and nobody where nobody is to blame") {
  CHECK_THAT(terminal_table(predict(example("slow_gpu_64"))), Catch::Contains("rank 37 (node4/gpu5)"));
  CHECK_THAT(terminal_table(predict(example("degraded_nic"))), Catch::Contains("node3/nic5 "));
  CHECK_THAT(terminal_table(predict(example("resnet50_v100_4x8"))),
             !Catch::Contains("whom the others waited for"));
}

TEST_CASE("GPUs that are equally late are all named") {
  Scenario scenario = example("slow_gpu_64");
  scenario.variability = {};
  scenario.variability.slow_gpus = {{{5, 37, 40}, 0, 1.15}};
  const Prediction p = predict(scenario);
  const json r = json::parse(result_json(p));
  REQUIRE_FALSE(r.at("stragglers").empty());
  std::set<std::int64_t> named;
  for (const json& s : r.at("stragglers")) {
    named.insert(s.at("rank").get<std::int64_t>());
    for (const json& rank : s.at("as_late")) {
      named.insert(rank.get<std::int64_t>());
    }
  }
  CHECK(named == std::set<std::int64_t>{5, 37, 40});
  for (const char* gpu : {"node0/gpu5", "node4/gpu5", "node5/gpu0"}) {
    CHECK_THAT(terminal_table(p), Catch::Contains(gpu));
  }
}

TEST_CASE("the page says when few steps are faster than their loaders") {
  Scenario scenario = example("input_bottleneck");
  scenario.training.input->jitter = {};
  scenario.training.input->rate = SamplesPerSecond(900);
  scenario.run.iterations = 1;
  const Prediction few = predict(scenario);
  scenario.run.iterations = 200;
  const Prediction many = predict(scenario);
  CHECK(few.report.throughput <= 8 * 900 * (1 + 1e-9));
  CHECK(json::parse(result_json(few)).at("counted_steps_samples_per_s") == few.report.counted_throughput);
  CHECK((few.report.counted_throughput > few.report.throughput) ==
        (terminal_table(few).find("prefetched before") != std::string::npos));
  CHECK(many.report.throughput <= 8 * 900 * (1 + 1e-9));
}

// Steps of one H200 (scenarios/validation/h200/steps.csv).
TEST_CASE("the page says where measured batches were limited by the host") {
  const auto page = [](const std::string& measured, int batch) {
    return terminal_table(predict(parse_scenario(
        R"({"cluster": {"node": "dgx-h200", "gpus_per_node": 1}, "model": "resnet50",
            "training": {"precision": "bf16", "batch_per_gpu": )" +
            std::to_string(batch) + R"(, "measured": [)" + measured + "]}}",
        "batches.json")));
  };
  const std::string both = R"({"rate": "259.8 samples/s", "batch_per_gpu": 8},
                              {"rate": "540.8 samples/s", "batch_per_gpu": 16})";
  for (const int batch : {4, 12, 128}) {
    CHECK_THAT(page(both, batch),
               Catch::Contains("from batch 8 to 16 a step takes 0.96 times as long, its kernels 1."));
  }
  CHECK_THAT(page(both, 16), !Catch::Contains("the host"));
  CHECK_THAT(page(R"({"rate": "3738 samples/s", "batch_per_gpu": 128},
                     {"rate": "4937 samples/s", "batch_per_gpu": 512})",
                  256),
             !Catch::Contains("the host,"));
}

TEST_CASE("the page says what the memory format of images that nobody measured costs") {
  const auto page = [](const std::string& training) {
    return terminal_table(predict(parse_scenario(
        R"({"cluster": {"node": "dgx-h100", "gpus_per_node": 1}, "model": "resnet50",
            "training": {"batch_per_gpu": 64, )" +
            training + "}}",
        "format.json")));
  };
  const std::string first = R"("roofline": {"memory_format": "channels_first"}, )";
  CHECK_THAT(
      page(R"("precision": "fp16")"),
      Catch::Contains("images in channels_last; in channels_first, PyTorch's default, layers take 1.7"));
  CHECK_THAT(page(first + R"("precision": "fp16")"),
             Catch::Contains("images in channels_first; in channels_last layers take 0.5"));
  for (const char* other :
       {R"("precision": "fp32")", R"("precision": "fp16", "measured": "1000 samples/s")"}) {
    CHECK_THAT(page(other), !Catch::Contains("channels_"));
    CHECK_THAT(page(first + other), !Catch::Contains("channels_"));
  }
}

TEST_CASE("the page says what eager kernels that nobody measured take, or would") {
  const auto page = [](const std::string& training, const std::string& model = "bert_base") {
    return terminal_table(predict(
        parse_scenario(R"({"cluster": {"node": "dgx-h100", "gpus_per_node": 1}, "model": ")" + model +
                           R"(", "training": {"batch_per_gpu": 64, "precision": "fp16")" + training + "}}",
                       "kernels.json")));
  };
  const std::string eager = R"(, "roofline": {"kernels": "eager"})";
  CHECK_THAT(page(""), Catch::Contains("compiled; eager layers 1.4"));
  CHECK_THAT(page(eager), Catch::Contains("eager; compiled layers 0.6"));
  for (const std::string& other : {page(R"(, "measured": "400 samples/s")"), page("", "resnet50")}) {
    CHECK_THAT(other, !Catch::Contains("eager"));
  }
  CHECK_THAT(page(eager, "resnet50"), Catch::Contains("eager; compiled layers no shorter"));
}

TEST_CASE("the page says which rate of images nobody asked a loader for") {
  Scenario images = example("resnet50_v100_4x8");
  CHECK_THAT(terminal_table(predict(images)), Catch::Contains("taken as ready: 2,919 samples/s a node"));
  images.training.input.emplace().rate = SamplesPerSecond(400);
  CHECK_THAT(terminal_table(predict(images)), !Catch::Contains("taken as ready"));
  images.training.input.reset();
  images.training.measured.front().rate =
      SamplesPerSecond(360);  // 8 of them take less than anyone waited for
  CHECK_THAT(terminal_table(predict(images)), !Catch::Contains("taken as ready"));
  CHECK_THAT(terminal_table(predict(example("fsdp_llama3_8b"))), !Catch::Contains("taken as ready"));
}

TEST_CASE("the page names options of a fabric that isn't there") {
  Scenario scenario = example("first_node");
  scenario.cluster.fabric.sharp = true;  // a single switch may reduce
  CHECK_THAT(terminal_table(predict(scenario)), !Catch::Contains("not used"));
  scenario.cluster.fabric.oversubscription = 8;
  CHECK_THAT(terminal_table(predict(scenario)),
             Catch::Contains("not used        options of the fabric: it is a single"));
}

TEST_CASE("the page says what Megatron's distributed optimizer does, of stage 1 alone") {
  Scenario scenario = example("first_node");
  scenario.run.iterations = 2;
  scenario.training.zero.reduce_scatter = scenario.training.zero.overlap_gather = true;
  const auto page = [&](StrategyKind strategy, int stage) {
    scenario.training.strategy = strategy;
    scenario.training.zero.stage = stage;
    return terminal_table(predict(scenario));
  };
  const std::string said = ", gradients reduce-scattered, parameters gathered beside the forward pass";
  CHECK_THAT(page(StrategyKind::zero, 1), Catch::Contains("zero, stage 1" + said));
  CHECK_THAT(
      page(StrategyKind::zero, 2),
      !Catch::Contains(said) && Catch::Contains("not used        reduce_scatter and overlap_gather of zero"));
  CHECK_THAT(page(StrategyKind::fsdp, 1), !Catch::Contains(said) && Catch::Contains("options of zero"));
}

TEST_CASE("who waits for input has time for what would delay it") {
  Scenario scenario = example("input_bottleneck");
  scenario.run.iterations = 3;
  scenario.training.input->rate = SamplesPerSecond(400);
  const Prediction plain = predict(scenario);
  REQUIRE(plain.report.breakdown.input_wait.value > 0.02);
  CHECK_THAT(terminal_table(plain), Catch::Contains("would make it about " +
                                                    readable_count(plain.report.throughput) + " samples/s"));
}

TEST_CASE("the page names options of strategies that don't run") {
  Scenario scenario = example("first_node");
  CHECK_THAT(terminal_table(predict(scenario)), !Catch::Contains("not used"));
  scenario.training.fsdp.shard_group.node = true;
  scenario.training.horovod.fp16 = true;
  scenario.training.ddp.static_graph = true;
  const auto page = [&](StrategyKind strategy) {
    scenario.training.strategy = strategy;
    return terminal_table(predict(scenario));
  };
  CHECK_THAT(page(StrategyKind::ddp),
             Catch::Contains("not used        options of fsdp, horovod: the strategy is ddp"));
  CHECK_THAT(page(StrategyKind::fsdp), Catch::Contains("options of ddp, horovod: the strategy is fsdp"));
  CHECK_THAT(page(StrategyKind::local_sgd), Catch::Contains("options of ddp, fsdp, horovod: the strategy"));
  scenario.training.accumulation = 2;
  scenario.training.no_sync = false;
  CHECK_THAT(page(StrategyKind::horovod), Catch::Contains("not used        no_sync false"));
  CHECK_THAT(page(StrategyKind::ddp), !Catch::Contains("no_sync"));
  scenario.training.accumulation = 1;
  scenario.training.no_sync = true;
  scenario.training.local_sgd.warm_up = 1;  // steps of DDP
  CHECK_THAT(page(StrategyKind::local_sgd), Catch::Contains("options of fsdp, horovod: the strategy"));
  scenario.training.local_sgd = {};
  scenario.training.zero.stage = 3;  // whose options FSDP's are
  CHECK_THAT(page(StrategyKind::zero), Catch::Contains("options of ddp, horovod: the strategy is zero"));
  scenario.training.zero.stage = 1;
  CHECK_THAT(page(StrategyKind::zero), Catch::Contains("options of fsdp, horovod: the strategy is zero"));
}

TEST_CASE("numbers for people keep four digits") {
  CHECK(readable_time(Seconds(0.3712)) == "371.2 ms");
  CHECK(readable_time(Seconds(0.99996)) == "1000 ms");
  CHECK(readable_time(Seconds(12.3456)) == "12.35 s");
  CHECK(readable_time(Seconds(0)) == "0 s");
  CHECK(readable_time(Seconds(-0.002)) == "-2.000 ms");
  CHECK(readable_count(11035.4) == "11,035");
  CHECK(readable_count(1234567) == "1,234,567");
  CHECK(readable_count(367.29) == "367.3");
  CHECK(readable_count(1.5) == "1.50");
  CHECK(readable_rate(BytesPerSecond(25e9)) == "25.00 GB/s");
}

TEST_CASE("presets and topology pages name what there is") {
  const std::string page = presets_table();
  for (const std::string& name : model_names()) {
    CHECK_THAT(page, Catch::Contains("  " + name + " "));
  }
  for (const std::string& name : node_preset_names()) {
    CHECK_THAT(page, Catch::Contains("  " + name + " "));
  }
  const std::string topology = topology_table(build_topology(load_cluster("a100-4x8")));
  for (const char* line : {"GPU                   32", "NIC                   32", "leaf                   1",
                           "bisection", "8 rings"}) {
    CHECK_THAT(topology, Catch::Contains(line));
  }
}

TEST_CASE("a preset in full is read as the preset") {
  const auto scenario_with = [](const std::string& gpu, const std::string& model) {
    return parse_scenario(R"({"cluster": {"node": "dgx-a100", "gpu": )" + gpu + R"(}, "model": )" + model +
                              R"(, "training": {"batch_per_gpu": 1, "precision": "fp32"}})",
                          "x.json");
  };
  for (const std::string& name : gpu_preset_names()) {
    CHECK(to_json(scenario_with(preset_json(name), "\"resnet18\"")) ==
          to_json(scenario_with('"' + name + '"', "\"resnet18\"")));
  }
  for (const std::string& name : node_preset_names()) {
    const auto on_node = [](const std::string& cluster) {
      return to_json(parse_scenario(
          R"({"model": "resnet18", "training": {"batch_per_gpu": 1, "precision": "fp32"}, "cluster": )" +
              cluster + "}",
          "x.json"));
    };
    CHECK(on_node(preset_json(name)) == on_node('"' + name + '"'));
  }
  for (const std::string& name : cluster_names()) {
    CHECK(load_cluster(preset_json(name)) == load_cluster(name));
  }
  for (const std::string& name : model_names()) {
    const Scenario in_full = scenario_with("\"A100-80GB\"", preset_json(name));
    const Scenario by_name = scenario_with("\"A100-80GB\"", '"' + name + '"');
    CHECK(to_json(in_full) == to_json(by_name));
  }
}

// The word of each line between a heading and the next empty line.
std::set<std::string> words_below(const std::string& page, const std::string& heading) {
  std::istringstream lines(page.substr(page.find(heading)));
  std::set<std::string> words;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && !line.empty()) {
    const std::size_t first = line.find_first_not_of(' ');
    words.insert(line.substr(first, line.find("  ", first) - first));
  }
  return words;
}

bool is_text(const std::string& page) {
  return std::ranges::all_of(page, [](unsigned char c) { return c == '\n' || (c >= ' ' && c < 127); });
}

TEST_CASE("every preset prints through every command that takes a cluster") {
  const std::set<std::string> devices{"GPU", "NVSwitch", "PCIe switch", "CPU socket",
                                      "NIC", "leaf",     "spine",       "core"};
  const std::set<std::string> links{"NVLink", "PCIe", "socket", "network", "C2C"};
  const auto known = [](const std::set<std::string>& words, const std::set<std::string>& all) {
    return !words.empty() && std::ranges::includes(all, words);
  };
  std::vector<std::string> names = node_preset_names();
  std::ranges::copy(cluster_names(), std::back_inserter(names));
  std::set<std::string> seen;
  for (const std::string& name : names) {
    INFO(name);
    const Topology topology = build_checked_topology(load_cluster(name));
    const std::string page = topology_table(topology);
    CHECK(is_text(page));
    CHECK(known(words_below(page, "  devices\n"), devices));
    CHECK(known(words_below(page, "  links (each"), links));
    seen.merge(words_below(page, "  links (each"));
    std::ostringstream graph;
    write_graphviz(topology, graph);
    CHECK(is_text(graph.str()));
    CHECK_THAT(graph.str(), !Catch::Contains("color=\"\"") && !Catch::Contains(", ]"));

    CollectiveOptions options;
    options.kind = "all_reduce";
    options.cluster = name;
    options.sizes = {"64K"};
    options.explain = true;
    const CollectiveTestResult result =
        run_collective_test(collective_test(options, cluster_of(options), {}));
    CHECK(is_text(nccl_tests_table(result)));
    const json rows = json::parse(nccl_tests_json(result)).at("results");
    CHECK(rows.at(0).at("algorithm").get<std::string>().size() >= 3);

    constexpr std::size_t kMostRanks = 100;  // more take seconds
    if (topology.ranks() <= kMostRanks) {
      const json scenario{{"cluster", name},
                          {"model", "resnet50"},
                          {"training", {{"batch_per_gpu", 32}}},
                          {"run", {{"iterations", 1}}}};
      const Prediction p = predict(parse_scenario(scenario.dump(), "scenario.json"), trace_of_first(1, 2));
      CHECK(is_text(terminal_table(p) + terminal_footer(p)));
      CHECK(is_text(result_json(p)));
      CHECK(is_text(trace_json(p)));
    }
  }
  CHECK(seen == links);
}

}  // namespace
}  // namespace paceline
