// Collectives that take a given time from the last launch to everybody's end, for jobs made by hand.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "sim/job.h"

namespace paceline {

// Plan 2 i and 2 i + 1 of the job: on two graphs of their own, so that two queues may run them at once. Every
// rank tells everybody in its group, over hops of this latency that nothing else costs. `groups`: of a family
// that is added to the job; none: all ranks.
inline void add_meetings(TrainingJob& job, std::uint32_t ranks, SimTime latency,
                         std::vector<std::vector<std::uint32_t>> groups = {}) {
  job.communicator.ranks = ranks;
  std::uint32_t family = kWorld;
  if (!groups.empty()) {
    family = static_cast<std::uint32_t>(job.families.size());
    Family made{groups, std::vector<std::uint32_t>(ranks)};
    for (std::uint32_t g = 0; g < groups.size(); ++g) {
      for (const std::uint32_t member : groups[g]) {
        made.group_of[member] = g;
      }
    }
    job.families.push_back(std::move(made));
  } else {
    groups.emplace_back();
    for (std::uint32_t r = 0; r < ranks; ++r) {
      groups.front().push_back(r);
    }
  }
  CollectiveGraph graph;
  graph.channels = 1;
  graph.ranks = ranks;
  graph.hops.resize(1);
  // A rank's sender has a port to everybody, itself included, and its receiver one from everybody.
  struct Pair {
    std::uint32_t from, to;
  };
  std::vector<Pair> pairs;
  for (const std::vector<std::uint32_t>& group : groups) {
    for (const std::uint32_t from : group) {
      for (const std::uint32_t to : group) {
        pairs.push_back({from, to});
      }
    }
  }
  for (const std::vector<std::uint32_t>& group : groups) {
    const auto all = static_cast<std::uint16_t>(group.size());
    const auto script = static_cast<std::uint32_t>(graph.scripts.size());
    graph.scripts.push_back({{{.send = {0, all}, .own = true}}, 1});
    graph.scripts.push_back({{{.receive = {0, all}, .keep = true}}, 1});
    for (const std::uint32_t rank : group) {
      for (const bool receives : {false, true}) {
        ThreadBlock block;
        block.rank = rank;
        block.script = script + (receives ? 1 : 0);
        block.first_in = static_cast<std::uint32_t>(graph.in.size());
        block.first_out = static_cast<std::uint32_t>(graph.out.size());
        graph.thread_blocks.push_back(block);
        for (std::uint32_t p = 0; p < pairs.size(); ++p) {
          if ((receives ? pairs[p].to : pairs[p].from) == rank) {
            (receives ? graph.in : graph.out).push_back(p);
          }
        }
      }
    }
  }
  const auto block_of = [&](std::uint32_t rank, bool receives) {
    std::uint32_t b = 0;
    while (graph.thread_blocks[b].rank != rank || (graph.thread_blocks[b].script % 2 == 1) != receives) {
      ++b;
    }
    return b;
  };
  for (const Pair& pair : pairs) {
    graph.fifos.push_back({block_of(pair.from, false), block_of(pair.to, true), 0, Wire::gpu_to_gpu, -1, -1});
  }
  for (int copy = 0; copy < 2; ++copy) {
    CollectivePlan plan;
    plan.kind = CollectiveKind::all_to_all;
    plan.graph = static_cast<std::uint32_t>(job.communicator.graphs.size());
    plan.family = family;
    plan.loops = {{1, Bytes(1), {}}};
    plan.hops = {{BytesPerSecond(1e18), latency, {}}};
    plan.copy_rate = BytesPerSecond(1e18);
    job.communicator.graphs.push_back(graph);
    job.plans.push_back(plan);
  }
}

// Plans collectives that take `time(request)` from the last launch to everybody's end.
inline CollectivePlanner meeting_planner(const RankLayout& layout,
                                         std::function<SimTime(const CollectiveRequest&)> time) {
  Communicator start;
  start.ranks = layout.ranks();
  return {std::move(start), layout, [=](Communicator& communicator, const CollectiveRequest& request) {
            TrainingJob one;
            add_meetings(one, layout.ranks(), time(request), family_of(request.groups, layout).groups);
            CollectivePlan plan = one.plans.front();
            plan.kind = request.kind;
            plan.algorithm = Algorithm::point_to_point;
            plan.bytes = request.bytes;
            plan.graph = static_cast<std::uint32_t>(communicator.graphs.size());
            communicator.graphs.share(one.communicator.graphs, 0);
            return plan;
          }};
}

}  // namespace paceline
