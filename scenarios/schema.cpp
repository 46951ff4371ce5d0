#include <limits>

#include "scenarios/scenario.h"
#include "scenarios/schema_writer.h"

namespace paceline {

Json::Object schema_of_number(const Limits& limits, bool whole) {
  Json::Object schema{{"type", whole ? "integer" : "number"}};
  const auto bound = [&](const char* name, double value) {
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (std::isfinite(value)) {
      schema.push_back(
          {name, whole && std::abs(value) <= kExact ? Json(static_cast<std::int64_t>(value)) : Json(value)});
    }
  };
  bound(limits.above ? "exclusiveMinimum" : "minimum", limits.least);
  bound("maximum", limits.most);
  return schema;
}

Json::Object schema_of_quantity(const Dimension& dimension) {
  std::string pattern = R"(^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)? ()";
  for (std::size_t i = 0; i < dimension.units.size(); ++i) {
    pattern += (i == 0 ? "" : "|") + std::string(dimension.units[i].name);
  }
  return {{"type", "string"}, {"pattern", pattern + ")$"}, {"examples", Json::Array{dimension.example}}};
}

Json::Object schema_of_names(const std::vector<std::string>& names) {
  return {{"type", "string"}, {"enum", write(names)}};
}

Json::Object one_of(Json::Array choices) { return {{"anyOf", std::move(choices)}}; }

Json::Object schema_of(Type<Slowdown>, const Limits& limits) {
  return one_of(
      {schema_of_number(limits, false),
       Json::Object{{"type", "string"}, {"pattern", R"(^([0-9]+/[0-9]+|[0-9]+(\.[0-9]{1,6})?)$)"}}});
}

Json::Object schema_of(Type<std::vector<CostParameter>>, const Limits&) {
  Json::Object properties;
  for (const std::string& name : cost_parameter_names()) {
    const Dimension* dimension = dimension_of_cost(name);
    properties.push_back(
        {name, dimension != nullptr ? schema_of_quantity(*dimension) : schema_of_number(kEfficiency, false)});
  }
  return {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

Json::Object schema_of(Type<Cluster>, const Limits&) {
  return one_of({Json::Object{{"type", "string"}, {"minLength", 1}}, schema_of_object<Cluster>()});
}

Json::Object schema_of(Type<NodeSpec>, const Limits&) {
  return one_of({schema_of_names(node_preset_names()), schema_of_object<NodeSpec>(),
                 schema_of_object<NodeOfTopologyFile>()});
}

Json::Object schema_of(Type<GpuSpec>, const Limits&) {
  return one_of({schema_of_names(gpu_preset_names()), schema_of_object<GpuSpec>()});
}

Json::Object schema_of(Type<Model>, const Limits&) {
  return one_of({schema_of_names(model_names()), schema_of_object<Model>(), schema_of_object<ModelFile>(),
                 schema_of_object<ModelOfTransformer>()});
}

std::string scenario_schema() {
  Json::Object schema{
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"title", "Paceline scenario"},
      {"description",
       "What is trained, on which machines, and how. Quantities are texts with their unit: \"25 MiB\", "
       "\"450 GB/s\", \"400 Gb/s\" (bits), \"5 us\"."}};
  for (JsonMember& member : schema_of_object<ScenarioFile>()) {
    schema.push_back(std::move(member));
  }
  return to_text(Json(std::move(schema)));
}

}  // namespace paceline
