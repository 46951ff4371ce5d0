// The JSON files under scenarios/models and scenarios/clusters, compiled in.
#pragma once

#include <span>
#include <string_view>

namespace paceline {

struct BuiltinFile {
  std::string_view kind;  // "models" or "clusters"
  std::string_view name;  // without folder and extension
  std::string_view text;
};

std::span<const BuiltinFile> builtin_files();

}  // namespace paceline
