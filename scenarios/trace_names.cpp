#include "scenarios/trace_names.h"

#include <array>
#include <string_view>
#include <utility>

namespace paceline {
namespace {

constexpr ElementType kFloat{"Float", "f32", "float", 4}, kHalf{"Half", "f16", "half", 2},
    kBfloat16{"BFloat16", "bf16", "__nv_bfloat16", 2}, kFp8{"Float8_e4m3fn", "f8e4m3", "__nv_fp8_e4m3", 1},
    kInt{"Int", "u32", "int32_t", 4}, kLong{"Long", "u64", "int64_t", 8};
constexpr std::array<ElementType, kPrecisionNames.size()> kOfPrecision{kFloat, kFloat, kHalf, kBfloat16,
                                                                       kFp8};

struct CollectiveNames {
  const char *nccl, *c10d, *operation;
  bool reduces;
};
constexpr std::array<CollectiveNames, 7> kNames{
    {{"AllReduce", "allreduce", "all_reduce", true},
     {"AllGather", "_allgather_base", "_all_gather_base", false},
     {"ReduceScatter", "_reduce_scatter_base", "_reduce_scatter_base", true},
     {"Broadcast", "broadcast", "broadcast", false},
     {"Reduce", "reduce", "reduce", true},
     {"SendRecv", "all_to_all", "all_to_all", false},
     {"SendRecv", "send", "send", false}}};

const CollectiveNames& names_of(CollectiveKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

int minor_version(const std::string& version) { return std::stoi(version.substr(version.find('.') + 1)); }

std::string name_before_2_19(const CollectiveNames& names, const char* algorithm, const ElementType& type,
                             int minor) {
  const std::string arguments =
      minor < 13 ? "(ncclDevComm*, ncclWorkElem)" : "(ncclDevComm*, unsigned long, ncclWork*)";
  if (std::string_view(names.nccl) == "SendRecv") {
    return "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t" + arguments;
  }
  return std::string("ncclKernel_") + names.nccl + '_' + algorithm + "_LL_Sum_" +
         (names.reduces ? type.cuda : "int8_t") + arguments;
}

}  // namespace

ElementType element_type(const Program& program, std::uint32_t index, Precision gradients) {
  std::string_view before;  // label of the collective before
  for (const Op& op : program.ops) {
    if (op.kind != OpKind::collective) {
      continue;
    }
    if (op.index != index) {
      before = op.label;
    } else if (op.label == "broadcast buffers") {
      return before == op.label ? kLong : kFloat;  // statistics, then counters
    } else if (op.label == "broadcast rebuilt buckets" || op.label == "all_reduce used parameters") {
      return kInt;
    }
  }
  return kOfPrecision[static_cast<std::size_t>(gradients)];
}

std::string nccl_kernel_name(const CollectivePlan& plan, const ElementType& type,
                             const std::string& version) {
  const CollectiveNames& names = names_of(plan.kind);
  const int minor = minor_version(version);
  const char* const algorithm = plan.algorithm == Algorithm::tree ? "TREE" : "RING";
  if (minor < 19) {
    return name_before_2_19(names, algorithm, type, minor);
  }
  std::string name = std::string("ncclDevKernel_") + names.nccl;
  if (names.reduces) {
    name += std::string("_Sum_") + type.nccl;
  }
  if (std::string_view(names.nccl) != "SendRecv") {
    name += std::string("_") + (names.reduces ? algorithm : "RING") + "_LL";
  }
  return name +
         (minor < 22 ? "(ncclDevComm*, unsigned long, ncclWork*)" : "(ncclDevKernelArgsStorage<4096ul>)");
}

std::string c10d_name(CollectiveKind kind) { return names_of(kind).c10d; }
std::string c10d_operation(CollectiveKind kind) { return names_of(kind).operation; }

std::string group_ranks(std::size_t world_size) {
  constexpr std::size_t kMostShown = 30;
  std::string text = "[";
  const std::size_t shown = world_size <= kMostShown ? world_size : kMostShown - 1;
  for (std::size_t r = 0; r < shown; ++r) {
    text += (r > 0 ? ", " : "") + std::to_string(r);
  }
  return text + (shown < world_size ? ", ..., " + std::to_string(world_size - 1) : "") + ']';
}

}  // namespace paceline
