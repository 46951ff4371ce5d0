#include "scenarios/trace_names.h"

#include <string_view>
#include <utility>

#include "core/minor_version.h"
#include "sim/strategy/sharding.h"

namespace paceline {
namespace {

constexpr ElementType kFloat{"Float", "f32", "float", 4}, kHalf{"Half", "f16", "half", 2},
    kBfloat16{"BFloat16", "bf16", "__nv_bfloat16", 2}, kFp8{"Float8_e4m3fn", "f8e4m3", "__nv_fp8_e4m3", 1},
    kInt{"Int", "u32", "int32_t", 4}, kLong{"Long", "u64", "int64_t", 8}, kByte{"Byte", "u8", "uint8_t", 1};

ElementType type_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
    case Precision::tf32:
      return kFloat;
    case Precision::fp16:
      return kHalf;
    case Precision::bf16:
      return kBfloat16;
    case Precision::fp8:
      return kFp8;
  }
  return kFloat;
}

constexpr auto kNcclNames = names<CollectiveKind>({{"AllReduce", CollectiveKind::all_reduce},
                                                   {"AllGather", CollectiveKind::all_gather},
                                                   {"ReduceScatter", CollectiveKind::reduce_scatter},
                                                   {"Broadcast", CollectiveKind::broadcast},
                                                   {"Reduce", CollectiveKind::reduce},
                                                   {"SendRecv", CollectiveKind::all_to_all},
                                                   {"SendRecv", CollectiveKind::send_recv}});
constexpr auto kC10dNames = names<CollectiveKind>({{"allreduce", CollectiveKind::all_reduce},
                                                   {"_allgather_base", CollectiveKind::all_gather},
                                                   {"_reduce_scatter_base", CollectiveKind::reduce_scatter},
                                                   {"broadcast", CollectiveKind::broadcast},
                                                   {"reduce", CollectiveKind::reduce},
                                                   {"all_to_all", CollectiveKind::all_to_all},
                                                   {"send", CollectiveKind::send_recv}});
constexpr auto kC10dOperations =
    names<CollectiveKind>({{"all_reduce", CollectiveKind::all_reduce},
                           {"_all_gather_base", CollectiveKind::all_gather},
                           {"_reduce_scatter_base", CollectiveKind::reduce_scatter},
                           {"broadcast", CollectiveKind::broadcast},
                           {"reduce", CollectiveKind::reduce},
                           {"all_to_all", CollectiveKind::all_to_all},
                           {"send", CollectiveKind::send_recv}});

bool sums(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter ||
         kind == CollectiveKind::reduce;
}

std::string name_before_2_19(CollectiveKind kind, const char* algorithm, const ElementType& type, int minor) {
  const std::string arguments =
      minor < 13 ? "(ncclDevComm*, ncclWorkElem)" : "(ncclDevComm*, unsigned long, ncclWork*)";
  if (between_peers(kind)) {
    return "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t" + arguments;
  }
  return "ncclKernel_" + std::string(kNcclNames[kind]) + '_' + algorithm + "_LL_Sum_" +
         (sums(kind) ? type.cuda : "int8_t") + arguments;
}

}  // namespace

ElementType element_type(const Purpose& purpose, const TrainingSpec& training) {
  switch (purpose.payload) {
    case Payload::gradients:
      return type_of(purpose.format.value_or(gradients_on_the_wire(training)));
    case Payload::
        parameters: {  // averaged, or of a model that all take, in memory; else gathered for kernels
      const bool in_memory =
          training.strategy == StrategyKind::local_sgd || training.strategy == StrategyKind::ddp;
      return type_of(in_memory                ? training.parameters
                     : fully_shards(training) ? gathered_format(training.fsdp, training.precision)
                                              : kept_in(training.precision));
    }
    case Payload::statistics:
      return kFloat;
    case Payload::counters:
      return kLong;
    case Payload::indices:
      return kInt;
    case Payload::packed:
      return kByte;
  }
  return kFloat;
}

std::string nccl_kernel_name(const CollectivePlan& plan, const ElementType& type,
                             const std::string& version) {
  const CollectiveKind kind = plan.kind;
  const int minor = leading_minor(version);
  const char* const algorithm = plan.algorithm == Algorithm::tree ? "TREE" : "RING";
  if (minor < 19) {
    return name_before_2_19(kind, algorithm, type, minor);
  }
  std::string name = "ncclDevKernel_" + std::string(kNcclNames[kind]);
  if (sums(kind)) {
    name += std::string("_Sum_") + type.nccl;
  }
  if (!between_peers(kind)) {
    name += std::string("_") + (sums(kind) ? algorithm : "RING") + "_LL";
  }
  return name +
         (minor < 22 ? "(ncclDevComm*, unsigned long, ncclWork*)" : "(ncclDevKernelArgsStorage<4096ul>)");
}

std::string c10d_name(CollectiveKind kind) { return std::string(kC10dNames[kind]); }
std::string c10d_operation(CollectiveKind kind) { return std::string(kC10dOperations[kind]); }

std::string group_ranks(std::span<const std::uint32_t> ranks) {
  constexpr std::size_t kMostShown = 30;
  std::string text = "[";
  const std::size_t shown = ranks.size() <= kMostShown ? ranks.size() : kMostShown - 1;
  for (std::size_t i = 0; i < shown; ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  }
  return text + (shown < ranks.size() ? ", ..., " + std::to_string(ranks.back()) : "") + ']';
}

}  // namespace paceline
