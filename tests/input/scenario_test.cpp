// Are a scenario's three descriptions (reader, writer, schema) one? Is the effective scenario the same
// scenario?
#include "scenarios/scenario.h"

#include <regex.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "scenarios/predict.h"
#include "sim/collective/costs.h"
#include "sim/strategy/pytorch.h"
#include "tests/files.h"
#include "topology/topology.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Scenarios that say a node in each of the three ways.
const std::vector<std::string> kWaysToSayANode{"tests/input/everything.json", "tests/input/listed_node.json",
                                               "tests/input/imported_node.json"};

std::vector<fs::path> examples_and_more() {
  std::vector<fs::path> paths = examples();
  REQUIRE(paths.size() >= 15);
  for (const std::string& name : kWaysToSayANode) {
    paths.push_back(kSource / name);
  }
  return paths;
}

bool has_type(const json& value, const std::string& type) {
  return type == "object"    ? value.is_object()
         : type == "array"   ? value.is_array()
         : type == "string"  ? value.is_string()
         : type == "boolean" ? value.is_boolean()
         : type == "integer" ? value.is_number_integer()
                             : type == "number" && value.is_number();
}

bool valid(const json& schema, const json& value);

bool valid_object(const json& schema, const json& value) {
  const json properties = schema.value("properties", json::object());
  for (const auto& [key, inner] : value.items()) {
    if (!properties.contains(key) ? !schema.value("additionalProperties", true)
                                  : !valid(properties[key], inner)) {
      return false;
    }
  }
  const json required = schema.value("required", json::array());
  return std::ranges::all_of(required,
                             [&](const json& key) { return value.contains(key.get<std::string>()); });
}

bool valid_number(const json& schema, double value) {
  return value >= schema.value("minimum", -HUGE_VAL) && value > schema.value("exclusiveMinimum", -HUGE_VAL) &&
         value <= schema.value("maximum", HUGE_VAL);
}

// POSIX extended, of which our patterns are; std::regex does not compile cleanly under sanitizers.
bool matches(const std::string& text, const std::string& pattern) {
  regex_t compiled;
  REQUIRE(::regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) == 0);
  const bool found = ::regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&compiled);
  return found;
}

// As much of JSON Schema as ours uses.
bool valid(const json& schema, const json& value) {
  if (schema.contains("anyOf")) {
    return std::ranges::any_of(schema["anyOf"], [&](const json& choice) { return valid(choice, value); });
  }
  if (!has_type(value, schema["type"])) {
    return false;
  }
  if (schema.contains("enum")) {
    return std::ranges::find(schema["enum"], value) != schema["enum"].end();
  }
  if (schema.contains("pattern")) {
    return matches(value.get<std::string>(), schema["pattern"].get<std::string>());
  }
  if (value.is_array()) {
    return value.size() >= schema.value("minItems", 0u) &&
           value.size() <= schema.value("maxItems", 1u << 30) &&
           std::ranges::all_of(value, [&](const json& item) { return valid(schema["items"], item); });
  }
  return value.is_object() ? valid_object(schema, value)
                           : !value.is_number() || valid_number(schema, value.get<double>());
}

const std::string kCostsKey = "/training/collective/costs";

// Every key of a schema, or of a document, by its path: /cluster/node/mesh/a. Cost parameters are names, not
// keys.
void keys_of_schema(const json& schema, const std::string& path, std::set<std::string>& keys) {
  for (const json& choice : schema.value("anyOf", json::array())) {
    keys_of_schema(choice, path, keys);
  }
  if (schema.contains("items")) {
    keys_of_schema(schema["items"], path, keys);
  }
  if (path == kCostsKey) {
    return;
  }
  const json properties = schema.value("properties", json::object());
  for (const auto& [key, inner] : properties.items()) {
    keys.insert(path + '/' + key);
    keys_of_schema(inner, path + '/' + key, keys);
  }
}

void keys_of_document(const json& document, const std::string& path, std::set<std::string>& keys) {
  if (document.is_array()) {
    for (const json& item : document) {
      keys_of_document(item, path, keys);
    }
  } else if (document.is_object() && path != kCostsKey) {
    for (const auto& [key, inner] : document.items()) {
      keys.insert(path + '/' + key);
      keys_of_document(inner, path + '/' + key, keys);
    }
  }
}

void check_documented(const json& schema, const std::string& path) {
  for (const json& choice : schema.value("anyOf", json::array())) {
    check_documented(choice, path);
  }
  if (schema.contains("items")) {
    check_documented(schema["items"], path);
  }
  if (path == kCostsKey) {
    return;
  }
  const json properties = schema.value("properties", json::object());
  for (const auto& [key, inner] : properties.items()) {
    CAPTURE(path + '/' + key);
    CHECK(inner.value("description", "").size() > 8);
    CHECK((inner.contains("anyOf") || inner.contains("type")));
    if (inner.contains("default")) {
      CHECK(valid(inner, inner["default"]));
    }
    check_documented(inner, path + '/' + key);
  }
}

TEST_CASE("the effective scenario of every example is the same scenario") {
  REQUIRE(examples().size() >= 9);
  for (const fs::path& path : examples_and_more()) {
    CAPTURE(path.string());
    const Scenario scenario = load_scenario(path.string());
    const std::string written = to_json(scenario);
    const Scenario again = parse_scenario(written, "effective.json");
    CHECK(to_json(again) == written);
    CHECK(again.training.batch_per_gpu == scenario.training.batch_per_gpu);
    if (scenario.cluster.node.devices.empty()) {
      CHECK(again.cluster.node.pcie_bandwidth == scenario.cluster.node.pcie_bandwidth);
    }
    CHECK(again.model.layers.size() == scenario.model.layers.size());
    CHECK(scenario.description.size() > 40);
  }
}

TEST_CASE("the effective scenario gives the same run") {
  std::vector<std::string> names = kWaysToSayANode;
  names.insert(names.end(), {"scenarios/slow_gpu_64.json", "scenarios/degraded_nic.json",
                             "scenarios/resnet50_v100_4x8.json"});
  for (const std::string& name : names) {
    CAPTURE(name);
    Scenario scenario = load_scenario((kSource / name).string());
    scenario.run.iterations = 3;
    const Prediction first = predict(scenario);
    const Prediction second = predict(parse_scenario(to_json(scenario), "effective.json"));
    CHECK(first.result.fingerprint == second.result.fingerprint);
    CHECK(first.report.scaling_efficiency == second.report.scaling_efficiency);
    CHECK(first.result.iteration_end == second.result.iteration_end);
  }
}

TEST_CASE("a node of one's own has the compute capability of the GPU that it names") {
  const auto capability = [](const std::string& gpu, const std::string& of_node) {
    return parse_scenario(R"({"cluster": {"node": {"name": "box", "gpus": 2, "wiring": "none", )" + of_node +
                              R"("pcie_bandwidth": "24 GB/s", "pcie_latency": "1 us", "pcie_switches": 1,
                                 "sockets": 1, "nics": 0}, "nodes": 1, "gpu": )" +
                              gpu + R"(}, "model": "resnet50", "training": {"batch_per_gpu": 32}})",
                          "box.json")
        .cluster.node.compute_capability;
  };
  CHECK(capability(R"("H200")", "") == 90);
  CHECK(capability(R"("V100-16GB")", "") == 70);
  CHECK(capability(R"({"preset": "A100-80GB", "name": "mine"})", "") == 80);
  CHECK(capability(R"("H200")", R"("compute_capability": 89, )") == 89);
  CHECK(capability(R"({"name": "mine", "peak": {"fp32": "1 TFLOP/s"}, "memory_bandwidth": "1 TB/s"})", "") ==
        0);
}

TEST_CASE("a scenario that says everything is read to the last key") {
  const Scenario s = load_scenario((kSource / "tests/input/everything.json").string());
  CHECK(s.cluster.node.mesh.at(0).count == 2);
  CHECK(s.cluster.node.gpu == "mine");
  CHECK(s.cluster.node.compute_capability == 89);
  CHECK_FALSE(s.cluster.node.gpu_direct);
  CHECK(s.cluster.node.cpu == CpuVendor::amd);
  CHECK(s.cluster.fabric.kind == FabricKind::fat_tree);
  CHECK(s.cluster.fabric.placement == Placement::striped);
  CHECK(s.cluster.fabric.routing == FabricSpec::Routing::ecmp);
  CHECK(s.cluster.fabric.routing_seed == 18446744073709551614ULL);
  CHECK(s.cluster.fabric.sharp);
  CHECK(s.cluster.degraded.at(0).to == "leaf1");
  CHECK(s.cluster.degraded.at(0).extra_latency == Seconds(1.7e-6));
  CHECK(s.gpu.peak.at(4) == FlopsPerSecond(7e14));
  CHECK(s.gpu.memory == Bytes(std::int64_t{80} << 30));
  CHECK(s.model.layers.at(1).kind == LayerKind::batch_norm);
  CHECK(s.training.measured ==
        std::vector<MeasuredRate>{{SamplesPerSecond(400.5), 16, 4, false, ActivationCheckpointing::none, 1}});
  CHECK(s.training.parameters == Precision::bf16);
  CHECK(s.training.optimizer == Optimizer::adam_8bit);
  CHECK(s.training.optimizer_kernels == OptimizerKernels::foreach);
  CHECK(s.training.slowdown_while_communicating.numerator == 121);
  CHECK(s.training.slowdown_while_communicating.denominator == 100);
  CHECK(s.training.pytorch == "2.3.1");
  CHECK(s.training.ddp.bucket_cap == Bytes(1'000'000));
  CHECK(s.training.ddp.first_bucket == Bytes(4096));
  CHECK(s.training.ddp.find_unused_parameters);
  CHECK(s.training.input.value().jitter.kind == DistributionKind::normal);
  const CollectiveSpec& collective = s.training.collective;
  CHECK(collective.nccl == "2.22");
  CHECK(collective.algorithm == "allreduce:ring,tree");
  CHECK(collective.protocol == "^ll128");
  CHECK(collective.min_channels == 2);
  CHECK(collective.max_channels == 4);
  CHECK(collective.cross_nic == 0);
  CHECK_FALSE(collective.pxn);
  CHECK_FALSE(collective.nvls);
  CHECK_FALSE(collective.limited_fifos);
  REQUIRE(collective.costs.size() == 3);
  CHECK(collective.costs.at(0).name == "block.copy_rate");  // by name, whatever the order in the file
  CHECK(collective.costs.at(0).value == 2e10);
  CHECK(collective.costs.at(1).value == 0.9);
  CHECK(collective.costs.at(2).name == "simple.network.latency");
  CHECK(collective.costs.at(2).value == 13.5e-6);
  CHECK(collective.choose == AlgorithmChoice::fastest);
  REQUIRE(collective.corrections.size() == 3);
  CHECK(collective.corrections.at(1).bytes == Bytes(1 << 20));
  CHECK(collective.corrections.at(1).factor == 0.95);
  CHECK(collective.corrections.at(2).kind == CollectiveKind::broadcast);
  CHECK(s.variability.per_iteration.values == std::vector<double>{1, 1.1, 0.95});
  CHECK(s.variability.slow_gpus.at(1).fraction == 0.25);
  CHECK(s.background.at(0).to == 7);
  CHECK(s.run.seed == 18446744073709551615ULL);
  CHECK(s.run.engine == EngineChoice::event);
}

TEST_CASE("PyTorch brings its NCCL, unless the scenario names one") {
  const auto nccl = [](const std::string& training) {
    return parse_scenario(R"({"cluster": "dgx-a100", "model": "resnet18", "training": {"batch_per_gpu": 1)" +
                              training + "}}",
                          "x.json")
        .training.collective.nccl;
  };
  CHECK(nccl("") == CollectiveSpec{}.nccl);  // of the newest
  const std::map<std::string, std::string> known{
      {"1.13", "2.14"}, {"2.0", "2.14"},  {"2.1", "2.18"},  {"2.2", "2.19"},  {"2.3", "2.20"},
      {"2.4", "2.20"},  {"2.5", "2.21"},  {"2.6", "2.21"},  {"2.7", "2.26"},  {"2.8", "2.27"},
      {"2.9", "2.27"},  {"2.10", "2.27"}, {"2.11", "2.28"}, {"2.12", "2.29"}, {"2.13", "2.29"},
      {"2.14", "2.30"}, {"2.15", "2.30"}};
  for (const auto& [pytorch, brought] : known) {
    CHECK(nccl(R"(, "pytorch": ")" + pytorch + '"') == brought);
  }
  CHECK(nccl(R"(, "pytorch": "2.3.1+cu121")") == "2.20");
  CHECK(nccl(R"(, "pytorch": "2.6", "collective": {"pxn": false})") == "2.21");
  CHECK(nccl(R"(, "collective": {"nccl": "2.30"}, "pytorch": "2.6")") == "2.30");
}

TEST_CASE("buckets are written as they were said") {
  const auto scenario = [](const std::string& ddp) {
    return R"({"cluster": "dgx-a100", "model": "resnet18", "training": {"batch_per_gpu": 1, "ddp": )" + ddp +
           "}}";
  };
  const auto written = [](const std::string& text) {
    return json::parse(to_json(parse_scenario(text, "x.json")))["training"];
  };
  const json nothing = written(scenario("{}"));
  CHECK_FALSE(nothing["ddp"].contains("bucket_cap"));
  CHECK_FALSE(nothing["ddp"].contains("first_bucket"));
  CHECK(nothing["pytorch"] == to_string(kNewestPyTorch));  // so that a result says whose rules it followed
  const json cap = written(scenario(R"({"bucket_cap": "25 MiB"})"));
  CHECK(cap["ddp"]["bucket_cap"] == "25 MiB");
  CHECK_FALSE(cap["ddp"].contains("first_bucket"));
  const json first = written(scenario(R"({"first_bucket": "1 MiB"})"));
  CHECK(first["ddp"]["first_bucket"] == "1 MiB");
  CHECK_FALSE(first["ddp"].contains("bucket_cap"));
}

TEST_CASE("a node is read device by device") {
  const Scenario s = load_scenario((kSource / "tests/input/listed_node.json").string());
  const NodeSpec& node = s.cluster.node;
  REQUIRE(node.devices.size() == 11);
  REQUIRE(node.cables.size() == 13);
  CHECK(node.devices.at(0).name == "first");
  CHECK(node.devices.at(2).kind == NodePart::nic);
  CHECK(node.devices.at(2).bandwidth == BytesPerSecond(25e9));
  CHECK(node.devices.at(5).kind == NodePart::nvswitch);
  CHECK(node.cables.at(3).bandwidth == BytesPerSecond(120e9));
  CHECK(node.cables.at(9).kind == CableKind::c2c);
  CHECK(node.cables.at(12).kind == CableKind::socket);
  CHECK(node.cables.at(12).a == 8);
  CHECK(node.cpu == CpuVendor::arm);
  CHECK(s.cluster.gpus_per_node == 4);
}

TEST_CASE("the effective scenario of an imported node needs no file") {
  const fs::path path = kSource / "tests/input/imported_node.json";
  const Scenario s = load_scenario(path.string());
  CHECK(s.cluster.node.name == "imported");
  CHECK(s.cluster.node.nic_latency == Seconds(1.25e-6));
  CHECK(s.gpu.name == "H200");
  const std::string written = to_json(s);
  CHECK(written.find("nccl_topology") == std::string::npos);
  CHECK(written.find("nccl_graph") == std::string::npos);
  CHECK(written.find(".xml") == std::string::npos);
  REQUIRE(s.cluster.graphs);
  CHECK(s.cluster.graphs->ring.channels.size() == 8);
  const Scenario again = parse_scenario(written, "/nowhere/effective.json");
  CHECK(again.cluster.node.devices.size() == s.cluster.node.devices.size());
  CHECK(again.cluster.node.cables.size() == s.cluster.node.cables.size());
  CHECK(again.cluster.node.compute_capability == 90);
  CHECK(to_json(again) == written);
  // Without the keys that replace them, what the file says holds.
  const Scenario plain = parse_scenario(
      R"({"cluster": {"node": {"nccl_topology": "nccl/vendor-a100.xml"}}, "model": "resnet18",
          "training": {"batch_per_gpu": 1}})",
      path.string());
  CHECK(plain.cluster.node.compute_capability == 80);
  CHECK(plain.gpu.name == "A100-40GB");
  CHECK(to_json(parse_scenario(to_json(plain), "x.json")) == to_json(plain));
}

// The name of a node may be its file's, which may be longer than a name in a scenario, and the file may hold
// numbers that a scenario may not.
TEST_CASE("whatever topology file is read, the effective scenario reads back") {
  const TemporaryFolder folder;
  const std::string good = text_of(kSource / "tests/input/nccl/h100-dump.xml");
  const auto with = [&](const std::string& what, const std::string& by) {
    std::string text = good;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
      text.replace(at, what.size(), by);
    }
    return text;
  };
  const std::vector<std::pair<std::string, std::string>> files{
      {std::string(200, 'n') + ".xml", good},
      {"control.xml", with("mlx5_0", "m&#10;&#7;&lt;\xc3\xa4")},
      {"long_name.xml", with("mlx5_0", std::string(100'000, 'm'))},
      {"quote\".xml", good},
      {"old.xml", with("sm=\"90\"", "sm=\"20\"")},
      {"new.xml", with("sm=\"90\"", "sm=\"999\"")}};
  int read = 0;
  for (const auto& [name, text] : files) {
    CAPTURE(name);
    folder.write(name, text);
    const json scenario{{"cluster", {{"node", {{"nccl_topology", name}, {"gpu", "H100"}}}}},
                        {"model", "resnet18"},
                        {"training", {{"batch_per_gpu", 1}}}};
    std::string written;
    try {
      written = to_json(parse_scenario(scenario.dump(), folder.file("s.json")));
    } catch (const InputError&) {
      continue;  // refused: as good
    }
    ++read;
    CHECK_NOTHROW(parse_scenario(written, "effective.json"));
  }
  CHECK(read >= 3);
}

TEST_CASE("a ratio is read exactly, as a number or a fraction") {
  const auto ratio = [](const std::string& value) {
    const Slowdown s =
        parse_scenario(R"({"cluster": "dgx-a100", "model": "resnet18", "training": {"batch_per_gpu": 1,
                                          "slowdown_while_communicating": )" +
                           value + "}}",
                       "x.json")
            .training.slowdown_while_communicating;
    return std::pair(s.numerator, s.denominator);
  };
  CHECK(ratio("1.21") == std::pair<std::int64_t, std::int64_t>(121, 100));
  CHECK(ratio("1.5") == std::pair<std::int64_t, std::int64_t>(3, 2));
  CHECK(ratio("1") == std::pair<std::int64_t, std::int64_t>(1, 1));
  CHECK(ratio("1.000001") == std::pair<std::int64_t, std::int64_t>(1000001, 1000000));
  CHECK(ratio("\"242/200\"") == std::pair<std::int64_t, std::int64_t>(121, 100));
  CHECK(ratio("\"1.10\"") == std::pair<std::int64_t, std::int64_t>(11, 10));
  for (const char* bad : {"0.99", "101", "1.0000001", "\"1/0\"", "\"-3/-2\"", "\"3/2/1\"", "\"1.\"", "\"\"",
                          "\"1.2 \"", "\"9999999999/9999999998\"", "true"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(ratio(bad), InputError);
  }
}

TEST_CASE("presets, overrides and names") {
  const auto cluster = [](const std::string& text) {
    return parse_scenario(
        "{\"cluster\": " + text + R"(, "model": "resnet18", "training": {"batch_per_gpu": 1}})", "x.json");
  };
  CHECK(cluster("\"dgx-a100\"").cluster.nodes == 1);
  CHECK(cluster("\"a100-4x8\"").cluster.nodes == 4);
  CHECK(cluster("\"dgx-a100\"").cluster.gpus_per_node == 8);
  const Scenario s = cluster(
      R"({"node": {"preset": "dgx1-v100", "nics": 1}, "gpu": {"preset": "H100", "memory": "1 GiB"}})");
  CHECK(s.cluster.node.nics == 1);
  CHECK(s.cluster.node.nic_bandwidth == node_preset("dgx1-v100").nic_bandwidth);
  CHECK(s.gpu.memory == Bytes(1 << 30));
  CHECK(s.gpu.peak == gpu_preset("H100").peak);
  // Without the mesh, its pairs go.
  CHECK(cluster(R"({"node": {"preset": "dgx1-v100", "wiring": "nvswitch"}})").cluster.node.mesh.empty());
  CHECK(load_cluster("dgx-h100").node.gpu == "H100");
  CHECK(load_cluster(R"({"node": "dgx-h100", "nodes": 3})").nodes == 3);
  CHECK(load_cluster((kSource / "scenarios/clusters/h100-512.json").string()).nodes == 64);
  CHECK(load_cluster((kSource / "scenarios/degraded_nic.json").string()).degraded.size() == 1);
  for (const std::string& name : cluster_names()) {
    CHECK_NOTHROW(build_topology(load_cluster(name)));
  }
}

TEST_CASE("a model in a file stands beside the scenario that names it") {
  const TemporaryFolder folder;
  folder.write(
      "tiny.json",
      R"({"name": "tiny", "layers": [{"name": "l", "parameters": [5], "forward_macs": 1, "output_elements": 1}]})");
  folder.write(
      "s.json",
      R"({"cluster": "dgx-a100", "model": {"file": "tiny.json"}, "training": {"batch_per_gpu": 1}})");
  CHECK(load_scenario(folder.file("s.json")).model.name == "tiny");
  folder.write("tiny.json", R"({"name": "tiny", "layers": [{"name": "l"}]})");
  CHECK_THROWS_WITH(load_scenario(folder.file("s.json")),
                    folder.file("tiny.json") +
                        ": /layers/0: missing keys \"parameters\", \"forward_macs\" and \"output_elements\"");
}

TEST_CASE("a model of tokens is read at the length that is asked for") {
  const TemporaryFolder folder;
  const auto model = [&](const std::string& said) {
    return parse_scenario(
               R"({"cluster": "dgx-a100", "training": {"batch_per_gpu": 1}, "model": )" + said + "}",
               folder.file("s.json"))
        .model;
  };
  const Model bert = model(R"({"preset": "bert_large", "sequence": 512})");
  CHECK(bert.tokens == 512);
  CHECK(bert.input == "512 tokens, pretraining heads (MLM and NSP)");
  CHECK(forward_macs(bert) == forward_macs(at_sequence(builtin_model("bert_large"), 512)));
  CHECK(forward_macs(model(R"({"preset": "bert_large"})")) == forward_macs(builtin_model("bert_large")));
  folder.write("tiny.json", R"({"name": "tiny", "tokens": 8, "layers": [
      {"name": "l", "parameters": [5], "forward_macs": 80, "output_elements": 16}]})");
  const Model tiny = model(R"({"file": "tiny.json", "sequence": 24})");
  CHECK(tiny.layers.at(0).forward_macs == 240);
  CHECK(tiny.layers.at(0).output_elements == 48);
  folder.write("tiny.json", R"({"name": "tiny", "input": "an image", "layers": [
      {"name": "l", "parameters": [5], "forward_macs": 80, "output_elements": 16}]})");
  CHECK_THROWS_WITH(model(R"({"file": "tiny.json", "sequence": 24})"),
                    Catch::Contains("/model/sequence: tiny has no sequence: one of its samples is an image"));
  // What is written out runs as it was read.
  const Scenario scenario = parse_scenario(
      R"({"cluster": "dgx-a100", "training": {"batch_per_gpu": 1}, "model": {"preset": "gpt2_small", "sequence": 256}})",
      "s.json");
  CHECK(to_json(parse_scenario(to_json(scenario), "s.json")) == to_json(scenario));
}

TEST_CASE("another GPU in a node's preset brings its own compute capability, unless the node says another") {
  const auto capability = [](const std::string& cluster) {
    return load_cluster(cluster).node.compute_capability;
  };
  CHECK(capability(R"({"node": "pcie-a100", "nodes": 1})") == 80);
  CHECK(capability(R"({"node": "pcie-a100", "gpu": "P100", "nodes": 1})") == 60);
  CHECK(capability(R"({"node": {"preset": "pcie-a100", "nics": 1}, "gpu": "H100", "nodes": 1})") == 90);
  CHECK(capability(
            R"({"node": {"preset": "pcie-a100", "compute_capability": 70}, "gpu": "P100", "nodes": 1})") ==
        70);
  CHECK(capability(R"({"node": {"preset": "aws-p3dn", "gpu": "H100"}, "nodes": 1})") == 90);
  CHECK(capability(R"({"node": {"preset": "dgx-h100", "gpu": "A100-80GB"}, "nodes": 1})") == 80);
  CHECK(capability(R"({"gpus": [{"nodes": 1, "node": {"preset": "aws-p3dn", "gpu": "H100"}}]})") == 90);
  CHECK(capability(R"({"node": {"preset": "pcie-a100", "gpu": "own"}, "nodes": 1, "gpu": {"name": "own",
      "peak": {"fp32": "9 TFLOP/s"}, "memory_bandwidth": "1 TB/s", "memory": "8 GiB"}})") == 80);
  CHECK(capability(
            R"({"node": {"preset": "aws-p3dn", "gpu": "H100", "compute_capability": 70}, "nodes": 1})") ==
        70);
  CHECK(capability(R"({"node": "pcie-a100", "nodes": 1, "gpu": {"name": "own", "peak": {"fp32": "9 TFLOP/s"},
      "memory_bandwidth": "1 TB/s", "memory": "8 GiB"}})") == 80);
}

TEST_CASE("nobody slow, and a latency of nothing, are said like any other") {
  const auto step = [](const std::string& cluster, const std::string& more) {
    return predict(
               parse_scenario(
                   R"({"cluster": {"node": "dgx-a100", "nodes": 2)" + cluster +
                       R"(}, "model": "resnet18", "training": {"batch_per_gpu": 8}, "run": {"iterations": 2})" +
                       more + "}",
                   "s.json"))
        .result.fingerprint;
  };
  const std::uint64_t plain = step("", "");
  CHECK(step("", R"(, "variability": {"slow_gpus": [{"fraction": 0, "factor": 1.5}]})") == plain);
  CHECK(step(R"(, "degraded_links": [{"from": "node0/nic0", "extra_latency": "0 us"}])", "") == plain);
}

TEST_CASE("the schema says every key that the reader takes, and what it means") {
  const json schema = json::parse(scenario_schema());
  check_documented(schema, "");
  std::set<std::string> in_schema, said;
  keys_of_schema(schema, "", in_schema);
  keys_of_document(json::parse(text_of(kSource / "tests/input/everything.json")), "", said);
  // The other ways to say a cluster, a GPU and a model.
  const json others = json::parse(
      R"({"cluster": {"node": {"preset": "dgx-a100", "nccl_topology": "n.xml"}, "gpu": {"preset": "H100"},
      "gpus": [{"nodes": 1, "node": {"preset": "dgx-a100", "nccl_topology": "n.xml"}, "gpu": {"preset": "H100", "name": "own", "peak": {"fp32": 1, "tf32": 1, "fp16": 1, "bf16": 1, "fp8": 1}, "product_efficiency": {"fp32": 1, "tf32": 1, "fp16": 1, "bf16": 1, "fp8": 1}, "memory_bandwidth": "1 TB/s",
        "memory": "80 GiB"}, "measured": [{"rate": "1 samples/s", "batch_per_gpu": 1, "accumulation": 1,
         "activation_checkpointing": "none", "recompute_every": 1}]}]},
    "model": {"preset": "gpt2_small", "file": "m.json", "sequence": 512, "name": "mine", "source": "made", "most_tokens": 64, "transformer": {"layers": 2, "hidden": 64, "heads": 4,
      "key_value_heads": 2, "head_dim": 32, "feed_forward": 128, "gated_feed_forward": true, "fused_qkv": false,
      "bias": false, "qkv_bias": true, "qk_norm": true, "vocabulary": 100, "sequence": 32,
      "learned_positions": false, "tied_embeddings": false}},
    "training": {"batches": [1], "ddp": {"join": {"batches": [1]}}, "balance": {"window": 5, "limit": "1 GB"}, "fsdp": {"units": {"parameters": 5}}, "parameter_server": {"consistency": {"stale": 3}},
      "compression": {"kind": "top_k", "share": 0.05, "rank": 4, "start": 20, "min_rate": 1.5, "error_feedback": false, "synchronize": false, "wrapper": "fp16"},
      "input": {"jitter": {"preset": "bert_8_gpus", "values": [1]}}},
    "variability": {"per_operation": {"preset": "bert_8_gpus", "values": [1]}, "per_iteration": {"preset": "bert_8_gpus", "cv": 0.1},
      "per_step": {"preset": "bert_8_gpus", "values": [1]}},
    "faults": {"samples": 1, "failure_trace": "t.csv"}})");
  keys_of_document(others, "", said);
  keys_of_document(json::parse(text_of(kSource / "tests/input/listed_node.json")), "", said);
  const std::string imported = (kSource / "tests/input/imported_node.json").string();
  keys_of_document(json::parse(text_of(imported)), "", said);
  keys_of_document(json::parse(to_json(load_scenario(imported))), "", said);
  json channel{{"gpus", {0}}, {"nic_in", 0}, {"nic_out", 0}}, graphs;
  for (const char* graph : {"ring", "tree", "collnet_chain", "collnet_direct", "nvls"}) {
    graphs[graph]["channels"] = {channel};
  }
  keys_of_document(graphs, "/cluster/graphs", said);
  const std::string node = "/cluster/node/", of_kind = "/cluster/gpus/node/";  // the same in both places
  for (const std::string& key : std::set<std::string>(said)) {
    if (key.starts_with(node)) {
      said.insert(of_kind + key.substr(node.size()));
    }
  }
  std::vector<std::string> only_in_schema, only_said;
  std::ranges::set_difference(in_schema, said, std::back_inserter(only_in_schema));
  std::ranges::set_difference(said, in_schema, std::back_inserter(only_said));
  CHECK(only_in_schema == std::vector<std::string>{});
  CHECK(only_said == std::vector<std::string>{});
  // Every cost parameter, and no other.
  const json& costs = schema["properties"]["training"]["properties"]["collective"]["properties"]["costs"];
  std::set<std::string> in_costs;
  for (const auto& [name, inner] : costs["properties"].items()) {
    in_costs.insert(name);
    CHECK((inner["type"] == "string" || inner["type"] == "number"));
  }
  const std::vector<std::string> known = cost_parameter_names();
  CHECK(in_costs == std::set<std::string>(known.begin(), known.end()));
  json transformer = json::parse(R"({"cluster": "dgx-a100", "training": {"batch_per_gpu": 1}})");
  transformer["model"]["transformer"] = others["model"]["transformer"];
  CHECK(valid(schema, transformer));
  CHECK(parse_scenario(transformer.dump(), "x.json").model.layers.size() > 10);
}

// Counts the defaults of the schema that the document shows, and checks that they are what it shows.
int check_defaults(const json& schema, const json& document) {
  int found = 0;
  for (const json& choice : schema.value("anyOf", json::array())) {
    found += check_defaults(choice, document);
  }
  const json properties = schema.value("properties", json::object());
  for (const auto& [key, inner] : properties.items()) {
    if (document.is_object() && document.contains(key)) {
      CAPTURE(key);
      if (inner.contains("default")) {
        CHECK(inner["default"] == document[key]);
        ++found;
      }
      found += check_defaults(inner, document[key]);
    }
  }
  return found;
}

TEST_CASE("the schema's defaults are those of a scenario that says as little as it may") {
  const std::string little = R"({"cluster": {"node": "dgx-a100"}, "model": "resnet18",
    "training": {"batch_per_gpu": 1, "input": {"rate": "9 samples/s"}}})";
  const json effective = json::parse(to_json(parse_scenario(little, "x.json")));
  CHECK(check_defaults(json::parse(scenario_schema()), effective) >= 30);
}

TEST_CASE("the schema accepts every example and every effective scenario", "[release]") {
  const json schema = json::parse(scenario_schema());
  for (const fs::path& path : examples_and_more()) {
    CAPTURE(path.string());
    CHECK(valid(schema, json::parse(text_of(path))));
    CHECK(valid(schema, json::parse(to_json(load_scenario(path.string())))));
  }
}

TEST_CASE("the schema refuses what it can express") {
  const json schema = json::parse(scenario_schema());
  const fs::path bad = kSource / "tests/input/bad";
  for (const char* name : {"missing_batch",
                           "unknown_key_ddp",
                           "unknown_key_root",
                           "type_bool",
                           "type_cluster",
                           "unit_missing_size",
                           "unit_wrong_dimension",
                           "unit_no_space",
                           "range_batch_zero",
                           "range_efficiency",
                           "name_model",
                           "name_engine",
                           "name_gpu",
                           "layer_kind",
                           "layer_missing",
                           "cv_lognormal",
                           "slow_factor_missing",
                           "transient_object",
                           "background_rate",
                           "node_rings_gone",
                           "node_capability_low",
                           "node_cpu_name",
                           "devices_kind",
                           "devices_kind_missing",
                           "cables_bandwidth_missing",
                           "fabric_routing_name",
                           "fabric_sharp_type",
                           "collective_channels_gone",
                           "collective_cross_nic",
                           "collective_min_channels",
                           "collective_pxn",
                           "collective_costs_name",
                           "collective_costs_unit",
                           "collective_costs_efficiency",
                           "xml_type",
                           "xml_unknown_key",
                           "transformer_layers"}) {
    CAPTURE(name);
    CHECK_FALSE(valid(schema, json::parse(text_of(bad / (std::string(name) + ".json")))));
  }
}

}  // namespace
}  // namespace paceline
