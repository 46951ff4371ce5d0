// InputError: the user's input is wrong. Anything else that goes wrong is our fault (assert, or
// std::logic_error).
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace paceline {

// what() is one line: "FILE: PLACE: MESSAGE". FILE and PLACE (a JSON pointer such as /cluster/nodes, or
// "line 3, column 7") may be empty where the thrower does not know them; a caller that does adds them.
class InputError : public std::runtime_error {
 public:
  explicit InputError(std::string message, std::string place = {}, std::string file = {});

  const std::string& message() const { return message_; }
  const std::string& place() const { return place_; }
  const std::string& file() const { return file_; }

  // The same error, with what it lacked filled in; `outer` is put before a place that is already known.
  InputError at(std::string_view outer) const;
  InputError in_file(std::string_view file) const;

 private:
  std::string message_, place_, file_;
};

// The name in `known` with the smallest edit distance to `name`, or "" when none is near enough to be a slip
// of the hand (distance at most a third of the longer name, or one insertion, deletion or exchange).
std::string nearest_name(std::string_view name, std::span<const std::string> known);

// `unknown preset "H10O"; did you mean "H100"? Known: A100-40GB, ...` for messages about closed sets.
std::string unknown_name(std::string_view what, std::string_view name, std::span<const std::string> known);

}  // namespace paceline
