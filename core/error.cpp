#include "core/error.h"

#include <utility>

namespace paceline {
namespace {

std::string line_of(const std::string& file, const std::string& place, const std::string& message) {
  std::string line = file;
  if (!place.empty()) {
    line += line.empty() ? place : ": " + place;
  }
  return line.empty() ? message : line + ": " + message;
}

}  // namespace

InputError::InputError(std::string message, std::string place, std::string file)
    : std::runtime_error(line_of(file, place, message)),
      message_(std::move(message)),
      place_(std::move(place)),
      file_(std::move(file)) {}

InputError InputError::at(std::string_view outer) const {
  return InputError(message_, std::string(outer) + place_, file_);
}

InputError InputError::in_file(std::string_view file) const {
  return file_.empty() ? InputError(message_, place_, std::string(file)) : *this;
}

InputError InputError::in_json_file(std::string_view file, const std::string& what) const {
  if (!place_.starts_with('/')) {
    return *this;
  }
  return InputError(what.empty() ? message_ : what + ": " + message_, place_, file_).in_file(file);
}

}  // namespace paceline
