#include "sim/collective/communicator.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace paceline {
namespace {

// The number of hops, of all channels, that cross each link.
std::vector<std::uint32_t> count_uses(const Topology& topology, const std::vector<Channel>& channels) {
  std::vector<std::uint32_t> uses(topology.links(), 0);
  for (std::size_t c = 0; c < channels.size(); ++c) {
    const std::vector<Rank>& order = channels[c].order;
    for (std::size_t p = 0; p < order.size(); ++p) {
      for (const LinkId link : topology.route(order[p], order[(p + 1) % order.size()], static_cast<int>(c))) {
        ++uses[link.index()];
      }
    }
  }
  return uses;
}

Seconds protocol_cost(const CollectiveSpec& spec, HopKind kind) {
  switch (kind) {
    case HopKind::nvlink:
      return spec.nvlink_hop;
    case HopKind::pcie:
      return spec.pcie_hop;
    case HopKind::network:
      return spec.network_hop;
  }
  return {};
}

HopClass price(const Topology& topology, const CollectiveSpec& spec, const Route& route,
               const std::vector<std::uint32_t>& uses) {
  BytesPerSecond rate(std::numeric_limits<double>::infinity());
  Seconds latency = protocol_cost(spec, topology.hop_kind(route));
  for (const LinkId id : route) {
    const Link& link = topology.link(id);
    rate = std::min(rate, link.bandwidth / static_cast<double>(std::max(1U, uses[id.index()])));
    latency = latency + link.latency;
  }
  return {rate, to_sim_time(latency)};
}

// Numbers the links of the background flows' routes; a link's number is its place in `capacity`.
class SharedLinks {
 public:
  explicit SharedLinks(const Topology& topology) : topology_(topology) {}

  SharedFlow add(const BackgroundFlow& flow) {
    SharedFlow shared{{}, flow.rate};
    for (const LinkId id : topology_.route(Rank(flow.from), Rank(flow.to), 0)) {
      const auto [at, added] = number_.try_emplace(id, LinkId(capacity.size()));
      if (added) {
        capacity.push_back(topology_.link(id).bandwidth);
      }
      shared.links.push_back(at->second);
      shared.rate = std::min(shared.rate, topology_.link(id).bandwidth);
    }
    return shared;
  }

  std::vector<LinkId> among(const Route& route) const {
    std::vector<LinkId> links;
    for (const LinkId id : route) {
      if (const auto at = number_.find(id); at != number_.end()) {
        links.push_back(at->second);
      }
    }
    return links;
  }

  std::vector<BytesPerSecond> capacity;

 private:
  const Topology& topology_;
  std::map<LinkId, LinkId> number_;
};

// Gives each different hop one number.
class HopClasses {
 public:
  std::uint32_t number(const HopClass& hop) {
    const auto [at, added] =
        number_.try_emplace({hop.rate.value, hop.latency.ps}, static_cast<std::uint32_t>(classes.size()));
    if (added) {
      classes.push_back(hop);
    }
    return at->second;
  }
  std::vector<HopClass> classes;

 private:
  std::map<std::pair<double, std::int64_t>, std::uint32_t> number_;
};

}  // namespace

Communicator make_communicator(const Topology& topology, const CollectiveSpec& spec,
                               std::span<const BackgroundFlow> background) {
  if (topology.ranks() == 1) {
    return lone_communicator();
  }
  Communicator made;
  const int channels = spec.channels > 0 ? spec.channels : topology.default_channels();
  for (int c = 0; c < channels; ++c) {
    made.channels.push_back({topology.ring_order(c), 0});
  }
  SharedLinks shared(topology);
  for (const BackgroundFlow& flow : background) {
    made.background.push_back(shared.add(flow));
  }
  const std::vector<std::uint32_t> uses = count_uses(topology, made.channels);
  HopClasses classes;
  for (std::uint32_t c = 0; c < made.channels.size(); ++c) {
    const std::vector<Rank>& order = made.channels[c].order;
    std::vector<std::uint32_t> pattern(order.size());
    for (std::uint32_t p = 0; p < order.size(); ++p) {
      const Route route = topology.route(order[p], order[(p + 1) % order.size()], static_cast<int>(c));
      pattern[p] = classes.number(price(topology, spec, route, uses));
      if (std::vector<LinkId> links = shared.among(route); !links.empty()) {
        made.shared_hops.push_back({c, p, std::move(links)});
      }
    }
    const auto same = std::find(made.patterns.begin(), made.patterns.end(), pattern);
    made.channels[c].pattern = static_cast<std::uint32_t>(same - made.patterns.begin());
    if (same == made.patterns.end()) {
      made.patterns.push_back(std::move(pattern));
    }
  }
  made.classes = std::move(classes.classes);
  if (made.shared_hops.empty()) {
    made.background.clear();  // it meets nobody
  } else {
    made.shared_capacity = std::move(shared.capacity);
  }
  return made;
}

Communicator lone_communicator() {
  Communicator made;
  made.classes = {{BytesPerSecond(1), SimTime{}}};
  made.patterns = {{0}};
  made.channels = {{{Rank(0)}, 0}};
  return made;
}

namespace {

constexpr std::int64_t kChunkAlignment = 16;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

Bytes chunk_of(Bytes bytes, std::size_t ranks, std::size_t channels) {
  const std::int64_t chunk = divide_up(bytes.value, static_cast<std::int64_t>(ranks * channels));
  return Bytes(divide_up(chunk, kChunkAlignment) * kChunkAlignment);
}

}  // namespace

CollectivePlan plan_all_reduce(Bytes bytes, std::size_t ranks, std::size_t channels) {
  return {CollectiveKind::all_reduce, bytes, chunk_of(bytes, ranks, channels),
          2 * (static_cast<std::int64_t>(ranks) - 1)};
}

CollectivePlan plan_broadcast(Bytes bytes, std::size_t ranks, std::size_t channels) {
  const Bytes chunk = chunk_of(bytes, ranks, channels);
  const std::int64_t per_channel = divide_up(bytes.value, static_cast<std::int64_t>(channels));
  const std::int64_t chunks =
      chunk.value == 0 ? 1 : std::max<std::int64_t>(1, divide_up(per_channel, chunk.value));
  return {CollectiveKind::broadcast, bytes, chunk, ranks == 1 ? 0 : chunks};
}

SimTime occupancy(Bytes chunk, const HopClass& hop) { return to_sim_time(chunk / hop.rate); }

std::size_t root_position(const Channel& channel) {
  return static_cast<std::size_t>(std::find(channel.order.begin(), channel.order.end(), Rank(0)) -
                                  channel.order.begin());
}

}  // namespace paceline
