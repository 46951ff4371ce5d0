// What the kernels use of cub::BlockScan. As the original it does not synchronise behind itself.
#pragma once

#include "kernels/cuda/device_language.cuh"

namespace cub {

template <class T, int kThreads>
class BlockScan {
 public:
  struct TempStorage {
    T of_thread[kThreads];
  };
  explicit BlockScan(TempStorage& storage) : storage_(storage) {}

  void ExclusiveSum(T in, T& out, T& total) {
    storage_.of_thread[threadIdx.x] = in;
    emulation::meet_in_block();
    T sum = 0, before = 0;
    for (unsigned i = 0; i < kThreads; ++i) {
      before = i == threadIdx.x ? sum : before;
      sum += storage_.of_thread[i];
    }
    out = before;
    total = sum;
  }
  void ExclusiveSum(T in, T& out) {
    T total;
    ExclusiveSum(in, out, total);
  }
  void ExclusiveSum(T (&in)[2], T (&out)[2]) {
    const T first = in[0];
    ExclusiveSum(in[0] + in[1], out[0]);
    out[1] = out[0] + first;
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
