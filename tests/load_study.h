// A study from its file.
#pragma once

#include <string>

#include "scenarios/files.h"
#include "studies/study.h"

namespace paceline {

inline Study load_study(const std::string& path) { return parse_study(read_file(path), path); }

}  // namespace paceline
