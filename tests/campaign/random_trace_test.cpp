// Random campaigns with random traces, against one that goes second by second.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/campaign/second_by_second.h"
#include "tests/campaign/small_campaign.h"
#include "tests/dice.h"

using namespace paceline;

namespace {

CampaignSpec random_campaign(Dice& dice) {
  const auto time = [&](std::size_t most) { return seconds(static_cast<double>(dice.below(most + 1))); };
  CampaignSpec spec = small_campaign();
  spec.nodes = 3 + static_cast<int>(dice.below(4));
  spec.nodes_per_leaf = 1 + static_cast<int>(dice.below(3));
  spec.spares = static_cast<int>(dice.below(3));
  spec.min_nodes =
      dice.below(2) == 0 ? 0 : 1 + static_cast<int>(dice.below(static_cast<std::size_t>(spec.nodes)));
  for (FailureKind& kind : spec.failures) {
    kind.found_after = time(kind.hangs ? 90 : 20);
    kind.repair = kind.takes == FailureTakes::process ? CampaignTime() : time(600) + seconds(1);
  }
  spec.restart = {.stop = time(3),
                  .rendezvous = time(4),
                  .start = time(30),
                  .initialisation = time(4),
                  .load = time(20),
                  .load_from_memory = time(5),
                  .fetch_from_peer = time(5),
                  .replacement = time(40),
                  .join_timeout = time(300),
                  .resubmit = time(50),
                  .last_call = time(10),
                  .restarts = {}};
  CheckpointTimes& c = spec.checkpoint;
  c.steps = 1 + static_cast<std::int64_t>(dice.below(12));
  c.stall = time(8);
  c.storage = dice.below(4) > 0;
  c.memory = !c.storage || dice.below(2) == 0;
  c.upload = c.storage ? time(60) : CampaignTime();
  c.memory_copy = c.memory ? time(10) : CampaignTime();
  c.storage_every = c.memory ? 1 + static_cast<std::int64_t>(dice.below(4)) : 1;
  spec.work_steps = 50 + static_cast<std::int64_t>(dice.below(300));
  spec.length = seconds(dice.below(4) == 0 ? 2000 : 40'000);
  std::set<std::int64_t> times;
  for (std::size_t i = dice.below(12); i > 0; --i) {
    times.insert(1 + static_cast<std::int64_t>(dice.below(4000)));
  }
  for (const std::int64_t at : times) {
    const std::size_t kind = dice.below(spec.failures.size());
    spec.trace.push_back({seconds(static_cast<double>(at)), kind,
                          static_cast<std::uint32_t>(dice.below(parts_of(spec, spec.failures[kind].of)))});
  }
  return spec;
}

TEST_CASE("random campaigns are those that go second by second") {
  Dice dice(20);
  std::uint64_t restarts = 0, joins = 0, unfinished = 0;
  for (std::uint64_t i = 0; i < rounds(3000); ++i) {
    CampaignSpec spec = random_campaign(dice);
    spec.log = i % 2 == 0;
    // Whole seconds with any number of nodes: 60 is divisible by 3, 4, 5 and 6.
    const std::int64_t extra = static_cast<std::int64_t>(dice.below(8)), step = 60;
    std::map<int, StateSteps> known;
    const StepsOf steps_of = [&](const ClusterState& state) -> const StateSteps& {
      const SimTime time = step_of(static_cast<double>(step));
      return known
          .try_emplace(state.nodes,
                       StateSteps{{time}, time, step_of(static_cast<double>(step + extra)), state.nodes})
          .first->second;
    };
    const CampaignReport r = run_campaign(spec, steps_of);
    const CountedCampaign counted = SecondBySecond(spec, step, extra).run();
    CAPTURE(i);
    REQUIRE((r.goodput + all_losses(r)).ps == r.wall.ps);
    REQUIRE(in_seconds(r.wall) == static_cast<double>(counted.wall));
    for (const auto& [name, loss] : kNames<CampaignLoss>) {
      INFO(name);
      REQUIRE(lost(r, loss) == static_cast<double>(counted.losses[static_cast<std::size_t>(loss)]));
    }
    REQUIRE(in_seconds(r.goodput) == static_cast<double>(counted.goodput));
    REQUIRE(r.steps == counted.steps);
    REQUIRE(r.samples == counted.samples);
    REQUIRE(r.restarts == counted.restarts);
    REQUIRE(r.checkpoints == counted.checkpoints);
    REQUIRE(r.membership_changes == counted.joins);
    REQUIRE(r.events.empty() != spec.log);
    REQUIRE((spec.log ? wrong_in_log(r) : std::string()) == "");
    // Checkpoints that are alike count at once, but for a log.
    spec.log = !spec.log;
    REQUIRE(fingerprint_of(run_campaign(spec, steps_of)) == fingerprint_of(r));
    restarts += static_cast<std::uint64_t>(r.restarts);
    joins += static_cast<std::uint64_t>(r.membership_changes);
    unfinished += r.end == CampaignEnd::length;
  }
  CHECK(restarts > rounds(5000));
  CHECK(joins > rounds(100));
  CHECK(unfinished > rounds(100));
}

}  // namespace
