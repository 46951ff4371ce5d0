#include "sim/report/link_traffic.h"

#include <algorithm>

#include "sim/collective/fifo_traffic.h"
#include "sim/collective/shared_links.h"
#include "sim/report/messages.h"

namespace paceline {
namespace {

// Towards the root of a node's PCIe, and towards the cores of the fabric.
int level(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::gpu:
    case DeviceKind::nic:
      return 0;
    case DeviceKind::nvswitch:
    case DeviceKind::pcie_switch:
    case DeviceKind::leaf:
      return 1;
    case DeviceKind::cpu:
    case DeviceKind::spine:
      return 2;
    case DeviceKind::core:
      return 3;
  }
  return 0;
}

// The bytes of an iteration that run on each graph.
std::vector<double> bytes_of_graphs(const TrainingJob& job) {
  std::vector<double> bytes(job.communicator.graphs.size());
  for (const Thread& thread : job.roles.front().threads) {
    for (const Op& op : thread.steady.ops) {
      if (op.kind == OpKind::collective) {
        for_each_run(job.plans, thread.steady.collectives[op.index], [&](const CollectivePlan& plan) {
          bytes[plan.graph] += static_cast<double>(plan.bytes.value) / op.steps_each();
        });
      }
    }
  }
  return bytes;
}

// Of all collectives of an iteration.
std::vector<Stage> stages_of_step(const TrainingJob& job) {
  std::vector<Stage> stages;
  for (const Op& op : job.main().steady.ops) {
    if (op.kind == OpKind::collective && !op.never_runs()) {
      const std::vector<Stage>& of = job.plans[job.main().steady.collectives[op.index]].stages;
      stages.insert(stages.end(), of.begin(), of.end());
    }
  }
  return stages;
}

void add(const Route& route, double bytes, std::vector<double>& to) {
  for (const LinkId link : route) {
    to[link.index()] += bytes;
  }
}

}  // namespace

LinkClass class_of(const Topology& topology, LinkId id) {
  const Link& link = topology.link(id);
  const int from = level(topology.device_kind(link.from)), to = level(topology.device_kind(link.to));
  const auto towards = [&](LinkClass up, LinkClass beside, LinkClass down) {
    return from < to ? up : from > to ? down : beside;
  };
  switch (link.kind) {
    case LinkKind::nvlink:
      return towards(LinkClass::nvlink_up, LinkClass::nvlink, LinkClass::nvlink_down);
    case LinkKind::pcie:
      return towards(LinkClass::pcie_up, LinkClass::pcie, LinkClass::pcie_down);
    case LinkKind::socket:
      return LinkClass::socket;
    case LinkKind::c2c:
      return LinkClass::c2c;
    case LinkKind::network:
      break;
  }
  switch (std::max(from, to)) {
    case 1:
      return from < to ? LinkClass::nic_out : LinkClass::nic_in;
    case 2:
      return from < to ? LinkClass::leaf_up : LinkClass::leaf_down;
    default:
      return from < to ? LinkClass::spine_up : LinkClass::spine_down;
  }
}

LinkTraffic link_traffic(const Topology& topology, const TrainingJob& job,
                         std::span<const BackgroundFlow> others) {
  LinkTraffic traffic{std::vector<double>(topology.links()), std::vector<double>(topology.links())};
  if (job.ranks() > 1) {
    const FifoRoutes routes(topology, job.plans, job.families);
    const std::vector<double> bytes = bytes_of_graphs(job);
    for (std::uint32_t g = 0; g < bytes.size(); ++g) {
      if (bytes[g] > 0) {
        const std::vector<double> shares = shares_of_fifos(job.communicator.graphs[g]);
        routes.for_each(g, job.communicator.graphs[g], [&](std::uint32_t fifo, const Route& route) {
          add(route, shares[fifo] * bytes[g], traffic.bytes);
        });
      }
    }
  }
  for_each_message(job, [&](const Op& op, std::uint32_t from, std::uint32_t to) {
    const DeviceId a = job.members[from].device, b = job.members[to].device;
    add(topology.route_of_message(a, b), static_cast<double>(op.bytes.value) / op.steps_each(),
        traffic.bytes);
    if (to >= job.ranks()) {
      const double answer = static_cast<double>(job.serving.shards[op.index].answer.value);
      add(topology.route_of_message(b, a), answer, traffic.bytes);
    }
  });
  const std::vector<Stage> stages = stages_of_step(job);
  for (std::uint32_t r = 0; job.negotiation && r < job.negotiation->copies.size(); ++r) {
    const HostCopy& copy = job.negotiation->copies[r];
    for (const Stage& stage : stages) {
      const bool out = stage.where == Stage::Where::to_host;
      if (stage.copies()) {
        add(out ? topology.route_of_message(copy.gpu, copy.host)
                : topology.route_of_message(copy.host, copy.gpu),
            static_cast<double>(stage.bytes.value), traffic.bytes);
      }
    }
  }
  const SharedLinks theirs(topology, others);
  for (const SharedFlow& flow : theirs.flows) {
    for (const LinkId link : flow.links) {
      traffic.neighbours[theirs.links[link.index()].index()] += flow.rate.value;
    }
  }
  return traffic;
}

}  // namespace paceline
