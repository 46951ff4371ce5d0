// A profile: does what is written read back, and does every bad one give one line with file and place?
#include "scenarios/profile.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "calibrate/fit/collective_fit.h"
#include "core/error.h"
#include "core/version.h"
#include "tests/files.h"
#include "tests/fit/synthetic.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using namespace synthetic;
using Catch::Contains;

class ProfileFile {
 public:
  std::string path() const { return folder_.file("profile.json"); }
  Profile load(const std::string& text) const { return load_profile(folder_.write("profile.json", text)); }
  // What load_profile says of it, without the file's name in front; "" if it takes it.
  std::string error(const std::string& text) const {
    try {
      load(text);
    } catch (const InputError& e) {
      const std::string message = e.what();
      REQUIRE(message.starts_with(path() + ": "));
      return message.substr(path().size() + 2);
    }
    return "";
  }

 private:
  TemporaryFolder folder_;
};

Profile full_profile() {
  Profile p;
  p.tool = "paceline 0.1";
  p.model_version = 7;
  p.date = "2026-11-21";
  p.cluster = "dgx-a100";
  p.sources = {{"a/all_reduce.log", "nccl-tests", "00ff00ff00ff00ff", 32}, {"b \"c\".csv", "CSV", "1", 0}};
  p.library = CollectiveLibrary::nccl;
  p.nccl = "2.18";
  p.choose = AlgorithmChoice::fastest;
  p.parameters = {{"ll.startup", 1e-6 / 3, 2e-6, 0.0123456789, true, Bytes(8), Bytes(1 << 20), 2, 8},
                  {"nvlink.efficiency", 0.1 + 0.2, 1, 0.02, true, Bytes(1 << 20), Bytes(1 << 30), 4, 8},
                  {"network.efficiency", 0.97, 0.97, 0.15, false, {}, {}, 0, 0},
                  {"block.copy_rate", 2e10 / 7, 1e10, 1e-3, true, Bytes(9), Bytes(99), 2, 2}};
  p.covariance = {1e-4, -2e-5, 1e-7 / 3, -2e-5, 4e-4, 0, 1e-7 / 3, 0, 1e-6};
  p.points = {{CollectiveKind::all_reduce, 1, 8, Bytes(8), 0.1 / 3, 0.04, "2.18", "", "", 0, true},
              {CollectiveKind::all_to_all, 2, 4, Bytes(std::int64_t{8} << 30), -1.5, 0, "2.30", "^tree",
               "simple", 4, false}};
  p.curvature = 2.0 / 3;
  p.training = {
      {.model = "bert_large",
       .precision = "bf16",
       .rates = {{SamplesPerSecond(1000.0 / 3), 64, 1, false}, {SamplesPerSecond(400), 128, 2, false}},
       .delays = {Seconds(1.5e-3), 0.01},
       .delays_fitted = true,
       .covariance = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16.5},
       .most_ranks = 16,
       .most_nodes = 2,
       .reduction_known = false}};
  return p;
}

TEST_CASE("a profile reads back as it was written") {
  const Profile p = full_profile();
  const ProfileFile file;
  const Profile q = file.load(to_json(p));
  CHECK(q.tool == p.tool);
  CHECK(q.model_version == 7);
  CHECK(q.date == p.date);
  CHECK(q.cluster == p.cluster);
  CHECK(q.library == p.library);
  CHECK(q.nccl == p.nccl);
  CHECK(q.choose == p.choose);
  CHECK(q.curvature == p.curvature);
  CHECK(q.covariance == p.covariance);
  REQUIRE(q.sources.size() == p.sources.size());
  for (std::size_t i = 0; i < p.sources.size(); ++i) {
    CHECK(q.sources[i].file == p.sources[i].file);
    CHECK(q.sources[i].format == p.sources[i].format);
    CHECK(q.sources[i].hash == p.sources[i].hash);
    CHECK(q.sources[i].rows == p.sources[i].rows);
  }
  REQUIRE(q.parameters.size() == p.parameters.size());
  for (std::size_t i = 0; i < p.parameters.size(); ++i) {
    const ProfileParameter &a = p.parameters[i], &b = q.parameters[i];
    CHECK(b.name == a.name);
    CHECK(b.value == Approx(a.value).epsilon(1e-14));
    CHECK(b.initial == Approx(a.initial).epsilon(1e-14));
    CHECK(b.deviation == a.deviation);
    CHECK(b.fitted == a.fitted);
    CHECK(b.least == a.least);
    CHECK(b.most == a.most);
    CHECK(b.fewest_ranks == a.fewest_ranks);
    CHECK(b.most_ranks == a.most_ranks);
  }
  REQUIRE(q.points.size() == p.points.size());
  for (std::size_t i = 0; i < p.points.size(); ++i) {
    CHECK(q.points[i].kind == p.points[i].kind);
    CHECK(q.points[i].nodes == p.points[i].nodes);
    CHECK(q.points[i].gpus_per_node == p.points[i].gpus_per_node);
    CHECK(q.points[i].bytes == p.points[i].bytes);
    CHECK(q.points[i].log_ratio == p.points[i].log_ratio);
    CHECK(q.points[i].noise == p.points[i].noise);
    CHECK(q.points[i].nccl == p.points[i].nccl);
    CHECK(q.points[i].algorithm == p.points[i].algorithm);
    CHECK(q.points[i].protocol == p.points[i].protocol);
    CHECK(q.points[i].channels == p.points[i].channels);
    CHECK(q.points[i].nvls == p.points[i].nvls);
  }
  REQUIRE(q.training.size() == 1);
  const ProfileTraining &a = p.training[0], &b = q.training[0];
  CHECK(b.model == a.model);
  CHECK(b.precision == a.precision);
  CHECK(b.rates == a.rates);
  CHECK(b.delays == a.delays);
  CHECK(b.delays_fitted == a.delays_fitted);
  CHECK(b.covariance == a.covariance);
  CHECK(b.most_ranks == a.most_ranks);
  CHECK(b.most_nodes == a.most_nodes);
  CHECK(b.reduction_known == a.reduction_known);
  CHECK(to_json(q) == to_json(p));
}

TEST_CASE("a fitted profile predicts the same after it was written and read") {
  const World world;
  const CollectiveFit fit =
      fit_collectives(request_of(world), measured(world, {{1, 4}, {1, 8}}, sizes(8, 1 << 26, 4), 0.02));
  const ProfileFile file;
  const Profile read = file.load(to_json(fit.profile));
  const CollectiveTest test = test_of(world, {1, 8}, sizes(8, 1 << 28));
  const CollectivePrediction before = predict_collectives(test, fit.profile);
  const CollectivePrediction after = predict_collectives(test, read);
  for (std::size_t i = 0; i < before.intervals.size(); ++i) {
    CHECK(after.intervals[i].low.value == Approx(before.intervals[i].low.value).epsilon(1e-9));
    CHECK(after.intervals[i].high.value == Approx(before.intervals[i].high.value).epsilon(1e-9));
    CHECK(after.intervals[i].why == before.intervals[i].why);
  }
}

TEST_CASE("a profile of another model version is used, and remarked on") {
  Profile p = full_profile();
  p.model_version = kModelVersion;
  CHECK(remark_on(p).empty());
  p.model_version = kModelVersion + 1;
  CHECK_THAT(remark_on(p), Contains("fitted with model version " + std::to_string(kModelVersion + 1) +
                                    ", this is model version " + std::to_string(kModelVersion)) &&
                               Contains("fit it again"));
  p.model_version = 0;
  CHECK_THAT(remark_on(p), Contains("fitted with an earlier one"));
  const ProfileFile by_hand;
  CHECK(remark_on(by_hand.load(R"({"parameters": {"nvlink.efficiency": 0.9}})")).empty());
}

TEST_CASE("a list of values is a profile") {
  const ProfileFile file;
  const Profile p = file.load(R"({"parameters": {"simple.network.latency": "14 us"}})");
  REQUIRE(p.parameters.size() == 1);
  CHECK(p.parameters[0].name == "simple.network.latency");
  CHECK(p.parameters[0].value == 14e-6);
  CHECK(p.parameters[0].fitted);
  CHECK(p.covariance.empty());
  CHECK(p.training.empty());
  const World world;
  const CollectiveTest test = test_of(world, {2, 8}, {Bytes(1 << 20)});
  CollectiveTest stated = test;
  stated.collective.algorithm = "ring";
  stated.collective.protocol = "simple";
  const CollectivePrediction with = predict_collectives(stated, p);
  CHECK(with.intervals[0].extrapolated);
  stated.collective.costs = {{"simple.network.latency", 14e-6}};
  CHECK(times(with.result) == times(run_collective_test(stated)));
}

TEST_CASE("a profile of before model version 26 may have its cost of one process, but not fitted") {
  const ProfileFile file;
  const auto with = [](const char* fitted) {
    return std::string(R"({"parameters": {"nvlink.efficiency": 0.9, "process.efficiency":
                       {"value": 0.76, "initial": 0.76, "fitted": )") +
           fitted + "}}}";
  };
  const Profile p = file.load(with("false"));
  REQUIRE(p.parameters.size() == 1);
  CHECK(p.parameters[0].name == "nvlink.efficiency");
  CHECK_THAT(file.error(with("true")), Contains("no cost since model version 26") && Contains("again"));
}

TEST_CASE("every bad profile gives its message") {
  const ProfileFile file;
  const auto with = [](const std::string& rest) {
    return R"({"parameters": {"nvlink.efficiency": 0.9})" + rest + "}";
  };
  const auto point = [&](const std::string& changed) {
    return with(R"(, "points": [{"collective": "all_reduce", "nodes": 1, "gpus_per_node": 8, "bytes": "8 B",
                    "log_ratio": 0, "noise": 0.1, )" +
                changed + "}]");
  };
  CHECK(file.error(with("")) == "");
  CHECK_THAT(file.error(""), Contains("empty file"));
  CHECK_THAT(file.error("# nccl-tests"), Contains("line 1"));
  CHECK_THAT(file.error("[]"), Contains("expected an object"));
  CHECK_THAT(file.error(with(R"(, "point": [])")),
             Contains(R"(unknown key "point"; did you mean "points"?)"));
  CHECK_THAT(file.error(R"({"parameters": {"simple.startupp": "1 us"}})"),
             Contains("/parameters: unknown cost parameter") && Contains(R"("simple.startup"?)"));
  CHECK_THAT(file.error(R"({"parameters": {"simple.startup": "1 GB/s"}})"),
             Contains("/parameters/simple.startup: ") && Contains("a bandwidth"));
  CHECK_THAT(file.error(R"({"parameters": {"simple.startup": {"fitted": true}}})"),
             Contains("/parameters/simple.startup: missing key \"value\""));
  CHECK_THAT(file.error(R"({"parameters": {"nvlink.efficiency": {"value": 0.9, "sigma": 1}}})"),
             Contains("/parameters/nvlink.efficiency: unknown key \"sigma\""));
  CHECK_THAT(file.error(R"({"parameters": {"nvlink.efficiency": {"value": 0.9, "deviation": -1}}})"),
             Contains("/parameters/nvlink.efficiency/deviation: "));
  CHECK_THAT(file.error(R"({"parameters": {"simple.startup": {"value": "3 us"}}})"),
             Contains("/parameters/simple.startup: expected the value alone") &&
                 Contains(R"("simple.startup": "3 us")") && Contains(R"("fitted": true)"));
  CHECK_THAT(file.error(R"({"parameters": {"nvlink.efficiency": {"value": 0.9}}})"),
             Contains(R"("nvlink.efficiency": 0.9)"));
  CHECK_THAT(
      file.error(R"({"parameters": {"nvlink.efficiency": {"value": 0.9, "initial": 0.8, "fitted": false}}})"),
      Contains("/parameters/nvlink.efficiency: ") && Contains("keeps it"));
  CHECK(file.error(
            R"({"parameters": {"nvlink.efficiency": {"value": 0.9, "initial": 0.8, "fitted": true}}})") ==
        "");
  CHECK_THAT(file.error(with(R"(, "covariance": [])")), Contains("/covariance: ") && Contains("1 fitted"));
  CHECK_THAT(file.error(with(R"(, "covariance": [[1, 2]])")), Contains("/covariance/0: "));
  CHECK_THAT(file.error(with(R"(, "covariance": [["x"]])")), Contains("/covariance/0"));
  CHECK_THAT(file.error(with(R"(, "covariance": 1)")), Contains("/covariance: expected an array"));
  CHECK_THAT(file.error(with(R"(, "choose": "slowest")")), Contains("/choose: ") && Contains("fastest"));
  CHECK_THAT(file.error(with(R"(, "library": "rccl")")), Contains("/library: "));
  CHECK_THAT(file.error(with(R"(, "curvature": 1.5)")), Contains("/curvature: "));
  CHECK_THAT(file.error(with(R"(, "format": 2)")), Contains("/format: "));
  CHECK_THAT(file.error(with(R"(, "points": [{"nodes": 1}])")), Contains("/points/0: missing key"));
  CHECK_THAT(file.error(point(R"("weight": 1)")), Contains("/points/0: unknown key"));
  CHECK_THAT(
      file.error(with(
          R"(, "points": [{"collective": "all_reduce", "nodes": -1, "gpus_per_node": 8, "bytes": "8 B", "log_ratio": 0, "noise": 0}])")),
      Contains("/points/0/nodes: "));
  CHECK_THAT(file.error(with(R"(, "training": [{"delays": {"per_doubling": 2}}])")),
             Contains("/training/0/delays/per_doubling: "));
  CHECK_THAT(file.error(with(R"(, "training": [{"rates": "5 samples/s", "covariance": [1]}])")),
             Contains("/training/0/covariance: expected 9 numbers for 1 rates and two delays, found 1"));
  CHECK_THAT(file.error(with(R"(, "sources": ["a.log"])")), Contains("/sources/0: expected an object"));
  CHECK_THAT(file.error(std::string(100'000, '[')),
             Contains("at most 64 arrays and objects inside each other"));
  CHECK_THAT(file.error(with(", \"nccl\": \"" + std::string(1000, '2') + "\"")), Contains("/nccl: "));
}

// Bytes changed, left out, doubled: an InputError of one line or a profile that can be used.
TEST_CASE("mutated profiles never do worse than an input error") {
  const World world;
  const std::string fitted = to_json(
      fit_collectives(request_of(world), measured(world, {{1, 8}}, sizes(1024, 1 << 26, 16), 0.02)).profile);
  const ProfileFile file;
  std::mt19937 random(20261121);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  const std::string interesting =
      "0123456789-+.eE\"{}[],: \\\x01\xff"
      "aZ";
  int taken = 0;
  for (int mutation = 0; mutation < 400; ++mutation) {
    std::string text = mutation % 2 == 0 ? fitted : to_json(full_profile());
    for (std::size_t n = 1 + mutation % 3; n > 0; --n) {
      const std::size_t at = below(text.size());
      if (mutation % 4 == 0) {  // still JSON
        const std::size_t digit = text.find_first_of("0123456789", at);
        text[digit == std::string::npos ? at : digit] = interesting[below(10)];
        continue;
      }
      switch (below(4)) {
        case 0:
          text[at] = interesting[below(interesting.size())];
          break;
        case 1:
          text.erase(at, 1 + below(20));
          break;
        case 2:
          text.insert(at, text.substr(below(text.size()), 1 + below(40)));
          break;
        default:
          text.insert(at, 1, interesting[below(interesting.size())]);
      }
    }
    INFO("mutation " << mutation);
    Profile profile;
    try {
      profile = file.load(text);
    } catch (const InputError& error) {
      const std::string message = error.what();
      CHECK(message.size() < 4000);
      CHECK(std::ranges::none_of(message, [](char c) { return static_cast<unsigned char>(c) < 0x20; }));
      continue;
    }
    ++taken;
    if (taken <= 40) {
      CHECK_NOTHROW(predict_collectives(test_of(world, {1, 8}, sizes(8, 1 << 26, 64)), profile));
    }
  }
  CHECK(taken > 10);
  CHECK(taken < 390);
}

}  // namespace
}  // namespace paceline
