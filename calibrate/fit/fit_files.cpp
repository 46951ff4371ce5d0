#include "calibrate/fit/fit_files.h"

#include <algorithm>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/collective_points.h"
#include "calibrate/fit/kernel_fit.h"
#include "calibrate/fit/training_fit.h"
#include "calibrate/import/import.h"
#include "core/error.h"
#include "core/names.h"
#include "core/option_text.h"
#include "core/parallel.h"
#include "scenarios/collective_options.h"
#include "scenarios/collective_table.h"
#include "scenarios/limits.h"
#include "scenarios/scenario.h"
#include "sim/collective/nccl_words.h"

namespace paceline {
namespace {

// The scenario is of the machine that --cluster names: the profile is for one machine.
void require_same_machine(const Scenario& scenario, const NodeSpec& node, bool crosses) {
  const NodeSpec& other = scenario.cluster.node;
  const auto check = [](const std::string& expected, const std::string& found) {
    if (found != expected) {
      throw InputError("expected a scenario of the machine that --cluster names (" + expected +
                           "), found one of another (" + found + ")",
                       "--scenario");
    }
  };
  check(machine_of(node), machine_of(other));
  if (crosses) {
    check(network_of(node), network_of(other));
  }
}

// Rows that name a model or a precision as scenarios do name the scenario's.
void require_same_training(const Scenario& scenario, std::span<const TrainingMeasurement> rows) {
  const std::vector<std::string> models = model_names();
  std::vector<std::string> precisions;
  for (const Named<Precision>& each : kNames<Precision>) {
    precisions.emplace_back(each.name);
  }
  for (const TrainingMeasurement& row : rows) {
    const auto check = [&](const char* what, std::string_view expected, const std::string& found,
                           const std::vector<std::string>& known) {
      if (found != expected && std::ranges::find(known, found) != known.end()) {
        throw InputError("expected " + std::string(what) + std::string(expected) +
                             ", as --scenario has it, or no such column, found " + found,
                         "line " + std::to_string(row.origin.line), row.origin.file);
      }
    };
    check("throughput of ", scenario.model.name, row.model, models);
    check("throughput in ", name_of(scenario.training.precision), row.precision, precisions);
  }
}

Scenario base_of(const Scenario& scenario, Overlap overlap, const Profile& profile) {
  Scenario base = with_profile(scenario, profile);
  if (overlap == Overlap::unknown) {
    base.training.ddp.reduction = Reduction::unknown;
  }
  return base;
}

}  // namespace

FitRequest request_of(const FitFiles& fit) {
  FitRequest request;
  request.cluster_name = fit.cluster;
  request.progress = fit.progress;
  request.threads = all_cores();
  naming_option("--cluster", [&] { request.cluster = load_cluster(fit.cluster); });
  require_like_nodes(request.cluster);
  naming_option("--library", [&] { request.collective.library = collective_library_named(fit.library); });
  if (!fit.settings.empty()) {
    naming_option("--set", [&] { set_as_told(fit.settings, request.collective); });
  }
  if (fit.nccl) {
    request.collective.nccl = *fit.nccl;
    request.nccl_stated = true;
  }
  request.collective.algorithm = fit.algorithm;
  request.collective.protocol = fit.protocol;
  require_choice(request.collective, kChoiceOptions);
  if (fit.algorithm == kHierarchical) {
    throw InputError("expected what NCCL_ALGO was, found \"hierarchical\", which NCCL doesn't have",
                     "--algo");
  }
  if (fit.nodes) {
    request.nodes = static_cast<int>(whole_number(*fit.nodes, 1, kMostRanks, "--nodes"));
  }
  if (fit.gpus_per_node) {
    const auto most = static_cast<std::uint64_t>(request.cluster.node.gpus);
    request.gpus_per_node = static_cast<int>(whole_number(*fit.gpus_per_node, 1, most, "--gpus-per-node"));
  }
  return request;
}

Profile fit_files(const FitFiles& fit, std::ostream& page) {
  const auto overlap = value_named<Overlap>("overlap", fit.overlap, "--overlap");
  const FitRequest request = request_of(fit);
  const std::optional<Scenario> scenario =
      fit.scenario ? std::optional(load_scenario(*fit.scenario)) : std::nullopt;
  const MeasuredData data = import_files(fit.files);
  page << import_summary(data) << std::flush;
  const bool crosses = std::ranges::any_of(data.training, [](const auto& row) { return row.nodes > 1; });
  if (!data.training.empty()) {
    if (!scenario) {
      throw InputError("expected the scenario that the throughput rows are of", "--scenario");
    }
    require_same_machine(*scenario, request.cluster.node, crosses);
    require_same_training(*scenario, data.training);
  }
  Profile profile = empty_profile(fit.cluster, data);
  for (const std::string& line : log_remarks(request, data)) {
    page << line << '\n';
  }
  if (!data.collectives.empty() || (data.kernels.empty() && data.training.empty())) {
    page << version_remarks(data) << std::flush;
    const CollectiveFit collectives = fit_collectives(request, data);
    page << fit_table(collectives, data) << std::flush;
    profile = collectives.profile;
  }
  if (!data.kernels.empty()) {
    const KernelFit kernels =
        fit_kernels(scenario ? scenario->gpu : gpu_preset(request.cluster.node.gpu), data);
    page << kernel_table(kernels, data) << std::flush;
    profile.kernels.push_back(kernels.kernels);
  }
  if (!data.training.empty()) {
    const TrainingFit training = fit_training(base_of(*scenario, overlap, profile),
                                              in_samples(data.training, scenario->model), fit.progress);
    page << fit_text(training);
    profile.machine = machine_of(request.cluster.node);
    profile.network = crosses ? network_of(request.cluster.node) : profile.network;
    profile.training.push_back(training.result);
  }
  return profile;
}

}  // namespace paceline
