// What the kernels use of cub::BlockReduce: the sum is thread 0's alone.
#pragma once

#include "kernels/cuda/device_language.cuh"

namespace cub {

template <class T, int kThreads>
class BlockReduce {
 public:
  struct TempStorage {
    T of_thread[kThreads];
  };
  explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

  T Sum(T in) {
    storage_.of_thread[threadIdx.x] = in;
    emulation::meet_in_block();
    T sum = 0;
    for (int i = 0; threadIdx.x == 0 && i < kThreads; ++i) {
      sum += storage_.of_thread[i];
    }
    return sum;
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
