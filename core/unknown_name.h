// A name that isn't known: which ones it may have been meant to be, and the message.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

// The names in `known` that `name` was most likely meant to be, at most four, without regard to case and signs:
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
