#include "sim/strategy/contention.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/collective/placed_family.h"
#include "sim/collective/pricing.h"

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

// The routes of FIFOs, which nobody keeps: found anew.
class Routes {
 public:
  Routes(const Topology& topology, const TrainingJob& job) : family_of_(job.communicator.graphs.size()) {
    for (const CollectivePlan& plan : job.plans) {
      family_of_[plan.graph] = plan.family;
      if (!placed_.contains(plan.family)) {
        placed_.emplace(plan.family, plan.family == kWorld
                                         ? PlacedFamily(topology, kAllRanks)
                                         : PlacedFamily(topology, job.families[plan.family]));
      }
    }
  }

  template <class F>  // f(FIFO, route)
  void for_each(const GraphList& graphs, std::size_t g, const F& f) const {
    const PlacedFamily& family = placed_.at(family_of_[g]);
    for (std::uint32_t i = 0; i < graphs[g].fifos.size(); ++i) {
      f(i, family.route(graphs[g], graphs[g].fifos[i]));
    }
  }

 private:
  std::vector<std::uint32_t> family_of_;  // by graph
  std::map<std::uint32_t, PlacedFamily> placed_;
};

}  // namespace

void share_links(const Topology& topology, TrainingJob& job) {
  const std::vector<std::set<Queue>> queues = queues_of_graphs(job);
  const bool one_queue = std::ranges::adjacent_find(queues, std::ranges::not_equal_to{}) == queues.end();
  if (job.ranks() == 1 || (one_queue && job.routes.empty())) {
    return;
  }
  GraphList& graphs = job.communicator.graphs;
  const Routes routes(topology, job);
  SharedLinks shared(job.communicator, topology);
  std::vector<std::size_t> first_user(topology.links(), graphs.size());  // by link: a graph
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    routes.for_each(graphs, g, [&](std::uint32_t, const Route& route) {
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
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    std::vector<SharedFifo> fifos;
    routes.for_each(graphs, g, [&](std::uint32_t f, const Route& route) {
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
