// Does the incremental sharing equal naive water-filling on random graphs? Bytes in = bytes out? No link
// above capacity?
#include "sim/network/flow_network.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/fingerprint.h"
#include "tests/dice.h"
#include "water_fill.h"

namespace paceline {
namespace {

using Rates = std::vector<BytesPerSecond>;

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}
  std::int64_t below(std::int64_t bound) {
    state_ += 0x9e3779b97f4a7c15ULL;
    return static_cast<std::int64_t>(mix64(state_) % static_cast<std::uint64_t>(bound));
  }
  std::size_t index(std::size_t bound) {
    return static_cast<std::size_t>(below(static_cast<std::int64_t>(bound)));
  }
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(below(1'000'000'007)) / 1e9;
  }

 private:
  std::uint64_t state_;
};

struct LiveFlow {
  FlowId id;
  FlowDemand demand;
  std::optional<Bytes> bytes;
  Clock clock;
  std::uint64_t tag;
  double sent = 0;
};

// A network beside the test's own record of it.
struct Traffic {
  Rates capacity;
  FlowNetwork network;
  std::vector<LiveFlow> flows = {};  // in order of start
  SimTime now = {};
  std::uint64_t started = 0;
  std::int64_t ended = 0, same_bits = 0, compared = 0, with_crowds = 0;

  explicit Traffic(Rates link_capacity) : capacity(link_capacity), network(std::move(link_capacity), 4) {}

  void start(FlowDemand demand, std::optional<Bytes> bytes, Clock clock = Clock::own) {
    const FlowId id = network.start(demand.links, demand.cap, bytes, started, now, clock);
    flows.push_back({id, std::move(demand), bytes, clock, started++});
  }
  void stop(std::size_t which) {
    network.stop(flows[which].id, now);
    flows.erase(flows.begin() + static_cast<std::ptrdiff_t>(which));
  }
  void advance(SimTime to);
  void take_ended();
  void check_rates();
  void check_fair() const;
};

void Traffic::advance(SimTime to) {
  for (LiveFlow& flow : flows) {
    flow.sent += network.rate(flow.id).value * to_seconds(to - now).value;
  }
  now = to;
}

// What ended has sent its bytes, in order of start; what did not end has some left. An end is rounded to a
// picosecond.
void Traffic::take_ended() {
  std::vector<std::uint64_t> tags;
  network.take_ended(now, tags);
  REQUIRE(std::is_sorted(tags.begin(), tags.end()));
  for (std::size_t i = 0; i < flows.size();) {
    const LiveFlow& flow = flows[i];
    const double slack = network.rate(flow.id).value * 1e-12;
    const double left = flow.bytes ? static_cast<double>(flow.bytes->value) - flow.sent : 1;
    const double error = slack + 1e-12 * flow.sent;
    if (std::binary_search(tags.begin(), tags.end(), flow.tag)) {
      REQUIRE(std::abs(left) <= error);
      flows.erase(flows.begin() + static_cast<std::ptrdiff_t>(i));
      ++ended;
    } else {
      REQUIRE(left >= -error);
      ++i;
    }
  }
}

void Traffic::check_rates() {
  std::vector<FlowDemand> demands;
  for (const LiveFlow& flow : flows) {
    demands.push_back(flow.demand);
  }
  const Rates expected = water_fill(capacity, demands);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const double rate = network.rate(flows[i].id).value;
    REQUIRE(std::abs(rate - expected[i].value) <= 1e-12 * expected[i].value);
    REQUIRE((rate == flows[i].demand.cap.value) == (expected[i] == flows[i].demand.cap));
    same_bits += rate == expected[i].value;
    ++compared;
  }
}

// Max-min from its definition: every flow below its cap has a full link on which none has more.
void Traffic::check_fair() const {
  std::vector<double> used(capacity.size()), largest(capacity.size());
  for (const LiveFlow& flow : flows) {
    const double rate = network.rate(flow.id).value;
    for (const LinkId link : flow.demand.links) {
      used[link.index()] += rate;
      largest[link.index()] = std::max(largest[link.index()], rate);
    }
  }
  for (std::size_t l = 0; l < capacity.size(); ++l) {
    REQUIRE(used[l] <= capacity[l].value * (1 + 1e-9));
  }
  for (const LiveFlow& flow : flows) {
    const double rate = network.rate(flow.id).value;
    REQUIRE(rate <= flow.demand.cap.value);
    bool held_back = rate == flow.demand.cap.value;
    for (const LinkId link : flow.demand.links) {
      held_back |= used[link.index()] >= capacity[link.index()].value * (1 - 1e-9) &&
                   rate >= largest[link.index()] * (1 - 1e-9);
    }
    REQUIRE(held_back);
  }
}

FlowDemand draw_demand(const Rates& capacity, Draws& draws) {
  FlowDemand demand;
  const std::size_t hops = 1 + draws.index(std::min<std::size_t>(5, capacity.size()));
  while (demand.links.size() < hops) {
    const LinkId link(draws.index(capacity.size()));
    if (std::find(demand.links.begin(), demand.links.end(), link) == demand.links.end()) {
      demand.links.push_back(link);
    }
  }
  const BytesPerSecond first = capacity[demand.links.front().index()];
  switch (draws.below(4)) {
    case 0:
      demand.cap = BytesPerSecond(1e15);
      break;
    case 1:  // an equal part of a link, which others may take too: caps that just fit, or tie with the fair
             // share
      demand.cap = first / static_cast<double>(1 + draws.below(6));
      break;
    default:
      demand.cap = first * draws.between(0.02, 1.2);
  }
  return demand;
}

// Of three networks, one is of flows with clocks of their own, one of such as share them, one of both.
Clock draw_clock(std::uint64_t seed, Draws& draws) {
  return seed % 3 == 0 || (seed % 3 == 1 && draws.below(8) == 0) ? Clock::own : Clock::shared;
}

TEST_CASE("random starts and stops: fair, equal to water-filling, and no byte lost") {
  std::int64_t ended = 0, same_bits = 0, compared = 0, with_crowds = 0;
  for (std::uint64_t seed = 1; seed <= rounds(300); ++seed) {
    Draws draws(seed);
    Rates capacity(1 + draws.index(15));
    for (BytesPerSecond& c : capacity) {
      c = BytesPerSecond(draws.below(2) == 0 ? draws.between(1e9, 1e11) : 25e9);
    }
    Traffic traffic(capacity);
    for (int instant = 0; instant < 60; ++instant) {
      const std::optional<SimTime> next = traffic.network.next();
      const SimTime later = traffic.now + SimTime{draws.below(20'000'000'000)};  // up to 20 ms
      traffic.advance(next ? std::min(*next, later) : later);
      traffic.take_ended();
      for (std::int64_t stops = draws.below(4) / 3; stops > 0 && !traffic.flows.empty(); --stops) {
        traffic.stop(draws.index(traffic.flows.size()));
      }
      for (std::int64_t starts = traffic.flows.size() < 30 ? draws.below(4) : 0; starts > 0; --starts) {
        const bool endless = draws.below(10) == 0;
        const Bytes bytes(draws.below(draws.below(8) == 0 ? 2 : 300'000'000));
        traffic.start(draw_demand(capacity, draws), endless ? std::nullopt : std::optional(bytes),
                      draw_clock(seed, draws));
      }
      traffic.network.share(traffic.now);
      traffic.with_crowds += traffic.network.crowds() > 0;
      REQUIRE(traffic.network.live() == traffic.flows.size());
      traffic.check_rates();
      traffic.check_fair();
    }
    ended += traffic.ended;
    same_bits += traffic.same_bits;
    compared += traffic.compared;
    with_crowds += traffic.with_crowds;
  }
  INFO(compared << " rates compared with water-filling, " << same_bits << " equal bit for bit");
  CHECK(same_bits > compared * 9 / 10);
  CHECK(ended > static_cast<std::int64_t>(rounds(5000)));
  CHECK(with_crowds > 0);
}

TEST_CASE("rates depend on what is live, not on how it came about") {
  for (std::uint64_t seed = 1; seed <= rounds(200); ++seed) {
    Draws draws(seed);
    Rates capacity(2 + draws.index(10));
    for (BytesPerSecond& c : capacity) {
      c = BytesPerSecond(draws.between(1e9, 1e11));
    }
    Traffic detour(capacity), direct(capacity);
    for (int i = 0; i < 40; ++i) {
      detour.start(draw_demand(capacity, draws), std::nullopt, draw_clock(seed, draws));
      if (draws.below(3) == 0) {
        detour.network.share(detour.now);
      }
      if (draws.below(2) == 0) {
        detour.stop(draws.index(detour.flows.size()));
      }
    }
    detour.network.share(detour.now);
    for (const LiveFlow& flow : detour.flows) {
      direct.start(flow.demand, std::nullopt, flow.clock);
    }
    direct.network.share(direct.now);
    REQUIRE(detour.network.crowds() == direct.network.crowds());
    for (std::size_t i = 0; i < detour.flows.size(); ++i) {
      REQUIRE(detour.network.rate(detour.flows[i].id).value == direct.network.rate(direct.flows[i].id).value);
    }
  }
}

TEST_CASE("by hand: the parking lot, a cap, and a bottleneck behind a bottleneck") {
  // Links of 10, 10 and 4. Flow 0 crosses all; flows 1, 2, 3 one each. Link 2 fills first, at 2; then flow 1
  // is capped at 3 and flow 2 takes the 8 that flow 0 leaves.
  const Rates capacity{BytesPerSecond(10), BytesPerSecond(10), BytesPerSecond(4)};
  const BytesPerSecond any(1e9);
  const std::vector<FlowDemand> demands{{{LinkId(0), LinkId(1), LinkId(2)}, any},
                                        {{LinkId(0)}, BytesPerSecond(3)},
                                        {{LinkId(1)}, any},
                                        {{LinkId(2)}, any}};
  CHECK((water_fill(capacity, demands) ==
         Rates{BytesPerSecond(2), BytesPerSecond(3), BytesPerSecond(8), BytesPerSecond(2)}));
  FlowNetwork network(capacity, 4);
  std::vector<FlowId> ids;
  for (const FlowDemand& demand : demands) {
    ids.push_back(network.start(demand.links, demand.cap, std::nullopt, 0, {}));
  }
  network.share({});
  CHECK(network.rate(ids[0]).value == 2);
  CHECK(network.rate(ids[1]).value == 3);
  CHECK(network.rate(ids[2]).value == 8);
  CHECK(network.rate(ids[3]).value == 2);
  network.stop(ids[3], SimTime{5});
  network.share(SimTime{5});
  CHECK(network.rate(ids[0]).value == 4);
  CHECK(network.rate(ids[2]).value == 6);
  CHECK_FALSE(network.next());
}

TEST_CASE("a constant rate takes round(bytes / rate), whatever starts and ends elsewhere on its links") {
  // n caps of capacity / n fit although their sum may be rounded up: the others come and go without a trace.
  for (const int n : {2, 3, 5, 6, 7, 11, 13, 49, 100}) {
    const BytesPerSecond whole(48.3e9), part = whole / n;
    FlowNetwork network({whole, whole}, 4);
    const Bytes bytes(123'456'789);
    const SimTime begin{777}, end = begin + to_sim_time(bytes / part);
    const std::vector<LinkId> both{LinkId(0), LinkId(1)}, one{LinkId(1)};
    const FlowId watched = network.start(both, part, bytes, 0, begin);
    network.share(begin);
    std::vector<FlowId> others;
    for (int i = 1; i < n; ++i) {
      const SimTime now{1000 + 1000 * i};
      others.push_back(network.start(one, part, Bytes(std::int64_t{1} << 40), 1, now));
      network.share(now);
      REQUIRE(network.rate(others.back()) == part);
      REQUIRE(network.rate(watched) == part);
      REQUIRE(network.visited() == 1);
    }
    REQUIRE(network.next() == end);
    for (const FlowId other : others) {
      network.stop(other, SimTime{1'000'000});
    }
    network.share(SimTime{1'000'000});
    REQUIRE(network.next() == end);
    std::vector<std::uint64_t> tags;
    network.take_ended(end, tags);
    REQUIRE(tags == std::vector<std::uint64_t>{0});
    REQUIRE(network.live() == 0);
  }
}

TEST_CASE("a flow that is visited but keeps its rate keeps its end to the picosecond") {
  // The link is always full, for one flow has no cap; every start on it visits all and takes from that one
  // alone. Flows of hours: settled anew each time, their ends would be off by more than a picosecond.
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Draws draws(seed);
    FlowNetwork network({BytesPerSecond(100e9)}, 4);
    const std::vector<LinkId> link{LinkId(0)};
    const BytesPerSecond rate(draws.between(1e9, 2e9));
    const Bytes bytes(40'000'000'000'000 + draws.below(1'000'000'000'000));
    network.start(link, BytesPerSecond(1e15), std::nullopt, 0, {});
    network.start(link, rate, bytes, 1, {});
    network.share({});
    const SimTime end = to_sim_time(bytes / rate);
    SimTime now;
    for (int i = 0; i < 20; ++i) {
      REQUIRE(network.next() == end);
      now += SimTime{1 + draws.below(1'000'000'000'000'000)};
      network.start(link, BytesPerSecond(1e9), std::nullopt, 2, now);
      network.share(now);
      REQUIRE(network.visited() == network.live());
    }
    std::vector<std::uint64_t> tags;
    network.take_ended(end, tags);
    REQUIRE(tags == std::vector<std::uint64_t>{1});
  }
}

TEST_CASE("a flow that stands for several is as they are") {
  std::int64_t ended = 0;
  for (std::uint64_t seed = 1; seed <= rounds(200); ++seed) {
    Draws draws(seed);
    Rates capacity(1 + draws.index(8));
    for (BytesPerSecond& c : capacity) {
      c = BytesPerSecond(draws.below(2) == 0 ? draws.between(1e9, 1e11) : 25e9);
    }
    struct Both {
      FlowId one;
      std::vector<FlowId> each;
    };
    FlowNetwork together(capacity, 4), apart(capacity, 4);
    std::vector<std::optional<Both>> flows;  // by tag
    SimTime now;
    for (int instant = 0; instant < 60; ++instant) {
      REQUIRE(together.next() == apart.next());
      const std::optional<SimTime> next = together.next();
      const SimTime later = now + SimTime{draws.below(20'000'000'000)};
      now = next ? std::min(*next, later) : later;
      std::vector<std::uint64_t> of_one, of_each;
      together.take_ended(now, of_one);
      apart.take_ended(now, of_each);
      of_each.erase(std::unique(of_each.begin(), of_each.end()), of_each.end());
      REQUIRE(of_one == of_each);
      for (const std::uint64_t tag : of_one) {
        flows[tag].reset();
        ++ended;
      }
      for (std::int64_t starts = draws.below(4); starts > 0; --starts) {
        const FlowDemand demand = draw_demand(capacity, draws);
        const Bytes bytes(draws.below(300'000'000));
        const auto alike = static_cast<std::uint32_t>(1 + draws.below(4));
        const std::uint64_t tag = flows.size();
        Both& both = flows.emplace_back(Both{}).value();
        both.one = together.start(demand.links, demand.cap, bytes, tag, now, Clock::own, alike);
        for (std::uint32_t i = 0; i < alike; ++i) {
          both.each.push_back(apart.start(demand.links, demand.cap, bytes, tag, now));
        }
      }
      together.share(now);
      apart.share(now);
      for (const std::optional<Both>& both : flows) {
        for (std::size_t i = 0; both && i < both->each.size(); ++i) {
          REQUIRE(together.rate(both->one).value == apart.rate(both->each[i]).value);
        }
      }
    }
  }
  CHECK(ended > static_cast<std::int64_t>(rounds(2000)));
}

TEST_CASE("a flow that begins once more where it ended is as one that starts") {
  std::int64_t restarted = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Draws draws(seed);
    Rates capacity(1 + draws.index(6));
    for (BytesPerSecond& c : capacity) {
      c = BytesPerSecond(draws.between(1e9, 1e11));
    }
    std::vector<FlowDemand> demands;
    for (int i = 0; i < 12; ++i) {
      demands.push_back(draw_demand(capacity, draws));
    }
    FlowNetwork anew(capacity, 12), again(capacity, 12);
    std::vector<FlowId> id_anew(12), id_again(12);
    std::vector<bool> live(12);
    SimTime now;
    for (int instant = 0; instant < 150; ++instant) {
      INFO("seed " << seed << ", instant " << instant);
      REQUIRE(anew.next() == again.next());
      now = anew.next().value_or(now);
      std::vector<std::uint64_t> ended, ended_again;
      anew.take_ended(now, ended);
      again.take_ended(now, ended_again);
      REQUIRE(ended == ended_again);
      for (const std::uint64_t tag : ended) {
        live[tag] = false;
      }
      for (std::uint64_t tag = 0; tag < 12; ++tag) {
        if (!live[tag] && draws.below(3) > 0) {
          const FlowDemand& demand = demands[tag];
          const Bytes bytes(draws.below(draws.below(8) == 0 ? 2 : 3'000'000));
          id_anew[tag] = anew.start(demand.links, demand.cap, bytes, tag, now);
          if (again.restart(id_again[tag], demand.cap, bytes, tag, now)) {
            ++restarted;
          } else {
            id_again[tag] = again.start(demand.links, demand.cap, bytes, tag, now);
          }
          live[tag] = true;
        }
      }
      anew.share(now);
      again.share(now);
      REQUIRE(anew.live() == again.live());
      for (std::uint64_t tag = 0; tag < 12; ++tag) {
        REQUIRE((!live[tag] || anew.rate(id_anew[tag]) == again.rate(id_again[tag])));
      }
    }
  }
  CHECK(restarted > 5000);
}

TEST_CASE("a flow can't begin once more with another cap or tag, or when it has gone") {
  FlowNetwork network({BytesPerSecond(100)}, 1);
  const std::vector<LinkId> link{LinkId(0)};
  const FlowId id = network.start(link, BytesPerSecond(50), Bytes(100), 7, {});
  network.share({});
  const SimTime end = *network.next();
  CHECK_FALSE(network.restart(id, BytesPerSecond(50), Bytes(100), 7, {}));  // has not ended
  std::vector<std::uint64_t> tags;
  network.take_ended(end, tags);
  CHECK_FALSE(network.restart(id, BytesPerSecond(60), Bytes(100), 7, end));
  CHECK_FALSE(network.restart(id, BytesPerSecond(50), Bytes(100), 8, end));
  network.share(end);
  CHECK_FALSE(network.restart(id, BytesPerSecond(50), Bytes(100), 7, end));
}

TEST_CASE("a changed rate: what is left goes at the new rate") {
  // 1000 bytes at 100 B/s for 4 s; shared for 6 s at 50 B/s: 300 are left, alone again for 3 s. The other
  // sent 300 too.
  FlowNetwork network({BytesPerSecond(100)}, 2);
  const std::vector<LinkId> link{LinkId(0)};
  const SimTime second = to_sim_time(Seconds(1));
  std::vector<std::uint64_t> tags;
  network.start(link, BytesPerSecond(1000), Bytes(1000), 7, {});
  network.share({});
  CHECK(network.next() == 10 * second);
  network.start(link, BytesPerSecond(1000), Bytes(300), 8, 4 * second);
  network.share(4 * second);
  CHECK(network.next() == 10 * second);
  network.take_ended(10 * second, tags);
  network.share(10 * second);
  CHECK(network.next() == 13 * second);
  network.take_ended(13 * second, tags);
  CHECK(tags == std::vector<std::uint64_t>{8, 7});
  CHECK_FALSE(network.next());
}

TEST_CASE("only flows connected to a change through links that can hold them back are visited") {
  FlowNetwork network(Rates(4, BytesPerSecond(100)), 8);
  const std::vector<LinkId> left{LinkId(0)}, bridge{LinkId(1)}, right{LinkId(2)},
      across{LinkId(0), LinkId(1)}, far{LinkId(1), LinkId(2)};
  const auto start = [&](std::span<const LinkId> links, double cap) {
    const FlowId id = network.start(links, BytesPerSecond(cap), std::nullopt, 0, {});
    network.share({});
    return id;
  };
  start(left, 1e9);
  CHECK(network.visited() == 1);
  const FlowId a = start(across, 1e9);
  CHECK(network.visited() == 2);
  start(right, 1e9);
  CHECK(network.visited() == 1);
  const FlowId b = start(far, 10);  // the bridge is tight (1e9 + 10 > 100), so all are connected
  CHECK(network.visited() == 4);
  CHECK(network.rate(a).value == 50);
  CHECK(network.rate(b).value == 10);
  network.stop(a, {});
  network.share({});
  CHECK(network.visited() == 4 - 1);
  start(across, 20);  // 20 + 10 fit on the bridge: the right side is not asked
  CHECK(network.visited() == 2);
  network.share({});  // nothing changed
  CHECK(network.visited() == 2);
}

TEST_CASE("ends at one instant come in order of start, also without bytes") {
  FlowNetwork network(Rates(20, BytesPerSecond(1e9)), 4);
  std::vector<std::uint64_t> tags, expected;
  for (const std::uint64_t tag : {5, 3, 9, 1, 1, 8, 2}) {
    const std::vector<LinkId> link{LinkId(static_cast<std::size_t>(tag))};
    network.start(link, BytesPerSecond(1e8), Bytes(tag == 9 ? 0 : 1000), tag, SimTime{50});
    if (tag != 9) {
      expected.push_back(tag);
    }
  }
  CHECK_FALSE(network.next());
  network.share(SimTime{50});
  REQUIRE(network.next() == SimTime{50});
  network.take_ended(SimTime{50}, tags);
  CHECK(tags == std::vector<std::uint64_t>{9});
  tags.clear();
  network.share(SimTime{50});
  REQUIRE(network.next() == SimTime{50 + 10'000'000});
  network.take_ended(SimTime{50 + 9'999'999}, tags);
  CHECK(tags.empty());
  network.take_ended(SimTime{50 + 10'000'000}, tags);
  CHECK(tags == expected);
}

TEST_CASE("corners: repeated links, no links, stopped before shared, ids used again, an end beyond time") {
  FlowNetwork network({BytesPerSecond(100)}, 1);
  const std::vector<LinkId> twice{LinkId(0), LinkId(0)}, none;
  const FlowId a = network.start(twice, BytesPerSecond(1e9), std::nullopt, 0, {});
  const FlowId b = network.start(none, BytesPerSecond(42), Bytes(42), 1, {});
  const FlowId c = network.start(twice, BytesPerSecond(1e9), Bytes(1), 2, {});
  network.stop(c, {});
  const FlowId d = network.start(twice, BytesPerSecond(25), Bytes(std::int64_t{1} << 60), 3, {});
  CHECK(d == c);
  network.share({});
  CHECK(network.rate(a).value == 75);
  CHECK(network.rate(b).value == 42);
  CHECK(network.rate(d).value == 25);
  CHECK(network.next() == to_sim_time(Seconds(1)));
  network.stop(b, SimTime{1});
  network.share(SimTime{1});
  CHECK(network.next() == kNever);  // 2^60 bytes at 25 B/s: later than any run
  network.stop(a, SimTime{2});
  network.stop(d, SimTime{2});
  network.start(twice, BytesPerSecond(25), Bytes(std::int64_t{1} << 60), 4, SimTime{2});
  network.share(SimTime{2});
  CHECK(network.next() == kNever);
}

}  // namespace
}  // namespace paceline
