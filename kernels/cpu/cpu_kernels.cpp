#include "kernels/cpu/cpu_kernels.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <tuple>
#include <variant>

#include "core/error.h"
#include "kernels/cpu/loops.h"
#include "kernels/reference.h"

namespace paceline {
namespace {

constexpr std::int64_t kMostSets = 8;

using Array = std::variant<std::vector<float>, std::vector<std::int32_t>, std::vector<std::int8_t>>;
using Buffers = std::vector<Array>;  // inputs, then outputs that aren't also inputs

Array array_of(const ArraySpec& spec, std::span<const double> values) {
  const auto filled = [&]<class T>(std::vector<T> array) {
    std::transform(values.begin(), values.end(), array.begin(), [](double x) { return static_cast<T>(x); });
    return Array(std::move(array));
  };
  const auto count = static_cast<std::size_t>(spec.count);
  switch (spec.type) {
    case ArrayType::int32:
      return filled(std::vector<std::int32_t>(count));
    case ArrayType::int8:
      return filled(std::vector<std::int8_t>(count));
    case ArrayType::value:
    case ArrayType::fp32:
      break;
  }
  return filled(std::vector<float>(count));
}

void load(const KernelArraySpecs& specs, const KernelArrays& inputs, Buffers& buffers) {
  buffers.clear();
  for (std::size_t i = 0; i < specs.inputs.size(); ++i) {
    buffers.push_back(array_of(specs.inputs[i], inputs[i]));
  }
  for (std::size_t i = 0; i < specs.outputs.size() && !specs.in_place; ++i) {
    buffers.push_back(array_of(specs.outputs[i], {}));
  }
}

KernelArrays outputs_of(const KernelArraySpecs& specs, const Buffers& buffers) {
  KernelArrays outputs;
  for (std::size_t i = buffers.size() - specs.outputs.size(); i < buffers.size(); ++i) {
    std::visit([&](const auto& array) { outputs.emplace_back(array.begin(), array.end()); }, buffers[i]);
  }
  return outputs;
}

void launch(Kernel kind, const KernelSpec& kernel, ThreadTeam& team, Buffers& buffers) {
  const auto floats = [&](std::size_t i) { return std::get<std::vector<float>>(buffers[i]).data(); };
  const auto int32s = [&](std::size_t i) { return std::get<std::vector<std::int32_t>>(buffers[i]).data(); };
  const auto int8s = [&](std::size_t i) { return std::get<std::vector<std::int8_t>>(buffers[i]).data(); };
  const auto [m, n, k] = std::tuple(kernel.m, kernel.n, kernel.k);
  switch (kind) {
    case Kernel::gemm:
    case Kernel::conv_gemm:
      return cpu::gemm(team, m, n, k, floats(0), floats(1), floats(2));
    case Kernel::elementwise:
      return cpu::elementwise(team, m, floats(0), floats(1), floats(2));
    case Kernel::layer_norm:
      return cpu::layer_norm(team, m, n, floats(0), floats(1), floats(2), floats(3));
    case Kernel::softmax:
      return cpu::softmax(team, m, n, floats(0), floats(1));
    case Kernel::adam:
      return cpu::adam(team, m, floats(0), floats(1), floats(2), floats(3));
    case Kernel::copy_scale:
      return cpu::copy_scale(team, m, floats(0), floats(1));
    case Kernel::quantise:
      return cpu::quantise(team, m, n, floats(0), int8s(1), floats(2));
    case Kernel::dequantise:
      return cpu::dequantise(team, m, n, int8s(0), floats(1), floats(2));
    case Kernel::top_k:
      return cpu::top_k(team, m, k, floats(0), floats(1), int32s(2));
    case Kernel::copy:
      return cpu::copy(team, m, floats(0), floats(1));
    case Kernel::empty:
      return team.run([](int) {});
  }
}

struct Instance {
  KernelSpec spec;
  Kernel kernel;
  KernelArraySpecs arrays;
  std::shared_ptr<ThreadTeam> team;
  std::vector<Buffers> sets;
  std::size_t next = 0;
};

}  // namespace

std::vector<KernelSpec> cpu_kernel_shapes() {
  std::vector<KernelSpec> shapes;
  const auto add = [&](const char* name, std::int64_t m, std::int64_t n = 0, std::int64_t k = 0) {
    shapes.push_back({name, "fp32", m, n, k});
  };
  for (const std::int64_t size : {128, 256, 512, 1024, 2048}) {
    add("gemm", size, size, size);
  }
  add("gemm", 512, 3072, 768);  // BERT base, 512 tokens: the feed-forward layer's two products
  add("gemm", 512, 768, 3072);
  add("conv_gemm", 12544, 64, 147);  // ResNet-50, one image: the stem, then 3x3 of each stage
  add("conv_gemm", 3136, 64, 576);
  add("conv_gemm", 784, 128, 1152);
  add("conv_gemm", 196, 256, 2304);
  add("conv_gemm", 49, 512, 4608);
  for (const std::int64_t elements : {1 << 16, 1 << 20, 1 << 22}) {
    add("elementwise", elements);
  }
  add("layer_norm", 512, 768);
  add("layer_norm", 2048, 1024);
  add("softmax", 6144, 512);  // BERT base, 512 tokens: 12 heads
  add("softmax", 2048, 1024);
  add("adam", 1 << 20);
  add("adam", 1 << 22);
  add("copy_scale", 1 << 18);
  add("copy_scale", 25 << 18);  // DDP's bucket of 25 MiB
  for (const char* name : {"quantise", "dequantise"}) {
    add(name, 1 << 20, 256);
    add(name, 25 << 18, 256);
  }
  add("top_k", 1 << 20, 0, 1 << 10);
  add("top_k", 25 << 18, 0, 1 << 16);
  for (const std::int64_t elements : {1 << 16, 1 << 20, 1 << 24}) {
    add("copy", elements);
  }
  add("empty", 0);
  return shapes;
}

RunnableKernel make_cpu_kernel(const KernelSpec& spec, std::shared_ptr<ThreadTeam> team) {
  if (spec.precision != "fp32") {
    throw InputError("the CPU kernels compute in fp32 only, not " + spec.precision);
  }
  const std::int64_t traffic = std::max<std::int64_t>(1, kernel_traffic(spec));
  const std::int64_t sets = std::clamp<std::int64_t>(kRotatedBytes / traffic, 2, kMostSets);
  const KernelArrays inputs = kernel_inputs(spec);
  auto instance = std::make_shared<Instance>(
      Instance{spec, kernel_of(spec), kernel_arrays(spec), std::move(team), {}, 0});
  instance->sets.resize(static_cast<std::size_t>(sets));
  for (Buffers& set : instance->sets) {
    load(instance->arrays, inputs, set);
  }
  const auto check = [instance] {
    const KernelArrays checked = kernel_inputs(instance->spec);
    Buffers& first = instance->sets.front();
    load(instance->arrays, checked, first);  // Adam may have run on it
    launch(instance->kernel, instance->spec, *instance->team, first);
    return kernel_error(instance->spec, checked, outputs_of(instance->arrays, first));
  };
  const auto launch_next = [instance] {
    launch(instance->kernel, instance->spec, *instance->team, instance->sets[instance->next]);
    instance->next = (instance->next + 1) % instance->sets.size();
  };
  return {spec, check, launch_next};
}

}  // namespace paceline
