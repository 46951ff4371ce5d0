// A scenario: the checked input of a prediction, read from JSON and written back into every result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/gpu.h"
#include "kernels/model.h"
#include "scenarios/faults.h"
#include "sim/training.h"
#include "topology/cluster_spec.h"

namespace paceline {

class FileTexts;  // files.h

// GPUs of one kind, on consecutive nodes.
struct GpuKind {
  int nodes = 1;
  GpuSpec gpu;
  std::vector<MeasuredRate> measured;  // of one of them: TrainingSpec::measured
  std::optional<NodeSpec> node{};      // in a file; then ClusterSpec::runs has it
};

struct Scenario {
  std::string description;
  ClusterSpec cluster;
  GpuSpec gpu;  // of every node: the node's, unless the scenario names another; of several kinds the first
  std::vector<GpuKind> gpus;  // where there are several kinds: all of the job's nodes, in order
  Model model;
  TrainingSpec training;
  VariabilitySpec variability;
  std::vector<BackgroundFlow> background;
  std::vector<OtherJob> other_jobs;
  RunSpec run;
  std::optional<FaultsSpec> faults;  // days of training beside the steps
};

// Reads and checks a scenario file. Throws InputError with the file and a place (JSON pointer, or line and
// column). With texts: files that it names are read once for all scenarios that are given these.
Scenario load_scenario(const std::string& path);
Scenario parse_scenario(const std::string& json, const std::string& file_name, FileTexts* = nullptr);
// What to say of a result of another model version; else empty. Throws InputError with the file where it is no JSON.
std::string remark_on_version(const std::string& json, const std::string& file_name);

// `text` is a node preset, a file of scenarios/clusters, the path of a JSON file that is a cluster or a
// scenario, or the JSON of a cluster itself, "{...}".
ClusterSpec load_cluster(const std::string& text);
// The same, and what a scenario or a result of that name says of the collectives on it; of anything else the defaults.
struct ClusterInUse {
  ClusterSpec cluster;
  CollectiveSpec collective;
  bool nccl_stated = false;  // other than what its PyTorch brings
  std::string scenario;      // the file; empty: it is none
};
ClusterInUse load_cluster_in_use(const std::string& text);
// Throws InputError where they differ.
void require_like_nodes(const ClusterSpec&);

// The names of scenarios/models and scenarios/clusters.
std::vector<std::string> model_names();
std::vector<std::string> cluster_names();
Model builtin_model(const std::string& name);
// A GPU, node, cluster or model of that name, in full: a GPU as a scenario says it, a node as a cluster's file, all
// else as its own file. Throws InputError, with the nearest name.
std::string preset_json(const std::string& name);

// Measured rates say what they were measured with: they hold whatever the training is changed to.
void pin_rates(Scenario&);

// The same on the first nodes of the job alone: what it says of GPUs and links that are not there any more is gone.
Scenario on_first_nodes(Scenario, int nodes);
// Likewise, as torchrun starts it when so many are left: without faults, and with what `keep_batch` gives the fullest
// GPU, more passes where it accumulates, else a larger batch. Requires: faults.
Scenario on_nodes_left(const Scenario&, int nodes);

// The JSON Schema (draft 2020-12) of a scenario file, from the same description that the reader uses.
std::string scenario_schema();

// The effective scenario: every value resolved and written out; parse_scenario of it is the same scenario.
std::string to_json(const Scenario&);

}  // namespace paceline
