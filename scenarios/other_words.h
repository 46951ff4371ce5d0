// What frameworks and NCCL call what a scenario says, for messages: their users type it first.
#pragma once

#include <span>
#include <string_view>

namespace paceline {

struct OtherWord {
  std::string_view word;  // in small letters, with underscores
  std::string_view name;  // the scenario's key or value; empty: it has none
  std::string_view more;  // a sentence beside it; may be empty
};

std::span<const OtherWord> other_keys();    // "seq_len", "NCCL_ALGO"
std::span<const OtherWord> other_values();  // "bfloat16", "hsdp"

// The row of a word, whatever its case and dashes; nullptr where it isn't known.
const OtherWord* find_other(std::span<const OtherWord>, std::string_view word);

}  // namespace paceline
