// Did a scenario's fingerprint change? tests/golden/fingerprints.csv has one line per example, the same for
// every compiler, build type and instruction set. The message of a failed check is the new line. And did the model
// version change with it? versions.csv has a line per version, with what fingerprints.csv was then.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/fingerprint.h"
#include "core/version.h"
#include "scenarios/campaign.h"
#include "scenarios/predict.h"
#include "tests/dice.h"
#include "tests/files.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = kSource / "tests/golden";

std::map<std::string, std::string> golden() {
  std::ifstream in(kGolden / "fingerprints.csv");
  std::map<std::string, std::string> rows;
  std::string line;
  std::getline(in, line);  // header
  while (std::getline(in, line)) {
    const std::size_t comma = line.find(',');
    rows[line.substr(0, comma)] = line.substr(comma + 1);
  }
  return rows;
}

// All once; with sanitizers and without vector instructions those that don't take long.
bool too_large(const fs::path& file) {
  constexpr std::size_t kMostGpus = 256;
  return rounds(1000) < 200 &&
         build_checked_topology(load_scenario(file.string()).cluster).ranks() > kMostGpus;
}

Scenario shortened(const fs::path& file) {
  Scenario scenario = load_scenario(file.string());
  scenario.run.iterations = 2;
  return scenario;
}

// Of its steps, or, where they are given, of its campaign.
std::uint64_t fingerprint_of_example(const Scenario& scenario) {
  Machines machines;
  return simulates_steps(scenario) ? predict(scenario, {}, machines).result.fingerprint
                                   : fingerprint_of(predict_campaign(scenario, machines));
}

TEST_CASE("every example has the fingerprint that is on record") {
  const std::map<std::string, std::string> recorded = golden();
  const std::vector<fs::path> files = examples();
  CHECK(files.size() >= 8);
  CHECK(recorded.size() == files.size());
  for (const fs::path& file : files) {
    const std::string name = file.stem().string();
    if (too_large(file)) {
      continue;
    }
    const std::string fingerprint = to_hex(fingerprint_of_example(shortened(file)));
    INFO(name << "," << fingerprint);
    REQUIRE(recorded.count(name) == 1);
    CHECK(recorded.at(name) == fingerprint);
  }
}

TEST_CASE("both engines give an example the same fingerprint") {
  int compared = 0;
  for (const fs::path& file : examples()) {
    Scenario scenario = shortened(file);
    constexpr int kMostNodes = 4;  // the event engine takes longer
    if (scenario.cluster.nodes > kMostNodes) {
      continue;
    }
    const Prediction prediction = predict(scenario);
    if (prediction.result.engine == EngineKind::vector) {
      ++compared;
      INFO(file.stem().string());
      CHECK(run_event_engine(prediction.job, prediction.scenario.run).fingerprint ==
            prediction.result.fingerprint);
    }
  }
  CHECK(compared >= 5);
}

struct ModelVersion {
  int number = 0;
  std::string fingerprints;  // hash of fingerprints.csv as this version has it
};

std::vector<ModelVersion> model_versions() {
  std::ifstream in(kGolden / "versions.csv");
  std::vector<ModelVersion> rows;
  std::string line;
  std::getline(in, line);  // header
  while (std::getline(in, line)) {
    const std::size_t comma = line.find(',');
    rows.push_back({std::stoi(line.substr(0, comma)), line.substr(comma + 1)});
  }
  return rows;
}

// Of the text, whatever the lines' order.
std::string hash_of(const std::map<std::string, std::string>& fingerprints) {
  std::uint64_t hash = 0;
  for (const auto& [scenario, fingerprint] : fingerprints) {
    for (const char c : scenario + ',' + fingerprint + '\n') {
      hash = mix64(hash ^ static_cast<unsigned char>(c));
    }
  }
  return to_hex(hash);
}

TEST_CASE("every change of a fingerprint raises the model version") {
  const std::vector<ModelVersion> versions = model_versions();
  REQUIRE_FALSE(versions.empty());
  std::set<std::string> seen;
  for (std::size_t i = 0; i < versions.size(); ++i) {
    INFO("tests/golden/versions.csv, model version " << versions[i].number);
    CHECK((i == 0 || versions[i].number > versions[i - 1].number));
    const bool in_no_example = i > 0 && versions[i].fingerprints == versions[i - 1].fingerprints;
    CHECK((in_no_example || seen.insert(versions[i].fingerprints).second));
  }
  const std::string hash = hash_of(golden());
  if (versions.back().fingerprints != hash) {
    FAIL("fingerprints.csv changed since model version "
         << versions.back().number << ": set kModelVersion in core/version.h to "
         << versions.back().number + 1 << " and append to tests/golden/versions.csv the line\n"
         << versions.back().number + 1 << ',' << hash
         << "\nWhere rows were only added, this hash belongs in the last line instead.");
  }
  INFO("core/version.h and the last line of tests/golden/versions.csv");
  CHECK(kModelVersion == versions.back().number);
}

}  // namespace
}  // namespace paceline
