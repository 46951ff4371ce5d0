// DDP's communication hooks: what becomes of a bucket of gradients between its last gradient and the mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/units.h"
#include "kernels/cost_model.h"
#include "kernels/model.h"
#include "sim/collective/spec.h"
#include "sim/strategy/program_builder.h"
#include "sim/training.h"

namespace paceline {

// What a kernel's rate is measured as: what streams, or one of kernels/runnable.h's.
enum class HookRate : std::uint8_t { streaming, quantise, dequantise, top_k };

// Kernels of one kind, one after the other.
struct HookKernels {
  std::string what;
  std::int64_t launches = 1;
  Bytes traffic;  // of memory, all together
  Flops work{};
  HookRate rate = HookRate::streaming;
};

// A part of a hook: kernels, then collectives that are issued at once. The first part runs on the compute stream; what
// follows a collective (a future's `then`) on another stream of the GPU, once that has ended. Where a part has no
// collective it is the last.
struct HookPart {
  std::vector<HookKernels> kernels{};
  bool reads_back = false;  // the host waits for these kernels before it goes on
  struct Exchange {
    CollectiveKind kind = CollectiveKind::all_reduce;
    Bytes bytes;  // all-gather: of each rank
    std::string what;
    Payload payload = Payload::gradients;
    std::optional<Precision> format{};  // of gradients: another one than theirs
  };
  std::vector<Exchange> exchanges{};
  bool synchronize = false;            // torch.cuda.synchronize
  std::vector<HookKernels> at_last{};  // behind it
};

// A parameter's gradient in a bucket.
struct HookTensor {
  std::int64_t elements = 0, rows = 0;  // rows: of the matrix that it is viewed as; 0: a vector
};

// The hook of a bucket, once it compresses. PyTorch's (torch/distributed/algorithms/ddp_comm_hooks): fp16, bf16,
// quantize_tensor, quantize_channel, powersgd. qsgd, sign and top_k as GRACE and BytePS define them, one kernel for a
// pass. docs/model.md has the table. Requires: a kind; fp32 gradients but for powersgd.
std::vector<HookPart> hook_of(const CompressionSpec&, const std::vector<HookTensor>& bucket,
                              std::int64_t bytes_each, std::uint32_t ranks);
// allreduce_hook: what PowerSGD does until it starts.
std::vector<HookPart> plain_hook(const std::vector<HookTensor>& bucket, std::int64_t bytes_each);

// (rows + columns) * rank elements instead of rows * columns, where that is more than min_rate times less.
bool powersgd_compresses(const CompressionSpec&, const HookTensor&);

// Whether PyTorch would orthogonalise by a QR of cuSOLVER's, whose kernels aren't known here: fp32 and a rank above 2
// (powerSGD_hook.py, _orthogonalize). Gram-Schmidt stands in its place, which is a guess.
bool orthogonalises_by_qr(const TrainingSpec&);

// Of one kernel of these by the roofline, at the rate of its kind. The precision of products: the gradients'.
Seconds hook_time(const GpuCosts&, const HookKernels&, Precision gradients);

// Memory that a hook keeps between steps, of gradients of so many bytes: the error that is fed back.
Bytes kept_by_hook(const CompressionSpec&, Bytes gradients);
// What is gathered of all ranks in the first step, whose one bucket has all gradients.
Bytes gathered_by_hook(const CompressionSpec&, std::int64_t elements, std::uint32_t ranks);

// Throws InputError where DDP has no such hook, or this one nothing to do: gradients that aren't fp32, another
// reduction than PyTorch's or library than NCCL (of fp16 also gloo), matrices that are all too small.
void check_compression(const TrainingSpec&, const Model&);

}  // namespace paceline
