// A scenario of milliseconds, and studies of it.
#pragma once

#include <string>

#include "studies/study.h"

namespace paceline {

inline const std::string kSmall =
    R"({"cluster": {"node": "dgx-a100"}, "model": "resnet18", "training": {"batch_per_gpu": 8},
        "variability": {"per_operation": {"distribution": "lognormal", "cv": 0.05}}, "run": {"iterations": 2}})";

// `more`: further keys, from a comma on.
inline std::string study_text(const std::string& axes, const std::string& scenario = kSmall,
                              const std::string& more = "") {
  return "{\"scenario\": " + scenario + ", \"axes\": " + axes + more + "}";
}

inline Study study(const std::string& axes, const std::string& scenario = kSmall,
                   const std::string& more = "") {
  return parse_study(study_text(axes, scenario, more), "s.json");
}

}  // namespace paceline
