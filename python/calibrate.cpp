// Measurements, profiles and validation.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <sstream>
#include <utility>
#include <vector>

#include "calibrate/import/import.h"
#include "calibrate/validate/judge.h"
#include "calibrate/validate/validate.h"
#include "python/module.h"
#include "python/options.h"
#include "python/watched.h"
#include "scenarios/description.h"
#include "scenarios/json.h"
#include "scenarios/profile.h"

namespace nb = nanobind;

namespace paceline::python {
namespace {

// The keys' ends are the units.
Json::Object collective_row(const CollectiveMeasurement& row, std::string condition) {
  return {{"collective", std::string(name_of(row.kind))},
          {"size_bytes", row.bytes.value},
          {"time_s", row.time.value},
          {"gpus", row.ranks},
          {"nodes", row.nodes},
          {"nccl", row.nccl},
          {"algorithm", row.algorithm},
          {"protocol", row.protocol},
          {"channels", row.channels},
          {"nvls", row.nvls},
          {"condition", std::move(condition)},
          {"gpu_name", row.gpu},
          {"fullest_node", row.fullest},
          {"gpus_per_process", row.gpus_per_process},
          {"wrong_values", row.wrong_values ? 1 : 0},
          {"socket_threads", row.socket_threads},
          {"sockets_per_thread", row.sockets_per_thread},
          {"not_modelled", row.unmodelled},
          {"table", row.table},
          {"file", row.origin.file},
          {"line", row.origin.line}};
}

Json::Object kernel_row(const KernelMeasurement& row, std::string condition) {
  return {{"kernel", row.kernel},
          {"kind", row.kind},
          {"precision", row.precision},
          {"m", row.m},
          {"n", row.n},
          {"k", row.k},
          {"work_flop", row.work.value},
          {"traffic_bytes", row.traffic.value},
          {"time_s", row.time.value},
          {"device", row.device},
          {"condition", std::move(condition)},
          {"file", row.origin.file},
          {"line", row.origin.line}};
}

Json::Array collective_rows(const MeasuredData& data) {
  Json::Array rows;
  for (const CollectiveMeasurement& row : data.collectives) {
    rows.push_back(collective_row(row, {}));
  }
  for (const ConditionedCollective& row : data.conditioned) {
    rows.push_back(collective_row(row.measurement, row.condition));
  }
  return rows;
}

Json::Array kernel_rows(const MeasuredData& data) {
  Json::Array rows;
  for (const KernelMeasurement& row : data.kernels) {
    rows.push_back(kernel_row(row, {}));
  }
  for (const ConditionedKernel& row : data.conditioned_kernels) {
    rows.push_back(kernel_row(row.measurement, row.condition));
  }
  return rows;
}

Json::Array layer_rows(const MeasuredData& data) {
  Json::Array rows;
  for (const LayerMeasurement& row : data.layers) {
    rows.push_back(Json::Object{{"layer", row.layer},
                                {"forward_s", row.forward.value},
                                {"backward_s", row.backward.value},
                                {"update_s", row.update.value},
                                {"host_bound", row.host_bound},
                                {"file", row.origin.file},
                                {"line", row.origin.line}});
  }
  return rows;
}

Json given(double rate) { return rate > 0 ? Json(rate) : Json(); }

Json::Array training_rows(const MeasuredData& data) {
  Json::Array rows;
  for (const TrainingMeasurement& row : data.training) {
    rows.push_back(Json::Object{{"gpus", row.ranks},
                                {"nodes", row.nodes},
                                {"throughput_samples_per_s", given(row.samples_per_second)},
                                {"throughput_tokens_per_s", given(row.tokens_per_second)},
                                {"batch_per_gpu", row.batch_per_gpu},
                                {"accumulation", row.accumulation},
                                {"table", row.table},
                                {"file", row.origin.file},
                                {"line", row.origin.line}});
  }
  return rows;
}

Json::Array remark_rows(const MeasuredData& data) {
  Json::Array rows;
  for (const Remark& row : data.remarks) {
    rows.push_back(Json::Object{{"text", row.text}, {"file", row.origin.file}, {"line", row.origin.line}});
  }
  return rows;
}

std::string import_json(const std::vector<std::string>& paths) {
  const MeasuredData data = import_files(paths);
  return to_text(Json(Json::Object{{"collectives", collective_rows(data)},
                                   {"kernels", kernel_rows(data)},
                                   {"layers", layer_rows(data)},
                                   {"training", training_rows(data)},
                                   {"remarks", remark_rows(data)}}));
}

std::pair<std::string, std::string> fit(const std::string& asked) {
  std::ostringstream page;
  auto request = read_request<FitFiles>(asked);
  Profile profile;
  watched(
      [&](const auto& go_on) {
        request.progress = [&](const auto&...) { go_on(); };
        profile = fit_files(request, page);
      },
      hear_signals);
  return {to_json(profile), page.str()};
}

JudgedLog judged(const std::string& asked) {
  const auto request = read_request<LogRequest>(asked);
  LogFiles logs{request.files, {}};
  if (request.profile) {
    logs.profile = parse_profile(request.profile->text, request.profile->file);
    logs.profile->any_machine = request.allow_other_machine;
  }
  JudgedLog log;
  watched(
      [&](const auto& go_on) {
        logs.files.progress = [&](const auto&...) { go_on(); };
        log = judge(logs);
      },
      hear_signals);
  return log;
}

std::pair<bool, std::string> validate(const std::vector<std::string>& paths) {
  ValidationResult result = run_validation(paths, ValidationForm::json);
  return {result.holds, std::move(result.text)};
}

}  // namespace

void add_calibrate(nb::module_& module) {
  const auto unlocked = nb::call_guard<nb::gil_scoped_release>();
  module.def(
      "import_files", &import_json, nb::arg("paths"), unlocked,
      "All measurements of files and folders: {\"collectives\", \"kernels\", \"layers\", \"training\", "
      "\"remarks\"}, a list of rows each.");
  module.def(
      "remark_on_profile",
      [](const std::string& text, const std::string& name) { return remark_on(parse_profile(text, name)); },
      nb::arg("text"), nb::arg("name"), unlocked,
      "What the user of a profile must know: that another model version fitted it; or nothing.");
  module.def("fit", &fit, nb::arg("options"), unlocked,
             "A profile, and the page that `paceline calibrate fit` prints; the options are a JSON object "
             "(python/options.h).");
  module.def(
      "compare_measurements", [](const std::string& asked) { return compare_json(judged(asked)); },
      nb::arg("options"), unlocked,
      "The JSON of `paceline calibrate compare --json`; the options are a JSON object (python/options.h).");
  module.def(
      "diagnose", [](const std::string& asked) { return diagnose_json(judged(asked)); }, nb::arg("options"),
      unlocked,
      "The JSON of `paceline calibrate diagnose --json`; the options are a JSON object (python/options.h).");
  module.def("validate", &validate, nb::arg("paths"), unlocked,
             "Whether all holds, and the JSON of `paceline validate --json`.");
}

}  // namespace paceline::python
