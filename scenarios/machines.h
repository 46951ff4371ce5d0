// Clusters that were built and whose collectives were planned, for many scenarios that run on them.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "scenarios/scenario.h"
#include "sim/job.h"
#include "sim/strategy/workload.h"
#include "topology/topology.h"

namespace paceline {

// build_topology, with the places of its errors as a file names them.
Topology build_checked_topology(const ClusterSpec&);

// What each GPU of the job computes. Throws InputError as workload does, and for a batch that doesn't fit.
MixedWork work_of(const Scenario&);

// Jobs are the same as without it; what it saves is time: topology, search and graphs are made once for each
// cluster, traffic and choice of collectives. Holds those that were used last, kHeld of them. May be used by
// several threads at once.
class Machines {
 public:
  static constexpr std::size_t kHeld = 4;

  struct Built {
    std::shared_ptr<const Topology> topology;
    TrainingJob job;
  };
  // Throws InputError as build_topology, workload and build_job do.
  Built build(const Scenario&);
  std::shared_ptr<const Topology> topology(const Scenario&);  // throws InputError as build_topology does

 private:
  struct Machine;
  std::shared_ptr<Machine> machine(const Scenario&);

  std::mutex mutex_;
  std::list<std::shared_ptr<Machine>> held_;  // last used first
};

}  // namespace paceline
