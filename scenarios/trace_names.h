// The names that NCCL and PyTorch's c10d give a collective in a profiler's trace.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/gpu.h"
#include "sim/collective/plan.h"
#include "sim/job.h"

namespace paceline {

struct ElementType {
  const char* torch;  // c10d's "dtype": "Float"
  const char* nccl;   // in names of kernels since NCCL 2.19: "f32"; signed sums run as unsigned ones
  const char* cuda;   // in names before: "float"
  std::int64_t bytes = 0;
};

// Of what a collective carries.
ElementType element_type(const Purpose&, const TrainingSpec&);

// As a profiler shows it: NCCL has one specialised kernel per collective, type and (ring or tree), named
// after LL whatever protocol it runs (src/device/generate.py). `version` is "2.12" to "2.30".
std::string nccl_kernel_name(const CollectivePlan&, const ElementType&, const std::string& version);

std::string c10d_name(CollectiveKind);       // "allreduce": "Collective name"
std::string c10d_operation(CollectiveKind);  // "all_reduce": as in "nccl:all_reduce"

// "[0, 1, 2]"; c10d shortens the list of a large group.
std::string group_ranks(std::span<const std::uint32_t> ranks);

}  // namespace paceline
