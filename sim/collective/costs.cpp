#include "sim/collective/costs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "core/error.h"
#include "core/unknown_name.h"
#include "sim/collective/live_loops.h"
#include "sim/collective/step_times.h"

namespace paceline {
namespace {

using namespace units;

constexpr double kGiga = 1e9;

// What a link's latency is already part of the cost per hop: the presets' links. A route's latency beyond it
// is added.
constexpr std::array<Seconds, kHopKinds> kUsualLatency{0.93625_us, 0.9_us, 1.46_us};

// Data per byte on the wire (src/include/device.h): LL 8 of 16 bytes, LL128 120 of 128.
constexpr std::array<double, kProtocols> kLineEfficiency{0.5, 120.0 / 128.0, 1};

// A parameter's name, and where its value stands.
struct NamedCost {
  std::string name;
  double* value;
};

bool reduced_by_nvswitch(Algorithm algorithm) {
  return algorithm == Algorithm::nvls || algorithm == Algorithm::nvls_tree;
}

std::string hop_kind(std::size_t k) { return std::string(name_of(static_cast<HopKind>(k))); }

std::vector<NamedCost> named(CollectiveCosts& costs) {
  std::vector<NamedCost> all;
  for (std::size_t p = 0; p < kProtocols; ++p) {
    const std::string protocol(name_of(static_cast<Protocol>(p)));
    CollectiveCosts::OfProtocol& of = costs.of[p];
    all.push_back({protocol + ".startup", &of.startup.value});
    for (std::size_t k = 0; k < kHopKinds; ++k) {
      all.push_back({protocol + '.' + hop_kind(k) + ".latency", &of.latency[k].value});
    }
    if (static_cast<Protocol>(p) != Protocol::simple) {
      all.push_back({"ring." + protocol + ".efficiency", &of.ring_efficiency});
    }
    all.push_back({"tree." + protocol + ".efficiency", &of.tree_efficiency});
  }
  all.push_back({"simple.slice_overhead", &costs.simple_slice_overhead.value});
  all.push_back({"nvls.startup", &costs.nvls.startup.value});
  all.push_back({"nvls.latency", &costs.nvls.latency.value});
  all.push_back({"nvls.slice_overhead", &costs.nvls.slice_overhead.value});
  all.push_back({"nvls.efficiency", &costs.nvls.efficiency});
  all.push_back({"nvls.tree_efficiency", &costs.nvls.tree_efficiency});
  for (std::size_t k = 0; k < kHopKinds; ++k) {
    all.push_back({hop_kind(k) + ".efficiency", &costs.efficiency[k]});
  }
  all.push_back({"host.efficiency", &costs.host_efficiency});
  all.push_back({"network.latency", &costs.network_latency.value});
  all.push_back({"network.slice_overhead", &costs.network_slice_overhead.value});
  all.push_back({"network.fifo_startup", &costs.fifo_startup.value});
  all.push_back({"network.channel_overhead", &costs.channel_overhead.value});
  all.push_back({"network.channel_rate", &costs.channel_rate.value});
  all.push_back({"network.thread_rate", &costs.thread_rate.value});
  all.push_back({"network.socket_rate", &costs.socket_rate.value});
  all.push_back({"network.adapter_rate", &costs.adapter_rate.value});
  all.push_back({"ll.proxy_rate", &costs.ll_proxy_rate.value});
  all.push_back({"block.copy_rate", &costs.copy_rate.value});
  all.push_back({"launch.latency", &costs.launch_latency.value});
  all.push_back({"launch.period", &costs.launch_period.value});
  all.push_back({"launch.exposed", &costs.launch_exposed.value});
  const auto of_hosts = [&all](const std::string& library, const char* agreement,
                               CollectiveCosts::OfHosts& of) {
    all.push_back({library + ".startup", &of.startup.value});
    for (std::size_t k = 0; k < kHopKinds; ++k) {
      all.push_back({library + '.' + hop_kind(k) + ".latency", &of.latency[k].value});
    }
    if (agreement != nullptr) {
      all.push_back({library + '.' + agreement, &of.agreement.value});
    }
    all.push_back({library + ".reduce_rate", &of.reduce_rate.value});
  };
  of_hosts("mpi", "rendezvous", costs.mpi);
  of_hosts("gloo", "handshake", costs.gloo);
  all.push_back({"tcp.acknowledgements", &costs.acknowledgements});
  all.push_back({"gloo.copy_rate", &costs.gloo.copy_rate.value});
  all.push_back({"gloo.local_rate", &costs.gloo.local_rate.value});
  of_hosts("tensorflow", nullptr, costs.tensorflow);
  all.push_back({"tensorflow.copy_rate", &costs.tensorflow.copy_rate.value});
  return all;
}

const NamedCost& find_cost(const std::vector<NamedCost>& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &NamedCost::name);
  if (found == all.end()) {
    throw InputError(unknown_name("cost parameter", name, cost_parameter_names()));
  }
  return *found;
}

// The most that one channel of an algorithm moves: what a thread block can, in lines of the protocol, and
// half of NCCL's caps, which are a search channel's: as a rule it runs as two. `full`: else a tree in Simple fills or
// drains.
double channel_cap(const CollectivePlan& plan, const CollectiveCosts& costs, bool full) {
  constexpr double kOfTwo = kGiga / 2;
  const auto& of = costs.of[static_cast<std::size_t>(plan.protocol)];
  const double block = costs.copy_rate.value * kLineEfficiency[static_cast<std::size_t>(plan.protocol)];
  const ChannelCaps& caps = costs.caps;
  const bool ll = plan.protocol == Protocol::ll, ll128 = plan.protocol == Protocol::ll128;
  if (reduced_by_nvswitch(plan.algorithm)) {
    return std::numeric_limits<double>::infinity();  // the switch moves the data
  }
  if (plan.algorithm == Algorithm::tree) {  // its bus bandwidth is twice what a thread block moves
    const double of_protocol = ll128 ? caps.tree_ll128 * kOfTwo : block;
    return (full ? std::min(of_protocol, caps.tree * kOfTwo) : of_protocol) / 2 * of.tree_efficiency;
  }
  const double of_protocol = ll ? block : ll128 ? caps.ring_ll128 * kOfTwo : costs.copy_rate.value;
  return std::min(of_protocol * of.ring_efficiency, costs.copy_rate.value);
}

// What the thread blocks of a graph do in one loop, if they send and also copy (the end of a ring's loop):
// bytes. Such graphs have one script, which all thread blocks run.
struct Pausing {
  double sent = 0, copied = 0;
  double messages = 0;  // slices sent
  double last_wait =
      0;  // of the loop's last copy: how much less than its latency a thread block waits for it
};

std::optional<Pausing> pausing(const CollectiveGraph& graph, const Loops& loops) {
  if (graph.scripts.size() != 1) {
    return std::nullopt;
  }
  Pausing all;
  for (const Step& step : graph.scripts.front().steps) {
    const double bytes = static_cast<double>(loops.chunk.value) * step.width;
    (step.send.count == 0 ? all.copied : all.sent) += bytes * step.times;
    all.messages += step.send.count == 0 ? 0 : step.times * slices_of(loops);
    all.last_wait = static_cast<double>(loops.slice.value) * step.width * (slices_of(loops) - 1);
  }
  return all.sent > 0 && all.copied > 0 ? std::optional(all) : std::nullopt;
}

// The least that a loop's messages occupy a hop, s.
double least_of_loop(const CollectiveGraph& graph, const Loops& loops, const HopCost& hop) {
  const std::uint32_t slices = slices_of(loops);
  const Bytes slice = slices == 1 ? loops.chunk : loops.slice;
  double least = 0;
  for (const Step& step : graph.scripts.front().steps) {
    if (step.send.count > 0) {
      const Bytes first(slice.value * step.width), all(loops.chunk.value * step.width);
      const Bytes last(all.value - (slices - 1) * first.value);
      least += step.times * to_seconds(least_of(first, hop) * (slices - 1) + least_of(last, hop)).value;
    }
  }
  return least;
}

std::size_t kind_of(std::uint16_t node, std::span<const CollectiveCosts> costs) {
  return costs.size() == 1 ? 0 : node;
}

// How much of its pauses a plan shows. A thread block that waits for its loop's last chunk and copies it
// leaves its share of the link to the others, and gets theirs when they do: as long as there is a next loop
// to catch up in, the links are always busy, and what counts is the longer of what they take for a loop (or the
// channel and the proxy for its messages, whose slots are full meanwhile) and what a thread block itself does, alone at
// its proxy. Blocks that read over NVLink instead of writing (compute capability 8.0, src/graph/paths.cc) don't catch
// up: their rate is what they have in flight.
double part_shown(const CollectivePlan& plan, const CollectiveGraph& graph,
                  std::span<const CollectiveCosts> costs, const Pausing& loop,
                  std::span<const BytesPerSecond> caps) {
  double links = 0, blocks = 0, pause = 0;  // s in a loop; the pause is the slowest block's
  for (std::size_t h = 0; h < plan.hops.size(); ++h) {
    const HopCost& hop = plan.hops[h];
    const Hop& link = graph.hops[h];
    if (link.kind == HopKind::inside) {
      continue;
    }
    const std::size_t kind = kind_of(link.nodes.from, costs);
    const bool catches_up = !costs[kind].nvlink_reads || link.kind != HopKind::nvlink;
    const double fastest =
        catches_up ? std::min(caps[kind].value, link.alone.value * hop.rate.value / link.rate.value)
                   : hop.rate.value;
    const double pauses =
        loop.copied / plan.copy_rate.value +
        std::max(0.0, to_seconds(hop.latency).value - loop.last_wait / plan.copy_rate.value);
    const double messages =
        loop.messages * to_seconds(hop.overhead).value;  // its proxy's other FIFOs' among them
    const double block = loop.sent / fastest + messages / link.of_one_proxy + pauses;
    links = std::max(
        {links, loop.sent / hop.rate.value + messages, least_of_loop(graph, plan.loops.front(), hop)});
    if (block > blocks) {
      blocks = block;
      pause = pauses;
    }
  }
  return std::clamp((blocks - links) / pause, 0.0, 1.0);
}

}  // namespace

Protocol begins_as(Algorithm algorithm, Protocol protocol) {
  return algorithm == Algorithm::point_to_point ? Protocol::ll : protocol;
}

std::vector<std::string> cost_parameter_names() {
  CollectiveCosts costs;
  std::vector<std::string> names;
  for (const NamedCost& cost : named(costs)) {
    names.push_back(cost.name);
  }
  return names;
}

double cost_value(const std::string& name, CollectiveCosts costs) {
  return *find_cost(named(costs), name).value;
}

void set_costs(std::span<const CostParameter> parameters, CollectiveCosts& costs) {
  const std::vector<NamedCost> all = named(costs);
  for (const CostParameter& parameter : parameters) {
    *find_cost(all, parameter.name).value = parameter.value;
  }
}

namespace {

// What hops cost whose ends have these costs.
class HopPricing {
 public:
  HopPricing(const CollectivePlan& plan, const CollectiveCosts& costs, BytesPerSecond cap,
             const PriceRequest& request)
      : plan_(plan),
        costs_(costs),
        of_protocol_(costs.of[static_cast<std::size_t>(plan.protocol)]),
        cap_(cap),
        threads_(request.socket_threads),
        sockets_(threads_ > 0 ? threads_ * request.sockets_per_thread : 1),
        by_switch_(reduced_by_nvswitch(plan.algorithm)),
        of_switch_(costs.nvls.efficiency *
                   (plan.algorithm == Algorithm::nvls_tree ? costs.nvls.tree_efficiency : 1)) {}

  // Of a hop whose links have these.
  BytesPerSecond rate(const Hop& hop, const HopRates& links) const {
    const bool network = hop.kind == HopKind::network, of_host = links.from_host.value > 0;
    const double line = kLineEfficiency[static_cast<std::size_t>(plan_.protocol)];
    const double efficiency =
        of_host ? 1 : costs_.efficiency[static_cast<std::size_t>(hop.kind)] * (nvls(hop) ? of_switch_ : 1);
    BytesPerSecond most = of_host ? std::min(cap_, links.from_host * (line * costs_.host_efficiency)) : cap_;
    if (network && plan_.protocol == Protocol::ll) {
      most = std::min(most, costs_.ll_proxy_rate / hop.of_one_proxy);
    }
    if (network && plan_.algorithm == Algorithm::point_to_point) {
      most = std::min(most, kPeerNetworkRate);
    }
    if (network && costs_.thread_rate.value > 0) {
      most = std::min(most, costs_.thread_rate * (line * threads_of(hop)));
    }
    if (network && costs_.socket_rate.value > 0) {
      most = std::min(most, costs_.socket_rate * (line * sockets_));
    }
    if (network && costs_.adapter_rate.value > 0) {
      most = std::min(most, costs_.adapter_rate * (line * hop.of_nics));
    }
    return std::min(links.narrowest * (line * efficiency), most);
  }

  HopCost cost(const Hop& hop) const {
    HopCost cost{rate(hop, {hop.rate, hop.from_host}), {}, {}};
    const auto kind = static_cast<std::size_t>(hop.kind);
    const bool network = hop.kind == HopKind::network;
    const Seconds beyond(std::max(0.0, hop.latency.value - kUsualLatency[kind].value));
    const Seconds latency = nvls(hop) ? costs_.nvls.latency : of_protocol_.latency[kind];
    cost.latency = to_sim_time(latency + beyond + (network ? costs_.network_latency : Seconds{}));
    if (network) {
      const Seconds overhead = costs_.network_slice_overhead * messages_at_once(hop);
      SimTime& part = costs_.serial_messages ? cost.overhead : cost.least;
      if (plan_.protocol == Protocol::simple) {
        part = to_sim_time(overhead);
        cost.eager = costs_.eager;
      } else if (message_bytes() > static_cast<double>(costs_.eager.value)) {
        part = to_sim_time(overhead / slices_of(plan_.loops.front()));
      }
      if (plan_.protocol == Protocol::simple && plan_.algorithm != Algorithm::point_to_point) {
        cost.channel = to_sim_time(costs_.channel_overhead);
        cost.channel_rate = costs_.channel_rate;
      }
    }
    if (!network && plan_.protocol == Protocol::simple) {
      cost.overhead = to_sim_time(nvls(hop) ? costs_.nvls.slice_overhead : costs_.simple_slice_overhead);
    }
    if (hop.passed_on && plan_.protocol == Protocol::ll128 && passed_on_by_all()) {
      cost.cut_through = cap_;  // no hop is faster, so that nobody has passed on what has not come
    }
    return cost;
  }

 private:
  // In trees, and from or to a root, all but the ends send on what they receive; in a ring of all, what they have.
  bool passed_on_by_all() const { return plan_.algorithm == Algorithm::tree || has_root(plan_.kind); }
  // NCCL sends a peer's part of an all-to-all on few channels, where here each channel has some of it.
  double messages_at_once(const Hop& hop) const {
    return plan_.algorithm == Algorithm::point_to_point ? 1 : hop.of_one_proxy;
  }
  // That send, and that receive, what goes through a FIFO. Without threads of its own it has its share of the proxy's,
  // and never less with them. What follows closely keeps all of them busy, but a message between peers has a part for
  // two.
  double threads_of(const Hop& hop) const {
    constexpr double kPart =
        64 << 10;  // for another thread at least (MIN_CHUNKSIZE, src/transport/net_socket.cc)
    const double of_proxy = 2 / hop.of_proxies;
    if (threads_ == 0) {
      return of_proxy;
    }
    const bool of_peers = plan_.algorithm == Algorithm::point_to_point;
    return std::max(of_proxy, of_peers ? std::clamp<double>(message_bytes() / kPart, 1, threads_) : threads_);
  }
  // On the wire. In lines a chunk is one message.
  double message_bytes() const {
    return static_cast<double>(plan_.loops.front().chunk.value) /
           kLineEfficiency[static_cast<std::size_t>(plan_.protocol)];
  }
  bool nvls(const Hop& hop) const { return by_switch_ && hop.kind == HopKind::nvlink; }

  const CollectivePlan& plan_;
  const CollectiveCosts& costs_;
  const CollectiveCosts::OfProtocol& of_protocol_;
  BytesPerSecond cap_;
  int threads_, sockets_;
  bool by_switch_;
  double of_switch_;
};

// 0: no limit.
BytesPerSecond slower_of(BytesPerSecond a, BytesPerSecond b) {
  return a.value > 0 && b.value > 0 ? std::min(a, b) : std::max(a, b);
}

HopCost slower(const HopCost& a, const HopCost& b) {
  return {std::min(a.rate, b.rate),         std::max(a.latency, b.latency),
          std::max(a.least, b.least),       std::max(a.hidden, b.hidden),
          std::max(a.overhead, b.overhead), std::max(a.cut_through, b.cut_through),
          std::max(a.channel, b.channel),   slower_of(a.channel_rate, b.channel_rate),
          std::min(a.eager, b.eager)};
}

// Over the network, by the GPU that begins most. Each channel of an all-to-all sends a part of what goes to a peer,
// where NCCL sends a small part on one.
double begun_fifos(const CollectivePlan& plan, const CollectiveGraph& graph) {
  double most = 0;
  if (plan.algorithm != Algorithm::point_to_point) {
    for (const Hop& hop : graph.hops) {
      most = std::max(most, hop.kind == HopKind::network ? hop.of_one_proxy : 0);
    }
    return most;
  }
  std::map<std::uint32_t, double> of_rank;
  for (const Fifo& fifo : graph.fifos) {
    if (graph.hops[fifo.hop].kind == HopKind::network) {
      most = std::max(most, of_rank[graph.thread_blocks[fifo.from].rank] += 1);
    }
  }
  return most / graph.channels;
}

}  // namespace

void price_plan(CollectivePlan& plan, const CollectiveGraph& graph, std::span<const CollectiveCosts> costs,
                const PriceRequest& request) {
  const bool fills = request.fills_faster;
  std::vector<BytesPerSecond> caps;
  std::vector<HopPricing> of_kind, filling;
  Seconds startup, period, exposed;
  const double proxied = begun_fifos(plan, graph);
  plan.copy_rate = BytesPerSecond(std::numeric_limits<double>::infinity());
  for (const CollectiveCosts& each : costs) {
    caps.emplace_back(channel_cap(plan, each, true));
    of_kind.emplace_back(plan, each, caps.back(), request);
    filling.emplace_back(plan, each, BytesPerSecond(channel_cap(plan, each, false)), request);
    const auto begins = static_cast<std::size_t>(begins_as(plan.algorithm, plan.protocol));
    const Seconds first = reduced_by_nvswitch(plan.algorithm) ? each.nvls.startup : each.of[begins].startup;
    startup = std::max(startup, first + each.launch_latency + each.fifo_startup * proxied);
    period = std::max(period, each.launch_period);
    exposed = std::max(exposed, each.launch_exposed);
    plan.copy_rate = std::min(plan.copy_rate, each.copy_rate);
  }
  plan.startup = to_sim_time(startup);
  const int launches = request.gpus_per_process;
  plan.launch_period = to_sim_time(period * launches);
  plan.launch_exposed = launches > 1 ? to_sim_time(exposed * launches) : SimTime{};
  const std::vector<LiveLoops> live = live_loops(plan.loops);
  const std::size_t hops = graph.hops.size();
  plan.hops.clear();
  plan.paced.clear();
  for (const Hop& hop : graph.hops) {
    if (hop.kind == HopKind::inside) {
      plan.hops.push_back({hop.rate, {}, {}});
      continue;
    }
    const std::size_t sends = kind_of(hop.nodes.from, costs), receives = kind_of(hop.nodes.to, costs);
    plan.hops.push_back(sends == receives ? of_kind[sends].cost(hop)
                                          : slower(of_kind[sends].cost(hop), of_kind[receives].cost(hop)));
    if (!hop.links.empty() || fills) {
      plan.paced.resize(live.size() * hops);
      for (std::size_t i = 0; i < live.size(); ++i) {
        const bool full = !fills || hop.kind == HopKind::network ||
                          (graph.turn <= live[i].last && live[i].first <= -graph.turn);
        const std::vector<HopPricing>& with = full ? of_kind : filling;
        const HopRates rates = rates_in(hop, live[i]);
        plan.paced[i * hops + plan.hops.size() - 1] =
            std::min(with[sends].rate(hop, rates), with[receives].rate(hop, rates));
      }
    }
  }
  const std::optional<Pausing> loop = pausing(graph, plan.loops.front());
  plan.copy_shown = loop ? part_shown(plan, graph, costs, *loop, caps) : 1;
  for (HopCost& hop : plan.hops) {
    hop.hidden =
        loop && plan.slots > 0 ? to_sim_time(to_seconds(hop.latency) * (1 - plan.copy_shown)) : SimTime{};
  }
}

}  // namespace paceline
