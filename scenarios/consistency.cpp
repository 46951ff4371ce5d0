// The consistency of parameter servers: a name, or how stale a worker's parameters may be.
#include <string>

#include "scenarios/reader.h"
#include "scenarios/schema_writer.h"
#include "scenarios/writer.h"

namespace paceline {
namespace {

using Kind = Consistency::Kind;
constexpr const char *kSync = "sync", *kAsync = "async";

struct StaleBy {
  std::int64_t stale = 0;
};
template <class V>
void describe(V& v, StaleBy& s) {
  v.key("stale", s.stale, between(0, 1e9),
        "How many more gradients a worker may have pushed than the slowest.", required());
}

}  // namespace

void read(const Json& json, Consistency& consistency, const Limits&, const Spot& spot) {
  const auto* name = json.as<std::string>();
  if (json.as<Json::Object>() != nullptr) {
    StaleBy given;
    read_object(json, given, spot);
    consistency = {Kind::stale, given.stale};
  } else if (name != nullptr && (*name == kSync || *name == kAsync)) {
    consistency = {*name == kSync ? Kind::synchronous : Kind::asynchronous, 0};
  } else {
    fail_at(spot, R"("sync", "async" or {"stale": 3})", shown(json));
  }
}

Json write(const Consistency& consistency) {
  switch (consistency.kind) {
    case Kind::stale:
      return write(StaleBy{consistency.stale});
    case Kind::asynchronous:
      return Json(kAsync);
    case Kind::synchronous:
      break;
  }
  return Json(kSync);
}

Json::Object schema_of(Type<Consistency>, const Limits&) {
  return one_of({titled("by name", schema_of_names({kSync, kAsync})),
                 titled("stale by so many gradients", schema_of(Type<StaleBy>{}, any()))});
}

}  // namespace paceline
