#include "sim/strategy/pytorch.h"

#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/minor_version.h"

namespace paceline {

PyTorchVersion pytorch_version(const std::string& text) {
  const std::string_view without_build = std::string_view(text).substr(0, text.find('+'));
  const std::optional<int> minor = minor_version(without_build, 2);
  if (!minor || *minor < kOldestPyTorch.minor || *minor > kNewestPyTorch.minor) {
    throw InputError("unknown PyTorch version \"" + text + "\"; known: " + to_string(kOldestPyTorch) +
                     " to " + to_string(kNewestPyTorch) + ", as in \"2.4\" or \"2.4.1\"");
  }
  return {*minor};
}

std::string to_string(PyTorchVersion version) { return "2." + std::to_string(version.minor); }

}  // namespace paceline
