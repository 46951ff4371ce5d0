// TensorFlow's mirrored strategies against closed forms and DDP. Memory moves a byte in a picosecond; an all-reduce of S
// bytes takes kMirrorBegin + kEachByte S. L equal layers of f and b; P bytes of gradients.
#include "sim/strategy/mirrored.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/report/overlap.h"
#include "sim/strategy/build_job.h"
#include "sim/strategy/memory.h"
#include "tests/dice.h"
#include "tests/error_of.h"
#include "tests/meetings.h"
#include "tests/trace_of_first.h"

namespace paceline {
namespace {

constexpr SimTime kMirrorBegin{5'000'000};
constexpr std::int64_t kEachByte = 3, kGpuCount = 4;

struct Mirror {
  std::vector<std::vector<std::int64_t>> layers;  // elements of each layer's tensors, 4 bytes each
  MirroredSpec spec{};
  SimTime forward{10'000'000}, backward{20'000'000};  // of each layer
  int accumulation = 1;
  double memory = 1e12;
};

Workload mirrored_work(const Mirror& of) {
  Workload work;
  work.training.host = {Seconds(0), Seconds(0), 1};
  work.training.batch_per_gpu = 1;
  work.training.accumulation = of.accumulation;
  work.training.roofline.memory_efficiency = 1;
  work.training.ddp.broadcast_buffers = false;
  work.costs.roofline = work.training.roofline;
  work.costs.gpu.memory_bandwidth = BytesPerSecond(of.memory);
  for (const std::vector<std::int64_t>& tensors : of.layers) {
    Layer layer;
    layer.name = "layer " + std::to_string(work.model.layers.size());
    layer.parameters = tensors;
    work.model.layers.push_back(layer);
    work.layers.push_back({of.forward, of.backward, 1, 1});
  }
  return work;
}

SimTime all_reduced(std::int64_t bytes) { return kMirrorBegin + SimTime{kEachByte * bytes}; }

TrainingJob mirrored_job(const Mirror& of, const Strategy& strategy,
                         const RankLayout& layout = {1, kGpuCount}) {
  CollectivePlanner planner = meeting_planner(
      layout, [](const CollectiveRequest& request) { return all_reduced(request.bytes.value); });
  return build_job(strategy, mirrored_work(of), planner);
}
TrainingJob mirrored_job(const Mirror& of) { return mirrored_job(of, of.spec); }

Result result_of(const TrainingJob& job, EngineChoice engine = EngineChoice::automatic) {
  RunSpec run;
  run.iterations = 3;
  run.engine = engine;
  return simulate(job, run);
}
SimTime last_step(const TrainingJob& job) {
  const Result result = result_of(job);
  CHECK(result.fingerprint == result_of(job, EngineChoice::event).fingerprint);
  return result.iteration_end[3] - result.iteration_end[2];
}

SimTime moved(std::int64_t bytes) { return SimTime{bytes}; }
std::int64_t all_bytes(const Mirror& of) {
  std::int64_t elements = 0;
  for (const std::vector<std::int64_t>& tensors : of.layers) {
    for (const std::int64_t each : tensors) {
      elements += each;
    }
  }
  return 4 * elements;
}
SimTime passes(const Mirror& of) {
  return static_cast<std::int64_t>(of.layers.size()) * (of.forward + of.backward);
}
SimTime updated(const Mirror& of) { return moved(5 * all_bytes(of)); }  // SGD with momentum

const std::vector<std::vector<std::int64_t>> kFourLayers{
    {100'000, 500}, {300'000}, {300'000, 700}, {200'000, 1}};

TEST_CASE("MirroredStrategy: compute, two copies, one all-reduce, the update") {
  const Mirror of{kFourLayers};
  const std::int64_t bytes = all_bytes(of);
  const TrainingJob job = mirrored_job(of);
  CHECK(last_step(job) == passes(of) + 2 * moved(2 * bytes) + all_reduced(bytes) + updated(of));
  RunSpec run;
  run.iterations = 3;
  const Result traced = simulate(job, run, trace_of_first(kGpuCount, 4));
  for (const CommunicationOverlap& each : communication_overlap(job, traced.trace)) {
    CHECK(each.overlapped.ps == 0);
    CHECK(each.communication.ps == 3 * all_reduced(bytes).ps);  // the last of four steps is left out
  }
}

TEST_CASE("MirroredStrategy: more packs are cut from one and joined again") {
  Mirror of{kFourLayers};
  const std::int64_t bytes = all_bytes(of);
  of.spec.num_packs = 3;
  const SimTime copies = 4 * moved(2 * bytes);
  CHECK(last_step(mirrored_job(of)) ==
        passes(of) + copies + 3 * kMirrorBegin + SimTime{kEachByte * bytes} + updated(of));
  of = {{{1000}}};  // one tensor is neither joined nor split
  CHECK(last_step(mirrored_job(of)) == passes(of) + all_reduced(4000) + updated(of));
}

// The rules, as a recursion: when the compute stream and the queue of all-reduces are free. Tensors come in reverse; a
// pack is closed by the tensor after which it holds more than `limit` (DDP: as much as a byte more), or by the last one.
// joins_packs: a pack of several tensors is joined when it is closed, and split in the end. Else each layer's part of a
// bucket is copied when the layer has ended, and all in the end.
SimTime by_packs(const Mirror& of, std::int64_t limit, bool joins_packs) {
  struct Pack {
    std::int64_t bytes = 0, tensors = 0;
    SimTime reduced{};
  };
  std::vector<Pack> packs(1);
  SimTime stream = static_cast<std::int64_t>(of.layers.size()) * of.forward, queue;
  const auto close = [&] {
    Pack& pack = packs.back();
    stream += joins_packs && pack.tensors > 1 ? moved(2 * pack.bytes) : SimTime{};
    pack.reduced = queue = std::max(queue, stream) + all_reduced(pack.bytes);
    packs.emplace_back();
  };
  for (std::size_t l = of.layers.size(); l-- > 0;) {
    stream += of.backward;
    std::int64_t part = 0;
    const auto copy_part = [&] { stream += joins_packs ? SimTime{} : moved(2 * std::exchange(part, 0)); };
    for (std::size_t t = of.layers[l].size(); t-- > 0;) {
      packs.back().bytes += 4 * of.layers[l][t];
      part += 4 * of.layers[l][t];
      ++packs.back().tensors;
      if (packs.back().bytes > limit) {
        copy_part();
        close();
      }
    }
    copy_part();
  }
  if (packs.back().tensors > 0) {
    close();
  }
  packs.pop_back();
  for (const Pack& pack : packs) {
    stream = std::max(stream, pack.reduced);
    stream += !joins_packs || pack.tensors > 1 ? moved(2 * pack.bytes) : SimTime{};
  }
  return stream + updated(of);
}

DdpSpec ddp_with(std::int64_t cap) {
  DdpSpec ddp;
  ddp.bucket_cap = ddp.first_bucket = Bytes(cap);
  ddp.broadcast_buffers = false;
  return ddp;
}

TEST_CASE("MirroredStrategy: each gradient by itself overlaps, and nothing is copied") {
  Mirror of{kFourLayers};
  of.spec.num_packs = 0;
  CHECK(last_step(mirrored_job(of)) == by_packs(of, 0, true));
}

TEST_CASE(
    "MultiWorkerMirroredStrategy: without bytes_per_pack all gradients are one pack, as MirroredStrategy's") {
  Mirror of{kFourLayers};
  const SimTime once = last_step(mirrored_job(of));
  of.spec.cross_device_ops = CrossDeviceOps::multi_worker;
  CHECK(last_step(mirrored_job(of)) == once);
  of.spec.bytes_per_pack = Bytes(0);
  CHECK(last_step(mirrored_job(of, of.spec, {2, 2})) == once);
}

// Layers of one tensor of S bytes, whose all-reduces hide behind the layers before; the last one hides what is copied out
// of the others. In packs of two both strategies copy 2 S for each tensor, in and out; alone a tensor is copied by DDP.
TEST_CASE(
    "MultiWorkerMirroredStrategy equals DDP with the same groups, but for the copies of single tensors") {
  constexpr std::int64_t kLayers = 6, kSize = 1'000'000;
  constexpr SimTime kCopy{2 * kSize};
  Mirror of{std::vector<std::vector<std::int64_t>>(kLayers, {kSize / 4})};
  of.spec.cross_device_ops = CrossDeviceOps::multi_worker;
  of.spec.bytes_per_pack = Bytes(kSize);
  const SimTime others_out = (kLayers - 2) * kCopy, last_out = 2 * kCopy;
  const SimTime in_pairs =
      passes(of) + kLayers * kCopy + std::max(all_reduced(2 * kSize), others_out) + last_out + updated(of);
  CHECK(last_step(mirrored_job(of)).ps == in_pairs.ps);
  CHECK(last_step(mirrored_job(of, ddp_with(kSize + 1))).ps == in_pairs.ps);
  of.spec.bytes_per_pack = Bytes(1);
  CHECK(last_step(mirrored_job(of)).ps == (passes(of) + all_reduced(kSize) + updated(of)).ps);
  const SimTime copied =
      passes(of) + kLayers * kCopy + std::max(all_reduced(kSize), (kLayers - 1) * kCopy) + kCopy;
  CHECK(last_step(mirrored_job(of, ddp_with(2))).ps == (copied + updated(of)).ps);
}

TEST_CASE(
    "MultiWorkerMirroredStrategy and DDP, any layers and packs: by the rules, and alike where copies are "
    "free") {
  Dice dice(50);
  for (std::uint64_t round = 0; round < rounds(300); ++round) {
    Mirror of;
    of.forward = SimTime{dice.between(0, 20'000'000)};
    of.backward = SimTime{dice.between(0, 40'000'000)};
    of.layers.resize(dice.below(8) + 1);
    for (std::vector<std::int64_t>& tensors : of.layers) {
      tensors.resize(dice.below(4));
      std::ranges::generate(tensors, [&] { return dice.between(1, 1'000'000); });
    }
    of.layers.front().push_back(1);
    const std::int64_t limit = dice.between(1, 5'000'000);
    of.spec.cross_device_ops = CrossDeviceOps::multi_worker;
    of.spec.bytes_per_pack = Bytes(limit);
    CHECK(last_step(mirrored_job(of)) == by_packs(of, limit, true));
    CHECK(last_step(mirrored_job(of, ddp_with(limit + 1))) == by_packs(of, limit, false));
    of.memory = 1e30;
    of.accumulation = static_cast<int>(dice.between(1, 3));
    CHECK(last_step(mirrored_job(of)) == last_step(mirrored_job(of, ddp_with(limit + 1))));
  }
}

// When each gradient has come to who sums it behind its own backward pass, and the sum back: the first GPU all of them,
// or the GPUs one after the other, the first variable's on the first one.
void sums_by_the_rules(CrossDeviceOps ops) {
  constexpr SimTime kWay{3'000};
  constexpr std::int64_t kByteOnWay = 20;
  Dice dice(7);
  for (std::uint64_t round = 0; round < rounds(100); ++round) {
    Mirror of;
    of.spec.cross_device_ops = ops;
    of.layers.resize(dice.below(8) + 1);
    for (std::vector<std::int64_t>& tensors : of.layers) {
      tensors = {dice.between(1, 500'000)};
    }
    TrainingJob job = mirrored_job(of);
    for (std::uint32_t from = 0; from < kGpuCount; ++from) {
      for (std::uint32_t to = 0; to < kGpuCount; ++to) {
        if (from != to) {
          job.routes.push_back({from, to, kWay, BytesPerSecond(1e12 / kByteOnWay), {}});
        }
      }
    }
    const auto way = [&](std::size_t l) { return kWay + SimTime{kByteOnWay * 4 * of.layers[l].front()}; };
    std::vector<SimTime> begins(kGpuCount);
    RunSpec run;
    run.iterations = 4;
    for (const SimTime end : simulate(job, run).iteration_end) {
      std::vector<SimTime> stream;
      for (const SimTime begin : begins) {
        stream.push_back(begin + passes(of));
      }
      const std::vector<SimTime> computed = stream;
      std::vector<SimTime> back(kGpuCount);
      for (std::size_t l = of.layers.size(); l-- > 0;) {
        const std::size_t sums = ops == CrossDeviceOps::copy_to_devices ? l % kGpuCount : 0;
        for (std::size_t r = 0; r < kGpuCount; ++r) {
          const SimTime gradient = computed[r] - static_cast<std::int64_t>(l) * of.backward;
          stream[sums] = std::max(stream[sums], r == sums ? SimTime{} : gradient + way(l));
        }
        stream[sums] += moved((kGpuCount + 1) * 4 * of.layers[l].front());
        for (std::size_t r = 0; r < kGpuCount; ++r) {
          back[r] = std::max(back[r], r == sums ? SimTime{} : stream[sums] + way(l));
        }
      }
      for (std::size_t r = 0; r < kGpuCount; ++r) {
        begins[r] = std::max(stream[r], back[r]) + updated(of);
      }
      CHECK(end.ps == std::ranges::max(begins).ps);
    }
  }
}

TEST_CASE("ReductionToOneDevice: sums behind the backward pass of the first GPU, by the rules") {
  sums_by_the_rules(CrossDeviceOps::reduction_to_one_device);
}
TEST_CASE("replicated without NCCL: sums behind the backward pass of each GPU, by the rules") {
  sums_by_the_rules(CrossDeviceOps::copy_to_devices);
}

// Routes of their own between all GPUs: S bytes take kGpuHop + kByteOfHop S.
constexpr SimTime kGpuHop{3'000};
constexpr std::int64_t kByteOfHop = 20;
SimTime hop(std::int64_t bytes) { return kGpuHop + SimTime{kByteOfHop * bytes}; }
void join_all(TrainingJob& job, std::uint32_t gpus) {
  for (std::uint32_t from = 0; from < gpus; ++from) {
    for (std::uint32_t to = 0; to < gpus; ++to) {
      if (from != to) {
        job.routes.push_back({from, to, kGpuHop, BytesPerSecond(1e12 / kByteOfHop), {}});
      }
    }
  }
}

// One pack P of four GPUs: GPU 1 and 3 send it to 0 and 2, which add two; 2 sends its sum to 0, which adds two again and
// sends the sum to 1 and 2; 2 sends it to 3. So GPU 3 is the last one: four ways, and what is copied and added between.
TEST_CASE("HierarchicalCopyAllReduce in closed form: four ways one after the other") {
  Mirror of{kFourLayers};
  of.spec.cross_device_ops = CrossDeviceOps::hierarchical_copy;
  TrainingJob job = mirrored_job(of);
  join_all(job, kGpuCount);
  const std::int64_t bytes = all_bytes(of);
  const SimTime reduced = 4 * hop(bytes) + 2 * moved(3 * bytes);
  CHECK(result_of(job).iteration_end[0].ps ==
        (passes(of) + moved(2 * bytes) + reduced + moved(2 * bytes) + updated(of)).ps);
}

// Pack by pack, in the order in which each kind of sum is made.
TEST_CASE("HierarchicalCopyAllReduce, any GPUs, layers and packs: by the rules") {
  Dice dice(19);
  for (std::uint64_t round = 0; round < rounds(200); ++round) {
    Mirror of;
    of.spec.cross_device_ops = CrossDeviceOps::hierarchical_copy;
    of.spec.num_packs = dice.between(0, 6);
    const auto gpus = static_cast<std::uint32_t>(2 * dice.between(1, 4));
    const std::uint32_t half = gpus / 2;
    of.layers.resize(dice.below(8) + 1);
    for (std::vector<std::int64_t>& tensors : of.layers) {
      tensors = {dice.between(1, 500'000)};
    }
    TrainingJob job = mirrored_job(of, of.spec, {1, gpus});
    join_all(job, gpus);
    const bool joined = of.spec.num_packs != 0;
    std::vector<std::int64_t> size;  // of pack i
    std::vector<std::size_t> order;
    if (joined) {
      const std::int64_t all = all_bytes(of) / 4, each = all / *of.spec.num_packs;
      for (std::int64_t left = all; left > 0; left -= size.back() / 4) {
        order.push_back(size.size());
        const bool last = each == 0 || static_cast<std::int64_t>(size.size()) + 1 == of.spec.num_packs;
        size.push_back(4 * (last ? left : each));
      }
    } else {
      for (std::size_t l = 0; l < of.layers.size(); ++l) {
        size.push_back(4 * of.layers[l].front());
        order.insert(order.begin(), l);
      }
    }
    const SimTime copies = moved(
        2 * all_bytes(of) * ((joined && of.layers.size() > 1 ? 1 : 0) + (joined && size.size() > 1 ? 1 : 0)));
    std::vector<SimTime> begins(gpus);
    RunSpec run;
    run.iterations = 3;
    for (const SimTime end : simulate(job, run).iteration_end) {
      std::vector<SimTime> stream, computed;
      for (const SimTime begin : begins) {
        computed.push_back(begin + passes(of));
        stream.push_back(computed.back() + copies);
      }
      std::vector<SimTime> across(size.size()), down(size.size());
      for (const std::size_t i : order) {
        const auto exists = [&](std::size_t r) {
          return joined ? computed[r] + copies : computed[r] - static_cast<std::int64_t>(i) * of.backward;
        };
        for (const std::size_t owner : {i % gpus, (i + half) % gpus}) {
          for (std::size_t r = owner / half * half; r < owner / half * half + half; ++r) {
            stream[owner] = std::max(stream[owner], r == owner ? SimTime{} : exists(r) + hop(size[i]));
          }
          stream[owner] += half > 1 ? moved((half + 1) * size[i]) : SimTime{};
        }
        across[i] = stream[(i + half) % gpus] + hop(size[i]);
      }
      for (const std::size_t i : order) {
        SimTime& main = stream[i % gpus];
        main = std::max(main, across[i]) + moved(3 * size[i]);
        down[i] = main + hop(size[i]);
      }
      const std::vector<SimTime> from_main = down;
      for (const std::size_t i : order) {
        SimTime& other = stream[(i + half) % gpus];
        other = std::max(other, down[i]);
        down[i] = other + hop(size[i]);
      }
      for (const std::size_t i : order) {
        for (std::size_t r = 0; r < gpus; ++r) {
          const bool with_main = r / half == i % gpus / half;
          const bool owns = r == i % gpus || r == (i + half) % gpus;
          stream[r] = std::max(stream[r], owns ? SimTime{} : with_main ? from_main[i] : down[i]);
        }
      }
      for (std::size_t r = 0; r < gpus; ++r) {
        begins[r] = stream[r] + copies + updated(of);
      }
      REQUIRE(end.ps == std::ranges::max(begins).ps);
    }
  }
}

// One gradient of S bytes on two nodes: summed in each node, half of it sent to the other node and added there, sent
// back, joined, broadcast in each node.
TEST_CASE("nccl_then_ring in closed form: one gradient, two nodes") {
  Mirror of{{{1001}}};
  of.spec.cross_device_ops = CrossDeviceOps::nccl_then_ring;
  TrainingJob job = mirrored_job(of, of.spec, {2, 3});
  join_all(job, 6);
  constexpr std::int64_t kChunk = 4 * 501;
  CHECK(result_of(job).iteration_end[0].ps == (passes(of) + 2 * all_reduced(4 * 1001) + 2 * hop(kChunk) +
                                               moved(3 * kChunk) + moved(2 * 4 * 1001) + updated(of))
                                                  .ps);
}

// All nodes are alike: the first GPU of each, what its node's queue, its own stream and each gradient's ring do.
TEST_CASE("nccl_then_ring, any nodes, layers and gradients: by the rules") {
  Dice dice(23);
  for (std::uint64_t round = 0; round < rounds(200); ++round) {
    Mirror of;
    of.spec.cross_device_ops = CrossDeviceOps::nccl_then_ring;
    of.accumulation = static_cast<int>(dice.between(1, 2));
    of.layers.resize(dice.below(6) + 1);
    for (std::vector<std::int64_t>& tensors : of.layers) {
      tensors.resize(dice.between(1, 2));
      std::ranges::generate(tensors, [&] { return dice.between(1, 500'000); });
    }
    const std::int64_t nodes = dice.between(2, 5);
    const RankLayout layout{static_cast<std::uint32_t>(nodes),
                            static_cast<std::uint32_t>(dice.between(1, 3))};
    TrainingJob job = mirrored_job(of, of.spec, layout);
    join_all(job, layout.ranks());
    SimTime begins;
    RunSpec run;
    run.iterations = 3;
    for (const SimTime end : simulate(job, run).iteration_end) {
      SimTime stream = begins, queue;
      std::vector<std::int64_t> size, chunk;
      std::vector<SimTime> there;  // what a step needs
      for (int micro = 0; micro < of.accumulation; ++micro) {
        stream += static_cast<std::int64_t>(of.layers.size()) * of.forward;
        for (std::size_t l = of.layers.size(); l-- > 0;) {
          stream += of.backward;
          for (const std::int64_t elements : of.layers[l]) {
            stream += micro > 0 ? moved(3 * 4 * elements) : SimTime{};
          }
          for (std::size_t t = of.layers[l].size(); micro + 1 == of.accumulation && t-- > 0;) {
            size.push_back(4 * of.layers[l][t]);
            chunk.push_back(4 * ((of.layers[l][t] + nodes - 1) / nodes));
            queue = std::max(queue, stream) + all_reduced(size.back());
            there.push_back(queue);
          }
        }
      }
      // Each gradient's ring begins when those before it are summed in the node, and goes on by itself.
      for (std::size_t g = 0; g < size.size(); ++g) {
        stream = std::max(stream, there[g]);
        const std::int64_t added = nodes - 1, steps = 2 * added;
        there[g] = stream + steps * hop(chunk[g]) + added * moved(3 * chunk[g]) + moved(2 * size[g]);
      }
      for (std::size_t g = 0; g < size.size(); ++g) {
        stream = std::max(stream, there[g]);
        queue = std::max(queue, stream) + all_reduced(size[g]);
      }
      begins = queue + updated(of);
      REQUIRE(end.ps == begins.ps);
    }
  }
}

TEST_CASE("mirrored: memory of gradients that are joined, apart, or sent to the first GPU") {
  const Mirror of{kFourLayers};
  const Workload work = mirrored_work(of);
  const auto copies = [&](const MirroredSpec& spec) {
    const GpuMemory memory = memory_of(spec, work.model, work.training, {1, kGpuCount});
    CHECK(memory.model_states() == Bytes(3 * all_bytes(of)));  // SGD with momentum
    return memory.buckets;
  };
  CHECK(copies({}) == Bytes(all_bytes(of)));
  CHECK(copies({CrossDeviceOps::nccl, 0, {}}) == Bytes(0));
  CHECK(copies({CrossDeviceOps::multi_worker, {}, {}}) == Bytes(all_bytes(of)));
  CHECK(copies({CrossDeviceOps::copy_to_devices, {}, {}}) == Bytes(all_bytes(of)));
  CHECK(copies({CrossDeviceOps::reduction_to_one_device, {}, {}}) == Bytes((kGpuCount - 1) * all_bytes(of)));
  constexpr auto kHalves =
      CrossDeviceOps::hierarchical_copy;  // GPU 0: joined, of its half one more, of the other one
  CHECK(copies({kHalves, {}, {}}) == Bytes(3 * all_bytes(of)));
  CHECK(copies({kHalves, 4, {}}) == Bytes(2 * all_bytes(of)));
  CHECK(copies({kHalves, 0, {}}) == Bytes(all_bytes(of)));
  CHECK(copies({CrossDeviceOps::nccl_then_ring, {}, {}}) == Bytes(0));
}

TEST_CASE("packs: closed when they hold more than the limit") {
  using Counts = std::vector<std::size_t>;
  const auto of = [](std::vector<std::int64_t> sizes, std::int64_t limit) {
    std::vector<Bytes> bytes;
    for (const std::int64_t size : sizes) {
      bytes.emplace_back(size);
    }
    return packs_by_size(bytes, Bytes(limit));
  };
  CHECK(of({}, 10).empty());
  CHECK(of({5, 5, 1}, 10) == Counts{3});     // exactly the limit: goes on
  CHECK(of({5, 6, 1}, 10) == Counts{2, 1});  // more: closed
  CHECK(of({11, 1, 10, 1}, 10) == Counts{1, 2, 1});
  CHECK(of({5, 500, 5}, 0) == Counts{3});  // one pack
  using Elements = std::vector<std::int64_t>;
  CHECK(equal_packs(10, 1) == Elements{10});
  CHECK(equal_packs(10, 3) == Elements{3, 3, 4});
  CHECK(equal_packs(2, 3) == Elements{2});
}

TEST_CASE("mirrored: options that a kind hasn't, and nodes that one process hasn't, are refused") {
  Mirror of{kFourLayers};
  const auto refusal = [&](const MirroredSpec& spec, const RankLayout& layout = {1, kGpuCount}) {
    return error_of([&] { static_cast<void>(mirrored_job(of, spec, layout)); });
  };
  constexpr auto kOne = CrossDeviceOps::reduction_to_one_device, kWorkers = CrossDeviceOps::multi_worker;
  CHECK(refusal({kOne, 2, {}}) ==
        "/training/mirrored/num_packs: expected no num_packs but with the cross_device_ops nccl and "
        "hierarchical_copy, found 2");
  CHECK(refusal({kWorkers, 0, {}}) ==
        "/training/mirrored/num_packs: expected no num_packs but with the cross_device_ops nccl and "
        "hierarchical_copy, found 0");
  CHECK(refusal({CrossDeviceOps::nccl, {}, Bytes(5)}) ==
        "/training/mirrored/bytes_per_pack: expected no bytes_per_pack but with the cross_device_ops "
        "multi_worker; nccl "
        "has num_packs");
  CHECK(refusal({kOne, {}, {}}, {2, 2}) ==
        "/training/mirrored/cross_device_ops: expected one node with MirroredStrategy, which is one process, "
        "found 2; "
        "\"multi_worker\" has one on each node");
  CHECK(refusal({CrossDeviceOps::nccl_then_ring, {}, {}}) ==
        "/training/mirrored/cross_device_ops: expected several nodes with nccl_then_ring, found one: "
        "\"nccl\" with "
        "num_packs 0 is its first half");
  CHECK(refusal({CrossDeviceOps::nccl_then_ring, {}, {}}, {2000, 1}) ==
        "/training/mirrored/cross_device_ops: expected fewer nodes or gradients with nccl_then_ring, at most "
        "20 million chunks a step, found 55 million");
  CHECK(refusal({CrossDeviceOps::hierarchical_copy, {}, {}}, {1, 3}) ==
        "/training/mirrored/cross_device_ops: expected GPUs in two equal halves with hierarchical_copy, "
        "found 3");
}

}  // namespace
}  // namespace paceline
