#include "scenarios/tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <sstream>
#include <vector>

#include "core/fingerprint.h"
#include "kernels/cost_model.h"
#include "kernels/gpu.h"
#include "kernels/model.h"
#include "scenarios/description.h"
#include "scenarios/gpu_memory.h"
#include "scenarios/json.h"
#include "scenarios/predict.h"
#include "scenarios/readable.h"
#include "scenarios/utilisation.h"
#include "sim/strategy/compression.h"
#include "topology/channel_search.h"

namespace paceline {
namespace {

// ---- paceline run ----

// Text in lines of at most `width`, broken at spaces.
std::string wrapped(const std::string& text, std::size_t width) {
  std::istringstream words(text);
  std::string out, line, word;
  while (words >> word) {
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      out += line + '\n';
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + (line.empty() ? "" : "\n");
}

std::string row(const std::string& label, const std::string& text) {
  return "  " + padded_right(label, 16) + text + '\n';
}

// One GPU has nobody to share with.
std::string plain(const Prediction& p) {
  const TrainingSpec& training = p.scenario.training;
  if (p.job.ranks() > 1 || p.report.servers) {
    return "";
  }
  const bool compresses = training.compression.kind != CompressionKind::none;
  return (training.strategy == StrategyKind::ddp
              ? ""
              : std::string(name_of(training.strategy)) +
                    " on one GPU is plain training: nothing is sharded\n") +
         (compresses ? "one GPU sends no gradients: nothing is compressed\n" : "");
}

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
  constexpr std::size_t kMostRows = 6;
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
  for (std::size_t i = 0; i < std::min(fusions.size(), kMostRows); ++i) {
    const FusionReport& f = fusions[i];
    lines.push_back({"", std::to_string(f.tensors), readable_size(f.bytes), readable_time(f.queued),
                     readable_time(f.agreed), readable_time(f.start), readable_time(f.end)});
  }
  if (fusions.size() > kMostRows) {
    lines.push_back({"", "and " + std::to_string(fusions.size() - kMostRows) + " more", "", "", "", "", ""});
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
  return row("strategy", text);
}

// Where ranks join.
std::string inputs_row(const Prediction& p) {
  if (p.job.batches.empty()) {
    return "";
  }
  const auto [least, most] = std::ranges::minmax(p.job.batches);
  return row("inputs", "batches: " + std::to_string(least) + " to " + std::to_string(most) +
                           " a GPU; one that has finished adds zeros (join)");
}

std::string utilisation_row(const Prediction& p) {
  const Utilisation used = utilisation(p);
  const TrainingSpec& training = p.scenario.training;
  const FlopsPerSecond peak = p.scenario.gpu.peak[static_cast<std::size_t>(training.precision)];
  const std::string of =
      p.scenario.gpus.empty() ? number_text(peak.value / 1e12) + " TFLOP/s" : "their peaks";
  return row(
      "utilisation",
      fixed(100 * used.of_layers, 1) + " % of " + of + " in " + std::string(name_of(training.precision)) +
          (used.with_attention > used.of_layers
               ? " by layers with parameters, " + fixed(100 * used.with_attention, 1) + " % with attention"
               : ""));
}

// "160 on 8 GPUs, 80 on 8 GPUs": where they differ.
std::string batches_row(const Prediction& p) {
  const std::vector<std::int64_t>& set = p.scenario.training.batches;
  std::map<std::int64_t, std::int64_t, std::greater<>> gpus;
  for (const std::int64_t batch : set.empty() ? p.batches : set) {
    ++gpus[batch];
  }
  constexpr std::size_t kNamed = 4;
  std::string text;
  std::size_t named = 0;
  for (const auto& [batch, count] : gpus) {
    if (++named <= kNamed) {
      text += (text.empty() ? "" : ", ") + std::to_string(batch) + " on " + plural(count, "GPU");
    }
  }
  text += named > kNamed ? " and " + std::to_string(named - kNamed) + " others" : "";
  return text.empty() ? "" : row("batches", text + (set.empty() ? " in the end, as balanced" : ""));
}

// Of two measured batches beside the run's, when their steps differ far less than their kernels' work does: then the host
// was the limit, whose time tells little of another batch.
std::string host_limit_row(const Scenario& s) {
  std::vector<MeasuredRate> rates = pinned_rates(s.training);
  if (rates.size() < 2) {
    return "";
  }
  std::ranges::sort(rates, {}, &MeasuredRate::batch_per_gpu);
  const auto above =
      std::clamp(std::ranges::upper_bound(rates, s.training.batch_per_gpu, {}, &MeasuredRate::batch_per_gpu),
                 rates.begin() + 1, rates.end() - 1);
  const MeasuredRate &large = *above, &small = *std::prev(above);
  const auto kernels = [&](const MeasuredRate& rate) {
    Seconds sum;
    for (const LayerTime& layer :
         layer_times({s.gpu, s.training.roofline, s.training.precision}, s.model, rate.batch_per_gpu)) {
      sum = sum + layer.forward + layer.backward;
    }
    return sum;
  };
  const double work = static_cast<double>(large.batch_per_gpu) / static_cast<double>(small.batch_per_gpu),
               longer = work * (small.rate / large.rate), priced = kernels(large) / kernels(small);
  constexpr double kFar = 0.5;
  return longer - 1 < kFar * (priced - 1)
             ? row("", "from batch " + std::to_string(small.batch_per_gpu) + " to " +
                           std::to_string(large.batch_per_gpu) + " a step takes " + fixed(longer, 2) +
                           " times as long, its kernels " + fixed(priced, 2) + " times: the host,") +
                   row("", "it seems, was the limit there; measure the batch that you run")
             : "";
}

// Of kernels that nobody measured, on GPUs of one kind: what torch.compile decides, and what it doesn't pad.
std::string compiled_row(const Prediction& p) {
  const Scenario& s = p.scenario;
  if (s.gpus.size() > 1) {
    return "";
  }
  const GpuCosts costs{s.gpu, s.training.roofline, s.training.precision};
  const bool compiled = costs.roofline.kernels == KernelMode::compiled;
  std::string text;
  const double slower = eager_slowdown(costs, s.model, s.training.batch_per_gpu);
  if (slower >= kSlowdownMatters) {
    text = compiled ? "compiled; eager layers " + fixed(slower, 2) + " times as long"
                    : "eager; compiled layers " + fixed(1 / slower, 2) + " of that time";
  } else if (!compiled) {
    text = "eager; compiled layers no shorter";
  }
  const Seconds longer = s.training.accumulation * misaligned_time(costs, s.model, s.training.batch_per_gpu);
  constexpr double kWorthwhile = 0.01;
  if (longer > kWorthwhile * p.report.step.p50) {
    text +=
        std::string(text.empty() ? "" : "; ") + "unpadded sizes (a vocabulary) cost " + readable_time(longer);
  }
  return text.empty() ? "" : row("", text);
}

// Likewise: what the order of an image's numbers decides, where tensor cores care.
std::string memory_format_row(const Prediction& p) {
  const Scenario& s = p.scenario;
  if (s.gpus.size() > 1) {
    return "";
  }
  const double slower = channels_first_slowdown({s.gpu, s.training.roofline, s.training.precision}, s.model,
                                                s.training.batch_per_gpu);
  if (!(slower >= kSlowdownMatters)) {
    return "";
  }
  const bool last = s.training.roofline.memory_format == MemoryFormat::channels_last;
  return row("", last ? "images in channels_last; in channels_first, PyTorch's default, layers take " +
                            fixed(slower, 2) + " times as long"
                      : "images in channels_first; in channels_last layers take " + fixed(1 / slower, 2) +
                            " of that time");
}

// What the kernels' times are worth.
std::string compute_row(const Prediction& p) {
  const TrainingSpec& training = p.scenario.training;
  if (compute_source(p.scenario) == "measured" && training.measured.empty()) {
    std::string text = "as measured: ";
    for (const GpuKind& kind : p.scenario.gpus) {
      text += (text.back() == ' ' ? "" : ", ") + readable_count(kind.measured.front().rate.value) +
              " samples/s on " + kind.gpu.name;
    }
    return row("kernels", text);
  }
  if (training.measured.empty()) {
    return training.layer_times.empty()
               ? row("kernels",
                     "from the roofline; nobody measured them, and PyTorch's took 0.8 to 2.7 times as long") +
                     compiled_row(p) + memory_format_row(p)
               : row("kernels", "as layer_times says");
  }
  std::string text;
  for (const MeasuredRate& rate : pinned_rates(training)) {
    text += (text.empty() ? "as measured: " : ", ") + readable_count(rate.rate.value) +
            " samples/s with batch " + std::to_string(rate.batch_per_gpu) +
            (rate.accumulation > 1 ? " x " + std::to_string(rate.accumulation) : "");
  }
  const bool own = std::ranges::any_of(pinned_rates(training), [&](const MeasuredRate& rate) {
    return rate.batch_per_gpu == training.batch_per_gpu;
  });
  return own ? row("kernels", text)
             : row("kernels", text + "; nobody measured batch " + std::to_string(training.batch_per_gpu)) +
                   host_limit_row(p.scenario);
}

std::string percent_and_time(const DelaySpec& delays) {
  return readable_time(delays.per_step) + " a step and " + fixed(100 * delays.per_doubling, 1) +
         " % of the layers' time for each doubling of GPUs";
}

// What steps lose beside communication, and what they would lose as published runs do.
std::string delays_row(const Prediction& p) {
  const auto ranks = static_cast<double>(p.job.ranks());
  if (ranks == 1) {
    return "";
  }
  if (p.scenario.variability.delays) {
    return row("delays", percent_and_time(*p.scenario.variability.delays));
  }
  const double passes = std::sqrt(static_cast<double>(p.scenario.training.accumulation));
  const Seconds delayed =
      kTypicalDelays.per_step +
      p.report.breakdown.compute * (kTypicalDelays.per_doubling * std::log2(ranks) / passes);
  const Seconds longer(std::max(0.0, (delayed - p.report.breakdown.input_wait).value));  // who waits has time
  return row("delays", "none; " + percent_and_time(kTypicalDelays) + ",") +
         row("",
             "as published runs lose, would make it about " +
                 readable_count(p.report.throughput * (p.report.step.mean / (p.report.step.mean + longer))) +
                 " samples/s (variability.delays)");
}

// Input that no loader is asked for, from where published nodes waited for theirs on. Images have no tokens.
std::string input_row(const Prediction& p) {
  const double of_a_node = p.report.throughput / p.topology->job_nodes();
  if (p.scenario.training.input || p.scenario.model.tokens > 0 || of_a_node < kFewestWaitedFor) {
    return "";
  }
  return row("input", "taken as ready: " + readable_count(of_a_node) +
                          " samples/s a node. Of images, some published nodes waited for") +
         row("", readable_count(kFewestWaitedFor) + ", others read " + readable_count(kMostRead) +
                     " (training.input)");
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

// Steps that have not settled, and what tells.
std::string drift_rows(const Prediction& p) {
  if (!p.report.drift) {
    return "";
  }
  const auto& [steps, change] = *p.report.drift;
  constexpr int kTimes = 5;
  return row("", "steps have not settled: the last " + std::to_string(steps) + " take " +
                     fixed(100 * std::abs(change), 1) + (change > 0 ? " % longer" : " % less") +
                     " than the first " + std::to_string(steps) + ";") +
         row("",
             "more of them tell (--iterations " + std::to_string(kTimes * p.scenario.run.iterations) + ")");
}

std::string summary(const Prediction& p) {
  const Report& r = p.report;
  const bool spread = r.step.max - r.step.min > 1e-4 * r.step.mean;
  std::string step = readable_time(r.step.mean);
  step += spread ? "  (p50 " + readable_time(r.step.p50) + ", p95 " + readable_time(r.step.p95) + ", p99 " +
                       readable_time(r.step.p99) + ", max " + readable_time(r.step.max) + ")"
                 : "  (all steps alike)";
  const double lone = r.scaling_efficiency > 0
                          ? r.throughput / (r.scaling_efficiency * static_cast<double>(p.job.ranks()))
                          : 0;
  std::string throughput = readable_count(r.throughput) + " samples/s";
  if (const double tokens = utilisation(p).tokens_per_second; tokens > 0) {
    throughput += " (" + readable_count(tokens) + " tokens/s)";
  }
  const bool slower_at_last = r.counted_throughput > r.throughput &&
                              readable_count(r.counted_throughput) != readable_count(r.throughput);
  if (r.servers && slower_at_last) {
    throughput += " in the long run; these steps did " + readable_count(r.counted_throughput) + ",\n" +
                  row("", "as fast workers got ahead of the slowest, once");
    throughput.pop_back();
  } else if (slower_at_last) {
    throughput += ", what the loaders make; these steps did " + readable_count(r.counted_throughput) + "\n" +
                  row("", "on batches prefetched before them: more --iterations show the lasting step time");
    throughput.pop_back();
  }
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
  return strategy(p) + unused_row(p.scenario.training, p.scenario.cluster.fabric) + again + each_pass +
         row("step time", step) + drift_rows(p) + row("throughput", throughput) +
         row("scaling",
             fixed(100 * r.scaling_efficiency, 1) + " % of " +
                 (p.scenario.gpus.empty()
                      ? std::to_string(p.job.ranks()) + " times one GPU alone, which does " +
                            readable_count(lone) + " samples/s"
                      : "what all GPUs do, each of its kind alone: " +
                            readable_count(lone * static_cast<double>(p.job.ranks())) + " samples/s")) +
         batches_row(p) + inputs_row(p) + utilisation_row(p) + compute_row(p) + delays_row(p) + input_row(p) +
         (static_cast<std::int64_t>(p.job.ranks()) > kMostCompared
              ? row("beyond", "nothing beyond " + readable_count(kMostCompared) +
                                  " GPUs was ever compared with a measurement")
              : "");
}

std::string part(const std::string& label, Seconds time, Seconds step) {
  constexpr double kBar = 40;
  const double share = step.value > 0 ? time / step : 0;
  const auto bar = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * kBar));
  return "    " + padded_right(label, 24) + padded(readable_time(time), 10) +
         padded(fixed(100 * share, 1), 7) + " %" + (bar > 0 ? "  " + std::string(bar, '#') : "") + '\n';
}

std::string parts(const Prediction& p) {
  const BreakdownSeconds& b = p.report.breakdown;
  const Seconds step = p.report.step.mean;
  return "\n  where a step goes (mean of all GPUs)\n" + part("compute", b.compute, step) +
         part("exposed communication", b.exposed_communication, step) +
         part("waiting for stragglers", b.straggler_wait, step) +
         (p.report.servers ? part("waiting for servers", b.server_wait, step) : "") +
         part("waiting for input", b.input_wait, step) + part("other (launches, idle)", b.other, step);
}

// The ranks that were just as late as a straggler.
std::string as_late(const Prediction& p, const StragglerReport& s) {
  constexpr std::size_t kNamed = 3;
  if (s.as_late.empty()) {
    return "";
  }
  std::string text = "      as late as it: ";
  for (std::size_t i = 0; i < std::min(kNamed, s.as_late.size()); ++i) {
    text += (i > 0 ? ", rank " : "rank ") + std::to_string(s.as_late[i].value) + " (" +
            gpu_name(p.scenario, s.as_late[i]) + ")";
  }
  return text +
         (s.as_late.size() > kNamed ? " and " + std::to_string(s.as_late.size() - kNamed) + " more\n" : "\n");
}

// Those that cost a thousandth of the step or more.
std::string stragglers(const Prediction& p) {
  constexpr std::size_t kShown = 3;
  constexpr double kWorthALine = 1e-3;
  std::string text;
  for (const StragglerReport& s :
       std::span(p.report.stragglers).first(std::min(kShown, p.report.stragglers.size()))) {
    if (s.waited > kWorthALine * p.report.step.mean) {
      text += "    " + padded_right("rank " + std::to_string(s.rank.value) + " (" + s.gpu + ")", 26) + ' ' +
              readable_time(s.waited) + " a step, mean of all GPUs" +
              (s.collectives > 0 ? "; at " + plural(s.collectives, "collective") : "") + '\n' + as_late(p, s);
    }
  }
  return text.empty() ? text : "\n  whom the others waited for most\n" + text;
}

std::string links(const Prediction& p) {
  constexpr std::size_t kShown = 3;
  const std::vector<LinkReport>& all = p.links;
  const std::size_t degraded = p.scenario.cluster.degraded.size();
  const std::string examined = degraded > all.size() ? " (the first " + std::to_string(all.size()) + " of " +
                                                           std::to_string(degraded) + " examined)"
                                                     : "";
  std::string text =
      all.empty() ? "" : "\n  degraded links: a step is shorter when this one is healthy" + examined + "\n";
  for (std::size_t i = 0; i < std::min(kShown, all.size()); ++i) {
    const double share = p.report.step.mean.value > 0 ? 100 * (all[i].step_delay / p.report.step.mean) : 0;
    text += "    " + padded_right(all[i].link, 26) + " by " + readable_time(all[i].step_delay) + " (" +
            fixed(share, 1) + " %)\n";
  }
  return text;
}

// Nothing where it fits, or where nobody knows.
std::string too_large(const Prediction& p, std::size_t width) {
  const std::string text = does_not_fit(p.scenario);
  return text.empty() ? ""
                      : wrapped(text + "; " + what_would_fit(p.scenario) +
                                    ". What follows is as if it fitted as it is.",
                                width) +
                            '\n';
}

std::string node_names(const ClusterSpec& cluster) {
  std::string names;
  for (const NodeRun& run : cluster.runs) {
    names += (names.empty() ? "" : ", ") + run.node.name + " in " + std::to_string(run.nodes);
  }
  return cluster.runs.empty() ? cluster.node.name : names;
}

// Not where it has been said first.
std::string memory(const Prediction& p) {
  if (!does_not_fit(p.scenario).empty()) {
    return "";
  }
  const GpuMemory m = memory_of(p.scenario);
  const Bytes gpu = memory_of_gpu(p.scenario);
  const std::string loss = loss_text(m, gpu);
  return row("memory", memory_text(m, gpu) + " a GPU") + row("", memory_parts_text(m)) +
         (loss.empty() ? "" : row("", loss));
}

}  // namespace

std::string headline(const Prediction& p) {
  const Scenario& s = p.scenario;
  const std::int64_t per_node = gpus_of_node(s.cluster);
  const int nodes = nodes_of_job(s.cluster);
  std::string line = s.model.name + " on " + plural(static_cast<std::int64_t>(p.job.ranks()), "GPU") + ": " +
                     plural(nodes, "node") + " (" + node_names(s.cluster) + ") x " +
                     std::to_string(per_node) + ' ';
  for (const GpuKind& kind : s.gpus) {
    line += (&kind == &s.gpus.front() ? "" : ", ") + kind.gpu.name + " in " + std::to_string(kind.nodes);
  }
  line += s.gpus.empty() ? s.gpu.name : "";
  if (nodes > 1) {
    std::string fabric(name_of(s.cluster.fabric.kind));
    std::ranges::replace(fabric, '_', ' ');
    line += ", " + fabric;
  }
  return line + '\n';
}

std::string terminal_table(const Prediction& p) {
  constexpr std::size_t kWidth = 96, kShownDescription = 280;
  std::string question = p.scenario.description.substr(0, kShownDescription);
  question += question.size() < p.scenario.description.size() ? " ..." : "";
  return too_large(p, kWidth) + wrapped(question, kWidth) + headline(p) + plain(p) + '\n' + summary(p) +
         memory(p) + parts(p) + stragglers(p) + links(p);
}

std::string terminal_footer(const Prediction& p) {
  const int steps = p.scenario.run.iterations;
  const std::string periods =
      p.report.period
          ? " in whole periods of " + std::to_string(p.report.period->steps) + " (iterations are rounded up)"
          : "";
  return "\n  " + plural(steps, "step") + periods + " after one of warm-up (" +
         readable_time(p.report.warm_up) + "), seed " + std::to_string(p.scenario.run.seed) +
         ", fingerprint " + to_hex(p.result.fingerprint) + '\n' + "  " +
         std::string(name_of(p.result.engine)) + " engine: " + p.result.engine_reason + '\n';
}

// ---- paceline topology ----

namespace {

constexpr auto kDeviceTexts = names<DeviceKind>({{"GPU", DeviceKind::gpu},
                                                 {"NVSwitch", DeviceKind::nvswitch},
                                                 {"PCIe switch", DeviceKind::pcie_switch},
                                                 {"CPU socket", DeviceKind::cpu},
                                                 {"NIC", DeviceKind::nic},
                                                 {"leaf", DeviceKind::leaf},
                                                 {"spine", DeviceKind::spine},
                                                 {"core", DeviceKind::core}});
constexpr auto kLinkTexts = names<LinkKind>({{"NVLink", LinkKind::nvlink},
                                             {"PCIe", LinkKind::pcie},
                                             {"socket", LinkKind::socket},
                                             {"network", LinkKind::network},
                                             {"C2C", LinkKind::c2c}});

std::string device_lines(const Topology& topology) {
  std::map<DeviceKind, std::int64_t> count;
  for (std::uint32_t i = 0; i < topology.devices(); ++i) {
    ++count[topology.device_kind(DeviceId(i))];
  }
  std::string text = "\n  devices\n";
  for (const auto& [kind, devices] : count) {
    text += "    " + padded_right(std::string(kDeviceTexts[kind]), 14) + padded(std::to_string(devices), 10) +
            '\n';
  }
  return text;
}

struct LinkClass {
  LinkKind kind;
  double bandwidth, latency;
  friend auto operator<=>(const LinkClass&, const LinkClass&) = default;
};

// Links that are equal in kind, bandwidth and latency stand on one line.
std::string link_lines(const Topology& topology) {
  constexpr std::size_t kShown = 16;
  std::map<LinkClass, std::int64_t> count;
  for (std::uint32_t i = 0; i < topology.links(); ++i) {
    const Link& link = topology.link(LinkId(i));
    ++count[{link.kind, link.bandwidth.value, link.latency.value}];
  }
  std::string text = "\n  links (each direction counts)     bandwidth     latency\n";
  std::size_t shown = 0;
  for (const auto& [link, links] : count) {
    if (shown++ < kShown) {
      text += "    " + padded_right(std::string(kLinkTexts[link.kind]), 14) +
              padded(std::to_string(links), 10) + padded(readable_rate(BytesPerSecond(link.bandwidth)), 16) +
              padded(readable_time(Seconds(link.latency)), 12) + '\n';
    }
  }
  return text +
         (count.size() > kShown ? "    and " + std::to_string(count.size() - kShown) + " more kinds\n" : "");
}

}  // namespace

namespace {

// What NCCL's graph search finds: "12 rings of 30 GB/s, doubled to 24 channels".
std::string channels_text(const ChannelGraphs& found) {
  const ChannelGraph& ring = found.ring;
  return plural(static_cast<std::int64_t>(ring.channels.size()), "ring") + " of " +
         readable_rate(BytesPerSecond(ring.bw_intra * 1e9)) + " (" + std::string(name_of(ring.type_intra)) +
         "), run on " + plural(found.channels, "channel");
}

}  // namespace

std::string topology_table(const Topology& topology) {
  const ClusterSpec& spec = topology.spec();
  std::string fabric(name_of(spec.fabric.kind));
  std::ranges::replace(fabric, '_', ' ');
  std::string text = plural(spec.nodes, "node") + " (" + node_names(spec) + "), " +
                     plural(static_cast<std::int64_t>(topology.ranks()), "GPU") + " in use" +
                     (spec.nodes > 1 ? ", " + fabric : "") + '\n';
  text += device_lines(topology) + link_lines(topology) + '\n';
  if (!spec.degraded.empty()) {
    text += row("degraded", plural(static_cast<std::int64_t>(spec.degraded.size()), "link") +
                                " or device, as the file says");
  }
  if (topology.ranks() > 1) {
    SearchSpec search;
    search.sharp = spec.fabric.sharp;
    ChannelGraphs graphs = spec.graphs ? *spec.graphs : search_channels(topology, search);
    if (graphs.channels == 0) {
      search.gdr = spec.node.gpu_direct;
      count_channels(graphs, topology.node(), spec.node, topology.job_nodes(), search);
    }
    text += row("channels", channels_text(graphs));
  }
  if (topology.spec().nodes > 1 || topology.spec().node.gpus > 1) {
    text += row("bisection", readable_rate(bisection_bandwidth(topology)) +
                                 ", one direction, between the halves of the " +
                                 (spec.nodes > 1 ? "nodes" : "node"));
  }
  return text;
}

// ---- paceline presets ----

namespace {

std::string gpu_lines() {
  std::string text = "GPUs (\"gpu\")\n";
  for (const std::string& name : gpu_preset_names()) {
    const GpuSpec gpu = gpu_preset(name);
    text += "  " + padded_right(name, 18) +
            padded(fixed(static_cast<double>(gpu.memory.value) / (1 << 30), 0), 4) + " GiB at " +
            readable_rate(gpu.memory_bandwidth) + ", TFLOP/s:";
    for (const auto& [precision_name, precision] : kNames<Precision>) {
      const FlopsPerSecond peak = gpu.peak[static_cast<std::size_t>(precision)];
      if (peak.value > 0) {
        text += ' ' + std::string(precision_name) + ' ' + number_text(peak.value / 1e12);
      }
    }
    text += '\n';
  }
  return text;
}

// "8 NICs at 200 Gb/s", "8 NICs at 2 x 100 Gb/s".
std::string nics_text(const NodeSpec& node) {
  constexpr double kGigabits = 8e-9;
  const std::string ports = node.nic_ports == 1 ? "" : std::to_string(node.nic_ports) + " x ";
  return plural(node.nics, "NIC") + " at " + ports +
         number_text(node.nic_bandwidth.value / node.nic_ports * kGigabits) + " Gb/s";
}

std::string node_lines(const std::string& heading, const std::vector<std::string>& names) {
  std::string text = '\n' + heading + '\n';
  for (const std::string& name : names) {
    const NodeSpec node = node_preset(name);
    text += "  " + padded_right(name, 20) + padded(std::to_string(node.gpus), 3) + " x " +
            padded_right(node.gpu, 16);
    text += node.wiring == NvlinkWiring::none
                ? "PCIe at " + readable_rate(node.pcie_bandwidth)
                : (node.wiring == NvlinkWiring::mesh ? "NVLink mesh at " : "NVSwitch at ") +
                      readable_rate(node.nvlink_bandwidth) +
                      (node.wiring == NvlinkWiring::mesh ? " a link" : " a GPU");
    text += ", " + nics_text(node) + '\n';
  }
  return text;
}

std::string model_lines() {
  std::string text = "\nModels (\"model\")\n";
  for (const std::string& name : model_names()) {
    const Model model = builtin_model(name);
    text += "  " + padded_right(name, 24) +
            padded(readable_large(static_cast<double>(parameter_count(model))), 9) + " parameters, " +
            padded(readable_large(static_cast<double>(forward_macs(model))), 9) + " MACs per sample (" +
            model.input + ")\n";
  }
  return text;
}

std::string cluster_lines() {
  std::string text = "\nClusters (\"cluster\")\n";
  for (const std::string& name : cluster_names()) {
    const ClusterSpec cluster = load_cluster(name);
    std::string fabric(name_of(cluster.fabric.kind));
    std::ranges::replace(fabric, '_', ' ');
    text += "  " + padded_right(name, 18) + plural(cluster.nodes, "node") + " (" + cluster.node.name + "), " +
            plural(std::int64_t{cluster.nodes} * cluster.gpus_per_node, "GPU") + ", " + fabric + '\n';
  }
  return text;
}

}  // namespace

std::string presets_table() {
  return gpu_lines() +
         node_lines("Nodes (\"node\", and \"cluster\" for one of them): machines", machine_preset_names()) +
         node_lines("Nodes (likewise): as clouds rent them", cloud_preset_names()) + model_lines() +
         cluster_lines();
}

}  // namespace paceline
