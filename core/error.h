// InputError: the user's input is wrong. Anything else that goes wrong is our fault (assert, or
// std::logic_error).
#pragma once

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
  // in_file, and about `what` of it, if the place is a JSON pointer; an option's place is in no file.
  InputError in_json_file(std::string_view file, const std::string& what = {}) const;

 private:
  std::string message_, place_, file_;
};

}  // namespace paceline
