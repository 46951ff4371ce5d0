// Does every number of a file have a range, and is what lies outside refused with its place, whatever it is?
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "scenarios/profile.h"
#include "scenarios/scenario.h"
#include "tests/dice.h"
#include "tests/input/scenario_error.h"
#include "tests/input/schema_numbers.h"

namespace paceline {
namespace {

using Catch::Contains;

TEST_CASE("every number and quantity of a scenario has both bounds") {
  const Json schema = parse_json(scenario_schema());
  const std::vector<SchemaNumber> numbers = numbers_of(schema);
  CHECK(numbers.size() > 150);
  for (const SchemaNumber& number : numbers) {
    CAPTURE(number.place);
    CHECK(has_bounds(number));
  }
}

TEST_CASE("every number of a scenario is refused outside its bounds, with its place") {
  const Json schema = parse_json(scenario_schema());
  std::size_t refused = 0, exact = 0;
  const std::vector<SchemaNumber> numbers = numbers_of(schema);
  for (std::size_t i = 0; i < numbers.size(); i += kStride) {
    const SchemaNumber& number = numbers[i];
    for (const Json& wrong : wrong_values(number)) {
      const std::string text = to_line(number.document(wrong));
      CAPTURE(number.place, text);
      bool taken = true;
      try {
        parse_scenario(text, "x.json");
      } catch (const InputError& error) {
        taken = false;
        ++refused;
        exact += error.place() == number.place ? 1 : 0;
      }
      // A ratio may be a text, a list empty, a range's end open: then the document is not wrong at all.
      CHECK_FALSE(taken);
    }
  }
  CHECK(refused > 1500 / kStride);
  CHECK(exact > refused * 8 / 10);  // the others stand where another key excludes them, or a file is missing
}

TEST_CASE("a rank that there is not is refused wherever ranks are named") {
  const auto with = [](const std::string& variability) {
    return scenario_error(R"({"cluster": "dgx-a100", "model": "resnet18", "training": {"batch_per_gpu": 8},
                         "variability": )" +
                          variability + "}");
  };
  for (const char* rank : {"-1", "-100000", "8", "4000000", "-9223372036854775808", "9223372036854775807"}) {
    CAPTURE(rank);
    const std::string spared = R"("spared_gpus": [)" + std::string(rank) + "]";
    for (const std::string& ill : {std::string(R"("slow_gpus": [{"fraction": 0.5, "factor": 2}], )"),
                                   std::string(R"("transient": [{"probability": 0.5, "factor": 2}], )")}) {
      CHECK_THAT(with("{" + ill + spared + "}"), Contains("/variability/spared_gpus/0: expected"));
    }
    CHECK_THAT(with(R"({"slow_gpus": [{"ranks": [)" + std::string(rank) + R"(], "factor": 2}]})"),
               Contains("/variability/slow_gpus/0/ranks/0: expected"));
  }
  CHECK(with(R"({"slow_gpus": [{"fraction": 0.5, "factor": 2}], "spared_gpus": [0, 7]})").empty());
}

// Every number of a document, and every text that begins with one, replaced by another value.
void each_number(Json& document, const std::string& place,
                 const std::function<void(Json&, const std::string&)>& use) {
  if (auto* object = std::get_if<Json::Object>(&document.value)) {
    for (JsonMember& member : *object) {
      each_number(member.value, pointer(place, member.key), use);
    }
  } else if (auto* array = std::get_if<Json::Array>(&document.value)) {
    for (std::size_t i = 0; i < array->size(); ++i) {
      each_number((*array)[i], pointer(place, i), use);
    }
  } else if (document.as<std::int64_t>() != nullptr || document.as<double>() != nullptr) {
    use(document, place);
  } else if (const auto* text = document.as<std::string>(); text != nullptr &&
                                                            text->find(' ') != std::string::npos &&
                                                            text->front() >= '0' && text->front() <= '9') {
    use(document, place);
  }
}

TEST_CASE("every number of a profile is refused outside its bounds, with its place") {
  const std::string text = R"({"format": 1, "tool": "t", "date": "d", "cluster": "c",
    "sources": [{"file": "f", "format": "g", "hash": "h", "rows": 3}], "library": "nccl", "nccl": "2.20", "choose": "tuner",
    "parameters": {"nvlink.efficiency": {"value": 0.9, "initial": 0.8, "fitted": true, "deviation": 0.1,
        "least_bytes": "1 KiB", "most_bytes": "1 MiB", "fewest_ranks": 2, "most_ranks": 8},
      "launch.latency": {"value": "5 us", "initial": "4 us", "fitted": true}, "block.copy_rate": "20 GB/s"},
    "covariance": [[0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]],
    "points": [{"collective": "all_reduce", "nodes": 1, "gpus_per_node": 8, "bytes": "1 MiB", "log_ratio": 0.1, "noise": 0.1,
                "nccl": "2.20", "channels": 4}],
    "curvature": 0.5,
    "kernels": [{"gpu": "H100", "products": [{"precision": "fp16", "efficiency": 0.7, "half_work": "10 us"}],
                 "memory_efficiency": 0.8, "of_kernel": [{"name": "adam", "efficiency": 0.7}], "launch": "3 us", "slowdown": 1.2}],
    "training": [{"rates": {"rate": "100 samples/s", "batch_per_gpu": 8, "accumulation": 2},
                  "delays": {"per_step": "2 ms", "per_doubling": 0.1}, "covariance": [1, 2, 3, 4, 5, 6, 7, 8, 9],
                  "most_ranks": 8, "most_nodes": 1}]})";
  REQUIRE_NOTHROW(parse_profile(text, "p.json"));
  Json document = parse_json(text);
  int numbers = 0;
  each_number(document, "", [&](Json& value, const std::string& place) {
    const Json before = value;
    const auto* quantity = before.as<std::string>();
    const std::string unit = quantity == nullptr ? "" : quantity->substr(quantity->find(' '));
    ++numbers;
    for (const char* number : {"1e300", "-1e300", "-1e19"}) {
      value = quantity == nullptr ? parse_json(number) : Json(number + unit);
      CAPTURE(place, number);
      CHECK_THROWS_WITH(parse_profile(to_line(document), "p.json"),
                        Contains("p.json: " + place + ": expected "));
    }
    value = before;
  });
  CHECK(numbers > 40);
}

}  // namespace
}  // namespace paceline
