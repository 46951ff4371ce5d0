#include "sim/collective/passes.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "core/simd.h"

namespace paceline {
namespace {

constexpr SimTime kLongAgo{std::numeric_limits<std::int64_t>::min()};
constexpr std::uint32_t kMostInRow = 64, kMostLanes = 8;
constexpr std::uint32_t kUnseen = std::numeric_limits<std::uint32_t>::max();

// A channel's thread blocks, depth first after those that they receive from; where these form a cycle,
// somewhere in it.
std::vector<std::uint32_t> producers_first(const CollectiveGraph& graph, const Channel& channel) {
  std::vector<std::uint32_t> order, stack;
  std::vector<std::uint32_t> next_in(channel.last - channel.first, kUnseen);
  const auto begin = [&](std::uint32_t w) {
    if (next_in[w - channel.first] == kUnseen) {
      next_in[w - channel.first] = graph.thread_blocks[w].first_in;
      stack.push_back(w);
    }
  };
  order.reserve(next_in.size());
  for (std::uint32_t w = channel.first; w < channel.last; ++w) {
    begin(w);
    while (!stack.empty()) {
      const std::uint32_t top = stack.back();
      std::uint32_t& next = next_in[top - channel.first];
      if (next == in_end(graph, top)) {
        order.push_back(top);
        stack.pop_back();
      } else {
        begin(graph.fifos[graph.in[next++]].from);
      }
    }
  }
  return order;
}

// Moves of one step, one after the other, each FIFO's slots in a row; lanes beside each other.
struct Run {
  std::uint32_t moves = 0;
  bool limited = false;     // FIFOs have slots
  SimTime stay{};           // how long a move takes
  SimTime* time = nullptr;  // by lane: when the thread block is free
  std::uint32_t ins = 0, outs = 0;
  SimTime* const* in = nullptr;
  const SlotsSent* out = nullptr;
};

// `moves` is run.moves, as a constant where it is a usual one.
template <std::uint32_t kLanes, class Moves>
PACELINE_INLINE void make(const Run& run, const Moves moves) {
  std::int64_t start[kMostInRow * kLanes];
  const std::uint32_t all = moves * kLanes;
  for (std::uint32_t i = 0; i < all; ++i) {
    start[i] = kLongAgo.ps;
  }
  for (std::uint32_t p = 0; p < run.ins; ++p) {
    const SimTime* const arrival = run.in[p];
    for (std::uint32_t i = 0; i < all; ++i) {
      start[i] = start[i] > arrival[i].ps ? start[i] : arrival[i].ps;
    }
  }
  for (std::uint32_t p = 0; run.limited && p < run.outs; ++p) {
    const SimTime* const emptied = run.out[p].emptied;
    for (std::uint32_t i = 0; i < all; ++i) {
      const std::int64_t free = emptied[i].ps;
      start[i] = start[i] > free ? start[i] : free;
    }
  }
  const std::int64_t stay = run.stay.ps;
  for (std::uint32_t i = 0; i < moves; ++i) {
    std::int64_t* const begin = start + i * kLanes;
#pragma GCC unroll 1  // unrolled, GCC takes lane after lane
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      const std::int64_t free = i == 0 ? run.time[lane].ps : start[(i - 1) * kLanes + lane] + stay;
      begin[lane] = begin[lane] > free ? begin[lane] : free;  // NOLINT(clang-analyzer-core.*): all are set
    }
  }
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    run.time[lane].ps = start[all - kLanes + lane] + stay;  // NOLINT(clang-analyzer-*): there is a move
  }
  for (std::uint32_t p = 0; p < run.outs; ++p) {
    SimTime* const arrival = run.out[p].arrival;
    const std::int64_t way = run.out[p].way.ps;
    for (std::uint32_t i = 0; i < all; ++i) {
      arrival[i].ps = start[i] + way;
    }
  }
  for (std::uint32_t p = 0; run.limited && p < run.ins; ++p) {
    SimTime* const emptied = run.in[p];
    for (std::uint32_t i = 0; i < all; ++i) {
      emptied[i].ps = start[i] + stay;
    }
  }
}

template <std::uint32_t kLanes>
PACELINE_INLINE void make_lanes(const Run& run) {
  switch (run.moves) {
    case 1:
      make<kLanes>(run, std::integral_constant<std::uint32_t, 1>{});
      break;
    case 8:
      make<kLanes>(run, std::integral_constant<std::uint32_t, 8>{});
      break;
    default:
      make<kLanes>(run, run.moves);
  }
}

PACELINE_VECTORIZED void make_moves(const Run& run, std::uint32_t lanes) {
  switch (lanes) {
    case 1:
      make_lanes<1>(run);
      break;
    case 2:
      make_lanes<2>(run);
      break;
    case 4:
      make_lanes<4>(run);
      break;
    default:
      make_lanes<kMostLanes>(run);
  }
}

}  // namespace

Passes::Passes(const CollectiveGraph& graph) : never_filled_(std::size_t{kMostInRow} * kMostLanes, kLongAgo) {
  std::vector<Channel> channels = channels_of(graph);
  if (channels.empty()) {
    channels.push_back({.last = static_cast<std::uint32_t>(graph.thread_blocks.size()),
                        .fifos = static_cast<std::uint32_t>(graph.fifos.size())});
  }
  for (const Channel& channel : channels) {
    const auto alike = std::find_if(parts_.rbegin(), parts_.rend(), [&](const Part& part) {
      return part.lanes.size() < kMostLanes && same_channel(graph, part.channel, channel, Ranks::any);
    });
    if (alike == parts_.rend()) {
      parts_.push_back({.channel = channel, .lanes = {0}});
    } else {
      alike->lanes.push_back(channel.first - alike->channel.first);
    }
  }
  for (Part& part : parts_) {
    add_visits(graph, part);
  }
}

void Passes::add_visits(const CollectiveGraph& graph, Part& part) {
  std::vector<std::uint32_t> number(part.channel.fifos);
  std::uint32_t fifos = 0;
  part.first = static_cast<std::uint32_t>(visits_.size());
  for (const std::uint32_t w : producers_first(graph, part.channel)) {
    visits_.push_back({w, graph.thread_blocks[w].script, fifos, 0});
    for (std::uint32_t p = graph.thread_blocks[w].first_in; p < in_end(graph, w); ++p) {
      number[graph.in[p] - part.channel.fifo] = fifos++;
    }
    in_.resize(std::max<std::size_t>(in_.size(), in_end(graph, w) - graph.thread_blocks[w].first_in));
    sent_.resize(std::max<std::size_t>(sent_.size(), out_end(graph, w) - graph.thread_blocks[w].first_out));
  }
  part.last = static_cast<std::uint32_t>(visits_.size());
  for (std::uint32_t v = part.first; v < part.last; ++v) {
    const std::uint32_t w = visits_[v].thread_block;
    visits_[v].first_out = static_cast<std::uint32_t>(out_.size());
    for (std::uint32_t p = graph.thread_blocks[w].first_out; p < out_end(graph, w); ++p) {
      out_.push_back({number[graph.out[p] - part.channel.fifo], graph.fifos[graph.out[p]].hop});
    }
  }
}

void Passes::run(const CollectivePlan& plan, const StepTimes& steps, std::span<SimTime> time) {
  run(plan, steps, std::span<const std::span<SimTime>>(&time, 1));
}

void Passes::run(const CollectivePlan& plan, const StepTimes& steps,
                 std::span<const std::span<SimTime>> times) {
  plan_ = &plan;
  limit_ = steps.window();
  mask_ = std::bit_ceil(limit_) - 1;
  for (const Part& part : parts_) {
    const std::size_t at_once = std::max<std::size_t>(1, kMostLanes / part.lanes.size());
    for (std::size_t first = 0; first < times.size(); first += at_once) {
      run_part(steps, part, times.subspan(first, std::min(at_once, times.size() - first)));
    }
  }
}

// Lanes of nothing go with the first one.
void Passes::run_part(const StepTimes& steps, const Part& part, std::span<const std::span<SimTime>> times) {
  const std::size_t channels = part.lanes.size(), used = channels * times.size();
  const auto time = [&](std::uint32_t v, std::size_t lane) -> SimTime& {
    return times[lane / channels][visits_[v].thread_block + part.lanes[lane % channels]];
  };
  lanes_ = static_cast<std::uint32_t>(std::bit_ceil(used));
  counts_.assign(part.channel.fifos, {});
  slots_.resize(std::max(slots_.size(), part.channel.fifos * (std::size_t{mask_} + 1) * lanes_));
  at_.clear();
  time_.clear();
  for (std::uint32_t v = part.first; v < part.last; ++v) {
    at_.push_back(steps.begin(visits_[v].script));
    for (std::uint32_t lane = 0; lane < lanes_; ++lane) {
      time_.push_back(time(v, lane < used ? lane : 0));
    }
  }
  run_passes(steps, part);
  for (std::uint32_t v = part.first; v < part.last; ++v) {
    for (std::size_t lane = 0; lane < used; ++lane) {
      time(v, lane) = time_[std::size_t{v - part.first} * lanes_ + lane];
    }
  }
}

void Passes::run_passes(const StepTimes& times, const Part& part) {
  std::uint64_t pass = 0;
  for (bool done = false, moved = true; !done;) {
    if (!moved) {
      throw std::logic_error("collective: a plan whose FIFOs are too short for it");
    }
    done = true;
    moved = false;
    for (std::uint32_t v = part.first; v < part.last; ++v) {
      Cursor& at = at_[v - part.first];
      if (!times.done(at)) {
        moved |= visit(times, visits_[v], at, &time_[std::size_t{v - part.first} * lanes_]);
        done &= times.done(at);
      }
    }
    pass = done || leave_out_repeats(times, pass) ? 0 : pass + 1;
  }
}

// Makes all the moves that are possible now; false: none is.
bool Passes::visit(const StepTimes& times, const Visit& visit, Cursor& at, SimTime* time) {
  bool moved = false;
  while (!times.done(at)) {
    const FlatStep& step = times.step(visit.script, at);
    const std::uint32_t alike = times.alike(at);
    const Possible can = possible(visit, step, alike);
    const std::uint32_t moves = std::min(can.moves, can.in_row);
    if (moves == 0) {
      break;
    }
    moved = true;
    const bool blocked = moves == can.moves && moves < alike;
    move(times, visit, step, at, time, moves);
    times.advance(visit.script, at, moves);
    if (blocked) {
      break;
    }
  }
  return moved;
}

Passes::Possible Passes::possible(const Visit& visit, const FlatStep& step, std::uint32_t most) const {
  const std::uint32_t size = mask_ + 1;
  Possible can{most, std::min(size, kMostInRow)};
  for (std::uint32_t p = 0; p < step.receive.count; ++p) {
    const Count& count = counts_[visit.first_in + step.receive.first + p];
    can.moves = std::min(can.moves, count.sent - count.received);
    can.in_row = std::min(can.in_row, size - (count.received & mask_));
  }
  for (std::uint32_t p = 0; p < step.send.count; ++p) {
    const Count& count = counts_[out_[visit.first_out + step.send.first + p].fifo];
    can.moves = std::min(can.moves, limit_ - (count.sent - count.received));
    can.in_row = std::min({can.in_row, size - (count.sent & mask_), size - ((count.sent - limit_) & mask_)});
  }
  return can;
}

// A slot holds the arrival of a slice until its receiver has read it, then the time at which it was emptied.
void Passes::move(const StepTimes& times, const Visit& visit, const FlatStep& step, const Cursor& at,
                  SimTime* time, std::uint32_t moves) {
  Run run{.moves = moves, .limited = plan_->slots > 0, .time = time};
  if (step.send.count == 0) {
    run.stay = times.copy(at, step);
  }
  run.ins = step.receive.count;
  run.in = in_.data();
  Count* const received = counts_.data() + visit.first_in + step.receive.first;
  for (std::uint32_t p = 0; p < run.ins; ++p) {
    in_[p] = slot(visit.first_in + step.receive.first + p, received[p].received);
    received[p].received += moves;
  }
  run.outs = step.send.count;
  run.out = sent_.data();
  const Out* const out = out_.data() + visit.first_out + step.send.first;
  for (std::uint32_t p = 0; p < run.outs; ++p) {
    Count& count = counts_[out[p].fifo];
    const SimTime stay = times.stay(at, step, out[p].hop);
    run.stay = std::max(run.stay, stay);
    sent_[p] = {slot(out[p].fifo, count.sent),
                count.sent < limit_ ? never_filled_.data() : slot(out[p].fifo, count.sent - limit_),
                stay + times.latency(at, step, out[p].hop)};
    count.sent += moves;
  }
  make_moves(run, lanes_);
}

}  // namespace paceline
