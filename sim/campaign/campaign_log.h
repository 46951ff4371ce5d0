// What happened when in a campaign, beside its sums; kept where it is wanted.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/campaign/campaign.h"

namespace paceline {

inline constexpr std::string_view kStepsEvent = "steps";

class CampaignLog {
 public:
  explicit CampaignLog(bool wanted) : wanted_(wanted) {}
  bool wanted() const { return wanted_; }

  // Adds a piece, or makes the last one longer; one that takes no time leaves no trace. useful: what of it is goodput.
  void add(CampaignTime from, CampaignTime to, std::string_view what, const std::string& which,
           std::int64_t steps, CampaignTime useful) {
    if (!wanted_) {
      return;
    }
    if (!events_.empty() && events_.back().to == from && events_.back().what == what &&
        events_.back().which == which) {
      events_.back().to = to;
      events_.back().steps = steps;
      events_.back().useful += useful;
    } else if (from < to) {
      events_.push_back({from, to, std::string(what), which, steps, {}, useful});
    }
  }

  void add_failure(CampaignTime at, std::string which, std::int64_t steps) {
    if (wanted_) {
      events_.push_back({at, at, "failure", std::move(which), steps, {}, {}});
    }
  }

  // Of the steps the last ones that are left, `useful` of them goodput.
  void undo(CampaignTime time, CampaignTime useful) {
    for (auto event = events_.rbegin(); event != events_.rend() && time.ps > 0; ++event) {
      if (event->what == kStepsEvent) {
        const CampaignTime left = event->to - event->from - event->undone;
        const CampaignTime part = std::min(time, left);
        const CampaignTime useless = part < left ? useful : event->useful;
        event->undone += part;
        event->useful = event->useful - useless;
        time = time - part;
        useful = useful - useless;
      }
    }
  }

  std::vector<CampaignEvent> take() { return std::move(events_); }

 private:
  bool wanted_;
  std::vector<CampaignEvent> events_;
};

}  // namespace paceline
