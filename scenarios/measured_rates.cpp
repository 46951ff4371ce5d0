// Measured rates of one GPU: one, one with what it was measured with, or several; in samples or tokens.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "scenarios/reader.h"
#include "scenarios/schema_writer.h"
#include "scenarios/writer.h"

namespace paceline {
namespace {

constexpr std::string_view kTokens = "tokens/s", kSamples = "samples/s";
constexpr Unit kUnits[] = {{kSamples}, {kTokens}};
constexpr Dimension kMeasured = {Dimension::Kind::sample_rate, "a rate", "400 samples/s", kSamples, kUnits};
constexpr std::size_t kMostRates = 100;

// A rate of tokens as one of samples, which it is once the model is known.
bool take_tokens(Json& json, const Spot& spot) {
  static_cast<void>(read_quantity(json, kMeasured, between(-1e308, 1e308), spot));  // its bounds are samples'
  const std::string text = *json.as<std::string>();
  if (!text.ends_with(kTokens)) {
    return false;
  }
  json = text.substr(0, text.size() - kTokens.size()) + std::string(kSamples);
  return true;
}

MeasuredRate one_rate(Json json, const Spot& spot) {
  MeasuredRate rate;
  if (auto* object = std::get_if<Json::Object>(&json.value)) {
    bool tokens = false;
    for (JsonMember& member : *object) {
      tokens = tokens || (member.key == "rate" && take_tokens(member.value, below(spot, "rate")));
    }
    read_object(json, rate, spot);
    rate.of_tokens = tokens;
  } else {
    rate.of_tokens = take_tokens(json, spot);
    read(json, rate.rate, kSampleRate, spot);
  }
  return rate;
}

Json& member(Json::Object& object, std::string_view key) {
  return std::ranges::find(object, key, &JsonMember::key)->value;
}

Json written(const MeasuredRate& rate) {
  const bool bare = rate.batch_per_gpu == 0 && rate.accumulation == 0 &&
                    !rate.activation_checkpointing.has_value() && rate.recompute_every == 0;
  return bare ? write(rate.rate) : write<MeasuredRate>(rate);
}

}  // namespace

void read(const Json& json, std::vector<MeasuredRate>& rates, const Limits&, const Spot& spot) {
  rates.clear();
  const auto* list = json.as<Json::Array>();
  if (list == nullptr) {
    rates.push_back(one_rate(json, spot));
    return;
  }
  if (list->empty() || list->size() > kMostRates) {
    fail_at(spot, "1 to " + std::to_string(kMostRates) + " rates", std::to_string(list->size()));
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    rates.push_back(one_rate((*list)[i], below(spot, i)));
  }
}

Json write(const std::vector<MeasuredRate>& rates) {
  if (rates.size() == 1) {
    return written(rates.front());
  }
  Json::Array all;
  for (const MeasuredRate& rate : rates) {
    all.push_back(written(rate));
  }
  return all;
}

Json::Object schema_of(Type<std::vector<MeasuredRate>>, const Limits&) {
  const Json::Object bare = schema_of_quantity(kMeasured, kSampleRate);
  Json::Object with = schema_of(Type<MeasuredRate>{}, any());
  Json::Object& rate =
      std::get<Json::Object>(member(std::get<Json::Object>(member(with, "properties").value), "rate").value);
  for (const JsonMember& each : bare) {
    member(rate, each.key) = each.value;
  }
  const Json::Object whole = titled("with what it was measured with", std::move(with));
  return one_of({bare, whole,
                 titled("with several batches", {{"type", "array"},
                                                 {"items", one_of({bare, whole})},
                                                 {"minItems", 1},
                                                 {"maxItems", static_cast<std::int64_t>(kMostRates)}})});
}

void require_distinct_batches(const TrainingSpec& training, const Spot& spot) {
  const std::vector<MeasuredRate> rates = pinned_rates(training);
  for (std::size_t i = 0; i < rates.size(); ++i) {
    if (!training.layer_times.empty() && rates[i].batch_per_gpu != training.batch_per_gpu) {
      throw InputError("expected no layer_times, which hold for one batch, with a rate measured with " +
                           std::to_string(rates[i].batch_per_gpu) + " and not " +
                           std::to_string(training.batch_per_gpu),
                       spot.place);
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (rates[k].batch_per_gpu == rates[i].batch_per_gpu) {
        throw InputError("expected one measured rate for each batch, found two for " +
                             std::to_string(rates[i].batch_per_gpu),
                         below(spot, "measured").place);
      }
    }
  }
}

}  // namespace paceline
