// What a scenario file may say: one description per struct, for reading, writing and the schema alike.
//
// describe(v, s) tells a visitor v every key of struct s:
//   v.key(name, member, limits, one line of documentation, need)
//   v.preset(key, s, ...)    s may start from a named preset; true where it does (or could)
//   v.settle(f)              what follows from what was read; f(spot) runs in the reader alone
//   v.lists_all()            every key is asked for, whatever s holds
// Visitors: KeyNames, Reader (reader.h), Writer (writer.h), SchemaWriter (schema_writer.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "kernels/gpu.h"
#include "scenarios/cluster_description.h"
#include "scenarios/faults_description.h"
#include "scenarios/limits.h"
#include "scenarios/model_description.h"
#include "scenarios/scenario.h"
#include "scenarios/step_spreads.h"
#include "scenarios/training_description.h"
#include "sim/training.h"
#include "topology/topology.h"

namespace paceline {

class FileTexts;  // files.h

// Where the reader is: a JSON pointer, and what relative paths in this file start from.
struct Spot {
  std::string place;
  std::string folder;
  int files_above = 0;         // files that named this one
  FileTexts* files = nullptr;  // what was read before is taken from here; none: files are read anew
};

// The whole file; `cluster` stands for the scenario's cluster and gpu.
struct ScenarioFile {
  Scenario scenario;
  Cluster cluster;
};

// What the parts mean together: fills in what follows, throws InputError where they clash.
void settle_scenario(ScenarioFile&, const Spot&);

template <class V>
void describe(V& v, SlowGpus& s) {
  v.key("ranks", s.ranks, between(0, kMostRanks - 1).length(0, 1'000'000),
        "The ranks of the slow GPUs. Give either `ranks` or `fraction`.");
  v.key("fraction", s.fraction, between(0, 1), "The probability that a GPU is slow, drawn for each of them.");
  v.key("factor", s.factor, kFactor, "Their kernels take this many times as long: 1.15 is 15 % slower.",
        required());
  v.settle([&](const Spot& spot) {
    if (s.ranks.empty() != s.fraction.has_value()) {
      throw InputError(
          "expected either ranks or fraction, found " + std::string(s.ranks.empty() ? "neither" : "both"),
          spot.place);
    }
  });
}

template <class V>
void describe(V& v, TransientSlowdown& s) {
  v.key("probability", s.probability, between(0, 1),
        "The probability that a GPU becomes slow in a step, drawn for each GPU and step.", required());
  v.key("length", s.length, between(1, 1'000'000), "Steps that it stays slow.");
  v.key("factor", s.factor, kFactor, "Meanwhile its kernels take this many times as long.", required());
}

template <class V>
void describe(V& v, DelaySpec& s) {
  v.key("per_step", s.per_step, kDuration, "What every step takes longer where there are several GPUs.");
  v.key("per_doubling", s.per_doubling, between(-0.1, 1),
        "Layers take so much longer for each doubling of the GPUs; with accumulation less, by its root.");
}

template <class V>
void describe(V& v, VariabilitySpec& s) {
  v.key("per_operation", s.per_operation, any(), "Variation of every kernel's time, drawn for each kernel.");
  v.key("per_iteration", s.per_iteration, any(),
        "Variation of all kernels of a GPU together: one draw for each GPU and step.");
  v.key("per_step", s.per_step, any(),
        "Variation of all kernels of all GPUs together: one draw for each step, whose work differs from the "
        "next one's.");
  v.key("slow_gpus", s.slow_gpus, list(0, 1000), "GPUs that are always slow.");
  v.key("transient", s.transient, list(0, 100), "GPUs that become slow for a while.");
  v.key("spared_gpus", s.spared_gpus, between(0, kMostRanks - 1).length(0, 100'000),
        "Ranks that stay as fast as the others, whatever slow_gpus and transient say: what if this GPU were "
        "healthy?");
  v.key("delays", s.delays, any(),
        "What steps of several GPUs lose beside communication, the same for all; as `calibrate fit` finds "
        "it. Left out: none, or the profile's.");
}

template <class V>
void describe(V& v, BackgroundFlow& s) {
  const Limits rank = between(0, kMostRanks - 1);
  v.key("from", s.from, rank, "The rank whose GPU sends.", required());
  v.key("to", s.to, rank, "The rank whose GPU receives.", required());
  v.key("rate", s.rate, kBandwidth, "Its bandwidth; less where its fair share of a link is less.",
        required());
  v.key("nic", s.nic, between(0, 255), "Through which NIC of both nodes, counted from 0 and round.");
}

template <class V>
void describe(V& v, OtherJob& s) {
  v.key("first_node", s.first_node, between(0, kMostRanks),
        "The first of its nodes, which are among those that job_nodes leaves.", required());
  v.key("nodes", s.nodes, between(2, 100'000), "How many nodes it has, from there on.", required());
  v.key("rate", s.rate, kBandwidth,
        "What each of its NICs sends to the next node's; less where its fair share of a link is less.",
        required());
}

template <class V>
void describe(V& v, RunSpec& s) {
  v.key("iterations", s.iterations, between(1, 100'000),
        "Steps to simulate, after one for warm-up; with local_sgd rounded up to whole periods.");
  v.key("seed", s.seed, between(0, 18446744073709551615.0),
        "Seed of all random draws: the same seed, the same run.");
  v.key("engine", s.engine, any(),
        "vector: fast, refused where it isn't exact; event: every transfer is an event; auto: vector where "
        "exact.");
}

template <class V>
void describe(V& v, ScenarioFile& s) {
  v.key("description", s.scenario.description, text(10'000, 0), "The question that the scenario answers.");
  v.key("cluster", s.cluster, any(),
        "The machines: the name of a node preset or of a built-in cluster, a file, or their parts.",
        required());
  v.key("model", s.scenario.model, any(),
        "What is trained: a name (see `paceline presets`), a file, or its layers.", required());
  v.key("training", s.scenario.training, any(), "How it is trained.", required());
  v.key("variability", s.scenario.variability, any(), "What makes one GPU slower than another.");
  v.key("background", s.scenario.background, list(0, 10'000),
        "Traffic of others: endless flows between two GPUs.");
  v.key("other_jobs", s.scenario.other_jobs, list(0, 100),
        "Jobs on other nodes of the same fabric that reduce all the time.");
  v.key("run", s.scenario.run, any(), "The simulation itself.");
  v.key("faults", s.scenario.faults, any(), "Days of training with failures: what survives of the steps.");
  v.settle([&](const Spot& spot) { settle_scenario(s, spot); });
}

// The preset that a name stands for, by the type that is expected.
inline GpuSpec named_value(const GpuSpec*, const std::string& name) { return gpu_preset(name); }
inline NodeSpec named_value(const NodeSpec*, const std::string& name) { return node_preset(name); }
inline Distribution named_value(const Distribution*, const std::string& name) { return step_spread(name); }
inline std::vector<std::string> known_names(const Distribution*) { return step_spread_names(); }
inline std::vector<std::string> known_names(const GpuSpec*) { return gpu_preset_names(); }
inline std::vector<std::string> known_names(const NodeSpec*) { return node_preset_names(); }

// Collects a struct's keys.
class KeyNames {
 public:
  template <class T>
  void key(const char* name, const T&, const Limits&, const char*, const Need& = {}) {
    names_.emplace_back(name);
  }
  template <class T>
  bool preset(const T&, const char*) {
    names_.emplace_back("preset");
    return true;
  }
  template <class F>
  void settle(const F&) {}
  bool lists_all() const { return true; }
  std::vector<std::string> take() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
};

}  // namespace paceline
