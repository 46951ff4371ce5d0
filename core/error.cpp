#include "core/error.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace paceline {
namespace {

std::string line_of(const std::string& file, const std::string& place, const std::string& message) {
  std::string line = file;
  if (!place.empty()) {
    line += line.empty() ? place : ": " + place;
  }
  return line.empty() ? message : line + ": " + message;
}

// Levenshtein distance; cost O(|a| |b|).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, substituted});
    }
  }
  return row.back();
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

std::string nearest_name(std::string_view name, std::span<const std::string> known) {
  constexpr std::size_t kLongestComparedName = 100;
  if (name.size() > kLongestComparedName) {
    return {};
  }
  std::string nearest;
  std::size_t best = kLongestComparedName;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    const std::size_t allowed = std::max<std::size_t>(1, std::max(name.size(), candidate.size()) / 3);
    if (distance <= allowed && distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string unknown_name(std::string_view what, std::string_view name, std::span<const std::string> known) {
  constexpr std::size_t kShownLength = 60;
  std::string text = "unknown " + std::string(what) + " \"" + std::string(name.substr(0, kShownLength)) +
                     (name.size() > kShownLength ? "...\"" : "\"");
  if (const std::string nearest = nearest_name(name, known); !nearest.empty()) {
    text += "; did you mean \"" + nearest + "\"?";
  } else {
    text += ".";
  }
  text += " Known: ";
  for (std::size_t i = 0; i < known.size(); ++i) {
    text += (i == 0 ? "" : ", ") + known[i];
  }
  return text;
}

}  // namespace paceline
