#include "scenarios/scenario.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/unknown_name.h"
#include "core/version.h"
#include "scenarios/file_kind.h"
#include "scenarios/files.h"
#include "scenarios/json.h"
#include "scenarios/named_json.h"
#include "scenarios/reader.h"
#include "scenarios/writer.h"
#include "sim/collective/nccl_words.h"
#include "sim/strategy/horovod.h"
#include "sim/strategy/parameter_server.h"
#include "sim/strategy/pytorch.h"
#include "sim/strategy/sharding.h"
#include "topology/nccl_xml.h"
#include "topology/topology.h"

namespace paceline {
namespace {

ScenarioFile read_scenario_file(const Json& json, const Spot& spot) {
  ScenarioFile file;
  if (const Json* inner = scenario_in_result(json)) {
    read_object(*inner, file, below(spot, "scenario"));
  } else {
    read_object(json, file, spot);
  }
  file.scenario.cluster = file.cluster.spec;
  file.scenario.gpu = file.cluster.gpu;
  file.scenario.gpus = file.cluster.gpus;
  return file;
}

Cluster named_cluster(const std::string& name, const Spot& spot) {
  return read_named_json(cluster_json(name, spot), [](const Json& json, const Spot& inner) {
    Cluster cluster;
    read(json, cluster, any(), inner);
    return cluster;
  });
}

// A struct that a name may stand for.
template <class T>
void read_named(const Json& json, T& value, const char* what, const Spot& spot) {
  if (const auto* name = json.as<std::string>()) {
    try {
      value = named_value(static_cast<const T*>(nullptr), in_short(*name));
    } catch (const InputError& error) {
      throw error.at(spot.place);
    }
  } else if (json.as<Json::Object>() == nullptr) {
    fail_at(spot, what, shown(json));
  } else {
    read_object(json, value, spot);
  }
}

NodeSpec node_of_topology_file(const Json& json, const Spot& spot) {
  NodeOfTopologyFile form;
  read_object(json, form, spot);
  const auto [text, path] = text_in_file(form.nccl_topology, below(spot, "nccl_topology"));
  NodeSpec node = read_nccl_topology(text, path);
  const auto replace = [](auto& value, const auto& given) {
    if (given != std::remove_cvref_t<decltype(given)>{}) {
      value = given;
    }
  };
  replace(node.name, form.node.name);
  node.name = in_short(node.name);  // a file's name may be long
  replace(node.gpu, form.node.gpu);
  replace(node.compute_capability, form.node.compute_capability);
  replace(node.nic_latency, form.node.nic_latency);
  replace(node.p2p_level, form.node.p2p_level);
  return node;
}

}  // namespace

void read(const Json& json, GpuSpec& gpu, const Limits&, const Spot& spot) {
  read_named(json, gpu, "the name of a GPU or an object", spot);
}

void read(const Json& json, std::vector<GpuKind>& kinds, const Limits& limits, const Spot& spot) {
  if (json.as<Json::Array>() == nullptr) {
    fail_at(spot, "a list of kinds of GPU (how many there are: `nodes` and `gpus_per_node`)", shown(json));
  }
  read<GpuKind>(json, kinds, limits, spot);
}

void read(const Json& json, NodeSpec& node, const Limits&, const Spot& spot) {
  if (json.find("nccl_topology") != nullptr) {
    node = node_of_topology_file(json, spot);
  } else {
    read_named(json, node, "the name of a node or an object", spot);
  }
}

void read(const Json& json, Cluster& cluster, const Limits&, const Spot& spot) {
  if (const auto* name = json.as<std::string>()) {
    cluster = named_cluster(*name, spot);
  } else if (json.as<Json::Object>() == nullptr) {
    fail_at(spot, "the name of a cluster or an object", shown(json));
  } else {
    read_object(json, cluster, spot);
  }
}

namespace {

// Every rank that a scenario names: of the job, and for traffic of any node.
void check_ranks(const Scenario& scenario, const ClusterSpec& cluster, const Spot& spot) {
  const std::int64_t own = cluster.job_nodes > 0 ? cluster.job_nodes : cluster.nodes;
  std::int64_t ranks = own * cluster.gpus_per_node;
  const auto check = [&](std::int64_t rank, const Spot& place) {
    if (rank < 0 || rank >= ranks) {
      fail_at(place, "a rank from 0 to " + std::to_string(ranks - 1), std::to_string(rank));
    }
  };
  const Spot variability = below(spot, "variability"), slow = below(variability, "slow_gpus");
  for (std::size_t i = 0; i < scenario.variability.spared_gpus.size(); ++i) {
    check(scenario.variability.spared_gpus[i], below(below(variability, "spared_gpus"), i));
  }
  for (std::size_t i = 0; i < scenario.variability.slow_gpus.size(); ++i) {
    const std::vector<std::int64_t>& named = scenario.variability.slow_gpus[i].ranks;
    for (std::size_t k = 0; k < named.size(); ++k) {
      check(named[k], below(below(below(slow, i), "ranks"), k));
    }
  }
  ranks = std::int64_t{cluster.nodes} * cluster.gpus_per_node;
  for (std::size_t i = 0; i < scenario.background.size(); ++i) {
    const BackgroundFlow& flow = scenario.background[i];
    const Spot place = below(below(spot, "background"), i);
    check(flow.from, below(place, "from"));
    check(flow.to, below(place, "to"));
    if (flow.from == flow.to) {
      fail_at(place, "two different ranks", std::to_string(flow.from) + " twice");
    }
  }
  for (std::size_t i = 0; i < scenario.other_jobs.size(); ++i) {
    const OtherJob& job = scenario.other_jobs[i];
    const Spot place = below(below(spot, "other_jobs"), i);
    if (own >= cluster.nodes) {
      fail_at(below(below(spot, "cluster"), "job_nodes"), "fewer nodes than the cluster's, beside other_jobs",
              "all " + std::to_string(cluster.nodes));
    }
    if (job.first_node < own || job.first_node + job.nodes > cluster.nodes) {
      fail_at(place,
              "nodes " + std::to_string(own) + " to " + std::to_string(cluster.nodes - 1) +
                  ", which this job leaves",
              "nodes " + std::to_string(job.first_node) + " to " +
                  std::to_string(job.first_node + job.nodes - 1));
    }
  }
}

void check_collective(const CollectiveSpec& spec, const Spot& spot) {
  require_choice(spec, {.nccl = below(spot, "nccl").place,
                        .algorithm = below(spot, "algorithm").place,
                        .protocol = below(spot, "protocol").place});
  require_channels(spec, spot);
}

// Of a training that recomputes, or a rate.
std::string no_blocks(TrainingSpec training, const Model& model) {
  const int every = std::exchange(training.recompute_every, 1);
  return recomputed_units(training, model).empty()
             ? "expected activation_checkpointing none for " + model.name +
                   ", whose layers' names tell no blocks (layers.7.mlp), found " +
                   std::string(name_of(training.activation_checkpointing))
             : "expected a recompute_every of at most as many as " + model.name + " has blocks, found " +
                   std::to_string(every);
}

// Where a rate was measured with recomputation, and in how many blocks.
void require_blocks(const Scenario& scenario, const MeasuredRate& rate, const Spot& measured) {
  const ActivationCheckpointing said_kind =
      rate.activation_checkpointing.value_or(ActivationCheckpointing::full);
  if (rate.recompute_every > 1 && said_kind != ActivationCheckpointing::full) {
    throw InputError("expected activation_checkpointing full beside a rate's recompute_every, found " +
                         std::string(name_of(said_kind)),
                     measured.place);
  }
  MeasuredRate pinned = rate;
  pin_checkpointing(pinned, scenario.training);
  TrainingSpec training = scenario.training;
  training.activation_checkpointing = *pinned.activation_checkpointing;
  training.recompute_every = pinned.recompute_every;
  const bool said = rate.recompute_every > 1 || rate.activation_checkpointing.has_value();
  if (said && recomputes(training) && recomputed_units(training, scenario.model).empty()) {
    throw InputError(no_blocks(training, scenario.model), measured.place);
  }
}

// From tokens to samples.
void settle_rates(const Scenario& scenario, std::vector<MeasuredRate>& rates, const Spot& measured) {
  const std::int64_t tokens = scenario.model.tokens;
  for (MeasuredRate& rate : rates) {
    if (rate.of_tokens && tokens == 0) {
      throw InputError("expected a rate in samples/s, as a sample of " + scenario.model.name +
                           " is no tokens (" +
                           (scenario.model.input.empty() ? "its `input` isn't told" : scenario.model.input) +
                           "), found one in tokens/s",
                       measured.place);
    }
    rate.rate = rate.of_tokens ? rate.rate * (1.0 / static_cast<double>(tokens)) : rate.rate;
    rate.of_tokens = false;
    require_blocks(scenario, rate, measured);
  }
}

// Of the kernels; and fp8, in memory or on the wire, wants a GPU that has it (NCCL adds it from 2.24 and compute
// capability 9.0 on).
void check_precisions(const TrainingSpec& training, const GpuSpec& gpu, const Spot& place) {
  const auto check = [&](Precision precision, const Spot& spot) {
    try {
      require_precision(gpu, precision);
    } catch (const InputError& error) {
      throw error.at(spot.place);
    }
  };
  const auto check_kept = [&](std::optional<Precision> format, const Spot& spot) {
    if (format == Precision::fp8) {
      check(*format, spot);
    }
  };
  check(training.precision, below(place, "precision"));
  check_kept(training.gradients, below(place, "gradients"));
  check_kept(training.parameters, below(place, "parameters"));
  if (fully_shards(training)) {
    check_kept(training.fsdp.param_precision, below(below(place, "fsdp"), "param_precision"));
    check_kept(training.fsdp.reduce_precision, below(below(place, "fsdp"), "reduce_precision"));
  } else {
    check_kept(training.ddp.wire, below(below(place, "ddp"), "wire"));
  }
}

// Kinds of GPU, and batches of their own.
void settle_mixed(ScenarioFile& file, const Spot& spot) {
  Scenario& scenario = file.scenario;
  const TrainingSpec& training = scenario.training;
  const Spot place = below(spot, "training"), kinds = below(below(spot, "cluster"), "gpus");
  for (std::size_t k = 0; k < file.cluster.gpus.size(); ++k) {
    GpuKind& kind = file.cluster.gpus[k];
    settle_rates(scenario, kind.measured, below(below(kinds, k), "measured"));
    TrainingSpec alone = training;
    alone.measured = kind.measured;
    require_distinct_batches(alone, below(kinds, k));
    check_precisions(training, kind.gpu, place);
    if (kind.measured.empty() != file.cluster.gpus.front().measured.empty()) {
      fail_at(below(kinds, k), "each kind of GPU with `measured`, or none", "some");
    }
  }
  if (!file.cluster.gpus.empty() && !training.measured.empty()) {
    fail_at(below(place, "measured"), "the rate of each kind of GPU in /cluster/gpus", "one for all kinds");
  }
  const bool apart = !training.batches.empty() || training.balance.has_value();
  if (!training.batches.empty() && training.balance) {
    throw InputError("expected either batches or balance, found both", place.place);
  }
  const std::string unlike = training.balance             ? "where `balance` gives GPUs batches of their own"
                             : apart                      ? "where GPUs have batches of their own"
                             : !file.cluster.gpus.empty() ? "where there are several kinds of GPU"
                                                          : "";
  if (training.input && apart) {
    fail_at(below(place, "input"), "none " + unlike, "some");
  }
  if (!training.layer_times.empty() && !unlike.empty()) {
    fail_at(below(place, "layer_times"), "none " + unlike, "some");
  }
  if (apart && training.strategy == StrategyKind::data_parallel) {
    throw InputError(
        "expected equal batches with the strategy data_parallel, which cuts a batch into equal parts",
        below(place, training.balance ? "balance" : "batches").place);
  }
  if (training.balance && training.strategy == StrategyKind::parameter_server) {
    fail_at(below(place, "balance"), "a strategy whose GPUs keep step",
            in_quotes(name_of(training.strategy)));
  }
  if (training.balance && training.strategy == StrategyKind::local_sgd &&
      training.balance->window % training.local_sgd.period != 0) {
    fail_at(below(below(place, "balance"), "window"),
            "whole periods of local_sgd's " + std::to_string(training.local_sgd.period) + " steps",
            std::to_string(training.balance->window));
  }
  const std::int64_t ranks = gpus_of_job(file.cluster.spec);
  const Spot batches = below(place, "batches");
  if (!training.batches.empty() && static_cast<std::int64_t>(training.batches.size()) != ranks) {
    fail_at(batches, "one for each of " + std::to_string(ranks) + " GPUs",
            std::to_string(training.batches.size()));
  }
  const std::int64_t sum = std::accumulate(training.batches.begin(), training.batches.end(), std::int64_t{0});
  if (!training.batches.empty() && sum != ranks * training.batch_per_gpu) {
    fail_at(
        batches,
        "as many samples together as batch_per_gpu says, " + std::to_string(ranks * training.batch_per_gpu),
        std::to_string(sum));
  }
}

}  // namespace

void require_channels(const CollectiveSpec& spec, const Spot& spot) {
  if (spec.max_channels > 0 && spec.min_channels > spec.max_channels) {
    fail_at(below(spot, "min_channels"), "at most max_channels, " + std::to_string(spec.max_channels),
            std::to_string(spec.min_channels));
  }
}

void require_ascending(const std::vector<Correction>& corrections, const Spot& spot) {
  std::map<CollectiveKind, Bytes> last;
  for (std::size_t i = 0; i < corrections.size(); ++i) {
    const auto [at, first] = last.try_emplace(corrections[i].kind, corrections[i].bytes);
    if (!first && corrections[i].bytes <= at->second) {
      fail_at(below(below(below(spot, "corrections"), i), "bytes"),
              "more than the " + std::to_string(at->second.value) + " bytes of this collective before",
              std::to_string(corrections[i].bytes.value));
    }
    at->second = corrections[i].bytes;
  }
}

void settle_pytorch(TrainingSpec& training, const Spot& spot) {
  try {
    training.collective.nccl = nccl_of(pytorch_version(training.pytorch));
  } catch (const InputError& error) {
    throw error.at(below(spot, "pytorch").place);
  }
}

void settle_scenario(ScenarioFile& file, const Spot& spot) {
  constexpr std::int64_t kMostLayers = 1'000'000, kMostActivations = 1'000'000'000'000'000;
  const Scenario& scenario = file.scenario;
  const TrainingSpec& training = scenario.training;
  const Spot place = below(spot, "training");
  settle_rates(scenario, file.scenario.training.measured, below(place, "measured"));
  settle_mixed(file, spot);
  file.scenario.gpus = file.cluster.gpus;
  const std::size_t layers = scenario.model.layers.size();
  if (!training.layer_times.empty() && training.layer_times.size() != layers) {
    fail_at(below(place, "layer_times"),
            "one entry for each of the " + std::to_string(layers) + " layers of the model",
            std::to_string(training.layer_times.size()));
  }
  if (static_cast<std::int64_t>(layers) * training.accumulation > kMostLayers) {
    fail_at(below(place, "accumulation"),
            "at most " + std::to_string(kMostLayers) + " layers in all passes of a step",
            std::to_string(static_cast<std::int64_t>(layers) * training.accumulation));
  }
  for (const Layer& layer : scenario.model.layers) {
    if (layer.output_elements > kMostActivations / training.batch_per_gpu) {
      fail_at(below(place, "batch_per_gpu"),
              "a batch for which layer " + layer.name + " writes at most " +
                  std::to_string(kMostActivations) + " elements",
              std::to_string(training.batch_per_gpu));
    }
  }
  try {
    static_cast<void>(horovod_rules(training.horovod.version));
  } catch (const InputError& error) {
    throw error.at(below(below(place, "horovod"), "version").place);
  }
  if (training.recompute_every > 1 && training.activation_checkpointing != ActivationCheckpointing::full) {
    fail_at(below(place, "recompute_every"), "activation_checkpointing full beside it, or 1",
            std::to_string(training.recompute_every));
  }
  if (recomputes(training) && recomputed_units(training, scenario.model).empty()) {
    throw InputError(
        no_blocks(training, scenario.model),
        below(place, training.recompute_every > 1 ? "recompute_every" : "activation_checkpointing").place);
  }
  check_collective(training.collective, below(place, "collective"));
  check_precisions(training, file.cluster.gpu, place);
  check_ranks(scenario, file.cluster.spec, spot);
  if (scenario.faults) {
    settle_faults(file, below(spot, "faults"));
  }
}

Scenario parse_scenario(const std::string& json, const std::string& file_name, FileTexts* files) {
  try {
    const Spot spot{"", std::filesystem::path(file_name).parent_path().string(), 0, files};
    const Json given = parse_json(json);
    require_kind(given, {FileKind::scenario, FileKind::result});
    return read_scenario_file(given, spot).scenario;
  } catch (const InputError& error) {
    throw error.in_file(file_name);
  }
}

Scenario load_scenario(const std::string& path) { return parse_scenario(read_file(path), path); }

std::string remark_on_version(const std::string& text, const std::string& file_name) {
  try {
    const Json json = parse_json(text);
    const Json* version = scenario_in_result(json) == nullptr ? nullptr : json.find("model_version");
    const auto* number = version == nullptr ? nullptr : version->as<std::int64_t>();
    if (number == nullptr || *number == kModelVersion) {
      return {};
    }
    return "a result of model version " + std::to_string(*number) + ", this is model version " +
           std::to_string(kModelVersion) + ": its scenario may give other figures now";
  } catch (const InputError& error) {
    throw error.in_file(file_name);
  }
}

namespace {

ClusterSpec cluster_of_text(const std::string& text, FileTexts* files) {
  Cluster cluster;
  read(text.starts_with('{') ? parse_json(text) : Json(text), cluster, any(), Spot{"", "", 0, files});
  return cluster.spec;
}

}  // namespace

ClusterSpec load_cluster(const std::string& text) { return cluster_of_text(text, nullptr); }

ClusterInUse load_cluster_in_use(const std::string& text) {
  FileTexts files;  // a pipe can be read once
  ClusterInUse found{
      .cluster = cluster_of_text(text, &files), .collective = {}, .nccl_stated = false, .scenario = {}};
  if (text.starts_with('{') || files.known().entries.empty() || text.ends_with(".xml")) {
    return found;
  }
  const Json json = parse_json(files.text(text));
  if (const FileKind kind = kind_of(json); kind == FileKind::scenario || kind == FileKind::result) {
    const TrainingSpec training = parse_scenario(files.text(text), text, &files).training;
    found.collective = training.collective;
    found.nccl_stated = training.collective.nccl != nccl_of(pytorch_version(training.pytorch));
    found.scenario = text;
  }
  return found;
}

void require_like_nodes(const ClusterSpec& cluster) {
  if (!cluster.runs.empty()) {
    throw InputError(
        "expected nodes that are all alike, found several kinds, which only trainings are simulated on; to "
        "NCCL "
        "GPUs of other compute capabilities are other kinds of node",
        "/cluster/gpus");
  }
}

std::vector<std::string> model_names() { return builtin_names("models"); }
std::vector<std::string> cluster_names() { return builtin_names("clusters"); }

std::string preset_json(const std::string& name) {
  const std::vector<std::string> gpus = gpu_preset_names(), nodes = node_preset_names(),
                                 clusters = cluster_names(), models = model_names();
  const auto among = [&](const std::vector<std::string>& names) {
    return std::ranges::find(names, name) != names.end();
  };
  if (among(gpus)) {
    Json gpu = write(gpu_preset(name));
    auto& members = std::get<Json::Object>(gpu.value);
    members.insert(members.begin(), {"preset", name});  // its compute capability is no key
    return to_text(gpu);
  }
  if (among(nodes)) {
    return to_text(Json(Json::Object{{"node", write(node_preset(name))}}));
  }
  if (among(clusters)) {
    return to_text(cluster_json(name, {}).json);
  }
  if (among(models)) {
    return to_text(model_json(name, {}));
  }
  std::vector<std::string> known;
  for (const auto* const names : {&gpus, &nodes, &clusters, &models}) {
    known.insert(known.end(), names->begin(), names->end());
  }
  throw InputError(unknown_name("preset", in_short(name), known));
}

Json scenario_json(const Scenario& scenario) {
  Cluster cluster{scenario.cluster, scenario.gpu, scenario.gpus, {}, scenario.cluster.nodes};
  for (std::size_t k = 0; k < scenario.cluster.runs.size(); ++k) {
    cluster.gpus[k].node = scenario.cluster.runs[k].node;
  }
  return write(ScenarioFile{scenario, std::move(cluster)});
}

std::string to_json(const Scenario& scenario) { return to_text(scenario_json(scenario)); }

void pin_rates(Scenario& scenario) {
  TrainingSpec of_kind = scenario.training;
  scenario.training.measured = pinned_rates(of_kind);
  for (GpuKind& kind : scenario.gpus) {
    of_kind.measured = kind.measured;
    kind.measured = pinned_rates(of_kind);
  }
}

Scenario on_first_nodes(Scenario scenario, int nodes) {
  ClusterSpec& cluster = scenario.cluster;
  (cluster.job_nodes > 0 ? cluster.job_nodes : cluster.nodes) = nodes;
  const std::int64_t ranks = gpus_of_job(cluster);
  const auto absent = [&](std::int64_t rank) { return rank >= ranks; };
  for (SlowGpus& slow : scenario.variability.slow_gpus) {  // draws are addressed by their order: none goes
    std::erase_if(slow.ranks, absent);
  }
  std::erase_if(scenario.variability.spared_gpus, absent);
  if (scenario.training.ddp.join) {
    std::vector<std::int64_t>& batches = scenario.training.ddp.join->batches;
    batches.resize(std::min(batches.size(), static_cast<std::size_t>(ranks)));
  }
  if (cluster.job_nodes == 0) {
    std::erase_if(scenario.background,
                  [&](const BackgroundFlow& flow) { return absent(flow.from) || absent(flow.to); });
  }
  if (std::vector<DegradedLink> degraded = std::exchange(cluster.degraded, {}); !degraded.empty()) {
    ClusterSpec with_servers = cluster;  // which stand behind all others
    with_servers.nodes += static_cast<int>(server_nodes(scenario.training));
    const Topology topology = build_topology(with_servers);
    std::erase_if(degraded, [&](const DegradedLink& link) {
      const std::optional<DeviceId> from = topology.find_device(link.from);
      const std::optional<DeviceId> to = link.to ? topology.find_device(*link.to) : from;
      return !from || !to || (link.to && !topology.link_between(*from, *to));
    });
    cluster.degraded = std::move(degraded);
  }
  return scenario;
}

Scenario on_nodes_left(const Scenario& whole, int nodes) {
  const int all = nodes_of_job(whole.cluster);
  const std::optional<ElasticSpec>& elastic = whole.faults->elastic;
  Scenario s = on_first_nodes(whole, nodes);
  s.faults.reset();
  if (nodes < all && elastic && elastic->keep_batch) {
    pin_rates(s);
    TrainingSpec& training = s.training;
    const auto shared = [&](std::int64_t of_all) { return (of_all * all + nodes - 1) / nodes; };
    if (training.accumulation > 1) {
      training.accumulation = static_cast<int>(shared(training.accumulation));
    } else {
      training.batch_per_gpu = shared(training.batch_per_gpu);
    }
  }
  return s;
}

}  // namespace paceline
