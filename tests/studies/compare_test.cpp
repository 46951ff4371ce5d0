// Strategies side by side: what each is, what it sends, and who wins.
#include "studies/compare.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "scenarios/files.h"
#include "scenarios/readable.h"
#include "scenarios/run_table.h"
#include "studies/strategy_choice.h"
#include "tests/error_of.h"
#include "tests/example.h"

namespace paceline {
namespace {

using Catch::Contains;

const std::string kLlamaFile = example_path("fsdp_llama3_8b");

// On so many nodes, with rings, no two GPUs apart.
Json llama(int nodes) {
  Json scenario = parse_json(read_file(kLlamaFile));
  set_at(scenario, "/cluster/nodes", std::int64_t{nodes}, "");
  set_at(scenario, "/training/collective/algorithm", "ring", "");
  set_at(scenario, "/run/iterations", std::int64_t{1}, "");
  set_at(scenario, "/variability", Json::Object{}, "");
  return scenario;
}

Comparison compared(const Json& scenario, const std::string& strategies) {
  return compare(scenario, kLlamaFile, strategy_choices(strategies), 2, [](Scenario s) { return s; });
}

// Parameters of all layers, and of those that are in no block.
std::pair<double, double> parameters_and_root(const Model& model) {
  double all = 0, root = 0;
  for (const Layer& layer : model.layers) {
    for (const std::int64_t tensor : layer.parameters) {
      all += static_cast<double>(tensor);
      root += layer.name.starts_with("layers.") ? 0 : static_cast<double>(tensor);
    }
  }
  return {all, root};
}

TEST_CASE("what a GPU sends with rings is what the volumes say", "[release]") {
  for (const int nodes : {1, 8, 64}) {
    const Comparison c = compared(
        llama(nodes),
        "ddp,fsdp:reduce_precision=bf16,fsdp,fsdp:units={\"parameters\": 1000000000}:reduce_precision=bf16,"
        "fsdp:reshard_after_forward=false:reduce_precision=bf16,zero1");
    const auto [all, root] = parameters_and_root(c.strategies.front().prediction.scenario.model);
    const double n = 8.0 * nodes, part = (n - 1) / n, bf16 = 2 * all;
    const double expected[] = {part * 2 * bf16,
                               part * (2 * bf16 - 2 * root + bf16),
                               part * (2 * bf16 - 2 * root + 2 * bf16),
                               part * 3 * bf16,  // nothing is kept: 1.5 times DDP's
                               part * 2 * bf16,
                               part * 3 * bf16};
    for (std::size_t i = 0; i < c.strategies.size(); ++i) {
      CAPTURE(nodes, c.strategies[i].choice.name);
      CHECK(c.strategies[i].sent.total() == Approx(expected[i]).epsilon(1e-12));
      CHECK((c.strategies[i].sent.network > 0) == (nodes > 1));
    }
  }
}

TEST_CASE("hybrid sharding sends shards over NVLink and replicas over the NICs", "[release]") {
  for (const int nodes : {2, 64}) {
    const Comparison c = compared(llama(nodes), "fsdp:shard_group=node:reduce_precision=bf16");
    const auto [all, root] = parameters_and_root(c.strategies.front().prediction.scenario.model);
    const SentBytes& sent = c.strategies.front().sent;
    CHECK(sent.nvlink == Approx(7.0 / 8 * (3 * 2 * all - 2 * root)).epsilon(1e-12));
    CHECK(sent.network == Approx(2 * (nodes - 1.0) / nodes / 8 * 2 * all).epsilon(1e-12));
  }
}

TEST_CASE("a comparison says who wins, and its JSON the same") {
  using nlohmann::json;
  Json scenario = llama(2);
  set_at(scenario, "/training/ddp/bucket_cap", "50 MiB", "");
  const Comparison c = compared(scenario, "ddp,zero1,zero2,zero3,fsdp,fsdp:shard_group=node");
  REQUIRE(c.strategies.size() == 6);
  const std::string page = comparison_text(c);
  for (const ComparedStrategy& each : c.strategies) {
    CHECK_THAT(page, Contains("\n" + each.choice.name + " "));
    CHECK_THAT(c.verdict, Contains(each.choice.name));
  }
  CHECK_THAT(page, Catch::StartsWith("does not fit: ddp"));
  REQUIRE(c.remarks.size() == 2);
  CHECK_THAT(c.remarks[0], Contains("\"bucket_cap\"") && Contains("\"zero2\"") && Contains("\"fsdp\""));
  CHECK_THAT(c.remarks[1], Contains("\"reduce_precision\"") && Contains("\"ddp\"") && !Contains("\"fsdp\""));
  const json written = json::parse(comparison_json(c));
  for (std::size_t i = 0; i < c.strategies.size(); ++i) {
    const json& row = written["strategies"][i];
    CHECK(row["strategy"] == c.strategies[i].choice.name);
    CHECK(row["step_time_s"]["mean"].get<double>() == c.strategies[i].prediction.report.step.mean.value);
    CHECK(row["sent_bytes"]["nic"].get<double>() == Approx(c.strategies[i].sent.network).margin(1));
  }
  CHECK(written["verdict"] == c.verdict);
  CHECK(written["strategies"][5]["edits"] ==
        json{{"/training/strategy", "fsdp"}, {"/training/fsdp/shard_group", "node"}});
  // zero3 is FSDP, and each is what a run of its own says.
  CHECK(c.strategies[3].prediction.result.fingerprint == c.strategies[4].prediction.result.fingerprint);
  set_at(scenario, "/training/fsdp/shard_group", "node", "");
  CHECK(predict(parse_scenario(to_line(scenario), kLlamaFile)).result.fingerprint ==
        c.strategies[5].prediction.result.fingerprint);
  CHECK(compared(scenario, "fsdp:shard_group=all").strategies[0].prediction.result.fingerprint ==
        c.strategies[4].prediction.result.fingerprint);
}

TEST_CASE("what a stage decides, and what one GPU makes of strategies, is said") {
  Json scenario = llama(1);
  set_at(scenario, "/training/fsdp/reshard_after_forward", std::int64_t{4}, "");
  const std::vector<std::string> remarks = compared(scenario, "zero2,fsdp").remarks;
  REQUIRE(remarks.size() == 1);
  CHECK_THAT(remarks.front(), Contains("\"reshard_after_forward\"") && Contains("\"zero2\""));
  Json megatron = llama(1);
  set_at(megatron, "/training/zero/reduce_scatter", true, "");
  const std::vector<std::string> of_stage_1 = compared(megatron, "zero1,zero2").remarks;
  const auto told = std::ranges::find_if(
      of_stage_1, [](const std::string& each) { return each.starts_with("options of zero in the file"); });
  REQUIRE(told != of_stage_1.end());
  CHECK_THAT(*told, Contains("(\"reduce_scatter\")") && Contains("\"zero2\"") && !Contains("\"zero1\""));
  set_at(scenario, "/cluster/gpus_per_node", std::int64_t{1}, "");
  CHECK_THAT(comparison_text(compared(scenario, "ddp,fsdp")),
             Contains("on one GPU every strategy is plain training: nothing is sharded\n"));
  const Comparison servers = compared(scenario, "ddp,parameter_server");
  CHECK_THAT(comparison_text(servers), !Contains("plain training"));
  CHECK_THROWS_WITH(compared(scenario, "fsdp:units=[5]"), Contains("/training/fsdp/units: expected counts"));
}

TEST_CASE("servers stand beside DDP with what their samples are worth") {
  const std::string file = example_path("stragglers_64");
  Json scenario = parse_json(read_file(file));
  set_at(scenario, "/model", "resnet18", "");
  set_at(scenario, "/training/measured", "2000 samples/s", "");
  set_at(scenario, "/run/iterations", std::int64_t{6}, "");
  const Comparison c = compare(scenario, file,
                               strategy_choices("ddp,parameter_server,parameter_server:consistency=async,"
                                                "parameter_server:stale=3,parameter_server:backup=2"),
                               2, [](Scenario s) { return s; });
  REQUIRE(c.strategies.size() == 5);
  const auto report = [&](std::size_t i) -> const Report& { return c.strategies[i].prediction.report; };
  CHECK_FALSE(report(0).servers.has_value());
  CHECK(report(1).servers->mean_staleness == 0);
  CHECK(report(1).servers->dropped_share == 0);
  CHECK(report(2).servers->mean_staleness == Approx(63).margin(1));  // of 64 workers
  CHECK(report(3).servers->mean_staleness <= report(2).servers->mean_staleness);
  CHECK(report(4).servers->dropped_share > 0);
  CHECK(report(3).throughput > report(1).throughput);
  CHECK(report(4).throughput > report(1).throughput);
  const Model model = c.strategies[1].prediction.scenario.model;
  CHECK(report(1).servers->hottest_server_in.value >= 64 * 4 * parameter_count(model) / 8);
  const std::string page = comparison_text(c);
  CHECK_THAT(page, Contains("stale") && Contains("into server"));
  CHECK_THAT(c.verdict, Contains("updates stale (95 %:") && Contains(" % of gradients dropped"));
  const auto json = nlohmann::json::parse(comparison_json(c));
  CHECK_FALSE(json["strategies"][0].contains("servers"));
  CHECK(json["strategies"][4]["servers"]["dropped_share"].get<double>() > 0);
  CHECK(json["strategies"][3]["edits"]["/training/parameter_server/consistency"]["stale"] == 3);
  // What a GPU sends, and a step's parts.
  CHECK(c.strategies[1].sent.network == Approx(4.0 * static_cast<double>(parameter_count(model))));
  for (const ComparedStrategy& each : c.strategies) {
    const BreakdownSeconds& b = each.prediction.report.breakdown;
    const Seconds parts =
        b.compute + b.exposed_communication + b.straggler_wait + b.server_wait + b.input_wait + b.other;
    CHECK(parts.value == Approx(each.prediction.report.step.mean.value).epsilon(1e-9));
  }
}

TEST_CASE("compression is priced against the same without it, wherever that stands, or says against what") {
  const auto price = [](const std::string& list) {
    const std::string text =
        comparison_text(compared(parse_json(read_file(example_path("four_nodes"))), list));
    const std::size_t from = text.rfind("\nddp:compression=fp16 ") + 1;
    REQUIRE(from > 0);
    return text.substr(from, text.find('\n', from) - from);
  };
  const std::string price_of = price("ddp,ddp:compression=fp16");
  CHECK(price("ddp:bucket_cap=1000 MiB,ddp,ddp:compression=fp16") == price_of);
  CHECK(price("ddp:compression=fp16,ddp:bucket_cap=1000 MiB,ddp:compression=none") == price_of);
  const std::string other = price("ddp:compression=fp16,ddp:bucket_cap=1000 MiB");
  CHECK(other != price_of);
  CHECK(other.ends_with(", against ddp:bucket_cap=1000 MiB, whose other options differ."));
  CHECK_THAT(price_of, !Contains("against"));
}

TEST_CASE("a measured rate holds for what the file has: who doesn't recompute saves the second forward") {
  Json scenario = llama(1);
  const auto steps = [&](const std::string& strategies) {
    std::vector<double> seconds;
    for (const ComparedStrategy& each : compared(scenario, strategies).strategies) {
      seconds.push_back(mean_step(each.prediction.result).value);
    }
    return seconds;
  };
  const std::string all =
      "fsdp:activation_checkpointing=full,fsdp:activation_checkpointing=none,ddp,"
      "ddp:activation_checkpointing=none";
  set_at(scenario, "/training/activation_checkpointing", "full", "");
  set_at(scenario, "/training/measured", "1 samples/s", "");
  const double batch = 1;
  const std::vector<double> saved = steps(all);
  CHECK(saved[0] == Approx(batch).epsilon(0.1));
  CHECK(saved[1] == Approx(0.75 * batch).epsilon(0.1));
  CHECK(saved[2] == Approx(batch).epsilon(0.1));
  CHECK(saved[3] == Approx(0.75 * batch).epsilon(0.1));
  set_at(scenario, "/training/measured",
         Json::Object{{"rate", "1 samples/s"}, {"activation_checkpointing", "none"}}, "");
  const std::vector<double> paid = steps(all);
  CHECK(paid[0] == Approx(batch * 4 / 3).epsilon(0.1));
  CHECK(paid[1] == Approx(batch).epsilon(0.1));
  CHECK(paid[2] == Approx(batch * 4 / 3).epsilon(0.1));
  CHECK(paid[3] == Approx(batch).epsilon(0.1));
  // Measured with every other block recomputed: a seventh of a step is that.
  set_at(scenario, "/training/measured", "1 samples/s", "");
  set_at(scenario, "/training/recompute_every", std::int64_t{2}, "");
  const std::vector<double> half = steps("fsdp,fsdp:recompute_every=1,fsdp:activation_checkpointing=none");
  CHECK(half[0] == Approx(batch).epsilon(0.1));
  CHECK(half[1] == Approx(half[0] + batch / 7).epsilon(0.05));
  CHECK(half[2] == Approx(half[0] - batch / 7).epsilon(0.05));
  // Beside that rate: less than all, more than nothing.
  const std::vector<double> part = steps(
      "fsdp:recompute_every=1,fsdp:activation_checkpointing=selective_op,fsdp:activation_checkpointing=none");
  CHECK(part[1] < part[0]);
  CHECK(part[1] > part[2]);
}

TEST_CASE(
    "a file that only its own strategy makes wrong is compared, and an option is blamed for what it says") {
  Json scenario = parse_json(read_file(example_path("first_node")));
  set_at(scenario, "/run/iterations", std::int64_t{2}, "");
  set_at(scenario, "/training/strategy", "parameter_server", "");
  set_at(scenario, "/training/balance", Json::Object{{"window", std::int64_t{10}}}, "");
  CHECK(compared(scenario, "ddp,fsdp").strategies.size() == 2);
  const auto said = [&](const InputError& error) {
    try {
      compare(scenario, kLlamaFile, strategy_choices("ddp"), 1, [&](Scenario) -> Scenario { throw error; });
    } catch (const InputError& thrown) {
      return std::string(thrown.what());
    }
    return std::string();
  };
  CHECK(said(InputError("no", "--iterations")) == "--iterations: no");
  CHECK(said(InputError("too large", "/training")) == kLlamaFile + ": /training: ddp: too large");
}

TEST_CASE("a comparison tells how far each strategy has come") {
  Json scenario = parse_json(read_file(example_path("first_node")));
  set_at(scenario, "/run/iterations", std::int64_t{5}, "");
  std::map<std::string, std::size_t> last;
  compare(
      scenario, kLlamaFile, strategy_choices("ddp,horovod"), 2, [](Scenario s) { return s; },
      [&](const std::string& strategy, std::size_t done, std::size_t all) {
        CHECK(all == 6);  // and the warm-up
        CHECK(done > last[strategy]);
        last[strategy] = done;
      });
  CHECK(last == std::map<std::string, std::size_t>{{"ddp", 6}, {"horovod", 6}});
}

TEST_CASE("PowerSGD above rank 2 of fp32 is said to be a guess") {
  const auto with = [](const char* gradients, Json::Object hook) {
    Json scenario = parse_json(read_file(example_path("slow_network_16")));
    hook.insert(hook.begin(), {"kind", "powersgd"});
    set_at(scenario, "/training/compression", Json(hook), "");
    set_at(scenario, "/training/gradients", gradients, "");
    set_at(scenario, "/run/iterations", std::int64_t{1}, "");
    const Comparison c = compared(scenario, "ddp");
    const bool page = terminal_table(c.strategies.front().prediction).find("a guess") != std::string::npos;
    const bool remark = std::ranges::any_of(
        c.remarks, [](const std::string& each) { return each.find("a guess") != std::string::npos; });
    CHECK(page == remark);
    return page;
  };
  CHECK(with("fp32", {{"rank", std::int64_t{3}}}));
  CHECK_FALSE(with("fp32", {{"rank", std::int64_t{2}}}));
  CHECK_FALSE(with("fp16", {{"rank", std::int64_t{3}}}));
  CHECK_FALSE(with("fp32", {{"rank", std::int64_t{3}}, {"wrapper", "fp16"}}));
}

TEST_CASE("the file's compression counts for those that have hooks, and the others are told") {
  Json plain = llama(1);
  set_at(plain, "/model", "resnet18", "");
  set_at(plain, "/training/gradients", "fp32", "");
  set_at(plain, "/training/fsdp", Json::Object{}, "");
  Json scenario = plain;
  const auto fingerprints = [](const Comparison& c) {
    std::vector<std::uint64_t> all;
    for (const ComparedStrategy& each : c.strategies) {
      all.push_back(each.prediction.result.fingerprint);
    }
    return all;
  };
  for (const Json& given : {Json("fp16"), Json(Json::Object{{"kind", "fp16"}})}) {
    set_at(scenario, "/training/compression", given, "");
    const Comparison c = compared(scenario, "ddp,zero1,fsdp,ddp:compression=none,horovod");
    // As if each had been said for itself.
    CHECK(fingerprints(c) ==
          fingerprints(compared(plain, "ddp:compression=fp16,zero1:compression=fp16,fsdp,ddp,horovod")));
    REQUIRE(c.remarks.size() == 1);
    CHECK_THAT(c.remarks[0], Contains("compression") && Contains("for \"fsdp\" and \"horovod\": it is a"));
    const auto written = nlohmann::json::parse(comparison_json(c));
    CHECK(written["remarks"][0] == c.remarks[0]);
    CHECK(written["strategies"][2]["edits"] ==
          nlohmann::json{{"/training/strategy", "fsdp"}, {"/training/compression", "none"}});
    CHECK_FALSE(written["strategies"][2].contains("compression"));
    CHECK(written["strategies"][0]["compression"]["ratio"] == 2);
    CHECK_THROWS_WITH(compared(scenario, "fsdp,horovod"), Contains("expected the strategy ddp"));
    // Of passes that all reduce, as of one.
    Json passes = scenario;
    set_at(passes, "/training/accumulation", std::int64_t{3}, "");
    for (const ComparedStrategy& each : compared(passes, "ddp,ddp:no_sync=false").strategies) {
      CHECK(each.prediction.report.compression->ratio == 2);
    }
    set_at(passes, "/training/compression", "none", "");
    const Comparison differ = compared(passes, "fsdp,zero3");
    REQUIRE(differ.remarks.size() == 1);
    CHECK_THAT(differ.remarks[0],
               Contains("by \"zero3\", as DeepSpeed does, and in the last alone by \"fsdp\""));
    CHECK(compared(passes, "horovod,zero3").remarks.empty());  // which has nothing of the kind
    CHECK(compared(passes, "fsdp:no_sync=false,zero3").remarks.empty());
    CHECK(compared(passes, "fsdp,zero3:no_sync=true").remarks.empty());
  }
  set_at(scenario, "/training/compression", Json::Object{{"kind", "none"}}, "");
  CHECK(compared(scenario, "ddp,fsdp").remarks.empty());
  set_at(scenario, "/training/compression", "fp61", "");
  CHECK_THROWS_WITH(compared(scenario, "fsdp,ddp"), Contains("unknown value \"fp61\""));
}

// What averages send is 1 / H of it; post-local SGD's buckets stay in their nodes.
TEST_CASE("local SGD stands beside DDP: less to send, and what it changes is said") {
  const std::string file = example_path("local_sgd_v100_4x8");
  Json scenario = parse_json(read_file(file));
  set_at(scenario, "/model", "bert_base", "");
  set_at(scenario, "/run/iterations", std::int64_t{3}, "");
  set_at(scenario, "/training/local_sgd/group", "none", "");
  const Comparison c = compare(scenario, file,
                               strategy_choices("ddp,local_sgd:period=1,local_sgd:period=4,"
                                                "local_sgd:period=4:group=node"),
                               2, [](Scenario s) { return s; });
  REQUIRE(c.strategies.size() == 4);
  const SentBytes &each_step = c.strategies[1].sent, &local = c.strategies[2].sent,
                  &in_nodes = c.strategies[3].sent;
  CHECK(each_step.network > 0);
  CHECK(4 * local.network == each_step.network);
  CHECK(4 * local.nvlink == each_step.nvlink);
  CHECK(in_nodes.network == local.network);
  CHECK(in_nodes.nvlink > local.nvlink);
  const auto report = [&](std::size_t i) -> const Report& { return c.strategies[i].prediction.report; };
  CHECK_FALSE(report(0).period.has_value());
  CHECK_FALSE(report(1).period.has_value());
  REQUIRE(report(2).period.has_value());
  CHECK(c.strategies[0].prediction.result.iteration_end.size() == 1 + 3);
  CHECK(c.strategies[2].prediction.result.iteration_end.size() == 1 + 4);
  const PeriodReport& period = *report(2).period;
  CHECK(period.steps == 4);
  CHECK((period.synchronising + 3 * period.local).value == Approx(4 * report(2).step.mean.value));
  CHECK(period.synchronising > 2 * period.local);
  CHECK(report(2).throughput > report(1).throughput);
  const std::string page = comparison_text(c);
  CHECK_THAT(page, Contains("local SGD changes what is learned: this is about time alone"));
  CHECK_THAT(c.verdict, Contains("averaged every 4 steps"));
  const auto json = nlohmann::json::parse(comparison_json(c));
  CHECK_FALSE(json["strategies"][1].contains("synchronising_step_s"));
  CHECK(json["strategies"][2]["period_steps"] == 4);
  CHECK(json["strategies"][2]["synchronising_step_s"].get<double>() == period.synchronising.value);
  CHECK(json["strategies"][2]["local_step_s"].get<double>() == period.local.value);
  CHECK(json["strategies"][2]["iterations"] == 4);
}

TEST_CASE("what can't be compared is said") {
  const auto error_of_choices = [](const std::string& list) {
    try {
      strategy_choices(list);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(error_of_choices("ddp,fdsp"), Contains("unknown strategy \"fdsp\"; did you mean \"fsdp\"?"));
  CHECK_THAT(error_of_choices(""), Contains("unknown strategy \"\""));
  CHECK_THAT(error_of_choices("ddp,"), Contains("unknown strategy \"\""));
  CHECK_THAT(error_of_choices("ddp,powersgd"), Contains("write \"ddp:compression=powersgd\""));
  CHECK_THAT(
      error_of_choices("ddp:rank=4"),
      Contains("the compression before its option, such as \"ddp:compression=powersgd:rank=4\", found"));
  CHECK_THAT(error_of_choices("ddp,fsdp,ddp"), Contains("expected each strategy once, found \"ddp\" twice"));
  CHECK_THAT(
      error_of_choices("zero2:reshard_after_forward=true"),
      Contains("expected another option of zero2, whose stage says what \"reshard_after_forward\" is"));
  CHECK(strategy_choices("ddp, fsdp ").back().name == "fsdp");
  CHECK_THAT(error_of_choices("fsdp:node"),
             Contains("expected NAME:KEY=VALUE such as fsdp:shard_group=node"));
  CHECK_THROWS_WITH(compared(llama(1), "fsdp:shard_gruop=node"),
                    Contains("/training/fsdp: unknown key \"shard_gruop\"; did you mean \"shard_group\"?"));
  CHECK_THROWS_WITH(compared(llama(1), "zero1:units=[1]"), Contains("/training/ddp: unknown key \"units\""));
  CHECK_THROWS_WITH(compared(llama(1), "fsdp:shard_group=3"),
                    Contains("expected a shard group that divides the 8 ranks"));
  const std::vector<StrategyChoice> lists =
      strategy_choices(R"(fsdp:units=[1,2]:shard_group=8,fsdp:units={"parameters": 5, "x": ":,"})");
  REQUIRE(lists.size() == 2);
  CHECK(lists[0].edits.size() == 3);
  const StrategyChoice megatron = strategy_choices("zero1:reduction=megatron:reduce_scatter=true").front();
  CHECK(megatron.edits[2].key == "/training/ddp/reduction");
  CHECK(megatron.edits[3].key == "/training/zero/reduce_scatter");
  const std::vector<StrategyChoice> written = strategy_choices(
      R"(ddp:compression=powersgd:rank=4:start=20:bucket_cap=50 MiB,zero1:compression=top_k:share=0.1,)"
      R"(ddp:compression={"kind": "powersgd", "rank": 2}:rank=4:start=20:bucket_cap=50 MiB)");
  CHECK(to_line(written[0].edits[1].value) == R"({"kind": "powersgd", "rank": 4, "start": 20})");
  CHECK(written[0].edits[2].key == "/training/ddp/bucket_cap");
  CHECK(to_line(written[1].edits.back().value) == R"({"kind": "top_k", "share": 0.1})");
  CHECK(written[2].edits == written[0].edits);
}

NamedScenario named(const std::string& name, const Json& scenario) {
  return {name, name + ".json", parse_scenario(to_line(scenario), kLlamaFile)};
}

TEST_CASE("scenarios side by side have what each has alone") {
  Json slow = llama(2);
  set_at(slow, "/cluster/degraded_links", parse_json(R"([{"from": "node0/nic0", "bandwidth_factor": 0.25}])"),
         "");
  const Comparison c = compare_scenarios({named("whole", llama(2)), named("degraded", slow)}, 2);
  REQUIRE(c.strategies.size() == 2);
  CHECK(c.strategies[1].prediction.report.step.mean > c.strategies[0].prediction.report.step.mean);
  for (const auto& [name, json] : {std::pair<std::string, Json>{"whole", llama(2)}, {"degraded", slow}}) {
    const Prediction alone = predict(named(name, json).scenario);
    const ComparedStrategy& row = c.strategies[name == "whole" ? 0 : 1];
    CHECK(row.choice.name == name);
    CHECK(row.prediction.result.fingerprint == alone.result.fingerprint);
  }
  CHECK_THAT(c.verdict, Contains("whole is the fastest, with ") && Contains("; degraded loses "));
  const std::string text = comparison_text(c);
  for (const char* const each :
       {"whole: llama3_8b on 16 GPUs", "degraded: llama3_8b on 16 GPUs", "scenario ", "of a GPU"}) {
    CHECK_THAT(text, Contains(each));
  }
  const Json json = parse_json(comparison_json(c));
  REQUIRE(json.find("scenarios") != nullptr);
  CHECK(json.find("strategies") == nullptr);
  CHECK(to_line(*value_at(json, "/scenarios/1/scenario")) == "\"degraded\"");
}

TEST_CASE("who is fastest is told by the step only where steps are alike, and of one model") {
  Json ill = llama(4);
  set_at(ill, "/variability/slow_gpus", parse_json(R"([{"ranks": [0], "factor": 1.2}])"), "");
  const Comparison sizes = compare_scenarios({named("two", llama(2)), named("four", ill)}, 2);
  const auto rate = [](const ComparedStrategy& each) { return each.prediction.report.throughput; };
  const double two = rate(sizes.strategies[0]), four = rate(sizes.strategies[1]);
  REQUIRE(two / 16 > 1.001 * four / 32);
  CHECK(sizes.verdict == "four is the fastest, with " + readable_count(four) + " samples/s; two has " +
                             fixed(100 * two / four, 1) + " % of that. A GPU does most in two: " +
                             readable_count(two / 16) + " samples/s.");
  Json averaged = llama(4);
  set_at(averaged, "/training/strategy", "local_sgd", "");
  set_at(averaged, "/training/fsdp", Json::Object{}, "");
  CHECK_THAT(compare_scenarios({named("two", llama(2)), named("averaged", averaged)}, 2).verdict,
             Contains(", with parameters averaged every "));
  Json longer = llama(2);
  set_at(longer, "/model", parse_json(R"({"preset": "llama3_8b", "sequence": 2048})"), "");
  const Comparison models = compare_scenarios({named("8k", llama(2)), named("2k", longer)}, 2);
  CHECK(models.verdict ==
        "They train different models, or samples of different lengths: none is called the fastest.");
}

TEST_CASE("scenarios that can't be told apart, or have no steps, are refused") {
  CHECK_THAT(error_of([] { compare_scenarios({named("a", llama(1)), named("a", llama(1))}, 1); }),
             Contains("SCENARIO: expected each scenario once, found \"a\" twice"));
  const std::string days = example_path("faults_16384");
  CHECK(error_of([&] { compare_scenarios({{"days", days, load_scenario(days)}}, 1); }) ==
        days + ": /faults/step: expected scenarios whose steps are simulated, found one that gives its step");
  const std::vector<std::string> twins{"x/a.json", "y/a.json"};
  CHECK(short_names(twins) == twins);
  CHECK(short_names({"x/a.json", "b.json"}) == std::vector<std::string>{"a", "b"});
}

}  // namespace
}  // namespace paceline
