// Between what was measured and beyond: is a forecast what its header says, and does its interval hold what
// it should?
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/discrepancy.h"
#include "calibrate/fit/place_forecast.h"
#include "tests/fit/synthetic.h"
#include "tests/sizes.h"

namespace paceline {
namespace {

using namespace synthetic;
using Catch::Contains;

double log_of(Bytes bytes) { return std::log(static_cast<double>(bytes.value)); }

MeasuredPlace place_of(int nodes, int gpus) {
  MeasuredPlace place;
  place.cluster = cluster_of({}, {nodes, gpus});
  return place;
}

ProfilePoint point_of(const MeasuredPlace& place, Bytes bytes, double log_ratio, double noise) {
  ProfilePoint point;
  point.kind = place.kind;
  point.nodes = place.nodes();
  point.gpus_per_node = place.gpus_per_node();
  point.bytes = bytes;
  point.log_ratio = log_ratio;
  point.noise = noise;
  point.nccl = place.spec.nccl;
  return point;
}

// Four sizes of one place, whose model is a curve and whose measurements lie off it.
struct FourSizes {
  std::vector<Bytes> sizes{Bytes(kKiB), Bytes(4 * kKiB), Bytes(64 * kKiB), Bytes(kMiB)};
  std::vector<double> ratio{0.05, -0.02, 0.1, 0.03};
  static double noise(std::size_t i) { return 0.01 + 0.001 * static_cast<double>(i); }
  static double simulated(Bytes bytes) {
    return std::log(20e-6 + static_cast<double>(bytes.value) / 100e9 + 1e-6 * log_of(bytes));
  }
  Profile profile(double curvature) const {
    Profile p;
    p.curvature = curvature;
    for (std::size_t i = sizes.size(); i-- > 0;) {  // in no order
      p.points.push_back(point_of(place_of(1, 8), sizes[i], ratio[i], noise(i)));
    }
    return p;
  }
  PlaceForecast forecast(double curvature) const {
    PlaceForecast f(profile(curvature), place_of(1, 8));
    std::vector<double> logs;
    for (const Bytes size : f.measured_sizes()) {
      logs.push_back(simulated(size));
    }
    f.set_simulated(logs);
    return f;
  }
};

TEST_CASE("a size that was measured takes its measured time") {
  const FourSizes four;
  const PlaceForecast forecast = four.forecast(0.7);
  CHECK(forecast.measured_sizes() == four.sizes);
  for (std::size_t i = 0; i < four.sizes.size(); ++i) {
    const Forecast at = forecast.at(four.sizes[i], FourSizes::simulated(four.sizes[i]));
    CHECK(at.log_factor == four.ratio[i]);
    CHECK(at.deviation == Approx(std::hypot(FourSizes::noise(i), noise_of(four.sizes[i]))));
    CHECK(at.interpolated);
  }
}

TEST_CASE("between two sizes: their line, bent as the model bends, by 3 % at most") {
  const FourSizes four;
  for (const double curvature : {0.0, 0.4, 1.0}) {
    const PlaceForecast forecast = four.forecast(curvature);
    double most_bend = 0;
    for (std::size_t i = 0; i + 1 < four.sizes.size(); ++i) {
      for (int part = 1; part < 16; ++part) {
        const double x0 = log_of(four.sizes[i]), x1 = log_of(four.sizes[i + 1]);
        const Bytes bytes(std::llround(std::exp(x0 + (x1 - x0) * part / 16)));
        const double share = (log_of(bytes) - x0) / (x1 - x0);
        const auto on_line = [&](double a, double b) { return a + share * (b - a); };
        const double model_line =
            on_line(FourSizes::simulated(four.sizes[i]), FourSizes::simulated(four.sizes[i + 1]));
        const double line = model_line + on_line(four.ratio[i], four.ratio[i + 1]);
        const double model = FourSizes::simulated(bytes);
        const Forecast at = forecast.at(bytes, model);
        INFO(bytes.value << " bytes, curvature " << curvature);
        CHECK(at.interpolated);
        const double bend = model + at.log_factor - line;
        CHECK(std::abs(bend) <= PlaceForecast::kMostBend);
        CHECK(bend == Approx(0.03 * std::tanh(curvature * (model - model_line) / 0.03)).margin(1e-12));
        most_bend = std::max(most_bend, std::abs(bend));
        CHECK(at.deviation > 0.02);  // what a line over a factor of four or more usually misses
      }
    }
    CHECK((curvature == 0 ? most_bend < 1e-12 : most_bend > 0.01));
  }
}

TEST_CASE("beyond the measured sizes the process over all points, less sure the farther") {
  const FourSizes four;
  const Profile profile = four.profile(1);
  const PlaceForecast forecast = four.forecast(1);
  std::vector<DiscrepancyPoint> points;
  for (const ProfilePoint& p : profile.points) {
    points.push_back({p.kind, p.nodes, p.gpus_per_node, p.bytes, p.log_ratio, p.noise});
  }
  const DiscrepancyModel process(points);
  double last = forecast.at(four.sizes.back(), FourSizes::simulated(four.sizes.back())).deviation;
  for (const std::int64_t size : {2 * kMiB, 8 * kMiB, 64 * kMiB, kGiB}) {
    const Forecast at = forecast.at(Bytes(size), FourSizes::simulated(Bytes(size)));
    const Discrepancy expected = process.at(CollectiveKind::all_reduce, 1, 8, Bytes(size));
    CHECK_FALSE(at.interpolated);
    CHECK(at.log_factor == expected.mean);
    CHECK(at.deviation == std::hypot(expected.deviation, noise_of(Bytes(size))));
    CHECK(at.deviation > last);
    last = at.deviation;
  }
  CHECK_FALSE(forecast.at(Bytes(512), FourSizes::simulated(Bytes(512))).interpolated);
  PlaceForecast elsewhere(profile, place_of(2, 8));
  CHECK(elsewhere.measured_sizes().empty());
  elsewhere.set_simulated({});
  const Forecast other_place = elsewhere.at(Bytes(4 * kKiB), 0);
  CHECK_FALSE(other_place.interpolated);
  CHECK(other_place.deviation > 0.05);
  CHECK(std::abs(other_place.log_factor) < 0.05);
}

TEST_CASE("only what was measured with a place's own options was measured there") {
  const std::vector<Bytes> at{Bytes(kKiB), Bytes(4 * kKiB), Bytes(16 * kKiB)};
  const auto with = [](const std::string& nccl, const std::string& algorithm) {
    MeasuredPlace place = place_of(1, 8);
    place.spec.nccl = nccl;
    place.spec.algorithm = algorithm;
    return place;
  };
  Profile profile;
  for (const auto& [nccl, algorithm, ratio] :
       {std::tuple("2.18", "", 0.1), std::tuple("2.22", "", 0.2), std::tuple("2.22", "tree", 0.6)}) {
    for (const Bytes size : at) {
      profile.points.push_back(point_of(with(nccl, algorithm), size, ratio, 0.02));
      profile.points.back().algorithm = algorithm;
    }
  }
  profile.points.push_back(profile.points.front());  // twice the same
  for (const auto& [nccl, algorithm, ratio] :
       {std::tuple("2.18", "", 0.1), std::tuple("2.22", "", 0.2), std::tuple("2.22", "tree", 0.6)}) {
    PlaceForecast forecast(profile, with(nccl, algorithm));
    REQUIRE(forecast.measured_sizes() == at);
    forecast.set_simulated(std::vector<double>{-11, -10.5, -10});
    for (const std::int64_t size : {kKiB, 2 * kKiB, 4 * kKiB, 10 * kKiB}) {
      const Forecast found =
          forecast.at(Bytes(size), -11 + 0.5 * (std::log2(static_cast<double>(size)) - 10) / 2);
      CHECK(found.log_factor == Approx(ratio));
      CHECK(found.deviation < 0.1);
    }
  }
  CHECK(PlaceForecast(profile, with("2.30", "")).measured_sizes().empty());
  CHECK(PlaceForecast(profile, with("2.18", "tree")).measured_sizes().empty());
}

// ------------------------------------------------------------------------------- the process

double dense_covariance(const DiscrepancyPoint& a, const DiscrepancyPoint& b) {
  if (a.kind != b.kind) {
    return 0;
  }
  const auto log2_apart = [](double x, double y) { return std::abs(std::log2(x) - std::log2(y)); };
  const double size = log2_apart(static_cast<double>(a.bytes.value), static_cast<double>(b.bytes.value));
  const double r = std::sqrt(3.0) * size / 3;
  const bool crosses = (a.nodes == 1) != (b.nodes == 1);
  return (0.12 * 0.12 * (1 + r) * std::exp(-r) + 0.02 * 0.02) *
         std::exp(-log2_apart(a.gpus_per_node, b.gpus_per_node) / 2) *
         std::exp(-log2_apart(a.nodes, b.nodes) / 1.5) * (crosses ? 0.5 : 1);
}

using Matrix3 = std::array<std::array<double, 3>, 3>;

double determinant(const Matrix3& m) {
  return m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) -
         m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
         m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
}

std::array<double, 3> cramer(const Matrix3& m, const std::array<double, 3>& right) {
  std::array<double, 3> solution{};
  for (std::size_t j = 0; j < 3; ++j) {
    Matrix3 replaced = m;
    for (std::size_t i = 0; i < 3; ++i) {
      replaced[i][j] = right[i];
    }
    solution[j] = determinant(replaced) / determinant(m);
  }
  return solution;
}

TEST_CASE("the process over three points is its dense solution") {
  const std::vector<DiscrepancyPoint> points{{CollectiveKind::all_reduce, 1, 8, Bytes(kKiB), 0.1, 0.02},
                                             {CollectiveKind::all_reduce, 1, 4, Bytes(kMiB), -0.05, 0.04},
                                             {CollectiveKind::all_reduce, 2, 8, Bytes(16 * kMiB), 0.2, 0.01}};
  Matrix3 all{};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      all[i][j] = dense_covariance(points[i], points[j]);
    }
    all[i][i] += points[i].noise * points[i].noise + 1e-9;
  }
  const std::array<double, 3> weights =
      cramer(all, {points[0].log_ratio, points[1].log_ratio, points[2].log_ratio});
  const DiscrepancyModel model(points);
  for (const DiscrepancyPoint& where :
       {DiscrepancyPoint{CollectiveKind::all_reduce, 1, 8, Bytes(kKiB), 0, 0},
        DiscrepancyPoint{CollectiveKind::all_reduce, 1, 8, Bytes(64 * kKiB), 0, 0},
        DiscrepancyPoint{CollectiveKind::all_reduce, 4, 8, Bytes(kGiB), 0, 0},
        DiscrepancyPoint{CollectiveKind::broadcast, 1, 8, Bytes(kKiB), 0, 0}}) {
    const std::array<double, 3> near{dense_covariance(where, points[0]), dense_covariance(where, points[1]),
                                     dense_covariance(where, points[2])};
    const std::array<double, 3> solved = cramer(all, near);
    double mean = 0, variance = dense_covariance(where, where);
    for (std::size_t i = 0; i < 3; ++i) {
      mean += near[i] * weights[i];
      variance -= near[i] * solved[i];
    }
    const Discrepancy found = model.at(where.kind, where.nodes, where.gpus_per_node, where.bytes);
    CHECK(found.mean == Approx(mean).margin(1e-12));
    CHECK(found.deviation == Approx(std::sqrt(variance)).epsilon(1e-9));
  }
  const Discrepancy nothing = DiscrepancyModel({}).at(CollectiveKind::all_reduce, 1, 8, Bytes(8));
  CHECK(nothing.mean == 0);
  CHECK(nothing.deviation == Approx(std::hypot(0.12, 0.02)));
}

// ------------------------------------------------------------------------------- curvature

TEST_CASE("curvature: how much of the model's bends the points bear out") {
  std::vector<MeasuredPoint> points;
  std::vector<double> simulated;
  for (int i = 0; i < 12; ++i) {
    const Bytes bytes(std::int64_t{kKiB} << (2 * i));
    simulated.push_back(FourSizes::simulated(bytes));
    points.push_back({0, bytes, 0, {}, true});
  }
  const auto curvature = [&](auto&& measured) {
    std::vector<double> ratio(points.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
      points[i].log_time = measured(i);
      ratio[i] = points[i].log_time - simulated[i];
    }
    return curvature_of(points, ratio);
  };
  double squares = 0;
  for (std::size_t i = 1; i + 1 < simulated.size(); ++i) {
    const double bend = simulated[i] - (simulated[i - 1] + simulated[i + 1]) / 2;
    squares += std::pow(std::clamp(bend, -0.2, 0.2), 2);  // no bend counts for more
  }
  const double perfect = squares / (squares + 0.06 * 0.06);
  CHECK(perfect > 0.8);
  CHECK(curvature([&](std::size_t i) { return simulated[i] + 0.3; }) == Approx(perfect));
  CHECK(curvature([&](std::size_t i) { return 0.3 * static_cast<double>(i); }) == Approx(0).margin(1e-12));
  CHECK(curvature([&](std::size_t i) { return -simulated[i]; }) == 0);
  points[4].place = points[5].place = 1;  // no three in a row across places
  CHECK(curvature([&](std::size_t i) { return simulated[i]; }) < perfect);
  CHECK(curvature_of({}, {}) == 0);
}

// ------------------------------------------------------------------------------- intervals

TEST_CASE("nine of ten measurements of sizes that were left out lie in their interval") {
  const World world{.cluster = "dgx-a100",
                    .nccl = "2.22",
                    .costs = {{"nvlink.efficiency", 0.93}, {"ll.nvlink.latency", 1e-6}}};
  World unknown = world;
  unknown.costs.clear();
  const std::vector<Place> places{{1, 4}, {1, 8}};
  const std::vector<Bytes> fitted = sizes(8, kGiB, 4), left_out = sizes(16, kGiB / 2, 4);
  std::size_t inside = 0, all = 0;
  double width = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const CollectiveFit fit = fit_collectives(request_of(world), measured(world, places, fitted, 0.02, seed));
    Noise noise(0.02, 100 + seed);
    for (const Place& place : places) {
      MeasuredData data;
      measure(world, place, left_out, noise, data);
      const CollectivePrediction prediction =
          predict_collectives(test_of(unknown, place, left_out), fit.profile);
      for (std::size_t i = 0; i < left_out.size(); ++i) {
        const double time = data.collectives[i].time.value;
        const CollectiveInterval& interval = prediction.intervals[i];
        inside += time >= interval.low.value && time <= interval.high.value ? 1 : 0;
        width += std::log(interval.high.value / interval.low.value) / 2;
        ++all;
      }
    }
  }
  const auto n = static_cast<double>(all);
  INFO(inside << " of " << all << ", half width " << width / n);
  CHECK(static_cast<double>(inside) >= 0.8 * n);
  CHECK(width / n < 0.15);  // a wide one would hold all
}

TEST_CASE("what lies outside the measurements is marked, with the reason") {
  const World world;
  const CollectiveFit fit = fit_collectives(
      request_of(world),
      measured(world, {{1, 4}, {1, 6}, {2, 4, CollectiveKind::all_gather}}, sizes(kKiB, 64 * kMiB, 4), 0.01));
  const auto why = [&](const Place& place, std::int64_t size) {
    const CollectivePrediction p = predict_collectives(test_of(world, place, {Bytes(size)}), fit.profile);
    const CollectiveInterval& interval = p.intervals.at(0);
    CHECK(interval.low.value > 0);
    CHECK(interval.low.value < interval.high.value);
    CHECK(std::isfinite(interval.high.value));
    CHECK(interval.extrapolated == !interval.why.empty());
    return interval.why;
  };
  CHECK(why({1, 4}, kMiB).empty());
  CHECK(why({1, 5}, kMiB).empty());
  CHECK(why({1, 4, CollectiveKind::broadcast}, kMiB) == "this collective was not measured");
  CHECK(why({2, 4}, kMiB) == "measured on one node only");
  CHECK(why({3, 4, CollectiveKind::all_gather}, kMiB) == "measured on up to 2 nodes");
  CHECK(why({1, 8}, kMiB) == "measured on 4 to 6 GPUs");
  CHECK(why({1, 2}, kMiB) == "measured on 4 to 6 GPUs");
  CHECK(why({1, 4}, kGiB) == "measured from 1024 to 67108864 bytes");
  CHECK(why({1, 4}, 8) == "measured from 1024 to 67108864 bytes");
  // nccl-tests' smallest size has no bytes for each of 8 ranks.
  CHECK_THAT(why({2, 4, CollectiveKind::all_gather}, 8), Contains("bytes"));
}

TEST_CASE("the farther from the measurements, the wider the interval") {
  const World world;
  const CollectiveFit fit =
      fit_collectives(request_of(world), measured(world, {{1, 8}}, sizes(8, kGiB), 0.01));
  const auto width = [&](const Place& place, std::int64_t size) {
    const CollectivePrediction p = predict_collectives(test_of(world, place, {Bytes(size)}), fit.profile);
    return p.intervals.at(0).high.value / p.intervals.at(0).low.value;
  };
  const double measured_here = width({1, 8}, 64 * kMiB), fewer = width({1, 6}, 64 * kMiB),
               nodes = width({2, 8}, 64 * kMiB), many = width({16, 8}, 64 * kMiB);
  CHECK(measured_here < 1.1);
  CHECK(measured_here < fewer);
  CHECK(fewer < nodes);
  CHECK(nodes < many * 1.0001);
}

}  // namespace
}  // namespace paceline
