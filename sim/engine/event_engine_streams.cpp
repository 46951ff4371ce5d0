// The event engine's streams beside the compute stream of a thread, with which they share its GPU.
#include "sim/engine/event_engine.h"

namespace paceline {

// The stream's next kernel, where the run has one.
std::optional<OpPlace> EventEngine::next_kernel(ThreadId thread, std::uint32_t stream) const {
  const StreamBeside& state = beside(thread, stream);
  if (state.iteration > last_iteration_) {
    return std::nullopt;
  }
  return OpPlace{state.iteration, layout(thread, state.iteration).beside[stream - 1][state.position]};
}

// From where the stream is: to the first kernel that is in its iteration.
void EventEngine::skip_to_kernel(ThreadId thread, std::uint32_t stream) {
  StreamBeside& state = beside(thread, stream);
  for (; state.iteration <= last_iteration_; ++state.iteration, state.position = 0) {
    const ProgramLayout& of = layout(thread, state.iteration);
    const std::vector<std::uint32_t>& kernels = of.beside[stream - 1];
    while (state.position < kernels.size() &&
           !of.program->ops[kernels[state.position]].runs_in(state.iteration)) {
      ++state.position;
    }
    if (state.position < kernels.size()) {
      return;
    }
  }
}

bool EventEngine::ended_beside(ThreadId thread, OpPlace kernel) const {
  const std::uint32_t stream = program(thread, kernel.iteration).ops[kernel.op].stream;
  const std::optional<OpPlace> next = next_kernel(thread, stream);
  return !next || kernel < *next;
}

// Whether the device has nothing left of what the host has issued.
bool EventEngine::device_idle(ThreadId thread) const {
  const ThreadState& state = thread_[thread.index()];
  bool idle = !state.kernel_runs && state.stream == state.host;
  for (std::uint32_t stream = 1; idle && stream <= streams_beside(thread); ++stream) {
    const std::optional<OpPlace> next = next_kernel(thread, stream);
    idle = !next || !(*next < state.host);
  }
  const ThreadLayout& of = *place_[thread.index()].layout;
  for (std::uint32_t q = 0; idle && q < of.queues; ++q) {
    const OpPlace next = queues_[queue_of(thread, q).index()].collective;
    idle = next.iteration > last_iteration_ ||
           !(OpPlace{next.iteration, of.of(next.iteration).collectives[next.op].op} < state.host);
  }
  return idle;
}

// Something has changed for the GPU's streams; it chooses when all that happens at this instant has happened.
void EventEngine::offer_kernel(ThreadId thread) {
  if (streams_beside(thread) > 0 && (offered_.empty() || offered_.back() != thread)) {
    offered_.push_back(thread);
  }
}

void EventEngine::choose_kernels(SimTime now) {
  for (const ThreadId thread : offered_) {
    choose_kernel(thread, now);
  }
  offered_.clear();
}

void EventEngine::choose_kernel(ThreadId thread, SimTime now) {
  ThreadState& state = thread_[thread.index()];
  SimTime first = state.kernel_ready;
  std::uint32_t chosen = 0;
  for (std::uint32_t stream = 1; stream <= streams_beside(thread); ++stream) {
    const std::optional<OpPlace> next = next_kernel(thread, stream);
    StreamBeside& of = beside(thread, stream);
    if (!next || !(*next < state.host)) {
      continue;
    }
    const Program& in = program(thread, next->iteration);
    const Op& kernel = in.ops[next->op];
    if (of.ready == kNever && kernel.after == After::op) {
      const Op& before = in.ops[kernel.after_op];
      const OpPlace ends{next->iteration, kernel.after_op};
      const bool over = before.kind == OpKind::collective    ? ended(thread, {next->iteration, before.index})
                        : runs_beside_compute_stream(before) ? ended_beside(thread, ends)
                                                             : ends < state.stream;
      if (!over) {
        continue;
      }
      of.own = {};
    }
    of.ready = std::min(of.ready, now);
    if (of.ready < first) {
      first = of.ready;
      chosen = stream;
    }
  }
  if (state.kernel_runs || first == kNever) {
    return;
  }
  if (chosen == 0) {
    state.kernel_ready = kNever;
    start_kernel(thread, 0, state.stream, now);
  } else {
    start_kernel(thread, chosen, *next_kernel(thread, chosen), now);
  }
}

void EventEngine::end_kernel_beside(ThreadId thread, SimTime now) {
  const ThreadState& state = thread_[thread.index()];
  StreamBeside& of = beside(thread, state.kernel_stream);
  of.ready = kNever;
  ++of.position;
  skip_to_kernel(thread, state.kernel_stream);
  release_followers(thread, state.kernel, of.own, now);
}

}  // namespace paceline
