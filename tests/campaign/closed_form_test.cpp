// Campaigns against the closed forms of checkpointing, and against what their draws should be.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "core/random.h"
#include "sim/campaign/campaigns.h"
#include "sim/campaign/checkpoint_interval.h"
#include "sim/campaign/failure_times.h"
#include "tests/campaign/small_campaign.h"

using namespace paceline;

namespace {

// One part that fails with exponential times, all of a restart in one phase.
CampaignSpec of_daly(double t, double d, double r, double m) {
  CampaignSpec spec;
  spec.failures = {{"job", FailingPart::software, FailureTakes::process, {}, false, seconds(m), 1, {}}};
  spec.restart.start = seconds(r);
  spec.restart.join_timeout = seconds(600);
  spec.checkpoint.interval = seconds(t);
  spec.checkpoint.stall = seconds(d);
  spec.length = seconds(1e13);
  return spec;
}

TEST_CASE("exponential failures: the mean of 400 campaigns is Daly's closed form", "[release]") {
  struct Case {
    double t, d, r, m;
  };
  // Hours in the tenths of seconds; among them restarts and checkpoints as long as the time between failures.
  for (const Case c : {Case{1000, 50, 300, 10'000},
                       {1000, 50, 300, 2000},
                       {1000, 50, 2000, 2000},
                       {1000, 1000, 300, 2000},
                       {200, 5, 20, 10'000},
                       {4000, 300, 600, 5000},
                       {500, 100, 100, 500},
                       {1000, 10, 1000, 1000},
                       {100, 1, 0, 10'000}}) {
    constexpr int kSegments = 400, kSeeds = 400;
    CampaignSpec spec = of_daly(c.t, c.d, c.r, c.m);
    spec.work_steps = kSegments * 100;
    const StepsOf steps = steady(c.t / 100, c.t / 100);
    std::vector<double> walls;
    for (const CampaignReport& r : run_campaigns(spec, steps, kSeeds)) {
      REQUIRE((r.goodput + all_losses(r)).ps == r.wall.ps);
      walls.push_back(in_seconds(r.wall));
    }
    const Spread spread = spread_of(walls);
    const double expected = c.m * std::exp(c.r / c.m) * (std::exp((c.t + c.d) / c.m) - 1) * kSegments;
    CAPTURE(c.t, c.d, c.r, c.m, spread.mean / expected - 1, spread.deviation / std::sqrt(kSeeds) / expected);
    CHECK(std::abs(spread.mean - expected) < 3 * spread.deviation / std::sqrt(kSeeds));
    CHECK(std::abs(spread.mean / expected - 1) < 0.005);
    CHECK(expected_wall_per_work(Seconds(c.t), Seconds(c.d), Seconds(c.r), Seconds(c.m)) * c.t * kSegments ==
          Approx(expected).epsilon(1e-9));
  }
}

TEST_CASE("no failures: W (1 + d / t), to the picosecond, for ten years") {
  CampaignSpec spec = of_daly(3600, 40, 0, 1);
  spec.failures.clear();
  spec.work_steps = 10LL * 365 * 24 * 1000;
  const CampaignReport r = run_campaign(spec, steady(3.6, 3.6));
  CHECK(r.wall.ps == (seconds(3600) * (10 * 365 * 24) + seconds(40) * (10 * 365 * 24)).ps);
}

// The minimum of the closed form by looking everywhere.
double best_by_search(double d, double m) {
  double best = 0, least = INFINITY;
  for (double t = 1e-4 * m; t < 2 * m; t *= 1.0002) {
    const double cost = (std::exp((t + d) / m) - 1) / t;
    if (cost < least) {
      least = cost;
      best = t;
    }
  }
  return best;
}

TEST_CASE("intervals: what Young's and Daly's cost beside the best, and the best") {
  const double m = 10'000;
  const auto cost = [&](Seconds t, double d) {
    return expected_wall_per_work(t, Seconds(d), Seconds(100), Seconds(m));
  };
  for (const double share : {0.001, 0.01, 0.1, 0.3, 1.0, 1.5, 1.9, 2.5}) {
    const double d = share * m, exact = best_by_search(d, m);
    const Seconds best = best_interval(Seconds(d), Seconds(m), Seconds(0));
    CAPTURE(share, best.value, exact);
    CHECK(best.value == Approx(exact).epsilon(0.01));
    const double daly = cost(daly_interval(Seconds(d), Seconds(m)), d) / cost(best, d) - 1;
    const double young = cost(young_interval(Seconds(d), Seconds(m)), d) / cost(best, d) - 1;
    CAPTURE(daly, young);
    CHECK(daly >= 0);
    if (share <= 1.9) {
      CHECK(daly < (share <= 1 ? 0.0002 : 0.0017));
    }
    if (share == 0.1) {
      CHECK(young == Approx(0.005).margin(0.001));
    }
    if (share == 1.0) {
      CHECK(young == Approx(0.14).margin(0.005));
    }
  }
  CHECK(daly_interval(Seconds(3), Seconds(1)).value == 1);
}

TEST_CASE("the rule of a campaign's interval: its own d, R and M") {
  CampaignSpec spec = of_daly(0, 50, 300, 10'000);
  spec.failures.front().found_after = seconds(10);
  spec.checkpoint.rule = IntervalRule::daly;
  const IntervalInputs inputs = interval_inputs(spec);
  CHECK(inputs.d.value == 50);
  CHECK(inputs.r.value == Approx(310));
  CHECK(inputs.m.value == Approx(10'000));
  CHECK(in_seconds(with_interval(spec).checkpoint.interval) ==
        Approx(daly_interval(Seconds(50), Seconds(10'000)).value));
  spec.checkpoint.upload = seconds(5000);  // no sooner than the upload is through
  CHECK(in_seconds(with_interval(spec).checkpoint.interval) == 5000);
  const RuleIntervals all = rule_intervals(spec);
  CHECK(all.young.value == 5000);
  CHECK(all.daly.value == 5000);
  CHECK(all.best.value == Approx(5000));
}

// R by hand, phases of 36 s: a node's memory comes from its peer, a process' is where it was; of a leaf's nodes, and of
// one that is alone, storage has the last copy.
TEST_CASE("R of checkpoints in memory: what a failure leaves of them is loaded") {
  CampaignSpec spec = small_campaign();
  spec.checkpoint.memory = true;
  const auto restart_after = [&](std::size_t kind) {
    CampaignSpec one = spec;
    one.failures = {spec.failures[kind]};
    one.failures[0].mtbf = seconds(1e6);
    return interval_inputs(one).r.value;
  };
  CHECK(restart_after(0) == Approx(36 + 15 + 5 + 2));
  CHECK(restart_after(1) == Approx(36 + 1 + 5));
  CHECK(restart_after(3) == Approx(36 + 15 + 20));
  spec.nodes_per_leaf = 1;
  CHECK(restart_after(3) == Approx(36 + 15 + 5 + 2));
  spec.nodes = 1;
  CHECK(restart_after(0) == Approx(36 + 15 + 20));
  CHECK(restart_after(1) == Approx(36 + 1 + 5));
}

// Times of the first failures of many parts, sorted.
std::vector<double> first_times(const FailureKind& kind, int nodes) {
  CampaignSpec spec;
  spec.nodes = nodes;
  spec.failures = {kind};
  spec.length = seconds(1e12);
  FailureTimes times(spec);
  std::vector<double> all;
  for (const PartFailure* next = times.next(); next != nullptr; next = times.next()) {
    all.push_back(in_seconds(next->at));
    times.take();
  }
  return all;
}

TEST_CASE("draws: Weibull with the mean that was asked for") {
  for (const double shape : {0.5, 0.7, 1.0, 2.0, 5.0}) {
    constexpr int kParts = 20'000;
    const std::vector<double> times = first_times(
        {"n", FailingPart::node, FailureTakes::process, {}, false, seconds(1000), shape, {}}, kParts);
    REQUIRE(times.size() == kParts);
    const double scale = 1000 / std::tgamma(1 + 1 / shape);
    double farthest = 0;  // Kolmogorov and Smirnov's distance; 1.95 / sqrt(n) is passed once in a thousand
    for (int i = 0; i < kParts; ++i) {
      const double expected = 1 - std::exp(-std::pow(times[static_cast<std::size_t>(i)] / scale, shape));
      farthest = std::max(
          {farthest, std::abs(expected - (i + 1.0) / kParts), std::abs(expected - 1.0 * i / kParts)});
    }
    CAPTURE(shape);
    CHECK(farthest < 1.95 / std::sqrt(kParts));
  }
}

// Whoever outlives the campaign is left out before a logarithm is taken: nobody else is.
TEST_CASE("draws: who fails in the campaign are those whose draw says so, at the time that it says") {
  constexpr int kParts = 3000;  // more than are drawn at once
  for (const double shape : {0.5, 1.0, 3.0}) {
    for (const double lasts : {1e-6, 1e-3, 0.1, 1.0, 30.0}) {  // the campaign, of a part's scale
      CAPTURE(shape, lasts);
      const double scale = 1e6, length = lasts * scale;
      CampaignSpec spec;
      spec.nodes = kParts;
      const double mean = scale * std::tgamma(1 + 1 / shape);
      spec.failures = {{"n", FailingPart::node, FailureTakes::process, {}, false, seconds(mean), shape, {}}};
      spec.length = seconds(length);
      std::uint32_t address = 2166136261U;  // FNV-1a of "n"
      address = (address ^ static_cast<unsigned char>('n')) * 16777619U;
      std::vector<double> expected;
      for (std::uint32_t part = 0; part < kParts; ++part) {
        const double u = fine_uniform({spec.seed, Stream::failure, 0}, Rank(part), address);
        if (const double age = scale * std::pow(-std::log(u), 1 / shape); age < length) {
          expected.push_back(age);
        }
      }
      std::ranges::sort(expected);
      FailureTimes times(spec);
      std::vector<double> found;
      for (const PartFailure* next = times.next(); next != nullptr; next = times.next()) {
        found.push_back(in_seconds(next->at));
        times.take();
      }
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        REQUIRE(found[i] == Approx(expected[i]).epsilon(1e-9).margin(1e-12));  // of whole picoseconds
      }
    }
  }
}

TEST_CASE("draws are addressed: a kind that never fails changes nothing, wherever it stands") {
  CampaignSpec spec = small_campaign();
  spec.work_steps = 100'000;
  spec.spares = 1;
  spec.failures[0].mtbf = seconds(40'000);
  spec.failures[1].mtbf = seconds(90'000);
  const CampaignReport alone = run_campaign(spec, steady(4, 10));
  REQUIRE(alone.restarts > 20);
  const FailureKind rare{"rare", FailingPart::gpu, FailureTakes::node, {}, false, seconds(3e11),
                         1,      seconds(9)};
  for (const std::size_t place : {0U, 2U, 4U}) {
    CampaignSpec with = spec;
    with.failures.insert(with.failures.begin() + static_cast<std::ptrdiff_t>(place), rare);
    CampaignReport r = run_campaign(with, steady(4, 10));
    CHECK(r.wall.ps == alone.wall.ps);
    CHECK(r.losses == alone.losses);
    CHECK(r.failures[place] == 0);
    r.failures.erase(r.failures.begin() + static_cast<std::ptrdiff_t>(place));
    CHECK(r.failures == alone.failures);
  }
  spec.seed = 2;
  CHECK(run_campaign(spec, steady(4, 10)).wall.ps != alone.wall.ps);
}

TEST_CASE("failures of many parts are Poisson, the system's MTBF is theirs over their number") {
  CampaignSpec spec;
  spec.nodes = 2048;
  spec.gpus_per_node = 8;
  spec.failures = {{"gpu", FailingPart::gpu, FailureTakes::process, {}, false, seconds(1.8e8), 1, {}}};
  spec.length = seconds(54 * 86400.0);
  CHECK(in_seconds(system_mtbf(spec)) == Approx(1.8e8 / 16384));
  std::vector<double> counts;
  for (const CampaignReport& r : run_campaigns(spec, steady(4, 4), 200)) {
    counts.push_back(static_cast<double>(r.failures.front()));
    CHECK(r.end == CampaignEnd::length);
    CHECK((r.goodput + all_losses(r)).ps == r.wall.ps);
  }
  const double mean = 54 * 86400.0 * 16384 / 1.8e8;
  const Spread spread = spread_of(counts);
  CHECK(std::abs(spread.mean - mean) < 3 * std::sqrt(mean / 200));
  CHECK(spread.deviation == Approx(std::sqrt(mean)).epsilon(0.15));
}

TEST_CASE("a campaign that can't get anywhere gives up") {
  CampaignSpec spec = of_daly(1000, 10, 100, 50);
  spec.work_steps = 1'000'000;
  const CampaignReport r = run_campaign(spec, steady(10, 10));
  CHECK(r.end == CampaignEnd::no_progress);
  CHECK(r.steps == 0);
  CHECK(r.restarts == kMostRestartsWithoutProgress);
  CHECK((r.goodput + all_losses(r)).ps == r.wall.ps);
}

TEST_CASE("levers change what they say") {
  CampaignSpec spec = small_campaign();
  spec.failures[0].mtbf = seconds(1000);
  CHECK(in_seconds(with_lever(spec, CampaignLever::half_the_checkpoint_time).checkpoint.stall) == 2.5);
  CHECK(in_seconds(with_lever(spec, CampaignLever::half_the_restart).restart.start) == 15);
  CHECK(in_seconds(with_lever(spec, CampaignLever::half_the_restart).restart.fetch_from_peer) == 1);
  CHECK(in_seconds(with_lever(spec, CampaignLever::twice_the_mtbf).failures[0].mtbf) == 2000);
  CHECK(with_lever(spec, CampaignLever::two_spares_more).spares == 2);
  CHECK(with_lever(spec, CampaignLever::half_the_restart).checkpoint.stall == spec.checkpoint.stall);
}

TEST_CASE("a spread: mean and order statistics") {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) {
    values.push_back(i);
  }
  const Spread spread = spread_of(values);
  CHECK(spread.mean == 50.5);
  CHECK(spread.p5 == 5);
  CHECK(spread.p95 == 95);
  CHECK(spread_of({7}).p5 == 7);
  CHECK(spread_of({7}).deviation == 0);
}

}  // namespace
