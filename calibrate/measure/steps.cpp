#include "calibrate/measure/steps.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <fstream>
#include <map>
#include <sstream>

#include "calibrate/measure/result_file.h"
#include "core/error.h"

namespace paceline::measure {
namespace {

std::string place(int line) { return "line " + std::to_string(line); }

// A field of a line by its column's name; empty where the line or the file has none.
class Fields {
 public:
  Fields(const std::map<std::string, std::size_t>& columns, std::vector<std::string> fields, int line)
      : columns_(columns), fields_(std::move(fields)), line_(line) {}

  std::string text(const std::string& column) const {
    const auto found = columns_.find(column);
    return found == columns_.end() || found->second >= fields_.size() ? "" : fields_[found->second];
  }
  double number(const std::string& column, double least, double most) const {
    const std::string field = text(column);
    double value = 0;
    const char* end = field.data() + field.size();
    const auto [stop, error] = std::from_chars(field.data(), end, value);
    if (error != std::errc{} || stop != end || !(value >= least) || !(value <= most)) {
      throw InputError(column + " must be a number from " + std::to_string(static_cast<std::int64_t>(least)) +
                           " to " + std::to_string(static_cast<std::int64_t>(most)) + ", not \"" + field +
                           "\"",
                       place(line_));
    }
    return value;
  }

 private:
  const std::map<std::string, std::size_t>& columns_;
  std::vector<std::string> fields_;
  int line_;
};

constexpr double kLongestOperationUs = 3.6e9;
constexpr double kLargestCollective = 8.0 * (std::int64_t{1} << 30);

StepOperation read_operation(const Fields& fields, int collectives, int line) {
  StepOperation operation{.label = fields.text("label")};
  operation.kind = value_named<StepOperation::Kind>("op", fields.text("op"), place(line));
  switch (operation.kind) {
    case StepOperation::Kind::compute:
      operation.duration_s = fields.number("duration_us", 0, kLongestOperationUs) * 1e-6;
      break;
    case StepOperation::Kind::collective:
      operation.index = static_cast<int>(fields.number("index", 0, 1e6));
      operation.bytes = static_cast<std::int64_t>(fields.number("bytes", 1, kLargestCollective));
      if (operation.index != collectives) {
        throw InputError("collectives are numbered in order: this one is " + std::to_string(collectives) +
                             ", not " + std::to_string(operation.index),
                         place(line));
      }
      break;
    case StepOperation::Kind::wait:
      operation.index = static_cast<int>(fields.number("index", 0, 1e6));
      if (operation.index >= collectives) {
        throw InputError(
            "waits for collective " + std::to_string(operation.index) + " before it is handed over",
            place(line));
      }
      break;
  }
  return operation;
}

}  // namespace

std::vector<StepOperation> parse_steps(const std::string& text) {
  std::istringstream in(text);
  std::string line;
  std::map<std::string, std::size_t> columns;
  if (std::getline(in, line)) {
    const std::vector<std::string> names = csv_fields(line);
    for (std::size_t i = 0; i < names.size(); ++i) {
      columns.emplace(names[i], i);
    }
  }
  for (const char* column : {"op", "index", "duration_us", "bytes"}) {
    if (!columns.contains(column)) {
      throw InputError(
          std::string("the column ") + column + " is missing; needed: op,index,duration_us,bytes", place(1));
    }
  }
  std::vector<StepOperation> operations;
  int collectives = 0;
  for (int number = 2; std::getline(in, line); ++number) {
    if (line.empty() || line == "\r") {
      continue;
    }
    operations.push_back(read_operation(Fields(columns, csv_fields(line), number), collectives, number));
    collectives += operations.back().kind == StepOperation::Kind::collective ? 1 : 0;
  }
  if (operations.empty()) {
    throw InputError("there is no operation");
  }
  return operations;
}

std::vector<StepOperation> read_steps(const std::string& path) {
  std::ifstream in(path);
  if (!in) {
    throw InputError("cannot be read", "", path);
  }
  std::ostringstream text;
  text << in.rdbuf();
  try {
    return parse_steps(text.str());
  } catch (const InputError& error) {
    throw error.in_file(path);
  }
}

std::vector<double> step_times(std::span<const std::vector<double>> ends_by_rank, bool one_clock) {
  assert(!ends_by_rank.empty());
  std::vector<double> times;
  for (std::size_t i = 1; i < ends_by_rank[0].size(); ++i) {
    double latest = ends_by_rank[0][i], previous = ends_by_rank[0][i - 1], longest = 0;
    for (const std::vector<double>& ends : ends_by_rank) {
      latest = std::max(latest, ends[i]);
      previous = std::max(previous, ends[i - 1]);
      longest = std::max(longest, ends[i] - ends[i - 1]);
    }
    times.push_back(one_clock ? latest - previous : longest);
  }
  return times;
}

}  // namespace paceline::measure
