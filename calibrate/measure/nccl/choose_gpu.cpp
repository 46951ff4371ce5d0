#include "calibrate/measure/nccl/choose_gpu.h"

#include "core/error.h"

namespace paceline::measure {

int gpu_of(const Place& place, int gpus) {
  if (gpus == 0) {
    throw InputError("no GPU to be seen on " + place.host + "; is CUDA_VISIBLE_DEVICES empty?");
  }
  if (gpus == 1) {
    return 0;  // should two processes have got the same one, NCCL says so
  }
  if (place.local_rank >= gpus) {
    throw InputError("process " + std::to_string(place.local_rank) + " of " + place.host +
                     " has no GPU of its own: there are " + std::to_string(gpus) +
                     "; start one process per GPU");
  }
  return place.local_rank;
}

}  // namespace paceline::measure
