// result.json: what a prediction says, in base units (the unit is the end of each key), and the effective
// scenario.
#include <string>

#include "core/fingerprint.h"
#include "scenarios/json.h"
#include "scenarios/predict.h"
#include "scenarios/writer.h"

namespace paceline {
namespace {

Json::Object breakdown_json(const BreakdownSeconds& b) {
  return {{"compute", b.compute.value},
          {"exposed_communication", b.exposed_communication.value},
          {"straggler_wait", b.straggler_wait.value},
          {"input_wait", b.input_wait.value},
          {"other", b.other.value}};
}

Json::Object step_json(const StepTime& s) {
  return {{"mean", s.mean.value}, {"p50", s.p50.value}, {"p95", s.p95.value},
          {"p99", s.p99.value},   {"min", s.min.value}, {"max", s.max.value}};
}

Json::Array buckets_json(const std::vector<BucketReport>& buckets) {
  Json::Array array;
  for (const BucketReport& b : buckets) {
    array.push_back(Json::Object{{"bytes", b.bytes.value},
                                 {"ready_s", b.ready.value},
                                 {"start_s", b.start.value},
                                 {"end_s", b.end.value}});
  }
  return array;
}

Json::Array stragglers_json(const std::vector<StragglerReport>& stragglers) {
  Json::Array array;
  for (const StragglerReport& s : stragglers) {
    array.push_back(Json::Object{{"rank", static_cast<std::int64_t>(s.rank.value)},
                                 {"gpu", s.gpu},
                                 {"collectives", s.collectives},
                                 {"delay_s", s.delay.value}});
  }
  return array;
}

Json::Array links_json(const std::vector<LinkReport>& links, int steps) {
  Json::Array array;
  for (const LinkReport& l : links) {
    array.push_back(Json::Object{{"link", l.link},
                                 {"step_delay_s", l.step_delay.value},
                                 {"delay_s", (l.step_delay * static_cast<double>(steps)).value}});
  }
  return array;
}

}  // namespace

std::string result_json(const Prediction& p) {
  const Report& r = p.report;
  return to_text(
      Json(Json::Object{{"description", p.scenario.description},
                        {"engine", kEngineNames[static_cast<std::size_t>(p.result.engine)]},
                        {"engine_reason", p.result.engine_reason},
                        {"gpus", static_cast<std::int64_t>(p.job.ranks())},
                        {"iterations", std::int64_t{p.scenario.run.iterations}},
                        {"seed", p.scenario.run.seed},
                        {"fingerprint", to_hex(p.result.fingerprint)},
                        {"step_time_s", step_json(r.step)},
                        {"warm_up_s", r.warm_up.value},
                        {"throughput_samples_per_s", r.throughput},
                        {"scaling_efficiency", r.scaling_efficiency},
                        {"breakdown_s", breakdown_json(r.breakdown)},
                        {"worst_rank", Json::Object{{"rank", static_cast<std::int64_t>(r.worst_rank.value)},
                                                    {"gpu", gpu_name(p.scenario, r.worst_rank)},
                                                    {"breakdown_s", breakdown_json(r.worst_breakdown)}}},
                        {"buckets", buckets_json(r.buckets)},
                        {"stragglers", stragglers_json(r.stragglers)},
                        {"degraded_links", links_json(r.links, p.scenario.run.iterations)},
                        {"scenario", scenario_json(p.scenario)}}));
}

}  // namespace paceline
