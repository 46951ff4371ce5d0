#include <catch2/catch.hpp>
#include <set>

#include "agreement.h"
#include "scenario_maker.h"
#include "scenarios/json.h"
#include "scenarios/scenario.h"
#include "studies/edit.h"

using namespace paceline;

TEST_CASE("made scenarios: engines, key order, threads and reruns agree") {
#ifdef NDEBUG
  constexpr std::uint64_t kCount = 50;
#else
  constexpr std::uint64_t kCount = 15;  // with sanitizers
#endif
  std::set<std::uint64_t> fingerprints;
  for (std::uint64_t number = 0; number < kCount; ++number) {
    const std::string scenario = made_scenario(number);
    INFO("number " << number << "\n" << scenario);
    std::uint64_t fingerprint = 0;
    CHECK(disagreement(scenario, "made.json", &fingerprint) == "");
    fingerprints.insert(fingerprint);
  }
  CHECK(fingerprints.size() > kCount * 9 / 10);
}

TEST_CASE("made scenarios have every key of the variability, and every distribution", "[release]") {
  const Json schema = parse_json(scenario_schema());
  std::set<std::string> keys, distributions;
  constexpr std::uint64_t kCount = 300;  // enough for any draws: a new key changes those of all others
  for (std::uint64_t number = 0; number < kCount; ++number) {
    const Json made = parse_json(made_scenario(number));
    const Json* const variability = value_at(made, "/variability");
    for (const JsonMember& each :
         variability != nullptr ? *variability->as<Json::Object>() : Json::Object()) {
      keys.insert(each.key);
    }
    for (const char* place :
         {"/variability/per_operation", "/variability/per_iteration", "/training/input/jitter"}) {
      if (const Json* const kind = value_at(made, std::string(place) + "/distribution")) {
        distributions.insert(*kind->as<std::string>());
      }
    }
  }
  for (const JsonMember& each : *value_at(schema, "/properties/variability/properties")->as<Json::Object>()) {
    CAPTURE(each.key);
    CHECK(keys.count(each.key) == 1);
  }
  for (const std::string& name : all_names<DistributionKind>()) {
    CAPTURE(name);
    CHECK(distributions.count(name) == 1);
  }
}

TEST_CASE("a number makes one scenario") {
  CHECK(made_scenario(3) == made_scenario(3));
  CHECK(made_scenario(3) != made_scenario(4));
}
