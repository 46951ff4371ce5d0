// What nccl-tests would print.
#include <nanobind/stl/string.h>

#include "calibrate/fit/collective_fit.h"
#include "python/module.h"
#include "python/options.h"

namespace nb = nanobind;

namespace paceline::python {
namespace {

std::string collective(const std::string& asked) {
  const auto request = read_request<CollectiveRequest>(asked);
  Profile profile = request.profile ? parse_profile(request.profile->text, request.profile->file) : Profile{};
  profile.any_machine = request.allow_other_machine;
  const auto [result, intervals] = predict_collectives(request.options, profile);
  return nccl_tests_json(result, intervals);
}

}  // namespace

void add_collective(nb::module_& module) {
  module.def("collective", &collective, nb::arg("options"), nb::call_guard<nb::gil_scoped_release>(),
             "The JSON of `paceline collective --json`; the options are a JSON object (python/options.h).");
}

}  // namespace paceline::python
