// The CPU's side of kernels/runnable.h: fp32, threaded.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cpu/thread_team.h"
#include "kernels/runnable.h"

namespace paceline {

// Shapes of training at sizes that a few cores do in milliseconds.
std::vector<KernelSpec> cpu_kernel_shapes();

// Throws InputError for a kernel that kernels/runnable.h doesn't know, or another precision than fp32. The
// team is shared by all kernels: one launch at a time. Memory: at most kRotatedBytes, or two sets of buffers.
RunnableKernel make_cpu_kernel(const KernelSpec&, std::shared_ptr<ThreadTeam>);

inline constexpr std::int64_t kRotatedBytes = std::int64_t{256} << 20;

}  // namespace paceline
