// Which changes are tried: every one that could help, none that can't, each of a stated kind.
#include "studies/levers.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "scenarios/files.h"
#include "scenarios/run_table.h"
#include "scenarios/writer.h"
#include "studies/explain.h"
#include "tests/dice.h"
#include "tests/files.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Prediction predicted(const json& scenario) { return predict(parse_scenario(scenario.dump(), "levers")); }

std::vector<Lever> levers_of(const Prediction& p) {
  Machines machines;
  return levers(p, machines);
}

std::set<std::string> names(const std::vector<Lever>& levers) {
  std::set<std::string> all;
  for (const Lever& lever : levers) {
    CHECK(all.insert(lever.change).second);
  }
  return all;
}

bool any_contains(const std::set<std::string>& names, const std::string& part) {
  return std::ranges::any_of(names,
                             [&](const std::string& name) { return name.find(part) != std::string::npos; });
}

json hoppers(int nodes) {
  return {
      {"cluster",
       {{"node", {{"preset", "dgx-h100"}, {"nics", 2}, {"nic_bandwidth", "200 Gb/s"}}}, {"nodes", nodes}}},
      {"model", "bert_large"},
      {"training", {{"batch_per_gpu", 64}, {"precision", "bf16"}, {"gradients", "bf16"}}},
      {"run", {{"iterations", 1}}}};
}

TEST_CASE("buckets up to one, and the algorithms and protocols that NCCL could run, are tried first") {
  const Prediction p = predicted(hoppers(4));
  const std::vector<Lever> all = levers_of(p);
  const std::set<std::string> tried = names(all);
  for (const char* change : {"bucket cap x2 (50.00 MiB)", "bucket cap x4 (100.0 MiB)",
                             "bucket cap x8 (200.0 MiB)", "one bucket (641.3 MiB)"}) {
    CHECK(tried.contains(change));
  }
  CHECK(any_contains(tried, "NCCL_ALGO=ring"));
  CHECK(any_contains(tried, "NCCL_ALGO=^"));
  CHECK(any_contains(tried, "NCCL_PROTO="));
  CHECK_FALSE(any_contains(tried, "collnet"));  // no switch of this network reduces
  CHECK(std::ranges::is_sorted(all, {}, [](const Lever& lever) { return lever.kind; }));
}

TEST_CASE("what joins a node's GPUs is tried twice as fast: NVLink, or PCIe and the sockets' link") {
  json scenario = hoppers(1);
  CHECK(any_contains(names(levers_of(predicted(scenario))), "NVLink bandwidth x2"));
  CHECK_FALSE(any_contains(names(levers_of(predicted(scenario))), "PCIe"));
  scenario["cluster"]["node"] = {{"preset", "pcie-a100"}};
  scenario["training"]["batch_per_gpu"] = 4;  // the links decide
  const Prediction p = predicted(scenario);
  const std::vector<Lever> all = levers_of(p);
  CHECK_FALSE(any_contains(names(all), "NVLink"));
  Machines machines;
  int tried = 0;
  for (const Lever& lever : all) {
    if (lever.change == "PCIe bandwidth x2" || lever.change == "bandwidth between sockets x2") {
      CHECK(predict(lever.changed, {}, machines).report.step.mean < 0.995 * p.report.step.mean);
      ++tried;
    }
  }
  CHECK(tried == 2);
}

TEST_CASE("more sockets are tried where NCCL goes through TCP, and nowhere else") {
  json scenario = hoppers(2);
  CHECK_FALSE(any_contains(names(levers_of(predicted(scenario))), "NCCL_SOCKET_NTHREADS"));
  scenario["cluster"]["node"]["network"] = "tcp";
  const Prediction p = predicted(scenario);
  Machines machines;
  bool tried = false;
  for (const Lever& lever : levers_of(p)) {
    if (lever.change == "NCCL_SOCKET_NTHREADS=4") {
      CHECK(predict(lever.changed, {}, machines).report.step.mean < 0.8 * p.report.step.mean);
      tried = true;
    }
  }
  CHECK(tried);
  scenario["training"]["collective"] = {{"socket_threads", 8}};
  CHECK(any_contains(names(levers_of(predicted(scenario))), "NCCL_SOCKET_NTHREADS=16"));
  scenario["training"]["collective"] = {{"socket_threads", 16}};  // NCCL's most
  CHECK_FALSE(any_contains(names(levers_of(predicted(scenario))), "NCCL_SOCKET_NTHREADS"));
}

TEST_CASE("DataParallel loses to DDP, and where one process launches too slowly the host is named") {
  json scenario = json::parse(read_file((kSource / "scenarios/data_parallel_8_v100.json").string()));
  scenario["training"]["batch_per_gpu"] = 4;
  scenario["run"]["iterations"] = 2;
  const Prediction gpu_bound = predicted(scenario);
  scenario["training"]["host"]["kernel_launch"] = "30 us";
  const Prediction host_bound = predicted(scenario);
  scenario["training"]["strategy"] = "ddp";
  CHECK(predicted(scenario).report.throughput > host_bound.report.throughput);
  Machines machines;
  const auto saved_by = [&](const Prediction& p, const std::string& change) {
    for (const Lever& lever : levers(p, machines)) {
      if (lever.change == change) {
        return 1 - predict(lever.changed, {}, machines).report.step.mean / p.report.step.mean;
      }
    }
    return -1.0;
  };
  CHECK(saved_by(gpu_bound, "a process for each GPU (DDP)") > 0.25);
  CHECK(saved_by(gpu_bound, "host x2") == Approx(0).margin(0.01));
  CHECK(saved_by(host_bound, "host x2") > 0.3);
  CHECK(host_bound.report.breakdown.other > host_bound.report.breakdown.exposed_communication);
}

TEST_CASE("images in channels_last are tried where nobody measured channels_first") {
  json scenario = {
      {"cluster", {{"node", "dgx-a100"}}},
      {"model", "resnet50"},
      {"training",
       {{"batch_per_gpu", 64}, {"precision", "fp16"}, {"roofline", {{"memory_format", "channels_first"}}}}},
      {"run", {{"iterations", 1}}}};
  const auto tried = [&](const json& changed) {
    return names(levers_of(predicted(changed))).contains("images in channels_last");
  };
  CHECK(tried(scenario));
  json other = scenario;
  other["training"]["measured"] = "1200 samples/s";
  CHECK_FALSE(tried(other));
  other = scenario;
  other["cluster"]["gpus"] = {{{"nodes", 1}, {"gpu", "A100-80GB"}, {"measured", "1200 samples/s"}}};
  CHECK_FALSE(tried(other));
  other = scenario;
  other["training"]["roofline"]["memory_format"] = "channels_last";
  CHECK_FALSE(tried(other));
  other = scenario;
  other["model"] = "bert_base";
  CHECK_FALSE(tried(other));
  other = scenario;
  other["training"]["precision"] = "fp32";
  CHECK_FALSE(tried(other));
}

TEST_CASE("compiled kernels are tried where nobody measured eager ones") {
  json scenario = {{"cluster", {{"node", "dgx-h100"}}},
                   {"model", "bert_base"},
                   {"training", {{"batch_per_gpu", 64}, {"roofline", {{"kernels", "eager"}}}}},
                   {"run", {{"iterations", 1}}}};
  constexpr const char* kLever = "compiled kernels (torch.compile)";
  const auto tried = [&](const json& changed) {
    return names(levers_of(predicted(changed))).contains(kLever);
  };
  CHECK(tried(scenario));
  json other = scenario;
  other["training"]["measured"] = "400 samples/s";
  CHECK_FALSE(tried(other));
  other = scenario;
  other["training"]["roofline"]["kernels"] = "compiled";
  CHECK_FALSE(tried(other));
  other = scenario;
  other["model"] = "vgg16";
  CHECK_FALSE(tried(other));
}

TEST_CASE("what NCCL can't run, or would run anyway, is not tried") {
  json ampere = hoppers(2);
  ampere["cluster"] = {{"node", "dgx-a100"}, {"nodes", 2}};
  CHECK_FALSE(any_contains(names(levers_of(predicted(ampere))), "nvls"));
  json mpi = ampere;
  mpi["training"]["collective"]["library"] = "mpi";
  CHECK_FALSE(any_contains(names(levers_of(predicted(mpi))), "NCCL"));
  json one_choice = ampere;
  one_choice["training"]["collective"] = {{"algorithm", "ring"}, {"protocol", "simple"}};
  const std::set<std::string> tried = names(levers_of(predicted(one_choice)));
  CHECK_FALSE(tried.contains("NCCL_ALGO=ring"));
  CHECK_FALSE(tried.contains("NCCL_PROTO=simple"));
}

TEST_CASE("only GPUs that are slow in this run are spared") {
  json scenario = hoppers(1);
  scenario["variability"] = {{"per_iteration", {{"distribution", "lognormal"}, {"cv", 0.05}}},
                             {"slow_gpus", {{{"ranks", {3}}, {"factor", 1.3}}}}};
  std::set<std::string> tried = names(levers_of(predicted(scenario)));
  CHECK(tried.contains("without the slowness of rank 3 (node0/gpu3)"));
  CHECK(std::ranges::count_if(
            tried, [](const std::string& name) { return name.starts_with("without the sl"); }) == 1);
  CHECK_FALSE(tried.contains("no slow GPU"));  // the same as sparing the only one

  scenario["variability"]["slow_gpus"][0]["ranks"] = {1, 3};
  tried = names(levers_of(predicted(scenario)));
  CHECK(tried.contains("no slow GPU"));

  scenario["variability"]["slow_gpus"] = {{{"fraction", 1e-9}, {"factor", 1.3}}};
  tried = names(levers_of(predicted(scenario)));
  CHECK_FALSE(any_contains(tried, "slow"));
  CHECK(tried.contains("no jitter"));
}

using Names = std::set<std::string>;

Names software_of(const json& scenario) {
  Names all;
  for (const Lever& lever : levers_of(predicted(scenario))) {
    if (lever.kind == LeverKind::software && lever.change.find("NCCL") == std::string::npos) {
      all.insert(lever.change);
      CHECK_NOTHROW(Machines().build(parse_scenario(to_json(lever.changed), "lever")));
    }
  }
  return all;
}

// On GPUs with bf16 all gradients; on those without, fp16 between them; nothing that is so already.
TEST_CASE("gradients are halved to what the GPUs have, where they are not") {
  const auto halved = [](const char* node, json training) {
    training["batch_per_gpu"] = 8;
    const json scenario = {{"cluster", {{"node", node}, {"nodes", 2}}},
                           {"model", "resnet18"},
                           {"training", training},
                           {"run", {{"iterations", 1}}}};
    Names found;
    for (const std::string& name : software_of(scenario)) {
      if (name.find("16") != std::string::npos && name.find("MiB") == std::string::npos) {
        found.insert(name);
      }
    }
    return found;
  };
  const Names bf16{"gradients in bf16"}, hook{"gradients compressed to fp16"}, none;
  CHECK(halved("dgx-a100", json::object()) == bf16);
  CHECK(halved("dgx1-v100", json::object()) == hook);
  for (const json& so_already : {json{{"ddp", {{"wire", "fp16"}}}}, json{{"compression", "fp16"}},
                                 json{{"compression", "sign"}}, json{{"gradients", "fp16"}}}) {
    CHECK(halved("dgx-a100", so_already) == none);
    CHECK(halved("dgx1-v100", so_already) == none);
  }
  for (const json& without_hook :
       {json{{"collective", {{"library", "mpi"}}}}, json{{"ddp", {{"reduction", "apex_ddp"}}}},
        json{{"strategy", "local_sgd"}, {"local_sgd", {{"group", "node"}}}}}) {
    CHECK(halved("dgx1-v100", without_hook) == none);
  }
  CHECK(halved("dgx-a100", {{"strategy", "fsdp"}}) == Names{"gradients reduced in bf16"});
  CHECK(halved("dgx1-v100", {{"strategy", "fsdp"}}) == Names{"gradients reduced in fp16"});
}

TEST_CASE("a strategy is tried with its own options") {
  const std::string keeps = "parameters kept after forward", bf16 = "gradients reduced in bf16",
                    hybrid = "hybrid sharding by node", stores = "no activation checkpointing",
                    twice = "accumulation x2";
  json scenario = hoppers(2);
  scenario["training"]["strategy"] = "fsdp";
  CHECK(software_of(scenario) == Names{keeps, hybrid, twice});
  scenario["training"]["gradients"] = "fp32";
  scenario["training"]["activation_checkpointing"] = "full";
  scenario["training"]["fsdp"] = {{"reshard_after_forward", 16}};
  CHECK(software_of(scenario) == Names{keeps, bf16, hybrid, stores, twice});
  json one = scenario;
  one["cluster"] = {{"node", "dgx-h100"}, {"nodes", 1}, {"gpus_per_node", 1}};
  one["training"]["fsdp"].erase("reshard_after_forward");
  CHECK(software_of(one).contains(stores));
  CHECK_THAT(terminal_table(predict(parse_scenario(one.dump(), "s.json"))),
             Catch::Contains("activations     recomputed, block by block\n"));
  // Where not all activations fit, those of every other block may.
  one["training"]["batch_per_gpu"] = 1200;
  CHECK_FALSE(software_of(one).contains(stores));
  CHECK(software_of(one).contains("one block of 2 recomputed"));
  one["training"]["recompute_every"] = 2;
  CHECK_FALSE(software_of(one).contains("one block of 4 recomputed"));
  CHECK_THAT(terminal_table(predict(parse_scenario(one.dump(), "s.json"))),
             Catch::Contains("activations     recomputed in one block of 2\n"));
  // Or every other product of each block.
  json language = hoppers(8);
  language["model"] = "llama3_8b";
  language["training"].update(
      {{"batch_per_gpu", 3}, {"strategy", "fsdp"}, {"activation_checkpointing", "full"}});
  CHECK_FALSE(software_of(language).contains(stores));
  CHECK(software_of(language).contains("recomputation by operators"));
  language["training"]["activation_checkpointing"] = "selective_op";
  CHECK_FALSE(software_of(language).contains("recomputation by operators"));
  json syncs = scenario;
  syncs["training"].update({{"accumulation", 4}, {"no_sync", false}});
  CHECK(software_of(syncs).contains("no_sync"));
  const auto page = [](const json& s) { return terminal_table(predict(parse_scenario(s.dump(), "s.json"))); };
  CHECK_THAT(page(syncs), Catch::Contains("gradients       reduced in each of 4 passes\n"));
  syncs["training"]["no_sync"] = true;
  CHECK_THAT(page(syncs), !Catch::Contains("reduced in each"));
  CHECK_FALSE(software_of(syncs).contains("no_sync"));
  syncs["training"].erase("no_sync");
  syncs["training"].update({{"strategy", "zero"}, {"zero", {{"stage", 2}}}});  // DeepSpeed refuses it
  CHECK_FALSE(software_of(syncs).contains("no_sync"));
  scenario["training"].erase("activation_checkpointing");
  scenario["training"]["fsdp"] = {
      {"reduce_precision", "bf16"}, {"reshard_after_forward", false}, {"shard_group", "node"}};
  CHECK(software_of(scenario) == Names{twice});
  scenario["training"]["fsdp"] = json::object();
  scenario["training"]["strategy"] = "zero";
  scenario["training"]["zero"]["stage"] = 2;  // and 3, decide over the parameters themselves
  CHECK(software_of(scenario) == Names{bf16, hybrid, twice});
  scenario["training"]["zero"]["stage"] = 1;
  const Names ddp = software_of(scenario);
  CHECK(ddp.contains("gradients as views of the buckets"));
  CHECK_FALSE(ddp.contains(hybrid));
  scenario["cluster"]["nodes"] = 1;
  scenario["training"]["strategy"] = "fsdp";
  CHECK(software_of(scenario) == Names{keeps, bf16, twice});
}

TEST_CASE("one GPU beside servers has their levers, and the network's where they have nodes of their own") {
  json scenario = hoppers(1);
  scenario["cluster"]["gpus_per_node"] = 1;
  CHECK_FALSE(any_contains(names(levers_of(predicted(scenario))), "NIC"));
  scenario["training"]["strategy"] = "parameter_server";
  scenario["training"]["parameter_server"]["servers"] = {{"count", 2}, {"placement", "own_nodes"}};
  const std::set<std::string> remote = names(levers_of(predicted(scenario)));
  CHECK(remote.contains("servers' memory bandwidth x2"));
  CHECK(any_contains(remote, "NIC bandwidth x2"));
  CHECK(remote.contains("network latency halved"));
  scenario["training"]["parameter_server"]["servers"] = {{"count", 1}, {"placement", "with_workers"}};
  const std::set<std::string> beside = names(levers_of(predicted(scenario)));
  CHECK(beside.contains("servers' memory bandwidth x2"));
  CHECK_FALSE(any_contains(beside, "NIC bandwidth x2"));
}

TEST_CASE("Horovod's levers are its own, as far as the version has them") {
  json scenario = hoppers(2);
  scenario["training"]["strategy"] = "horovod";
  scenario["training"]["gradients"] = "fp32";
  scenario["training"]["horovod"] = {{"version", "0.28"}};
  std::set<std::string> tried = software_of(scenario);
  for (const char* one : {"fusion threshold 16.00 MiB", "fusion threshold 256.0 MiB", "cycle time 5.000 ms",
                          "asynchronous completion", "gradients reduced in fp16", "torus all-reduces",
                          "hierarchical all-reduces"}) {
    CAPTURE(one);
    CHECK(tried.contains(one));
  }
  CHECK_FALSE(tried.contains("cycle time 1.000 ms"));  // as it is
  CHECK_FALSE(tried.contains("gradients as views of the buckets"));
  scenario["training"]["horovod"] = {
      {"version", "0.19"}, {"hierarchical", true}, {"fusion_threshold", "64 MiB"}};
  tried = software_of(scenario);
  CHECK(tried.contains("cycle time 1.000 ms"));
  CHECK(tried.contains("one all-reduce of all GPUs"));
  for (const char* one : {"fusion threshold 64.00 MiB", "cycle time 5.000 ms", "torus all-reduces",
                          "hierarchical all-reduces"}) {
    CAPTURE(one);
    CHECK_FALSE(tried.contains(one));
  }
}

TEST_CASE("what no longer fits is not tried") {
  json scenario = hoppers(2);
  scenario["cluster"] = {{"node", "dgx-h100"}, {"nodes", 2}, {"gpus_per_node", 2}};
  scenario["model"] = "llama3_8b";  // 16 GB in bf16, 128 GB of model states
  scenario["training"]["batch_per_gpu"] = 1;
  scenario["training"]["accumulation"] = 2;  // 16 GB of gradients, whole between passes
  scenario["training"]["optimizer"] = "adam";
  scenario["training"]["strategy"] = "fsdp";
  const std::string keeps = "parameters kept after forward", hybrid = "hybrid sharding by node";
  const std::set<std::string> tried = software_of(scenario);
  CHECK_FALSE(tried.contains(hybrid));  // 64 GB of model states instead of 32
  CHECK_FALSE(tried.contains(keeps));   // 16 GB of parameters
  // Gradients would be whole between passes: 88 GB instead of 74.
  json larger = scenario;
  larger["cluster"] = {{"node", "dgx-h100"}, {"nodes", 8}};
  larger["training"]["accumulation"] = 1;
  larger["training"]["fsdp"] = {{"reduce_precision", "fp32"}};
  CHECK(software_of(larger).contains("accumulation x2"));
  larger["training"]["batch_per_gpu"] = 2;
  CHECK_FALSE(software_of(larger).contains("accumulation x2"));
  // Where nobody knows a GPU's memory all are tried.
  scenario["cluster"]["gpu"] = {
      {"name", "mine"}, {"peak", {{"bf16", "500 TFLOP/s"}}}, {"memory_bandwidth", "2 TB/s"}};
  CHECK(software_of(scenario).contains(hybrid));
  CHECK(software_of(scenario).contains(keeps));
}

TEST_CASE("each lever is a change, and its edits make the scenario that it stands for", "[release]") {
  json scenario = hoppers(2);
  scenario["cluster"]["fabric"] = {{"kind", "leaf_spine"}, {"nodes_per_leaf", 1}, {"oversubscription", 2}};
  scenario["cluster"]["degraded_links"] = {{{"from", "node1/nic0"}, {"bandwidth_factor", 0.5}}};
  scenario["background"] = {{{"from", 0}, {"to", 9}, {"rate", "5 GB/s"}}};
  scenario["variability"] = {{"per_operation", {{"distribution", "lognormal"}, {"cv", 0.01}}},
                             {"slow_gpus", {{{"ranks", {3, 4}}, {"factor", 1.3}}}}};
  scenario["training"]["input"] = {{"rate", "4000 samples/s"},
                                   {"jitter", {{"distribution", "gamma"}, {"cv", 0.1}}}};
  const Prediction p = predicted(scenario);
  const std::string before = to_json(p.scenario);
  const std::vector<Lever> all = levers_of(p);
  CHECK(all.size() >= 20);
  for (const Lever& lever : all) {
    CAPTURE(lever.change);
    json edited = json::parse(before);
    for (const Edit& edit : lever.edits) {
      CAPTURE(edit.key);
      const json::json_pointer key(edit.key);
      edited[key] = json::parse(to_line(edit.value));
    }
    CHECK(edited != json::parse(before));
    const Scenario again = parse_scenario(edited.dump(), "edited");  // no key that there isn't
    CHECK(to_json(again) == to_json(parse_scenario(to_json(lever.changed), "changed")));
  }
}

#ifdef NDEBUG
constexpr std::int64_t kMostGpus = 512;
#else
constexpr std::int64_t kMostGpus = 64;  // with assertions more takes minutes
#endif

TEST_CASE("no lever of any example is refused", "[release]") {
  std::size_t tried = 0;
  const std::vector<fs::path> all = examples();
  for (std::size_t i = 0; i < all.size(); i += stride()) {
    const fs::path& path = all[i];
    CAPTURE(path);
    Scenario scenario = load_scenario(path.string());
    if (scenario.faults ||
        std::int64_t{scenario.cluster.nodes} * scenario.cluster.gpus_per_node > kMostGpus) {
      continue;
    }
    ++tried;
    scenario.run.iterations = 1;
    const Prediction p = predict(scenario);
    for (const Lever& lever : levers_of(p)) {
      CAPTURE(lever.change);
      CHECK_NOTHROW(Machines().build(parse_scenario(to_json(lever.changed), "lever")));
    }
  }
  CHECK(tried >= 10 / stride());
}

TEST_CASE("delays that are stated, and a reduction that waits for backward, are levers") {
  json scenario = hoppers(2);
  const auto tried = [&] { return names(levers_of(predicted(scenario))); };
  CHECK_FALSE(tried().contains("no delays"));
  CHECK_FALSE(tried().contains("reduction during backward"));
  scenario["variability"]["delays"] = {{"per_step", "2 ms"}};
  scenario["training"]["ddp"]["reduction"] = "horovod_0.21";
  CHECK(tried().contains("no delays"));
  CHECK(tried().contains("reduction during backward"));
  scenario["variability"]["delays"] = {{"per_step", "0 ms"}};
  CHECK_FALSE(tried().contains("no delays"));
}

TEST_CASE("a lever that the scenario's limits refuse says why") {
  json scenario = hoppers(1);
  scenario["cluster"]["gpus_per_node"] = 2;
  const json layer{{"name", "a"}, {"parameters", {1000}}, {"forward_macs", 1000}, {"output_elements", 1}};
  scenario["model"] = {{"name", "one"}, {"layers", json::array({layer})}};
  scenario["training"]["accumulation"] = 10'000;
  const Prediction p = predicted(scenario);
  Machines machines;
  const Explanation e = explain(p, 2, machines);
  REQUIRE(e.not_possible.size() == 1);
  CHECK(e.not_possible[0].change == "accumulation x2");
  CHECK_THAT(e.not_possible[0].reason, Catch::Contains("/training/accumulation") && Catch::Contains("20000"));
  CHECK_THAT(levers_text(e),
             Catch::Contains("not possible here: accumulation x2 (") && Catch::Contains("20000"));
}

}  // namespace
}  // namespace paceline
