#include "scenario_maker.h"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "agreement.h"
#include "core/error.h"
#include "scenarios/balanced_run.h"
#include "scenarios/json.h"
#include "scenarios/machines.h"
#include "scenarios/scenario.h"
#include "studies/edit.h"
#include "tests/dice.h"

namespace paceline {
namespace {

// What is chosen where the schema alone would give nonsense, or hours. The first whose key ends the place
// counts.
struct Sensible {
  std::string_view key;
  std::vector<Json> values;
};
const std::vector<Sensible> kSensible{
    {"/cluster/nodes", {1, 1, 2, 2, 3, 4}},
    {"/window", {1, 2}},
    {"/limit", {"10 GB", "80 GB"}},
    {"/parameter_server/node", {"each", "aggregate"}},
    {"/servers/count", {1, 2, 3}},
    {"/input_bytes", {"602112 B", "4 KB"}},
    {"/num_packs", {0, 1, 3}},
    {"/bytes_per_pack", {"0 B", "1 MB", "50 MiB"}},
    {"/horovod/version", {"0.15", "0.19.5", "0.21", "0.28"}},
    {"/fusion_threshold", {0, "1 MiB", "64 MiB"}},
    {"/horovod/hierarchical", {false, false, true}},
    {"/horovod/torus", {false, false, true}},
    {"/horovod/memory_bandwidth", {"20 GB/s", "76.8 GB/s"}},
    {"/cycle_time", {0, "1 ms", "5 ms"}},
    {"/negotiation", {"100 us", "1 ms"}},
    {"/compression/share", {0.01, 0.3}},
    {"/compression/rank", {1, 4}},
    {"/compression/start", {2, 1000}},
    {"/compression/min_rate", {1.5, 2}},
    {"/join/batches",
     {parse_json("[3, 1]"), parse_json("[2, 4, 1, 3]"), parse_json("[3, 1, 2, 2, 4, 1, 3, 3]")}},
    {"/local_sgd/period", {1, 2, 3, 8}},
    {"/local_sgd/warm_up", {0, 0, 1000}},
    {"/unused_search", {0, "0.43 us", "10 us"}},
    {"/partition", {"1 MB", "4.096 MB"}},
    {"/backup", {0, 0, 1, 3}},
    {"/job_nodes", {1, 2}},
    {"/gpus_per_node", {1, 2, 4}},
    {"/node",
     {"dgx-a100", "dgx-a100-40gb", "dgx-b200", "dgx-h100", "dgx1-p100", "dgx1-v100", "pcie-a100",
      "aws-p2.8xlarge"}},
    {"/node/preset", {"dgx-a100", "dgx-h100", "dgx1-v100", "pcie-a100", "gcp-n1-standard-32-k80x8"}},
    {"/gpu/preset", {"A100-80GB", "H100", "V100-16GB", "B200", "K80"}},
    {"/model", {"resnet18", "resnet18", "resnet50", "bert_base", "vgg16"}},
    {"/iterations", {1, 2, 3}},
    {"/accumulation", {1, 1, 2, 3}},
    {"/batch_per_gpu", {1, 2, 8, 32}},
    {"/nccl", {"2.12", "2.18", "2.20", "2.23", "2.27", "2.30"}},
    {"/algorithm",
     {"ring", "tree", "^nvls", "nvls", "ring,tree", "nvlstree", "collnetchain", "pat", "hierarchical"}},
    {"/protocol", {"ll", "simple", "ll128", "^ll"}},
    {"/degraded_links/0/from", {"node0", "node0/gpu0", "node0/nic0", "leaf0", "switch"}},
    {"/degraded_links/1/from", {"node1/nic0", "node0/gpu1", "node0/cpu0"}},
    {"/forward_macs", {0, 1000, 1'000'000, 1'000'000'000}},
    {"/output_elements", {0, 1, 10'000, 1'000'000}},
    {"/factor", {1, 1.15, 2, 5}},
    {"/cv", {0, 0.01, 0.1, 0.3, 0.5, 1}},
    {"/probability", {0, 0.01, 0.5, 1}},
    {"/fraction", {0.1, 0.5, 1}},
    {"/compute_capability", {70, 80, 90, 100}},
    {"/faults",
     {parse_json(R"({"length": "3 d", "failures": [{"of": "node", "mtbf": "9 d", "repair": "2 h"}],
                     "checkpoint": {"interval": "1 h", "stall": "20 s"}, "restart": {"load": "1 min"}})"),
      parse_json(
          R"({"steps": 5000, "step": "3 s", "spares": 1, "checkpoint": {"kind": "async", "interval": "young",
                     "stall": "1 s", "upload": "1 min"}, "restart": {"load": "1 min"},
                     "failures": [{"of": "gpu", "mtbf": "100 d", "repair": "6 h"}, {"of": "software", "mtbf": "4 d"}],
                     "slow_nodes": [{"every": "5 d", "lasts": "3 h", "factor": 1.5}]})")}},
};

bool ends_with_digit(std::string_view text) {
  return !text.empty() && text.back() >= '0' && text.back() <= '9';
}

class Maker {
 public:
  explicit Maker(std::uint64_t number) : dice_(number) {}

  Json value(const Json& schema, const std::string& place) {
    if (const auto* choices = list(schema, "anyOf")) {
      return value(chosen(*choices, place), place);
    }
    if (const auto sensible = sensible_at(place, schema)) {
      return *sensible;
    }
    if (const auto* names = list(schema, "enum")) {
      return dice_.one_of(*names);
    }
    const Json* type = schema.find("type");
    const std::string kind = type != nullptr ? *type->as<std::string>() : "";
    return kind == "object"    ? object(schema, place)
           : kind == "array"   ? array(schema, place)
           : kind == "integer" ? Json(whole(schema))
           : kind == "number"  ? Json(number(schema))
           : kind == "boolean" ? Json(dice_.maybe(0.5))
                               : Json(text(schema, place));
  }

 private:
  static const Json::Array* list(const Json& schema, const char* key) {
    const Json* found = schema.find(key);
    return found != nullptr ? found->as<Json::Array>() : nullptr;
  }

  // Files are not there to be named; a machine of own devices is hardly ever one.
  const Json& chosen(const Json::Array& choices, const std::string& place) {
    std::vector<const Json*> possible;
    for (const Json& each : choices) {
      const bool names_file = each.find("pattern") != nullptr && place == "/cluster";
      const Json* keys = each.find("properties");
      const bool takes_file = keys != nullptr && (keys->find("file") || keys->find("nccl_topology"));
      const bool named = each.find("enum") != nullptr;
      if (!names_file && !takes_file && !(place == "/cluster" && named)) {
        possible.push_back(&each);
      }
    }
    return *dice_.one_of(possible);
  }

  const Json* sensible_at(const std::string& place, const Json& schema) {
    const bool composed = schema.find("properties") != nullptr;
    for (const Sensible& each : kSensible) {
      if (!composed && place.ends_with(each.key)) {
        return &each.values[dice_.below(each.values.size())];
      }
    }
    return nullptr;
  }

  Json object(const Json& schema, const std::string& place) {
    Json::Object made;
    const Json::Array* required = list(schema, "required");
    const Json* properties = schema.find("properties");
    for (const JsonMember& each : *properties->as<Json::Object>()) {
      const bool must = required != nullptr && std::ranges::any_of(*required, [&](const Json& name) {
                          return *name.as<std::string>() == each.key;
                        });
      if (must || dice_.below(100) < chance_of(each.key, place)) {
        made.push_back({each.key, value(each.value, place + '/' + each.key)});
      }
    }
    return made;
  }

  // Of a key that may be left out.
  static std::size_t chance_of(std::string_view key, const std::string& place) {
    // Lists with an entry for each GPU or node, or a file's content, are hardly ever what others need.
    constexpr std::array<std::string_view, 6> kNever{"$schema",     "nccl_graph", "graphs",
                                                     "layer_times", "gpus",       "batches"};
    constexpr std::array<std::string_view, 6> kAlways{"run",    "iterations", "gpus_per_node",
                                                      "preset", "cv",         "values"};
    constexpr std::array<std::string_view, 6> kSeldom{"background", "other_jobs", "job_nodes",
                                                      "algorithm",  "protocol",   "balance"};
    const auto among = [&](const auto& names) { return std::ranges::count(names, key) > 0; };
    if (among(kNever)) {
      return 0;
    }
    if (key == "preset" && (place.starts_with("/variability") || place.ends_with("/jitter"))) {
      return 10;  // a distribution is one of its own more often
    }
    if (among(kAlways) || (key == "node" && place == "/cluster")) {
      return 100;
    }
    const bool own_device = place.ends_with("/node") || place.ends_with("/costs");
    const bool variable =
        key == "variability" || place == "/variability";  // what the engines do most differently
    return own_device ? 3 : among(kSeldom) ? 12 : variable ? 60 : 35;
  }

  Json array(const Json& schema, const std::string& place) {
    const Json* least = schema.find("minItems");
    const auto fewest = least != nullptr ? static_cast<std::size_t>(*least->as<std::int64_t>()) : 0;
    const std::size_t count = std::max(fewest, dice_.below(4));
    Json::Array made;
    for (std::size_t i = 0; i < count; ++i) {
      made.push_back(value(*schema.find("items"), place + '/' + std::to_string(i)));
    }
    return made;
  }

  static double limit(const Json& schema, const char* key, double otherwise) {
    const Json* found = schema.find(key);
    if (found == nullptr) {
      return otherwise;
    }
    const auto* whole = found->as<std::int64_t>();
    const auto* real = found->as<double>();
    return whole != nullptr ? static_cast<double>(*whole) : real != nullptr ? *real : otherwise;
  }

  // Near the least more often than not: large numbers take long.
  std::int64_t whole(const Json& schema) {
    const double least = limit(schema, "minimum", 0), most = limit(schema, "maximum", 16);
    constexpr std::array<double, 6> kAbove{0, 0, 1, 3, 8, 60};
    return static_cast<std::int64_t>(std::min(most, least + dice_.one_of(kAbove)));
  }
  double number(const Json& schema) {
    const double least = limit(schema, "minimum", limit(schema, "exclusiveMinimum", 0));
    const double most = std::min(limit(schema, "maximum", 10), least + 10);
    constexpr std::array<double, 5> kShare{0.03, 0.1, 0.5, 0.9, 1};
    return least + (most - least) * dice_.one_of(kShare);
  }

  std::string text(const Json& schema, const std::string& place) {
    const Json* pattern = schema.find("pattern");
    const std::string* form = pattern != nullptr ? pattern->as<std::string>() : nullptr;
    if (form == nullptr) {
      return ends_with_digit(place) ? "x" : "layer " + std::to_string(dice_.below(3));
    }
    const auto has = [&](std::string_view unit) { return form->find(unit) != std::string::npos; };
    constexpr std::array<const char*, 5> kTimes{"0 s", "1 us", "77 ns", "3.5 us", "0.2 ms"};
    constexpr std::array<const char*, 5> kRates{"1 GB/s", "12.5 GB/s", "100 Gb/s", "300 GB/s", "25 GiB/s"};
    constexpr std::array<const char*, 5> kSizes{"64 KiB", "1 MiB", "5 MB", "25 MiB", "100 MiB"};
    constexpr std::array<const char*, 4> kSamples{"1 samples/s", "20 samples/s", "400 samples/s",
                                                  "2000 samples/s"};
    constexpr std::array<const char*, 3> kFlops{"10 TFLOP/s", "312 TFLOP/s", "900 TFLOP/s"};
    constexpr std::array<const char*, 3> kFactors{"1", "1.21", "3/2"};
    return has("samples") ? dice_.one_of(kSamples)
           : has("FLOP")  ? dice_.one_of(kFlops)
           : has("GB/s")  ? dice_.one_of(kRates)
           : has("MiB")   ? dice_.one_of(kSizes)
           : has("us")    ? dice_.one_of(kTimes)
                          : dice_.one_of(kFactors);
  }

  Dice dice_;
};

// Takes the value at a pointer out; false: it isn't there, or nothing is left to take.
bool take_out(Json& json, std::string_view place) {
  const std::size_t slash = place.rfind('/');
  if (slash == std::string_view::npos || place.size() < 2) {
    return false;
  }
  const std::string_view name = place.substr(slash + 1);
  auto* const parent = const_cast<Json*>(value_at(json, place.substr(0, slash)));
  if (parent == nullptr || value_at(json, place) == nullptr) {
    return take_out(json, place.substr(0, slash));
  }
  if (auto* object = std::get_if<Json::Object>(&parent->value)) {
    std::erase_if(*object, [&](const JsonMember& m) { return m.key == name; });
  } else if (auto* array = std::get_if<Json::Array>(&parent->value)) {
    array->erase(array->begin() + std::stol(std::string(name)));
  }
  return true;
}

// The place that a message names: that of a key which is not to be there.
std::string place_of(const InputError& error) {
  constexpr std::string_view kNoKey = "expected no key \"";
  const std::string_view what = error.what();
  const std::size_t at = what.find(kNoKey);
  if (at == what.npos) {
    return error.place();
  }
  const std::string_view rest = what.substr(at + kNoKey.size());
  return error.place() + '/' + std::string(rest.substr(0, rest.find('"')));
}

// What the reader or the simulator refuses is taken out, as far as its message names it, until it refuses nothing.
bool repair(Json& json) {
  constexpr int kTimes = 60;
  for (int i = 0; i < kTimes; ++i) {
    try {
      const Scenario scenario = parse_scenario(to_line(json), "made.json");
      if (!is_small(scenario)) {
        return false;
      }
      Machines machines;
      static_cast<void>(machines.build(scenario));
      if (scenario.training.balance) {
        static_cast<void>(run_balanced(scenario, machines));
      }
      return true;
    } catch (const InputError& error) {
      if (!take_out(json, place_of(error))) {
        return false;
      }
    }
  }
  return false;
}

}  // namespace

std::string made_scenario(std::uint64_t number) {
  static const Json schema = parse_json(scenario_schema());
  constexpr std::uint64_t kTries = 64;
  for (std::uint64_t i = 0; i < kTries; ++i) {
    Json json = Maker(number * kTries + i).value(schema, "");
    if (repair(json)) {
      return to_text(json);
    }
  }
  throw std::logic_error("no scenario in so many tries");
}

}  // namespace paceline
