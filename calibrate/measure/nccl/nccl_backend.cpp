// Backend by NCCL and one GPU per process. Two streams: communication and compute. Each call chooses the GPU
// for its thread first, since a new thread begins with GPU 0.
#include <cuda_runtime_api.h>

#include <array>
#include <cmath>
#include <fstream>
#include <stdexcept>

#include "calibrate/measure/backend.h"
#include "calibrate/measure/nccl/choose_gpu.h"
#include "calibrate/measure/nccl/communicator.h"
#include "calibrate/measure/nccl/nvml.h"
#include "core/error.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/resources.h"
#include "kernels/cuda/runnable_cuda.h"

namespace paceline::measure {
namespace {

// Before a timed collective the stream is held this long, so that the host has enqueued barrier, delay and
// collective before the first of them begins: only the device's time is measured.
constexpr std::int64_t kHeadStart = 100'000;  // ns

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

std::string version_text(int number) {  // CUDA's 12040: "12.4"
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

int choose_device(const Place& place) {
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    throw InputError("no NVIDIA driver on " + place.host +
                     "; paceline-measure-nccl needs a GPU, paceline-measure-mpi measures CPUs");
  }
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found != cudaErrorNoDevice) {
    cuda::check(found, "looking for NVIDIA GPUs");
  }
  const int device = gpu_of(place, count);
  cuda::check(cudaSetDevice(device), "choosing the GPU");
  return device;
}

std::string bus_id(int device) {
  std::array<char, 32> text{};
  cuda::check(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device), "bus id of the GPU");
  return text.data();
}

}  // namespace

struct Backend::State {
  explicit State(const Place& at) : place(at), device(choose_device(at)), nvml(bus_id(device)) {}

  // A broadcast needs no send buffer but on rank 0, NCCL a pointer on all.
  void enqueue(const Collective& collective) {
    communicator.enqueue(collective, send.as<float>(), receive.as<float>());
  }
  void choose_gpu() const { cuda::check(cudaSetDevice(device), "choosing the GPU"); }

  Place place;
  int device;
  Nvml nvml;
  cuda::Stream communication, compute;
  cuda::Event start, end;  // communication
  cuda::Event compute_start, compute_end;
  Communicator communicator{communication};
  cuda::DeviceBuffer send, receive;
};

Backend::Backend(Place& place) : state_(std::make_unique<State>(place)) {}
Backend::~Backend() = default;

BackendFacts Backend::facts() const {
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, state_->device), "properties of the GPU");
  int runtime = 0;
  cuda::check(cudaRuntimeGetVersion(&runtime), "version of CUDA");
  const std::string driver = state_->nvml.driver_version();
  return {.backend = "nccl",
          .library = nccl_version(),
          .device = properties.name,
          .driver = (driver.empty() ? "" : driver + ", ") + "CUDA " + version_text(runtime)};
}

int Backend::clock_mhz() const { return state_->nvml.clock_mhz(); }

std::optional<std::string> Backend::share_address(const std::string&) { return std::nullopt; }
std::string Backend::make_token() { return make_nccl_token(); }

void Backend::connect(const std::string& token) {
  state_->choose_gpu();
  state_->communicator.connect(token, state_->place.rank, state_->place.ranks);
}

void Backend::barrier() {
  state_->choose_gpu();
  state_->communicator.enqueue_barrier();
  state_->end.record(state_->communication);
  state_->communicator.wait(state_->end);
}

void Backend::load(const Collective& collective, std::span<const float> send) {
  state_->choose_gpu();
  const int ranks = state_->place.ranks;
  const auto make_room = [](cuda::DeviceBuffer& buffer, std::int64_t elements) {
    const std::int64_t bytes = elements * static_cast<std::int64_t>(sizeof(float));
    if (buffer.bytes() < bytes) {
      buffer = {};  // first free, then allocate
      buffer = cuda::DeviceBuffer(bytes);
    }
  };
  make_room(state_->send, send_elements(collective, ranks));
  make_room(state_->receive, recv_elements(collective, ranks));
  const cudaStream_t stream = state_->communication.get();
  cuda::check(
      cudaMemcpyAsync(state_->send.get(), send.data(), send.size_bytes(), cudaMemcpyHostToDevice, stream),
      "loading the send buffer");
  // Not numbers: what is not received must not look right.
  cuda::check(
      cudaMemsetAsync(state_->receive.get(), 0xff, static_cast<std::size_t>(state_->receive.bytes()), stream),
      "clearing the receive buffer");
  cuda::check(cudaStreamSynchronize(stream), "loading the send buffer");
}

void Backend::run(const Collective& collective) {
  state_->choose_gpu();
  state_->enqueue(collective);
  state_->end.record(state_->communication);
  state_->communicator.wait(state_->end);
}

double Backend::time(const Collective& collective, double delay_s) {
  state_->choose_gpu();
  const cudaStream_t stream = state_->communication.get();
  cuda::launch_spin(kHeadStart, stream);
  state_->communicator.enqueue_barrier();
  state_->start.record(state_->communication);
  if (delay_s > 0) {
    cuda::launch_spin(nanoseconds(delay_s), stream);
  }
  state_->enqueue(collective);
  state_->end.record(state_->communication);
  state_->communicator.wait(state_->end);
  return cuda::seconds_between(state_->start, state_->end);
}

std::vector<float> Backend::result(const Collective& collective) {
  state_->choose_gpu();
  std::vector<float> values(static_cast<std::size_t>(recv_elements(collective, state_->place.ranks)));
  cuda::check(
      cudaMemcpy(values.data(), state_->receive.get(), values.size() * sizeof(float), cudaMemcpyDeviceToHost),
      "reading the receive buffer");
  return values;
}

std::vector<KernelSpec> Backend::kernels() const { return cuda::measured_kernels(); }

RunnableKernel Backend::make_kernel(const KernelSpec& spec) {
  state_->choose_gpu();
  return cuda::make_kernel(spec, state_->compute);
}

double Backend::time_kernel(const RunnableKernel& kernel, int count) {
  state_->choose_gpu();
  state_->compute_start.record(state_->compute);
  for (int i = 0; i < count; ++i) {
    kernel.launch();
  }
  state_->compute_end.record(state_->compute);
  state_->compute_end.wait();
  return cuda::seconds_between(state_->compute_start, state_->compute_end);
}

void Backend::synchronise() {
  state_->choose_gpu();
  cuda::check(cudaStreamSynchronize(state_->compute.get()), "waiting for the GPU");
}

void Backend::compute(double seconds) {
  state_->choose_gpu();
  cuda::launch_spin(nanoseconds(seconds), state_->compute.get());
  synchronise();
}

void Backend::finish() {
  state_->choose_gpu();
  synchronise();
  cuda::check(cudaStreamSynchronize(state_->communication.get()), "waiting for the GPU");
  state_->communicator.finish();
}

}  // namespace paceline::measure
