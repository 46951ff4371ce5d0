#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/readable.h"
#include "scenarios/run_table_rows.h"
#include "sim/strategy/compression.h"
#include "sim/strategy/sharding.h"

namespace paceline {
namespace {

std::string servers_rows(const Prediction& p) {
  const ParameterServerSpec& spec = p.scenario.training.parameter_server;
  const ServersReport& servers = *p.report.servers;
  const Consistency& consistency = spec.consistency;
  std::string text = plural(spec.servers.count, "parameter server") +
                     (spec.servers.placement == ServerPlacement::own_nodes
                          ? (spec.servers.count == 1 ? " on a node of its own, " : " on nodes of their own, ")
                          : " beside the workers, ");
  if (consistency.kind == Consistency::Kind::synchronous) {
    text += "synchronous" + (spec.backup > 0 ? ", " + plural(spec.backup, "backup worker") : "");
    return row("strategy", text) +
           row("", fixed(100 * servers.dropped_share, 1) +
                       " % of the gradients are dropped; the busiest server is sent " +
                       readable_size(servers.hottest_server_in) + " a step");
  }
  text += consistency.kind == Consistency::Kind::asynchronous
              ? std::string("asynchronous")
              : "stale by " + std::to_string(consistency.stale) + " at most";
  return row("strategy", text) +
         row("", "gradients are " + fixed(servers.mean_staleness, 1) +
                     " updates stale (95 %: " + std::to_string(servers.staleness_p95) +
                     "); the busiest server is sent " + readable_size(servers.hottest_server_in) + " a step");
}

std::string horovod_rows(const Prediction& p) {
  constexpr std::size_t kShown = 6;
  const HorovodSpec& spec = p.scenario.training.horovod;
  const Negotiation& rules = *p.job.negotiation;
  const std::vector<FusionReport>& fusions = p.report.fusions;
  std::size_t tensors = 0;
  for (const FusionReport& each : fusions) {
    tensors += each.tensors;
  }
  std::string text =
      row("strategy", "horovod " + spec.version +
                          (spec.hierarchical ? ", hierarchical"
                           : spec.torus      ? ", torus"
                                             : "") +
                          ", up to " + readable_size(rules.threshold) + " together, cycles of " +
                          readable_time(to_seconds(rules.cycle))) +
      row("", plural(static_cast<std::int64_t>(tensors), "gradient") + " in " +
                  plural(static_cast<std::int64_t>(fusions.size()), "reduction") + " in the last step");
  std::vector<Cells> lines{{"", "gradients", "size", "queued", "agreed", "starts", "ends"}};
  for (std::size_t i = 0; i < std::min(fusions.size(), kShown); ++i) {
    const FusionReport& f = fusions[i];
    lines.push_back({"", std::to_string(f.tensors), readable_size(f.bytes), readable_time(f.queued),
                     readable_time(f.agreed), readable_time(f.start), readable_time(f.end)});
  }
  if (fusions.size() > kShown) {
    lines.push_back({"", "and " + std::to_string(fusions.size() - kShown) + " more", "", "", "", "", ""});
  }
  return text + aligned(lines);
}

std::string compression_rows(const Prediction& p) {
  const CompressionSpec& spec = p.scenario.training.compression;
  const CompressionReport& report = *p.report.compression;
  const bool powersgd = spec.kind == CompressionKind::powersgd;
  const std::string sent =
      report.ratio < 1 ? fixed(1 / report.ratio, 1) + " times more" : fixed(report.ratio, 1) + " times less";
  return row("compression", std::string(name_of(spec.kind)) + ": " + sent + " is sent, for " +
                                readable_time(report.kernels) + " of kernels (" +
                                fixed(100 * (report.kernels / p.report.step.mean), 1) + " % of the step)") +
         (powersgd ? row("", "the steady steps are those from step " + std::to_string(spec.start) +
                                 " on; before it gradients are reduced as they are")
                   : "") +
         (orthogonalises_by_qr(p.scenario.training)
              ? row("", "the hook's time is a guess: above rank 2 PyTorch orthogonalises fp32 by a QR,") +
                    row("", "whose kernels aren't known here; Gram-Schmidt stands in its place")
              : "") +
         row("", "what is learned changes, too; this is about time");
}

std::string local_sgd_rows(const Prediction& p) {
  const LocalSgdSpec& spec = p.scenario.training.local_sgd;
  std::string text = row(
      "strategy",
      (spec.period > 1 ? "local SGD: parameters are averaged every " + std::to_string(spec.period) + " steps"
                       : std::string("local SGD: parameters are averaged in every step")) +
          (spec.group == LocalGroup::node ? ", gradients reduced in each node" : ""));
  text +=
      spec.warm_up > 0 ? row("", "after " + plural(spec.warm_up, "step") + " of DDP, which don't count") : "";
  if (p.report.period) {
    text += row("", "a step that averages " + readable_time(p.report.period->synchronising) + ", others " +
                        readable_time(p.report.period->local));
  }
  return text + row("", "it changes what is learned: this is about time alone");
}

// Nothing of DDP, which is the rule.
std::string strategy(const Prediction& p) {
  const TrainingSpec& training = p.scenario.training;
  if (p.report.servers) {
    return servers_rows(p);
  }
  if (p.report.compression) {
    return compression_rows(p);
  }
  if (p.job.ranks() == 1 || training.strategy == StrategyKind::ddp) {
    return "";
  }
  if (p.job.negotiation) {
    return horovod_rows(p);
  }
  if (training.strategy == StrategyKind::local_sgd) {
    return local_sgd_rows(p);
  }
  std::string text(name_of(training.strategy));
  text += training.strategy == StrategyKind::zero ? ", stage " + std::to_string(training.zero.stage) : "";
  if (training.strategy == StrategyKind::zero && training.zero.stage == 1) {
    text += training.zero.reduce_scatter ? ", gradients reduce-scattered" : "";
    text += training.zero.overlap_gather ? ", parameters gathered beside the forward pass" : "";
  }
  if (const ShardGroup& group = training.fsdp.shard_group; fully_shards(training) && group != ShardGroup{}) {
    text += ", sharded " + (group.node ? std::string("in each node")
                                       : "in groups of " + std::to_string(group.ranks) + " GPUs");
  }
  const Precision gathered = kept_in(gathered_format(training.fsdp, training.precision));
  const bool half = bytes_per_element(gathered) < 4 && training.gradients == Precision::fp32;
  const bool as_fp32 = training.strategy == StrategyKind::fsdp && half && !training.fsdp.reduce_precision;
  return row("strategy", text) +
         (as_fp32 ? row("",
                        "gradients in fp32: without reduce_dtype PyTorch's are in 16 bits, as its parameters "
                        "(training.gradients)")
                  : "");
}

// Options of strategies that don't run, and of fabrics that aren't there: who forgot to name theirs sees it here.
std::string unused_row(const TrainingSpec& training, const FabricSpec& fabric) {
  struct Options {
    StrategyKind of;
    bool given, used;
  };
  const TrainingSpec usual;
  const bool shards = fully_shards(training), zero = training.strategy == StrategyKind::zero;
  const bool local_sgd =
      training.strategy == StrategyKind::local_sgd &&
      (training.local_sgd.warm_up > 0 || training.local_sgd.group != LocalGroup::none);  // steps of DDP
  const Options all[] = {
      {StrategyKind::ddp, training.ddp != usual.ddp, local_sgd || (zero && !shards)},
      {StrategyKind::fsdp, training.fsdp != usual.fsdp, shards},
      {StrategyKind::zero, training.zero != usual.zero, false},
      {StrategyKind::parameter_server, training.parameter_server != usual.parameter_server, false},
      {StrategyKind::data_parallel, training.data_parallel != usual.data_parallel, false},
      {StrategyKind::mirrored, training.mirrored != usual.mirrored, false},
      {StrategyKind::horovod, training.horovod != usual.horovod, false},
      {StrategyKind::local_sgd, training.local_sgd != usual.local_sgd, false}};
  std::string unused;
  for (const Options& options : all) {
    if (options.given && !options.used && options.of != training.strategy) {
      unused += (unused.empty() ? "" : ", ") + std::string(name_of(options.of));
    }
  }
  const bool of_stage_1 = zero && shards && (training.zero.reduce_scatter || training.zero.overlap_gather);
  const bool reduces_last =
      training.no_sync == false && training.accumulation > 1 && !reduces_each_pass(training);
  FabricSpec plain;
  plain.sharp = fabric.sharp;
  return (unused.empty()
              ? ""
              : row("not used", "options of " + unused + ": the strategy is " +
                                    std::string(name_of(training.strategy)) + " (training.strategy)")) +
         (of_stage_1 ? row("not used", "reduce_scatter and overlap_gather of zero: the stage is " +
                                           std::to_string(training.zero.stage) + " (training.zero.stage)")
                     : "") +
         (reduces_last ? row("not used",
                             "no_sync false: this strategy, or its rule of reduction, has nothing of the "
                             "kind (training.no_sync)")
                       : "") +
         (fabric.kind != FabricKind::single_switch || fabric == plain
              ? ""
              : row("not used", "options of the fabric: it is a single switch (cluster.fabric.kind)"));
}

}  // namespace

std::string strategy_rows(const Prediction& p) {
  const int every = p.scenario.training.recompute_every;
  const bool in_part = p.scenario.training.activation_checkpointing == ActivationCheckpointing::selective_op;
  const std::string again =
      recomputes(p.scenario.training)
          ? row("activations", in_part      ? "recomputed in part, by operators (selective_op)"
                               : every == 1 ? "recomputed, block by block"
                                            : "recomputed in one block of " + std::to_string(every))
          : "";
  const std::string each_pass =
      p.job.ranks() > 1 && reduces_each_pass(p.scenario.training)
          ? row("gradients",
                "reduced in each of " + std::to_string(p.scenario.training.accumulation) + " passes")
          : "";
  const TrainingSpec& training = p.scenario.training;
  const bool refused = training.strategy == StrategyKind::zero && fully_shards(training) &&
                       training.accumulation > 1 && training.no_sync == true;
  const std::string no_sync =
      refused ? row("gradients", "under no_sync, which DeepSpeed refuses from stage 2 on (training.no_sync)")
              : "";
  return strategy(p) + no_sync + unused_row(p.scenario.training, p.scenario.cluster.fabric) + again +
         each_pass;
}

}  // namespace paceline
