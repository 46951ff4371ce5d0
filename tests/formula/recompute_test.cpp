// Activation checkpointing under every strategy: a block's forward runs again before its backward, so steps are
// those of a model without it whose blocks' last layers take that much longer in backward. Launches cost nothing.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/machines.h"
#include "scenarios/scenario.h"
#include "sim/engine/simulate.h"
#include "sim/strategy/run_length.h"
#include "sim/strategy/sharding.h"

namespace paceline {
namespace {

using nlohmann::json;

std::string nanoseconds(std::int64_t t) { return std::to_string(t) + " ns"; }

SimTime step_of(const json& scenario) {
  const Scenario parsed = parse_scenario(scenario.dump(), "recompute.json");
  Machines machines;
  const Result result = simulate(machines.build(parsed).job, with_length(parsed.run, parsed.training));
  return result.iteration_end.back() - result.iteration_end[result.iteration_end.size() - 2];
}

TEST_CASE("activation checkpointing runs a block's forward before its backward, whatever the strategy") {
  json plain = json::parse(R"({"cluster": {"node": "dgx1-v100", "gpus_per_node": 4}, "model": "resnet18",
      "run": {"iterations": 2}, "training": {"batch_per_gpu": 8, "accumulation": 2,
      "host": {"kernel_launch": "0 us", "collective_launch": "0 us"}}})");
  const Model& model = parse_scenario(plain.dump(), "plain.json").model;
  std::vector<std::int64_t> forward, backward;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    forward.push_back(static_cast<std::int64_t>(20'000 + 7'001 * (l % 5)));
    backward.push_back(static_cast<std::int64_t>(50'000 + 9'001 * (l % 7)));
  }
  const std::size_t every = GENERATE(1, 3);
  std::vector<std::int64_t> longer = backward;
  const std::vector<FsdpUnit> units = units_of({}, model);
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (std::uint32_t l = units[u].first; (u + 1) % every == 0 && l < units[u].end(); ++l) {
      longer[units[u].end() - 1] += forward[l];
    }
  }
  REQUIRE(longer != backward);
  const auto add_times = [&](json& scenario, const std::vector<std::int64_t>& of_backward) {
    for (std::size_t l = 0; l < forward.size(); ++l) {
      scenario["training"]["layer_times"].push_back(
          {{"forward", nanoseconds(forward[l])}, {"backward", nanoseconds(of_backward[l])}});
    }
  };
  json recomputed = plain;
  recomputed["training"]["activation_checkpointing"] = "full";
  recomputed["training"]["recompute_every"] = every;
  add_times(recomputed, backward);
  add_times(plain, longer);
  for (const char* strategy :
       {"ddp", "fsdp", "zero", "parameter_server", "data_parallel", "mirrored", "horovod", "local_sgd"}) {
    for (const int nodes : {1, 2}) {
      if (nodes == 2 && strategy == std::string("data_parallel")) {
        continue;  // of one process
      }
      INFO(strategy << " on " << nodes);
      for (json* each : {&recomputed, &plain}) {
        (*each)["cluster"]["nodes"] = nodes;
        (*each)["training"]["strategy"] = strategy;
        (*each)["training"]["mirrored"] = {{"cross_device_ops", nodes == 1 ? "nccl" : "nccl_then_ring"}};
      }
      CHECK(step_of(recomputed) == step_of(plain));
    }
  }
}

// Of a block of Llama q, v, attention, gate and down are kept; GPT-2's products have biases, and all are.
TEST_CASE("with selective_op a block runs again what it doesn't keep, whatever the strategy") {
  const bool llama = GENERATE(true, false);
  json plain = json::parse(R"({"cluster": {"node": "dgx1-v100", "nodes": 2, "gpus_per_node": 4},
      "run": {"iterations": 2}, "training": {"batch_per_gpu": 1, "accumulation": 2,
      "host": {"kernel_launch": "0 us", "collective_launch": "0 us"}}})");
  plain["model"] = json::parse(R"({"transformer": {"layers": 3, "hidden": 64, "heads": 4, "vocabulary": 512,
      "sequence": 32}})");
  if (llama) {
    plain["model"]["transformer"].update({{"gated_feed_forward", true},
                                          {"bias", false},
                                          {"fused_qkv", false},
                                          {"feed_forward", 192},
                                          {"learned_positions", false}});
  }
  const std::vector<std::string> again =
      llama ? std::vector<std::string>{"k", "attention_out", "up", "norm_1", "norm_2"}
            : std::vector<std::string>{"norm_1", "norm_2"};
  const Model& model = parse_scenario(plain.dump(), "plain.json").model;
  json recomputed = plain;
  recomputed["training"]["activation_checkpointing"] = "selective_op";
  std::int64_t of_block = 0;
  std::size_t found = 0;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const std::string& name = model.layers[l].name;
    const auto forward = static_cast<std::int64_t>(20'000 + 7'001 * (l % 5)),
               backward = static_cast<std::int64_t>(50'000 + 9'001 * (l % 7));
    const bool in_block = name.starts_with("layers.");
    if (in_block && std::ranges::count(again, name.substr(std::string("layers.0.").size())) > 0) {
      of_block += forward;
      ++found;
    }
    const bool last = in_block && (l + 1 == model.layers.size() ||
                                   model.layers[l + 1].name.substr(0, 9) != name.substr(0, 9));
    for (json* each : {&recomputed, &plain}) {
      (*each)["training"]["layer_times"].push_back(
          {{"forward", nanoseconds(forward)},
           {"backward", nanoseconds(backward + (last && each == &plain ? of_block : 0))}});
    }
    of_block = last ? 0 : of_block;
  }
  REQUIRE(found == 3 * again.size());
  for (const char* strategy :
       {"ddp", "fsdp", "zero", "parameter_server", "mirrored", "horovod", "local_sgd"}) {
    INFO(strategy);
    for (json* each : {&recomputed, &plain}) {
      (*each)["training"]["strategy"] = strategy;
      (*each)["training"]["mirrored"] = {{"cross_device_ops", "nccl_then_ring"}};
    }
    CHECK(step_of(recomputed) == step_of(plain));
  }
}

// Hosts take 100 us a launch, GPUs next to nothing: a step is what launches take. Those of a forward pass are Python's,
// whose lock goes round the GPUs of one process.
TEST_CASE("what DataParallel recomputes is launched at the interpreter's lock, n times as long") {
  const auto build = [](const char* strategy, const char* checkpointing) {
    json scenario = json::parse(R"({"cluster": {"node": "dgx1-v100", "nodes": 1, "gpus_per_node": 4},
        "model": "resnet18", "run": {"iterations": 2},
        "training": {"batch_per_gpu": 8, "host": {"kernel_launch": "100 us", "collective_launch": "0 us"}}})");
    const Model& model = parse_scenario(scenario.dump(), "host.json").model;
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
      scenario["training"]["layer_times"].push_back({{"forward", "1 ns"}, {"backward", "1 ns"}});
    }
    scenario["training"]["strategy"] = strategy;
    scenario["training"]["activation_checkpointing"] = checkpointing;
    return scenario;
  };
  Machines machines;
  const TrainingJob alone = machines.build(parse_scenario(build("ddp", "full").dump(), "ddp.json")).job;
  SimTime once;  // what launching all that is recomputed takes one GPU
  for (const Op& op : alone.main().steady.ops) {
    once = once + (op.label.starts_with("recompute") ? op.host_cost : SimTime{});
  }
  REQUIRE(once > SimTime{});
  const SimTime longer = step_of(build("data_parallel", "full")) - step_of(build("data_parallel", "none"));
  CHECK(longer.ps == 4 * once.ps);
}

}  // namespace
}  // namespace paceline
