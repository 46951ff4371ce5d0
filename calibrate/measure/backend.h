// What the measuring program needs of a communication library and a device. The class is implemented once per
// program: mpi/ (MPI and the CPU) or nccl/ (NCCL and one GPU per process); which one is chosen by linking.
//
// Order of calls: Backend(place), share_address(), [control channel is connected], make_token() on rank 0,
// connect(token) on all ranks, anything else, finish().
//
// Threads: "communication" calls come from the main thread only, "compute" calls from one other thread at a
// time or from the main thread; both may run at the same time and must not wait for each other (two streams).
// Errors of the library or device: throw std::runtime_error with the library's own words; the core names the
// rank and what it was measuring. A call that blocks for ever because a peer is gone need not be
// interruptible: the control channel notices and ends the process with _exit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/measure/collective.h"
#include "calibrate/measure/place.h"
#include "kernels/runnable.h"

namespace paceline::measure {

// Columns of the CSV that are the same for all rows of a run, of this rank.
struct BackendFacts {
  std::string backend;  // "mpi", "nccl"
  std::string library;  // "Open MPI 4.1.4", "NCCL 2.20.5"
  std::string device;   // "Intel Xeon ... (2 cores)", "NVIDIA H200"
  std::string driver;   // "550.54.15, CUDA 12.4"; empty: none
};

class Backend {
 public:
  // This process alone: initialises the library, chooses the device by place.local_rank. Corrects `place`
  // where the library knows better than the environment.
  explicit Backend(Place& place);
  // Frees what a normal end frees. A process with an error leaves by _exit and never comes here.
  ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  BackendFacts facts() const;
  int clock_mhz() const;  // of the device at this moment; 0: unknown

  // --- start; communication thread ---
  // Where the library can already talk between ranks (MPI): every rank returns what rank 0 gave, else
  // nullopt (NCCL), and the core finds another way (control.h).
  std::optional<std::string> share_address(const std::string& of_rank_0);
  // Rank 0 only: what the others need to connect, any bytes (ncclUniqueId); empty for MPI. The control
  // channel hands it to all ranks.
  std::string make_token();
  void connect(const std::string& token);

  // --- communication; main thread; every rank makes the same calls in the same order ---
  void barrier();
  // Makes buffers for the collective (kept and reused while large enough) and loads this rank's
  // send_elements(...) floats. A broadcast's send buffer counts on rank 0 only. run, time and result may then
  // be called for this collective, or one of the same kind and a smaller size, any number of times (the
  // trainer loads its largest all-reduce).
  void load(const Collective&, std::span<const float> send);
  // Does the collective once, from the loaded send buffer to the receive buffer (never in place, so that it
  // can be repeated); blocks until it is done on this rank. Without a barrier before.
  void run(const Collective&);
  // Barrier, then this rank waits `delay_s` (0: not at all), then the collective. Seconds from when this rank
  // left the barrier until its collective was done, so the delay is in it. A GPU measures with events on its
  // communication stream: barrier, event, delay on the device, collective, event.
  double time(const Collective&, double delay_s);
  // The first recv_elements(...) floats of the receive buffer, on every rank.
  std::vector<float> result(const Collective&);

  // --- compute ---
  // All kernels and shapes that this backend measures by default, those of one name together.
  std::vector<KernelSpec> kernels() const;
  // Throws InputError where the backend lacks the name or precision, std::runtime_error where memory is out.
  RunnableKernel make_kernel(const KernelSpec&);
  // Seconds of `count` launches back to back, until the last is done (a GPU: between two events on the
  // compute stream).
  double time_kernel(const RunnableKernel&, int count);
  void synchronise();  // waits for the launched kernels
  // Work that takes that long on an idle device (a GPU: a spinning kernel that reads the device's clock; CPU:
  // a real kernel, so often as its calibrated time says); returns when it is done. For the trainer.
  void compute(double seconds);

  // Orderly end on every rank, after the last call; communication thread.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace paceline::measure
