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
  crossings_.reserve(2 * expected_flows);
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
  flow = Flow{};
  flow.cap = cap.value;
  flow.remaining = bytes ? static_cast<double>(bytes->value) : 0;
  flow.endless = !bytes;
  flow.settled = now;
  flow.sequence = ++sequence_;
  flow.tag = tag;
  for (const LinkId link : links) {
    cross(id, link.value);
  }
  started_.push_back({id, flow.sequence});
  ++live_;
  return FlowId(id);
}

void FlowNetwork::cross(std::uint32_t flow, std::uint32_t link_id) {
  Link& link = links_[link_id];
  if (link.last_crossing != kNowhere && crossings_[link.last_crossing].flow == flow) {
    return;  // a repeated link: the last to start on it is this flow
  }
  const Crossing crossing{flow, link_id, flows_[flow].first_crossing, kNowhere, link.last_crossing};
  std::uint32_t id = free_crossing_;
  if (id == kNowhere) {
    id = static_cast<std::uint32_t>(crossings_.size());
    crossings_.push_back(crossing);
  } else {
    free_crossing_ = crossings_[id].next_of_flow;
    crossings_[id] = crossing;
  }
  flows_[flow].first_crossing = id;
  (link.last_crossing == kNowhere ? link.first_crossing : crossings_[link.last_crossing].next_on_link) = id;
  link.last_crossing = id;
  ++link.flows;
  mark_changed(link_id);
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
}

void FlowNetwork::remove(std::uint32_t id) {
  Flow& flow = flows_[id];
  for (std::uint32_t c = flow.first_crossing; c != kNowhere;) {
    Crossing& crossing = crossings_[c];
    Link& link = links_[crossing.link];
    const std::uint32_t before = crossing.before_on_link, after = crossing.next_on_link;
    (before == kNowhere ? link.first_crossing : crossings_[before].next_on_link) = after;
    (after == kNowhere ? link.last_crossing : crossings_[after].before_on_link) = before;
    --link.flows;
    mark_changed(crossing.link);
    const std::uint32_t next = crossing.next_of_flow;
    crossing.next_of_flow = free_crossing_;
    free_crossing_ = c;
    c = next;
  }
  flow.sequence = 0;
  free_flows_.push_back(id);
  --live_;
}

std::optional<SimTime> FlowNetwork::next() const {
  return ends_.empty() ? std::nullopt : std::optional(ends_.front().at);
}

void FlowNetwork::take_ended(SimTime now, std::vector<std::uint64_t>& tags) {
  assert(ends_.empty() || now <= ends_.front().at);
  while (!ends_.empty() && ends_.front().at == now) {
    const std::uint32_t flow = ends_.front().flow;
    tags.push_back(flows_[flow].tag);
    drop_end(flow);
    remove(flow);
  }
}

BytesPerSecond FlowNetwork::rate(FlowId flow) const { return BytesPerSecond(flows_[flow.index()].rate); }

void FlowNetwork::share(SimTime now) {
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

// The flows whose rate may differ from before, in order of start, and the tight links among them, in order of
// index: a closed set, for every flow of such a link is in it.
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
    for (std::uint32_t c = flows_[visited_flows_[i]].first_crossing; c != kNowhere;
         c = crossings_[c].next_of_flow) {
      Link& link = links_[crossings_[c].link];
      if (link.tight && link.visit != visit_) {
        link.visit = visit_;
        visited_links_.push_back(crossings_[c].link);
        visit_flows_of(link);
      }
    }
  }
  std::sort(visited_flows_.begin(), visited_flows_.end(),
            [this](std::uint32_t a, std::uint32_t b) { return flows_[a].sequence < flows_[b].sequence; });
  std::sort(visited_links_.begin(), visited_links_.end());
}

bool FlowNetwork::caps_fit(const Link& link) const {
  double caps = 0;
  for (std::uint32_t c = link.first_crossing; c != kNowhere; c = crossings_[c].next_on_link) {
    caps += flows_[crossings_[c].flow].cap;
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
  for (std::uint32_t c = link.first_crossing; c != kNowhere; c = crossings_[c].next_on_link) {
    visit_flow(crossings_[c].flow);
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
    link.unfilled = link.flows;
    levels_.push_back({link.room / link.unfilled, id});
  }
  std::make_heap(levels_.begin(), levels_.end(), std::greater<>());
  for (const std::uint32_t flow : visited_flows_) {
    flows_[flow].next_rate = kRising;
  }
  by_cap_ = visited_flows_;
  std::sort(by_cap_.begin(), by_cap_.end(), [this](std::uint32_t a, std::uint32_t b) {
    const Flow &left = flows_[a], &right = flows_[b];
    return left.cap != right.cap ? left.cap < right.cap : left.sequence < right.sequence;
  });
  for (const std::uint32_t flow : by_cap_) {
    while (flows_[flow].next_rate == kRising) {
      const std::optional<Level> level = lowest_level();
      if (!level || flows_[flow].cap <= level->rate * (1 + kRateSlack)) {
        fix(flow, flows_[flow].cap);
        continue;
      }
      for (std::uint32_t c = links_[level->link].first_crossing; c != kNowhere;
           c = crossings_[c].next_on_link) {
        if (flows_[crossings_[c].flow].next_rate == kRising) {
          fix(crossings_[c].flow, level->rate);
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
  for (std::uint32_t c = flows_[flow].first_crossing; c != kNowhere; c = crossings_[c].next_of_flow) {
    Link& link = links_[crossings_[c].link];
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
