#include "sim/strategy/pytorch.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/minor_version.h"

namespace paceline {

PyTorchVersion pytorch_version(const std::string& text) {
  const std::string_view without_build = std::string_view(text).substr(0, text.find_first_of("+a"));
  for (const int major : {kOldestPyTorch.major, kNewestPyTorch.major}) {
    const std::optional<int> minor = minor_version(without_build, major);
    const PyTorchVersion version{major, minor.value_or(-1)};
    const int most = major == kNewestPyTorch.major ? kNewestPyTorch.minor : kOldestPyTorch.minor;
    if (minor && version >= kOldestPyTorch && version.minor <= most) {
      return version;
    }
  }
  throw InputError("unknown PyTorch version \"" + text + "\"; known: " + to_string(kOldestPyTorch) +
                   ", and 2.0 to " + to_string(kNewestPyTorch) + ", as in \"2.4\" or \"2.4.1\"");
}

std::string nccl_of(PyTorchVersion version) {
  struct Row {
    PyTorchVersion until;
    const char* nccl;
  };
  constexpr Row kRows[] = {{{2, 0}, "2.14"},  {{2, 1}, "2.18"},        {{2, 2}, "2.19"},  {{2, 4}, "2.20"},
                           {{2, 6}, "2.21"},  {{2, 7}, "2.26"},        {{2, 10}, "2.27"}, {{2, 11}, "2.28"},
                           {{2, 13}, "2.29"}, {kNewestPyTorch, "2.30"}};
  return std::ranges::find_if(kRows, [&](const Row& row) { return version <= row.until; })->nccl;
}

std::string to_string(PyTorchVersion version) {
  return std::to_string(version.major) + '.' + std::to_string(version.minor);
}

}  // namespace paceline
