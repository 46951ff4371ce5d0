#include "agreement.h"

#include <algorithm>
#include <array>
#include <optional>
#include <thread>
#include <vector>

#include "core/error.h"
#include "scenarios/predict.h"

namespace paceline {
namespace {

Json with_keys_reversed(const Json& json) {
  if (const auto* array = json.as<Json::Array>()) {
    Json::Array made;
    std::ranges::transform(*array, std::back_inserter(made), with_keys_reversed);
    return made;
  }
  if (const auto* object = json.as<Json::Object>()) {
    Json::Object made;
    for (auto member = object->rbegin(); member != object->rend(); ++member) {
      made.push_back({member->key, with_keys_reversed(member->value)});
    }
    return made;
  }
  return json;
}

// What a result says beside which engine made it.
std::string facts_of(const Prediction& prediction) {
  Json json = parse_json(result_json(prediction));
  auto& members = std::get<Json::Object>(json.value);
  std::erase_if(members, [](const JsonMember& m) {
    return m.key == "scenario" || m.key == "engine" || m.key == "engine_reason";
  });
  return to_line(json);
}

std::optional<std::string> facts_with(const Scenario& scenario, EngineChoice engine) {
  Scenario changed = scenario;
  changed.run.engine = engine;
  try {
    return facts_of(predict(changed));
  } catch (const InputError&) {
    return std::nullopt;  // the vector engine takes no traffic that competes
  }
}

}  // namespace

bool is_small(const Scenario& scenario) {
  constexpr int kRanks = 16, kNodes = 4, kPasses = 3, kDevices = 8;
  constexpr std::size_t kLayers = 70, kTensors = 200;
  const ClusterSpec& cluster = scenario.cluster;
  std::size_t tensors = 0;
  for (const Layer& layer : scenario.model.layers) {
    tensors += layer.parameters.size();
  }
  return cluster.nodes <= kNodes && cluster.nodes * cluster.gpus_per_node <= kRanks &&
         cluster.node.gpus <= kDevices && cluster.node.nics <= kDevices &&
         scenario.model.layers.size() <= kLayers && tensors <= kTensors &&
         scenario.training.accumulation <= kPasses && scenario.run.iterations <= kPasses;
}

std::string disagreement(const std::string& text, const std::string& file, std::uint64_t* fingerprint) {
  Scenario scenario = parse_scenario(text, file);
  scenario.run.engine = EngineChoice::automatic;
  const Prediction prediction = predict(scenario);
  const std::string result = result_json(prediction), facts = facts_of(prediction);
  if (fingerprint != nullptr) {
    *fingerprint = prediction.result.fingerprint;
  }
  for (const EngineChoice engine : {EngineChoice::event, EngineChoice::vector}) {
    if (facts_with(scenario, engine).value_or(facts) != facts) {
      return "the engines agree";
    }
  }
  if (result_json(predict(parse_scenario(result, file))) != result) {
    return "a result is a scenario that gives that result";
  }
  Scenario reversed = parse_scenario(to_line(with_keys_reversed(parse_json(text))), file);
  reversed.run.engine = EngineChoice::automatic;
  if (facts_of(predict(reversed)) != facts) {
    return "the order of keys doesn't matter";
  }
  Machines machines;
  std::array<std::string, 2> at_once;
  std::vector<std::thread> threads;
  for (std::string& each : at_once) {
    threads.emplace_back([&] { each = result_json(predict(scenario, {}, machines)); });
  }
  std::ranges::for_each(threads, &std::thread::join);
  return at_once[0] == result && at_once[1] == result ? "" : "threads don't matter";
}

}  // namespace paceline
