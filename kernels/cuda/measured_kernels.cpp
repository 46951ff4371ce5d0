#include "kernels/cuda/runnable_cuda.h"

namespace paceline::cuda {
namespace {

using Shape = KernelSpec;

void add(std::vector<KernelSpec>& to, const char* name, const std::vector<const char*>& precisions,
         const std::vector<Shape>& shapes) {
  for (const char* precision : precisions) {
    for (const Shape& shape : shapes) {
      to.push_back({name, precision, shape.m, shape.n, shape.k});
    }
  }
}

Shape shape(std::int64_t m, std::int64_t n = 0, std::int64_t k = 0) { return {"", "", m, n, k}; }

// Squares, and the products of a transformer's layer (tokens, outputs, inputs): BERT large with 4096 tokens
// (attention in, out, MLP in, out), its weight gradient of the MLP, Llama 7B's attention and MLP with 2048
// tokens, GPT-2's vocabulary.
std::vector<Shape> products() {
  return {shape(512, 512, 512),    shape(1024, 1024, 1024), shape(2048, 2048, 2048), shape(4096, 4096, 4096),
          shape(8192, 8192, 8192), shape(4096, 3072, 1024), shape(4096, 1024, 1024), shape(4096, 4096, 1024),
          shape(4096, 1024, 4096), shape(1024, 4096, 4096), shape(2048, 4096, 4096), shape(2048, 11008, 4096),
          shape(1024, 50304, 768)};
}

// ResNet-50, batch 32: the first layer, then of each stage the 3 by 3 and the widening 1 by 1 convolution.
std::vector<Shape> convolutions() {
  return {shape(401408, 64, 147),  shape(100352, 64, 576), shape(100352, 256, 64),
          shape(25088, 128, 1152), shape(25088, 512, 128), shape(6272, 256, 2304),
          shape(6272, 1024, 256),  shape(1568, 512, 4608), shape(1568, 2048, 512)};
}

}  // namespace

std::vector<KernelSpec> measured_kernels() {
  const std::vector<const char*> storage{"fp32", "fp16", "bf16"}, all{"fp32", "tf32", "fp16", "bf16"};
  constexpr std::int64_t kKi = 1024, kMi = kKi * kKi;
  constexpr std::int64_t kBucket = 25 * kMi / 4;  // DDP's default bucket of 25 MiB, in fp32 values
  constexpr std::int64_t kBlock = 512;            // of the 8-bit format
  std::vector<KernelSpec> kernels;
  add(kernels, "empty", {"fp32"}, {shape(0)});
  add(kernels, "copy", {"fp32"}, {shape(kMi / 4), shape(4 * kMi), shape(64 * kMi)});
  add(kernels, "gemm", all, products());
  add(kernels, "conv_gemm", all, convolutions());
  add(kernels, "elementwise", storage, {shape(64 * kKi), shape(kMi), shape(8 * kMi), shape(32 * kMi)});
  add(kernels, "layer_norm", storage,
      {shape(4096, 768), shape(4096, 1024), shape(4096, 4096), shape(2048, 12288)});
  add(kernels, "softmax", storage,
      {shape(32 * kKi, 512), shape(16 * kKi, 1024), shape(8 * kKi, 2048), shape(512, 50304)});
  // 25,557,032: the parameters of ResNet-50.
  add(kernels, "adam", {"fp32", "bf16"}, {shape(kMi), shape(kBucket), shape(25557032)});
  add(kernels, "copy_scale", storage, {shape(kMi / 4), shape(kBucket), shape(32 * kMi)});
  add(kernels, "quantise", {"fp32", "bf16"},
      {shape(kMi / 4, kBlock), shape(kBucket, kBlock), shape(32 * kMi, kBlock)});
  add(kernels, "dequantise", {"fp32", "bf16"},
      {shape(kMi / 4, kBlock), shape(kBucket, kBlock), shape(32 * kMi, kBlock)});
  add(kernels, "top_k", {"fp32", "bf16"},
      {shape(kMi / 4, 0, kMi / 400), shape(kBucket, 0, kBucket / 1000), shape(kBucket, 0, kBucket / 100),
       shape(32 * kMi, 0, 32 * kMi / 1000)});
  return kernels;
}

}  // namespace paceline::cuda
