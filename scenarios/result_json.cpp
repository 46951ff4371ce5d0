// result.json: what a prediction says, in base units (the unit is the end of each key), and the effective
// scenario.
#include "scenarios/result_json.h"

#include <cmath>
#include <string>
#include <utility>

#include "core/fingerprint.h"
#include "core/version.h"
#include "scenarios/gpu_memory.h"
#include "scenarios/json.h"
#include "scenarios/link_traffic_json.h"
#include "scenarios/utilisation.h"
#include "scenarios/writer.h"
#include "sim/report/traffic.h"

namespace paceline {
namespace {

Json::Object breakdown_json(const BreakdownSeconds& b) {
  return {{"compute", b.compute.value},
          {"exposed_communication", b.exposed_communication.value},
          {"straggler_wait", b.straggler_wait.value},
          {"server_wait", b.server_wait.value},
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

Json::Array fusions_json(const std::vector<FusionReport>& fusions) {
  Json::Array array;
  for (const FusionReport& f : fusions) {
    array.push_back(Json::Object{{"tensors", static_cast<std::int64_t>(f.tensors)},
                                 {"bytes", f.bytes.value},
                                 {"queued_s", f.queued.value},
                                 {"agreed_s", f.agreed.value},
                                 {"start_s", f.start.value},
                                 {"end_s", f.end.value}});
  }
  return array;
}

Json::Array stragglers_json(const std::vector<StragglerReport>& stragglers) {
  Json::Array array;
  for (const StragglerReport& s : stragglers) {
    Json::Array as_late;
    for (const Rank rank : s.as_late) {
      as_late.push_back(static_cast<std::int64_t>(rank.value));
    }
    array.push_back(Json::Object{{"rank", static_cast<std::int64_t>(s.rank.value)},
                                 {"gpu", s.gpu},
                                 {"collectives", s.collectives},
                                 {"delay_s", s.delay.value},
                                 {"waited_s", s.waited.value},
                                 {"as_late", std::move(as_late)}});
  }
  return array;
}

Json::Array collectives_json(const std::vector<CollectiveReport>& collectives) {
  Json::Array array;
  for (const CollectiveReport& c : collectives) {
    Json::Object object{{"collective", c.label},
                        {"bytes", c.bytes.value},
                        {"algorithm", name_of(c.algorithm)},
                        {"protocol", name_of(c.protocol)},
                        {"straggler_wait_s", c.straggler_wait.value},
                        {"exposed_communication_s", c.exposed_communication.value}};
    if (c.every > 1) {
      object.push_back({"every_steps", std::int64_t{c.every}});
    }
    array.push_back(std::move(object));
  }
  return array;
}

Json::Object servers_json(const ServersReport& s) {
  Json::Array staleness;
  for (const std::uint64_t gradients : s.staleness) {
    staleness.push_back(static_cast<std::int64_t>(gradients));
  }
  return {{"mean_staleness", s.mean_staleness},
          {"p95_staleness", static_cast<std::int64_t>(s.staleness_p95)},
          {"staleness", std::move(staleness)},
          {"dropped_share", s.dropped_share},
          {"updates", static_cast<std::int64_t>(s.updates)},
          {"hottest_server_in_bytes", s.hottest_server_in.value}};
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

Json::Object sent_json(const SentBytes& s) {
  const auto whole = [](double bytes) { return static_cast<std::int64_t>(std::llround(bytes)); };
  return {{"nvlink", whole(s.nvlink)}, {"pcie", whole(s.pcie)}, {"nic", whole(s.network)}};
}

}  // namespace

Json::Object result_summary(const Prediction& p) {
  const Report& r = p.report;
  const Utilisation used = utilisation(p);
  Json::Object summary{{"gpus", static_cast<std::int64_t>(p.job.ranks())},
                       {"samples_per_step", p.job.samples_per_iteration},
                       {"iterations", std::int64_t{p.scenario.run.iterations}},
                       {"engine", name_of(p.result.engine)},
                       {"fingerprint", to_hex(p.result.fingerprint)},
                       {"step_time_s", step_json(r.step)},
                       {"warm_up_s", r.warm_up.value},
                       {"throughput_samples_per_s", r.throughput},
                       {"counted_steps_samples_per_s", r.counted_throughput},
                       {"tokens_per_s", used.tokens_per_second},
                       {"model_flops_utilisation", used.of_layers},
                       {"model_flops_utilisation_with_attention", used.with_attention},
                       {"compute_source", compute_source(p.scenario)},
                       {"scaling_efficiency", r.scaling_efficiency},
                       {"breakdown_s", breakdown_json(r.breakdown)},
                       {"worst_rank", Json::Object{{"rank", static_cast<std::int64_t>(r.worst_rank.value)},
                                                   {"gpu", gpu_name(p.scenario, r.worst_rank)},
                                                   {"breakdown_s", breakdown_json(r.worst_breakdown)}}},
                       {"sent_bytes", sent_json(sent_bytes(p.job))},
                       {"memory", memory_json(memory_of(p.scenario), memory_of_gpu(p.scenario))}};
  if (r.compression) {
    summary.push_back({"compression", Json::Object{{"ratio", r.compression->ratio},
                                                   {"kernels_s", r.compression->kernels.value},
                                                   {"share_of_step", r.compression->kernels / r.step.mean}}});
  }
  if (r.servers) {
    summary.push_back({"servers", servers_json(*r.servers)});
  }
  if (r.drift) {
    summary.push_back({"drift", Json::Object{{"steps", static_cast<std::int64_t>(r.drift->steps)},
                                             {"change", r.drift->change}}});
  }
  if (r.period) {
    summary.push_back({"period_steps", std::int64_t{r.period->steps}});
    summary.push_back({"synchronising_step_s", r.period->synchronising.value});
    summary.push_back({"local_step_s", r.period->local.value});
  }
  return summary;
}

std::string result_json(const Prediction& p, Json::Object more) {
  Json::Object result{
      {"description", p.scenario.description}, {"paceline", kVersion}, {"model_version", kModelVersion}};
  for (JsonMember& member : result_summary(p)) {
    result.push_back(std::move(member));
  }
  if (!does_not_fit(p.scenario).empty()) {
    const std::vector<std::string> settings = settings_that_fit(p.scenario);
    result.push_back({"would_fit", Json::Array(settings.begin(), settings.end())});
  }
  result.push_back({"engine_reason", p.result.engine_reason});
  result.push_back({"seed", p.scenario.run.seed});
  if (!p.batches.empty()) {
    result.push_back({"batches", Json::Array(p.batches.begin(), p.batches.end())});
  }
  result.push_back({"buckets", buckets_json(p.report.buckets)});
  if (!p.report.fusions.empty()) {
    result.push_back({"fusions", fusions_json(p.report.fusions)});
  }
  result.push_back({"collectives", collectives_json(p.report.collectives)});
  result.push_back({"stragglers", stragglers_json(p.report.stragglers)});
  result.push_back({"links", link_traffic_json(p)});
  result.push_back({"degraded_links", links_json(p.links, p.scenario.run.iterations)});
  for (JsonMember& member : more) {
    result.push_back(std::move(member));
  }
  result.push_back({"scenario", scenario_json(p.scenario)});
  return to_text(Json(std::move(result)));
}

}  // namespace paceline
