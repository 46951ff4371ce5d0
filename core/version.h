// Which Paceline this is. The only place: CMakeLists.txt and pyproject.toml read it here.
#pragma once

#include <string>

namespace paceline {

inline constexpr const char* kVersion = "0.1";

// Which results it gives. Two programs of one model version give a scenario the same result, to the picosecond; a
// change that gives any scenario another one raises it (tests/golden/versions.csv holds who didn't).
inline constexpr int kModelVersion = 38;

inline std::string version_text() {
  return "paceline " + std::string(kVersion) + ", model version " + std::to_string(kModelVersion);
}

}  // namespace paceline
