#include "sim/network/flow_network.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>

namespace paceline {

FlowNetwork::FlowNetwork(std::vector<BytesPerSecond> link_capacity, std::size_t expected_flows)
    : links_(link_capacity.size()) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    assert(link_capacity[i].value > 0);
    links_[i].capacity = link_capacity[i].value;
  }
  flows_.reserve(expected_flows);
  free_flows_.reserve(expected_flows);
  ends_.reserve(expected_flows);
  by_start_.reserve(expected_flows);
  ended_.reserve(expected_flows);
}

FlowId FlowNetwork::start(std::span<const LinkId> links, BytesPerSecond cap, std::optional<Bytes> bytes,
                          std::uint64_t tag, SimTime now) {
  assert(cap.value > 0 && (std::isfinite(cap.value) || !links.empty()));
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
  flow.links.clear();
  for (const LinkId link : links) {
    std::vector<OnLink>& on = links_[link.index()].flows;
    if (on.empty() || on.back().flow != id) {  // else a repeated link: the last to start on it is this flow
      on.push_back({flow.cap, id});
      flow.links.push_back(link.value);
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
  if (!flow.ended || flow.tag != tag || flow.cap != cap.value) {
    return false;
  }
  flow.ended = false;
  flow.remaining = static_cast<double>(bytes.value);
  flow.settled = now;
  flow.sequence = ++sequence_;
  for (const std::uint32_t link : flow.links) {
    take_off(ended.value, link);
    links_[link].flows.push_back({flow.cap, ended.value});
  }
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
  drop_end(flow.value);
  remove(flow.value);
  --live_;
}

void FlowNetwork::take_off(std::uint32_t flow, std::uint32_t link) {
  std::vector<OnLink>& on = links_[link].flows;
  on.erase(std::ranges::find(on, flow, &OnLink::flow));
}

void FlowNetwork::remove(std::uint32_t id) {
  Flow& flow = flows_[id];
  for (const std::uint32_t link : flow.links) {
    take_off(id, link);
    mark_changed(link);
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
  assert(ends_.empty() || now <= ends_.front().at);
  while (!ends_.empty() && ends_.front().at == now) {
    const std::uint32_t flow = ends_.front().flow;
    tags.push_back(flows_[flow].tag);
    drop_end(flow);
    flows_[flow].ended = true;
    ended_.push_back(flow);
    --live_;
  }
}

BytesPerSecond FlowNetwork::rate(FlowId flow) const { return BytesPerSecond(flows_[flow.index()].rate); }

void FlowNetwork::share_anew(SimTime now) {
  remove_ended();
  if (started_.empty() && changed_links_.empty()) {
    return;
  }
  find_affected();
  fill();
  for (const std::uint32_t flow : visited_flows_) {
    if (flows_[flow].next_rate != flows_[flow].rate) {
      settle(flow, now);
    }
  }
}

// The flows whose rate may differ from before, and the tight links among them: a closed set, for every flow of
// such a link is in it.
void FlowNetwork::find_affected() {
  ++visit_;
  visited_flows_.clear();
  visited_links_.clear();
  for (const Start& start : started_) {
    if (flows_[start.flow].sequence == start.sequence) {  // not stopped since
      visit_flow(start.flow);
    }
  }
  for (const std::uint32_t id : changed_links_) {
    Link& link = links_[id];
    const bool was_tight = link.tight;
    link.tight = !caps_fit(link);
    link.changed = false;
    if (was_tight) {  // a link that has become tight has a flow in started_
      visit_flows_of(link);
    }
  }
  started_.clear();
  changed_links_.clear();
  for (std::size_t i = 0; i < visited_flows_.size(); ++i) {  // grows as it goes
    for (const std::uint32_t id : flows_[visited_flows_[i]].links) {
      Link& link = links_[id];
      if (link.tight && link.visit != visit_) {
        link.visit = visit_;
        visited_links_.push_back(id);
        visit_flows_of(link);
      }
    }
  }
}

bool FlowNetwork::caps_fit(const Link& link) const {
  double caps = 0;
  for (const OnLink& on : link.flows) {
    caps += on.cap;
  }
  return caps <= link.capacity * (1 + kRateSlack);
}

void FlowNetwork::visit_flow(std::uint32_t flow) {
  if (flows_[flow].visit != visit_) {
    flows_[flow].visit = visit_;
    visited_flows_.push_back(flow);
  }
}

void FlowNetwork::visit_flows_of(const Link& link) {
  for (const OnLink& on : link.flows) {
    visit_flow(on.flow);
  }
}

// Water-filling (see water_fill.cpp) of the visited flows over the visited links. Levels rise as flows stop,
// so a link's level in the heap is a lower bound, brought up to date when it comes to the top.
void FlowNetwork::fill() {
  constexpr double kRising = -1;
  levels_.clear();
  for (const std::uint32_t id : visited_links_) {
    Link& link = links_[id];
    link.room = link.capacity;
    link.unfilled = static_cast<std::uint32_t>(link.flows.size());
    levels_.push_back({link.room / link.unfilled, id});
  }
  std::make_heap(levels_.begin(), levels_.end(), std::greater<>());
  by_cap_.clear();
  for (const std::uint32_t id : visited_flows_) {
    Flow& flow = flows_[id];
    flow.next_rate = kRising;
    by_cap_.push_back({flow.cap, flow.sequence, id});
  }
  std::ranges::sort(by_cap_);
  for (const Capped& next : by_cap_) {
    while (flows_[next.flow].next_rate == kRising) {
      const std::optional<Level> level = lowest_level();
      if (!level || next.cap <= level->rate * (1 + kRateSlack)) {
        fix(next.flow, next.cap);
        continue;
      }
      for (const OnLink& on : links_[level->link].flows) {
        if (flows_[on.flow].next_rate == kRising) {
          fix(on.flow, level->rate);
        }
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

void FlowNetwork::fix(std::uint32_t flow, double rate) {
  flows_[flow].next_rate = rate;
  for (const std::uint32_t id : flows_[flow].links) {
    Link& link = links_[id];
    if (link.tight) {
      link.room -= rate;
      --link.unfilled;
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
    const SimTime left = to_sim_time(Seconds(flow.remaining / flow.rate));
    set_end(id, left < kNever - now ? now + left : kNever);
  }
}

void FlowNetwork::set_end(std::uint32_t flow, SimTime at) {
  std::size_t hole = flows_[flow].place_in_ends;
  if (hole == kNowhere) {
    hole = ends_.size();
    ends_.emplace_back();
  }
  place_end({at, flows_[flow].sequence, flow}, hole);
}

void FlowNetwork::drop_end(std::uint32_t flow) {
  const std::size_t hole = flows_[flow].place_in_ends;
  if (hole == kNowhere) {
    return;
  }
  flows_[flow].place_in_ends = kNowhere;
  const End last = ends_.back();
  ends_.pop_back();
  if (hole < ends_.size()) {
    place_end(last, hole);
  }
}

// Puts `end` where it belongs on the way up or down from the hole.
void FlowNetwork::place_end(const End& end, std::size_t hole) {
  const auto put = [this](const End& moved, std::size_t place) {
    ends_[place] = moved;
    flows_[moved.flow].place_in_ends = static_cast<std::uint32_t>(place);
  };
  for (; hole > 0 && end < ends_[(hole - 1) / 2]; hole = (hole - 1) / 2) {
    put(ends_[(hole - 1) / 2], hole);
  }
  for (std::size_t child = 2 * hole + 1; child < ends_.size(); child = 2 * hole + 1) {
    if (child + 1 < ends_.size() && ends_[child + 1] < ends_[child]) {
      ++child;
    }
    if (!(ends_[child] < end)) {
      break;
    }
    put(ends_[child], hole);
    hole = child;
  }
  put(end, hole);
}

}  // namespace paceline
