// FSDP's options that can be said in more than one way: read, written, and in the schema.
#include <string>
#include <utility>
#include <vector>

#include "scenarios/reader.h"
#include "scenarios/schema_writer.h"
#include "scenarios/writer.h"

namespace paceline {
namespace {

constexpr const char *kBlocks = "blocks", *kNode = "node", *kAll = "all";
constexpr Limits kParametersOfUnit = between(1, 1e15), kGroup = between(2, kMostRanks),
                 kRegather = between(1, kMostRanks);
const Limits kLayersOfUnit = between(1, 10'000).length(1, 10'000);

struct UnitsOfParameters {
  std::int64_t parameters = 1;
};
template <class V>
void describe(V& v, UnitsOfParameters& s) {
  v.key("parameters", s.parameters, kParametersOfUnit,
        "A unit is closed when it has as many parameters; the last one has what is left.", required());
}

bool is_text(const Json& json, std::string_view text) {
  const auto* given = json.as<std::string>();
  return given != nullptr && *given == text;
}

}  // namespace

void read(const Json& json, FsdpUnits& units, const Limits&, const Spot& spot) {
  units = {};
  if (json.as<Json::Array>() != nullptr) {
    read(json, units.layers, kLayersOfUnit, spot);
  } else if (json.as<Json::Object>() != nullptr) {
    UnitsOfParameters given;
    read_object(json, given, spot);
    units.parameters = given.parameters;
  } else if (!is_text(json, kBlocks)) {
    fail_at(spot, R"("blocks", a list of layer counts such as [2, 2], or {"parameters": 100000000})",
            shown(json));
  }
}

void read(const Json& json, ReshardAfterForward& reshard, const Limits&, const Spot& spot) {
  reshard = {};
  if (const bool* given = json.as<bool>()) {
    reshard.reshards = *given;
  } else if (const auto* ranks = json.as<std::int64_t>();
             ranks != nullptr && kRegather.holds(static_cast<double>(*ranks))) {
    reshard.reshards = *ranks > 1;  // PyTorch takes 1 for false
    reshard.within = *ranks > 1 ? *ranks : 0;
  } else {
    fail_at(spot, "true, false, or of how many ranks a unit is gathered again", shown(json));
  }
}

void read(const Json& json, ShardGroup& group, const Limits&, const Spot& spot) {
  group = {};
  if (const auto* ranks = json.as<std::int64_t>();
      ranks != nullptr && kGroup.holds(static_cast<double>(*ranks))) {
    group.ranks = *ranks;
  } else if (is_text(json, kNode)) {
    group.node = true;
  } else if (!is_text(json, kAll)) {
    fail_at(spot, R"("all", "node", or how many consecutive ranks share a copy of the parameters, 2 or more)",
            shown(json));
  }
}

Json write(const FsdpUnits& units) {
  return !units.layers.empty()  ? write(units.layers)
         : units.parameters > 0 ? write(UnitsOfParameters{units.parameters})
                                : Json(kBlocks);
}
Json write(const ReshardAfterForward& reshard) {
  return reshard.within > 0 ? Json(reshard.within) : Json(reshard.reshards);
}
Json write(const ShardGroup& group) {
  return group.node ? Json(kNode) : group.ranks == 0 ? Json(kAll) : Json(group.ranks);
}

Json::Object schema_of(Type<FsdpUnits>, const Limits&) {
  return one_of({titled("the model's blocks", schema_of_names({kBlocks})),
                 titled("a list: how many layers each unit has",
                        schema_of(Type<std::vector<std::int64_t>>{}, kLayersOfUnit)),
                 titled("by their parameters", schema_of(Type<UnitsOfParameters>{}, any()))});
}
Json::Object schema_of(Type<ReshardAfterForward>, const Limits&) {
  return one_of({titled("whether", {{"type", "boolean"}}),
                 titled("from how many ranks; 1 is false", schema_of_number(kRegather, true))});
}
Json::Object schema_of(Type<ShardGroup>, const Limits&) {
  return one_of({titled("all ranks, or the GPUs of a node", schema_of_names({kAll, kNode})),
                 titled("as many consecutive ranks", schema_of_number(kGroup, true))});
}

}  // namespace paceline
