#include "sim/collective/pricing.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

namespace paceline {
namespace {

// What a FIFO carries in one loop, in blocks.
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
      load[graph.out[thread_block.first_out + p]] = ports[p];
    }
  }
  return load;
}

// The most ports that one step of a script sends on.
std::vector<double> widest_steps(const CollectiveGraph& graph) {
  std::vector<double> widest;
  for (const Script& script : graph.scripts) {
    double ports = 1;
    for (const Step& step : script.steps) {
      ports = std::max<double>(ports, step.send.count);
    }
    widest.push_back(ports);
  }
  return widest;
}

// What asks for data that is read over NVLink, of the data: a flit of 16 bytes for a line of 128.
constexpr double kReadRequests = 1.0 / 8;

// Blocks per loop that cross each link: of all thread blocks, and of the one at hand.
class Crossings {
 public:
  Crossings(const CollectiveGraph& graph, std::vector<Route> routes, const Topology& topology)
      : graph_(graph),
        load_(loads(graph)),
        at_once_(widest_steps(graph)),
        routes_(std::move(routes)),
        all_(topology.links()),
        own_(topology.links()),
        own_fifos_(topology.links()) {
    for (std::size_t f = 0; f < load_.size(); ++f) {
      for (const LinkId link : routes_[f]) {
        all_[link.index()] += load_[f];
      }
      if (const std::optional<LinkId> read = topology.relayed_over(routes_[f])) {
        const Link& link = topology.link(*read);
        all_[topology.link_between(link.to, link.from)->index()] += load_[f] * kReadRequests;
      }
    }
  }

  const Route& route(std::uint32_t fifo) const { return routes_[fifo]; }

  // Calls f(fifo, share) for all FIFOs that a thread block sends on; share(link): the part of a link that
  // this one may use.
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
    for (std::uint32_t p = first; p < last; ++p) {
      const double own = of_switch ? sent / at_once : most_on_a_link(graph_.out[p], at_once);
      f(graph_.out[p], [&](LinkId link) { return std::min(1.0, own / all_[link.index()]); });
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

  const CollectiveGraph& graph_;
  std::vector<double> load_, at_once_;
  std::vector<Route> routes_;
  std::vector<double> all_, own_, own_fifos_;
};

// Gives each different hop one number.
class Hops {
 public:
  std::uint32_t number(const Hop& hop) {
    const auto [at, added] =
        number_.try_emplace({hop.rate.value, hop.alone.value, hop.latency.value, hop.kind},
                            static_cast<std::uint32_t>(hops.size()));
    if (added) {
      hops.push_back(hop);
    }
    return at->second;
  }
  std::vector<Hop> hops;

 private:
  std::map<std::tuple<double, double, double, HopKind>, std::uint32_t> number_;
};

}  // namespace

Route route_of(const CollectiveGraph& graph, const Fifo& fifo, const Topology& topology,
               const NodeLayout& inside) {
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
      break;
  }
  return {};
}

SharedLinks::SharedLinks(const Topology& topology, std::span<const BackgroundFlow> background)
    : topology_(topology) {
  for (const BackgroundFlow& flow : background) {
    SharedFlow shared{{}, flow.rate};
    for (const LinkId id : topology.route(Rank(flow.from), Rank(flow.to), flow.nic)) {
      shared.links.push_back(number(id));
      shared.rate = std::min(shared.rate, topology.link(id).bandwidth);
    }
    flows.push_back(std::move(shared));
  }
}

SharedLinks::SharedLinks(const Communicator& communicator, const Topology& topology)
    : links(communicator.shared_links),
      capacity(communicator.shared_capacity),
      flows(communicator.background),
      topology_(topology) {
  for (std::size_t i = 0; i < links.size(); ++i) {
    number_.emplace(links[i], LinkId(i));
  }
}

LinkId SharedLinks::number(LinkId link) {
  const auto [at, added] = number_.try_emplace(link, LinkId(links.size()));
  if (added) {
    links.push_back(link);
    capacity.push_back(topology_.link(link).bandwidth);
  }
  return at->second;
}

std::vector<LinkId> SharedLinks::among(const Route& route) const {
  std::vector<LinkId> numbered;
  for (const LinkId id : route) {
    if (const auto at = number_.find(id); at != number_.end()) {
      numbered.push_back(at->second);
    }
  }
  return numbered;
}

void price_graph(CollectiveGraph& graph, std::vector<Route> routes, const Topology& topology,
                 const SharedLinks& shared) {
  Crossings crossings(graph, std::move(routes), topology);
  Hops hops;
  for (std::uint32_t w = 0; w < graph.thread_blocks.size(); ++w) {
    crossings.for_each_fifo_of(w, [&](std::uint32_t f, const auto& share) {
      const Route& route = crossings.route(f);
      constexpr BytesPerSecond kEndless(std::numeric_limits<double>::infinity());
      Hop hop{kEndless, {}, HopKind::inside, kEndless};
      for (const LinkId id : route) {
        const Link& link = topology.link(id);
        hop.rate = std::min(hop.rate, link.bandwidth * share(id));
        hop.alone = std::min(hop.alone, link.bandwidth);
        hop.latency = hop.latency + link.latency;
      }
      if (const std::optional<LinkId> read = topology.relayed_over(route)) {
        hop.latency = hop.latency + topology.link(*read).latency;  // of the requests
      }
      if (route.size > 0) {
        hop.kind = topology.hop_kind(route);
      }
      graph.fifos[f].hop = hops.number(hop);
    });
  }
  for (std::uint32_t f = 0; f < graph.fifos.size(); ++f) {
    if (std::vector<LinkId> links = shared.among(crossings.route(f)); !links.empty()) {
      graph.shared.push_back({f, std::move(links)});
    }
  }
  graph.hops = std::move(hops.hops);
}

}  // namespace paceline
