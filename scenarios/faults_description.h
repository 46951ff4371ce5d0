// What "faults" of a scenario may say; see description.h.
#pragma once

#include "scenarios/faults.h"
#include "scenarios/limits.h"

namespace paceline {

struct Spot;
struct ScenarioFile;
// What faults, cluster and training mean together: reads the trace, throws InputError where they clash (faults.cpp).
void settle_faults(ScenarioFile&, const Spot&);

inline constexpr double kMostCampaign = 10 * 31557600.0;  // ten years
inline constexpr Limits kCampaign = between(1e-6, kMostCampaign);
inline constexpr Limits kRestartPhase = between(0, 1e6);
inline constexpr Limits kLife = between(1, 31557600.0 * 1e6);  // a million years

template <class V>
void describe(V& v, FailureSpec& s) {
  v.key("of", s.of, any(),
        "What fails: each of them by itself. switch: the leaf switches; software: the whole job.",
        required());
  v.key(
      "name", s.name, text(100, 0),
      "What to call it, in the page and in a trace; its draws are addressed by it. Left out: as `of` says.");
  v.key("mtbf", s.mtbf, kLife.absent_at_zero(),
        "Mean time between failures of one of them; left out: only a trace says when they fail.");
  v.key("distribution", s.distribution, any(), "Of the time from a repair to the next failure.");
  v.key("takes", s.takes, any(),
        "What is gone with it: a process, which starts again where it was; the node, until it is repaired; "
        "all nodes of the leaf. Left out: a switch takes its leaf, software a process, all others their "
        "node.");
  v.key("noticed_by", s.noticed_by, any(),
        "exit: the agent sees the process end; keep_alive: the rendezvous misses the node; timeout: a "
        "collective hangs. Left out: exit where a process is gone, else keep_alive.");
  v.key("repair", s.repair, kCampaign.absent_at_zero(),
        "Until the node, or the nodes of the leaf, are there again. Required where they are gone.");
}

template <class V>
void describe(V& v, FailureEvent& s) {
  v.key("time", s.time, between(0, kMostCampaign), "When, from the campaign's begin.", required());
  v.key("what", s.what, text(100), "The name of one of the failures.", required());
  v.key("which", s.which, between(0, 1e9), "Which part, counted from 0.");
}

template <class V>
void describe(V& v, SlowNodes& s) {
  v.key("every", s.every, kLife, "Mean time until a node becomes slow, exponential, of each node.",
        required());
  v.key("lasts", s.lasts, kCampaign, "How long it stays slow.", required());
  v.key("factor", s.factor, between(1, 1000), "Meanwhile its kernels take this many times as long.",
        required());
}

template <class V>
void describe(V& v, LinkFlaps& s) {
  v.key("every", s.every, kLife, "Mean time until a NIC's link of a node flaps, exponential, of each node.",
        required());
  v.key("lasts", s.lasts, kCampaign, "How long the flap lasts.", required());
  v.key("bandwidth_factor", s.bandwidth_factor, between(0, 1),
        "What is left of the bandwidth meanwhile. 0: steps stand, or fail where that is longer than "
        "collectives wait. Beside a given `step`: 0 alone.",
        required());
}

template <class V>
void describe(V& v, DetectionSpec& s) {
  v.key("monitor_interval", s.monitor_interval, kRestartPhase,
        "Until an agent sees that a process has ended (torchrun --monitor-interval).");
  v.key("keep_alive", s.keep_alive, kRestartPhase, "Between two signs of life of a node in the rendezvous.");
  v.key("keep_alives", s.keep_alives, between(1, 1000), "Missed ones after which a node is gone.");
  v.key("collective_timeout", s.collective_timeout, kRestartPhase,
        "After which a collective has failed, from when it was enqueued.");
  v.key("watchdog", s.watchdog, kRestartPhase, "Between two looks of NCCL's watchdog in PyTorch.");
}

template <class V>
void describe(V& v, RestartSpec& s) {
  v.key("max_restarts", s.max_restarts, between(0, 1e9),
        "The job ends with the failure after so many (torchrun --max-restarts, whose default is 0); left "
        "out: never.");
  v.key("stop", s.stop, kRestartPhase, "Until all processes that are left have ended.");
  v.key("rendezvous", s.rendezvous, kRestartPhase, "Until all agents have met, once all nodes are there.");
  v.key("last_call", s.last_call, kRestartPhase,
        "What a rendezvous waits for more nodes where fewer are enough.");
  v.key(
      "join_timeout", s.join_timeout, between(0, kMostCampaign),
      "A rendezvous that waits longer for nodes has failed: the job is submitted again when they are there.");
  v.key("resubmit", s.resubmit, kRestartPhase, "What that takes.");
  v.key("start", s.start, kRestartPhase, "Start of the processes, with their imports.");
  v.key("initialisation", s.initialisation, kRestartPhase, "Of the process group and NCCL.");
  v.key("replacement", s.replacement, kRestartPhase,
        "Until a spare, or a node that comes from repair, can join.");
  v.key("load", s.load, kRestartPhase,
        "Load of a checkpoint from storage; left out: its bytes over its routes.");
}

template <class V>
void describe(V& v, CheckpointSpec& s) {
  v.key("kind", s.kind, any(),
        "sync: training stands until it is stored; async: until it is in the hosts' memory, the upload runs "
        "beside; in_memory: it stays there, and on a peer; two_level: both.");
  v.key("interval", s.interval, any(),
        "Training between two: a time, or steps; or a rule: Young's, Daly's, or the best by search over the "
        "expected wall time.");
  v.key("bytes", s.bytes, kSize.absent_at_zero(),
        "Of one checkpoint; left out: parameters and optimizer state.");
  v.key("gpu_bandwidth", s.gpu_bandwidth, kBandwidth.absent_at_zero(),
        "From a GPU to its host; left out: the node's PCIe bandwidth.");
  v.key("node_bandwidth", s.node_bandwidth, kBandwidth.absent_at_zero(),
        "From a node to storage, or to its peer; left out: that of its NICs.");
  v.key("storage_bandwidth", s.storage_bandwidth, kBandwidth.absent_at_zero(),
        "Of the storage, for all nodes together.");
  v.key("stall", s.stall, kRestartPhase, "What training stands for; left out: the bytes over their routes.");
  const auto of = [&](bool has, const char* whose) {
    return has || v.lists_all()
               ? Need{}
               : absent("the kind is " + std::string(name_of(s.kind)) + ": it is an option of " + whose);
  };
  const bool both = s.kind == CheckpointKind::two_level;
  v.key("upload", s.upload, kRestartPhase, "async, two_level: from memory to storage; left out: likewise.",
        of(both || s.kind == CheckpointKind::async, "async and two_level"));
  v.key("storage_every", s.storage_every, between(1, 1e6),
        "two_level: each so many of memory's are stored as well.", of(both, "two_level"));
}

template <class V>
void describe(V& v, ElasticSpec& s) {
  v.key("min_nodes", s.min_nodes, between(1, 1e6), "The job goes on with so many nodes or more.", required());
  v.key("keep_batch", s.keep_batch, any(),
        "Fewer nodes share the batch of all: with accumulation in more passes, else in larger ones, either "
        "rounded up; "
        "false: each GPU keeps its own, and a step has fewer samples.");
}

template <class V>
void describe(V& v, FaultsSpec& s) {
  v.key("length", s.length, kCampaign.absent_at_zero(),
        "How long the campaign runs; left out: until the work is done, at most ten years.");
  v.key("steps", s.steps, between(1, 1e12).absent_at_zero(), "The work: so many steps.");
  v.key("samples", s.samples, between(1, 1e15).absent_at_zero(), "The work: so many samples.");
  v.key("step", s.step, between(1e-6, 1e5), "What a step takes, instead of simulating it.");
  v.key("first_step", s.first_step, between(1e-6, 1e5),
        "With `step`: the first one after a start; left out: as long.");
  v.key("seeds", s.seeds, between(1, 100'000), "How many campaigns, with the run's seed and those after it.");
  v.key("goal", s.goal, above(0, 0.9999),
        "A share of goodput: which intervals and restarts reach it is told.");
  v.key("spares", s.spares, between(0, 1e6), "Nodes that stand by.");
  v.key("elastic", s.elastic, any(), "The job goes on with fewer nodes; left out: it waits for all.");
  v.key("failures", s.failures, list(0, 100), "What fails.");
  v.key("failure_trace", s.trace, text(4000, 0),
        "A CSV file with the columns time (\"3.5 h\"), what (a failure's name), which (from 0), in order of "
        "time; relative to this file.");
  v.key("events", s.events, list(0, 100'000),
        "What `failure_trace` would say, written out as a result has it; give one of the two or none.");
  v.key("slow_nodes", s.slow_nodes, list(0, 4), "Nodes that are slow for a while.");
  v.key("link_flaps", s.link_flaps, list(0, 4), "Links that have less bandwidth for a while.");
  v.key("detection", s.detection, any(), "How long failures go unnoticed.");
  v.key("restart", s.restart, any(), "How the job comes up again, as torchrun does it.");
  v.key("checkpoint", s.checkpoint, any(), "How the training is saved.");
}

}  // namespace paceline
