#include "kernels/cpu/cpu_kernels.h"

#include <algorithm>
#include <cstddef>

#include "core/error.h"
#include "kernels/cpu/loops.h"
#include "kernels/reference.h"

namespace paceline {
namespace {

constexpr std::int64_t kMostSets = 8;

// One set: floats by input and output; the integers of quantise, dequantise and top_k apart.
struct Buffers {
  std::vector<std::vector<float>> in, out;
  std::vector<std::int8_t> quantised;
  std::vector<std::int32_t> index;
};

std::vector<std::int64_t> float_outputs(const KernelSpec& kernel) {
  const std::string& name = kernel.name;
  if (is_product(kernel) || name == "layer_norm" || name == "softmax") {
    return {kernel.m * kernel.n};
  }
  if (name == "quantise") {
    return {(kernel.m + kernel.n - 1) / kernel.n};
  }
  if (name == "adam" || name == "empty") {
    return {};  // Adam updates its inputs
  }
  return {name == "top_k" ? kernel.k : kernel.m};
}

void load(const KernelSpec& kernel, const KernelArrays& inputs, Buffers& buffers) {
  buffers.in.clear();
  for (const std::vector<double>& input : inputs) {
    buffers.in.emplace_back(input.begin(), input.end());
  }
  buffers.out.clear();
  for (const std::int64_t size : float_outputs(kernel)) {
    buffers.out.emplace_back(static_cast<std::size_t>(size));
  }
  if (kernel.name == "quantise") {
    buffers.quantised.resize(static_cast<std::size_t>(kernel.m));
  } else if (kernel.name == "dequantise") {
    buffers.quantised.assign(inputs[0].begin(), inputs[0].end());
  } else if (kernel.name == "top_k") {
    buffers.index.resize(static_cast<std::size_t>(kernel.k));
  }
}

KernelArrays outputs_of(const KernelSpec& kernel, const Buffers& buffers) {
  KernelArrays outputs;
  if (kernel.name == "quantise") {
    outputs.emplace_back(buffers.quantised.begin(), buffers.quantised.end());
  }
  for (std::size_t i = kernel.name == "adam" ? 1 : buffers.in.size(); i < buffers.in.size(); ++i) {
    outputs.emplace_back(buffers.in[i].begin(), buffers.in[i].end());
  }
  for (const std::vector<float>& output : buffers.out) {
    outputs.emplace_back(output.begin(), output.end());
  }
  if (kernel.name == "top_k") {
    outputs.emplace_back(buffers.index.begin(), buffers.index.end());
  }
  return outputs;
}

void launch(const KernelSpec& kernel, ThreadTeam& team, Buffers& b) {
  const auto in = [&](std::size_t i) { return b.in[i].data(); };
  const auto out = [&](std::size_t i) { return b.out[i].data(); };
  const std::string& name = kernel.name;
  if (is_product(kernel)) {
    cpu::gemm(team, kernel.m, kernel.n, kernel.k, in(0), in(1), out(0));
  } else if (name == "elementwise") {
    cpu::elementwise(team, kernel.m, in(0), in(1), out(0));
  } else if (name == "layer_norm") {
    cpu::layer_norm(team, kernel.m, kernel.n, in(0), in(1), in(2), out(0));
  } else if (name == "softmax") {
    cpu::softmax(team, kernel.m, kernel.n, in(0), out(0));
  } else if (name == "adam") {
    cpu::adam(team, kernel.m, in(0), in(1), in(2), in(3));
  } else if (name == "copy_scale") {
    cpu::copy_scale(team, kernel.m, in(0), out(0));
  } else if (name == "quantise") {
    cpu::quantise(team, kernel.m, kernel.n, in(0), b.quantised.data(), out(0));
  } else if (name == "dequantise") {
    cpu::dequantise(team, kernel.m, kernel.n, b.quantised.data(), in(1), out(0));
  } else if (name == "top_k") {
    cpu::top_k(team, kernel.m, kernel.k, in(0), out(0), b.index.data());
  } else if (name == "copy") {
    cpu::copy(team, kernel.m, in(0), out(0));
  } else {
    team.run([](int) {});
  }
}

struct Instance {
  KernelSpec spec;
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
  auto instance = std::make_shared<Instance>(Instance{spec, std::move(team), {}, 0});
  instance->sets.resize(static_cast<std::size_t>(sets));
  for (Buffers& set : instance->sets) {
    load(spec, inputs, set);
  }
  const auto check = [instance] {
    const KernelArrays checked = kernel_inputs(instance->spec);
    Buffers& first = instance->sets.front();
    load(instance->spec, checked, first);  // Adam may have run on it
    launch(instance->spec, *instance->team, first);
    return kernel_error(instance->spec, checked, outputs_of(instance->spec, first));
  };
  const auto launch_next = [instance] {
    launch(instance->spec, *instance->team, instance->sets[instance->next]);
    instance->next = (instance->next + 1) % instance->sets.size();
  };
  return {spec, check, launch_next};
}

}  // namespace paceline
