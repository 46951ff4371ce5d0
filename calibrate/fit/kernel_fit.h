// Measured kernels -> what a GPU operation costs: the roofline's parameters (kernels/cost_model.h), launches,
// and how much slower kernels are beside a collective.
#pragma once

#include <string>
#include <vector>

#include "calibrate/measurement.h"
#include "kernels/gpu.h"
#include "scenarios/profile.h"

namespace paceline {

// One measured kernel and what the fit makes of it.
struct FittedKernel {
  std::size_t row = 0;   // in MeasuredData::kernels
  double predicted = 0;  // s
};

struct KernelFit {
  ProfileKernels kernels;
  std::vector<FittedKernel> rows;  // those that a roofline is for; not launches
  double mean_error = 0;           // mean |ln(predicted / measured)|
};

// Of kernels that only stream (copy, elementwise, layer_norm, adam, copy_scale): time = memory_start + bytes /
// (bandwidth * memory_efficiency), robust least squares on log time, without a start where their sizes are too alike to
// tell; of any other kernel by name its own efficiency, with that start. By precision: compute_efficiency and half_work
// of matrix products, likewise, time = work / (peak * efficiency) + half_work / efficiency, or what its bytes
// take where that is longer. Launch: the median of empty kernels. Slow-down: the median of a kernel's time beside
// a collective over its time alone. What no row bears on is 0. Rows of a precision that the GPU has no peak of
// are left out.
KernelFit fit_kernels(const GpuSpec&, const MeasuredData&);

// With the fit, without the launch.
Seconds fitted_time(const GpuSpec&, const ProfileKernels&, const KernelMeasurement&);

std::string kernel_table(const KernelFit&, const MeasuredData&);

}  // namespace paceline
