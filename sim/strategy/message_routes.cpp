#include "sim/strategy/message_routes.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "sim/collective/shared_links.h"

namespace paceline {
namespace {

HopKind hop_kind(const Link& link) {
  return link.kind == LinkKind::nvlink    ? HopKind::nvlink
         : link.kind == LinkKind::network ? HopKind::network
                                          : HopKind::pcie;  // between sockets as well: a node's own
}

}  // namespace

std::vector<MessagePair> message_pairs(const TrainingJob& job) {
  const auto ranks = static_cast<std::uint32_t>(job.ranks());
  std::vector<std::vector<const Op*>> sends;  // by role
  for (const Role& role : job.roles) {
    sends.emplace_back();
    for (const Thread& thread : role.threads) {
      for (const Op& op : thread.steady.ops) {
        if (op.kind == OpKind::send) {
          sends.back().push_back(&op);
        }
      }
    }
  }
  std::set<MessagePair> pairs;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    for (const Op* const op : sends[job.role_of(r)]) {
      const std::uint32_t from = op->source == kNoIndex ? r : op->source;
      const Family& family = job.families[op->to];
      for (const std::uint32_t to : family.groups[family.group_of[r]]) {
        if (to != from) {
          pairs.emplace(from, to);
        }
        if (to >= ranks) {
          pairs.emplace(to, from);
        }
      }
    }
  }
  return {pairs.begin(), pairs.end()};
}

void place_messages(const Topology& topology, TrainingJob& job) {
  const std::vector<MessagePair> pairs =
      job.serving.empty() ? message_pairs(job) : std::vector<MessagePair>{};
  if (pairs.empty()) {
    return;
  }
  for (std::uint32_t r = 0; r < job.ranks(); ++r) {
    job.members[r].device = topology.gpu_of(Rank(r));
  }
  if (job.members.size() > job.ranks()) {
    if (topology.node().count(DeviceKind::cpu) == 0) {
      throw InputError("expected a node with a CPU, from whose memory inputs come, found none in " +
                           topology.spec_of_kind(0).name,
                       "/cluster/node");
    }
    job.members.back().device = topology.device_named("node0/cpu0");
  }
  add_message_routes(topology, pairs, job);
}

void add_message_routes(const Topology& topology, std::span<const MessagePair> pairs, TrainingJob& job) {
  SharedLinks shared(job.communicator, topology);
  for (const auto& [from, to] : pairs) {
    const DeviceId a = job.members[from].device, b = job.members[to].device;
    const Route links = topology.route_of_message(a, b);
    if (links.size == 0) {
      throw InputError("expected members that can reach each other, found no way from " +
                           topology.device_name(a) + " to " + topology.device_name(b),
                       "/cluster");
    }
    MessageRoute route{from,           to, {}, BytesPerSecond(std::numeric_limits<double>::infinity()), {},
                       HopKind::nvlink};
    Seconds latency;
    for (const LinkId id : links) {
      const Link& link = topology.link(id);
      latency = latency + link.latency;
      route.rate = std::min(route.rate, link.bandwidth);
      route.links.push_back(shared.number(id));
      route.kind = std::max(route.kind, hop_kind(link));
    }
    route.latency = to_sim_time(latency);
    job.routes.push_back(std::move(route));
  }
  job.communicator.shared_links = std::move(shared.links);
  job.communicator.shared_capacity = std::move(shared.capacity);
  std::ranges::sort(job.routes, {},
                    [](const MessageRoute& route) { return std::pair(route.from, route.to); });
}

void drop_links_in_series(TrainingJob& job) {
  const std::vector<BytesPerSecond>& capacity = job.communicator.shared_capacity;
  std::vector<std::vector<std::uint32_t>> users(capacity.size());  // by link: who crosses it
  std::uint32_t user = 0;
  for (const MessageRoute& route : job.routes) {
    for (const LinkId link : route.links) {
      users[link.index()].push_back(user);
    }
    ++user;
  }
  for (const SharedFlow& flow : job.communicator.background) {
    for (const LinkId link : flow.links) {
      users[link.index()].push_back(user);
    }
    ++user;
  }
  std::vector<std::uint32_t> links(users.size());
  std::iota(links.begin(), links.end(), 0);
  std::ranges::sort(links, [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(users[a], capacity[a], a) < std::tie(users[b], capacity[b], b);
  });
  std::vector<bool> in_series(links.size());
  for (std::size_t i = 1; i < links.size(); ++i) {
    in_series[links[i]] = users[links[i]] == users[links[i - 1]];
  }
  for (MessageRoute& route : job.routes) {
    std::erase_if(route.links, [&](LinkId link) { return in_series[link.index()]; });
  }
}

}  // namespace paceline
