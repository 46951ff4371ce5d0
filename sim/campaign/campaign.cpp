#include "sim/campaign/campaign.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/fingerprint.h"
#include "core/random.h"
#include "sim/campaign/campaign_log.h"
#include "sim/campaign/campaign_machines.h"
#include "sim/campaign/campaign_progress.h"

namespace paceline {
namespace {

// a * b / c, to the nearest picosecond.
CampaignTime scaled(CampaignTime a, PicosecondSum b, PicosecondSum c) {
  return b == c ? a : CampaignTime((2 * a.ps * b + c) / (2 * c));
}

PicosecondSum rounded_up(PicosecondSum a, PicosecondSum b) { return (a + b - 1) / b; }

class Campaign {
 public:
  Campaign(const CampaignSpec& spec, const StepsOf& steps_of)
      : spec_(spec), checkpoint_(spec.checkpoint), steps_of_(steps_of), machines_(spec), log_(spec.log) {
    report_.failures.assign(spec.failures.size(), 0);
  }

  CampaignReport run() {
    while (!end_) {
      Passed passed = train();
      while (passed == Passed::struck && !end_) {
        passed = restart();
      }
    }
    report_.wall = now();
    report_.end = *end_;
    report_.steps = progress_.steps;
    report_.samples = progress_.samples;
    report_.goodput = progress_.useful;
    report_.events = log_.take();
    loss(CampaignLoss::slow_states) += progress_.slow;
    loss(CampaignLoss::fewer_nodes) = progress_.fewer;
    loss(CampaignLoss::first_step) = progress_.first;
    return std::move(report_);
  }

 private:
  // ---- time ----

  CampaignTime now() const { return machines_.now(); }
  CampaignTime& loss(CampaignLoss which) { return report_.losses[static_cast<std::size_t>(which)]; }

  Passed over(CampaignEnd why) {
    end_ = why;
    return Passed::over;
  }

  Passed pass(CampaignTime until) {
    const Passed passed = machines_.pass(until);
    if (passed == Passed::over) {
      return over(CampaignEnd::length);
    }
    if (passed == Passed::struck) {
      const Strike& strike = machines_.strike();
      const FailureKind& kind = spec_.failures[strike.kind];
      ++report_.failures[strike.kind];
      lost_copies_.insert(strike.taken.begin(), strike.taken.end());
      // A collective that can't complete was enqueued when its step began: hosts run ahead.
      const bool in_step = kind.hangs && step_time_.ps > 0;
      const CampaignTime since =
          in_step ? CampaignTime((now() - steps_began_).ps % step_time_.ps) : CampaignTime();
      found_at_ = now() + std::max(CampaignTime(), kind.found_after - since);
    }
    return passed;
  }

  // Passes time that is lost.
  Passed lose(CampaignLoss why, CampaignTime time) {
    const CampaignTime from = now();
    const Passed passed = pass(from + time);
    loss(why) += now() - from;
    note(from, name_of(why), passed);
    return passed;
  }

  // What was done until now, and how it ended.
  void note(CampaignTime from, std::string_view what, Passed passed, const std::string& which = {},
            CampaignTime useful = {}) {
    log_.add(from, now(), what, which, progress_.steps, useful);
    if (passed == Passed::struck && log_.wanted()) {
      const Strike& strike = machines_.strike();
      log_.add_failure(now(), spec_.failures[strike.kind].name + ' ' + std::to_string(strike.part),
                       progress_.steps);
    }
  }

  // Steps that were made, or a part of one.
  void undo(CampaignTime time, CampaignTime useful) {
    loss(CampaignLoss::redone_steps) += time;
    log_.undo(time, useful);
  }

  // "2048 nodes; 1 in slow nodes 0"
  std::string who_trains() const {
    std::string text = std::to_string(nodes_) + " nodes";
    for (std::size_t i = 0; i < spec_.passing.size(); ++i) {
      const int parts = machines_.passing()[i];
      text += parts > 0 ? "; " + std::to_string(parts) + " in " + spec_.passing[i].name : "";
    }
    return text;
  }

  // ---- steps ----

  // Until the work is done, a failure strikes or the campaign is over.
  Passed train() {
    Passed passed = Passed::all;
    while (passed == Passed::all) {
      if (work_done()) {
        passed = finish();
      } else if (checkpoint_due()) {
        passed = save(false);
        if (passed == Passed::all && grows()) {
          passed = change_members();
        } else if (passed == Passed::all) {
          repeat_checkpoints();
        }
      } else {
        passed = make_steps();
      }
    }
    return passed;
  }

  bool work_done() const {
    return (spec_.work_steps > 0 && progress_.steps >= spec_.work_steps) ||
           (spec_.work_samples > 0 && progress_.samples >= spec_.work_samples);
  }

  ClusterState state(bool healthy, int nodes) const {
    return {nodes, healthy ? std::vector<int>(spec_.passing.size()) : machines_.passing()};
  }

  // What a step of so long a time adds. Of a drawn one such a part is useful, slow and so on as of the mean.
  Progress one_step(const StateSteps& steps, SimTime time) const {
    const StateSteps& all = steps_of_(state(true, spec_.nodes));
    const StateSteps& healthy = steps_of_(state(true, nodes_));
    const CampaignTime ideal =
        scaled(all.mean, steps.samples, all.samples);  // for its samples, without faults
    Progress step{1, steps.samples, scaled(time, ideal.ps, steps.mean.ps), {}, {}, {}};
    const CampaignTime undisturbed = scaled(time, healthy.mean.ps, steps.mean.ps);
    step.slow = CampaignTime(time) - undisturbed;
    step.fewer = undisturbed - step.useful;
    if (first_step_) {
      step.first = std::max(CampaignTime(), CampaignTime(steps.first) - steps.mean);
    }
    return step;
  }

  // Steps that are all alike, as many as there are till something is due.
  Passed make_steps() {
    const StateSteps& steps = steps_of_(state(false, nodes_));
    const bool drawn = steps.steps.size() > 1;
    const Progress step = one_step(steps, drawn ? drawn_time(steps.steps) : steps.steps.front());
    const std::int64_t count = drawn || first_step_ ? 1 : steps_until_due(step);
    const CampaignTime from = now();
    steps_began_ = from;
    step_time_ = step.time();
    const CampaignTime stood = machines_.stood();
    const std::string who = log_.wanted() ? who_trains() : "";
    Passed passed = pass(from + step_time_ * count);
    const auto made = static_cast<std::int64_t>((now() - from).ps / step_time_.ps);
    const CampaignTime whole = step_time_ * made;
    step_time_ = {};
    progress_ = sum(progress_, times(step, made));
    made_ += made;
    steps_since_ += made;
    trained_since_ += whole;
    first_step_ = first_step_ && made == 0;
    note(from, kStepsEvent, passed, who, step.useful * made);
    undo(now() - from - whole, {});  // of the step that was cut
    // The last one was late by as long as it stood, and while it made up for that it may have stood again.
    for (CampaignTime made_up = stood; passed == Passed::all && machines_.stood() > made_up;) {
      const CampaignTime late = machines_.stood() - made_up;
      made_up = machines_.stood();
      passed = lose(CampaignLoss::slow_states, late);
    }
    return passed;
  }

  SimTime drawn_time(const std::vector<SimTime>& among) const {
    const DrawAddress at{spec_.seed, Stream::campaign_step, static_cast<std::uint32_t>(made_ >> 32)};
    const double u = fine_uniform(at, Rank(static_cast<std::uint32_t>(made_)), 0);
    return among[static_cast<std::size_t>(u * static_cast<double>(among.size()))];
  }

  std::int64_t steps_until_due(const Progress& step) {
    PicosecondSum count = std::int64_t{1} << 40;
    const auto at_most = [&](PicosecondSum n) { count = std::min(count, n); };
    if (spec_.work_steps > 0) {
      at_most(spec_.work_steps - progress_.steps);
    }
    if (spec_.work_samples > 0) {
      at_most(rounded_up(spec_.work_samples - progress_.samples, step.samples));
    }
    if (checkpoint_.steps > 0) {
      at_most(checkpoint_.steps - steps_since_);
    } else if (checkpoint_.interval.ps > 0) {
      at_most(rounded_up((checkpoint_.interval - trained_since_).ps, step.time().ps));
    }
    const PicosecondSum quiet = (machines_.next_change() - now()).ps;
    at_most(quiet / step.time().ps + (quiet % step.time().ps > 0));  // those that begin before
    return static_cast<std::int64_t>(std::max<PicosecondSum>(count, 1));
  }

  // ---- checkpoints ----

  bool checkpoint_due() const {
    return checkpoint_.steps > 0 ? steps_since_ >= checkpoint_.steps
                                 : checkpoint_.interval.ps > 0 && trained_since_ >= checkpoint_.interval;
  }

  // What is complete by now counts.
  void settle() {
    for (const auto& [begun, done] : {std::pair{&copying_, &in_memory_}, {&uploading_, &stored_}}) {
      if (*begun && (*begun)->complete <= now()) {
        *done = **begun;
        begun->reset();
        without_progress_ = 0;
      }
    }
  }

  // One upload runs at a time: training waits for the one before. One copy to the hosts serves memory and storage.
  Passed save(bool last) {
    const bool every = !checkpoint_.memory || (saved_ + 1) % checkpoint_.storage_every == 0;
    const bool stores = checkpoint_.storage && (every || last);
    if (stores && uploading_) {
      if (const Passed passed = wait_for(uploading_); passed != Passed::all) {
        return passed;
      }
    }
    if (const Passed passed = lose(CampaignLoss::checkpoint, checkpoint_.stall); passed != Passed::all) {
      return passed;
    }
    settle();  // a copy that is not complete by now never will be: the next one takes its place
    if (checkpoint_.memory) {
      copying_ = Saved{progress_, now() + checkpoint_.memory_copy};
      new_copies();
    }
    if (stores) {
      uploading_ = Saved{progress_, now() + checkpoint_.upload};
    }
    settle();
    ++saved_;
    ++report_.checkpoints;
    steps_since_ = 0;
    trained_since_ = {};
    return Passed::all;
  }

  // Just after a checkpoint: what decides how the campaign goes on until a machine changes, and what it has come to.
  struct AfterCheckpoint {
    std::array<std::optional<Saved>, 4> behind;  // copies, as differences to what is done and to now
    CampaignTime now, until;
    Progress progress;
    CampaignLosses losses;
    std::int64_t made = 0, saved = 0;
  };

  std::array<std::optional<Saved>*, 4> copies() { return {&uploading_, &copying_, &stored_, &in_memory_}; }

  AfterCheckpoint after_checkpoint() {
    AfterCheckpoint after{
        {}, now(), std::min(machines_.next_change(), spec_.length), progress_, report_.losses, made_, saved_};
    std::ranges::transform(copies(), after.behind.begin(), [&](const std::optional<Saved>* copy) {
      return *copy ? std::optional(Saved{difference(progress_, (*copy)->progress),
                                         std::max(CampaignTime(), (*copy)->complete - now())})
                   : std::nullopt;
    });
    return after;
  }

  // A checkpoint after which all stands as after an earlier one comes again and again until a machine changes or the
  // work ends: as often as it does at once. A log has each of them.
  void repeat_checkpoints() {
    if (log_.wanted() || saved_ % checkpoint_.storage_every != 0 ||
        steps_of_(state(false, nodes_)).steps.size() > 1) {
      return;
    }
    const AfterCheckpoint after = after_checkpoint();
    const std::optional<AfterCheckpoint> before = std::exchange(after_, after);
    if (!before || before->until != after.until || before->behind != after.behind) {
      return;
    }
    const CampaignTime lasts = after.now - before->now;
    const Progress each = difference(after.progress, before->progress);
    PicosecondSum often = ((after.until - after.now).ps - 1) / lasts.ps;
    if (spec_.work_steps > 0) {
      often = std::min<PicosecondSum>(often, (spec_.work_steps - progress_.steps - 1) / each.steps);
    }
    if (spec_.work_samples > 0) {
      often = std::min<PicosecondSum>(often, (spec_.work_samples - progress_.samples - 1) / each.samples);
    }
    if (often <= 0) {
      return;
    }
    const auto k = static_cast<std::int64_t>(often);
    machines_.pass(after.now + lasts * k);  // before the next change
    progress_ = sum(progress_, times(each, k));
    for (std::size_t i = 0; i < report_.losses.size(); ++i) {
      report_.losses[i] += (after.losses[i] - before->losses[i]) * k;
    }
    made_ += (after.made - before->made) * k;
    saved_ += (after.saved - before->saved) * k;
    report_.checkpoints += (after.saved - before->saved) * k;
    for (std::optional<Saved>* copy : copies()) {
      if (*copy) {
        *copy = Saved{sum((*copy)->progress, times(each, k)), (*copy)->complete + lasts * k};
      }
    }
    after_.reset();
  }

  Passed wait_for(const std::optional<Saved>& begun) {
    const Passed passed =
        begun ? lose(CampaignLoss::checkpoint, std::max(begun->complete, now()) - now()) : Passed::all;
    if (passed == Passed::all) {
      settle();
    }
    return passed;
  }

  // The work ends with a checkpoint that is complete.
  Passed finish() {
    Passed passed = checkpoint_.storage || checkpoint_.memory ? save(true) : Passed::all;
    for (const auto* begun : {&copying_, &uploading_}) {
      passed = passed == Passed::all ? wait_for(*begun) : passed;
    }
    return passed == Passed::all ? over(CampaignEnd::work_done) : passed;
  }

  // Memory holds each node's part twice: there and on the next node that was in the job.
  void new_copies() {
    lost_copies_.clear();
    without_copies_ = machines_.vacant();
  }
  bool memory_survives() const {
    return std::ranges::none_of(lost_copies_, [&](std::uint32_t node) {
      std::uint32_t next = node;
      do {
        next = (next + 1) % static_cast<std::uint32_t>(spec_.nodes);
      } while (without_copies_.contains(next));
      return next == node || lost_copies_.contains(next);
    });
  }

  // To the newest checkpoint that is left. What was under way died with its process.
  void roll_back() {
    settle();
    copying_.reset();
    uploading_.reset();
    if (in_memory_ && !memory_survives()) {
      in_memory_.reset();
    }
    from_memory_ = in_memory_ && in_memory_->progress.steps >= stored_->progress.steps;
    const Progress& saved = from_memory_ ? in_memory_->progress : stored_->progress;
    undo(progress_.time() - saved.time(), progress_.useful - saved.useful);
    progress_ = saved;
  }

  // ---- restarts ----

  Passed restart() {
    roll_back();
    if (spec_.restart.restarts && report_.restarts >= *spec_.restart.restarts) {
      return over(CampaignEnd::max_restarts);
    }
    if (++without_progress_ > kMostRestartsWithoutProgress) {
      return over(CampaignEnd::no_progress);
    }
    ++report_.restarts;
    CampaignTime found = found_at_;
    while (now() < found) {
      const Passed passed = lose(CampaignLoss::detection, found - now());
      if (passed == Passed::over) {
        return passed;
      }
      if (passed == Passed::struck) {  // another one, that may be found sooner: one restart for both
        roll_back();
        found = std::min(found, found_at_);
      }
    }
    return come_up();
  }

  // Nodes that are back join after a checkpoint: all processes start anew, nothing is lost.
  bool grows() const { return spec_.min_nodes > 0 && !machines_.vacant().empty() && machines_.spares() > 0; }
  Passed change_members() {
    ++report_.membership_changes;
    if (const Passed passed = wait_for(uploading_); passed != Passed::all) {
      return passed;
    }
    from_memory_ = in_memory_ && in_memory_->progress.steps == progress_.steps;
    return come_up();
  }

  // From processes that are to end to training.
  Passed come_up() {
    const RestartTimes& r = spec_.restart;
    if (const Passed passed = lose(CampaignLoss::stop, r.stop); passed != Passed::all) {
      return passed;
    }
    if (const Passed passed = fill_places(); passed != Passed::all) {
      return passed;
    }
    const CampaignTime last_call = machines_.vacant().empty() ? CampaignTime() : r.last_call;
    const std::pair<CampaignLoss, CampaignTime> phases[] = {
        {CampaignLoss::rendezvous, r.rendezvous + last_call},
        {CampaignLoss::start, r.start},
        {CampaignLoss::initialisation, r.initialisation},
        {CampaignLoss::load, from_memory_ ? load_from_memory() : r.load}};
    for (const auto& [phase, time] : phases) {
      if (const Passed passed = lose(phase, time); passed != Passed::all) {
        return passed;
      }
    }
    new_copies();  // whoever loaded from memory has its part again
    nodes_ = spec_.nodes - static_cast<int>(machines_.vacant().size());
    first_step_ = true;
    steps_since_ = 0;
    trained_since_ = {};
    return Passed::all;
  }

  CampaignTime load_from_memory() const {
    const RestartTimes& r = spec_.restart;
    return lost_copies_.empty() ? r.load_from_memory : r.load_from_memory + r.fetch_from_peer;
  }

  // Spares and repaired nodes take the places of those that left; an elastic job doesn't wait for the last ones.
  Passed fill_places() {
    const CampaignTime began = now();
    while (!machines_.vacant().empty()) {
      const auto left = static_cast<int>(machines_.vacant().size());
      const int taken = std::min(machines_.spares(), left);
      if (taken == 0 && spec_.min_nodes > 0 && spec_.nodes - left >= spec_.min_nodes) {
        break;
      }
      const CampaignTime wait = taken > 0 ? spec_.restart.replacement : machines_.next_repair() - now();
      if (const Passed passed = lose(CampaignLoss::waiting_for_nodes, wait); passed != Passed::all) {
        return passed;
      }
      for (int i = 0; i < taken; ++i) {
        machines_.fill_one();
      }
    }
    if (now() - began > spec_.restart.join_timeout) {
      ++report_.resubmissions;
      return lose(CampaignLoss::rendezvous, spec_.restart.resubmit);
    }
    return Passed::all;
  }

  const CampaignSpec& spec_;
  const CheckpointTimes& checkpoint_;
  const StepsOf& steps_of_;
  CampaignMachines machines_;
  CampaignReport report_;
  CampaignLog log_;
  std::optional<CampaignEnd> end_;
  CampaignTime found_at_;  // the last failure

  int nodes_ = spec_.nodes;  // that train
  Progress progress_;
  bool first_step_ = true;
  std::int64_t made_ = 0;                 // steps, with those that were undone
  CampaignTime steps_began_, step_time_;  // of those under way; 0: none are

  std::int64_t steps_since_ = 0, saved_ = 0;  // the last checkpoint or restart; of all
  CampaignTime trained_since_;
  std::optional<Saved> stored_ = Saved{}, in_memory_, uploading_, copying_;  // at first the begin is stored
  std::set<std::uint32_t> lost_copies_, without_copies_;  // nodes: memory lost since; not in the job then
  bool from_memory_ = false;
  int without_progress_ = 0;
  std::optional<AfterCheckpoint> after_;  // the last one of which another may be like
};

}  // namespace

CampaignReport run_campaign(const CampaignSpec& spec, const StepsOf& steps_of) {
  return Campaign(spec, steps_of).run();
}

std::uint64_t fingerprint_of(const CampaignReport& r) {
  std::uint64_t hash = static_cast<std::uint64_t>(r.end);
  const auto add = [&](PicosecondSum value) {
    hash = mix64(hash ^ static_cast<std::uint64_t>(value));
    hash = mix64(hash ^ static_cast<std::uint64_t>(value >> 64));
  };
  for (const CampaignTime loss : r.losses) {
    add(loss.ps);
  }
  for (const std::int64_t failures : r.failures) {
    add(failures);
  }
  for (const PicosecondSum each : {r.wall.ps, r.goodput.ps, PicosecondSum{r.steps}, PicosecondSum{r.samples},
                                   PicosecondSum{r.restarts}, PicosecondSum{r.checkpoints}}) {
    add(each);
  }
  return hash;
}

}  // namespace paceline
