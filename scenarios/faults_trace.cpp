#include "scenarios/faults_trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "core/error.h"
#include "scenarios/json.h"
#include "scenarios/limits.h"
#include "scenarios/quantities.h"

namespace paceline {
namespace {

constexpr std::array<const char*, 3> kColumns{"time", "what", "which"};

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

}  // namespace

std::vector<FailureEvent> read_failure_trace(const std::string& text) {
  std::vector<FailureEvent> events;
  std::istringstream lines(text);
  std::array<std::size_t, kColumns.size()> columns{};
  std::size_t number = 0, width = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string place = "line " + std::to_string(++number);
    if (line.find_first_not_of(" \t\r") == std::string::npos || line.front() == '#') {
      continue;
    }
    const std::vector<std::string> fields = fields_of(line);
    if (width == 0) {
      for (std::size_t i = 0; i < kColumns.size(); ++i) {
        columns[i] = static_cast<std::size_t>(std::ranges::find(fields, kColumns[i]) - fields.begin());
        if (columns[i] == fields.size()) {
          throw InputError("expected the columns time, what and which, found " + in_quotes(line), place);
        }
      }
      width = fields.size();
      continue;
    }
    if (fields.size() != width) {
      throw InputError(
          "expected " + std::to_string(width) + " fields, found " + std::to_string(fields.size()), place);
    }
    FailureEvent event;
    try {
      event.time = LongSeconds(parse_quantity(fields[columns[0]], dimension_of(LongSeconds{})));
    } catch (const InputError& error) {
      throw error.at(place);
    }
    event.what = fields[columns[1]];
    const std::string& which = fields[columns[2]];
    const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), event.which);
    if (error != std::errc() || end != which.data() + which.size() || event.which < 0) {
      throw InputError("expected a number from 0 for `which`, found " + in_quotes(which), place);
    }
    if (!(event.time.value >= 0 && event.time <= kLongestCampaign)) {
      throw InputError("expected a time of at most ten years, found " + in_quotes(fields[columns[0]]), place);
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
