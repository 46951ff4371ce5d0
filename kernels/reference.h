// The kernels of kernels/runnable.h in double precision, and how far a result may be from it. Large products
// are compared in sampled elements (corners and a fixed pseudo-random choice), all others in full.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/runnable.h"

namespace paceline {

// Arrays in the order of the table; integers (q, index) as floats would lose bits above 2^24, so every array
// is double.
using KernelArrays = std::vector<std::vector<double>>;

// Inputs of a check: the same on every call and machine. Every value is exact in the precision (small
// multiples of a power of two; quantised values are integers from -127 to 127), so that all implementations
// compute on the same numbers.
KernelArrays kernel_inputs(const KernelSpec&);

// The largest difference between `outputs` (of the implementation; sizes as in the table) and the reference,
// relative to the scale of the output: its largest magnitude (for a product sqrt(k), what sums of k random
// products reach). quantise: the largest distance of q * scale from x, in units of half a step. top_k: 0, or
// infinity where an index is wrong, double, or not among the k largest. Infinity where a size is wrong or a
// result is not a number.
double kernel_error(const KernelSpec&, const KernelArrays& inputs, const KernelArrays& outputs);

// What kernel_error may be: rounding of the precision, and of an fp32 accumulation.
double kernel_tolerance(const KernelSpec&);

}  // namespace paceline
