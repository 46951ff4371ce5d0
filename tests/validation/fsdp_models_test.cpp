// Are the models of the FSDP sets those that were measured? Each row states how many parameters its run had
// (mosaicml/llm-foundry, column NumParams; Llama 3 8B as published).
#include <catch2/catch.hpp>
#include <string>

#include "kernels/model.h"
#include "measured_tables.h"
#include "scenarios/scenario.h"
#include "tests/files.h"

namespace paceline {
namespace {

const std::string kTraining = (kSource / "scenarios/validation/training/").string();

TEST_CASE("the models of the FSDP sets have the parameters that were published") {
  int sets = 0;
  for (const CsvRow& set : read_csv(kTraining + "index.csv")) {
    const std::string& name = set.at("set");
    if (!name.starts_with("llmfoundry_") && !name.starts_with("torchtitan_")) {
      continue;
    }
    ++sets;
    const Scenario scenario = load_scenario(kTraining + name + ".json");
    for (const CsvRow& row : read_csv(kTraining + name + ".csv")) {
      INFO(name << ", " << row.at("gpus") << " GPUs");
      CHECK(parameter_count(scenario.model) == std::stoll(row.at("parameters")));
      CHECK(std::stod(row.at("throughput")) * std::stod(scenario.model.input) ==
            Approx(std::stod(row.at("tokens_per_s"))).epsilon(1e-4));
    }
  }
  CHECK(sets == 16);
}

}  // namespace
}  // namespace paceline
