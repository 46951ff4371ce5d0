// The scenario of a point of a study.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "scenarios/limits.h"
#include "scenarios/reader.h"
#include "scenarios/writer.h"
#include "studies/edit.h"
#include "studies/study.h"

namespace paceline {
namespace {

constexpr const char *kBatch = "/training/batch_per_gpu", *kMeasured = "/training/measured",
                     *kLayerTimes = "/training/layer_times";

// Nodes, or GPUs of one node; an axis "gpus" comes last, when it is known what a node is. Where other jobs
// have nodes too, those of this job.
void set_gpus(Json& scenario, std::int64_t gpus, const StudyAxis& axis, const Study& study) {
  const std::string folder = std::filesystem::path(study.file).parent_path().string();
  const Json* json = scenario.find("cluster");
  if (json == nullptr) {
    return;  // the scenario's reader will miss it
  }
  Cluster cluster;
  read(*json, cluster, any(), {"/cluster", folder, 0, study.files.get()});
  const auto set = [&](const char* key, std::int64_t value) {
    set_at(scenario, key, value, folder, study.files.get());
  };
  const std::int64_t of_node = cluster.spec.gpus_per_node;
  const char* nodes = cluster.spec.job_nodes > 0 ? "/cluster/job_nodes" : "/cluster/nodes";
  if (gpus < of_node) {
    if (std::ranges::find(study.axes, "/cluster/gpus_per_node", &StudyAxis::key) != study.axes.end()) {
      throw InputError("expected at least the " + std::to_string(of_node) +
                           " GPUs of a node that the axis \"/cluster/gpus_per_node\" gives, found " +
                           std::to_string(gpus),
                       axis.place, study.study_file);
    }
    set(nodes, 1);
    set("/cluster/gpus_per_node", gpus);
  } else if (gpus % of_node == 0) {
    set(nodes, gpus / of_node);
  } else {
    throw InputError("expected GPUs of whole nodes of " + std::to_string(of_node) +
                         ", or fewer than a node has, found " + std::to_string(gpus),
                     axis.place, study.study_file);
  }
}

// In as few equal passes of at most `most` samples as divide it.
BatchShare shared(std::int64_t samples, std::int64_t most) {
  for (std::int64_t passes = (samples + most - 1) / most; passes <= samples / passes; ++passes) {
    if (samples % passes == 0) {
      return {samples / passes, passes};
    }
  }
  // More passes than samples in each: the other factor is the smaller one.
  std::int64_t each = std::min(most, static_cast<std::int64_t>(std::sqrt(static_cast<double>(samples))) + 1);
  while (samples % each != 0) {
    --each;
  }
  return {each, samples / each};
}

// The scenario's measured rates with the batch and the accumulation that the scenario had.
Json pinned(const Json& scenario, std::int64_t batch) {
  TrainingSpec training;
  training.batch_per_gpu = batch;
  if (const Json* passes = value_at(scenario, "/training/accumulation")) {
    training.accumulation = static_cast<int>(read_whole(*passes, between(1, kMostPasses), {}));
  }
  read(*value_at(scenario, kMeasured), training.measured, any(), {kMeasured, {}, 0});
  return write(pinned_rates(training));
}

std::optional<BatchShare> set_share(Json& scenario, std::int64_t gpus, const Study& study) {
  const Json* json = value_at(scenario, kBatch);
  const auto* most = json == nullptr ? nullptr : json->as<std::int64_t>();
  if (most == nullptr || *most < 1) {
    return std::nullopt;  // the scenario's reader will say so
  }
  const std::int64_t batch = study.global_batch, measured_batch = *most;
  if (batch % gpus != 0) {
    throw InputError("expected a global batch of which every GPU does as much, found " +
                         std::to_string(batch) + " samples for " + std::to_string(gpus) + " GPUs",
                     "/scaling", study.study_file);
  }
  const BatchShare alone = shared(batch, measured_batch), share = shared(batch / gpus, measured_batch);
  if (share.accumulation > kMostPasses) {
    throw InputError("expected a global batch that a GPU does in at most " + std::to_string(kMostPasses) +
                         " equal passes of at most " + std::to_string(measured_batch) + ", found " +
                         std::to_string(batch / gpus) + " samples for a GPU",
                     "/scaling", study.study_file);
  }
  if (value_at(scenario, kLayerTimes) != nullptr && share.batch_per_gpu != measured_batch) {
    throw InputError("expected no layer_times, which hold for the batch of " +
                         std::to_string(measured_batch) + ", where strong scaling has a batch of " +
                         std::to_string(share.batch_per_gpu) + "; measured rates hold for any",
                     kLayerTimes);
  }
  if (value_at(scenario, kMeasured) != nullptr) {
    set_at(scenario, kMeasured, pinned(scenario, measured_batch), {});
  }
  set_at(scenario, kBatch, share.batch_per_gpu, {});
  set_at(scenario, "/training/accumulation", share.accumulation, {});
  return alone;
}

}  // namespace

PointScenario scenario_of(const Study& study, const StudyPoint& point) {
  PointScenario made{study.scenario, {}, {}};
  const std::string folder = std::filesystem::path(study.file).parent_path().string();
  try {
    const StudyAxis* gpus = nullptr;
    std::int64_t count = 0;
    for (std::size_t i = 0; i < study.axes.size(); ++i) {
      if (study.axes[i].key == "gpus") {
        gpus = &study.axes[i];
        count = read_whole(point.axes[i].value, between(1, kMostRanks), {gpus->place, {}, 0});
      } else {
        set_at(made.scenario, study.axes[i].key, point.axes[i].value, folder, study.files.get());
      }
    }
    if (gpus != nullptr) {
      set_gpus(made.scenario, count, *gpus, study);
    }
    if (study.scaling == Scaling::strong) {
      made.alone = set_share(made.scenario, count, study);
    }
  } catch (const InputError& error) {
    made.wrong = error.in_file(study.file);
  }
  return made;
}

}  // namespace paceline
