// Logs of machines with one thing wrong: the simulator's own times, with noise of addressed random numbers.
#pragma once

#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/collective_points.h"
#include "core/random.h"
#include "scenarios/scenario.h"

namespace paceline::faulty {

struct Machine {
  std::string cluster;
  int nodes = 1, gpus = 8;
  std::string nccl = "2.22";
};

inline MeasuredPlace place_of(const Machine& machine) {
  MeasuredPlace place;
  place.cluster = load_cluster(machine.cluster);
  place.cluster.nodes = machine.nodes;
  place.cluster.gpus_per_node = machine.gpus;
  place.spec.nccl = machine.nccl;
  return place;
}

inline FitRequest request_of(const Machine& machine) {
  FitRequest request;
  request.cluster_name = machine.cluster;
  request.cluster = load_cluster(machine.cluster);
  request.collective.nccl = machine.nccl;
  request.nccl_stated = true;
  return request;
}

// Nearly normal, of standard deviation 1.
inline double normal(std::uint64_t seed, std::uint32_t row) {
  const DrawAddress address{.seed = seed, .stream = Stream::per_operation, .iteration = 0};
  const double u = uniform(address, Rank(0), 2 * row), v = uniform(address, Rank(0), 2 * row + 1);
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

// 8 bytes to 8 GiB, by factors of 2, as nccl-tests -b 8 -e 8G -f 2.
inline std::vector<Bytes> usual_sizes() {
  std::vector<Bytes> sizes;
  for (std::int64_t size = 8; size <= std::int64_t{8} << 30; size *= 2) {
    sizes.emplace_back(size);
  }
  return sizes;
}

inline MeasuredData log_of(const MeasuredPlace& place, double noise, std::uint64_t seed) {
  const std::vector<Bytes> sizes = usual_sizes();
  PlaceModel model(place, sizes, AlgorithmChoice::tuner);
  const std::vector<double> times = model.log_times(model.costs());
  MeasuredData data;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    CollectiveMeasurement row;
    row.kind = place.kind;
    row.bytes = sizes[i];
    row.time = Seconds(std::exp(times[i] + noise * normal(seed, static_cast<std::uint32_t>(i))));
    row.ranks = place.ranks();
    row.nodes = place.nodes();
    row.nccl = place.spec.nccl;
    row.gpus_per_process = place.spec.gpus_per_process;
    row.table = "made.log";
    row.origin = {row.table, static_cast<std::int64_t>(i) + 1};
    data.collectives.push_back(row);
  }
  return data;
}

}  // namespace paceline::faulty
