// The machines of a campaign and their clock: what fails when, which places of the job are empty, who is in repair.
// They know nothing of steps and checkpoints.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "sim/campaign/campaign_spec.h"
#include "sim/campaign/failure_times.h"

namespace paceline {

// How a time ended that was to pass.
enum class Passed : std::uint8_t { all, struck, over };

// A failure of the job's.
struct Strike {
  std::uint32_t kind = 0, part = 0;
  std::vector<std::uint32_t> taken;  // nodes that left with it
};

class CampaignMachines {
 public:
  explicit CampaignMachines(const CampaignSpec&);

  CampaignTime now() const { return now_; }
  // The clock runs to `until`, or to a failure before it (struck), or to the campaign's end (over). What happens at
  // `until` itself: repairs and ends of states have, failures have not.
  Passed pass(CampaignTime until);
  const Strike& strike() const { return strike_; }
  // Before it no state changes but by a failure; not before now.
  CampaignTime next_change();

  // How many parts are in each passing state.
  const std::vector<int>& passing() const { return passing_; }
  // For how long any part has been in a state in which steps stand.
  CampaignTime stood() const { return standing_ > 0 ? stood_ + (now_ - stands_since_) : stood_; }
  // Places without a node; nodes that could take them; when the next one is repaired, if any is.
  const std::set<std::uint32_t>& vacant() const { return vacant_; }
  int spares() const { return spares_; }
  CampaignTime next_repair() const;
  // Requires: a vacant place, a spare.
  void fill_one();

 private:
  struct Quiet {  // no failure: a node is repaired, or a passing state of a part ends
    bool repaired = true;
    PartFailure state{};
  };

  const PartFailure* next_failure();
  void happen(const Quiet&);
  bool strike(const PartFailure&);
  void take_nodes(const FailureKind&, const PartFailure&);
  std::vector<std::uint32_t> nodes_of(const FailureKind&, std::uint32_t part) const;

  const CampaignSpec& spec_;
  CampaignTime now_;
  FailureTimes times_;
  PartFailure from_trace_;
  std::size_t traced_ = 0;                    // of the trace, that have happened
  std::multimap<CampaignTime, Quiet> quiet_;  // equal times: in the order of their making
  Strike strike_;
  std::vector<int> passing_;
  int standing_ = 0;  // parts in a state in which steps stand
  CampaignTime stood_, stands_since_;
  std::set<std::uint32_t> vacant_;
  std::map<std::uint32_t, PartFailure> broken_;  // by place: what is new when the place is filled
  int spares_;  // those in stock, and repaired nodes that nobody has needed yet
};

}  // namespace paceline
