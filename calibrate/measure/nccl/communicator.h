// One rank's NCCL communicator on one stream.
//
// Waiting polls: an asynchronous error of NCCL (a dead network, an aborted peer) ends the wait, aborts the
// communicator, so that no kernel of it keeps the GPU, and throws. A peer that died without a word is not an
// error for NCCL; that case is the control channel's.
#pragma once

#include <nccl.h>

#include <string>

#include "calibrate/measure/collective.h"
#include "kernels/cuda/resources.h"

namespace paceline::measure {

std::string nccl_version();                 // "NCCL 2.28.9", of the library that runs
std::string nccl_version_text(int number);  // 22809: "2.28.9", 2708: "2.7.8"
std::string make_nccl_token();              // the bytes of an ncclUniqueId

class Communicator {
 public:
  explicit Communicator(const cuda::Stream&);  // not connected; the stream must outlive it
  ~Communicator();                             // aborts what was not finished
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Of the current GPU. Returns when all ranks have called it with the token of rank 0.
  void connect(const std::string& token, int rank, int ranks);
  // Enqueues the collective. Requires: connected; buffers as collective.h says.
  void enqueue(const Collective&, const float* send, float* receive);
  // Enqueues what no rank's stream passes before all have come to it.
  void enqueue_barrier();
  // The host waits until the stream has come to the event.
  void wait(const cuda::Event&);
  // Requires: nothing under way on any rank.
  void finish();

 private:
  void check(ncclResult_t, const char* what);
  void abort();

  const cuda::Stream& stream_;
  cuda::DeviceBuffer meeting_;  // one value, summed by the barrier
  ncclComm_t communicator_ = nullptr;
  int rank_ = 0, ranks_ = 1;
};

}  // namespace paceline::measure
