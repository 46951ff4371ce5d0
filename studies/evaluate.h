// What becomes of one point: its members of a line, from the study and the point alone.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "scenarios/json.h"
#include "scenarios/machines.h"
#include "scenarios/scenario.h"
#include "studies/study.h"

namespace paceline {

// A point whose scenario was read, or why it can't be.
struct ReadPoint {
  PointScenario made;
  std::optional<Scenario> scenario;
  std::string key;       // content_key; empty without a scenario
  Json::Object failure;  // the members "error" and "scenario" of its line; empty with a scenario
};
ReadPoint read_point(const Study&, const StudyPoint&);

// Steps of one GPU that several points are compared with: each is simulated once, whichever thread asks
// first; the others wait for it.
class ReferenceSteps {
 public:
  double seconds(const std::string& key, const std::function<double()>& compute);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_future<double>> steps_;
};

// A step of one GPU in `passes` passes, where `seconds` simulates one of at most kMostPasses: a longer step
// is extended from two shorter ones, as each further pass takes as long as the one before. Exact without
// jitter; with jitter its mean is right.
double lone_step(std::int64_t passes, const std::function<double(std::int64_t)>& seconds);
// The extension alone.
double extended_step(std::int64_t passes, const std::function<double(std::int64_t)>& seconds);

// The members of the point's line after "point". Throws what is not an InputError.
Json::Object point_members(const Study&, const ReadPoint&, ReferenceSteps&, Machines&);

std::string line_of(const StudyPoint&, const Json::Object& members);

}  // namespace paceline
