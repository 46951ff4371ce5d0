// FSDP's timeline: closed forms, and the rules of docs/model.md as a recursion over units. An all-gather
// takes a, a reduce-scatter s, an all-reduce across replicas r; forward and backward of a unit take f and b,
// copies out of and into their buffers c_o and c_i. Hosts cost nothing.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/predict.h"
#include "scenarios/scenario.h"
#include "sim/engine/simulate.h"
#include "sim/layers/layer_spans.h"
#include "sim/strategy/build_job.h"
#include "tests/dice.h"
#include "tests/meetings.h"

namespace paceline {
namespace {

struct UnitTimes {
  std::int64_t units = 1, f = 0, b = 0, a = 0, s = 0, r = 0, copy_out = 0, copy_in = 0, optimizer = 0;
  std::int64_t sum = 0,
               first = 0;  // of whole gradients under no_sync; of the first pass, where they are cast
  CollectiveLibrary library = CollectiveLibrary::nccl;
  Seconds launch{};  // of a collective
};

// Units of two layers with a parameter each, on two nodes of two GPUs. recomputed: of so many units one; 0: none.
TrainingJob job_of_units(const UnitTimes& t, const Strategy& strategy, int accumulation, int recomputed = 0,
                         bool no_sync = true) {
  Model model{.name = "units", .input = "", .layers = {}};
  TrainingSpec training;
  training.accumulation = accumulation;
  training.activation_checkpointing =
      recomputed > 0 ? ActivationCheckpointing::full : ActivationCheckpointing::none;
  training.recompute_every = std::max(1, recomputed);
  training.no_sync = no_sync;
  training.host = {.kernel_launch = Seconds(0), .collective_launch = t.launch, .runs_ahead = 1};
  training.collective.library = t.library;
  for (std::int64_t u = 0; u < t.units; ++u) {
    for (const char* part : {".first", ".second"}) {
      model.layers.push_back({.name = "layers." + std::to_string(u) + part, .parameters = {400}});
      training.layer_times.push_back({});
    }
  }
  CollectivePlanner planner = meeting_planner({2, 2}, [&](const CollectiveRequest& request) {
    return SimTime{request.kind == CollectiveKind::all_gather       ? t.a
                   : request.kind == CollectiveKind::reduce_scatter ? t.s
                                                                    : t.r};
  });
  TrainingJob job = build_job(strategy, workload(model, gpu_preset("H100"), training, {}), planner);
  for (Program* program : {&job.main().warm_up, &job.main().steady}) {
    for (Op& op : program->ops) {
      if (op.kind == OpKind::kernel) {
        const auto& [phase, layer, bucket, payload, format] = op.purpose;
        const bool again = op.label.starts_with("recompute"), second = layer % 2 == 1;
        const std::int64_t whole = phase == Phase::forward || again ? t.f : t.b;
        op.duration =
            SimTime{phase == Phase::update       ? t.optimizer
                    : phase == Phase::accumulate ? (op.label == "cast" ? t.first : t.sum) / (second ? 1 : 4)
                    : phase == Phase::exchange   ? (bucket == kNoIndex ? t.copy_out : t.copy_in)
                    : second                     ? whole - whole / 3
                                                 : whole / 3};
      }
    }
  }
  return job;
}

TrainingJob fsdp_job(const UnitTimes& t, const FsdpSpec& fsdp, int accumulation, int recomputed = 0,
                     bool no_sync = true) {
  return job_of_units(t, fsdp, accumulation, recomputed, no_sync);
}

SimTime steady_step(const TrainingJob& job) {
  RunSpec run;
  run.iterations = 2;
  const Result result = simulate(job, run);
  return result.iteration_end[2] - result.iteration_end[1];
}

// From the rules, not from the program: `stream` and `queue` are when the compute stream and the queue of
// all-gathers and reduce-scatters are free, `across` that of the all-reduces.
// `add`: to a shard, once it is reduced, and cast. `first`: whole gradients are cast, too.
std::int64_t by_the_rules(const UnitTimes& t, bool reshards, std::size_t recomputed, bool replicated,
                          int accumulation, bool no_sync, std::int64_t add, std::int64_t cast, bool first) {
  const auto units = static_cast<std::size_t>(t.units);
  std::int64_t stream = 0, queue = 0, across = 0, reduced = 0;
  for (int pass = 1; pass <= accumulation; ++pass) {
    std::vector<std::int64_t> copied(units), gathered(units);
    for (std::size_t i = 0; i < units; ++i) {
      queue = std::max(queue, i == 0 ? stream : i == 1 ? 0 : copied[i - 2]) + t.a;
      stream = copied[i] = std::max(stream, queue) + t.copy_out;
      stream += t.f;
    }
    gathered[units - 1] = queue = reshards ? std::max(queue, stream) + t.a : queue;
    for (std::size_t i = units; i-- > 0;) {
      stream = reshards ? std::max(stream, gathered[i]) + t.copy_out : stream;
      if (reshards && i > 0) {
        gathered[i - 1] = queue = std::max(queue, stream) + t.a;
      }
      stream += t.b + (recomputed > 0 && (i + 1) % recomputed == 0 ? t.f : 0);
      if (no_sync && accumulation > 1) {
        const std::int64_t sum = pass > 1 ? t.sum : first ? t.first : 0;
        stream += sum + sum / 4;  // of both layers
      }
      if (pass == accumulation || !no_sync) {
        const std::int64_t adds = cast + (pass > 1 && !no_sync ? add : 0);
        stream = std::max(stream, reduced) + t.copy_in;
        reduced = queue = std::max(queue, stream) + t.s + (replicated ? 0 : adds);
        across = std::max(across, reduced) + (replicated ? t.r + adds : 0);
      }
    }
    if (!no_sync) {
      stream = std::max({stream, reduced, replicated ? across : 0});
    }
  }
  return std::max({stream, reduced, replicated ? across : 0}) + t.optimizer;
}

TEST_CASE("FSDP: communication that hides shows at the ends of both passes alone") {
  // a <= f + c_o, s <= c_o + b, a + s <= c_o + b + c_i, and c_o <= s: what a gather waits for beside the
  // scatter.
  for (const UnitTimes& t :
       {UnitTimes{1, 300, 600, 200, 200, 0, 50, 70, 11}, UnitTimes{4, 300, 700, 350, 400, 0, 50, 60, 7},
        UnitTimes{33, 1000, 2000, 900, 800, 0, 31, 17, 5}}) {
    const std::int64_t expected = t.a + t.units * (t.copy_out + t.f) + t.a +
                                  t.units * (t.copy_out + t.b + t.copy_in) + t.s + t.optimizer;
    CHECK(steady_step(fsdp_job(t, {}, 1)).ps == expected);
  }
}

TEST_CASE("FSDP: where communication takes longer than all else, the queue is never idle but for its turn") {
  for (const UnitTimes& t :
       {UnitTimes{2, 100, 200, 2000, 1500, 0, 50, 70, 11}, UnitTimes{4, 100, 200, 960, 330, 0, 50, 60, 7},
        UnitTimes{33, 10, 20, 400, 90, 0, 31, 17, 5}}) {
    const std::int64_t expected = t.units * t.a + t.copy_out + t.f + t.a + t.copy_out +
                                  (t.units - 1) * (t.a + t.s) + t.copy_in + t.s + t.optimizer;
    CHECK(steady_step(fsdp_job(t, {}, 1)).ps == expected);
  }
}

TEST_CASE("FSDP with hybrid sharding and accumulation and checkpointing is what its rules say") {
  Dice dice(14);
  for (std::uint64_t round = 0; round < rounds(10'000); ++round) {
    const auto any_time = [&] {
      return dice.maybe(0.1) ? 0 : dice.between(1, dice.maybe(0.5) ? 1000 : 5000);
    };
    const UnitTimes t{dice.between(1, 12), any_time(), any_time(), any_time(), any_time(), any_time(),
                      any_time(),          any_time(), any_time(), any_time(), any_time()};
    FsdpSpec fsdp;
    const bool apart = dice.maybe(0.3);
    fsdp.reduce_precision = apart ? std::optional(Precision::bf16) : std::nullopt;
    fsdp.reshard_after_forward.reshards = dice.maybe(0.7);
    fsdp.shard_group.node = dice.maybe(0.4);
    const auto recomputed =
        static_cast<int>(dice.maybe(0.6) ? 0 : dice.between(1, std::min<std::int64_t>(3, t.units)));
    const auto accumulation = static_cast<int>(dice.maybe(0.7) ? 1 : dice.between(2, 3));
    const bool no_sync = dice.maybe(0.7);
    // Of 2 x 400 parameters in fp32 on 4 ranks, or on 2.
    const std::int64_t shard = 2 * 400 * 4 / (fsdp.shard_group.node ? 2 : 4);
    const auto moved = [](std::int64_t bytes) {
      return to_sim_time(memory_time({gpu_preset("H100"), {}, Precision::fp32}, Bytes(bytes))).ps;
    };
    const std::int64_t add = moved(3 * shard), cast = apart ? moved(shard + shard / 2) : 0;
    INFO("round " << round);
    REQUIRE(steady_step(fsdp_job(t, fsdp, accumulation, recomputed, no_sync)).ps ==
            by_the_rules(t, fsdp.reshard_after_forward.reshards, static_cast<std::size_t>(recomputed),
                         fsdp.shard_group.node, accumulation, no_sync, add, cast, apart));
  }
}

// All of it, one after the other.
std::int64_t in_series(const UnitTimes& t, bool reshards, int recomputed, bool replicated, int accumulation) {
  const std::int64_t gather = t.a + t.copy_out, reduce = t.copy_in + t.s + (replicated ? t.r : 0),
                     pass = (reshards ? 2 : 1) * gather + t.f + t.b,
                     again = recomputed > 0 ? t.units / recomputed * t.f : 0;
  return accumulation * (t.units * pass + again) + t.units * reduce + t.optimizer;
}

TEST_CASE("FSDP over gloo: collectives and layers are in series, whatever is longer") {
  Dice dice(15);
  for (std::uint64_t round = 0; round < rounds(1000); ++round) {
    const auto any_time = [&] { return dice.maybe(0.1) ? 0 : dice.between(1, 3000); };
    UnitTimes t{dice.between(1, 12), any_time(), any_time(), any_time(), any_time(),
                any_time(),          any_time(), any_time(), any_time()};
    t.library = CollectiveLibrary::gloo;
    FsdpSpec fsdp;
    fsdp.reshard_after_forward.reshards = dice.maybe(0.6);
    fsdp.shard_group.node = dice.maybe(0.5);
    const auto recomputed =
        static_cast<int>(dice.maybe(0.6) ? 0 : dice.between(1, std::min<std::int64_t>(3, t.units)));
    const auto accumulation = static_cast<int>(dice.between(1, 3));
    INFO("round " << round);
    REQUIRE(
        steady_step(fsdp_job(t, fsdp, accumulation, recomputed)).ps ==
        in_series(t, fsdp.reshard_after_forward.reshards, recomputed, fsdp.shard_group.node, accumulation));
  }
}

TEST_CASE("FSDP over gloo: the host comes to a collective when all before it has ended") {
  UnitTimes t{.units = 5, .a = 700, .s = 900, .r = 300, .library = CollectiveLibrary::gloo};
  t.launch = Seconds(250e-12);
  for (const std::int64_t computing : {0, 2000}) {
    t.f = t.b = computing;
    FsdpSpec hybrid;
    hybrid.shard_group.node = true;
    const std::int64_t collectives = 5 * (2 * (250 + 700) + (250 + 900) + (250 + 300));
    CHECK(steady_step(fsdp_job(t, hybrid, 1)).ps == collectives + 5 * 2 * computing);
    hybrid.reshard_after_forward.reshards = false;
    CHECK(steady_step(fsdp_job(t, hybrid, 2)).ps == collectives + 2 * 5 * 2 * computing);
  }
}

TEST_CASE(
    "FSDP over gloo: each unit's gather for the backward pass comes before the kernels of the one after it") {
  // As PyTorch 2.15's process group was asked for them, on four ranks of two replicas.
  UnitTimes t{.units = 3, .f = 1, .b = 1, .a = 1, .s = 1, .r = 1, .library = CollectiveLibrary::gloo};
  FsdpSpec hybrid;
  hybrid.shard_group.node = true;
  std::vector<std::string> found;
  const TrainingJob job = fsdp_job(t, hybrid, 1);
  for (const Op& op : job.main().steady.ops) {
    if (op.kind == OpKind::collective || op.purpose.phase == Phase::backward) {
      found.push_back(op.label);
    }
  }
  CHECK(found == std::vector<std::string>{
                     "all_gather layers.0", "all_gather layers.1", "all_gather layers.2",
                     "all_gather layers.2", "all_gather layers.1", "backward layers.2.second",
                     "backward layers.2.first", "reduce_scatter layers.2", "all_reduce layers.2",
                     "all_gather layers.0", "backward layers.1.second", "backward layers.1.first",
                     "reduce_scatter layers.1", "all_reduce layers.1", "backward layers.0.second",
                     "backward layers.0.first", "reduce_scatter layers.0", "all_reduce layers.0"});
}

TEST_CASE("ZeRO's first stage adds the gather of the parameters to DDP's step") {
  Dice dice(1);
  for (int round = 0; round < 100; ++round) {
    const UnitTimes t{
        dice.between(1, 6),    dice.between(1, 900), dice.between(1, 900), dice.between(1, 3000), 0,
        dice.between(1, 3000), dice.between(1, 9),   dice.between(1, 9),   dice.between(1, 500)};
    const auto accumulation = static_cast<int>(dice.between(1, 3));
    CHECK(steady_step(job_of_units(t, ZeroSpec{1}, accumulation)).ps ==
          steady_step(job_of_units(t, DdpSpec{}, accumulation)).ps + t.a);
    CHECK(steady_step(job_of_units(t, ZeroSpec{3}, accumulation)) ==
          steady_step(fsdp_job(t, {}, accumulation)));
    FsdpSpec kept;
    kept.reshard_after_forward.reshards = false;
    CHECK(steady_step(job_of_units(t, ZeroSpec{2}, accumulation)) ==
          steady_step(fsdp_job(t, kept, accumulation)));
  }
}

// DeepSpeed's stages reduce in every pass, FSDP where it is told so.
TEST_CASE("ZeRO's passes of accumulation reduce, FSDP's but the last don't, and either does as it is told") {
  const auto step = [](const std::string& strategy, const std::string& no_sync) {
    const Prediction p = predict(parse_scenario(
        R"({"cluster": {"node": "dgx-a100", "nodes": 2}, "model": "gpt2_small", "run": {"iterations": 2},
            "training": {"batch_per_gpu": 2, "accumulation": 3, )" +
            strategy + no_sync + "}}",
        "s.json"));
    return p.report.step.mean.value;
  };
  for (const bool keeps : {false, true}) {
    const std::string zero = R"("strategy": "zero", "zero": {"stage": )" + std::string(keeps ? "2}" : "3}"),
                      fsdp = R"("strategy": "fsdp", "fsdp": {"reshard_after_forward": )" +
                             std::string(keeps ? "false}" : "true}"),
                      yes = R"(, "no_sync": true)", no = R"(, "no_sync": false)";
    CHECK(step(zero, "") == step(zero, no));
    CHECK(step(fsdp, "") == step(fsdp, yes));
    CHECK(step(zero, no) > step(zero, yes));
    CHECK(step(zero, no) == step(fsdp, no));
    CHECK(step(zero, yes) == step(fsdp, yes));
  }
}

}  // namespace
}  // namespace paceline
