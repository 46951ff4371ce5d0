// When parts fail: renewal processes, drawn by address (seed, kind, part, how often it has failed), in order of time.
//
// The clock of a part stands while its node is out: what doesn't run doesn't age. So a part's age is that of its
// place in the job, and a spare is taken to be as old as what it replaces; of exponential times it is all one.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include "sim/campaign/campaign_spec.h"

namespace paceline {

struct PartFailure {
  CampaignTime at;
  std::uint32_t kind = 0;  // of failures, then of passing states
  std::uint32_t part = 0;
  std::uint32_t count = 0;  // how often it had failed before
};

class FailureTimes {
 public:
  explicit FailureTimes(const CampaignSpec&);

  // The next one; nothing before the campaign's end. Stands until it is taken.
  const PartFailure* next();
  void take() { queue_.pop(); }
  // The part is as new at `at`, which is not before what happened last.
  void renew(const PartFailure&, CampaignTime at);

  void node_leaves(std::uint32_t node, CampaignTime at);
  void node_returns(std::uint32_t node, CampaignTime at);

 private:
  struct Entry {
    PartFailure failure;
    CampaignTime outage;  // of its node, as far as `at` knows it
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const;
  };
  struct Outage {
    CampaignTime before;                // all that have ended
    std::optional<CampaignTime> since;  // the one that lasts
    std::vector<Entry> held;            // what would have failed in it
  };

  std::optional<std::uint32_t> node_of(const PartFailure&) const;
  double shape_of(std::uint32_t kind) const;
  void add(double u, std::uint32_t kind, std::uint32_t part, std::uint32_t count, CampaignTime from);

  const CampaignSpec& spec_;
  std::vector<std::uint32_t> addresses_;  // by kind
  std::vector<double> scales_;            // of -ln u to the power of 1 / shape, in picoseconds
  std::vector<double> beyond_;            // below such a u a part outlives the campaign, whenever it began
  std::vector<Outage> outages_;           // by node
  std::priority_queue<Entry, std::vector<Entry>, Later> queue_;
};

}  // namespace paceline
