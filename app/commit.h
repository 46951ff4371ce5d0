// The commit that the program was built from.
#pragma once

#include <string_view>

namespace paceline {

// As `git describe --tags --always --dirty` says it; empty where the build had no repository. It is told by --version
// alone: no result, key or fingerprint knows it, so that commits that change nothing give equal bytes.
std::string_view commit();

}  // namespace paceline
