// A campaign once more, second by second, from the rules of docs/model.md alone: for traces, with whole seconds.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "sim/campaign/campaign.h"

namespace paceline {

struct CountedCampaign {
  std::array<std::int64_t, kNames<CampaignLoss>.size()> losses{};
  std::int64_t wall = 0, goodput = 0, steps = 0, samples = 0, restarts = 0, checkpoints = 0, joins = 0;
};

class SecondBySecond {
 public:
  // step: seconds with so many nodes, of as many samples as nodes; the first one after a start takes `extra` more.
  SecondBySecond(const CampaignSpec& spec, std::int64_t step, std::int64_t extra)
      : spec_(spec), step_(step), extra_(extra), spares_(spec.spares), nodes_(spec.nodes) {}

  CountedCampaign run() {
    begin_step();
    for (now_ = 0; now_ < whole(spec_.length); ++now_) {
      spares_ += static_cast<int>(repaired_.count(now_));
      while (!over_ && left_ == 0) {
        next_activity();
      }
      if (over_) {
        break;
      }
      for (const TracedFailure& failure : spec_.trace) {
        if (whole(failure.at) == now_) {
          strike(failure);
        }
      }
      while (!over_ && left_ == 0) {
        next_activity();
      }
      if (over_) {
        break;
      }
      ++spent_;
      --left_;
      if (activity_ != Activity::step) {
        ++out_.losses[static_cast<std::size_t>(loss_)];
      }
    }
    while (!over_ && left_ == 0) {
      next_activity();
    }
    if (!over_ && activity_ == Activity::step) {
      lose(CampaignLoss::redone_steps, spent_);
    }
    out_.wall = now_;
    for (const Step& step : done_) {
      out_.steps += 1;
      out_.samples += step.nodes;
      out_.goodput += step_ * step.nodes / spec_.nodes;
      lose(CampaignLoss::fewer_nodes, step_ - step_ * step.nodes / spec_.nodes);
      lose(CampaignLoss::first_step, step.time - step_);
    }
    return out_;
  }

 private:
  enum class Activity {
    step,
    save,
    upload,
    last_upload,
    joining_upload,
    detect,
    stop,
    replace,
    repair,
    resubmit,
    rendezvous,
    start,
    initialise,
    load
  };
  struct Step {
    int nodes;
    std::int64_t time;
  };
  struct Copy {
    std::size_t steps;
    std::int64_t complete;
  };

  static std::int64_t whole(CampaignTime t) { return static_cast<std::int64_t>(t.ps / 1'000'000'000'000); }
  void lose(CampaignLoss why, std::int64_t time) { out_.losses[static_cast<std::size_t>(why)] += time; }
  void go(Activity activity, CampaignTime time, CampaignLoss loss) {
    activity_ = activity;
    left_ = whole(time);
    spent_ = 0;
    loss_ = loss;
  }
  void begin_step() {
    this_step_ = {nodes_, step_ + (first_ ? extra_ : 0)};
    go(Activity::step, CampaignTime(PicosecondSum{1'000'000'000'000} * this_step_.time),
       CampaignLoss::redone_steps);
  }

  // What is complete by now counts.
  void keep() {
    if (copy_ && copy_->complete <= now_) {
      memory_ = copy_->steps;
      copy_.reset();
    }
    if (upload_ && upload_->complete <= now_) {
      stored_ = upload_->steps;
      upload_.reset();
    }
  }
  bool stores(bool last) const {
    const CheckpointTimes& c = spec_.checkpoint;
    return c.storage && (last || !c.memory || (saved_ + 1) % c.storage_every == 0);
  }
  void begin_save() {
    keep();
    if (stores(last_) && upload_) {
      go(Activity::upload, CampaignTime(PicosecondSum{1'000'000'000'000} * (upload_->complete - now_)),
         CampaignLoss::checkpoint);
    } else {
      go(Activity::save, spec_.checkpoint.stall, CampaignLoss::checkpoint);
    }
  }
  void train_on() {
    if (static_cast<std::int64_t>(done_.size()) >= spec_.work_steps) {
      last_ = true;
      begin_save();
    } else if (since_ >= spec_.checkpoint.steps) {
      last_ = false;
      begin_save();
    } else {
      begin_step();
    }
  }
  void saved() {
    keep();
    if (spec_.checkpoint.memory) {
      copy_ = Copy{done_.size(), now_ + whole(spec_.checkpoint.memory_copy)};
      gone_.clear();
      absent_ = vacant_;
    }
    if (stores(last_)) {
      upload_ = Copy{done_.size(), now_ + whole(spec_.checkpoint.upload)};
    }
    keep();
    ++saved_;
    ++out_.checkpoints;
    since_ = 0;
    if (last_) {
      const std::int64_t complete =
          std::max(copy_ ? copy_->complete : now_, upload_ ? upload_->complete : now_);
      go(Activity::last_upload, CampaignTime(PicosecondSum{1'000'000'000'000} * (complete - now_)),
         CampaignLoss::checkpoint);
    } else if (spec_.min_nodes > 0 && !vacant_.empty() && spares_ > 0) {
      ++out_.joins;
      const std::int64_t complete = upload_ ? upload_->complete : now_;
      go(Activity::joining_upload, CampaignTime(PicosecondSum{1'000'000'000'000} * (complete - now_)),
         CampaignLoss::checkpoint);
    } else {
      train_on();
    }
  }

  void fill_places() {
    const int empty = static_cast<int>(vacant_.size());
    if (empty == 0 || (spares_ == 0 && spec_.min_nodes > 0 && spec_.nodes - empty >= spec_.min_nodes)) {
      if (now_ - stopped_ > whole(spec_.restart.join_timeout)) {
        go(Activity::resubmit, spec_.restart.resubmit, CampaignLoss::rendezvous);
      } else {
        meet();
      }
    } else if (spares_ > 0) {
      taking_ = std::min(spares_, empty);
      go(Activity::replace, spec_.restart.replacement, CampaignLoss::waiting_for_nodes);
    } else {
      const std::int64_t back = *repaired_.upper_bound(now_);
      go(Activity::repair, CampaignTime(PicosecondSum{1'000'000'000'000} * (back - now_)),
         CampaignLoss::waiting_for_nodes);
    }
  }
  void meet() {
    go(Activity::rendezvous,
       spec_.restart.rendezvous + (vacant_.empty() ? CampaignTime() : spec_.restart.last_call),
       CampaignLoss::rendezvous);
  }

  void next_activity() {
    const RestartTimes& r = spec_.restart;
    switch (activity_) {
      case Activity::step:
        done_.push_back(this_step_);
        first_ = false;
        ++since_;
        train_on();
        break;
      case Activity::upload:
        begin_save();
        break;
      case Activity::save:
        saved();
        break;
      case Activity::last_upload:
        over_ = true;
        break;
      case Activity::joining_upload:
        keep();
        from_memory_ = memory_ && *memory_ == done_.size();
        go(Activity::stop, r.stop, CampaignLoss::stop);
        break;
      case Activity::detect:
        go(Activity::stop, r.stop, CampaignLoss::stop);
        break;
      case Activity::stop:
        stopped_ = now_;
        fill_places();
        break;
      case Activity::replace:
        for (; taking_ > 0; --taking_, --spares_) {
          vacant_.erase(vacant_.begin());
        }
        fill_places();
        break;
      case Activity::repair:
        fill_places();
        break;
      case Activity::resubmit:
        meet();
        break;
      case Activity::rendezvous:
        go(Activity::start, r.start, CampaignLoss::start);
        break;
      case Activity::start:
        go(Activity::initialise, r.initialisation, CampaignLoss::initialisation);
        break;
      case Activity::initialise:
        go(Activity::load,
           !from_memory_   ? r.load
           : gone_.empty() ? r.load_from_memory
                           : r.load_from_memory + r.fetch_from_peer,
           CampaignLoss::load);
        break;
      case Activity::load:
        gone_.clear();
        absent_ = vacant_;
        nodes_ = spec_.nodes - static_cast<int>(vacant_.size());
        first_ = true;
        since_ = 0;
        train_on();
        break;
    }
  }

  bool memory_is_whole() const {
    for (const int node : gone_) {
      int next = (node + 1) % spec_.nodes;
      while (absent_.count(next) > 0) {
        next = (next + 1) % spec_.nodes;
      }
      if (next == node || gone_.count(next) > 0) {
        return false;
      }
    }
    return true;
  }

  void strike(const TracedFailure& failure) {
    const FailureKind& kind = spec_.failures[failure.kind];
    const int node = kind.of == FailingPart::gpu   ? static_cast<int>(failure.part) / spec_.gpus_per_node
                     : kind.of == FailingPart::nic ? static_cast<int>(failure.part) / spec_.nics_per_node
                                                   : static_cast<int>(failure.part);
    const bool leaf = kind.of == FailingPart::leaf_switch;
    std::vector<int> nodes{node};
    if (leaf) {
      nodes.clear();
      for (int i = 0; i < spec_.nodes; ++i) {
        if (i / spec_.nodes_per_leaf == static_cast<int>(failure.part)) {
          nodes.push_back(i);
        }
      }
    }
    bool hits = false;
    for (const int each : nodes) {
      hits = hits || vacant_.count(each) == 0;
    }
    if (!hits) {
      return;
    }
    if (kind.takes != FailureTakes::process) {
      for (const int each : nodes) {
        if (vacant_.insert(each).second) {
          gone_.insert(each);
          repaired_.insert(now_ + whole(kind.repair));
        }
      }
    }
    const std::int64_t counted = kind.hangs && activity_ == Activity::step ? spent_ : 0;
    const std::int64_t found = std::max<std::int64_t>(0, whole(kind.found_after) - counted);
    if (activity_ == Activity::step) {
      lose(CampaignLoss::redone_steps, spent_);
    }
    keep();
    copy_.reset();
    upload_.reset();
    if (memory_ && !memory_is_whole()) {
      memory_.reset();
    }
    from_memory_ = memory_ && *memory_ >= stored_;
    const std::size_t to = from_memory_ ? *memory_ : stored_;
    for (; done_.size() > to; done_.pop_back()) {
      lose(CampaignLoss::redone_steps, done_.back().time);
    }
    if (activity_ == Activity::detect && left_ > 0) {
      left_ = std::min(left_, found);
      return;
    }
    ++out_.restarts;
    go(Activity::detect, CampaignTime(PicosecondSum{1'000'000'000'000} * found), CampaignLoss::detection);
  }

  const CampaignSpec& spec_;
  std::int64_t step_, extra_;
  CountedCampaign out_;
  std::int64_t now_ = 0, left_ = 0, spent_ = 0, stopped_ = 0;
  Activity activity_ = Activity::step;
  CampaignLoss loss_ = CampaignLoss::redone_steps;
  bool over_ = false, first_ = true, last_ = false, from_memory_ = false;
  int spares_, nodes_, taking_ = 0;
  Step this_step_{};
  std::vector<Step> done_;
  std::int64_t since_ = 0, saved_ = 0;
  std::size_t stored_ = 0;
  std::optional<std::size_t> memory_;
  std::optional<Copy> copy_, upload_;
  std::set<int> vacant_, gone_, absent_;
  std::multiset<std::int64_t> repaired_;
};

}  // namespace paceline
