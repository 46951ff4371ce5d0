// "campaign" of a result.json, and the events as CSV.
#include <functional>

#include "core/fingerprint.h"
#include "core/version.h"
#include "scenarios/campaign.h"
#include "scenarios/result_json.h"
#include "scenarios/writer.h"

namespace paceline {
namespace {

Json::Object spread_json(const CampaignPrediction& p,
                         const std::function<double(const CampaignReport&)>& of) {
  std::vector<double> values;
  for (const CampaignReport& report : p.reports) {
    values.push_back(of(report));
  }
  const Spread spread = spread_of(std::move(values));
  return {{"mean", spread.mean},
          {"standard_deviation", spread.deviation},
          {"p5", spread.p5},
          {"p95", spread.p95}};
}

Json::Object losses_json(const CampaignPrediction& p) {
  Json::Object losses;
  for (const auto& [name, loss] : kNames<CampaignLoss>) {
    const auto at = static_cast<std::size_t>(loss);
    losses.push_back({std::string(name), spread_json(p, [at](const CampaignReport& r) {
                        return to_seconds(r.losses[at]).value;
                      })});
  }
  return losses;
}

std::int64_t all_failures(const CampaignReport& r) {
  std::int64_t sum = 0;
  for (const std::int64_t count : r.failures) {
    sum += count;
  }
  return sum;
}

Json::Object failures_json(const CampaignPrediction& p) {
  Json::Object failures{
      {"all", spread_json(p, [](const CampaignReport& r) { return static_cast<double>(all_failures(r)); })}};
  Json::Object kinds;
  for (std::size_t k = 0; k < p.spec.failures.size(); ++k) {
    kinds.push_back({p.spec.failures[k].name, spread_json(p, [k](const CampaignReport& r) {
                       return static_cast<double>(r.failures[k]);
                     })});
  }
  failures.push_back({"by_kind", std::move(kinds)});
  return failures;
}

// Each campaign in whole picoseconds, as texts: they are longer than a double.
Json::Array seeds_json(const CampaignPrediction& p) {
  const auto whole = [](CampaignTime t) {
    std::string digits;
    for (PicosecondSum rest = t.ps; rest > 0 || digits.empty(); rest /= 10) {
      digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
    }
    return digits;
  };
  Json::Array seeds;
  std::uint64_t seed = p.spec.seed;
  for (const CampaignReport& r : p.reports) {
    Json::Object losses;
    for (const auto& [name, loss] : kNames<CampaignLoss>) {
      losses.push_back({std::string(name), whole(r.losses[static_cast<std::size_t>(loss)])});
    }
    seeds.push_back(Json::Object{{"seed", seed++},
                                 {"end", name_of(r.end)},
                                 {"goodput", r.goodput_share()},
                                 {"steps", r.steps},
                                 {"samples", r.samples},
                                 {"failures", all_failures(r)},
                                 {"restarts", r.restarts},
                                 {"resubmissions", r.resubmissions},
                                 {"membership_changes", r.membership_changes},
                                 {"checkpoints", r.checkpoints},
                                 {"wall_ps", whole(r.wall)},
                                 {"goodput_ps", whole(r.goodput)},
                                 {"losses_ps", std::move(losses)}});
  }
  return seeds;
}

Seconds interval_of(const CampaignPrediction& p) {
  const CheckpointTimes& c = p.spec.checkpoint;
  return c.steps > 0 ? to_seconds(CampaignTime(p.healthy.mean) * c.steps) : to_seconds(c.interval);
}

Json::Object interval_json(const CampaignPrediction& p) {
  const CheckpointTimes& c = p.spec.checkpoint;
  const Seconds interval = interval_of(p);
  Json::Array fatal;
  for (std::string& name : fatal_failures(p.spec)) {
    fatal.emplace_back(std::move(name));
  }
  Json::Object json{{"rule", name_of(c.rule)},
                    {"interval_s", interval.value},
                    {"stall_s", to_seconds(c.stall).value},
                    {"upload_s", to_seconds(c.upload).value},
                    {"lost_with", std::move(fatal)}};
  const auto [d, r, m] = p.inputs;
  if (m.value > 0) {
    const RuleIntervals rules = rule_intervals(p.spec);
    json.push_back({"young_s", rules.young.value});
    json.push_back({"daly_s", rules.daly.value});
    json.push_back({"best_s", rules.best.value});
    json.push_back({"expected_goodput", 1 / expected_wall_per_work(interval, d, r, m)});
  }
  return json;
}

Json::Object goal_json(const Scenario& s, const CampaignPrediction& p) {
  const Goal goal = intervals_for(s.faults->goal, p.inputs.d, p.inputs.m, least_interval(p.spec.checkpoint));
  Json::Array rows;
  for (const GoalRow& row : goal.rows) {
    if (row.to.value > 0) {
      rows.push_back(
          Json::Object{{"restart_s", row.restart.value}, {"from_s", row.from.value}, {"to_s", row.to.value}});
    }
  }
  return {{"goodput", s.faults->goal},
          {"longest_restart_s", goal.longest_restart.value},
          {"intervals", std::move(rows)}};
}

}  // namespace

Json::Object campaign_json(const Scenario& s, const CampaignPrediction& p) {
  Json::Object json{
      {"fingerprint", to_hex(fingerprint_of(p))},
      {"step_s", to_seconds(p.healthy.mean).value},
      {"step_given", p.given},
      {"step_taken", name_of(p.taken)},
      {"step_reason", why_taken(p)},
      {"states", static_cast<std::int64_t>(p.states)},
      {"system_mtbf_s", p.inputs.m.value},
      {"restart_s", p.inputs.r.value},
      {"load_s", to_seconds(p.spec.restart.load).value},
      {"checkpoint", interval_json(p)},
      {"goodput", spread_json(p, [](const CampaignReport& r) { return r.goodput_share(); })},
      {"wall_s", spread_json(p, [](const CampaignReport& r) { return to_seconds(r.wall).value; })},
      {"steps", spread_json(p, [](const CampaignReport& r) { return static_cast<double>(r.steps); })},
      {"samples", spread_json(p, [](const CampaignReport& r) { return static_cast<double>(r.samples); })},
      {"losses_s", losses_json(p)},
      {"failures", failures_json(p)}};
  if (p.inputs.m.value > 0) {
    json.push_back({"goal", goal_json(s, p)});
  }
  Json::Array levers;
  for (const LeverGoodput& lever : p.levers) {
    levers.push_back(Json::Object{{"lever", name_of(lever.lever)}, {"goodput", lever.goodput}});
  }
  json.push_back({"levers", std::move(levers)});
  json.push_back({"seeds", seeds_json(p)});
  return json;
}

Json::Object campaign_summary(const CampaignPrediction& p) {
  const auto mean = [&](const std::function<double(const CampaignReport&)>& of) {
    double sum = 0;
    for (const CampaignReport& report : p.reports) {
      sum += of(report);
    }
    return sum / static_cast<double>(p.reports.size());
  };
  Json::Object losses;
  for (const auto& [name, loss] : kNames<CampaignLoss>) {
    const auto at = static_cast<std::size_t>(loss);
    losses.push_back(
        {std::string(name), mean([at](const CampaignReport& r) { return to_seconds(r.losses[at]).value; })});
  }
  const Spread goodput = goodput_of(p);
  const auto failures = [](const CampaignReport& r) { return static_cast<double>(all_failures(r)); };
  Json::Object campaign{
      {"interval_s", interval_of(p).value},
      {"system_mtbf_s", p.inputs.m.value},
      {"wall_s", mean([](const CampaignReport& r) { return to_seconds(r.wall).value; })},
      {"steps", mean([](const CampaignReport& r) { return static_cast<double>(r.steps); })},
      {"samples", mean([](const CampaignReport& r) { return static_cast<double>(r.samples); })},
      {"failures", mean(failures)},
      {"losses_s", std::move(losses)}};
  return {{"goodput", goodput.mean},
          {"goodput_p5", goodput.p5},
          {"goodput_p95", goodput.p95},
          {"campaign", std::move(campaign)}};
}

std::string campaign_result_json(const Scenario& s, const CampaignPrediction& p) {
  Json::Object result{{"description", s.description},
                      {"paceline", kVersion},
                      {"model_version", kModelVersion},
                      {"gpus", gpus_of_job(s.cluster)},
                      {"fingerprint", to_hex(fingerprint_of(p))},
                      {"seed", s.run.seed},
                      {"campaign", campaign_json(s, p)},
                      {"scenario", scenario_json(s)}};
  return to_text(Json(std::move(result)));
}

namespace {

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) {
    return text;
  }
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c == '"' ? "\"\"" : std::string(1, c);
  }
  return quoted + '"';
}

}  // namespace

std::string campaign_events_csv(const CampaignReport& report) {
  std::string text = "from_s,to_s,what,which,steps,undone_s,useful_s\n";
  for (const CampaignEvent& event : report.events) {
    text += number_text(to_seconds(event.from).value) + ',' + number_text(to_seconds(event.to).value) + ',' +
            event.what + ',' + csv_cell(event.which) + ',' + std::to_string(event.steps) + ',' +
            number_text(to_seconds(event.undone).value) + ',' + number_text(to_seconds(event.useful).value) +
            '\n';
  }
  return text;
}

}  // namespace paceline
