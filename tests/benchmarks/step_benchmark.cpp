// A step at scale: one steady iteration of the vector engine with the job built; and what building it costs.
// DDP's job: 160 equal layers in 25 buckets on DGX H100 nodes (8 rings), lognormal jitter on every rank
// and kernel, 1 % slow GPUs and transient slowdowns.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

#include "sim/engine/vector_engine.h"
#include "tests/ddp_job.h"

namespace paceline {
namespace {

constexpr std::int64_t kLayers = 160, kLayerElements = 1 << 20;

Model layered_model() {
  Model model{"160 layers", "", {}};
  for (std::int64_t l = 0; l < kLayers; ++l) {
    model.layers.push_back(
        {"layer" + std::to_string(l), LayerKind::linear, {kLayerElements}, 1'000'000'000, 1'000'000});
  }
  return model;
}

// 16 layers in the first bucket, 6 in each of the 24 others.
TrainingSpec training_in_25_buckets() {
  TrainingSpec training;
  training.batch_per_gpu = 8;
  training.precision = Precision::bf16;
  training.ddp.first_bucket = Bytes(16 * 4 * kLayerElements);
  training.ddp.bucket_cap = Bytes(6 * 4 * kLayerElements);
  return training;
}

VariabilitySpec jitter_and_stragglers() {
  VariabilitySpec v;
  v.per_operation = {DistributionKind::lognormal, 0.05, {}};
  v.slow_gpus.push_back({{}, 0.01, 1.2});
  v.transient.push_back({0.001, 3, 2.0});
  return v;
}

ClusterSpec cluster(std::int64_t gpus) {
  ClusterSpec spec;
  spec.node = node_preset("dgx-h100");
  spec.nodes = static_cast<int>(gpus / 8);
  spec.fabric.kind = FabricKind::rail_optimized;
  spec.fabric.nodes_per_leaf = 32;
  return spec;
}

// As the tuner chooses, or a ring whose FIFOs never fill, without its steps.
TrainingJob build(std::int64_t gpus, bool free_ring) {
  TrainingSpec training = training_in_25_buckets();
  if (free_ring) {
    training.collective.algorithm = "ring";
    training.collective.protocol = "simple";
    training.collective.limited_fifos = false;
  }
  const Topology topology = build_topology(cluster(gpus));
  CollectivePlanner planner = nccl_planner(topology, training.collective, {});
  return ddp_job(layered_model(), gpu_preset("H100"), training, jitter_and_stragglers(), planner);
}

void ddp_step(benchmark::State& state) {
  const TrainingJob job = build(state.range(0), state.range(1) != 0);
  VectorEngine engine(job, 1);
  engine.run_iteration();
  for (auto _ : state) {
    engine.run_iteration();
  }
  state.counters["buckets"] = static_cast<double>(bucket_collectives(job.main().steady).size());
  state.counters["kernels"] =
      static_cast<double>(std::count_if(job.main().steady.ops.begin(), job.main().steady.ops.end(),
                                        [](const Op& op) { return op.kind == OpKind::kernel; }));
}
BENCHMARK(ddp_step)
    ->Args({1024, 0})
    ->Args({1024, 1})
    ->Args({100'000, 0})
    ->Args({100'000, 1})
    ->Args({1'000'000, 1})
    ->Unit(benchmark::kMillisecond);

Model llama_3_8b() {
  TransformerSpec spec;
  spec.layers = 32;
  spec.hidden = 4096;
  spec.heads = 32;
  spec.key_value_heads = 8;
  spec.feed_forward = 14336;
  spec.gated_feed_forward = true;
  spec.fused_qkv = spec.bias = spec.learned_positions = spec.tied_embeddings = false;
  spec.vocabulary = 128256;
  spec.sequence = 8192;
  return transformer(spec);
}

// FSDP of Llama 3 8B, block by block: 98 gathers and reductions a step, in LL128 where FIFOs are limited.
void sharded_step(benchmark::State& state, const ShardGroup& group) {
  TrainingSpec training;
  training.batch_per_gpu = 1;
  training.precision = training.gradients = Precision::bf16;
  training.fsdp.shard_group = group;
  training.collective.limited_fifos = state.range(1) == 0;
  const Topology topology = build_topology(cluster(state.range(0)));
  CollectivePlanner planner = nccl_planner(topology, training.collective, {});
  const TrainingJob job = build_job(
      training.fsdp, workload(llama_3_8b(), gpu_preset("H100"), training, jitter_and_stragglers()), planner);
  VectorEngine engine(job, 1);
  engine.run_iteration();
  for (auto _ : state) {
    engine.run_iteration();
  }
}
void fsdp_step(benchmark::State& state) { sharded_step(state, {}); }
BENCHMARK(fsdp_step)->Args({1024, 0})->Args({1024, 1})->Unit(benchmark::kMillisecond);
void hybrid_step(benchmark::State& state) { sharded_step(state, {.node = true}); }
BENCHMARK(hybrid_step)->Args({1024, 0})->Args({16'384, 0})->Unit(benchmark::kMillisecond);

void build_job(benchmark::State& state) {
  for (auto _ : state) {
    const TrainingJob job = build(state.range(0), state.range(1) != 0);
    VectorEngine engine(job, 1);
    benchmark::DoNotOptimize(&engine);
  }
}
BENCHMARK(build_job)
    ->Args({1024, 0})
    ->Args({100'000, 0})
    ->Args({1'000'000, 1})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace paceline
