#include "scenarios/faults_trace.h"

#include <algorithm>
#include <sstream>

#include "core/error.h"
#include "core/text.h"
#include "scenarios/json.h"
#include "scenarios/limits.h"
#include "scenarios/quantities.h"

namespace paceline {
namespace {

// Without quotes, as no name that may stand here needs them; spaces around a field don't count.
std::vector<std::string> fields_of(std::string line) {
  line += ',';
  std::vector<std::string> fields;
  for (std::size_t at = 0, comma = 0; (comma = line.find(',', at)) != std::string::npos; at = comma + 1) {
    std::string field = line.substr(at, comma - at);
    field.erase(0, std::min(field.find_first_not_of(" \t\""), field.size()));
    field.erase(field.find_last_not_of(" \t\r\"") + 1);
    fields.push_back(std::move(field));
  }
  return fields;
}

std::size_t column(const std::vector<std::string>& fields, const char* name, const std::string& line,
                   const std::string& place) {
  const auto found = std::ranges::find(fields, name);
  if (found == fields.end()) {
    throw InputError("expected the columns time, what and which, found " + in_quotes(line), place);
  }
  return static_cast<std::size_t>(found - fields.begin());
}

}  // namespace

std::vector<FailureEvent> read_failure_trace(const std::string& text) {
  std::vector<FailureEvent> events;
  std::istringstream lines(text);
  std::size_t number = 0, width = 0, time = 0, what = 0, which = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string place = "line " + std::to_string(++number);
    if (line.find_first_not_of(" \t\r") == std::string::npos || line.front() == '#') {
      continue;
    }
    const std::vector<std::string> fields = fields_of(line);
    if (width == 0) {
      time = column(fields, "time", line, place);
      what = column(fields, "what", line, place);
      which = column(fields, "which", line, place);
      width = fields.size();
      continue;
    }
    if (fields.size() != width) {
      throw InputError(
          "expected " + std::to_string(width) + " fields, found " + std::to_string(fields.size()), place);
    }
    FailureEvent event;
    try {
      event.time = LongSeconds(parse_quantity(fields[time], dimension_of(LongSeconds{})));
    } catch (const InputError& error) {
      throw error.at(place);
    }
    event.what = fields[what];
    event.line = number;
    const std::string& part = fields[which];
    const auto index = number_in<decltype(event.which)>(part);
    if (!index || *index < 0) {
      throw InputError("expected a number from 0 for `which`, found " + in_quotes(part), place);
    }
    event.which = *index;
    if (!(event.time.value >= 0 && event.time <= kLongestCampaign)) {
      throw InputError("expected a time of at most ten years, found " + in_quotes(fields[time]), place);
    }
    if (!events.empty() && event.time < events.back().time) {
      throw InputError("expected events in order of time, found " + to_text(event.time) + " after " +
                           to_text(events.back().time),
                       place);
    }
    events.push_back(std::move(event));
  }
  if (width == 0) {
    throw InputError("expected the columns time, what and which, found nothing");
  }
  return events;
}

}  // namespace paceline
