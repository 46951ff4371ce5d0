#include "sim/report/traffic.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "sim/collective/fifo_traffic.h"
#include "sim/report/messages.h"

namespace paceline {
namespace {

// Shares of a collective's bytes that all ranks together send, by kind of hop.
using Shares = std::array<double, kNames<HopKind>.size()>;

Shares shares_of(const CollectiveGraph& graph) {
  const std::vector<double> of_fifo = shares_of_fifos(graph);
  Shares shares{};
  for (std::size_t f = 0; f < of_fifo.size(); ++f) {
    const Fifo& fifo = graph.fifos[f];
    if (graph.thread_blocks[fifo.from].rank != ThreadBlock::kSwitch) {
      shares[static_cast<std::size_t>(graph.hops[fifo.hop].kind)] += of_fifo[f];
    }
  }
  return shares;
}

SentBytes messages_of(const TrainingJob& job) {
  SentBytes sent;
  for_each_message(job, [&](const Op& op, std::uint32_t from, std::uint32_t to) {
    if (from >= job.ranks()) {  // a host's
      return;
    }
    const auto route =
        std::ranges::lower_bound(job.routes, std::pair(from, to), {},
                                 [](const MessageRoute& each) { return std::pair(each.from, each.to); });
    double& kind = route->kind == HopKind::network ? sent.network
                   : route->kind == HopKind::pcie  ? sent.pcie
                                                   : sent.nvlink;
    kind += static_cast<double>(op.bytes.value) / static_cast<double>(job.ranks());
  });
  return sent;
}

}  // namespace

Bytes hottest_server_in(const TrainingJob& job) {
  std::vector<Bytes> pushed(job.member_count());
  for_each_message(job, [&](const Op& op, std::uint32_t, std::uint32_t to) {
    if (to >= job.ranks()) {
      pushed[to] = pushed[to] + op.bytes;
    }
  });
  return std::ranges::max(pushed);
}

SentBytes sent_bytes(const TrainingJob& job) {
  SentBytes sent = messages_of(job);
  if (job.ranks() == 1) {
    return sent;
  }
  std::vector<Shares> shares;
  for (std::size_t g = 0; g < job.communicator.graphs.size(); ++g) {
    shares.push_back(shares_of(job.communicator.graphs[g]));
  }
  const Program& program = job.main().steady;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::collective) {
      const std::uint32_t number = program.collectives[op.index];
      for_each_run(job.plans, number, [&](const CollectivePlan& plan) {
        const double bytes =
            static_cast<double>(plan.bytes.value) / op.steps_each() / static_cast<double>(job.ranks());
        const auto of = [&](HopKind kind) {
          return bytes * shares[plan.graph][static_cast<std::size_t>(kind)];
        };
        sent.nvlink += of(HopKind::nvlink);
        sent.pcie += of(HopKind::pcie);
        sent.network += of(HopKind::network);
      });
      for (const Stage& stage : job.plans[number].stages) {
        sent.pcie += stage.where == Stage::Where::to_host ? static_cast<double>(stage.bytes.value) : 0;
      }
    }
  }
  return sent;
}

}  // namespace paceline
