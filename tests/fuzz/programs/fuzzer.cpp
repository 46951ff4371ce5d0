// The fuzzer (libFuzzer) of the target that the environment's FUZZ_TARGET names. Where the input is JSON every
// other mutation keeps it so.
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>

#include "../targets.h"
#include "core/error.h"
#include "scenarios/json.h"

using namespace paceline;

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

const FuzzTarget& target() {
  const char* const name = std::getenv("FUZZ_TARGET");
  const FuzzTarget* const found = fuzz_target(name != nullptr ? name : "");
  if (found == nullptr) {
    std::cerr << "FUZZ_TARGET names no target; there are:";
    for (const FuzzTarget& each : fuzz_targets()) {
      std::cerr << ' ' << each.name;
    }
    std::cerr << '\n';
    std::exit(2);
  }
  return *found;
}

void collect(Json& json, std::vector<Json*>& all) {
  all.push_back(&json);
  if (auto* array = std::get_if<Json::Array>(&json.value)) {
    for (Json& each : *array) {
      collect(each, all);
    }
  } else if (auto* object = std::get_if<Json::Object>(&json.value)) {
    for (JsonMember& each : *object) {
      collect(each.value, all);
    }
  }
}

Json edge_value(std::minstd_rand& random) {
  static const std::vector<Json> values{0,
                                        1,
                                        -1,
                                        2,
                                        3,
                                        7,
                                        8,
                                        255,
                                        256,
                                        1000,
                                        65536,
                                        4000000,
                                        2147483647,
                                        INT64_MAX,
                                        INT64_MIN,
                                        0.0,
                                        -0.0,
                                        1e-308,
                                        0.5,
                                        1e308,
                                        true,
                                        Json(),
                                        "",
                                        "1 us",
                                        "0 B",
                                        "1e18 B/s",
                                        "1/1",
                                        "ring",
                                        "none",
                                        "1e400 s",
                                        "node0",
                                        "mpi",
                                        "\xf0\x9f",
                                        Json::Array{},
                                        Json::Object{}};
  return values[random() % values.size()];
}

void mutate(Json& json, std::minstd_rand& random) {
  std::vector<Json*> all;
  collect(json, all);
  Json& at = *all[random() % all.size()];
  auto* const array = std::get_if<Json::Array>(&at.value);
  auto* const object = std::get_if<Json::Object>(&at.value);
  if (array != nullptr && !array->empty() && random() % 2 == 0) {
    const std::size_t i = random() % array->size();
    random() % 2 == 0 ? void(array->erase(array->begin() + static_cast<std::ptrdiff_t>(i)))
                      : array->push_back(Json((*array)[i]));
  } else if (object != nullptr && !object->empty()) {
    const std::size_t i = random() % object->size();
    if (random() % 3 == 0) {
      object->erase(object->begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      Json made = random() % 2 == 0 ? edge_value(random) : Json(*all[random() % all.size()]);
      (*object)[i].value = std::move(made);
    }
  } else {
    at = edge_value(random);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const FuzzTarget& chosen = target();
  run_target(chosen, std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  std::minstd_rand random(seed);
  if (random() % 2 == 0) {
    try {
      Json json = parse_json(std::string(reinterpret_cast<const char*>(data), size));
      for (std::size_t times = 1 + random() % 3; times > 0; --times) {
        mutate(json, random);
      }
      if (const std::string text = to_line(json); text.size() <= most) {
        std::memcpy(data, text.data(), text.size());
        return text.size();
      }
    } catch (const InputError&) {  // no JSON: bytes
    }
  }
  return LLVMFuzzerMutate(data, size, most);
}
