// A JSON document read as it comes, for files that don't fit in memory: the members of the document, and the
// elements of the arrays among them, one after the other.
//
// Cost: one pass. Memory: one member or element, and of it only what is wanted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "scenarios/json.h"

namespace paceline {

struct JsonStream {
  // Writes the next bytes, at most `most`, and says how many; 0: the end.
  std::function<std::size_t(char* to, std::size_t most)> read;
  // Whether to keep member `key` of an object inside of the document's member `member`, at any depth; ("",
  // key): whether to keep the document's member `key` at all.
  std::function<bool(std::string_view member, std::string_view key)> wanted;
  // A member of the document, or one element where the member is an array; `member` is empty where the
  // document is an array itself. `line` is where the value ends.
  std::function<void(const std::string& member, const Json& value, std::int64_t line)> value;
};

struct JsonStreamEnd {
  std::string trouble;    // why the document was not read to its end; empty: it was
  std::int64_t line = 1;  // where that was
  std::int64_t values = 0;
};

// Throws InputError for a document deeper than kDeepest, a value of more than kMostStreamedValues or a token
// of more than kLongestToken bytes; one that breaks off or isn't JSON from some place on is read up to there.
JsonStreamEnd read_json_stream(const JsonStream&);

inline constexpr std::size_t kMostStreamedValues = 100'000;
inline constexpr std::size_t kLongestToken = 16u << 20;

}  // namespace paceline
