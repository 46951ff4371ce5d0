// Errors of the CUDA runtime as exceptions, and its objects as owners.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

namespace paceline::cuda {

// Throws std::runtime_error "WHAT: the runtime's words (cudaErrorName)".
void check(cudaError_t, const char* what);

// Multiprocessors and second-level cache of the current device; asked for once per thread.
int processor_count();
std::int64_t cache_bytes();

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::int64_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  void* get() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  void swap(DeviceBuffer& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

class Stream {
 public:
  Stream();  // not ordered with the default stream
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event();  // with timing
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const Stream&);
  bool reached() const;  // throws when the device has failed
  void wait() const;     // the host waits
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Requires: both reached.
double seconds_between(const Event& start, const Event& end);

}  // namespace paceline::cuda
