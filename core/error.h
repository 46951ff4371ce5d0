// InputError: the user's input is wrong. Anything else that goes wrong is our fault (assert, or
// std::logic_error).
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

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

// The names in `known` that `name` was most likely meant to be, at most three, without regard to case and signs:
// those that have its words ("A100-80GB" for "A100"); or at the smallest edit distance, if that is a slip of the
// hand (at most a third of the longer name, or one change); or with its beginning ("llama3_8b" for "llama").
std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> known);

// `"a", "b" or "c"`
std::string quoted_list(std::span<const std::string> names, std::string_view last_word);

// `unknown preset "H10O"; did you mean "H100"? Known: A100-40GB, ...` for messages about closed sets.
// Of more than a hundred nobody looks for one in the message. `elsewhere`: a sentence on where else the name belongs.
std::string unknown_name(std::string_view what, std::string_view name, std::span<const std::string> known,
                         std::string_view elsewhere = {});

}  // namespace paceline
