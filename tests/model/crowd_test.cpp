// Many flows into one port, and into each of several: does one clock for all of a port give each flow what
// water-filling gives it, at what cost?
#include "sim/network/crowd.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "sim/network/flow_network.h"
#include "tests/dice.h"
#include "water_fill.h"

namespace paceline {
namespace {

struct Transfer {
  SimTime start;
  FlowDemand demand;
  std::int64_t bytes = 0;
  Clock clock = Clock::shared;
};

struct TransferPlan {
  std::vector<BytesPerSecond> capacity;
  std::vector<Transfer> transfers;  // by start
};

struct Run {
  std::vector<SimTime> end;  // by transfer
  std::size_t visited = 0, most_visited = 0, most_crowds = 0, crowds_begun = 0;
};

struct Live {
  FlowId id;
  std::size_t transfer;
  long double sent = 0;
};

// No link above capacity, at any instant.
void check_capacity(const FlowNetwork& network, const TransferPlan& plan, const std::vector<Live>& live) {
  std::vector<double> used(plan.capacity.size());
  for (const Live& flow : live) {
    for (const LinkId link : plan.transfers[flow.transfer].demand.links) {
      used[link.index()] += network.rate(flow.id).value;
    }
  }
  for (std::size_t l = 0; l < used.size(); ++l) {
    REQUIRE(used[l] <= plan.capacity[l].value * (1 + 2e-12));
  }
}

// Rates are those of water-filling from scratch.
void check_rates(const FlowNetwork& network, const TransferPlan& plan, const std::vector<Live>& live) {
  std::vector<FlowDemand> demands;
  for (const Live& flow : live) {
    demands.push_back(plan.transfers[flow.transfer].demand);
  }
  const std::vector<BytesPerSecond> expected = water_fill(plan.capacity, demands);
  for (std::size_t i = 0; i < live.size(); ++i) {
    const BytesPerSecond rate = network.rate(live[i].id);
    REQUIRE(std::abs(rate.value - expected[i].value) <= 1e-12 * expected[i].value);
    REQUIRE((rate == demands[i].cap) == (expected[i] == demands[i].cap));
  }
}

// What ended has sent its bytes; an end is rounded to a picosecond, at a rate that lasts from another such
// end.
void check_bytes(const TransferPlan& plan, const Live& flow, double rate) {
  const auto bytes = static_cast<long double>(plan.transfers[flow.transfer].bytes);
  REQUIRE(std::abs(flow.sent - bytes) <= 1e-12L * rate + 1e-14L * bytes);
}

Run in_network(const TransferPlan& plan, bool checked) {
  FlowNetwork network(plan.capacity, 4);
  Run run{std::vector<SimTime>(plan.transfers.size())};
  std::vector<Live> live;  // only if checked
  std::vector<std::uint64_t> tags;
  SimTime now;
  for (std::size_t next = 0; next < plan.transfers.size() || network.live() > 0;) {
    const SimTime starts = next < plan.transfers.size() ? plan.transfers[next].start : kNever;
    const SimTime then = std::min(starts, network.next().value_or(kNever));
    for (Live& flow : live) {
      flow.sent += static_cast<long double>(network.rate(flow.id).value) *
                   static_cast<long double>((then - now).ps) / 1e12L;
    }
    now = then;
    tags.clear();
    network.take_ended(now, tags);
    REQUIRE(std::ranges::is_sorted(tags));
    for (const std::uint64_t tag : tags) {
      run.end[tag] = now;
      if (checked) {
        const auto ended = std::ranges::find(live, tag, &Live::transfer);
        check_bytes(plan, *ended, network.rate(ended->id).value);
        live.erase(ended);
      }
    }
    for (; next < plan.transfers.size() && plan.transfers[next].start == now; ++next) {
      const Transfer& transfer = plan.transfers[next];
      const FlowId id = network.start(transfer.demand.links, transfer.demand.cap, Bytes(transfer.bytes), next,
                                      now, transfer.clock);
      if (checked) {
        live.push_back({id, next});
      }
    }
    const std::size_t crowds_before = network.crowds();
    network.share(now);
    run.visited += network.visited();
    run.most_visited = std::max(run.most_visited, network.visited());
    run.most_crowds = std::max(run.most_crowds, network.crowds());
    run.crowds_begun += network.crowds() > crowds_before;
    if (checked) {
      check_capacity(network, plan, live);
      check_rates(network, plan, live);
    }
  }
  return run;
}

// By how many picoseconds the ends of a run miss the instants at which the transfers have their bytes, when
// rates are given to all anew at every start and end: `fill` says which. Follows the run's own ends: one
// that is rounded to the other of two picoseconds moves all that are live then, and is not wrong for that.
using Fill = std::function<std::vector<double>(const std::vector<std::size_t>&)>;

double largest_error(const TransferPlan& plan, const std::vector<SimTime>& end, const Fill& fill) {
  std::vector<std::size_t> live;
  std::vector<long double> left;
  std::vector<double> rate;
  long double worst = 0;
  SimTime now;
  for (std::size_t next = 0; next < plan.transfers.size() || !live.empty();) {
    SimTime then = next < plan.transfers.size() ? plan.transfers[next].start : kNever;
    for (const std::size_t t : live) {
      then = std::min(then, end[t]);
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < live.size(); ++i) {
      const auto passed = static_cast<long double>((then - now).ps);
      const long double bytes = left[i] - static_cast<long double>(rate[i]) * passed / 1e12L;
      if (end[live[i]] == then) {
        worst = std::max(worst, std::abs(bytes / rate[i]) * 1e12L);
      } else {
        left[kept] = bytes;
        live[kept++] = live[i];
      }
    }
    live.resize(kept);
    left.resize(kept);
    now = then;
    for (; next < plan.transfers.size() && plan.transfers[next].start == now; ++next) {
      live.push_back(next);
      left.push_back(static_cast<long double>(plan.transfers[next].bytes));
    }
    rate = fill(live);
  }
  return static_cast<double>(worst);
}

Fill by_water_filling(const TransferPlan& plan) {
  return [&plan](const std::vector<std::size_t>& live) {
    std::vector<FlowDemand> demands;
    for (const std::size_t t : live) {
      demands.push_back(plan.transfers[t].demand);
    }
    std::vector<double> rates;
    for (const BytesPerSecond rate : water_fill(plan.capacity, demands)) {
      rates.push_back(rate.value);
    }
    return rates;
  };
}

// Where one link alone holds back: the level is where the caps below it and it for the others make the
// capacity.
Fill by_one_level(const TransferPlan& plan) {
  std::vector<std::size_t> by_cap(plan.transfers.size());
  for (std::size_t t = 0; t < by_cap.size(); ++t) {
    by_cap[t] = t;
  }
  const auto cap = [&plan](std::size_t t) { return plan.transfers[t].demand.cap.value; };
  std::ranges::sort(by_cap, {}, cap);
  return
      [=, &plan, is_live = std::vector<bool>(by_cap.size())](const std::vector<std::size_t>& live) mutable {
        is_live.assign(is_live.size(), false);
        for (const std::size_t t : live) {
          is_live[t] = true;
        }
        long double room = plan.capacity[0].value;
        std::size_t rising = live.size();
        double level = std::numeric_limits<double>::infinity();
        for (const std::size_t t : by_cap) {
          if (is_live[t]) {
            level = static_cast<double>(room / static_cast<long double>(rising));
            if (cap(t) > level * (1 + kRateSlack)) {
              break;
            }
            level = std::numeric_limits<double>::infinity();
            room -= cap(t);
            --rising;
          }
        }
        std::vector<double> rates;
        for (const std::size_t t : live) {
          rates.push_back(std::min(cap(t), level));
        }
        return rates;
      };
}

std::int64_t largest_difference(const std::vector<SimTime>& a, const std::vector<SimTime>& b) {
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a[i].ps - b[i].ps));
  }
  return largest;
}

std::vector<Transfer> sorted(std::vector<Transfer> transfers) {
  std::ranges::stable_sort(transfers, {}, &Transfer::start);
  return transfers;
}

// Link 0 is the server's port; 1 and 2 lie behind it, no narrower; then each client's own.
TransferPlan draw_star(Dice& dice, std::size_t flows) {
  const double port = dice.maybe(0.5) ? 25e9 : dice.real(1e9, 100e9);
  TransferPlan star{{BytesPerSecond(port), BytesPerSecond(port), BytesPerSecond(port * dice.real(1, 3))}, {}};
  const double fair = port / static_cast<double>(flows);
  const double spread = dice.real(0, 3);  // of the starts, in times that the port takes for all
  const double bytes = dice.real(1e3, 1e8);
  for (std::size_t i = 0; i < flows; ++i) {
    const double cap = dice.maybe(0.4) ? 25e9 : fair * std::exp(dice.real(-1, 5));
    star.capacity.push_back(BytesPerSecond(2 * cap));
    const double start = dice.maybe(0.2) ? 0 : dice.real(0, spread) * bytes / fair;
    star.transfers.push_back(
        {to_sim_time(Seconds(start)),
         {{LinkId(3 + i), LinkId(0), LinkId(1), LinkId(2)}, BytesPerSecond(cap)},
         dice.maybe(0.02) ? dice.between(0, 1) : static_cast<std::int64_t>(dice.real(0, bytes))});
  }
  star.transfers = sorted(std::move(star.transfers));
  return star;
}

TEST_CASE("incast on random stars: every transfer ends within a picosecond of water-filling") {
  std::size_t crowds = 0;
  for (std::uint64_t seed = 1; seed <= rounds(150); ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    const TransferPlan star = draw_star(dice, 1 + dice.below(24));
    const Run run = in_network(star, true);
    REQUIRE(largest_error(star, run.end, by_water_filling(star)) <= 0.51);
    REQUIRE(largest_error(star, run.end, by_one_level(star)) <= 0.51);
    crowds += run.crowds_begun;
  }
  CHECK(crowds > rounds(150));
}

TEST_CASE("incast of a thousand flows: every transfer ends within a picosecond of water-filling") {
  for (std::uint64_t seed = 1; seed <= rounds(10); ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    const TransferPlan star = draw_star(dice, 200 + dice.below(801));
    const Run run = in_network(star, false);
    REQUIRE(largest_error(star, run.end, by_one_level(star)) <= 0.51);
    REQUIRE(run.most_crowds == 1);
  }
}

TEST_CASE("incast of ten thousand flows: every transfer ends within a picosecond of water-filling",
          "[release]") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    const TransferPlan star = draw_star(dice, 10'000);
    const Run run = in_network(star, false);
    REQUIRE(largest_error(star, run.end, by_one_level(star)) <= 0.51);
    REQUIRE(run.most_crowds == 1);
  }
}

// A flow of an hour beside ten thousand starts and ends.
TEST_CASE("a clock doesn't drift", "[release]") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    const double port = seed == 1 ? 25e9 : dice.real(20e9, 30e9);
    TransferPlan star{
        {BytesPerSecond(port)},
        {{SimTime{}, {{LinkId(0)}, BytesPerSecond(1e15)}, static_cast<std::int64_t>(3600 * port)}}};
    for (int i = 0; i < 10'000; ++i) {
      star.transfers.push_back({to_sim_time(Seconds(dice.real(0, 3600))),
                                {{LinkId(0)}, BytesPerSecond(dice.maybe(0.5) ? 1e15 : dice.real(1e8, 25e9))},
                                dice.between(1, 500'000'000)});
    }
    star.transfers = sorted(std::move(star.transfers));
    CHECK(largest_error(star, in_network(star, false).end, by_one_level(star)) <= 1);
  }
}

// Two servers, whose ports no flow shares, and clients with narrow links of their own: a star stops being
// one when a client's link holds back or a flow goes to both, and comes back. Some flows want their own
// clock.
TransferPlan draw_servers(Dice& dice) {
  const std::size_t clients = 2 + dice.below(8);
  TransferPlan plan{{BytesPerSecond(25e9), BytesPerSecond(dice.real(5e9, 50e9)), BytesPerSecond(40e9)}, {}};
  for (std::size_t c = 0; c < clients; ++c) {
    plan.capacity.push_back(BytesPerSecond(dice.maybe(0.5) ? 25e9 : dice.real(2e9, 60e9)));
  }
  const bool own = dice.maybe(0.3), across = dice.maybe(0.3);
  const std::size_t flows = 10 + dice.below(50);
  for (std::size_t i = 0; i < flows; ++i) {
    FlowDemand demand{{}, BytesPerSecond(dice.maybe(0.5) ? 25e9 : dice.real(1e9, 30e9))};
    if (dice.maybe(0.8)) {
      demand.links.push_back(LinkId(3 + dice.below(clients)));
    }
    demand.links.push_back(LinkId(dice.below(2)));
    if (across && dice.maybe(0.05)) {
      demand.links.push_back(LinkId(1 - demand.links.back().value));
    }
    if (demand.links.back() == LinkId(0)) {
      demand.links.push_back(LinkId(2));
    }
    plan.transfers.push_back({SimTime{dice.between(0, 40) * 250'000'000}, std::move(demand),
                              dice.between(1, 30'000'000),
                              own && dice.maybe(0.1) ? Clock::own : Clock::shared});
  }
  plan.transfers = sorted(std::move(plan.transfers));
  return plan;
}

TEST_CASE("stars that stop being stars and come back: both forms, and water-filling") {
  std::size_t crowds = 0, different = 0, ends = 0;
  for (std::uint64_t seed = 1; seed <= rounds(150); ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    TransferPlan plan = draw_servers(dice);
    const Run shared = in_network(plan, true);
    REQUIRE(largest_error(plan, shared.end, by_water_filling(plan)) <= 0.51);
    for (Transfer& transfer : plan.transfers) {
      transfer.clock = Clock::own;
    }
    const Run own = in_network(plan, false);
    REQUIRE(own.most_crowds == 0);
    REQUIRE(largest_error(plan, own.end, by_water_filling(plan)) <= 0.51);
    REQUIRE(largest_difference(shared.end, own.end) <= 1);
    crowds += shared.crowds_begun;
    for (std::size_t i = 0; i < own.end.size(); ++i) {
      different += own.end[i] != shared.end[i];
    }
    ends += own.end.size();
  }
  INFO(different << " of " << ends << " ends differ by a picosecond, " << crowds << " crowds");
  CHECK(crowds > 2 * rounds(150));
  CHECK(different * 100 < ends);
}

// Each client has its own link, which just fits its two messages or doesn't; behind the port lies one as
// wide.
TransferPlan messages_to_one_port(std::size_t flows) {
  TransferPlan plan{{BytesPerSecond(25e9), BytesPerSecond(25e9)}, {}};
  for (std::size_t i = 0; i < flows; ++i) {
    if (i % 2 == 0) {
      plan.capacity.push_back(BytesPerSecond(25e9));
    }
    plan.transfers.push_back(
        {SimTime{static_cast<std::int64_t>(i) * 1'000'000},
         {{LinkId(2 + i / 2), LinkId(0), LinkId(1)},
          BytesPerSecond(i % 3 == 0 ? 25e9 / (4 + static_cast<double>(i % 1000)) : 20e9)},
         1'000'000});
  }
  return plan;
}

TEST_CASE("starts and ends on one port cost their number, not its square") {
  for (const std::size_t flows : {100u, 1'000u, 10'000u}) {
    TransferPlan plan = messages_to_one_port(flows);
    const Run run = in_network(plan, false);
    INFO(flows << " flows, " << run.visited << " visits");
    CHECK(run.crowds_begun == 1);
    CHECK(run.visited < 6 * flows);
    if (flows == 1'000) {  // of n, on average half are live
      for (Transfer& transfer : plan.transfers) {
        transfer.clock = Clock::own;
      }
      CHECK(in_network(plan, false).visited > flows * flows / 2);
    }
  }
}

// Workers that send to several servers each, over a link of their own, the server's port, what lies behind it
// and, some, a fabric that all cross. Ports hold everybody back, or a worker's link does, or the fabric, or
// each somebody.
TransferPlan draw_workers(Dice& dice) {
  const std::size_t servers = 1 + dice.below(5), workers = 1 + dice.below(16);
  const auto port = [&](std::size_t server) { return LinkId(1 + 2 * server); };
  TransferPlan plan{{BytesPerSecond(0)}, {}};
  const bool alike = dice.maybe(0.5);
  for (std::size_t server = 0; server < servers; ++server) {
    const double rate = alike ? 25e9 : dice.real(5e9, 50e9);
    plan.capacity[0] = plan.capacity[0] + BytesPerSecond(rate);
    plan.capacity.push_back(BytesPerSecond(rate));
    plan.capacity.push_back(BytesPerSecond(rate * (dice.maybe(0.5) ? 1 : dice.real(0.9, 2))));
  }
  plan.capacity[0] = plan.capacity[0] * (dice.maybe(0.5) ? 1 : dice.real(0.5, 1.5));
  for (std::size_t worker = 0; worker < workers; ++worker) {
    plan.capacity.push_back(BytesPerSecond(alike && dice.maybe(0.9) ? 25e9 : dice.real(5e9, 100e9)));
  }
  const double all_cross = dice.maybe(0.5) ? 0 : dice.maybe(0.5) ? 1 : dice.real(0, 1);
  const double capped = dice.maybe(0.5) ? 0 : dice.real(0, 1), own = dice.maybe(0.8) ? 0 : 0.1;
  const std::size_t rounds_of_each = 1 + dice.below(3);
  for (std::size_t i = 0; i < rounds_of_each * workers * servers; ++i) {
    const std::size_t worker = i / servers % workers, server = i % servers;
    const LinkId of_worker(1 + 2 * servers + worker);
    FlowDemand demand{{of_worker, port(server)}, plan.capacity[of_worker.index()]};
    if (dice.maybe(capped)) {
      demand.cap = demand.cap * (dice.maybe(0.5) ? dice.real(0.02, 1) : 1 / dice.real(1, 9));
    }
    demand.links.push_back(LinkId(2 + 2 * server));
    if (dice.maybe(all_cross)) {
      demand.links.push_back(LinkId(0));
    }
    plan.transfers.push_back({SimTime{dice.between(0, 20) * 100'000'000}, std::move(demand),
                              dice.maybe(0.3) ? 3'000'000 : dice.between(1, 10'000'000),
                              dice.maybe(own) ? Clock::own : Clock::shared});
  }
  plan.transfers = sorted(std::move(plan.transfers));
  return plan;
}

TEST_CASE(
    "workers that send to several servers: every rate is that of water-filling, every end to a picosecond") {
  std::size_t crowds = 0, several = 0;
  for (std::uint64_t seed = 1; seed <= rounds(300); ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    const TransferPlan plan = draw_workers(dice);
    const Run run = in_network(plan, true);
    REQUIRE(largest_error(plan, run.end, by_water_filling(plan)) <= 0.51);
    crowds += run.crowds_begun;
    several += run.most_crowds > 1;
  }
  INFO(crowds << " times crowds begin, several at once in " << several << " networks");
  CHECK(crowds > 2 * rounds(300));
  CHECK(several > rounds(300) / 3);
}

TEST_CASE("crowds and their rates depend on what is live, not on how it came about") {
  std::size_t crowds = 0;
  for (std::uint64_t seed = 1; seed <= rounds(300); ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    const TransferPlan plan = draw_workers(dice);
    FlowNetwork detour(plan.capacity, 4), direct(plan.capacity, 4);
    std::vector<Live> live;
    const auto start = [&plan](FlowNetwork& network, std::size_t t) {
      const Transfer& transfer = plan.transfers[t];
      return network.start(transfer.demand.links, transfer.demand.cap, std::nullopt, t, {}, transfer.clock);
    };
    const auto stop = [&](std::size_t which) {
      detour.stop(live[which].id, {});
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    };
    for (std::size_t t = 0; t < plan.transfers.size(); ++t) {
      live.push_back({start(detour, t), t});
      if (dice.maybe(0.5)) {
        detour.share({});
      }
      if (dice.maybe(0.3)) {
        stop(dice.below(live.size()));
      }
    }
    detour.share({});
    while (!live.empty() && dice.maybe(0.8)) {
      stop(dice.below(live.size()));
      detour.share({});
    }
    std::vector<FlowId> ids;
    for (const Live& flow : live) {
      ids.push_back(start(direct, flow.transfer));
    }
    direct.share({});
    REQUIRE(detour.crowds() == direct.crowds());
    for (std::size_t i = 0; i < live.size(); ++i) {
      REQUIRE(detour.rate(live[i].id).value == direct.rate(ids[i]).value);
    }
    crowds += direct.crowds();
  }
  CHECK(crowds > rounds(300) / 2);
}

// Each transfer is live: rates are those of a network where all have clocks of their own, from scratch.
void check_against_own_clocks(const FlowNetwork& network, const TransferPlan& plan,
                              const std::vector<Live>& live) {
  FlowNetwork own(plan.capacity, live.size());
  std::vector<FlowId> ids;
  for (const Live& flow : live) {
    const FlowDemand& demand = plan.transfers[flow.transfer].demand;
    ids.push_back(own.start(demand.links, demand.cap, std::nullopt, 0, {}));
  }
  own.share({});
  REQUIRE(own.crowds() == 0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const double rate = network.rate(live[i].id).value, expected = own.rate(ids[i]).value;
    REQUIRE(std::abs(rate - expected) <= 1e-12 * expected);
  }
}

// Each worker has a transfer to each server, and what ends starts again. Some are capped at times.
void check_workers(std::size_t workers, std::size_t servers, std::size_t restarts, std::size_t most_visited) {
  TransferPlan plan;
  Dice dice(workers);
  for (std::size_t server = 0; server < servers; ++server) {
    plan.capacity.push_back(BytesPerSecond(server % 2 == 0 ? 25e9 : dice.real(20e9, 30e9)));
  }
  for (std::size_t i = 0; i < workers * servers; ++i) {
    const std::size_t server = i % servers;
    if (server == 0) {
      plan.capacity.push_back(BytesPerSecond(25e9));
    }
    const double level = plan.capacity[server].value / static_cast<double>(workers);
    plan.transfers.push_back({{},
                              {{LinkId(plan.capacity.size() - 1), LinkId(server)},
                               BytesPerSecond(i % 7 == 3 ? level * dice.real(0.98, 1.02) : 25e9)},
                              dice.between(100'000, 1'000'000)});
  }
  FlowNetwork network(plan.capacity, plan.transfers.size());
  std::vector<Live> live(plan.transfers.size());
  SimTime now;
  const auto start = [&](std::size_t t) {
    const FlowDemand& demand = plan.transfers[t].demand;
    const Bytes bytes(plan.transfers[t].bytes);
    live[t] = {network.start(demand.links, demand.cap, bytes, t, now, Clock::shared), t};
  };
  const auto advance = [&](SimTime then) {
    for (Live& flow : live) {
      flow.sent += static_cast<long double>(network.rate(flow.id).value) *
                   static_cast<long double>((then - now).ps) / 1e12L;
    }
    now = then;
  };
  for (std::size_t worker = 0; worker < workers; ++worker) {
    for (std::size_t server = 0; server < servers; ++server) {
      start(worker * servers + server);
    }
  }
  network.share(now);
  REQUIRE(network.crowds() == servers);
  check_against_own_clocks(network, plan, live);
  std::vector<std::uint64_t> ended;
  for (std::size_t i = 1; i <= restarts; ++i) {
    advance(*network.next());
    ended.clear();
    network.take_ended(now, ended);
    for (const std::uint64_t t : ended) {
      check_bytes(plan, live[t], network.rate(live[t].id).value);
    }
    network.share(now);  // the ends, then the starts
    REQUIRE(network.visited() <= most_visited * ended.size());
    for (const std::uint64_t t : ended) {
      start(t);
    }
    network.share(now);
    REQUIRE(network.visited() <= most_visited * ended.size());
    REQUIRE(network.crowds() == servers);
    if (i % (restarts / 5) == 0) {
      check_capacity(network, plan, live);
      check_against_own_clocks(network, plan, live);
    }
  }
}

TEST_CASE("a thousand workers that send to ten servers: a start or end visits a few flows of ten thousand") {
  check_workers(1'000, 10, 5'000, 20);
}

TEST_CASE("ten thousand flows into each of several ports", "[release]") {
  check_workers(10'000, 3, 3'000, 50);
}

TEST_CASE("by hand: four workers that send to two servers") {
  // Ports of 40 B/s, workers' links of 40: 10 for each flow, and a worker sends at 20.
  FlowNetwork network(std::vector<BytesPerSecond>(6, BytesPerSecond(40)), 8);
  std::vector<FlowId> ids;
  for (std::size_t i = 0; i < 8; ++i) {
    const LinkId links[] = {LinkId(2 + i / 2), LinkId(i % 2)};
    ids.push_back(network.start(links, BytesPerSecond(40), Bytes(1000), i, {}, Clock::shared));
  }
  network.share({});
  CHECK(network.crowds() == 2);
  CHECK(network.next() == to_sim_time(Seconds(100)));
  CHECK(std::ranges::all_of(ids, [&](FlowId id) { return network.rate(id).value == 10; }));
  network.stop(ids[0], {});
  network.share({});  // 40/3 for server 0's; worker 0 has one flow, which its link doesn't hinder
  CHECK(network.visited() == 0);
  CHECK(network.crowds() == 2);
  CHECK(network.rate(ids[2]).value == 40.0 / 3);
  CHECK(network.rate(ids[1]).value == 10);
  network.stop(ids[2], {});
  network.share({});  // 20 for server 0's, which is all that workers 2 and 3 have for each of their two
  CHECK(network.crowds() == 0);
  CHECK(network.rate(ids[4]).value == 20);
  CHECK(network.rate(ids[5]).value == 10);
  network.stop(ids[4], {});
  network.share({});  // worker 3 holds back: 30 for server 0's, beside 10
  CHECK(network.crowds() == 0);
  CHECK(network.rate(ids[6]).value == 30);
  CHECK(network.rate(ids[7]).value == 10);
  network.stop(ids[6], {});
  network.share({});  // one port has all
  CHECK(network.crowds() == 1);
  CHECK(network.rate(ids[7]).value == 10);
}

TEST_CASE("by hand: a link behind two ports, as wide as both and narrower") {
  for (const double behind : {60.0, 40.0}) {
    FlowNetwork network({BytesPerSecond(40), BytesPerSecond(20), BytesPerSecond(behind)}, 4);
    std::vector<FlowId> ids;
    for (std::size_t i = 0; i < 4; ++i) {  // one into port 0, three into port 1
      const LinkId links[] = {LinkId(i == 0 ? 0 : 1), LinkId(2)};
      ids.push_back(network.start(links, BytesPerSecond(1e9), std::nullopt, i, {}, Clock::shared));
    }
    network.share({});
    CHECK(network.crowds() == (behind == 60 ? 2 : 0));
    CHECK(network.rate(ids[0]).value == Approx(behind - 20));
    CHECK(network.rate(ids[1]).value == Approx(20.0 / 3));
  }
}

TEST_CASE("by hand: three into a port, one with a cap") {
  // 90 B/s: 10 for the capped, 40 each for the others. At 1 s another makes it 10 and 80/3 each; when that
  // has sent its 80 bytes, at 4 s, 40 again.
  FlowNetwork network({BytesPerSecond(90), BytesPerSecond(90)}, 4);
  const std::vector<LinkId> in{LinkId(0), LinkId(1)};
  const SimTime second = to_sim_time(Seconds(1));
  const BytesPerSecond any(1e9);
  const auto start = [&](BytesPerSecond cap, std::optional<Bytes> bytes, std::uint64_t tag, SimTime now) {
    return network.start(in, cap, bytes, tag, now, Clock::shared);
  };
  const FlowId a = start(any, Bytes(200), 0, {});
  const FlowId capped = start(BytesPerSecond(10), Bytes(1000), 1, {});
  const FlowId endless = start(any, std::nullopt, 2, {});
  network.share({});
  CHECK(network.crowds() == 1);
  CHECK(network.rate(a).value == 40);
  CHECK(network.rate(capped).value == 10);
  CHECK(network.rate(endless).value == 40);
  CHECK(network.next() == 5 * second);
  start(any, Bytes(80), 3, second);
  network.share(second);
  CHECK(network.rate(a).value == 80.0 / 3);
  CHECK(network.rate(capped).value == 10);
  CHECK(network.next() == 4 * second);
  std::vector<FlowNetwork::LiveFlow> flows;
  network.for_each_flow([&](const FlowNetwork::LiveFlow& flow) { flows.push_back(flow); });
  REQUIRE(flows.size() == 4);
  CHECK(flows[0].remaining == 160);
  CHECK(flows[0].settled == second);
  CHECK(flows[0].end == 7 * second);
  CHECK(flows[1].remaining == 1000);
  CHECK(flows[1].settled == SimTime{});
  CHECK(flows[1].end == 100 * second);
  CHECK_FALSE(flows[2].end);
  CHECK(flows[3].remaining == 80);
  std::vector<std::uint64_t> tags;
  network.take_ended(4 * second, tags);
  network.share(4 * second);
  CHECK(tags == std::vector<std::uint64_t>{3});
  CHECK(network.rate(a).value == 40);
  CHECK(network.next() == 6 * second);  // 160 - 80 left
  network.stop(endless, 4 * second);
  network.share(4 * second);  // 80 for a
  CHECK(network.next() == 5 * second);
  network.stop(a, 4 * second);
  network.share(4 * second);  // 10 B/s fit
  CHECK(network.crowds() == 0);
  CHECK(network.rate(capped).value == 10);
  CHECK(network.next() == 100 * second);
}

TEST_CASE("ends of a crowd at one instant come in order of start") {
  FlowNetwork network({BytesPerSecond(100)}, 4);
  const std::vector<LinkId> port{LinkId(0)};
  // 10 at their cap and 30 each: all end after 1 s.
  const std::vector<std::int64_t> bytes{30, 10, 30, 30};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    network.start(port, BytesPerSecond(bytes[i] == 10 ? 10 : 1000), Bytes(bytes[i]), 10 - i, {},
                  Clock::shared);
  }
  network.share({});
  REQUIRE(network.next() == to_sim_time(Seconds(1)));
  std::vector<std::uint64_t> tags;
  network.take_ended(to_sim_time(Seconds(1)), tags);
  CHECK(tags == std::vector<std::uint64_t>{10, 9, 8, 7});
  CHECK_FALSE(network.next());
  CHECK(network.live() == 0);
}

TEST_CASE("a flow with a shared clock doesn't begin once more") {
  FlowNetwork network({BytesPerSecond(100)}, 1);
  const std::vector<LinkId> port{LinkId(0)};
  const FlowId id = network.start(port, BytesPerSecond(200), Bytes(100), 7, {}, Clock::shared);
  network.share({});
  const SimTime end = *network.next();
  std::vector<std::uint64_t> tags;
  network.take_ended(end, tags);
  CHECK_FALSE(network.restart(id, BytesPerSecond(200), Bytes(100), 7, end));
}

TEST_CASE("a heap of ids gives the lowest key whatever is moved and dropped") {
  Dice dice(3);
  PlacedHeap<int> heap;
  std::vector<int> keys(50, -1);
  std::set<std::pair<int, std::uint32_t>> sorted;
  for (int i = 0; i < 20'000; ++i) {
    const auto id = static_cast<std::uint32_t>(dice.below(keys.size()));
    if (heap.holds(id)) {
      REQUIRE(heap.key(id) == keys[id]);
      sorted.erase({keys[id], id});
    }
    if (dice.maybe(0.6)) {
      keys[id] = static_cast<int>(dice.below(30));
      heap.set(id, keys[id]);
      sorted.insert({keys[id], id});
    } else {
      heap.drop(id);
    }
    REQUIRE(heap.size() == sorted.size());
    if (!heap.empty()) {
      REQUIRE(heap.top().key == sorted.begin()->first);
      REQUIRE(sorted.contains({heap.top().key, heap.top().id}));
    }
  }
}

TEST_CASE("a line of ids beside a heap gives the lowest key whatever is moved and dropped") {
  Dice dice(4);
  PlacedQueue<int> queue;
  std::vector<int> keys(50, -1);
  std::set<std::pair<int, std::uint32_t>> sorted;
  int least = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto id = static_cast<std::uint32_t>(dice.below(keys.size()));
    sorted.erase({keys[id], id});
    if (dice.maybe(0.6)) {
      least += dice.maybe(0.2) ? 1 : 0;
      keys[id] = least + static_cast<int>(dice.below(dice.maybe(0.3) ? 30 : 2));
      queue.set(id, keys[id]);
      sorted.insert({keys[id], id});
    } else {
      queue.drop(id);
    }
    if (dice.maybe(0.01)) {
      queue.clear();
      sorted.clear();
    }
    REQUIRE(queue.empty() == sorted.empty());
    if (!queue.empty()) {
      REQUIRE(queue.top().key == sorted.begin()->first);
      REQUIRE(sorted.contains({queue.top().key, queue.top().id}));
    }
  }
}

}  // namespace
}  // namespace paceline
