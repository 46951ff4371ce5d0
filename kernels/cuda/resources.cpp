#include "kernels/cuda/resources.h"

#include <stdexcept>
#include <string>

namespace paceline::cuda {
namespace {

int attribute(cudaDeviceAttr which, const char* what) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device), "current device");
  check(cudaDeviceGetAttribute(&value, which, device), what);
  return value;
}

}  // namespace

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error) + " (" +
                             cudaGetErrorName(error) + ")");
  }
}

int processor_count() {
  thread_local const int count = attribute(cudaDevAttrMultiProcessorCount, "number of multiprocessors");
  return count;
}

std::int64_t cache_bytes() {
  thread_local const int bytes = attribute(cudaDevAttrL2CacheSize, "size of the L2 cache");
  return bytes;
}

DeviceBuffer::DeviceBuffer(std::int64_t bytes) : bytes_(bytes) {
  if (bytes > 0) {
    const std::string what = "allocating " + std::to_string(bytes) + " bytes of device memory";
    check(cudaMalloc(&data_, static_cast<std::size_t>(bytes)), what.c_str());
  }
}
DeviceBuffer::~DeviceBuffer() { cudaFree(data_); }

Stream::Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream"); }
Stream::~Stream() { cudaStreamDestroy(stream_); }

Event::Event() { check(cudaEventCreate(&event_), "creating an event"); }
Event::~Event() { cudaEventDestroy(event_); }

void Event::record(const Stream& stream) {
  check(cudaEventRecord(event_, stream.get()), "recording an event");
}

bool Event::reached() const {
  const cudaError_t state = cudaEventQuery(event_);
  if (state != cudaErrorNotReady) {
    check(state, "waiting for the device");
  }
  return state == cudaSuccess;
}

void Event::wait() const { check(cudaEventSynchronize(event_), "waiting for the device"); }

double seconds_between(const Event& start, const Event& end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start.get(), end.get()), "time between events");
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace paceline::cuda
