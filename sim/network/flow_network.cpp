#include "sim/network/flow_network.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

namespace paceline {

FlowNetwork::FlowNetwork(std::vector<BytesPerSecond> link_capacity, std::size_t expected_flows)
    : links_(link_capacity.size()) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    assert(link_capacity[i].value > 0);
    links_[i].capacity = {link_capacity[i].value};
    links_[i].width = to_fixed(link_capacity[i].value);
  }
  flows_.reserve(expected_flows);
  free_flows_.reserve(expected_flows);
  ends_.reserve(expected_flows);
  by_start_.reserve(expected_flows);
  ended_.reserve(expected_flows);
}

FlowId FlowNetwork::start(std::span<const LinkId> links, BytesPerSecond cap, std::optional<Bytes> bytes,
                          std::uint64_t tag, SimTime now, Clock clock, std::uint32_t alike) {
  assert(cap.value > 0 && (std::isfinite(cap.value) || !links.empty()));
  assert(alike == 1 || (alike > 1 && clock == Clock::own));
  std::uint32_t id = static_cast<std::uint32_t>(flows_.size());
  if (free_flows_.empty()) {
    flows_.emplace_back();
  } else {
    id = free_flows_.back();
    free_flows_.pop_back();
  }
  Flow& flow = flows_[id];
  flow.cap = cap.value;
  flow.rate = 0;
  flow.remaining = bytes ? static_cast<double>(bytes->value) : 0;
  flow.endless = !bytes;
  flow.settled = now;
  flow.sequence = ++sequence_;
  flow.tag = tag;
  flow.clock = clock;
  flow.alike = alike;
  flow.links.clear();
  for (const LinkId link : links) {
    Link& to = links_[link.index()];
    if (to.flows.empty() ||
        to.flows.back().other != id) {  // else a repeated link: this flow is the last on it
      flow.links.push_back({link.value, static_cast<std::uint32_t>(to.flows.size())});
      to.flows.push_back({id, static_cast<std::uint32_t>(flow.links.size() - 1)});
      to.load += to.capacity.load(flow.cap) * alike;
      to.crossings += alike;
      mark_changed(link.value);
    }
  }
  started_.push_back({id, flow.sequence});
  ++live_;
  return FlowId(id);
}

bool FlowNetwork::restart(FlowId ended, BytesPerSecond cap, Bytes bytes, std::uint64_t tag, SimTime now) {
  if (ended.index() >= flows_.size()) {
    return false;
  }
  Flow& flow = flows_[ended.index()];
  if (!flow.ended || flow.clock != Clock::own || flow.tag != tag || flow.cap != cap.value) {
    return false;
  }
  flow.ended = false;
  flow.remaining = static_cast<double>(bytes.value);
  flow.settled = now;
  flow.sequence = ++sequence_;
  ++live_;
  flow.next_rate = flow.rate;
  settle(ended.value, now);
  return true;
}

void FlowNetwork::mark_changed(std::uint32_t link) {
  if (!links_[link].changed) {
    links_[link].changed = true;
    changed_links_.push_back(link);
  }
}

void FlowNetwork::stop(FlowId flow, [[maybe_unused]] SimTime now) {
  assert(flows_[flow.index()].sequence != 0 && flows_[flow.index()].settled <= now);
  remove(flow.value);
  --live_;
}

void FlowNetwork::take_off(Crossing crossing) {
  std::vector<Crossing>& on = links_[crossing.other].flows;
  const Crossing last = on.back();
  on[crossing.place] = last;
  flows_[last.other].links[last.place].place = crossing.place;
  on.pop_back();
}

void FlowNetwork::remove(std::uint32_t id) {
  Flow& flow = flows_[id];
  ends_.drop(id);
  if (flow.crowd != kNowhere) {  // its end is noted when its port is shared anew
    crowds_[flow.crowd].flows.leave(flow.member);
    crowd_ends_.drop(flow.crowd);
    for (const Crossing& crossing : flow.links) {
      depart(crossing.other, flow.crowd);
    }
    flow.crowd = kNowhere;
  }
  for (const Crossing& crossing : flow.links) {
    Link& link = links_[crossing.other];
    take_off(crossing);
    link.load -= link.capacity.load(flow.cap) * flow.alike;
    link.crossings -= flow.alike;
    mark_changed(crossing.other);
  }
  flow.sequence = 0;
  free_flows_.push_back(id);
}

void FlowNetwork::remove_ended() {
  for (const std::uint32_t id : ended_) {
    if (flows_[id].ended) {
      flows_[id].ended = false;
      remove(id);
    }
  }
  ended_.clear();
}

void FlowNetwork::take_ended(SimTime now, std::vector<std::uint64_t>& tags) {
  assert(!next() || now <= *next());
  const std::size_t before = ended_.size();
  while (!ends_.empty() && ends_.top().key == now) {
    ended_.push_back(ends_.top().id);
    ends_.drop(ends_.top().id);
  }
  while (!crowd_ends_.empty() && crowd_ends_.top().key == now) {
    const std::uint32_t crowd = crowd_ends_.top().id;
    crowds_[crowd].flows.take_ended(now, ended_);
    crowd_ends_.drop(crowd);  // until it is shared anew
  }
  const auto ended = std::span(ended_).subspan(before);
  std::ranges::sort(ended, {}, [this](std::uint32_t flow) { return flows_[flow].sequence; });
  for (const std::uint32_t flow : ended) {
    flows_[flow].ended = true;
    tags.push_back(flows_[flow].tag);
  }
  live_ -= ended.size();
}

BytesPerSecond FlowNetwork::rate(FlowId id) const {
  const Flow& flow = flows_[id.index()];
  return BytesPerSecond(flow.crowd == kNowhere ? flow.rate : crowds_[flow.crowd].flows.rate(flow.member));
}

Crowd::Progress FlowNetwork::progress(std::uint32_t id) const {
  const Flow& flow = flows_[id];
  if (flow.crowd != kNowhere) {
    return crowds_[flow.crowd].flows.progress(flow.member);
  }
  return {flow.rate, flow.remaining, flow.settled,
          ends_.holds(id) ? std::optional(ends_.key(id)) : std::nullopt};
}

void FlowNetwork::share_anew(SimTime now) {
  remove_ended();
  if (started_.empty() && changed_links_.empty()) {
    return;
  }
  find_affected(now);
  fill();
  for (const std::uint32_t flow : visited_flows_) {
    if (flows_[flow].next_rate != flows_[flow].rate) {
      settle(flow, now);
    }
  }
}

// The flows whose rate may differ from before, and the tight links among them: a closed set, for every flow
// of such a link is in it. Crowds are left out: their own shares see to them.
void FlowNetwork::find_affected(SimTime now) {
  ++visit_;
  visited_ = 0;
  visited_flows_.clear();
  visited_links_.clear();
  for (const std::uint32_t id : changed_links_) {
    Link& link = links_[id];
    link.changed = false;
    link.was_tight = link.tight;
    link.tight = !link.capacity.fits(link.load);
    if (link.crowd != kNowhere && !link.tight) {
      dissolve(link.crowd, now);
    } else if (!link.through.empty() && !link.tight) {  // it has held nobody back
      for (const Through through : link.through) {
        forget_transit(through);
      }
      link.through.clear();
      link.was_tight = false;
    } else if (link.tight && !link.was_tight) {
      for (const Crossing& on : link.flows) {
        if (flows_[on.other].crowd != kNowhere) {
          ++visited_;
          enter(id, flows_[on.other].crowd);
        }
      }
    }
  }
  for (const Start& start : started_) {
    if (flows_[start.flow].sequence == start.sequence &&  // not stopped since
        flows_[start.flow].visit != visit_ && !join_crowd(start.flow, now)) {
      find_component(start.flow, now);
    }
  }
  for (const std::uint32_t id : changed_links_) {
    if (links_[id].crowd != kNowhere) {
      share_crowd(links_[id].crowd, now);
    }
    limit_crowds(links_[id]);
  }
  for (const std::uint32_t id : changed_links_) {
    const Link& link = links_[id];
    if (link.crowd == kNowhere && link.through.empty()) {
      if (link.was_tight) {  // a link that has become tight has a flow in started_
        visit_components_of(link, now);
      }
    } else if (!leaves_room(link)) {
      visit_components_of(link, now);
    }
  }
  started_.clear();
  changed_links_.clear();
}

// Visits all that is connected to the flow through tight links, unless it makes a crowd.
void FlowNetwork::find_component(std::uint32_t seed, SimTime now) {
  const std::size_t first_flow = visited_flows_.size(), first_link = visited_links_.size();
  visit_flow(seed);
  for (std::size_t i = first_flow; i < visited_flows_.size(); ++i) {  // grows as it goes
    for (const Crossing& crossing : flows_[visited_flows_[i]].links) {
      Link& link = links_[crossing.other];
      if (link.tight && link.visit != visit_) {
        link.visit = visit_;
        visited_links_.push_back(crossing.other);
        if (link.crowd != kNowhere) {
          dissolve(link.crowd, now);
        }
        for (const Crossing& on : link.flows) {
          visit_flow(on.other);
        }
      }
    }
  }
  if (gather(std::span(visited_flows_).subspan(first_flow), std::span(visited_links_).subspan(first_link),
             now)) {
    visited_flows_.resize(first_flow);
    visited_links_.resize(first_link);
  }
}

void FlowNetwork::visit_flow(std::uint32_t id) {
  Flow& flow = flows_[id];
  if (flow.visit != visit_) {
    flow.visit = visit_;
    visited_flows_.push_back(id);
    ++visited_;
  }
}

void FlowNetwork::visit_components_of(const Link& link, SimTime now) {
  for (const Crossing& on : link.flows) {
    if (flows_[on.other].visit != visit_) {
      find_component(on.other, now);
    }
  }
}

// A flow that has started joins the crowd at its port, if it crosses just one. Whether the component then
// still consists of crowds is seen when all have joined.
bool FlowNetwork::join_crowd(std::uint32_t id, SimTime now) {
  const Flow& flow = flows_[id];
  std::uint32_t crowd = kNowhere;
  for (const Crossing& crossing : flow.links) {
    const Link& link = links_[crossing.other];
    if (link.crowd != kNowhere) {
      if (crowd != kNowhere) {
        return false;
      }
      crowd = link.crowd;
    }
  }
  if (crowd == kNowhere || flow.clock != Clock::shared) {
    return false;
  }
  ++visited_;
  add_to_crowd(id, crowd, now);
  return true;
}

// Makes crowds of a component, if it consists of them.
bool FlowNetwork::gather(std::span<const std::uint32_t> flows, std::span<std::uint32_t> links, SimTime now) {
  if (!std::ranges::all_of(flows, [this](std::uint32_t f) { return flows_[f].clock == Clock::shared; }) ||
      !find_ports(flows, links)) {
    return false;
  }
  new_crowds_.clear();
  for (const std::uint32_t link : links) {
    if (flows_[links_[link].flows.front().other].port == link) {
      open_crowd(link, now);
    }
  }
  for (const std::uint32_t flow : flows) {
    add_to_crowd(flow, links_[flows_[flow].port].crowd, now);
  }
  for (const std::uint32_t link : links) {
    limit_crowds(links_[link]);
  }
  for (const std::uint32_t crowd : new_crowds_) {
    share_crowd(crowd, now);
  }
  if (!std::ranges::all_of(new_crowds_, [this](std::uint32_t crowd) { return has_room(crowd); })) {
    for (const std::uint32_t flow : flows) {
      flows_[flow].crowd = kNowhere;
    }
    for (const std::uint32_t crowd : new_crowds_) {
      close_crowd(crowd);
    }
    return false;
  }
  for (const std::uint32_t flow : flows) {
    ends_.drop(flow);
  }
  return true;
}

// The only choice of ports that may do. A link that leaves room has an equal part no smaller than that of one
// of its flows' ports: if it is as wide as they together, the least of their parts is no more than its own;
// if their levels are below its part, so are their parts, which the levels are no less than. So the link of
// the smallest part is a port, then whichever is next and has no flow in common with a port; of equal parts
// the one of fewer flows, for several ports may make up one behind them. False if a flow has no port, or
// another link of it certainly holds its crowd back.
bool FlowNetwork::find_ports(std::span<const std::uint32_t> flows, std::span<std::uint32_t> links) {
  const auto part = [this](std::uint32_t link) { return equal_part(links_[link]); };
  std::ranges::sort(
      links, {}, [&](std::uint32_t link) { return std::tuple(part(link), links_[link].flows.size(), link); });
  for (const std::uint32_t flow : flows) {
    flows_[flow].port = kNowhere;
  }
  const auto has_port = [this](const Crossing& on) { return flows_[on.other].port != kNowhere; };
  std::size_t have_port = 0;
  for (const std::uint32_t link : links) {
    if (std::ranges::none_of(links_[link].flows, has_port)) {
      for (const Crossing& on : links_[link].flows) {
        flows_[on.other].port = link;
      }
      have_port += links_[link].flows.size();
    }
  }
  // The level is no less than the port's part; and the ports of two flows of a link are some of all on it.
  const auto width = [this](std::uint32_t link) { return links_[link].capacity.rate; };
  const auto may_leave_room = [&](std::uint32_t link, std::uint32_t port) {
    const std::uint32_t first = flows_[links_[link].flows.front().other].port;
    return part(port) < part(link) || width(port) + (first == port ? 0 : width(first)) <= width(link);
  };
  return have_port == flows.size() && std::ranges::all_of(flows, [&](std::uint32_t id) {
           const std::uint32_t port = flows_[id].port;
           return std::ranges::all_of(flows_[id].links, [&](const Crossing& crossing) {
             const std::uint32_t link = crossing.other;
             return link == port || !links_[link].tight || may_leave_room(link, port);
           });
         });
}

void FlowNetwork::open_crowd(std::uint32_t port, SimTime now) {
  std::uint32_t id = static_cast<std::uint32_t>(crowds_.size());
  if (free_crowds_.empty()) {
    crowds_.emplace_back();
  } else {
    id = free_crowds_.back();
    free_crowds_.pop_back();
  }
  crowds_[id].port = port;
  crowds_[id].flows.open(links_[port].capacity, now);
  links_[port].crowd = id;
  new_crowds_.push_back(id);
}

void FlowNetwork::close_crowd(std::uint32_t id) {
  CrowdOnLinks& crowd = crowds_[id];
  for (const Transit& transit : crowd.transits) {
    if (transit.flows > 0) {
      std::erase_if(links_[transit.link].through, [id](const Through& t) { return t.crowd == id; });
    }
  }
  crowd.transits.clear();
  crowd.free_transits.clear();
  crowd.limits.clear();
  links_[crowd.port].crowd = kNowhere;
  crowd_ends_.drop(id);
  free_crowds_.push_back(id);
}

// Its flows are as any other; those that were rising have no rate until they are given one.
void FlowNetwork::dissolve(std::uint32_t id, SimTime now) {
  CrowdOnLinks& crowd = crowds_[id];
  crowd.flows.advance(now);
  for (const Crossing& on : links_[crowd.port].flows) {
    Flow& flow = flows_[on.other];
    if (flow.crowd == id) {
      const auto& [rate, remaining, settled, end] = crowd.flows.progress(flow.member);
      flow.rate = rate == flow.cap ? rate : 0;
      flow.remaining = remaining;
      flow.settled = settled;
      flow.crowd = kNowhere;
      if (end && flow.rate > 0) {
        ends_.set(on.other, *end);
      }
    }
  }
  close_crowd(id);
}

void FlowNetwork::add_to_crowd(std::uint32_t id, std::uint32_t crowd, SimTime now) {
  Flow& flow = flows_[id];
  flow.member = crowds_[crowd].flows.join(id, flow.cap, flow.endless, progress(id), now);
  flow.crowd = crowd;
  for (const Crossing& crossing : flow.links) {
    if (links_[crossing.other].tight && links_[crossing.other].crowd != crowd) {
      enter(crossing.other, crowd);
    }
  }
}

// One more flow of the crowd crosses the link, which isn't its port.
void FlowNetwork::enter(std::uint32_t link, std::uint32_t id) {
  std::vector<Through>& through = links_[link].through;
  const auto place = std::ranges::find(through, id, &Through::crowd);
  CrowdOnLinks& crowd = crowds_[id];
  if (place != through.end()) {
    ++crowd.transits[place->transit].flows;
    return;
  }
  std::uint32_t transit = static_cast<std::uint32_t>(crowd.transits.size());
  if (crowd.free_transits.empty()) {
    crowd.transits.emplace_back();
    crowd.limits.reserve(crowd.transits.capacity());
  } else {
    transit = crowd.free_transits.back();
    crowd.free_transits.pop_back();
  }
  crowd.transits[transit] = {link, 1};
  through.push_back({id, transit});
}

// One less, if these are counted: the link is tight, and not its port.
void FlowNetwork::depart(std::uint32_t link, std::uint32_t id) {
  std::vector<Through>& through = links_[link].through;
  const auto place = std::ranges::find(through, id, &Through::crowd);
  if (place != through.end() && --crowds_[id].transits[place->transit].flows == 0) {
    forget_transit(*place);
    *place = through.back();
    through.pop_back();
  }
}

void FlowNetwork::forget_transit(Through through) {
  CrowdOnLinks& crowd = crowds_[through.crowd];
  crowd.transits[through.transit].flows = 0;
  crowd.free_transits.push_back(through.transit);
  crowd.limits.drop(through.transit);
}

// Up to which level of the crowds that go through it the link leaves room.
void FlowNetwork::limit_crowds(const Link& link) {
  if (link.through.empty()) {
    return;
  }
  Fixed ports = 0;
  for (const Through& through : link.through) {
    ports += links_[crowds_[through.crowd].port].width;
  }
  const double limit = ports <= link.width ? std::numeric_limits<double>::infinity() : equal_part(link);
  for (const Through& through : link.through) {
    PlacedHeap<double>& limits = crowds_[through.crowd].limits;
    if (!limits.holds(through.transit) || limits.key(through.transit) != limit) {
      limits.set(through.transit, limit);
    }
  }
}

bool FlowNetwork::has_room(std::uint32_t crowd) const {
  const PlacedHeap<double>& limits = crowds_[crowd].limits;
  return limits.empty() || crowds_[crowd].flows.level() < limits.top().key;
}

// A tight link of crowds: all its flows are in one, and no other link hinders these crowds.
bool FlowNetwork::leaves_room(const Link& link) const {
  if (link.crowd != kNowhere) {
    return has_room(link.crowd);
  }
  std::size_t in_crowds = 0;
  for (const Through& through : link.through) {
    in_crowds += crowds_[through.crowd].transits[through.transit].flows;
  }
  return in_crowds == link.flows.size() &&
         std::ranges::all_of(link.through, [this](const Through& t) { return has_room(t.crowd); });
}

void FlowNetwork::share_crowd(std::uint32_t crowd, SimTime now) {
  visited_ += crowds_[crowd].flows.share(now);
  note_end(crowd);
}

void FlowNetwork::note_end(std::uint32_t crowd) {
  if (const std::optional<SimTime> end = crowds_[crowd].flows.next()) {
    crowd_ends_.set(crowd, *end);
  } else {
    crowd_ends_.drop(crowd);
  }
}

// Water-filling (plainly: tests/model/water_fill.cpp) of the visited flows over the visited links. Levels
// rise as flows stop, so a link's level in the heap is a lower bound, brought up to date when it comes to the
// top.
void FlowNetwork::fill() {
  constexpr double kRising = -1;
  levels_.clear();
  for (const std::uint32_t id : visited_links_) {
    Link& link = links_[id];
    link.room = link.capacity.rate;
    link.unfilled = link.crossings;
    levels_.push_back({link.room / link.unfilled, id});
  }
  std::make_heap(levels_.begin(), levels_.end(), std::greater<>());
  double least_cap = std::numeric_limits<double>::infinity();
  for (const std::uint32_t id : visited_flows_) {
    flows_[id].next_rate = kRising;
    least_cap = std::min(least_cap, flows_[id].cap);
  }
  const auto fill_link = [this](const Level& level) {
    for (const Crossing& on : links_[level.link].flows) {
      if (flows_[on.other].next_rate == kRising) {
        fix(on.other, level.rate);
      }
    }
  };
  for (std::optional<Level> level = lowest_level(); level && least_cap > level->rate * (1 + kRateSlack);
       level = lowest_level()) {
    fill_link(*level);
  }
  by_cap_.clear();  // those that may be held back by nothing else
  for (const std::uint32_t id : visited_flows_) {
    if (flows_[id].next_rate == kRising) {
      by_cap_.push_back({flows_[id].cap, flows_[id].sequence, id});
    }
  }
  std::ranges::sort(by_cap_);
  for (const Capped& next : by_cap_) {
    while (flows_[next.flow].next_rate == kRising) {
      const std::optional<Level> level = lowest_level();
      if (!level || next.cap <= level->rate * (1 + kRateSlack)) {
        fix(next.flow, next.cap);
      } else {
        fill_link(*level);
      }
    }
  }
}

// The level of the link that fills first, or nullopt when no link holds back a flow that still rises.
std::optional<FlowNetwork::Level> FlowNetwork::lowest_level() {
  while (!levels_.empty()) {
    const Level top = levels_.front();
    const Link& link = links_[top.link];
    const double now = link.unfilled == 0 ? 0 : link.room / link.unfilled;
    if (link.unfilled > 0 && now <= top.rate) {
      return Level{now, top.link};
    }
    std::pop_heap(levels_.begin(), levels_.end(), std::greater<>());
    levels_.pop_back();
    if (link.unfilled > 0) {
      levels_.push_back({now, top.link});
      std::push_heap(levels_.begin(), levels_.end(), std::greater<>());
    }
  }
  return std::nullopt;
}

// Flows alike are taken off one by one, so that a link's room is to the last bit what it is where each is a flow.
void FlowNetwork::fix(std::uint32_t id, double rate) {
  Flow& flow = flows_[id];
  flow.next_rate = rate;
  for (const Crossing& crossing : flow.links) {
    Link& link = links_[crossing.other];
    if (link.tight) {
      for (std::uint32_t i = 0; i < flow.alike; ++i) {
        link.room -= rate;
      }
      link.unfilled -= flow.alike;
    }
  }
}

void FlowNetwork::settle(std::uint32_t id, SimTime now) {
  Flow& flow = flows_[id];
  assert(flow.next_rate > 0 && flow.settled <= now);
  flow.remaining = std::max(0.0, flow.remaining - flow.rate * to_seconds(now - flow.settled).value);
  flow.settled = now;
  flow.rate = flow.next_rate;
  if (!flow.endless) {
    ends_.set(id, end_after(now, to_sim_time(Seconds(flow.remaining / flow.rate))));
  }
}

}  // namespace paceline
