#include "studies/campaign_view.h"

#include <map>

namespace paceline {
namespace {

// Texts that many rows have, by number.
class Texts {
 public:
  std::uint32_t number(const std::string& text) {
    const auto [at, added] = numbers_.try_emplace(text, static_cast<std::uint32_t>(texts_.size()));
    if (added) {
      texts_.emplace_back(text);
    }
    return at->second;
  }
  Json::Array json() && { return std::move(texts_); }

 private:
  std::map<std::string, std::uint32_t> numbers_;
  Json::Array texts_;
};

}  // namespace

RunView campaign_view(const Scenario& scenario, const CampaignPrediction& p) {
  constexpr std::uint16_t kNoFailure = 65'535;
  const CampaignReport& report = p.reports.front();
  Texts whats, labels, kinds;
  for (const FailureKind& kind : p.spec.failures) {
    kinds.number(kind.name);
  }
  std::vector<double> from, to, undone, useful;
  std::vector<std::uint8_t> what;
  std::vector<std::uint32_t> label;
  std::vector<std::uint16_t> kind;
  std::vector<std::int64_t> steps;
  for (const CampaignEvent& event : report.events) {
    from.push_back(to_seconds(event.from).value);
    to.push_back(to_seconds(event.to).value);
    undone.push_back(to_seconds(event.undone).value);
    useful.push_back(to_seconds(event.useful).value);
    what.push_back(static_cast<std::uint8_t>(whats.number(event.what)));
    label.push_back(labels.number(event.which));
    const bool failure = event.from == event.to;
    kind.push_back(
        failure ? static_cast<std::uint16_t>(kinds.number(event.which.substr(0, event.which.rfind(' '))))
                : kNoFailure);
    steps.push_back(event.steps);
  }
  RunView view;
  view.columns = {column("event_from_s", from),     column("event_to_s", to),
                  column("event_undone_s", undone), column("event_useful_s", useful),
                  column("event_what", what),       column("event_label", label),
                  column("event_kind", kind),       column("event_steps", steps)};
  view.about = Json::Object{{"seed", scenario.run.seed},
                            {"wall_s", to_seconds(report.wall).value},
                            {"whats", std::move(whats).json()},
                            {"labels", std::move(labels).json()},
                            {"kinds", std::move(kinds).json()}};
  return view;
}

}  // namespace paceline
