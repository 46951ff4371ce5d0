// Measurements of machines whose costs are known: the simulator's own times, with noise.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "scenarios/collective_table.h"
#include "scenarios/scenario.h"

namespace paceline::synthetic {

struct World {
  std::string cluster = "dgx-a100";
  std::string nccl = "2.22";
  std::vector<CostParameter> costs;  // in place of the defaults
};

struct Place {
  int nodes = 1, gpus = 8;
  CollectiveKind kind = CollectiveKind::all_reduce;
};

inline ClusterSpec cluster_of(const World& world, const Place& place) {
  ClusterSpec cluster = load_cluster(world.cluster);
  cluster.nodes = place.nodes;
  cluster.gpus_per_node = place.gpus;
  return cluster;
}

inline CollectiveTest test_of(const World& world, const Place& place, std::vector<Bytes> sizes) {
  CollectiveTest test;
  test.kind = place.kind;
  test.cluster_name = world.cluster;
  test.cluster = cluster_of(world, place);
  test.collective.nccl = world.nccl;
  test.collective.costs = world.costs;
  test.sizes = std::move(sizes);
  return test;
}

inline std::vector<Bytes> sizes(std::int64_t first, std::int64_t last, std::int64_t factor = 2) {
  std::vector<Bytes> all;
  for (std::int64_t size = first; size <= last; size *= factor) {
    all.emplace_back(size);
  }
  return all;
}

inline std::vector<double> times(const CollectiveTestResult& result) {
  std::vector<double> all;
  for (const CollectiveCost& row : result.rows) {
    all.push_back(static_cast<double>(row.time.ps) * 1e-12);
  }
  return all;
}

// Errors of ln(time): independent, near normal.
class Noise {
 public:
  Noise(double deviation, std::uint64_t seed) : deviation_(deviation), random_(seed) {}
  double next() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) {
      sum += static_cast<double>(random_() >> 11) * 0x1p-53;
    }
    return std::exp(deviation_ * sum);
  }

 private:
  double deviation_;
  std::mt19937_64 random_;
};

inline void measure(const World& world, const Place& place, const std::vector<Bytes>& at, Noise& noise,
                    MeasuredData& data) {
  const std::vector<double> seconds = times(run_collective_test(test_of(world, place, at)));
  for (std::size_t i = 0; i < at.size(); ++i) {
    CollectiveMeasurement row;
    row.kind = place.kind;
    row.bytes = at[i];
    row.time = Seconds(seconds[i] * noise.next());
    row.ranks = place.nodes * place.gpus;
    row.nodes = place.nodes;
    row.nccl = world.nccl;
    row.table = std::to_string(place.nodes) + " x " + std::to_string(place.gpus) + ".log";
    row.origin = {row.table, static_cast<std::int64_t>(i) + 1};
    data.collectives.push_back(row);
  }
}

inline MeasuredData measured(const World& world, const std::vector<Place>& places,
                             const std::vector<Bytes>& at, double noise, std::uint64_t seed = 1) {
  MeasuredData data;
  Noise errors(noise, seed);
  for (const Place& place : places) {
    measure(world, place, at, errors, data);
  }
  return data;
}

inline FitRequest request_of(const World& world) {
  FitRequest request;
  request.cluster_name = world.cluster;
  request.cluster = load_cluster(world.cluster);
  return request;
}

}  // namespace paceline::synthetic
