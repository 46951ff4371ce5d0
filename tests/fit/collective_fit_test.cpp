// Are known costs found again, within what the fit says of itself? Does it say what its rows can't tell, and
// which it left out?
#include "calibrate/fit/collective_fit.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "calibrate/fit/collective_points.h"
#include "calibrate/fit/cost_fit.h"
#include "core/error.h"
#include "scenarios/scenario.h"
#include "tests/error_of.h"
#include "tests/fit/synthetic.h"
#include "tests/sizes.h"

namespace paceline {
namespace {

using namespace synthetic;
using Catch::Contains;

const World kWorld{
    .cluster = "dgx-a100",
    .nccl = "2.22",
    .costs = {{"nvlink.efficiency", 0.93}, {"simple.startup", 20e-6}, {"ll.nvlink.latency", 1e-6}}};
const std::vector<Place> kOneNode{{1, 2}, {1, 4}, {1, 8}};

const ProfileParameter* parameter(const Profile& profile, const std::string& name) {
  const auto found = std::ranges::find(profile.parameters, name, &ProfileParameter::name);
  return found == profile.parameters.end() ? nullptr : &*found;
}

double true_value(const World& world, const ProfileParameter& of) {
  const auto found = std::ranges::find(world.costs, of.name, &CostParameter::name);
  return found == world.costs.end() ? of.initial : found->value;
}

std::map<std::string, double> values(const Profile& profile) {
  std::map<std::string, double> all;
  for (const ProfileParameter& p : profile.parameters) {
    all[p.name] = p.value;
  }
  return all;
}

TEST_CASE("a fit says how far it is, at each number of GPUs") {
  const MeasuredData data = measured(kWorld, kOneNode, sizes(kMiB, 4 * kMiB), 0);
  FitRequest request = request_of(kWorld);
  std::map<std::string, std::vector<std::size_t>> told;
  request.progress = [&](const std::string& part, std::size_t done, std::size_t all) {
    CHECK(done < all);
    told[part].push_back(done);
  };
  fit_collectives(request, data);
  CHECK(told["rows placed"].size() == kOneNode.size());
  CHECK(told["points simulated"].front() == 0);
  CHECK(told["places in round 1 of at most 6"] == std::vector<std::size_t>{0, 1, 2});
  CHECK(told["places compared with the fit"] == std::vector<std::size_t>{0, 1, 2});
}

TEST_CASE("known costs are found again within three of their standard deviations") {
  for (const double noise : {0.0, 0.01, 0.02}) {
    const MeasuredData data = measured(kWorld, kOneNode, sizes(8, kGiB), noise);
    const CollectiveFit fit = fit_collectives(request_of(kWorld), data);
    INFO("noise " << noise);
    CHECK(fit.tuner_error < noise + 0.002);
    std::size_t found = 0;
    for (const ProfileParameter& p : fit.profile.parameters) {
      INFO(p.name << " " << p.value << " of " << true_value(kWorld, p) << ", deviation " << p.deviation);
      if (p.fitted) {
        CHECK(std::abs(std::log(p.value / true_value(kWorld, p))) < 3 * p.deviation);
        CHECK(p.deviation < 0.5);
        found += static_cast<std::size_t>(std::ranges::count(kWorld.costs, p.name, &CostParameter::name));
        CHECK(p.least.value >= 8);
        CHECK(p.most.value <= kGiB);
        CHECK(p.fewest_ranks >= 2);
        CHECK(p.most_ranks <= 8);
      } else {
        CHECK(p.value == p.initial);
      }
    }
    CHECK(found == kWorld.costs.size());
    const ProfileParameter* links = parameter(fit.profile, "nvlink.efficiency");
    REQUIRE(links != nullptr);
    CHECK(links->value == Approx(0.93).epsilon(0.002 + noise));
    CHECK(links->deviation < 0.02);
  }
}

// Where the tuner changes its plan between two measured sizes, the time has a step of which a line knows
// nothing.
bool plan_changes(const World& world, const Place& place, Bytes bytes) {
  const Bytes low(bytes.value * 2 / 3), high(bytes.value * 4 / 3);
  const CollectiveTestResult around = run_collective_test(test_of(world, place, {low, bytes, high}));
  return std::ranges::any_of(around.rows, [&](const CollectiveCost& row) {
    return row.plan.algorithm != around.rows[1].plan.algorithm ||
           row.plan.protocol != around.rows[1].plan.protocol;
  });
}

TEST_CASE("sizes and numbers of GPUs that were not measured are predicted") {
  const CollectiveFit fit =
      fit_collectives(request_of(kWorld), measured(kWorld, {{1, 2}, {1, 8}}, sizes(8, kGiB), 0.015));
  const std::vector<Bytes> between = sizes(12, 3 * (kGiB / 4));
  World unknown = kWorld;
  unknown.costs.clear();
  for (const int gpus : {2, 4, 6, 8}) {
    const Place place{1, gpus};
    const std::vector<double> truth = times(run_collective_test(test_of(kWorld, place, between)));
    const CollectivePrediction prediction =
        predict_collectives(test_of(unknown, place, between), fit.profile);
    REQUIRE(prediction.intervals.size() == between.size());
    const std::vector<double> predicted = times(prediction.result);
    int steps = 0;
    for (std::size_t i = 0; i < between.size(); ++i) {
      INFO(gpus << " GPUs, " << between[i].value << " bytes: " << predicted[i] << " of " << truth[i]);
      const bool step = plan_changes(kWorld, place, between[i]);
      steps += step ? 1 : 0;
      if (step) {  // somewhere between the sizes around it, which were measured or lie in such a table
        const std::vector<double> around = times(run_collective_test(
            test_of(kWorld, place, {Bytes(between[i].value * 2 / 3), Bytes(between[i].value * 4 / 3)})));
        CHECK(predicted[i] > 0.9 * around[0]);
        CHECK(predicted[i] < 1.1 * around[1]);
      } else {
        CHECK(std::abs(std::log(predicted[i] / truth[i])) < 0.1);
      }
      CHECK(prediction.intervals[i].low.value < predicted[i]);
      CHECK(prediction.intervals[i].high.value > predicted[i]);
      CHECK_FALSE(prediction.intervals[i].extrapolated);
    }
    CHECK(steps < 6);
  }
}

// With one number of ranks each size takes startup + hops * latency: one of the two can be told.
TEST_CASE("of two costs that only act together one is fitted and one keeps its value") {
  World world = kWorld;
  world.costs = {{"ll.startup", 9e-6}};
  const MeasuredData data = measured(world, {{1, 8}}, sizes(8, 32 * kKiB), 0.005);
  FitRequest request = request_of(world);
  request.collective.algorithm = "ring";
  request.collective.protocol = "ll";
  const CollectiveFit fit = fit_collectives(request, data);
  const ProfileParameter* startup = parameter(fit.profile, "ll.startup");
  const ProfileParameter* latency = parameter(fit.profile, "ll.nvlink.latency");
  REQUIRE(startup != nullptr);
  REQUIRE(latency != nullptr);
  CHECK(startup->fitted != latency->fitted);
  const ProfileParameter& kept = startup->fitted ? *latency : *startup;
  CHECK(kept.value == kept.initial);
  CHECK(kept.deviation == prior_deviation(kept.name));
}

TEST_CASE("what no row depends on is not fitted") {
  const CollectiveFit fit =
      fit_collectives(request_of(kWorld), measured(kWorld, kOneNode, sizes(8, kGiB), 0.01));
  std::size_t elsewhere = 0;
  for (const ProfileParameter& p : fit.profile.parameters) {
    if (p.name.find("network") != std::string::npos || p.name.find("mpi") != std::string::npos ||
        p.name.find("pcie") != std::string::npos) {
      INFO(p.name);
      CHECK_FALSE(p.fitted);
      CHECK(p.value == p.initial);
      CHECK(p.most_ranks == 0);
      ++elsewhere;
    }
  }
  CHECK(elsewhere > 0);
}

TEST_CASE("a warm-up row, a spike and a dip are named and change nothing else", "[release]") {
  const std::vector<Bytes> at = sizes(8, kGiB);
  const MeasuredData clean = measured(kWorld, {{1, 8}, {1, 4}}, at, 0.01);
  const std::vector<std::pair<std::size_t, double>> changes{{0, 2.5},  {5, 2.0}, {22, 4.0}, {26, 4.0},
                                                            {18, 0.3}, {9, 0.4}, {24, 0.25}};
  for (std::size_t only = 0; only < changes.size(); ++only) {
    MeasuredData data = clean;
    const auto [row, factor] = changes[only];
    data.collectives[row].time = data.collectives[row].time * factor;
    MeasuredData without = clean;
    without.collectives.erase(without.collectives.begin() + static_cast<std::ptrdiff_t>(row));
    const CollectiveFit fit = fit_collectives(request_of(kWorld), data);
    REQUIRE(fit.rows.size() == data.collectives.size());
    for (const FittedRow& each : fit.rows) {
      INFO("row " << row << " times " << factor << ": row " << each.row << " " << each.note);
      if (each.row != row) {
        CHECK(each.use == RowUse::fitted);
        CHECK(each.note.empty());
      } else {
        CHECK(each.use == (row == 0 ? RowUse::warm_up : RowUse::outlier));
        CHECK_THAT(each.note, Contains(row == 0 ? "warm-up" : factor > 1 ? "slower" : "faster"));
      }
    }
    const CollectiveFit expected = fit_collectives(request_of(kWorld), without);
    CHECK(values(fit.profile) == values(expected.profile));
    CHECK(fit.profile.points.size() == at.size() * 2 - 1);
    CHECK_THAT(fit_table(fit, data), Contains("not fitted: 1 x 8.log:" + std::to_string(row + 1)));
  }
}

TEST_CASE("rows of other machines are named") {
  MeasuredData data = measured(kWorld, {{1, 8}}, sizes(8, kGiB), 0.01);
  const std::size_t own = data.collectives.size();
  const auto add = [&](int ranks, int nodes) {
    CollectiveMeasurement row = data.collectives[3];
    row.ranks = ranks;
    row.nodes = nodes;
    row.table = "other.log";
    data.collectives.push_back(row);
  };
  add(16, 1);
  add(0, 0);
  add(1, 1);
  add(9, 2);
  add(-4, 1);
  add(2'000'000'000, 250'000'000);
  add(8, 1);
  data.collectives.back().time = Seconds(1e8);
  add(8, 1);
  data.collectives.back().time = Seconds(1e-15);
  const CollectiveFit fit = fit_collectives(request_of(kWorld), data);
  const CollectiveFit alone =
      fit_collectives(request_of(kWorld), measured(kWorld, {{1, 8}}, sizes(8, kGiB), 0.01));
  for (std::size_t r = own; r < fit.rows.size(); ++r) {
    INFO("ranks " << data.collectives[r].ranks << ": " << fit.rows[r].note);
    CHECK(fit.rows[r].use == RowUse::elsewhere);
    CHECK(fit.rows[r].note.size() > 10);
  }
  CHECK_THAT(fit.rows[own].note, Contains("dgx-a100 has 8"));
  CHECK_THAT(fit.rows[own + 1].note, Contains("not stated"));
  CHECK_THAT(fit.rows[own + 2].note, Contains("one GPU"));
  CHECK(values(fit.profile) == values(alone.profile));
}

TEST_CASE("nothing to fit is an input error that says why") {
  const FitRequest request = request_of(kWorld);
  CHECK_THROWS_AS(fit_collectives(request, {}), InputError);
  MeasuredData data = measured(kWorld, {{1, 8}}, {Bytes(kMiB)}, 0);
  data.collectives.front().ranks = 0;
  CHECK_THROWS_AS(fit_collectives(request, data), InputError);
  CHECK_THROWS_WITH(fit_collectives(request, data), Contains("dgx-a100") && Contains("not stated"));
}

TEST_CASE("equal rows give equal profiles, in any order of the files") {
  const MeasuredData data = measured(kWorld, kOneNode, sizes(8, 64 * kMiB), 0.02);
  const auto text = [&](const MeasuredData& of) {
    Profile profile = fit_collectives(request_of(kWorld), of).profile;
    profile.date.clear();
    return to_json(profile);
  };
  CHECK(text(data) == text(data));
  const std::size_t third = data.collectives.size() / 3;
  MeasuredData turned = data;
  std::rotate(turned.collectives.begin(), turned.collectives.begin() + static_cast<std::ptrdiff_t>(third),
              turned.collectives.end());
  const Profile one = fit_collectives(request_of(kWorld), data).profile;
  const Profile other = fit_collectives(request_of(kWorld), turned).profile;
  REQUIRE(one.parameters.size() == other.parameters.size());
  for (std::size_t p = 0; p < one.parameters.size(); ++p) {
    CHECK(one.parameters[p].name == other.parameters[p].name);
    CHECK(one.parameters[p].fitted == other.parameters[p].fitted);
    CHECK(one.parameters[p].value == Approx(other.parameters[p].value).epsilon(1e-4));
  }
}

// The fit moves on planes; what it reports is of simulations.
TEST_CASE("a point's ratio is its measurement over a direct simulation", "[release]") {
  const MeasuredData data = measured(kWorld, {{1, 8}, {2, 4}}, sizes(8, kGiB), 0.02);
  const CollectiveFit fit = fit_collectives(request_of(kWorld), data);
  World fitted = kWorld;
  fitted.costs.clear();
  for (const ProfileParameter& p : fit.profile.parameters) {
    fitted.costs.push_back({p.name, p.value});
  }
  REQUIRE(fit.rows.size() == data.collectives.size());
  for (const FittedRow& row : fit.rows) {
    const CollectiveMeasurement& m = data.collectives[row.row];
    const double simulated =
        times(run_collective_test(test_of(fitted, {m.nodes, m.ranks / m.nodes}, {m.bytes}))).front();
    INFO(m.ranks << " GPUs, " << m.bytes.value << " bytes");
    CHECK(row.log_ratio == Approx(std::log(m.time.value / simulated)).margin(1e-6));
  }
}

TEST_CASE("a library that always runs the fastest plan is told from NCCL's tuner") {
  World world = kWorld;
  MeasuredData data;
  for (const int gpus : {4, 8}) {
    for (const Bytes size : sizes(kKiB, 256 * kMiB)) {
      CollectiveTest test = test_of(world, {1, gpus}, {size});
      test.collective.choose = AlgorithmChoice::fastest;
      CollectiveMeasurement row;
      row.bytes = size;
      row.time = Seconds(times(run_collective_test(test)).front());
      row.ranks = gpus;
      row.nodes = 1;
      row.table = std::to_string(gpus);
      data.collectives.push_back(row);
    }
  }
  FitRequest request = request_of(world);
  const CollectiveFit fit = fit_collectives(request, data);
  CHECK(fit.fastest_error < 0.01);
  CHECK(fit.profile.choose ==
        (fit.fastest_error < 0.8 * fit.tuner_error ? AlgorithmChoice::fastest : AlgorithmChoice::tuner));
  request.nccl_stated = true;  // then the tuner is known
  const CollectiveFit stated = fit_collectives(request, data);
  CHECK(stated.profile.choose == AlgorithmChoice::tuner);
  CHECK(stated.fastest_error == 0);
}

TEST_CASE("plans that can't be the fastest are not simulated, and the fastest is found all the same") {
  std::size_t left_out = 0;
  for (const Place& place : {Place{1, 8}, Place{2, 4}, Place{2, 8, CollectiveKind::broadcast}}) {
    const std::vector<Bytes> at = sizes(8, kGiB, 4);
    MeasuredPlace where;
    where.kind = place.kind;
    where.cluster = cluster_of(kWorld, place);
    PlaceModel model(where, at, AlgorithmChoice::fastest);
    const std::size_t count = model.candidates().size();
    REQUIRE(count > at.size());
    std::vector<double> all(count), few(count), fastest(at.size(), 1e9);
    model.times(model.costs(), std::vector<bool>(count, true), all);
    model.times_of_fastest(model.costs(), std::vector<double>(at.size(), 2), few);
    const std::vector<double> log_times = model.log_times(model.costs());
    for (std::size_t c = 0; c < count; ++c) {
      double& least = fastest[model.candidates()[c].size];
      least = std::min(least, all[c]);
    }
    for (std::size_t c = 0; c < count; ++c) {
      const std::size_t size = model.candidates()[c].size;
      INFO(place.nodes << " x " << place.gpus << ", " << at[size].value << " bytes");
      CHECK(log_times[size] == std::log(fastest[size]));
      if (std::isinf(few[c])) {
        ++left_out;
        CHECK(all[c] > 2 * fastest[size]);
      } else {
        CHECK(few[c] == all[c]);
      }
    }
  }
  CHECK(left_out > 0);
}

TEST_CASE("many places: at most so many points are fitted, of every place", "[release]") {
  MeasuredData data;
  CollectiveMeasurement row;
  for (int nodes = 1; nodes <= 6; ++nodes) {
    for (int gpus = 1 + (nodes == 1 ? 1 : 0); gpus <= 8; ++gpus) {
      for (const Bytes size : sizes(8, kGiB)) {
        row.bytes = size;
        row.time = Seconds(20e-6 + static_cast<double>(size.value) / 1e11);
        row.nodes = nodes;
        row.ranks = nodes * gpus;
        data.collectives.push_back(row);
      }
    }
  }
  const MeasuredPoints points = gather_points(request_of(kWorld), data);
  CHECK(points.points.size() == data.collectives.size());
  CHECK(std::ranges::count(points.points, true, &MeasuredPoint::fitted) == kMostFitted);
  for (std::size_t place = 0; place < points.places.size(); ++place) {
    CHECK(std::ranges::any_of(points.points,
                              [&](const MeasuredPoint& p) { return p.place == place && p.fitted; }));
  }
}

// The channels of each place, as a search of its own finds them.
TEST_CASE("tables of one machine share a search, of other layouts, versions and settings none") {
  const std::vector<Place> places{{1, 8},
                                  {1, 8, CollectiveKind::all_gather},
                                  {2, 8},
                                  {2, 8, CollectiveKind::broadcast},
                                  {2, 4, CollectiveKind::all_gather}};
  const World hopper{.cluster = "dgx-h100", .nccl = "2.27", .costs = {}};
  MeasuredData data = measured(hopper, places, {Bytes(kMiB)}, 0);
  for (const int changed : {0, 1, 2}) {
    CollectiveMeasurement row = data.collectives[0];
    row.nvls = changed == 0 ? "off" : "";
    row.channels = changed == 1 ? 4 : 0;
    row.nccl = changed == 2 ? "2.18" : row.nccl;
    data.collectives.push_back(row);
  }
  const MeasuredPoints points = gather_points(request_of(hopper), data);
  REQUIRE(points.places.size() == 8);
  for (const MeasuredPlace& place : points.places) {
    CHECK(place.searched);
    MeasuredPlace alone = place;
    alone.cluster.graphs.reset();
    const Bytes size(kMiB);
    CHECK(PlaceModel(alone, std::span(&size, 1), AlgorithmChoice::tuner).graphs() == place.cluster.graphs);
  }
  const auto same = [&](std::size_t a, std::size_t b) {
    return finds_same_channels(points.places[a], points.places[b]);
  };
  CHECK(same(0, 1));
  CHECK(same(2, 3));
  for (std::size_t other = 2; other < 8; ++other) {
    CHECK_FALSE(same(0, other));
  }
  CHECK_FALSE(same(3, 4));

  FitRequest given = request_of(hopper);
  given.cluster.graphs = points.places[7].cluster.graphs;
  for (const MeasuredPlace& place : gather_points(given, data).places) {
    CHECK_FALSE(place.searched);
    CHECK(place.cluster.graphs == given.cluster.graphs);
  }
}

TEST_CASE("a version that is stated holds beside a profile of another, the newest too") {
  const World measured_on{.cluster = "dgx-b200", .nccl = "2.26", .costs = {}};
  const std::vector<Bytes> at = sizes(kMiB, 64 * kMiB);
  const Profile profile =
      fit_collectives(request_of(measured_on), measured(measured_on, {{2, 8}}, at, 0)).profile;
  CollectiveOptions options;
  options.kind = "all_reduce";
  options.cluster = "dgx-b200";
  options.nodes = "2";
  options.first = options.last = "1M";
  const auto version = [&](const std::optional<std::string>& nccl) {
    options.nccl = nccl;
    return predict_collectives(options, profile).result.test.collective.nccl;
  };
  CHECK(version(std::nullopt) == "2.26");
  for (const char* stated : {"2.30", "2.26", "2.22"}) {
    CHECK(version(stated) == stated);
  }
}

TEST_CASE("a profile's NCCL runs in training unless another than PyTorch's is asked for") {
  const World measured_on{.cluster = "dgx-h100", .nccl = "2.26", .costs = {}};
  const Profile profile =
      fit_collectives(request_of(measured_on), measured(measured_on, {{1, 8}}, sizes(kMiB, 4 * kMiB), 0))
          .profile;
  const auto version = [&](const std::string& training) {
    const Scenario scenario = parse_scenario(
        R"({"cluster": "dgx-h100", "model": "resnet50", "training": {"batch_per_gpu": 64)" + training + "}}",
        "s.json");
    return with_profile(scenario, profile).training.collective.nccl;
  };
  CHECK(version("") == "2.26");
  CHECK(version(R"(, "pytorch": "2.1")") == "2.26");
  CHECK(version(R"(, "pytorch": "2.1", "collective": {"nccl": "2.30"})") == "2.30");
}

TEST_CASE("what a scenario and a profile both say is an error, unless they say the same") {
  const World measured_on{.cluster = "dgx-h100", .nccl = "2.26", .costs = {}};
  const Profile profile =
      fit_collectives(request_of(measured_on), measured(measured_on, {{1, 8}}, sizes(kMiB, 256 * kMiB), 0))
          .profile;
  Scenario scenario = parse_scenario(
      R"({"cluster": "dgx-h100", "model": "resnet50", "training": {"batch_per_gpu": 64}})", "s.json");
  const auto error = [&] { return error_of([&] { static_cast<void>(with_profile(scenario, profile)); }); };
  const Scenario fitted = with_profile(scenario, profile);
  REQUIRE(!fitted.training.collective.corrections.empty());
  const std::vector<CostParameter>& costs = fitted.training.collective.costs;
  REQUIRE(!costs.empty());
  // A result runs again with its profile.
  const Scenario again = with_profile(parse_scenario(to_json(fitted), "result.json"), profile);
  CHECK(again.training.collective.costs == costs);
  CHECK(again.training.collective.corrections == fitted.training.collective.corrections);

  scenario.training.collective.costs = {{costs.front().name, 2 * costs.front().value}};
  CHECK_THAT(error(), Contains("expected either this cost or a profile that is fitted to it, found both"));
  CHECK_THAT(error(), Contains("/training/collective/costs/" + costs.front().name));
  scenario.training.collective.costs = {};
  scenario.training.collective.corrections = {{CollectiveKind::all_reduce, Bytes(kMiB), 2}};
  CHECK_THAT(error(), Contains("/training/collective/corrections: expected either corrections or a profile"));
  CHECK(with_profile(scenario, Profile{}).training.collective.corrections.size() == 1);
}

TEST_CASE("a profile of another version searches a place's channels anew") {
  const World measured_on{.cluster = "dgx-b200", .nccl = "2.26", .costs = {}};
  const std::vector<Bytes> at = sizes(kMiB, 64 * kMiB);
  const Profile profile =
      fit_collectives(request_of(measured_on), measured(measured_on, {{1, 8}, {2, 8}}, at, 0)).profile;
  MeasuredData unstated = measured({.cluster = "dgx-b200", .nccl = "2.30", .costs = {}}, {{2, 8}}, at, 0);
  for (CollectiveMeasurement& row : unstated.collectives) {
    row.nccl.clear();
  }
  const MeasuredPlace place = gather_points(request_of(measured_on), unstated).places.at(0);
  REQUIRE(place.searched);
  REQUIRE(with_costs(place.spec, profile).nccl == "2.26");
  MeasuredPlace older = place;
  older.spec.nccl = "2.26";
  older.cluster.graphs.reset();
  REQUIRE(PlaceModel(older, at, AlgorithmChoice::tuner).graphs() != place.cluster.graphs);
  MeasuredPlace alone = place;
  alone.cluster.graphs.reset();
  alone.searched = false;
  CHECK(predicted_log_times(place, at, profile) == predicted_log_times(alone, at, profile));
}

TEST_CASE("many sizes: at most so many of an octave are fitted, all are points") {
  std::vector<Bytes> at;
  for (std::int64_t size = kMiB; size <= 64 * kMiB; size += kMiB / 4) {
    at.emplace_back(size);
  }
  const MeasuredData data = measured(kWorld, kOneNode, at, 0.01);
  const MeasuredPoints points = gather_points(request_of(kWorld), data);
  CHECK(points.points.size() == 3 * at.size());
  const auto fitted =
      static_cast<std::size_t>(std::ranges::count(points.points, true, &MeasuredPoint::fitted));
  CHECK(fitted <= kMostFitted);
  CHECK(fitted >= 3 * 6);
  const CollectiveFit fit = fit_collectives(request_of(kWorld), data);
  CHECK(fit.profile.points.size() == 3 * at.size());
  CHECK(parameter(fit.profile, "nvlink.efficiency")->value == Approx(0.93).epsilon(0.02));
}

// One host thread that launches for eight GPUs takes longer, which is no cost of the links.
TEST_CASE("rows of processes that drive several GPUs are a place of their own") {
  MeasuredData data = measured(kWorld, {{1, 8}}, sizes(8, kKiB), 0);
  const std::size_t rows = data.collectives.size();
  for (std::size_t r = 0; r < rows; ++r) {
    data.collectives.push_back(data.collectives[r]);
    data.collectives.back().gpus_per_process = r % 2 == 0 ? 8 : 64;  // a process has no more than its node
    data.collectives.back().table = "of many";
  }
  const MeasuredPoints points = gather_points(request_of(kWorld), data);
  REQUIRE(points.places.size() == 2);
  CHECK(points.places[0].spec.gpus_per_process == 1);
  CHECK(points.places[1].spec.gpus_per_process == 8);
  const Bytes least(8);
  PlaceModel of_one(points.places[0], std::span(&least, 1), AlgorithmChoice::tuner);
  PlaceModel of_eight(points.places[1], std::span(&least, 1), AlgorithmChoice::tuner);
  CHECK(of_eight.log_times(of_eight.costs())[0] > of_one.log_times(of_one.costs())[0] + std::log(1.2));
}

}  // namespace
}  // namespace paceline
