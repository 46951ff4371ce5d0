#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "core/error.h"
#include "scenarios/file_kind.h"
#include "scenarios/hugging_face.h"
#include "scenarios/named_json.h"
#include "scenarios/reader.h"

namespace paceline {
namespace {

void check_model(const Model& model, const Spot& spot) {
  std::size_t tensors = 0;
  std::int64_t parameters = 0;
  for (const Layer& layer : model.layers) {
    tensors += layer.parameters.size();
    for (const std::int64_t elements : layer.parameters) {
      parameters = std::min(parameters + elements, kMostParameters + 1);
    }
  }
  if (parameters > kMostParameters || tensors > kMostTensors) {
    fail_at(spot,
            "a model of at most " + std::to_string(kMostParameters) + " parameters in " +
                std::to_string(kMostTensors) + " tensors",
            "more");
  }
}

Model model_of_transformer(const Json& json, const Spot& spot) {
  ModelOfTransformer form;
  read_object(json, form, spot);
  try {
    Model model = transformer(form.transformer);
    model.name = form.name.empty() ? model.name : form.name;
    if (form.most_tokens > 0) {
      model.most_tokens =
          std::min(form.most_tokens, model.most_tokens > 0 ? model.most_tokens : form.most_tokens);
      model = at_sequence(std::move(model), form.transformer.sequence);
    }
    return model;
  } catch (const InputError& error) {
    throw error.at(below(spot, "transformer").place);
  }
}

Model model_in_file(const Json& json, const Spot& spot) {
  require_kind(json, {FileKind::model});
  Model model;
  if (is_hugging_face_config(json)) {
    model = model_of_config(json, spot);
  } else if (json.find("transformer") != nullptr) {
    model = model_of_transformer(json, spot);
  } else {
    read_object(json, model, spot);
  }
  check_model(model, spot);
  return model;
}

Model with_sequence(Model model, std::int64_t sequence, const Spot& spot) {
  if (sequence == 0) {
    return model;
  }
  try {
    return at_sequence(std::move(model), sequence);
  } catch (const InputError& error) {
    throw error.at(below(spot, "sequence").place);
  }
}

Model model_of_preset(const Json& json, const Spot& spot) {
  ModelPreset form;
  read_object(json, form, spot);
  const Json preset = model_json(form.preset, below(spot, "preset"));
  Model model = with_sequence(model_in_file(preset, {}), form.sequence, spot);
  model.input_bytes = std::max(model.input_bytes, form.input_bytes);
  return model;
}

Model model_of_file(const Json& json, const Spot& spot) {
  ModelFile form;
  read_object(json, form, spot);
  const NamedJson file = json_in_file(form.file, below(spot, "file"));
  Model model = read_named_json(file, model_in_file);
  if (is_hugging_face_config(file.json) && form.sequence == 0) {
    throw InputError(
        R"(missing key "sequence": a model's configuration doesn't say how many tokens its samples have)",
        spot.place);
  }
  model.name = form.name.empty() ? model.name : form.name;
  return with_sequence(std::move(model), form.sequence, spot);
}

}  // namespace

void read(const Json& json, Model& model, const Limits&, const Spot& spot) {
  if (const auto* name = json.as<std::string>()) {
    model = model_in_file(model_json(*name, spot), {});
  } else if (json.as<Json::Object>() == nullptr) {
    fail_at(spot, "the name of a model or an object", shown(json));
  } else if (is_hugging_face_config(json)) {
    fail_at(
        spot,
        R"(Hugging Face's configuration in a file of its own ({"file": "config.json", "sequence": TOKENS}))",
        "it here");
  } else if (json.find("file") != nullptr) {
    model = model_of_file(json, spot);
  } else if (json.find("transformer") != nullptr) {
    model = model_of_transformer(json, spot);
  } else if (json.find("preset") != nullptr || json.find("sequence") != nullptr) {
    model = model_of_preset(json, spot);
  } else {
    read_object(json, model, spot);
  }
  check_model(model, spot);
}

Model builtin_model(const std::string& name) { return model_in_file(model_json(name, {}), {}); }

}  // namespace paceline
