#include <cmath>

#include "calibrate/validate/reports.h"
#include "core/version.h"
#include "scenarios/json.h"

namespace paceline {
namespace {

Json figures_json(const ComparedSet& set, const auto& of) {
  Json::Object figures;
  for (const Figure which : figures_of(set)) {
    if (const std::optional<double> value = figure(which, of)) {
      figures.push_back({std::string(name_of(which)), *value});
    }
  }
  const Coverage all = coverage(of);
  figures.push_back({"rows", static_cast<std::int64_t>(all.rows)});
  figures.push_back({"inside_interval", static_cast<std::int64_t>(all.inside)});
  return figures;
}

Json row_json(const ComparedRow& row) {
  Json::Object json{
      {"table", row.table}, {"line", row.origin.line}, {"nodes", row.nodes}, {"gpus", row.ranks}};
  const auto add = [&](const char* name, double value) { json.push_back({name, value}); };
  if (row.bytes > 0) {  // collectives: microseconds, as nccl-tests prints them
    constexpr double kPerSecond = 1e6;
    json.push_back({"size", row.bytes});
    add("measured_us", row.measured * kPerSecond);
    add("predicted_us", row.predicted * kPerSecond);
    add("low_us", row.low * kPerSecond);
    add("high_us", row.high * kPerSecond);
    if (row.interpolated) {
      add("interpolated_us", *row.interpolated * kPerSecond);
    }
  } else {
    add("measured_samples_per_s", row.measured);
    add("predicted_samples_per_s", row.predicted);
    add("low_samples_per_s", row.low);
    add("high_samples_per_s", row.high);
    if (row.on_line) {
      add("log_log_line_samples_per_s", *row.on_line);
    }
    if (row.scaled) {
      add("perfect_scaling_samples_per_s", *row.scaled);
    }
  }
  add("error", row.predicted / row.measured - 1);
  if (!row.excluded.empty()) {
    json.push_back({"excluded", row.excluded});
  }
  return json;
}

Json case_json(const ComparedSet& set, const ComparedCase& one) {
  Json::Array fitted, rows;
  for (const std::string& each : one.fitted) {
    fitted.emplace_back(each);
  }
  for (const ComparedRow& row : one.rows) {
    rows.push_back(row_json(row));
  }
  Json::Object json{{"name", one.name}, {"fitted", std::move(fitted)}, {"source", one.source}};
  if (!one.excluded.empty()) {
    json.push_back({"excluded", one.excluded});
  }
  json.push_back({"figures", figures_json(set, std::span<const ComparedRow>(one.rows))});
  json.push_back({"rows", std::move(rows)});
  return json;
}

Json check_json(const Check& check) {
  Json::Object json;
  if (!check.case_name.empty()) {
    json.push_back({"case", check.case_name});
  }
  json.push_back({"which", name_of(check.which)});
  json.push_back({"value", check.value});
  json.push_back({"tolerance", check.limit});
  json.push_back({"verdict", name_of(check.verdict)});
  if (!check.why.empty()) {
    json.push_back({"known_gap", check.known});
    json.push_back({"why", check.why});
  }
  return json;
}

}  // namespace

std::string validation_json(std::span<const ComparedSet> sets) {
  Json::Array all;
  Coverage inside;
  bool holds = true;
  for (const ComparedSet& set : sets) {
    Json::Array cases, checks;
    for (const ComparedCase& each : set.cases) {
      cases.push_back(case_json(set, each));
    }
    for (const Check& each : set.checks) {
      checks.push_back(check_json(each));
      holds = holds && each.holds();
    }
    const Coverage of_set = coverage(std::span<const ComparedCase>(set.cases));
    inside.rows += of_set.rows;
    inside.inside += of_set.inside;
    all.push_back(Json::Object{{"file", set.set.file},
                               {"description", set.set.description},
                               {"figures", figures_json(set, std::span<const ComparedCase>(set.cases))},
                               {"checks", std::move(checks)},
                               {"cases", std::move(cases)}});
  }
  return to_text(Json(Json::Object{{"paceline", kVersion},
                                   {"model_version", kModelVersion},
                                   {"holds", holds},
                                   {"rows", static_cast<std::int64_t>(inside.rows)},
                                   {"inside_interval", static_cast<std::int64_t>(inside.inside)},
                                   {"sets", std::move(all)}}));
}

}  // namespace paceline
