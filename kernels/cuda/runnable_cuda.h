// The kernels of kernels/runnable.h on the current GPU.
#pragma once

#include <vector>

#include "kernels/cuda/resources.h"
#include "kernels/runnable.h"

namespace paceline::cuda {

// What is measured by default: training shapes, those of one name together.
std::vector<KernelSpec> measured_kernels();

// Throws InputError where `spec` cannot be run on a GPU here (name, precision, shape).
void require_kernel(const KernelSpec& spec);

// Launches go to `stream`, which must outlive the kernel, from any thread. Memory: the rotating sets (at most
// a quarter of what is free); the host needs the inputs twice for a moment.
RunnableKernel make_kernel(const KernelSpec&, const Stream& stream);

}  // namespace paceline::cuda
