// What `paceline calibrate compare --json` and `diagnose --json` print.
#include "calibrate/validate/judge.h"
#include "core/version.h"
#include "scenarios/json.h"

namespace paceline {
namespace {

constexpr double kMicro = 1e6;

Json::Array texts(const std::vector<std::string>& from) {
  Json::Array all;
  for (const std::string& each : from) {
    all.emplace_back(each);
  }
  return all;
}

Json row_json(const JudgedLog& judged, const JudgedRow& row) {
  const CollectiveMeasurement& one = judged.data.collectives[row.row];
  Json::Object json{{"file", one.origin.file}, {"line", one.origin.line},
                    {"table", one.table},      {"collective", name_of(one.kind)},
                    {"size", one.bytes.value}, {"measured_us", one.time.value * kMicro}};
  if (!row.judged) {
    json.push_back({"left_out", row.left_out});
    return json;
  }
  const ExpectedPoint& expected = judged.log.expected[row.point];
  const MeasuredPlace& place = judged.log.places[judged.log.points[row.point].place];
  json.push_back({"nodes", place.nodes()});
  json.push_back({"nodes_stated", place.nodes_stated});
  json.push_back({"gpus", place.ranks()});
  json.push_back({"nccl", place.spec.nccl});
  json.push_back({"predicted_us", expected.time.value * kMicro});
  json.push_back({"low_us", expected.interval.low.value * kMicro});
  json.push_back({"high_us", expected.interval.high.value * kMicro});
  json.push_back({"impossible", expected.impossible});
  json.push_back({"ratio", one.time.value / expected.time.value});
  json.push_back({"algorithm", expected.cost.channels > 0 ? name_of(expected.cost.plan.algorithm) : "none"});
  json.push_back({"protocol", expected.cost.channels > 0 ? name_of(expected.cost.plan.protocol) : "none"});
  json.push_back({"channels", static_cast<std::int64_t>(expected.cost.channels)});
  return json;
}

Json explanation_json(const Cause& one) {
  return Json::Object{{"faults", texts(one.names)},
                      {"log_odds", one.log_odds},
                      {"error", one.error},
                      {"launch_us", one.launch.value * kMicro},
                      {"look", one.look}};
}

Json::Object head(const JudgedLog& judged) {
  return {{"paceline", kVersion},
          {"model_version", kModelVersion},
          {"healthy", judged.healthy()},
          {"nccl_stated", judged.log.nccl_stated},
          {"remarks", texts(judged.remarks)},
          {"verdict", texts(judged.verdict)}};
}

}  // namespace

std::string compare_json(const JudgedLog& judged) {
  Json::Object json = head(judged);
  Json::Array rows, stretches;
  for (const JudgedRow& row : judged.rows) {
    rows.push_back(row_json(judged, row));
  }
  for (const Stretch& each : judged.stretches) {
    const MeasuredPlace& place = judged.log.places[each.place];
    stretches.push_back(Json::Object{{"collective", name_of(place.kind)},
                                     {"nodes", place.nodes()},
                                     {"gpus", place.ranks()},
                                     {"first_bytes", each.first.value},
                                     {"last_bytes", each.last.value},
                                     {"as_expected", each.expected},
                                     {"speed", each.speed}});
  }
  json.push_back({"explanation", explanation_json(judged.diagnosis.best())});
  json.push_back({"stretches", std::move(stretches)});
  json.push_back({"rows", std::move(rows)});
  return to_text(Json(std::move(json))) + "\n";
}

std::string diagnose_json(const JudgedLog& judged) {
  Json::Object json = head(judged);
  Json::Array ranked;
  for (const Cause& each : judged.diagnosis.ranked) {
    ranked.push_back(explanation_json(each));
  }
  json.push_back({"ranked", std::move(ranked)});
  json.push_back({"unseen", texts(judged.diagnosis.unseen)});
  return to_text(Json(std::move(json))) + "\n";
}

}  // namespace paceline
