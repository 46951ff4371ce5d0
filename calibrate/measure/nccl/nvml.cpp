#include "calibrate/measure/nccl/nvml.h"

#include <dlfcn.h>

#include <array>

namespace paceline::measure {
namespace {

// NVML's interface as its reference manual gives it: a return value of 0 is success.
constexpr int kSuccess = 0, kClockOfMultiprocessors = 1;
constexpr unsigned kVersionLength = 80;

template <class Function>
Function* find(void* library, const char* name) {
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

Nvml::Nvml(const std::string& bus_id) : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
  auto* start = find<int()>(library_, "nvmlInit_v2");
  auto* by_bus_id = find<int(const char*, void**)>(library_, "nvmlDeviceGetHandleByPciBusId_v2");
  if (start == nullptr || start() != kSuccess) {
    if (library_ != nullptr) {
      dlclose(library_);
      library_ = nullptr;
    }
    return;
  }
  if (by_bus_id == nullptr || by_bus_id(bus_id.c_str(), &device_) != kSuccess) {
    device_ = nullptr;
  }
}

Nvml::~Nvml() {
  if (auto* stop = find<int()>(library_, "nvmlShutdown")) {
    stop();
  }
  if (library_ != nullptr) {
    dlclose(library_);
  }
}

std::string Nvml::driver_version() const {
  auto* version = find<int(char*, unsigned)>(library_, "nvmlSystemGetDriverVersion");
  std::array<char, kVersionLength> text{};
  return version != nullptr && version(text.data(), kVersionLength) == kSuccess ? std::string(text.data())
                                                                                : std::string();
}

int Nvml::clock_mhz() const {
  auto* clock = find<int(void*, int, unsigned*)>(library_, "nvmlDeviceGetClockInfo");
  unsigned mhz = 0;
  return device_ != nullptr && clock != nullptr && clock(device_, kClockOfMultiprocessors, &mhz) == kSuccess
             ? static_cast<int>(mhz)
             : 0;
}

}  // namespace paceline::measure
