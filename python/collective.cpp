// What nccl-tests would print.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "core/error.h"
#include "python/module.h"
#include "scenarios/collective_table.h"
#include "sim/collective/tuner.h"

namespace nb = nanobind;

namespace paceline::python {
namespace {

using Text = std::optional<std::string>;

void check_options(const CollectiveSpec& spec) {
  const auto naming = [](const char* option, auto&& check) {
    try {
      check();
    } catch (const InputError& error) {
      throw error.at(option);
    }
  };
  naming("--nccl", [&] { static_cast<void>(nccl_version(spec.nccl)); });
  const std::string algorithm = spec.algorithm == "hierarchical" ? "" : spec.algorithm;
  naming("--algo", [&] { static_cast<void>(tuner_overrides(algorithm, "", CollectiveKind::all_reduce)); });
  naming("--proto",
         [&] { static_cast<void>(tuner_overrides("", spec.protocol, CollectiveKind::all_reduce)); });
}

// Of the cluster that is asked for, where it isn't all of it.
void resize(ClusterSpec& cluster, const Text& nodes, const Text& gpus_per_node) {
  constexpr std::uint64_t kMostNodes = 4'000'000, kMostGpus = 256;
  if (nodes) {
    cluster.nodes = static_cast<int>(whole_number(*nodes, 1, kMostNodes, "--nodes"));
  }
  if (gpus_per_node) {
    cluster.gpus_per_node = static_cast<int>(whole_number(*gpus_per_node, 1, kMostGpus, "--gpus-per-node"));
  }
}

std::string collective(const std::string& kind, const std::string& cluster,
                       const std::vector<std::string>& sizes, const std::string& first,
                       const std::string& last, const std::string& factor, const Text& nodes,
                       const Text& gpus_per_node, const Text& nccl, const std::string& algorithm,
                       const std::string& protocol, const std::string& library, bool explain,
                       const Text& profile_text, const std::string& profile_name) {
  constexpr std::uint64_t kMostFactor = 1 << 20;
  CollectiveTest test;
  test.kind = collective_named(kind);
  test.cluster_name = cluster;
  test.cluster = load_cluster(cluster);
  resize(test.cluster, nodes, gpus_per_node);
  test.first = test_size(first, "-b");
  test.last = test_size(last, "-e");
  test.factor = static_cast<std::int64_t>(whole_number(factor, 2, kMostFactor, "-f"));
  for (const std::string& size : sizes) {
    test.sizes.push_back(test_size(size, "sizes"));
  }
  test.collective.nccl = nccl.value_or(test.collective.nccl);
  test.collective.algorithm = algorithm;
  test.collective.protocol = protocol;
  test.collective.library = collective_library_named(library);
  check_options(test.collective);
  test.explain = explain;
  if (!profile_text) {
    return nccl_tests_json(run_collective_test(test));
  }
  const Profile profile = profile_of(*profile_text, profile_name);
  if (!nccl && !profile.nccl.empty()) {
    test.collective.nccl = profile.nccl;
  }
  const CollectivePrediction prediction = predict_collectives(test, profile);
  return nccl_tests_json(prediction.result, prediction.intervals);
}

}  // namespace

void add_collective(nb::module_& module) {
  module.def("collective", &collective, nb::arg("kind"), nb::arg("cluster"), nb::kw_only(),
             nb::arg("sizes") = std::vector<std::string>(), nb::arg("first") = "8", nb::arg("last") = "16G",
             nb::arg("factor") = "2", nb::arg("nodes") = nb::none(), nb::arg("gpus_per_node") = nb::none(),
             nb::arg("nccl") = nb::none(), nb::arg("algorithm") = "", nb::arg("protocol") = "",
             nb::arg("library") = "nccl", nb::arg("explain") = false, nb::arg("profile") = nb::none(),
             nb::arg("profile_name") = "", nb::call_guard<nb::gil_scoped_release>(),
             "The JSON of `paceline collective --json`; `sizes`, where given, stand for first, last and "
             "factor.");
}

}  // namespace paceline::python
