#include "calibrate/measure/nccl/communicator.h"

#include <algorithm>
#include <stdexcept>

namespace paceline::measure {
namespace {

std::string message(ncclResult_t result, const char* what, ncclComm_t communicator) {
  std::string text = std::string("NCCL, ") + what + ": " + ncclGetErrorString(result);
  const char* last = ncclGetLastError(communicator);
  if (last != nullptr && *last != '\0') {
    text += "; " + std::string(last);
    std::replace(text.begin(), text.end(), '\n', ' ');
  }
  return text;
}

std::size_t elements(std::int64_t count) { return static_cast<std::size_t>(count); }

}  // namespace

std::string nccl_version_text(int number) {
  // Up to 2.8 two digits less.
  const int major = number >= 10000 ? number / 10000 : number / 1000;
  const int minor = number >= 10000 ? number % 10000 / 100 : number % 1000 / 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(number % 100);
}

std::string nccl_version() {
  int number = 0;
  return ncclGetVersion(&number) == ncclSuccess ? "NCCL " + nccl_version_text(number) : "NCCL";
}

std::string make_nccl_token() {
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) {
    throw std::runtime_error(message(result, "making the unique id", nullptr));
  }
  return {id.internal, sizeof id.internal};
}

Communicator::Communicator(const cuda::Stream& stream) : stream_(stream), meeting_(sizeof(float)) {
  cuda::check(cudaMemsetAsync(meeting_.get(), 0, sizeof(float), stream.get()), "clearing device memory");
}

Communicator::~Communicator() { abort(); }

void Communicator::connect(const std::string& token, int rank, int ranks) {
  ncclUniqueId id;
  if (token.size() != sizeof id.internal) {
    throw std::runtime_error("NCCL's unique id has " + std::to_string(sizeof id.internal) +
                             " bytes, not the " + std::to_string(token.size()) +
                             " that came; do all ranks run the same program?");
  }
  std::copy(token.begin(), token.end(), id.internal);
  rank_ = rank;
  ranks_ = ranks;
  check(ncclCommInitRank(&communicator_, ranks, id, rank), "connecting");
}

void Communicator::enqueue(const Collective& collective, const float* send, float* receive) {
  const std::size_t sent = elements(send_elements(collective, ranks_));
  const std::size_t received = elements(recv_elements(collective, ranks_));
  const cudaStream_t stream = stream_.get();
  switch (collective.kind) {
    case CollectiveKind::all_reduce:
      return check(ncclAllReduce(send, receive, received, ncclFloat, ncclSum, communicator_, stream),
                   "all_reduce");
    case CollectiveKind::all_gather:
      return check(ncclAllGather(send, receive, sent, ncclFloat, communicator_, stream), "all_gather");
    case CollectiveKind::reduce_scatter:
      return check(ncclReduceScatter(send, receive, received, ncclFloat, ncclSum, communicator_, stream),
                   "reduce_scatter");
    case CollectiveKind::broadcast:
      return check(ncclBroadcast(send, receive, received, ncclFloat, 0, communicator_, stream), "broadcast");
    case CollectiveKind::sendrecv:
      check(ncclGroupStart(), "beginning a group");
      check(ncclSend(send, sent, ncclFloat, (rank_ + 1) % ranks_, communicator_, stream), "send");
      check(ncclRecv(receive, received, ncclFloat, (rank_ + ranks_ - 1) % ranks_, communicator_, stream),
            "receive");
      return check(ncclGroupEnd(), "sendrecv");
  }
}

void Communicator::enqueue_barrier() {
  float* value = meeting_.as<float>();
  check(ncclAllReduce(value, value, 1, ncclFloat, ncclSum, communicator_, stream_.get()), "barrier");
}

void Communicator::wait(const cuda::Event& event) {
  while (!event.reached()) {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(communicator_, &state), "asking for errors");
    if (state != ncclSuccess && state != ncclInProgress) {
      check(state, "while a collective ran");
    }
  }
}

void Communicator::finish() {
  if (communicator_ != nullptr) {
    check(ncclCommFinalize(communicator_), "finishing");
    check(ncclCommDestroy(communicator_), "closing");
    communicator_ = nullptr;
  }
}

void Communicator::check(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) {
    const std::string text = message(result, what, communicator_);
    abort();
    throw std::runtime_error(text);
  }
}

void Communicator::abort() {
  if (communicator_ != nullptr) {
    ncclCommAbort(communicator_);
    communicator_ = nullptr;
  }
}

}  // namespace paceline::measure
