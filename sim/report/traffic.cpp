#include "sim/report/traffic.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace paceline {
namespace {

// Shares of a collective's bytes that all ranks together send, by kind of hop.
using Shares = std::array<double, kNames<HopKind>.size()>;

// In blocks of a loop: a loop's data are that many on each channel.
std::int64_t blocks_of_loop(const CollectiveGraph& graph) {
  std::int64_t blocks = 1;
  for (const ThreadBlock& block : graph.thread_blocks) {
    blocks = std::max(blocks, block.base + graph.scripts[block.script].modulus);
  }
  return blocks;
}

Shares shares_of(const CollectiveGraph& graph) {
  std::array<std::int64_t, kNames<HopKind>.size()> sent{};
  for (const ThreadBlock& block : graph.thread_blocks) {
    if (block.rank == ThreadBlock::kSwitch) {
      continue;
    }
    for (const Step& step : graph.scripts[block.script].steps) {
      for (std::uint32_t p = 0; p < step.send.count; ++p) {
        const Fifo& fifo = graph.fifos[graph.out[block.first_out + step.send.first + p]];
        sent[static_cast<std::size_t>(graph.hops[fifo.hop].kind)] += std::int64_t{step.times} * step.width;
      }
    }
  }
  const double all = static_cast<double>(blocks_of_loop(graph)) * graph.channels;
  Shares shares{};
  std::ranges::transform(sent, shares.begin(),
                         [&](std::int64_t blocks) { return static_cast<double>(blocks) / all; });
  return shares;
}

template <class F>  // f(op, from, to): each message of an iteration, but those to the sender itself
void for_each_message(const TrainingJob& job, const F& f) {
  for (std::uint32_t r = 0; r < job.ranks(); ++r) {
    for (const Thread& thread : job.roles[job.role_of(r)].threads) {
      for (const Op& op : thread.steady.ops) {
        if (op.kind == OpKind::send && op.to != kWorld) {
          const Family& family = job.families[op.to];
          for (const std::uint32_t to : family.groups[family.group_of[r]]) {
            if (to != r) {
              f(op, r, to);
            }
          }
        }
      }
    }
  }
}

SentBytes messages_of(const TrainingJob& job) {
  SentBytes sent;
  for_each_message(job, [&](const Op& op, std::uint32_t from, std::uint32_t to) {
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
      const CollectivePlan& plan = job.plans[program.collectives[op.index]];
      const double bytes =
          static_cast<double>(plan.bytes.value) / op.every / static_cast<double>(job.ranks());
      const auto of = [&](HopKind kind) {
        return bytes * shares[plan.graph][static_cast<std::size_t>(kind)];
      };
      sent.nvlink += of(HopKind::nvlink);
      sent.pcie += of(HopKind::pcie);
      sent.network += of(HopKind::network);
    }
  }
  return sent;
}

}  // namespace paceline
