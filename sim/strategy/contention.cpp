#include "sim/strategy/contention.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/collective/fifo_traffic.h"
#include "sim/collective/shared_links.h"

namespace paceline {
namespace {

using Queue = std::tuple<std::size_t, std::size_t, std::uint32_t>;  // role, thread, its queue

// By graph: who runs collectives on it.
std::vector<std::set<Queue>> queues_of_graphs(const TrainingJob& job) {
  std::vector<std::set<Queue>> queues(job.communicator.graphs.size());
  for (std::size_t r = 0; r < job.roles.size(); ++r) {
    for (std::size_t t = 0; t < job.roles[r].threads.size(); ++t) {
      const Thread& thread = job.roles[r].threads[t];
      for (const Program* program : {&thread.warm_up, &thread.steady}) {
        for (const Op& op : program->ops) {
          if (op.kind == OpKind::collective) {
            queues[job.plans[program->collectives[op.index]].graph].emplace(r, t, op.queue);
          }
        }
      }
    }
  }
  return queues;
}

}  // namespace

void share_links(const Topology& topology, TrainingJob& job) {
  const std::vector<std::set<Queue>> queues = queues_of_graphs(job);
  const bool one_queue = std::ranges::adjacent_find(queues, std::ranges::not_equal_to{}) == queues.end();
  if (job.ranks() == 1 || (one_queue && job.routes.empty())) {
    return;
  }
  GraphList& graphs = job.communicator.graphs;
  const FifoRoutes routes(topology, job.plans, job.families);
  SharedLinks shared(job.communicator, topology);
  std::vector<std::size_t> first_user(topology.links(), graphs.size());  // by link: a graph
  for (std::uint32_t g = 0; g < graphs.size(); ++g) {
    routes.for_each(g, graphs[g], [&](std::uint32_t, const Route& route) {
      for (const LinkId link : route) {
        std::size_t& first = first_user[link.index()];
        if (first == graphs.size()) {
          first = g;
        } else if (first != g && queues[first] != queues[g]) {
          shared.number(link);
        }
      }
    });
  }
  GraphList marked;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> sockets;  // by sender and receiver
  for (std::uint32_t g = 0; g < graphs.size(); ++g) {
    std::vector<SharedFifo> fifos;
    routes.for_each(g, graphs[g], [&](std::uint32_t f, const Route& route) {
      if (std::vector<LinkId> links = shared.among(route); !links.empty()) {
        fifos.push_back({f, std::move(links)});
        if (job.workers > 0) {  // of one process group, which has a socket for each pair of ranks
          const CollectiveGraph& graph = graphs[g];
          const Fifo& fifo = graph.fifos[f];
          const std::pair pair(graph.thread_blocks[fifo.from].rank, graph.thread_blocks[fifo.to].rank);
          fifos.back().socket =
              sockets.try_emplace(pair, static_cast<std::uint32_t>(sockets.size())).first->second;
        }
      }
    });
    if (fifos.empty()) {
      marked.share(graphs, g);
    } else {
      CollectiveGraph graph = graphs[g];
      graph.shared = std::move(fifos);
      marked.push_back(std::move(graph));
    }
  }
  graphs = std::move(marked);
  job.communicator.shared_links = std::move(shared.links);
  job.communicator.shared_capacity = std::move(shared.capacity);
}

}  // namespace paceline
