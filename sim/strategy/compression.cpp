#include "sim/strategy/compression.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace paceline {
namespace {

constexpr const char* kPlace = "/training/compression";

// Elements by ranks by bytes, before it is known whether they fit.
__extension__ using Wide = __int128;

Wide over(Wide a, Wide b) { return (a + b - 1) / b; }

std::int64_t in_range(Wide count) {
  constexpr Wide kMost = Wide{1} << 62;  // bytes of one kind of kernels or collective, or launches
  if (count > kMost) {
    throw InputError(
        "expected fewer GPUs or parameters: of a bucket a GPU would move more than 4 EiB, or launch more "
        "kernels than that",
        kPlace);
  }
  return static_cast<std::int64_t>(count);
}

std::int64_t elements_of(const std::vector<HookTensor>& bucket) {
  std::int64_t elements = 0;
  for (const HookTensor& tensor : bucket) {
    elements += tensor.elements;
  }
  return elements;
}

HookKernels at_rate(HookRate rate, std::string what, Wide bytes, Wide launches = 1) {
  return {std::move(what), in_range(launches), Bytes(in_range(bytes)), {}, rate};
}
HookKernels stream(std::string what, Wide bytes, Wide launches = 1) {
  return at_rate(HookRate::streaming, std::move(what), bytes, launches);
}
HookPart::Exchange all_reduce(Wide bytes, std::string what) {
  return {CollectiveKind::all_reduce, Bytes(in_range(bytes)), std::move(what)};
}
HookPart::Exchange all_gather(Wide bytes_of_each, Wide ranks, std::string what,
                              Payload payload = Payload::gradients) {
  static_cast<void>(in_range(ranks * bytes_of_each));
  return {CollectiveKind::all_gather, Bytes(in_range(bytes_of_each)), std::move(what), payload};
}
void send_as(Precision format, std::vector<HookPart>& parts) {
  for (HookPart& part : parts) {
    for (HookPart::Exchange& each : part.exchanges) {
      each.format = format;
    }
  }
}

// default_hooks.py, _compress_hook: cast, div_; copy_ back.
std::vector<HookPart> cast_hook(Wide m, Precision format) {
  std::vector<HookPart> parts{
      {.kernels = {stream("cast", 6 * m), stream("divide", 4 * m)}, .exchanges = {all_reduce(2 * m, "")}},
      {.kernels = {stream("cast back", 6 * m)}}};
  send_as(format, parts);
  return parts;
}

// What MinMaxObserver launches beside its pass over the tensor, counted in torch/ao/quantization/observer.py: the
// running extremes 4, the check of both 3, scale and zero point 14, and their copy back to the GPU 1.
constexpr std::int64_t kObserverLaunches = 22;

// quantization_hooks.py, per tensor. The extremes are read by the host. Buffers for what is gathered are filled with
// zeros, and all_gather copies what it gathered into them.
std::vector<HookPart> quantize_tensor_hook(Wide m, Wide n) {
  return {{.kernels = {stream("observe", 4 * m, 1 + kObserverLaunches)},
           .reads_back = true,
           .exchanges = {all_gather(8, n, "scales")}},
          {.kernels = {stream("unpack scales", 16 * n, n), stream("quantise", 37 * m, 5),
                       stream("clear", n * m, n)},
           .exchanges = {all_gather(m, n, "values", Payload::packed)}},
          {.kernels = {stream("unpack", 2 * n * m, n), stream("clear", 4 * m),
                       stream("dequantise and add", 33 * n * m, 4 * n), stream("divide", 8 * m)}}};
}

// Likewise, per channel of 512: padded by at least one element, and a loop over the channels in Python.
std::vector<HookPart> quantize_channel_hook(Wide m, Wide n) {
  constexpr Wide kChannel = 512;
  const Wide channels = m / kChannel + 1, padded = channels * kChannel;
  return {{.kernels = {stream("pad", 4 * padded + 8 * m, 2),
                       stream("observe", 4 * padded, 1 + kObserverLaunches)},
           .reads_back = true,
           .exchanges = {all_gather(8 * channels, n, "scales")}},
          {.kernels = {stream("unpack scales", 16 * n * channels, n),
                       stream("quantise", (4 + 32 + 13) * padded, 1 + 4 * channels + 2),
                       stream("clear", n * padded, n)},
           .exchanges = {all_gather(padded, n, "values", Payload::packed)}},
          {.kernels = {stream("unpack", 2 * n * padded, n), stream("clear", 4 * padded),
                       stream("dequantise and add", (5 + 4 + 24 + 12) * n * padded, (3 + 3 * channels) * n),
                       stream("divide", 8 * m)}}};
}

// A byte each and a scale for each 128: Alistarh et al. 2017; GRACE.
std::vector<HookPart> qsgd_hook(Wide m, Wide n) {
  const Wide sent = m + 4 * over(m, 128);
  return {{.kernels = {at_rate(HookRate::quantise, "quantise", 12 * m + sent)},
           .exchanges = {all_gather(sent, n, "values and scales", Payload::packed)}},
          {.kernels = {at_rate(HookRate::dequantise, "unpack and add", n * (sent + 8 * m), n)}}};
}

// A bit each in words of 32, and one scale: Bernstein et al. 2018; BytePS's onebit.
std::vector<HookPart> sign_hook(Wide m, Wide n) {
  const Wide sent = 4 * over(m, 32) + 4;
  return {{.kernels = {at_rate(HookRate::quantise, "pack", 12 * m + sent)},
           .exchanges = {all_gather(sent, n, "signs and scale", Payload::packed)}},
          {.kernels = {at_rate(HookRate::dequantise, "unpack and add", n * (sent + 8 * m), n)}}};
}

// Lin et al. 2018; GRACE. What is scattered is read and written a sector at a time.
std::vector<HookPart> top_k_hook(const CompressionSpec& spec, Wide m, Wide n) {
  constexpr std::int64_t kSector = 32;
  const Wide k = std::max<Wide>(1, static_cast<Wide>(std::floor(spec.share * static_cast<double>(m))));
  return {{.kernels = {stream("add error", 12 * m), at_rate(HookRate::top_k, "select", 4 * m + 8 * k)},
           .exchanges = {all_gather(4 * k, n, "values"), all_gather(4 * k, n, "indices", Payload::indices)}},
          {.kernels = {stream("clear", 4 * m), stream("scatter and add", n * k * (8 + 2 * kSector), n),
                       stream("keep error", 8 * m + k * (4 + kSector), 2)}}};
}

struct Matrix {
  std::int64_t rows = 0, columns = 0, rank = 0;
};

// _orthogonalize: Gram-Schmidt of `rank` columns: a norm and a division of each, then what follows it loses its part.
HookKernels orthogonalise(const std::vector<Matrix>& matrices, std::int64_t Matrix::* side, Wide bytes_each,
                          const char* what) {
  HookKernels all{what, 0, {}};
  Wide traffic = 0;
  for (const Matrix& matrix : matrices) {
    const std::int64_t length = matrix.*side;
    for (std::int64_t rest = matrix.rank; rest-- > 0;) {
      all.launches += rest > 0 ? 6 : 2;
      traffic += bytes_each * length * (rest > 0 ? 5 + 7 * rest : 3);
    }
    const auto rank = static_cast<double>(matrix.rank);
    all.work = all.work + Flops(2.0 * static_cast<double>(length) * rank * rank);
  }
  all.traffic = Bytes(in_range(traffic));
  return all;
}

// A matrix by another for each, which has `rank` columns.
HookKernels product(const std::vector<Matrix>& matrices, Wide bytes_each, const char* what) {
  HookKernels all{what, 0, {}};
  Wide traffic = 0;
  for (const auto& [rows, columns, rank] : matrices) {
    ++all.launches;
    traffic += bytes_each * (rows * columns + (rows + columns) * rank);
    all.work = all.work + Flops(2.0 * static_cast<double>(rows * columns) * static_cast<double>(rank));
  }
  all.traffic = Bytes(in_range(traffic));
  return all;
}

// powerSGD_hook.py: three all-reduces, each after the one before. e: bytes of an element.
std::vector<HookPart> powersgd_hook(const CompressionSpec& spec, const std::vector<HookTensor>& bucket,
                                    Wide e) {
  const Wide m = elements_of(bucket);
  std::vector<Matrix> matrices;
  Wide uncompressed = 0, tensors = 0, p = 0, q = 0;
  for (const HookTensor& tensor : bucket) {
    if (!powersgd_compresses(spec, tensor)) {
      uncompressed += tensor.elements;
      ++tensors;
      continue;
    }
    const std::int64_t columns = tensor.elements / tensor.rows;
    matrices.push_back({tensor.rows, columns, std::min({tensor.rows, columns, spec.rank})});
    const Wide rank = matrices.back().rank;
    p += tensor.rows * rank;
    q += columns * rank;
  }
  std::vector<HookPart> parts(1);
  if (spec.error_feedback) {
    parts[0].kernels = {stream("add error", 3 * e * m), stream("clone", 2 * e * m)};
  }
  if (uncompressed > 0) {
    parts[0].kernels.push_back(stream("join uncompressed", 2 * e * uncompressed));
  }
  if (!matrices.empty()) {
    parts[0].kernels.push_back(orthogonalise(matrices, &Matrix::columns, e, "orthogonalise Q"));
    parts[0].kernels.push_back(product(matrices, e, "P = M Q"));
  }
  if (uncompressed > 0) {
    parts.back().exchanges = {all_reduce(e * uncompressed, "uncompressed")};
    parts.push_back({.kernels = {stream("divide", 2 * e * uncompressed),
                                 stream("split uncompressed", 2 * e * uncompressed, tensors)}});
  }
  if (!matrices.empty()) {
    parts.back().exchanges = {all_reduce(e * p, "P")};
    parts.push_back({.kernels = {orthogonalise(matrices, &Matrix::rows, e, "orthogonalise P"),
                                 product(matrices, e, "Q = M^T P")},
                     .exchanges = {all_reduce(e * q, "Q")}});
    parts.push_back({.kernels = {stream("divide Q", 2 * e * q), product(matrices, e, "M = P Q^T")}});
  }
  parts.back().synchronize = spec.synchronize;
  if (spec.error_feedback) {
    parts.back().at_last = {stream("keep error", 3 * e * m)};
  }
  return parts;
}

std::vector<HookPart> unwrapped(const CompressionSpec& spec, const std::vector<HookTensor>& bucket,
                                std::int64_t bytes_each, std::int64_t ranks) {
  const std::int64_t m = elements_of(bucket);
  switch (spec.kind) {
    case CompressionKind::fp16:
      return cast_hook(m, Precision::fp16);
    case CompressionKind::bf16:
      return cast_hook(m, Precision::bf16);
    case CompressionKind::quantize_tensor:
      return quantize_tensor_hook(m, ranks);
    case CompressionKind::quantize_channel:
      return quantize_channel_hook(m, ranks);
    case CompressionKind::qsgd:
      return qsgd_hook(m, ranks);
    case CompressionKind::sign:
      return sign_hook(m, ranks);
    case CompressionKind::top_k:
      return top_k_hook(spec, m, ranks);
    case CompressionKind::powersgd:
      return powersgd_hook(spec, bucket, bytes_each);
    case CompressionKind::none:
      break;
  }
  return {};
}

// By how much it becomes smaller with rank 1; 0 for a vector.
double most_compression(const HookTensor& tensor) {
  if (tensor.rows == 0) {
    return 0;
  }
  const std::int64_t columns = tensor.elements / tensor.rows;
  return static_cast<double>(tensor.elements) / static_cast<double>(tensor.rows + columns);
}

double efficiency(const RooflineSpec& roofline, HookRate rate) {
  switch (rate) {
    case HookRate::quantise:
      return roofline.quantise_efficiency.value_or(roofline.memory_efficiency);
    case HookRate::dequantise:
      return roofline.dequantise_efficiency.value_or(roofline.memory_efficiency);
    case HookRate::top_k:
      return roofline.top_k_efficiency;
    case HookRate::streaming:
      break;
  }
  return roofline.memory_efficiency;
}

void check_powersgd(const CompressionSpec& spec, const Model& model) {
  if (spec.start < 2) {  // PowerSGDState refuses it with error feedback or a warm start, its default
    throw InputError(
        "expected 2 or more, as DDP builds its buckets anew after the first step and PowerSGD's warm start "
        "keeps matrices of them, found " +
            std::to_string(spec.start),
        std::string(kPlace) + "/start");
  }
  std::int64_t largest = 0;
  double most = 0;  // by which a matrix becomes smaller with any rank: with 1
  bool compresses = false;
  for (const Layer& layer : model.layers) {
    for (std::size_t t = 0; t < layer.parameters.size(); ++t) {
      const HookTensor tensor{layer.parameters[t], matrix_rows(model, layer, t)};
      largest = tensor.rows == 0 ? largest
                                 : std::max(largest, std::min(tensor.rows, tensor.elements / tensor.rows));
      compresses = compresses || powersgd_compresses(spec, tensor);
      most = std::max(most, most_compression(tensor));
    }
  }
  if (!compresses && most > 0 && spec.min_rate >= most) {  // whatever the rank
    throw InputError(formatted("expected less than %.4g, by which the most compressible matrix of ", most) +
                         model.name + formatted(" becomes smaller with rank 1, found %g", spec.min_rate),
                     std::string(kPlace) + "/min_rate");
  }
  if (!compresses) {
    throw InputError(
        "expected a rank at which " + model.name +
            " has a matrix that becomes smaller by min_rate (its largest has a smaller side of " +
            std::to_string(largest) + "), or another compression, found " + std::to_string(spec.rank),
        std::string(kPlace) + "/rank");
  }
}

}  // namespace

std::vector<HookPart> hook_of(const CompressionSpec& spec, const std::vector<HookTensor>& bucket,
                              std::int64_t bytes_each, std::uint32_t ranks) {
  if (!spec.wrapper) {
    return unwrapped(spec, bucket, bytes_each, ranks);
  }
  constexpr std::int64_t kHalf = 2;  // fp16_compress_wrapper: the hook sees a bucket of half precision
  const Wide cast = Wide{bytes_each + kHalf} * elements_of(bucket);
  std::vector<HookPart> parts = unwrapped(spec, bucket, kHalf, ranks);
  send_as(*spec.wrapper == HookWrapper::fp16 ? Precision::fp16 : Precision::bf16, parts);
  parts.front().kernels.insert(parts.front().kernels.begin(), stream("cast", cast));
  parts.back().at_last.push_back(stream("cast back", cast));
  return parts;
}

std::vector<HookPart> plain_hook(const std::vector<HookTensor>& bucket, std::int64_t bytes_each) {
  const Wide bytes = Wide{bytes_each} * elements_of(bucket);
  return {{.kernels = {stream("divide", 2 * bytes)}, .exchanges = {all_reduce(bytes, "")}}};
}

bool powersgd_compresses(const CompressionSpec& spec, const HookTensor& tensor) {
  if (tensor.rows == 0) {
    return false;
  }
  const std::int64_t columns = tensor.elements / tensor.rows;
  const std::int64_t rank = std::min({tensor.rows, columns, spec.rank});
  return static_cast<double>(tensor.rows + columns) * static_cast<double>(rank) * spec.min_rate <
         static_cast<double>(tensor.elements);
}

bool orthogonalises_by_qr(const TrainingSpec& training) {
  constexpr std::int64_t kMostByGramSchmidt = 2;
  const CompressionSpec& spec = training.compression;
  return spec.kind == CompressionKind::powersgd && spec.rank > kMostByGramSchmidt && !spec.wrapper &&
         same_format(training.gradients, Precision::fp32);
}

Seconds hook_time(const GpuCosts& costs, const HookKernels& kernels, Precision gradients) {
  GpuCosts at = costs;
  at.roofline.memory_efficiency = efficiency(costs.roofline, kernels.rate);
  if (costs.gpu.peak[static_cast<std::size_t>(gradients)].value > 0) {
    at.precision = gradients;
  }
  if (kernels.work.value == 0) {
    return memory_time(at, kernels.traffic);
  }
  const auto count = static_cast<double>(kernels.launches);
  const Bytes each(std::llround(static_cast<double>(kernels.traffic.value) / count));
  return count * kernel_time(at, Flops(kernels.work.value / count), each);
}

Bytes kept_by_hook(const CompressionSpec& spec, Bytes gradients) {
  switch (spec.kind) {
    case CompressionKind::qsgd:
    case CompressionKind::sign:
    case CompressionKind::top_k:
      return gradients;
    case CompressionKind::powersgd:
      return !spec.error_feedback ? Bytes(0) : spec.wrapper ? Bytes(gradients.value / 2) : gradients;
    case CompressionKind::none:
    case CompressionKind::fp16:
    case CompressionKind::bf16:
    case CompressionKind::quantize_tensor:
    case CompressionKind::quantize_channel:
      break;
  }
  return Bytes(0);
}

Bytes gathered_by_hook(const CompressionSpec& spec, std::int64_t elements, std::uint32_t ranks) {
  constexpr double kMost = 1LL << 60;
  double bytes = 0;
  for (const HookPart& part : unwrapped(spec, {{elements, 0}}, 4, 1)) {
    for (const HookPart::Exchange& each : part.exchanges) {
      bytes += each.kind == CollectiveKind::all_gather ? static_cast<double>(each.bytes.value) : 0;
    }
  }
  return Bytes(static_cast<std::int64_t>(std::min(kMost, bytes * ranks)));
}

void check_compression(const TrainingSpec& training, const Model& model) {
  const CompressionSpec& spec = training.compression;
  if (spec.kind == CompressionKind::none) {
    return;
  }
  const bool zero1 = training.strategy == StrategyKind::zero && training.zero.stage == 1;
  if (training.strategy != StrategyKind::ddp && !zero1) {
    throw InputError(
        "expected the strategy ddp, or zero with stage 1, whose communication hooks compress, found " +
            std::string(name_of(training.strategy)),
        kPlace);
  }
  if (zero1 && training.zero.reduce_scatter) {
    throw InputError("expected buckets that are all-reduced, which communication hooks compress, found true",
                     "/training/zero/reduce_scatter");
  }
  if (training.ddp.reduction != Reduction::pytorch_ddp) {
    throw InputError("expected the reduction pytorch_ddp, which has communication hooks, found " +
                         std::string(name_of(training.ddp.reduction)),
                     "/training/ddp/reduction");
  }
  if (training.ddp.wire) {
    throw InputError("expected no \"wire\" beside a compression, which says what is sent",
                     "/training/ddp/wire");
  }
  if (training.ddp.join) {
    throw InputError(
        "expected no join beside a compression: what a rank without batches adds to a hook isn't known",
        "/training/ddp/join");
  }
  const bool casts_on_hosts =
      training.collective.library == CollectiveLibrary::gloo && spec.kind == CompressionKind::fp16;
  if (training.collective.library != CollectiveLibrary::nccl && !casts_on_hosts) {
    throw InputError("expected the library nccl, whose hooks run on GPUs, or fp16 with gloo",
                     "/training/collective/library");
  }
  const bool powersgd = spec.kind == CompressionKind::powersgd;
  if (!powersgd && !same_format(training.gradients, Precision::fp32)) {
    throw InputError("expected fp32 gradients, which " + std::string(name_of(spec.kind)) +
                         " compresses, found " + std::string(name_of(training.gradients)),
                     "/training/gradients");
  }
  if (spec.wrapper && (!powersgd || !same_format(training.gradients, Precision::fp32))) {
    throw InputError("expected a wrapper round powersgd of fp32 gradients", std::string(kPlace) + "/wrapper");
  }
  if (powersgd) {
    check_powersgd(spec, model);
  }
}

}  // namespace paceline
