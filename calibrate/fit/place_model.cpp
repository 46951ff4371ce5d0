#include "calibrate/fit/place_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "core/parallel.h"
#include "sim/collective/step_times.h"
#include "sim/collective/tuner.h"
#include "sim/report/collective_cost.h"

namespace paceline {
namespace {

// What a plan takes at least: one thread block of each script after the other through its moves. Its cost
// doesn't grow with the number of loops.
double least_seconds(const CollectiveGraph& graph, const CollectivePlan& plan) {
  const StepTimes times(graph, plan);
  std::vector<bool> seen(graph.scripts.size());
  SimTime most;
  for (const ThreadBlock& thread_block : graph.thread_blocks) {
    if (seen[thread_block.script]) {
      continue;
    }
    seen[thread_block.script] = true;
    most = std::max(most, times.occupancy(graph, thread_block));
  }
  return to_seconds(most).value;
}

}  // namespace

PlaceModel::PlaceModel(const MeasuredPlace& place, std::span<const Bytes> sizes, AlgorithmChoice choose,
                       const OtherCandidates& others, int threads)
    : sizes_(sizes.size()),
      choose_(choose),
      threads_(threads),
      topology_(std::make_unique<Topology>(build_topology(place.cluster))),
      communicator_(std::make_unique<Communicator>()) {
  communicator_->ranks = static_cast<std::uint32_t>(topology_->ranks());
  if (place.spec.library != CollectiveLibrary::nccl) {
    hosts_ = std::make_unique<HostCollectives>(*topology_, place.spec, std::span<const BackgroundFlow>{});
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      CollectivePlan plan = hosts_->plan(*communicator_, place.kind, sizes[s]);
      const Candidate candidate{.size = s, .algorithm = plan.algorithm, .protocol = plan.protocol};
      add(candidate, std::move(plan));
    }
  } else {
    nccl_ = std::make_unique<NcclCollectives>(*topology_, place.spec, std::span<const BackgroundFlow>{});
    add_choices(place, sizes, others);
  }
  const std::size_t of_part = std::max<std::size_t>(8, sizes.size() / 16);
  for (std::size_t end = plans_.size(), first = end; end > 0;
       end = first) {  // the largest, which take longest, first
    const std::size_t part = candidates_[end - 1].size / of_part;
    while (first > 0 && candidates_[first - 1].size / of_part == part) {
      --first;
    }
    parts_.push_back(
        {first, end, CollectiveTimes(*communicator_, std::span(plans_).subspan(first, end - first)), {}});
  }
}

void PlaceModel::add_choices(const MeasuredPlace& place, std::span<const Bytes> sizes,
                             const OtherCandidates& others) {
  ClusterSpec cluster = place.cluster;
  if (cluster.runs.empty()) {
    cluster.graphs = nccl_->graphs();  // the search takes longer than all else
  }
  std::optional<Topology> searched;
  std::vector<std::pair<std::string, NcclCollectives>> choosers;
  const auto add_chooser = [&](const std::string& name, const CollectiveSpec& spec) {
    if (!searched) {
      searched.emplace(build_topology(cluster));
    }
    choosers.emplace_back(name, NcclCollectives(*searched, spec, std::span<const BackgroundFlow>{}));
  };
  for (const NcclVersion version : others.versions) {
    CollectiveSpec spec = place.spec;
    spec.nccl = to_string(version);
    add_chooser("NCCL " + spec.nccl, spec);
  }
  if (others.without_nvls) {
    CollectiveSpec spec = place.spec;
    spec.nvls = false;
    add_chooser("NCCL without NVLS", spec);
  }
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    std::vector<std::pair<TunerChoice, std::string>> choices;
    const bool any = choose_ == AlgorithmChoice::fastest && place.spec.fastest_from <= sizes[s] &&
                     sizes[s] <= place.spec.fastest_to;
    for (const TunerChoice& choice : nccl_->possible(place.kind, sizes[s], any ? kHopeless : others.near)) {
      choices.emplace_back(choice, "");
    }
    const double chosen = choices.front().first.time;
    for (auto& [name, nccl] : choosers) {
      TunerChoice choice = nccl.tuned(place.kind, sizes[s]);
      choice.time = nccl_->time_of(place.kind, sizes[s], choice);
      const auto same = std::ranges::find_if(choices, [&](const auto& each) {
        return each.first.algorithm == choice.algorithm && each.first.protocol == choice.protocol;
      });
      if (same == choices.end() && choice.time > 0) {
        choices.emplace_back(choice, name);
      } else if (same != choices.end() && same->second.empty() && same->first.time > kUncertain * chosen) {
        same->second = name;  // listed, as all are that NCCL has, but not for being near
      }
    }
    for (std::size_t c = others.alone ? 1 : 0; c < choices.size(); ++c) {
      const auto& [choice, chosen_by] = choices[c];
      add({s, choice.algorithm, choice.protocol, c == 0, chosen > 0 ? choice.time / chosen : 1, chosen_by},
          nccl_->plan(*communicator_, place.kind, sizes[s], choice));
    }
  }
}

void PlaceModel::add(const Candidate& candidate, CollectivePlan plan) {
  candidates_.push_back(candidate);
  plans_.push_back(std::move(plan));
}

void PlaceModel::price(std::size_t plan, const CollectiveCosts& costs) {
  if (hosts_) {
    hosts_->price(plans_[plan], *communicator_, costs);
  } else {
    nccl_->price(plans_[plan], *communicator_, costs);
  }
}

double PlaceModel::simulated(Part& part, std::size_t plan) {
  const auto number = static_cast<std::uint32_t>(plan - part.first);
  part.times.forget(number);
  return to_seconds(time_alone(part.times, *communicator_, plans_[plan], number, part.now)).value;
}

void PlaceModel::times(const CollectiveCosts& costs, const std::vector<bool>& wanted,
                       std::span<double> seconds) {
  for_each_on_threads(parts_.size(), threads_, [&](std::size_t which) {
    Part& part = parts_[which];
    for (std::size_t p = part.first; p < part.end; ++p) {
      if (wanted[p]) {
        price(p, costs);
        seconds[p] = simulated(part, p);
      }
    }
  });
}

void PlaceModel::times_of_fastest(const CollectiveCosts& costs, std::span<const double> within,
                                  std::span<double> seconds) {
  for_each_on_threads(parts_.size(), threads_,
                      [&](std::size_t part) { times_of_fastest(parts_[part], costs, within, seconds); });
}

void PlaceModel::times_of_fastest(Part& part, const CollectiveCosts& costs, std::span<const double> within,
                                  std::span<double> seconds) {
  std::vector<std::pair<double, std::size_t>> order;  // at least so long, which plan
  for (std::size_t first = part.first; first < part.end;) {
    std::size_t end = first;
    order.clear();
    for (; end < part.end && candidates_[end].size == candidates_[first].size; ++end) {
      price(end, costs);
      order.emplace_back(least_seconds(communicator_->graphs[plans_[end].graph], plans_[end]), end);
    }
    std::ranges::sort(order);
    double fastest = std::numeric_limits<double>::infinity();
    for (const auto& [least, plan] : order) {
      const bool may_be = least <= within[candidates_[first].size] * fastest;
      seconds[plan] = may_be ? simulated(part, plan) : std::numeric_limits<double>::infinity();
      fastest = std::min(fastest, seconds[plan]);
    }
    first = end;
  }
}

std::vector<double> PlaceModel::log_times(const CollectiveCosts& costs) {
  std::vector<double> seconds(candidates_.size(), std::numeric_limits<double>::infinity());
  if (choose_ == AlgorithmChoice::fastest) {
    times_of_fastest(costs, std::vector<double>(sizes_, 1), seconds);
  } else {
    std::vector<bool> chosen(candidates_.size());
    for (std::size_t c = 0; c < chosen.size(); ++c) {
      chosen[c] = candidates_[c].choice;
    }
    times(costs, chosen, seconds);
  }
  std::vector<double> logs(sizes_, std::numeric_limits<double>::infinity());
  for (std::size_t c = 0; c < candidates_.size(); ++c) {
    double& least = logs[candidates_[c].size];
    least = std::min(least, std::log(seconds[c]));
  }
  return logs;
}

bool finds_same_channels(const MeasuredPlace& a, const MeasuredPlace& b) {
  const auto asked = [](const MeasuredPlace& p) {
    const CollectiveSpec& s = p.spec;
    return std::tuple(p.nodes(), p.gpus_per_node(), p.cluster.fabric.sharp, s.library, s.nccl, s.min_channels,
                      s.max_channels, s.cross_nic, s.pxn, s.nvls, s.gpus_per_process);
  };
  return a.cluster.runs.empty() && b.cluster.runs.empty() && a.cluster.node == b.cluster.node &&
         asked(a) == asked(b);
}

void keep_channels(MeasuredPlace& place, const PlaceModel& model) {
  if (place.cluster.runs.empty() && !place.cluster.graphs) {
    place.cluster.graphs = model.graphs();
    place.searched = place.cluster.graphs.has_value();
  }
}

void forget_channels(MeasuredPlace& changed, const MeasuredPlace& searched) {
  if (changed.searched && !finds_same_channels(changed, searched)) {
    changed.cluster.graphs.reset();
    changed.searched = false;
  }
}

void take_channels(MeasuredPlace& place, const std::vector<MeasuredPlace>& known) {
  const auto same = std::ranges::find_if(
      known, [&](const MeasuredPlace& each) { return each.searched && finds_same_channels(each, place); });
  if (!place.cluster.graphs && same != known.end()) {
    place.cluster.graphs = same->cluster.graphs;
    place.searched = true;
  }
}

}  // namespace paceline
