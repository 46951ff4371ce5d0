// What a model keeps beside its parameters.
#pragma once

#include <vector>

#include "core/units.h"
#include "kernels/model.h"
#include "sim/job.h"

namespace paceline {

struct Buffers {
  Payload what = Payload::statistics;
  Bytes bytes;
};

// Running statistics (fp32) and batch counters (int64) of the batch norms: PyTorch broadcasts each type at once. None
// without batch norms.
std::vector<Buffers> buffers_of(const Model&);

}  // namespace paceline
