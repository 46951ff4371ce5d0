// Does every number of a study have a range, and is what lies outside refused with its place?
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "studies/study.h"
#include "tests/input/schema_numbers.h"

namespace paceline {
namespace {

TEST_CASE("every number of a study has both bounds, and is refused outside them") {
  const Json schema = parse_json(study_schema());
  const std::vector<SchemaNumber> numbers = numbers_of(schema);
  CHECK(numbers.size() > 150);
  std::size_t exact = 0;
  for (const SchemaNumber& number : numbers) {
    CAPTURE(number.place);
    CHECK(has_bounds(number));
    if (number.place.starts_with("/scenario/")) {
      continue;  // its axes change it first: tested as a scenario
    }
    for (const Json& wrong : wrong_values(number)) {
      const std::string text = to_line(number.document(wrong));
      CAPTURE(text);
      try {
        parse_study(text, "s.json");
        FAIL("expected a refusal");
      } catch (const InputError& error) {
        exact += error.place() == number.place ? 1 : 0;
      }
    }
  }
  CHECK(exact > 20);
}

TEST_CASE("the values of an axis may be anything, and end nothing but their point") {
  const auto answer = [](const std::string& axis) {
    try {
      parse_study(R"({"scenario": {}, "axes": [)" + axis + "]}", "s.json");
    } catch (const InputError& error) {
      return error.place();
    }
    return std::string("none");
  };
  for (const char* number :
       {"1e300", "-1e300", "9223372036854775807", "18446744073709551615", "\"1e300 us\""}) {
    CAPTURE(number);
    const std::string n = number;
    CHECK(answer(R"({"key": "gpus", "values": [)" + n + "]}") == "/axes/0/values/0");
    for (const char* key : {"from", "to", "step", "factor"}) {
      const std::string other = key == std::string("factor") ? "step" : "factor";
      std::string axis = R"({"key": "/run/seed")";
      for (const char* each : {"from", "to", "factor", "step"}) {
        if (each != other) {
          axis += std::string(", \"") + each + "\": " + (each == std::string(key) ? n : "2");
        }
      }
      CHECK(answer(axis + "}") != "none");
    }
  }
}

}  // namespace
}  // namespace paceline
