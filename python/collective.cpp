// What nccl-tests would print.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "python/module.h"
#include "scenarios/collective_options.h"

namespace nb = nanobind;

namespace paceline::python {
namespace {

using Text = std::optional<std::string>;

std::string collective(const std::string& kind, const std::string& cluster,
                       const std::vector<std::string>& sizes, const std::string& first,
                       const std::string& last, const std::string& factor, const Text& nodes,
                       const Text& gpus_per_node, const Text& nccl, const std::string& algorithm,
                       const std::string& protocol, const std::string& library, bool explain,
                       const Text& profile_text, const std::string& profile_name) {
  const CollectiveOptions options{.kind = kind,
                                  .cluster = cluster,
                                  .first = first,
                                  .last = last,
                                  .factor = factor,
                                  .sizes = sizes,
                                  .increment = {},
                                  .nodes = nodes,
                                  .gpus_per_node = gpus_per_node,
                                  .nccl = nccl,
                                  .algorithm = algorithm,
                                  .protocol = protocol,
                                  .library = library,
                                  .explain = explain};
  if (!profile_text) {
    return nccl_tests_json(run_collective_test(collective_test(options, {})));
  }
  const Profile profile = parse_profile(*profile_text, profile_name);
  const CollectivePrediction prediction = predict_collectives(collective_test(options, profile), profile);
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
