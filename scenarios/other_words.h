// What frameworks and NCCL call what a scenario says, for messages: their users type it first.
#pragma once

#include <string_view>
#include <vector>

namespace paceline {

// A sentence that says where a scenario has what is called so elsewhere ("seq_len", "NCCL_ALGO", "bfloat16"); empty for
// a word that isn't known. Case and dashes don't matter.
std::string_view other_word(std::string_view);
std::vector<std::string_view> other_words();

}  // namespace paceline
