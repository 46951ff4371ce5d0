#include "sim/collective/pricing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "core/fingerprint.h"
#include "sim/collective/alike_channels.h"

namespace paceline {
namespace {

// What a FIFO carries in one loop, in blocks; words carry nothing.
std::vector<double> loads(const CollectiveGraph& graph) {
  std::vector<std::vector<double>> of_port(graph.scripts.size());
  for (std::size_t s = 0; s < graph.scripts.size(); ++s) {
    for (const Step& step : graph.scripts[s].steps) {
      const std::size_t last = step.send.first + std::size_t{step.send.count};
      of_port[s].resize(std::max(of_port[s].size(), last));
      for (std::size_t p = step.send.first; p < last; ++p) {
        of_port[s][p] += static_cast<double>(step.times) * step.width;
      }
    }
  }
  std::vector<double> load(graph.fifos.size());
  for (const ThreadBlock& thread_block : graph.thread_blocks) {
    const std::vector<double>& ports = of_port[thread_block.script];
    for (std::size_t p = 0; p < ports.size(); ++p) {
      const std::uint32_t fifo = graph.out[thread_block.first_out + p];
      load[fifo] = graph.fifos[fifo].wire == Wire::word ? 0 : ports[p];
    }
  }
  return load;
}

// The most ports that one step of a script sends data on, by script; load: of each FIFO.
std::vector<double> widest_steps(const CollectiveGraph& graph, const std::vector<double>& load) {
  std::vector<double> widest(graph.scripts.size());  // 0: not seen
  for (const ThreadBlock& thread_block : graph.thread_blocks) {
    double& most = widest[thread_block.script];
    if (most > 0) {
      continue;
    }
    most = 1;
    for (const Step& step : graph.scripts[thread_block.script].steps) {
      const auto first = graph.out.begin() + thread_block.first_out + step.send.first;
      most = std::max(most, static_cast<double>(std::count_if(first, first + step.send.count,
                                                              [&](std::uint32_t f) { return load[f] > 0; })));
    }
  }
  return widest;
}

// What asks for data that is read over NVLink, of the data: a flit of 16 bytes for a line of 128.
constexpr double kReadRequests = 1.0 / 8;

// Blocks per loop that cross each link: of all thread blocks, and of the one at hand.
class Crossings {
 public:
  Crossings(const CollectiveGraph& graph, const RouteList& routes, const AlikeChannels& alike,
            const Topology& topology)
      : graph_(graph),
        load_(loads(graph)),
        at_once_(widest_steps(graph, load_)),
        routes_(routes),
        topology_(topology),
        all_(topology.links()),
        own_(topology.links()),
        own_fifos_(topology.links()) {
    for (std::uint32_t f = 0; f < graph.fifos.size(); ++f) {
      over_network_.push_back(topology.hop_kind(routes[f]) == HopKind::network);
    }
    alike.for_each_fifo([&](std::uint32_t f, int times) {  // whole numbers and eighths: sums are exact
      for (const LinkId link : routes_[f]) {
        all_[link.index()] += times * load_[f];
      }
      if (const std::optional<LinkId> read = topology.relayed_over(routes_[f])) {
        const Link& link = topology.link(*read);
        all_[topology.link_between(link.to, link.from)->index()] += times * load_[f] * kReadRequests;
      }
    });
  }

  std::span<const LinkId> route(std::uint32_t fifo) const { return routes_[fifo]; }
  bool over_network(std::uint32_t fifo) const { return over_network_[fifo]; }

  double load(std::uint32_t fifo) const { return load_[fifo]; }
  // The part of a link that a FIFO may use whose thread block sends `own` over it.
  double share(double own, LinkId link) const { return std::min(1.0, own / all_[link.index()]); }

  // Calls f(fifo, own) for all FIFOs that a thread block sends on.
  template <class F>
  void for_each_fifo_of(std::uint32_t w, const F& f) {
    const std::uint32_t first = graph_.thread_blocks[w].first_out;
    const auto last = w + 1 < graph_.thread_blocks.size() ? graph_.thread_blocks[w + 1].first_out
                                                          : static_cast<std::uint32_t>(graph_.out.size());
    double sent = 0;
    for (std::uint32_t p = first; p < last; ++p) {
      sent += load_[graph_.out[p]];
      for (const LinkId link : routes_[graph_.out[p]]) {
        own_[link.index()] += load_[graph_.out[p]];
        own_fifos_[link.index()] += 1;
      }
    }
    const double at_once = at_once_[graph_.thread_blocks[w].script];
    const bool of_switch = graph_.thread_blocks[w].rank == ThreadBlock::kSwitch;
    const std::span<const std::uint32_t> fifos(graph_.out.data() + first, last - first);
    owns_.clear();
    for (const std::uint32_t fifo : fifos) {
      owns_.push_back(of_switch ? sent / at_once : most_on_a_link(fifo, at_once));
    }
    if (at_once == 1 && fifos.size() > 1 && receives_nothing(w)) {  // else a pipeline decides when it sends
      take_turns_at_the_slowest_link(fifos);
    }
    for (std::size_t i = 0; i < fifos.size(); ++i) {
      f(fifos[i], owns_[i]);
    }
    for (std::uint32_t p = first; p < last; ++p) {
      for (const LinkId link : routes_[graph_.out[p]]) {
        own_[link.index()] = own_fifos_[link.index()] = 0;
      }
    }
  }

 private:
  // What the thread block at hand sends over the link of this FIFO that it uses most: while it sends here, it
  // sends to none of the others, but those of the same step.
  double most_on_a_link(std::uint32_t fifo, double at_once) const {
    double most = 0;
    for (const LinkId link : routes_[fifo]) {
      most = std::max(most, own_[link.index()] / std::min(at_once, own_fifos_[link.index()]));
    }
    return most;
  }

  bool receives_nothing(std::uint32_t w) const {
    const std::vector<ThreadBlock>& blocks = graph_.thread_blocks;
    return blocks[w].first_in == (w + 1 < blocks.size() ? blocks[w + 1].first_in : graph_.in.size());
  }
  // A thread block that sends in turns is at the link that takes longest for what all send over it only while it
  // is nowhere else, and meanwhile leaves it to others: its turns last as long as that link, or longer.
  void take_turns_at_the_slowest_link(std::span<const std::uint32_t> fifos) {
    std::optional<LinkId> slowest;
    for (const std::uint32_t fifo : fifos) {
      for (const LinkId link : routes_[fifo]) {
        slowest = slowest && duration(*slowest) >= duration(link) ? *slowest : link;
      }
    }
    const auto over_slowest = [&](std::uint32_t fifo) {
      return std::ranges::find(routes_[fifo], *slowest) != routes_[fifo].end();
    };
    double elsewhere = 0;
    for (std::size_t i = 0; slowest && i < fifos.size(); ++i) {
      elsewhere += over_slowest(fifos[i]) ? 0 : load_[fifos[i]] / rate(fifos[i], owns_[i]);
    }
    if (!slowest || elsewhere >= duration(*slowest)) {
      return;
    }
    const double most = own_[slowest->index()] / (1 - elsewhere / duration(*slowest));
    for (std::size_t i = 0; i < fifos.size(); ++i) {
      owns_[i] = over_slowest(fifos[i]) ? std::min(owns_[i], most) : owns_[i];
    }
  }
  // Of all that crosses a link, and of a FIFO whose thread block sends `own`; blocks of a loop per second.
  double duration(LinkId link) const { return all_[link.index()] / topology_.link(link).bandwidth.value; }
  double rate(std::uint32_t fifo, double own) const {
    double least = std::numeric_limits<double>::infinity();
    for (const LinkId link : routes_[fifo]) {
      least = std::min(least, topology_.link(link).bandwidth.value * share(own, link));
    }
    return least;
  }

  const CollectiveGraph& graph_;
  std::vector<double> load_, at_once_;
  const RouteList& routes_;
  const Topology& topology_;
  std::vector<bool> over_network_;  // by FIFO
  std::vector<double> all_, own_, own_fifos_;
  std::vector<double> owns_;  // by FIFO of the thread block at hand: what it sends where it sends that
};

// By rank: the FIFOs over the network that it sends on at once, and those that it receives from, all thread blocks
// together.
struct OfProxies {
  std::vector<double> sends, receives;
};
OfProxies fifos_of_proxies(const CollectiveGraph& graph, const Crossings& crossings,
                           const AlikeChannels& alike) {
  const auto over_network = [&](const std::vector<std::uint32_t>& fifos, std::uint32_t first, Ports ports) {
    const auto begin = fifos.begin() + first + ports.first;
    return std::count_if(begin, begin + ports.count,
                         [&](std::uint32_t f) { return crossings.over_network(f); });
  };
  OfProxies of_rank{std::vector<double>(graph.ranks), std::vector<double>(graph.ranks)};
  alike.for_each([&](const Channel& channel, int times) {
    for (std::uint32_t w = channel.first; w < channel.last; ++w) {
      const ThreadBlock& thread_block = graph.thread_blocks[w];
      std::ptrdiff_t sends = 0, receives = 0;
      for (const Step& step : graph.scripts[thread_block.script].steps) {
        sends = std::max(sends, over_network(graph.out, thread_block.first_out, step.send));
        receives = std::max(receives, over_network(graph.in, thread_block.first_in, step.receive));
      }
      if (thread_block.rank != ThreadBlock::kSwitch) {
        of_rank.sends[thread_block.rank] += static_cast<double>(times * sends);
        of_rank.receives[thread_block.rank] += static_cast<double>(times * receives);
      }
    }
  });
  return of_rank;
}

// By thread block: whether it sends, and to GPUs of its node only. A proxy sends whole chunks.
std::vector<bool> passing_on(const CollectiveGraph& graph, const Crossings& crossings) {
  std::vector<bool> sends(graph.thread_blocks.size()), leaves(graph.thread_blocks.size());
  for (std::uint32_t f = 0; f < graph.fifos.size(); ++f) {
    sends[graph.fifos[f].from] = true;
    if (crossings.over_network(f)) {
      leaves[graph.fifos[f].from] = true;
    }
  }
  for (std::size_t w = 0; w < sends.size(); ++w) {
    sends[w] = sends[w] && !leaves[w];
  }
  return sends;
}

// By kind of node: the first one on which hops cost the same (default_costs).
std::vector<std::uint16_t> first_of_equal_costs(const Topology& topology) {
  std::vector<std::uint16_t> first;
  for (std::uint32_t kind = 0; kind < topology.kinds().size(); ++kind) {
    first.push_back(0);
    while (topology.spec_of_kind(first.back()).compute_capability !=
           topology.spec_of_kind(kind).compute_capability) {
      ++first.back();
    }
  }
  return first;
}

// A switch is where the rank at its other end is.
KindsOfNode kinds_at(const CollectiveGraph& graph, const Fifo& fifo, const Topology& topology,
                     const std::vector<std::uint16_t>& costs_as) {
  const std::uint32_t from = graph.thread_blocks[fifo.from].rank, to = graph.thread_blocks[fifo.to].rank;
  if (costs_as.size() == 1 || (from == ThreadBlock::kSwitch && to == ThreadBlock::kSwitch)) {
    return {};
  }
  const auto kind = [&](std::uint32_t rank, std::uint32_t other) {
    const Rank at(rank == ThreadBlock::kSwitch ? other : rank);
    return costs_as[topology.kind_of(topology.node_of(at))];
  };
  return {kind(from, to), kind(to, from)};
}

// How many loops after the first moves a thread block moves the same chunk, at the earliest; nothing where thread
// blocks wait for each other in circles, as in a ring, whose FIFOs are all live in every loop.
std::optional<std::vector<double>> stages(const CollectiveGraph& graph) {
  std::vector<double> moves;  // of a loop, by script
  for (const Script& script : graph.scripts) {
    double sum = 0;
    for (const Step& step : script.steps) {
      sum += step.times;
    }
    moves.push_back(std::max(1.0, sum));
  }
  const auto end_of = [](const auto& ports, const auto& blocks, std::size_t w, auto first) {
    return w + 1 < blocks.size() ? std::size_t{blocks[w + 1].*first} : ports.size();
  };
  const auto& blocks = graph.thread_blocks;
  std::vector<std::size_t> waits_for(blocks.size()), ready;
  for (std::size_t w = 0; w < blocks.size(); ++w) {
    waits_for[w] = end_of(graph.in, blocks, w, &ThreadBlock::first_in) - blocks[w].first_in;
    if (waits_for[w] == 0) {
      ready.push_back(w);
    }
  }
  std::vector<double> stage(blocks.size());
  std::size_t seen = 0;
  for (; seen < ready.size(); ++seen) {
    const std::size_t w = ready[seen];
    for (std::size_t p = blocks[w].first_out; p < end_of(graph.out, blocks, w, &ThreadBlock::first_out);
         ++p) {
      const Fifo& fifo = graph.fifos[graph.out[p]];
      const std::size_t to = fifo.to;
      stage[to] = std::max(stage[to], stage[w] + (fifo.wire == Wire::word ? 1 : 1 / moves[blocks[w].script]));
      if (--waits_for[to] == 0) {
        ready.push_back(to);
      }
    }
  }
  return seen == blocks.size() ? std::optional(std::move(stage)) : std::nullopt;
}

std::int32_t in_loops(double delay) {
  return static_cast<std::int32_t>(delay < 0 ? std::floor(delay) : std::ceil(delay));
}

// What crosses each link at which stage, as one number for all links that are alike.
class LinkLoads {
 public:
  using Loads = std::vector<std::pair<double, double>>;  // stage, blocks of a loop

  LinkLoads(const CollectiveGraph& graph, const Crossings& crossings, const AlikeChannels& alike,
            const std::vector<double>& stage, std::size_t links)
      : number_(links) {
    std::vector<Loads> of_link(links);
    alike.for_each_fifo([&](std::uint32_t f, int times) {
      const double at = stage[graph.fifos[f].from];
      for (const LinkId link : crossings.route(f)) {
        Loads& loads = of_link[link.index()];
        const auto known = std::ranges::find(loads, at, &Loads::value_type::first);
        if (known == loads.end()) {
          loads.emplace_back(at, times * crossings.load(f));
        } else {
          known->second += times * crossings.load(f);
        }
      }
    });
    std::map<Loads, std::uint32_t> known;
    for (std::size_t l = 0; l < links; ++l) {
      std::ranges::sort(of_link[l]);
      const auto [at, added] = known.try_emplace(of_link[l], static_cast<std::uint32_t>(alike_.size()));
      number_[l] = at->second;
      if (added) {
        alike_.push_back(std::move(of_link[l]));
      }
    }
  }

  std::uint32_t number(LinkId link) const { return number_[link.index()]; }
  bool at_one_stage(LinkId link) const { return alike_[number(link)].size() < 2; }
  std::vector<std::pair<std::int32_t, double>> seen_from(double stage, std::uint32_t number) const {
    std::map<std::int32_t, double> loads;
    for (const auto& [at, load] : alike_[number]) {
      loads[in_loops(at - stage)] += load;
    }
    return {loads.begin(), loads.end()};
  }

 private:
  std::vector<std::uint32_t> number_;  // by link
  std::vector<Loads> alike_;
};

// Gives hops that are alike one number. FIFOs of one script and stage see the mean of what crosses their links: in the
// second of two trees the leaves of the first stand at all heights, and to tell them apart would leave no two nodes
// alike.
class Hops {
 public:
  // A link of a route; loads: LinkLoads' number.
  struct Crossing {
    double bandwidth = 0, own = 0;
    std::uint32_t loads = 0;
    bool from_host = false;
  };
  struct Sender {
    std::uint32_t script = 0;
    double stage = 0;
    friend bool operator==(const Sender&, const Sender&) = default;
  };

  // `crossed`: empty, or all links of the route. fifos: how many have this hop.
  std::uint32_t number(const Hop& hop, const Sender& sender, const std::vector<Crossing>& crossed,
                       int fifos) {
    key_ = {hop.rate.value, hop.alone.value, hop.latency.value,   hop.kind, hop.of_one_proxy,
            hop.nodes,      hop.passed_on,   hop.from_host.value, sender,   {}};
    for (const Crossing& each : crossed) {
      key_.links.push_back({each.bandwidth, each.own, each.from_host});
    }
    const auto [at, added] = number_.try_emplace(key_, static_cast<std::uint32_t>(hops.size()));
    if (added) {
      hops.push_back(hop);
      seen_.emplace_back(crossed.size());
    }
    Hop& one = hops[at->second];  // of those that are else alike the one with the busiest ends
    one.of_proxies = std::max(one.of_proxies, hop.of_proxies);
    one.of_nics = std::min(one.of_nics, hop.of_nics);
    for (std::size_t i = 0; i < crossed.size(); ++i) {
      std::vector<std::pair<std::uint32_t, int>>& seen = seen_[at->second][i];
      auto known = std::ranges::find(seen, crossed[i].loads, &std::pair<std::uint32_t, int>::first);
      if (known == seen.end()) {
        known = seen.insert(seen.end(), {crossed[i].loads, 0});
      }
      known->second += fifos;
    }
    return at->second;
  }

  // When all FIFOs are numbered.
  void set_links(const LinkLoads& loads) {
    for (const auto& [key, number] : number_) {
      std::vector<SharedLink>& links = hops[number].links;
      for (std::size_t i = 0; i < seen_[number].size(); ++i) {
        std::map<std::int32_t, double> sum;
        int fifos = 0;
        for (const auto& [which, count] : seen_[number][i]) {
          for (const auto& [delay, load] : loads.seen_from(key.sender.stage, which)) {
            sum[delay] += count * load;
          }
          fifos += count;
        }
        const KeyLink& of = key.links[i];
        SharedLink link{BytesPerSecond(of.bandwidth), of.own, of.from_host, {}};
        for (const auto& [delay, load] : sum) {
          link.loads.emplace_back(delay, load / fifos);
        }
        if (std::ranges::find(links, link) == links.end()) {
          links.push_back(std::move(link));
        }
      }
    }
  }

  std::vector<Hop> hops;

 private:
  struct KeyLink {
    double bandwidth = 0, own = 0;
    bool from_host = false;
    friend bool operator==(const KeyLink&, const KeyLink&) = default;
  };
  struct Key {
    double rate = 0, alone = 0, latency = 0;
    HopKind kind = HopKind::inside;
    double of_one_proxy = 0;
    KindsOfNode nodes;
    bool passed_on = false;
    double from_host = 0;
    Sender sender;
    std::vector<KeyLink> links;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      std::uint64_t hash =
          key.sender.script ^ (std::uint64_t{key.nodes.from} << 32) ^ (std::uint64_t{key.nodes.to} << 48);
      const auto add = [&](double value) { hash = mix64(hash ^ std::bit_cast<std::uint64_t>(value)); };
      for (const double each : {key.rate, key.latency, key.of_one_proxy, key.sender.stage}) {
        add(each);
      }
      for (const KeyLink& link : key.links) {
        add(link.bandwidth);
        add(link.own);
      }
      return hash;
    }
  };
  Key key_;  // of the hop at hand
  std::unordered_map<Key, std::uint32_t, Hash> number_;
  // By hop and link of its route: how many FIFOs see which loads.
  std::vector<std::vector<std::vector<std::pair<std::uint32_t, int>>>> seen_;
};

// What the hop of a FIFO follows from, beside the FIFO.
struct Surroundings {
  const CollectiveGraph& graph;
  const Crossings& crossings;
  const Topology& topology;
  std::vector<std::uint16_t> costs_as;  // by kind of node
  OfProxies proxied;                    // by rank
  std::vector<bool> passed_on;          // by thread block
  std::optional<std::vector<double>> stage;
  std::optional<LinkLoads> loads;
};

Surroundings surroundings_of(const CollectiveGraph& graph, const Crossings& crossings,
                             const AlikeChannels& alike, const Topology& topology) {
  Surroundings made{graph,
                    crossings,
                    topology,
                    first_of_equal_costs(topology),
                    fifos_of_proxies(graph, crossings, alike),
                    passing_on(graph, crossings),
                    stages(graph),
                    std::nullopt};
  if (made.stage) {
    made.loads.emplace(graph, crossings, alike, *made.stage, topology.links());
  }
  return made;
}

std::optional<LinkId> read_from_host(const Topology& topology, HopKind kind, std::span<const LinkId> route) {
  return kind == HopKind::pcie ? topology.read_from_host(route) : std::nullopt;
}

// Of the NICs at the ends of a route over the network: its first link there, and its last.
double share_of_nics(const Surroundings& around, std::span<const LinkId> route, double own) {
  const auto of_network = [&](LinkId id) { return around.topology.link(id).kind == LinkKind::network; };
  const auto first = std::ranges::find_if(route, of_network);
  const auto last = std::find_if(route.rbegin(), route.rend(), of_network);
  return std::min(around.crossings.share(own, *first), around.crossings.share(own, *last));
}

// Without its links; `own`: as Crossings::for_each_fifo_of has it.
Hop hop_of(const Surroundings& around, std::uint32_t f, double own) {
  const Topology& topology = around.topology;
  const Fifo& fifo = around.graph.fifos[f];
  const std::span<const LinkId> route = around.crossings.route(f);
  constexpr BytesPerSecond kEndless(std::numeric_limits<double>::infinity());
  Hop hop{kEndless, {}, HopKind::inside, kEndless};
  hop.nodes = kinds_at(around.graph, fifo, topology, around.costs_as);
  for (const LinkId id : route) {
    const Link& link = topology.link(id);
    hop.rate = std::min(hop.rate, link.bandwidth * around.crossings.share(own, id));
    hop.alone = std::min(hop.alone, link.bandwidth);
    hop.latency = hop.latency + link.latency;
  }
  if (const std::optional<LinkId> read = topology.relayed_over(route)) {
    hop.latency = hop.latency + topology.link(*read).latency;  // of the requests
  }
  if (!route.empty()) {
    hop.kind = topology.hop_kind(route);
  }
  if (const std::optional<LinkId> read = read_from_host(topology, hop.kind, route)) {
    hop.from_host = topology.link(*read).bandwidth * around.crossings.share(own, *read);
  }
  const std::uint32_t sender = around.graph.thread_blocks[fifo.from].rank;
  const std::uint32_t receiver = around.graph.thread_blocks[fifo.to].rank;
  if (hop.kind == HopKind::network && sender != ThreadBlock::kSwitch) {
    const auto& [sends, receives] = around.proxied;
    hop.of_one_proxy = sends[sender];
    hop.of_proxies = sends[sender] + receives[sender];
    hop.of_nics = share_of_nics(around, route, own);
    if (receiver != ThreadBlock::kSwitch) {
      hop.of_proxies = std::max(hop.of_proxies, sends[receiver] + receives[receiver]);
    }
  }
  hop.passed_on = around.passed_on[fifo.to];
  return hop;
}

// The links of its route; none where all that cross them do so in every loop.
void set_crossed(const Surroundings& around, std::uint32_t f, double own, const Hop& hop,
                 std::vector<Hops::Crossing>& crossed) {
  crossed.clear();
  const std::span<const LinkId> route = around.crossings.route(f);
  const std::optional<LinkLoads>& loads = around.loads;
  if (!loads || std::ranges::all_of(route, [&](LinkId id) { return loads->at_one_stage(id); })) {
    return;
  }
  const std::optional<LinkId> read = read_from_host(around.topology, hop.kind, route);
  for (const LinkId id : route) {
    crossed.push_back({around.topology.link(id).bandwidth.value, own, loads->number(id), read == id});
  }
}

}  // namespace

Route route_of(const CollectiveGraph& graph, const Fifo& fifo, const Topology& topology, NodeLayouts inside) {
  const Rank from(graph.thread_blocks[fifo.from].rank), to(graph.thread_blocks[fifo.to].rank);
  switch (fifo.wire) {
    case Wire::gpu_to_gpu:
      return topology.route_over_nics(from, to, fifo.nic_out, fifo.nic_in, inside);
    case Wire::gpu_to_nvswitch:
      return topology.to_nvswitch(from);
    case Wire::nvswitch_to_gpu:
      return topology.from_nvswitch(to);
    case Wire::gpu_to_fabric:
      return topology.to_fabric(from, fifo.nic_out, inside);
    case Wire::fabric_to_gpu:
      return topology.from_fabric(to, fifo.nic_in, inside);
    case Wire::inside:
    case Wire::word:
      break;
  }
  return {};
}

void price_graph(CollectiveGraph& graph, const RouteList& routes, const Topology& topology,
                 const SharedLinks& shared) {
  const AlikeChannels alike(graph, routes);
  Crossings crossings(graph, routes, alike, topology);
  const Surroundings around = surroundings_of(graph, crossings, alike, topology);
  Hops hops;
  std::vector<Hops::Crossing> crossed;
  alike.for_each([&](const Channel& channel, int times) {
    for (std::uint32_t w = channel.first; w < channel.last; ++w) {
      crossings.for_each_fifo_of(w, [&](std::uint32_t f, double own) {
        const Hop hop = hop_of(around, f, own);
        set_crossed(around, f, own, hop, crossed);
        const Hops::Sender sender = crossed.empty()
                                        ? Hops::Sender{}
                                        : Hops::Sender{graph.thread_blocks[w].script, (*around.stage)[w]};
        graph.fifos[f].hop = hops.number(hop, sender, crossed, times);
      });
    }
  });
  alike.set_hops_of_others(graph);
  if (around.loads) {
    hops.set_links(*around.loads);
  }
  for (std::uint32_t f = 0; !shared.links.empty() && f < graph.fifos.size(); ++f) {
    if (std::vector<LinkId> links = shared.among(crossings.route(f)); !links.empty()) {
      graph.shared.push_back({f, std::move(links)});
    }
  }
  graph.hops = std::move(hops.hops);
  graph.turn = around.stage ? in_loops(std::ranges::max(*around.stage) / 2) : 0;
}

}  // namespace paceline
