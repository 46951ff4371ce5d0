// Max-min fair sharing of links among live flows, each capped at its own rate.
//
// Vocabulary: a *link* has a capacity (B/s); a *flow* crosses a fixed set of links and has a cap (B/s) and
// remaining bytes. Rates are max-min fair: no flow's rate can grow without shrinking that of a flow that has
// no more. (Bertsekas and Gallager, Data Networks, 6.5.2; water-filling.)
//
// The network has no clock: it is told `now`. Starts and ends collect until share(now), once per instant. A
// link whose flows' caps fit into its capacity can't hold anyone back and connects nobody; only flows that
// are connected to a change through links that can are visited, and a flow's end is recomputed only when its
// rate changed: a flow that runs at one rate from start to end takes exactly round(bytes / rate), and one
// that its cap alone holds back has that cap as its rate, bit for bit. Rates depend on the live flows and
// their order of start, not on the history that led to them.
//
// Cost: start and stop O(links of the flow, log flows); share O(flows on the changed links) and, for the F
// flows visited, O(F log F) and their crossings; next O(1); take_ended O(log flows) each. Nothing is
// allocated once the tables have grown to the largest load.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/id.h"
#include "core/time.h"
#include "core/units.h"

namespace paceline {

// Caps that exceed what a link can give by no more than this (relative) are granted: capacity / n, n times,
// may add up to a little more than the capacity, and is meant to fit.
inline constexpr double kRateSlack = 1e-12;

class FlowNetwork {
 public:
  // Requires: capacities > 0.
  FlowNetwork(std::vector<BytesPerSecond> link_capacity, std::size_t expected_flows);

  // A flow over `links` (ids below the number of capacities; repeated ids count once) that lives from the
  // coming share(now), which has the same now. bytes = nullopt: it never ends (background traffic). `tag`
  // comes back from take_ended. The id is the flow's until it ends or is stopped, and may then be another's.
  // Requires: 0 < cap, finite unless the flow has a link; bytes >= 0.
  FlowId start(std::span<const LinkId> links, BytesPerSecond cap, std::optional<Bytes> bytes,
               std::uint64_t tag, SimTime now);
  // A flow that ended at `now`, with this tag and cap, once more: as start with the same links, but nothing is
  // shared anew for it. False when it has gone or is another's.
  bool restart(FlowId ended, BytesPerSecond cap, Bytes bytes, std::uint64_t tag, SimTime now);
  // Removes a live flow, finished or not; its links are shared anew at the coming share(now).
  void stop(FlowId flow, SimTime now);

  // The earliest end of a flow, or nullopt when none ends. A flow that is not yet shared has no end.
  std::optional<SimTime> next() const {
    return ends_.empty() ? std::nullopt : std::optional(ends_.front().at);
  }
  // Ends the flows whose end is `now`, in order of start, and appends their tags. Requires: now <= next().
  void take_ended(SimTime now, std::vector<std::uint64_t>& tags);
  // Recomputes rates where something changed.
  void share(SimTime now) {
    if (!ended_.empty() || !started_.empty() || !changed_links_.empty()) {
      share_anew(now);
    }
  }

  BytesPerSecond rate(FlowId flow) const;  // as of the last share; 0 before the first
  std::size_t live() const { return live_; }

  struct LiveFlow {
    std::uint64_t tag = 0;
    BytesPerSecond rate;
    double remaining = 0;  // bytes left at `settled`
    SimTime settled;
    std::optional<SimTime> end;
  };
  // Calls f(LiveFlow) in order of start: together all that decides what follows. Requires: a share since the
  // last start, stop or end.
  template <class F>
  void for_each_flow(const F& f) {
    by_start_.clear();
    for (std::uint32_t id = 0; id < flows_.size(); ++id) {
      if (flows_[id].sequence != 0) {
        by_start_.push_back(id);
      }
    }
    std::ranges::sort(by_start_, {}, [this](std::uint32_t id) { return flows_[id].sequence; });
    for (const std::uint32_t id : by_start_) {
      const Flow& flow = flows_[id];
      f(LiveFlow{flow.tag, BytesPerSecond(flow.rate), flow.remaining, flow.settled,
                 flow.endless ? std::nullopt : std::optional(ends_[flow.place_in_ends].at)});
    }
  }

  // How many flows the last share that had something to do looked at.
  std::size_t visited() const { return visited_flows_.size(); }

 private:
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};

  struct Flow {
    double cap = 0, rate = 0, next_rate = 0;
    double remaining = 0;  // bytes left at `settled`
    SimTime settled;
    std::uint64_t sequence = 0;  // order of start; 0: this entry is free
    std::uint64_t tag = 0, visit = 0;
    std::uint32_t place_in_ends = kNowhere;
    bool endless = false;
    bool ended = false;                // at this instant: still on its links, for a restart
    std::vector<std::uint32_t> links;  // each once
  };
  struct OnLink {
    double cap = 0;
    std::uint32_t flow = 0;
  };
  struct Link {
    double capacity = 0;
    double room = 0;             // while filling: capacity not yet given
    std::uint32_t unfilled = 0;  // while filling: flows without a rate
    std::vector<OnLink> flows;   // in order of start
    std::uint64_t visit = 0;
    bool changed = false;
    bool tight = false;  // as of the last share: the caps of its flows do not fit
  };
  struct End {
    SimTime at;
    std::uint64_t sequence;
    std::uint32_t flow;
    friend auto operator<=>(const End&, const End&) = default;
  };
  struct Start {
    std::uint32_t flow;
    std::uint64_t sequence;
  };
  struct Capped {
    double cap;
    std::uint64_t sequence;
    std::uint32_t flow;
    friend auto operator<=>(const Capped&, const Capped&) = default;
  };
  struct Level {
    double rate;
    std::uint32_t link;
    friend auto operator<=>(const Level&, const Level&) = default;
  };

  void take_off(std::uint32_t flow, std::uint32_t link);
  void remove(std::uint32_t flow);
  void remove_ended();
  void mark_changed(std::uint32_t link);

  void share_anew(SimTime now);
  void find_affected();
  bool caps_fit(const Link& link) const;
  void visit_flow(std::uint32_t flow);
  void visit_flows_of(const Link& link);

  void fill();
  std::optional<Level> lowest_level();
  void fix(std::uint32_t flow, double rate);
  void settle(std::uint32_t flow, SimTime now);

  // A binary heap of ends; place_in_ends says where a flow's is.
  void set_end(std::uint32_t flow, SimTime at);
  void drop_end(std::uint32_t flow);
  void place_end(const End& end, std::size_t hole);

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_flows_;
  std::vector<End> ends_;
  std::uint64_t sequence_ = 0, visit_ = 0;
  std::size_t live_ = 0;

  std::vector<std::uint32_t> ended_;          // since the last share, restarted or not
  std::vector<Start> started_;                // since the last share
  std::vector<std::uint32_t> changed_links_;  // since the last share
  std::vector<std::uint32_t> visited_flows_, visited_links_, by_start_;
  std::vector<Capped> by_cap_;
  std::vector<Level> levels_;
};

// The slow, obvious form: rates of all flows from scratch. The oracle of FlowNetwork in the tests.
struct FlowDemand {
  std::vector<LinkId> links;
  BytesPerSecond cap;
};
std::vector<BytesPerSecond> water_fill(std::span<const BytesPerSecond> link_capacity,
                                       std::span<const FlowDemand> flows);

}  // namespace paceline
