// What only the driver's management library knows. It is opened when the program runs, so that the program
// starts on a machine without a driver too (and says what is missing).
#pragma once

#include <string>

namespace paceline::measure {

class Nvml {
 public:
  explicit Nvml(const std::string& bus_id);  // "0000:3B:00.0", of the GPU
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string driver_version() const;  // "550.54.15"; empty: unknown
  int clock_mhz() const;               // of the multiprocessors at this moment; 0: unknown

 private:
  void* library_ = nullptr;
  void* device_ = nullptr;  // null: none with this bus id
};

}  // namespace paceline::measure
