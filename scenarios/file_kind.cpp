#include "scenarios/file_kind.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace paceline {
namespace {

struct KindText {
  const char* noun;
  const char* cure;
};
// In the order of FileKind.
constexpr std::array<KindText, 9> kTexts{{
    {"a scenario", "`paceline run` predicts it"},
    {"a result", "`paceline run` runs its scenario again, and `paceline plot` draws it"},
    {"a study", "`paceline sweep` predicts its points"},
    {"a profile", "`paceline run SCENARIO --profile` takes it"},
    {"a validation set", "`paceline validate` takes it"},
    {"a cluster", "`paceline topology` describes it, and a scenario names it as its \"cluster\""},
    {"a model", "a scenario names it: \"model\": {\"file\": ...}"},
    {"a trace", "`paceline calibrate import` reads it, and `paceline plot` draws it"},
    {"measurements", "`paceline calibrate import` reads them"},
}};
static_assert(kTexts.size() == static_cast<std::size_t>(FileKind::unknown));

}  // namespace

FileKind kind_of(const Json& json) {
  const auto has = [&](std::initializer_list<const char*> keys) {
    return std::ranges::any_of(keys, [&](const char* key) { return json.find(key) != nullptr; });
  };
  if (has({"fingerprint"}) && has({"scenario"})) {
    return FileKind::result;
  }
  if (has({"traceEvents"})) {
    return FileKind::trace;
  }
  if (has({"training", "model"}) && !has({"parameters"})) {
    return FileKind::scenario;
  }
  if (has({"fit", "test", "cases", "alternate", "tolerance", "known_gaps", "overlap_known"})) {
    return FileKind::validation_set;
  }
  if (has({"axes", "scenario"})) {
    return FileKind::study;
  }
  if (has({"parameters"})) {
    return FileKind::profile;
  }
  if (has({"layers", "transformer", "model_type"})) {
    return FileKind::model;
  }
  if (has({"node", "fabric"})) {
    return FileKind::cluster;
  }
  return has({"nccl_version", "results"}) ? FileKind::measurements : FileKind::unknown;
}

void require_kind(const Json& json, std::initializer_list<FileKind> wanted) {
  const FileKind found = kind_of(json);
  if (found != FileKind::unknown && std::ranges::find(wanted, found) == wanted.end()) {
    const KindText& text = kTexts[static_cast<std::size_t>(found)];
    throw InputError(std::string("expected ") + kTexts[static_cast<std::size_t>(*wanted.begin())].noun +
                     ", found " + text.noun + ": " + text.cure);
  }
}

}  // namespace paceline
