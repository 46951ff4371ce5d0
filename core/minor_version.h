// Versions as their owners write them.
#pragma once

#include <optional>
#include <string_view>

namespace paceline {

// 22 of "2.22" and of "2.22.3", where `major` is 2; nullopt where the text isn't such a version.
std::optional<int> minor_version(std::string_view text, int major);

// The number behind the first dot of a log's version, whatever follows, "2.22.3+cuda12.4"; 0 where there is none.
int leading_minor(std::string_view text);

}  // namespace paceline
