#include "scenarios/profile.h"

#include <set>

#include "core/error.h"
#include "core/unknown_name.h"
#include "core/version.h"
#include "scenarios/file_kind.h"
#include "scenarios/files.h"
#include "scenarios/limits.h"
#include "scenarios/reader.h"
#include "scenarios/writer.h"
#include "sim/collective/costs.h"
#include "sim/collective/nccl_words.h"

namespace paceline {
namespace {

constexpr int kFormat = 1;

const Json& member(const Json& object, const char* key, const Spot& spot) {
  const Json* json = object.find(key);
  if (json == nullptr) {
    throw InputError("missing key " + in_quotes(key), spot.place);
  }
  return *json;
}

const Json::Array& array_of(const Json& json, const Spot& spot) {
  const auto* array = json.as<Json::Array>();
  if (array == nullptr) {
    fail_at(spot, "an array", shown(json));
  }
  return *array;
}

template <class T>
void read_member(const Json& object, const char* key, T& value, const Limits& limits, const Spot& spot) {
  if (const Json* json = object.find(key)) {
    read(*json, value, limits, below(spot, key));
  }
}

ProfileParameter read_parameter(const JsonMember& entry, const Spot& spot) {
  ProfileParameter parameter;
  parameter.name = entry.key;
  if (entry.value.as<Json::Object>() == nullptr) {  // the value alone
    parameter.value = parameter.initial = read_cost(entry.value, entry.key, spot);
    parameter.fitted = true;
    return parameter;
  }
  check_keys(
      entry.value,
      {"value", "initial", "fitted", "deviation", "least_bytes", "most_bytes", "fewest_ranks", "most_ranks"},
      spot);
  parameter.value = read_cost(member(entry.value, "value", spot), entry.key, below(spot, "value"));
  parameter.initial = parameter.value;
  if (const Json* json = entry.value.find("initial")) {
    parameter.initial = read_cost(*json, entry.key, below(spot, "initial"));
  }
  read_member(entry.value, "fitted", parameter.fitted, any(), spot);
  read_member(entry.value, "deviation", parameter.deviation, between(0, 100), spot);
  read_member(entry.value, "least_bytes", parameter.least, between(0, kMostBytes), spot);
  read_member(entry.value, "most_bytes", parameter.most, between(0, kMostBytes), spot);
  read_member(entry.value, "fewest_ranks", parameter.fewest_ranks, between(0, 1e9), spot);
  read_member(entry.value, "most_ranks", parameter.most_ranks, between(0, 1e9), spot);
  if (entry.value.find("fitted") == nullptr) {
    throw InputError(
        "expected the value alone, as " + in_quotes(entry.key) + ": " +
            to_line(cost_json(entry.key, parameter.value)) +
            ", or with \"fitted\": true what a fit found; without it the value would not be used",
        spot.place);
  }
  if (!parameter.fitted && parameter.value != parameter.initial) {
    throw InputError(
        "expected \"fitted\": true for a value that is not the initial one, or the initial value: "
        "what is not fitted keeps it",
        spot.place);
  }
  return parameter;
}

constexpr std::string_view kGone = "process.efficiency";  // older profiles have it, most of them not fitted

void read_parameters(const Json& json, Profile& profile, const Spot& spot) {
  const auto* object = json.as<Json::Object>();
  if (object == nullptr) {
    fail_at(spot, "an object of cost parameters", shown(json));
  }
  const std::vector<std::string> known = cost_parameter_names();
  for (const JsonMember& entry : *object) {
    if (entry.key == kGone) {
      if (read_parameter(entry, below(spot, entry.key)).fitted) {
        throw InputError(
            std::string(kGone) +
                " is no cost since model version 26: `paceline calibrate fit` the measurements again",
            spot.place);
      }
      continue;
    }
    if (std::ranges::find(known, entry.key) == known.end()) {
      throw InputError(unknown_name("cost parameter", in_short(entry.key), known), spot.place);
    }
    profile.parameters.push_back(read_parameter(entry, below(spot, entry.key)));
  }
}

void read_covariance(const Json& json, Profile& profile, const Spot& spot) {
  const std::size_t fitted =
      static_cast<std::size_t>(std::ranges::count(profile.parameters, true, &ProfileParameter::fitted));
  const Json::Array& rows = array_of(json, spot);
  if (rows.size() != fitted) {
    fail_at(spot, "a row for each of the " + std::to_string(fitted) + " fitted parameters",
            std::to_string(rows.size()));
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::vector<double> row;
    read(rows[r], row, between(-1e6, 1e6).length(fitted, fitted), below(spot, r));
    profile.covariance.insert(profile.covariance.end(), row.begin(), row.end());
  }
}

ProfilePoint read_point(const Json& json, const Spot& spot) {
  check_keys(json,
             {"collective", "nodes", "gpus_per_node", "bytes", "log_ratio", "noise", "nccl", "algorithm",
              "protocol", "channels", "nvls", "socket_threads", "sockets_per_thread"},
             spot);
  ProfilePoint point;
  read(member(json, "collective", spot), point.kind, any(), below(spot, "collective"));
  read(member(json, "nodes", spot), point.nodes, between(1, kMostRanks), below(spot, "nodes"));
  read(member(json, "gpus_per_node", spot), point.gpus_per_node, between(1, kMostGpusOfNode),
       below(spot, "gpus_per_node"));
  read(member(json, "bytes", spot), point.bytes, kSize, below(spot, "bytes"));
  read(member(json, "log_ratio", spot), point.log_ratio, between(-20, 20), below(spot, "log_ratio"));
  read(member(json, "noise", spot), point.noise, between(0, 10), below(spot, "noise"));
  read_member(json, "nccl", point.nccl, text(20, 0), spot);
  read_member(json, "algorithm", point.algorithm, text(200, 0), spot);
  read_member(json, "protocol", point.protocol, text(200, 0), spot);
  read_member(json, "channels", point.channels, between(0, 64), spot);
  read_member(json, "nvls", point.nvls, any(), spot);
  read_member(json, "socket_threads", point.socket_threads, between(0, 16), spot);
  read_member(json, "sockets_per_thread", point.sockets_per_thread, between(1, 64), spot);
  return point;
}

ProfileSource read_source(const Json& json, const Spot& spot) {
  check_keys(json, {"file", "format", "hash", "rows"}, spot);
  ProfileSource source;
  read_member(json, "file", source.file, text(10'000, 0), spot);
  read_member(json, "format", source.format, text(100, 0), spot);
  read_member(json, "hash", source.hash, text(100, 0), spot);
  read_member(json, "rows", source.rows, between(0, 1e15), spot);
  return source;
}

ProfileTraining read_training(const Json& json, const Spot& spot) {
  check_keys(json,
             {"model", "precision", "rates", "delays", "delays_fitted", "covariance", "most_ranks",
              "most_nodes", "reduction_known"},
             spot);
  ProfileTraining training;
  read_member(json, "model", training.model, text(10'000, 0), spot);
  read_member(json, "precision", training.precision, text(20, 0), spot);
  read_member(json, "rates", training.rates, any(), spot);
  read_member(json, "delays", training.delays, any(), spot);
  read_member(json, "delays_fitted", training.delays_fitted, any(), spot);
  read_member(json, "covariance", training.covariance, between(-1e12, 1e12), spot);
  read_member(json, "most_ranks", training.most_ranks, between(1, 1e9), spot);
  read_member(json, "most_nodes", training.most_nodes, between(1, 1e9), spot);
  read_member(json, "reduction_known", training.reduction_known, any(), spot);
  const std::size_t n = training.rates.size() + 2;
  if (training.rates.empty() || training.covariance.size() != n * n) {
    fail_at(below(spot, "covariance"),
            std::to_string(n * n) + " numbers for " + std::to_string(training.rates.size()) +
                " rates and two delays",
            std::to_string(training.covariance.size()));
  }
  return training;
}

ProfileRoofline read_products(const Json& json, const Spot& spot) {
  check_keys(json, {"precision", "efficiency", "half_work"}, spot);
  ProfileRoofline products;
  read_member(json, "precision", products.precision, text(20), spot);
  read_member(json, "efficiency", products.efficiency, kEfficiency, spot);
  read_member(json, "half_work", products.half_work, kDuration, spot);
  return products;
}

ProfileKernel read_kernel(const Json& json, const Spot& spot) {
  check_keys(json, {"name", "efficiency"}, spot);
  ProfileKernel kernel;
  read_member(json, "name", kernel.name, text(100), spot);
  read_member(json, "efficiency", kernel.efficiency, kEfficiency, spot);
  return kernel;
}

template <class T, class Read>
void read_all(const Json& json, const char* key, std::vector<T>& values, const Read& read_one,
              const Spot& spot) {
  if (const Json* list = json.find(key)) {
    const Spot place = below(spot, key);
    const Json::Array& array = array_of(*list, place);
    for (std::size_t i = 0; i < array.size(); ++i) {
      values.push_back(read_one(array[i], below(place, i)));
    }
  }
}

ProfileKernels read_kernels(const Json& json, const Spot& spot) {
  check_keys(json,
             {"gpu", "products", "memory_efficiency", "memory_start", "of_kernel", "launch", "slowdown"},
             spot);
  ProfileKernels kernels;
  read_member(json, "gpu", kernels.gpu, text(100, 0), spot);
  read_all(json, "products", kernels.products, read_products, spot);
  read_member(json, "memory_efficiency", kernels.memory_efficiency, between(0, 10), spot);
  read_member(json, "memory_start", kernels.memory_start, kDuration, spot);
  read_all(json, "of_kernel", kernels.of_kernel, read_kernel, spot);
  read_member(json, "launch", kernels.launch, kDuration, spot);
  read_member(json, "slowdown", kernels.slowdown, between(0, 1000), spot);
  return kernels;
}

Profile read_profile(const Json& json) {
  const Spot spot{"", {}, 0};
  require_kind(json, {FileKind::profile});
  check_keys(
      json,
      {"format", "tool", "model_version", "date", "cluster", "machine", "network", "sources", "library",
       "nccl", "choose", "parameters", "covariance", "points", "curvature", "kernels", "training"},
      spot);
  Profile profile;
  int format = kFormat;
  read_member(json, "format", format, between(1, kFormat), spot);
  read_member(json, "tool", profile.tool, text(200, 0), spot);
  read_member(json, "model_version", profile.model_version, between(0, 1'000'000), spot);
  read_member(json, "date", profile.date, text(100, 0), spot);
  read_member(json, "cluster", profile.cluster, text(10'000, 0), spot);
  read_member(json, "machine", profile.machine, text(200, 0), spot);
  read_member(json, "network", profile.network, text(200, 0), spot);
  read_all(json, "sources", profile.sources, read_source, spot);
  read_member(json, "library", profile.library, any(), spot);
  read_member(json, "nccl", profile.nccl, text(20, 0), spot);
  if (!profile.nccl.empty()) {
    try {
      static_cast<void>(nccl_version(profile.nccl));
    } catch (const InputError& error) {
      throw error.at("/nccl");
    }
  }
  read_member(json, "choose", profile.choose, any(), spot);
  read_parameters(member(json, "parameters", spot), profile, below(spot, "parameters"));
  if (const Json* covariance = json.find("covariance")) {
    read_covariance(*covariance, profile, below(spot, "covariance"));
  }
  read_all(json, "points", profile.points, read_point, spot);
  read_member(json, "curvature", profile.curvature, between(0, 1), spot);
  read_all(json, "kernels", profile.kernels, read_kernels, spot);
  read_all(json, "training", profile.training, read_training, spot);
  return profile;
}

Json parameter_json(const ProfileParameter& parameter) {
  Json::Object object{{"value", cost_json(parameter.name, parameter.value)},
                      {"initial", cost_json(parameter.name, parameter.initial)},
                      {"fitted", parameter.fitted},
                      {"deviation", parameter.deviation}};
  if (parameter.most_ranks > 0) {
    object.push_back({"least_bytes", write(parameter.least)});
    object.push_back({"most_bytes", write(parameter.most)});
    object.push_back({"fewest_ranks", parameter.fewest_ranks});
    object.push_back({"most_ranks", parameter.most_ranks});
  }
  return object;
}

Json training_json(const ProfileTraining& training) {
  return Json::Object{{"model", training.model},
                      {"precision", training.precision},
                      {"rates", write(training.rates)},
                      {"delays", write(training.delays)},
                      {"delays_fitted", training.delays_fitted},
                      {"covariance", write(training.covariance)},
                      {"most_ranks", training.most_ranks},
                      {"most_nodes", training.most_nodes},
                      {"reduction_known", training.reduction_known}};
}

Json kernels_json(const ProfileKernels& kernels) {
  Json::Array products, of_kernel;
  for (const ProfileRoofline& each : kernels.products) {
    products.push_back(Json::Object{{"precision", each.precision},
                                    {"efficiency", each.efficiency},
                                    {"half_work", write(each.half_work)}});
  }
  for (const ProfileKernel& each : kernels.of_kernel) {
    of_kernel.push_back(Json::Object{{"name", each.name}, {"efficiency", each.efficiency}});
  }
  return Json::Object{{"gpu", kernels.gpu},
                      {"products", std::move(products)},
                      {"memory_efficiency", kernels.memory_efficiency},
                      {"memory_start", write(kernels.memory_start)},
                      {"of_kernel", std::move(of_kernel)},
                      {"launch", write(kernels.launch)},
                      {"slowdown", kernels.slowdown}};
}

Json covariance_json(const Profile& profile) {
  const std::size_t fitted =
      static_cast<std::size_t>(std::ranges::count(profile.parameters, true, &ProfileParameter::fitted));
  Json::Array rows;
  for (std::size_t r = 0; r < fitted; ++r) {
    Json::Array row;
    for (std::size_t c = 0; c < fitted; ++c) {
      row.push_back(profile.covariance[r * fitted + c]);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::string machine_of(const NodeSpec& node) { return node.gpu + ", " + std::string(name_of(node.wiring)); }

std::string network_of(const NodeSpec& node) { return std::string(name_of(node.network)); }

Profile load_profile(const std::string& path) { return parse_profile(read_file(path), path); }

Profile parse_profile(const std::string& text, const std::string& file_name) {
  try {
    return read_profile(parse_json(text));
  } catch (const InputError& error) {
    throw error.in_file(file_name);
  }
}

std::string cost_text(const std::string& name, double value) {
  const Dimension* dimension = form_of_cost(name).dimension;
  return dimension != nullptr ? quantity_text(value, *dimension) : number_text(value);
}

void require_library(CollectiveLibrary asked_for, const Profile& profile) {
  if (!profile.points.empty() && asked_for != profile.library) {
    throw InputError("expected a profile of the library " + std::string(name_of(asked_for)) +
                         ", which was asked for, found one of " + std::string(name_of(profile.library)),
                     "--profile");
  }
}

std::string remark_on(const Profile& profile) {
  if (profile.tool.empty() || profile.model_version == kModelVersion) {
    return {};
  }
  const std::string version = profile.model_version == 0
                                  ? "an earlier one"
                                  : "model version " + std::to_string(profile.model_version);
  return "fitted with " + version + ", this is model version " + std::to_string(kModelVersion) +
         ": predictions may be further off than their intervals say; fit it again (paceline calibrate fit)";
}

std::string to_json(const Profile& profile) {
  Json::Array sources, points, kernels, training;
  for (const ProfileSource& source : profile.sources) {
    sources.push_back(Json::Object{
        {"file", source.file}, {"format", source.format}, {"hash", source.hash}, {"rows", source.rows}});
  }
  Json::Object parameters;
  for (const ProfileParameter& parameter : profile.parameters) {
    parameters.push_back({parameter.name, parameter_json(parameter)});
  }
  for (const ProfilePoint& point : profile.points) {
    Json::Object object{{"collective", name_of(point.kind)},
                        {"nodes", point.nodes},
                        {"gpus_per_node", point.gpus_per_node},
                        {"bytes", write(point.bytes)},
                        {"log_ratio", point.log_ratio},
                        {"noise", point.noise},
                        {"nccl", point.nccl}};
    for (const auto& [key, value] : {std::pair{"algorithm", point.algorithm}, {"protocol", point.protocol}}) {
      if (!value.empty()) {
        object.push_back({key, value});
      }
    }
    if (point.channels > 0) {
      object.push_back({"channels", point.channels});
    }
    if (!point.nvls) {
      object.push_back({"nvls", false});
    }
    if (point.socket_threads > 0) {
      object.push_back({"socket_threads", point.socket_threads});
      object.push_back({"sockets_per_thread", point.sockets_per_thread});
    }
    points.push_back(std::move(object));
  }
  for (const ProfileKernels& each : profile.kernels) {
    kernels.push_back(kernels_json(each));
  }
  for (const ProfileTraining& each : profile.training) {
    training.push_back(training_json(each));
  }
  Json::Object object{{"format", kFormat},
                      {"tool", profile.tool},
                      {"model_version", std::int64_t{profile.model_version}},
                      {"date", profile.date},
                      {"cluster", profile.cluster},
                      {"machine", profile.machine},
                      {"network", profile.network},
                      {"sources", std::move(sources)},
                      {"library", name_of(profile.library)},
                      {"nccl", profile.nccl},
                      {"choose", name_of(profile.choose)},
                      {"parameters", std::move(parameters)}};
  if (!profile.covariance.empty()) {
    object.push_back({"covariance", covariance_json(profile)});
  }
  object.push_back({"points", std::move(points)});
  object.push_back({"curvature", profile.curvature});
  object.push_back({"kernels", std::move(kernels)});
  object.push_back({"training", std::move(training)});
  return to_text(Json(std::move(object))) + "\n";
}

}  // namespace paceline
