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
//
// A component (flows connected through tight links) consists of *crowds* if each of its flows crosses exactly
// one of some tight links, the *ports*, and no other link holds anyone back. A crowd is what crosses one
// port. Any other tight link leaves room for all if
//   - it is as wide as the ports of the crowds on it together: it lies behind them; or
//   - each of these crowds has its level below the link's equal part, capacity / flows on it: the link of a
//     worker, say, that sends to several busy servers.
// Where every flow of the component allows it (Clock::shared), each crowd keeps one clock for all (crowd.h):
// a start or end takes O(log flows), and as much for each crowd on each link of the flow and for each flow
// whose cap the level crosses; O(flows on the link) where a link becomes tight. O(flows of the component)
// where it becomes one of crowds or ceases to be: a level meets a link's equal part, a port is tight no more,
// or a flow comes that crosses no port, or two. Which it is depends on the live flows alone (find_ports).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/id.h"
#include "core/time.h"
#include "core/units.h"
#include "sim/network/crowd.h"
#include "sim/network/fixed.h"
#include "sim/network/placed_heap.h"

namespace paceline {

// own: what is left of a flow is settled when its rate changes, and it can be restarted. shared: where it
// is in a crowd, the crowd's clock serves it; its end may then be rounded to the neighbouring picosecond.
enum class Clock : std::uint8_t { own, shared };

class FlowNetwork {
 public:
  // Requires: capacities > 0.
  FlowNetwork(std::vector<BytesPerSecond> link_capacity, std::size_t expected_flows);

  // A flow over `links` (ids below the number of capacities; repeated ids count once) that lives from the
  // coming share(now), which has the same now. bytes = nullopt: it never ends (background traffic). `tag`
  // comes back from take_ended. The id is the flow's until it ends or is stopped, and may then be another's.
  // alike: it stands for so many flows that start and end together, and has each one's rate and bytes.
  // Requires: 0 < cap, finite unless the flow has a link; bytes >= 0; alike > 0, and 1 with a shared clock.
  FlowId start(std::span<const LinkId> links, BytesPerSecond cap, std::optional<Bytes> bytes,
               std::uint64_t tag, SimTime now, Clock clock = Clock::own, std::uint32_t alike = 1);
  // A flow that ended at `now`, with this tag and cap, once more: as start with the same links, but nothing
  // is shared anew for it. False when it has gone, is another's, or doesn't have its own clock.
  bool restart(FlowId ended, BytesPerSecond cap, Bytes bytes, std::uint64_t tag, SimTime now);
  // Removes a live flow, finished or not; its links are shared anew at the coming share(now).
  void stop(FlowId flow, SimTime now);

  // The earliest end of a flow, or nullopt when none ends. A flow that is not yet shared has no end, nor has one
  // beside which another has ended or was stopped since the last share.
  std::optional<SimTime> next() const {
    if (crowd_ends_.empty()) {
      return ends_.empty() ? std::nullopt : std::optional(ends_.top().key);
    }
    const SimTime of_crowds = crowd_ends_.top().key;
    return ends_.empty() ? of_crowds : std::min(ends_.top().key, of_crowds);
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
      const auto& [rate, remaining, settled, end] = progress(id);
      f(LiveFlow{flows_[id].tag, BytesPerSecond(rate), remaining, settled, end});
    }
  }

  // How many flows the last share that had something to do looked at: one that a share in two forms looks at
  // in both counts twice.
  std::size_t visited() const { return visited_; }
  // How many crowds there are.
  std::size_t crowds() const { return crowds_.size() - free_crowds_.size(); }

 private:
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};

  // A flow on a link, or a link of a flow: which, and its place among the other's.
  struct Crossing {
    std::uint32_t other = 0;
    std::uint32_t place = 0;
  };
  struct Flow {
    double cap = 0, rate = 0, next_rate = 0;  // in a crowd, the crowd has the rate
    double remaining = 0;                     // bytes left at `settled`
    SimTime settled;
    std::uint64_t sequence = 0;  // order of start; 0: this entry is free
    std::uint64_t tag = 0, visit = 0;
    std::uint32_t crowd = kNowhere, member = 0;
    std::uint32_t port = kNowhere;  // while gathering: the link that may hold it back
    std::uint32_t alike = 1;        // flows that it stands for
    Clock clock = Clock::own;
    bool endless = false;
    bool ended = false;           // at this instant: still on its links, for a restart
    std::vector<Crossing> links;  // each once
  };
  // A crowd on a link that isn't its port, and which of the crowd's transits that is.
  struct Through {
    std::uint32_t crowd = 0;
    std::uint32_t transit = 0;
  };
  struct Link {
    Capacity capacity;
    Fixed width = 0;              // its capacity
    double room = 0;              // while filling: capacity not yet given
    std::uint32_t unfilled = 0;   // while filling: flows without a rate, counted likewise
    std::vector<Crossing> flows;  // in no order
    std::uint32_t crossings = 0;  // of them, counted with those alike
    Fixed load = 0;               // of their caps
    std::uint64_t visit = 0;
    std::uint32_t crowd = kNowhere;  // whose port this is
    std::vector<Through> through;    // if tight: other crowds that have flows on it, in no order
    bool changed = false;
    bool tight = false;      // as of the last share: the caps of its flows do not fit
    bool was_tight = false;  // before
  };
  // The flows of a crowd on a tight link that isn't its port.
  struct Transit {
    std::uint32_t link = 0;
    std::uint32_t flows = 0;  // how many; 0: this entry is free
  };
  struct CrowdOnLinks {
    Crowd flows;
    std::uint32_t port = 0;
    std::vector<Transit> transits;
    std::vector<std::uint32_t> free_transits;
    PlacedHeap<double> limits;  // by transit: the level at which the link may hold someone back
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

  void take_off(Crossing crossing);
  void remove(std::uint32_t flow);
  void remove_ended();
  void mark_changed(std::uint32_t link);

  void share_anew(SimTime now);
  void find_affected(SimTime now);
  void find_component(std::uint32_t seed, SimTime now);
  void visit_flow(std::uint32_t flow);
  void visit_components_of(const Link& link, SimTime now);

  bool join_crowd(std::uint32_t flow, SimTime now);
  bool gather(std::span<const std::uint32_t> flows, std::span<std::uint32_t> links, SimTime now);
  bool find_ports(std::span<const std::uint32_t> flows, std::span<std::uint32_t> links);
  void open_crowd(std::uint32_t port, SimTime now);
  void close_crowd(std::uint32_t crowd);
  void dissolve(std::uint32_t crowd, SimTime now);
  void add_to_crowd(std::uint32_t flow, std::uint32_t crowd, SimTime now);
  void enter(std::uint32_t link, std::uint32_t crowd);
  void depart(std::uint32_t link, std::uint32_t crowd);
  void forget_transit(Through through);
  void limit_crowds(const Link& link);
  static double equal_part(const Link& link) {
    return link.capacity.rate / static_cast<double>(link.flows.size());
  }
  bool has_room(std::uint32_t crowd) const;
  bool leaves_room(const Link& link) const;
  void share_crowd(std::uint32_t crowd, SimTime now);
  void note_end(std::uint32_t crowd);
  Crowd::Progress progress(std::uint32_t flow) const;

  void fill();
  std::optional<Level> lowest_level();
  void fix(std::uint32_t flow, double rate);
  void settle(std::uint32_t flow, SimTime now);

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_flows_;
  PlacedHeap<SimTime> ends_;  // of flows in no crowd
  std::vector<CrowdOnLinks> crowds_;
  std::vector<std::uint32_t> free_crowds_;
  PlacedHeap<SimTime> crowd_ends_;  // each crowd's earliest
  std::uint64_t sequence_ = 0, visit_ = 0;
  std::size_t live_ = 0, visited_ = 0;

  std::vector<std::uint32_t> ended_;          // since the last share, restarted or not
  std::vector<Start> started_;                // since the last share
  std::vector<std::uint32_t> changed_links_;  // since the last share
  std::vector<std::uint32_t> visited_flows_, visited_links_, by_start_, new_crowds_;
  std::vector<Capped> by_cap_;
  std::vector<Level> levels_;
};

}  // namespace paceline
