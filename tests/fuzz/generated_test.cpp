#include <catch2/catch.hpp>
#include <set>

#include "agreement.h"
#include "scenario_maker.h"
#include "scenarios/scenario.h"

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

TEST_CASE("a number makes one scenario") {
  CHECK(made_scenario(3) == made_scenario(3));
  CHECK(made_scenario(3) != made_scenario(4));
}
