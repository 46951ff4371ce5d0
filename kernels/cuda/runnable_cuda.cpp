#include "kernels/cuda/runnable_cuda.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>

#include "core/error.h"
#include "core/unknown_name.h"
#include "kernels/cuda/buffers.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/geometry.h"
#include "kernels/cuda/launch.h"
#include "kernels/reference.h"

namespace paceline::cuda {
namespace {

Element element_of(const KernelSpec& spec) {
  return spec.precision == "fp16" ? Element::fp16 : spec.precision == "bf16" ? Element::bf16 : Element::fp32;
}

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "current device");
  return device;
}

std::int64_t free_memory() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "free memory");
  return static_cast<std::int64_t>(free);
}

// The kernel, its sets of buffers in one allocation, and which set is next.
class Sets {
 public:
  Sets(const KernelSpec& spec, const Stream& stream)
      : spec_(spec),
        kernel_(kernel_of(spec)),
        stream_(stream),
        device_(current_device()),
        plan_(plan_kernel(spec, kernel_ == Kernel::top_k ? top_k_scratch(spec.m) : 0)),
        offsets_(plan_.offsets()),
        count_(rotation_count(plan_.bytes(), cache_bytes(), free_memory() / 4)),
        memory_(count_ * plan_.bytes()) {
    if (is_product(spec)) {
      gemm_.emplace(spec.precision, spec.m, spec.n, spec.k);
    }
    upload(kernel_inputs(spec));
    for (int set = 1; set < count_; ++set) {
      for (std::size_t i = 0; i < plan_.inputs; ++i) {
        check(cudaMemcpyAsync(array(set, i), array(0, i), bytes(i), cudaMemcpyDeviceToDevice, stream_.get()),
              "copying a set of buffers");
      }
    }
    check(cudaStreamSynchronize(stream_.get()), "copying the sets of buffers");
  }

  void launch_next() {
    check(cudaSetDevice(device_), "choosing the GPU");  // the thread may be new
    launch(next_);
    next_ = next_ + 1 == count_ ? 0 : next_ + 1;
  }

  double error() {
    check(cudaSetDevice(device_), "choosing the GPU");
    const KernelArrays inputs = kernel_inputs(spec_);
    check(cudaStreamSynchronize(stream_.get()), "waiting for former launches");
    upload(inputs);  // adam has changed them
    for (std::size_t output = plan_.inputs; output < plan_.outputs_end; ++output) {
      // What is not written must not look right.
      check(cudaMemsetAsync(array(0, output), 0xff, bytes(output), stream_.get()), "clearing an output");
    }
    launch(0);
    check(cudaStreamSynchronize(stream_.get()), "running the kernel");
    KernelArrays outputs;
    for (std::size_t output = plan_.outputs_begin; output < plan_.outputs_end; ++output) {
      std::vector<std::byte> data(bytes(output));
      check(cudaMemcpy(data.data(), array(0, output), data.size(), cudaMemcpyDeviceToHost),
            "reading an output");
      outputs.push_back(from_device_form(data, plan_.arrays[output].storage));
    }
    return kernel_error(spec_, inputs, outputs);
  }

 private:
  std::size_t bytes(std::size_t index) const {
    return static_cast<std::size_t>(plan_.arrays[index].count * bytes_of(plan_.arrays[index].storage));
  }
  char* array(int set, std::size_t index) const {
    return memory_.as<char>() + set * plan_.bytes() + (offsets_.empty() ? 0 : offsets_[index]);
  }

  void upload(const KernelArrays& inputs) {
    for (std::size_t i = 0; i < plan_.inputs; ++i) {
      const std::vector<std::byte> data = to_device_form(inputs[i], plan_.arrays[i].storage);
      // In the stream's order: an unordered copy may still be under way when it returns.
      check(cudaMemcpyAsync(array(0, i), data.data(), data.size(), cudaMemcpyHostToDevice, stream_.get()),
            "loading an input");
    }
  }

  void launch(int set) const {
    const auto at = [&](std::size_t index) { return array(set, index); };
    const auto floats = [&](std::size_t index) { return reinterpret_cast<float*>(array(set, index)); };
    const auto int8s = [&](std::size_t index) { return reinterpret_cast<std::int8_t*>(array(set, index)); };
    const Element element = element_of(spec_);
    const cudaStream_t stream = stream_.get();
    switch (kernel_) {
      case Kernel::gemm:
      case Kernel::conv_gemm:
        return gemm_->launch(at(0), at(1), at(2), stream);
      case Kernel::elementwise:
        return launch_add_relu(element, at(0), at(1), at(2), spec_.m, stream);
      case Kernel::layer_norm:
        return launch_layer_norm(element, at(0), at(1), at(2), at(3), {spec_.m, spec_.n}, kLayerNormEpsilon,
                                 stream);
      case Kernel::softmax:
        return launch_softmax(element, at(0), at(1), {spec_.m, spec_.n}, stream);
      case Kernel::adam:
        return launch_adam(element, adam_, at(0), floats(1), floats(2), floats(3), spec_.m, stream);
      case Kernel::copy_scale:
        return launch_scale(element, at(0), at(1), kScale, spec_.m, stream);
      case Kernel::quantise:
        return launch_quantise(element, at(0), int8s(1), floats(2), spec_.m, spec_.n, stream);
      case Kernel::dequantise:
        return launch_dequantise(element, int8s(0), floats(1), at(2), spec_.m, spec_.n, stream);
      case Kernel::top_k:
        return launch_top_k(element, at(0), spec_.m, spec_.k, at(1), reinterpret_cast<std::int32_t*>(at(2)),
                            at(3), stream);
      case Kernel::copy:
        return launch_copy(at(0), at(1), spec_.m * bytes_of(element), stream);
      case Kernel::empty:
        return launch_empty(stream);
    }
  }

  KernelSpec spec_;
  Kernel kernel_;
  const Stream& stream_;
  int device_;
  KernelPlan plan_;
  std::vector<std::int64_t> offsets_;
  int count_;
  DeviceBuffer memory_;
  std::optional<Gemm> gemm_;
  AdamStep adam_ = adam_step(kAdamRate, kAdamBeta1, kAdamBeta2, kAdamEpsilon, kAdamStep);
  int next_ = 0;
};

}  // namespace

void require_kernel(const KernelSpec& spec) {
  std::vector<std::string> known{"fp32", "fp16", "bf16"};
  if (is_product(spec)) {
    known.insert(known.begin() + 1, "tf32");
  }
  if (std::find(known.begin(), known.end(), spec.precision) == known.end()) {
    throw InputError(unknown_name("precision of " + spec.name + " on a GPU", spec.precision, known));
  }
  if (kernel_of(spec) == Kernel::top_k && spec.m > std::numeric_limits<std::int32_t>::max()) {
    throw InputError("kernel top_k has 32-bit indices on a GPU; at most 2147483647 elements");
  }
}

RunnableKernel make_kernel(const KernelSpec& spec, const Stream& stream) {
  require_kernel(spec);
  const auto sets = std::make_shared<Sets>(spec, stream);
  return {spec, [sets] { return sets->error(); }, [sets] { sets->launch_next(); }};
}

}  // namespace paceline::cuda
