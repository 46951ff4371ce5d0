// Campaigns with failures at known times: every loss by hand.
#include <catch2/catch.hpp>

#include "tests/campaign/small_campaign.h"

using namespace paceline;

namespace {

enum Kind : std::size_t { kNode, kProcess, kHang, kSwitch };

CampaignSpec logged_campaign() {
  CampaignSpec spec = small_campaign();
  spec.log = true;
  return spec;
}

void check_sum(const CampaignReport& r) {
  CHECK((r.goodput + all_losses(r)).ps == r.wall.ps);
  CHECK(wrong_in_log(r) == "");
}

TEST_CASE("without failures: work, and its checkpoints") {
  CampaignSpec spec = logged_campaign();
  spec.work_steps = 1000;
  const CampaignReport r = run_campaign(spec, steady(4, 4));
  CHECK(r.end == CampaignEnd::work_done);
  CHECK(r.goodput.ps == seconds(4000).ps);
  CHECK(r.wall.ps == seconds(4000 + 100 * 5).ps);  // W (1 + d / t)
  CHECK(r.checkpoints == 100);
  CHECK(r.restarts == 0);
  check_sum(r);
}

TEST_CASE("a node that is gone at a known time, and a spare") {
  CampaignSpec spec = logged_campaign();
  spec.spares = 1;
  spec.trace = {{seconds(103), kNode, 2}};
  const CampaignReport r = run_campaign(spec, steady(4, 10));
  // 10 + 9 * 4, saved by 51; 10 * 4, saved by 96; one step, 3 s of the next.
  CHECK(lost(r, CampaignLoss::redone_steps) == 7);
  CHECK(lost(r, CampaignLoss::detection) == 15);
  CHECK(lost(r, CampaignLoss::stop) == 1);
  CHECK(lost(r, CampaignLoss::waiting_for_nodes) == 60);
  CHECK(lost(r, CampaignLoss::rendezvous) == 2);
  CHECK(lost(r, CampaignLoss::start) == 30);
  CHECK(lost(r, CampaignLoss::initialisation) == 3);
  CHECK(lost(r, CampaignLoss::load) == 20);
  CHECK(lost(r, CampaignLoss::first_step) == 12);
  CHECK(lost(r, CampaignLoss::checkpoint) == 15);
  CHECK(lost(r, CampaignLoss::slow_states) == 0);
  CHECK(lost(r, CampaignLoss::fewer_nodes) == 0);
  CHECK(in_seconds(r.goodput) == 120);
  CHECK(in_seconds(r.wall) == 285);
  CHECK(r.failures == std::vector<std::int64_t>{1, 0, 0, 0});
  CHECK(r.steps == 30);
  check_sum(r);
  // The events tell the same, end to end.
  CampaignTime at;
  for (const CampaignEvent& event : r.events) {
    CHECK(event.from.ps == at.ps);
    at = event.to;
  }
  CHECK(at.ps == r.wall.ps);
}

TEST_CASE("no spare: the job waits for the repair, its rendezvous fails, it is submitted again") {
  CampaignSpec spec = logged_campaign();
  spec.trace = {{seconds(103), kNode, 2}};
  const CampaignReport r = run_campaign(spec, steady(4, 10));
  CHECK(lost(r, CampaignLoss::waiting_for_nodes) == 3600 - 15 - 1 + 60);
  CHECK(lost(r, CampaignLoss::rendezvous) == 102);
  CHECK(r.resubmissions == 1);
  check_sum(r);
}

TEST_CASE("a process starts where it was") {
  CampaignSpec spec = logged_campaign();
  spec.trace = {{seconds(103), kProcess, 7}};
  const CampaignReport r = run_campaign(spec, steady(4, 10));
  CHECK(lost(r, CampaignLoss::detection) == 1);
  CHECK(lost(r, CampaignLoss::waiting_for_nodes) == 0);
  CHECK(in_seconds(r.wall) == 285 - 60 - 14);
  check_sum(r);
}

TEST_CASE("a hang is found so long after its step's collectives were enqueued") {
  CampaignSpec spec = logged_campaign();
  spec.trace = {{seconds(103), kHang, 0}};
  const CampaignReport r = run_campaign(spec, steady(4, 10));
  CHECK(lost(r, CampaignLoss::detection) == 600 - 3);  // the step began at 100
  check_sum(r);
}

TEST_CASE("a failure during a restart restarts it, one before it is found is found with it") {
  CampaignSpec spec = logged_campaign();
  spec.trace = {{seconds(103), kProcess, 0}, {seconds(120), kProcess, 1}, {seconds(120.5), kProcess, 2}};
  const CampaignReport r = run_campaign(spec, steady(4, 10));
  // found at 104, stopped at 105, met at 107, starting for 13 s; found again at 121
  CHECK(lost(r, CampaignLoss::detection) == 2);
  CHECK(lost(r, CampaignLoss::stop) == 2);
  CHECK(lost(r, CampaignLoss::rendezvous) == 4);
  CHECK(lost(r, CampaignLoss::start) == 43);
  CHECK(lost(r, CampaignLoss::load) == 20);
  CHECK(r.restarts == 2);
  CHECK(r.failures[kProcess] == 3);
  check_sum(r);
  spec.restart.restarts = 1;
  const CampaignReport ended = run_campaign(spec, steady(4, 10));
  CHECK(ended.end == CampaignEnd::max_restarts);
  CHECK(in_seconds(ended.wall) == 120);
  CHECK(ended.steps == 20);
  check_sum(ended);
}

TEST_CASE("a switch takes its leaf") {
  CampaignSpec spec = logged_campaign();
  spec.spares = 1;
  spec.trace = {{seconds(103), kSwitch, 1}, {seconds(300), kNode, 3}};  // that node is not there
  const CampaignReport r = run_campaign(spec, steady(4, 10));
  // one spare at 60 s, the other place when the switch is back
  CHECK(lost(r, CampaignLoss::waiting_for_nodes) == 1000 - 15 - 1 + 60);
  CHECK(r.failures == std::vector<std::int64_t>{0, 0, 0, 1});
  check_sum(r);
}

TEST_CASE("asynchronous: a checkpoint counts when it is complete, one upload at a time") {
  CampaignSpec spec = logged_campaign();
  spec.checkpoint.upload = seconds(30);
  spec.trace = {{seconds(103), kProcess, 0}};
  // 46, copied by 51, stored at 81; 91, copied by 96, would be stored at 126
  const CampaignReport r = run_campaign(spec, steady(4, 10));
  CHECK(lost(r, CampaignLoss::redone_steps) == 40 + 4 + 3);
  CHECK(lost(r, CampaignLoss::load) == 20);
  // 163 - 4 + 6 ... : from 160 on 10 + 36, 5, 40, 5 and the last upload
  CHECK(in_seconds(r.wall) == 103 + 1 + 56 + 46 + 5 + 40 + 5 + 30);
  CHECK(lost(r, CampaignLoss::checkpoint) == 5 + 5 + 5 + 5 + 30);
  check_sum(r);
  spec.checkpoint.upload = seconds(60);  // longer than the interval: the second waits for the first
  spec.trace.clear();
  const CampaignReport waits = run_campaign(spec, steady(4, 4));
  // 40, 45, stored at 105; 85 waits till 105, 110, stored at 170; 150 waits till 170, 175, 235
  CHECK(in_seconds(waits.wall) == 235);
  check_sum(waits);
}

TEST_CASE("in memory: survives a process, and a node, but not a node and its peer") {
  CampaignSpec spec = logged_campaign();
  spec.checkpoint.memory = true;
  spec.checkpoint.storage = false;
  spec.spares = 2;
  spec.trace = {{seconds(103), kProcess, 0}};
  const CampaignReport process = run_campaign(spec, steady(4, 10));
  CHECK(lost(process, CampaignLoss::redone_steps) == 7);
  CHECK(lost(process, CampaignLoss::load) == 5);
  spec.trace = {{seconds(103), kNode, 1}};
  const CampaignReport node = run_campaign(spec, steady(4, 10));
  CHECK(lost(node, CampaignLoss::redone_steps) == 7);
  CHECK(lost(node, CampaignLoss::load) == 5 + 2);
  spec.trace = {{seconds(103), kNode, 1}, {seconds(104), kNode, 3}};  // neither is the other's peer
  CHECK(lost(run_campaign(spec, steady(4, 10)), CampaignLoss::redone_steps) == 7);
  spec.trace = {{seconds(103), kNode, 1}, {seconds(104), kNode, 2}};  // 2 keeps 1's
  const CampaignReport both = run_campaign(spec, steady(4, 10));
  CHECK(lost(both, CampaignLoss::redone_steps) == 10 + 19 * 4 + 4 + 3);
  CHECK(lost(both, CampaignLoss::load) == 20);
  for (const CampaignReport& r : {process, node, both}) {
    check_sum(r);
  }
}

TEST_CASE("two levels: what memory loses storage has, as often as it is told") {
  CampaignSpec spec = logged_campaign();
  spec.checkpoint.memory = true;
  spec.checkpoint.storage_every = 2;
  spec.checkpoint.steps = 5;
  spec.checkpoint.upload = seconds(7);
  spec.spares = 2;
  // 26 and 31: memory; 51 and 56: both, stored at 63; 76 and 81: memory; 101 and 106: both, stored at 113
  spec.trace = {{seconds(90), kProcess, 0}};
  const CampaignReport memory = run_campaign(spec, steady(4, 10));
  CHECK(lost(memory, CampaignLoss::redone_steps) == 9);
  CHECK(lost(memory, CampaignLoss::load) == 5);
  spec.trace = {{seconds(90), kSwitch, 0}};
  const CampaignReport storage = run_campaign(spec, steady(4, 10));
  CHECK(lost(storage, CampaignLoss::redone_steps) == 20 + 9);
  CHECK(lost(storage, CampaignLoss::load) == 20);
  check_sum(memory);
  check_sum(storage);
}

TEST_CASE("the four kinds of checkpoint in the order of what they leave") {
  CampaignSpec spec = logged_campaign();
  spec.work_steps = 100;
  spec.trace = {{seconds(103), kProcess, 0}, {seconds(333), kProcess, 1}};
  spec.checkpoint.stall = seconds(20);  // copy and upload
  const CampaignReport sync = run_campaign(spec, steady(4, 10));
  spec.checkpoint.stall = seconds(2);
  spec.checkpoint.upload = seconds(18);
  const CampaignReport async = run_campaign(spec, steady(4, 10));
  spec.checkpoint.memory = true;
  const CampaignReport levels = run_campaign(spec, steady(4, 10));
  spec.checkpoint.storage = false;
  const CampaignReport memory = run_campaign(spec, steady(4, 10));
  CHECK(sync.wall > async.wall);
  CHECK(async.wall > levels.wall);
  CHECK(levels.wall > memory.wall);  // by the last upload
  for (const CampaignReport& r : {sync, async, levels, memory}) {
    CHECK(r.goodput.ps == seconds(400).ps);
    check_sum(r);
  }
}

// As many samples as nodes, or all of them in longer steps.
StepsOf by_nodes(bool batch_kept) {
  auto known = std::make_shared<std::map<int, StateSteps>>();
  return [known, batch_kept](const ClusterState& state) -> const StateSteps& {
    const SimTime step = batch_kept ? step_of(16.0 / state.nodes) : step_of(4);
    return known->try_emplace(state.nodes, StateSteps{{step}, step, step, batch_kept ? 4 : state.nodes})
        .first->second;
  };
}

TEST_CASE("elastic: on with fewer nodes, and with all again after a checkpoint") {
  CampaignSpec spec = logged_campaign();
  spec.min_nodes = 2;
  spec.work_steps = 0;
  spec.length = seconds(4000);
  spec.restart.replacement = {};
  spec.trace = {{seconds(103), kNode, 2}};
  const CampaignReport r = run_campaign(spec, by_nodes(false));
  // 40, 45, 85, 90; 3 steps and 1 s are undone; 15 + 1 + 2 + 10 + 30 + 3 + 20 until 184; 3 nodes: 45 s for 10 steps.
  // The node is back at 3703: 78 rounds end at 3694, the next one at 3739, a checkpoint in it.
  // All join: 1 + 2 + 30 + 3 + 20 until 3795; 4 rounds till 3975; 6 steps, 1 s of the next.
  CHECK(r.membership_changes == 1);
  CHECK(r.steps == 20 + 79 * 10 + 4 * 10 + 6);
  CHECK(r.samples == 20 * 4 + 79 * 10 * 3 + 46 * 4);
  CHECK(lost(r, CampaignLoss::fewer_nodes) == 79 * 10 * 1);
  CHECK(lost(r, CampaignLoss::rendezvous) == 2 + 10 + 2);
  CHECK(lost(r, CampaignLoss::redone_steps) == 13 + 1);
  CHECK(r.restarts == 1);
  CHECK(r.end == CampaignEnd::length);
  check_sum(r);
  const CampaignReport kept = run_campaign(spec, by_nodes(true));
  CHECK(kept.samples == kept.steps * 4);
  check_sum(kept);
  spec.min_nodes = 4;  // not with fewer: waits
  CHECK(lost(run_campaign(spec, by_nodes(false)), CampaignLoss::waiting_for_nodes) == 3600 - 16);
}

TEST_CASE("states that pass: steps that begin in one are slow, the others are not") {
  CampaignSpec spec = logged_campaign();
  spec.passing = {{"slow", seconds(1e5), seconds(500)}};
  spec.work_steps = 100'000;
  spec.checkpoint.steps = 1000;
  std::map<ClusterState, StateSteps> known;
  const StepsOf steps_of = [&](const ClusterState& state) -> const StateSteps& {
    const SimTime step = step_of(state.passing[0] == 0 ? 4 : 5);
    return known.try_emplace(state, StateSteps{{step}, step, step, 1}).first->second;
  };
  const CampaignReport r = run_campaign(spec, steps_of);
  check_sum(r);
  CHECK(r.goodput.ps == seconds(400'000).ps);
  // 4 nodes, one of 100,500 s slow for 500: about 16 times, 100 steps each
  const double slow_steps = lost(r, CampaignLoss::slow_states);
  CHECK(slow_steps > 600);
  CHECK(slow_steps < 3000);
  CHECK(slow_steps == std::floor(slow_steps));  // whole steps, each a second longer
}

TEST_CASE("states in which steps stand: as late as they lasted") {
  CampaignSpec spec = logged_campaign();
  spec.nodes = 1;
  spec.passing = {{"flap", seconds(5000), seconds(20), true}};
  spec.work_steps = 10'000;
  spec.checkpoint.steps = 20'000;
  const CampaignReport r = run_campaign(spec, steady(4, 4));
  check_sum(r);
  CHECK(r.goodput.ps == seconds(40'000).ps);
  const double stood = lost(r, CampaignLoss::slow_states);
  CHECK(stood >= 3 * 20);
  CHECK(stood == Approx(20 * std::round(stood / 20)));  // whole flaps of one link, one after the other
  CHECK(in_seconds(r.wall) == Approx(40'000 + 5 + stood));
}

}  // namespace
