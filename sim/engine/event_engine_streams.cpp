// The event engine's streams beside the compute stream of a thread, with which they share its GPU.
#include "sim/engine/event_engine.h"

namespace paceline {

// The stream's next kernel, where the run has one.
std::optional<OpPlace> EventEngine::next_kernel(ThreadId thread, std::uint32_t stream) const {
  const StreamBeside& state = beside(thread, stream);
  return state.iteration > last_iteration_ ? std::nullopt : std::optional(state.kernel);
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
      note_next_kernel(thread, state, kernels[state.position]);
      return;
    }
  }
}

// What is asked of it again and again.
void EventEngine::note_next_kernel(ThreadId thread, StreamBeside& state, std::uint32_t op) {
  using Before = StreamBeside::Before;
  const ProgramLayout& of = layout(thread, state.iteration);
  const Op& kernel = of.program->ops[op];
  state.kernel = {state.iteration, op};
  state.kind = Before::nothing;
  if (kernel.after != After::op) {
    return;
  }
  const Op& before = of.program->ops[kernel.after_op];
  state.before = {state.iteration, kernel.after_op};
  if (before.kind == OpKind::collective) {
    state.kind = Before::collective;
    state.before.op = before.index;
    state.queue = queue_of(thread, of.collectives[before.index].queue);
  } else {
    state.kind = runs_beside_compute_stream(before) ? Before::beside : Before::compute;
  }
}

bool EventEngine::is_before_over(ThreadId thread, const StreamBeside& of) const {
  switch (of.kind) {
    case StreamBeside::Before::nothing:
      return true;
    case StreamBeside::Before::compute:
      return of.before < thread_[thread.index()].stream;
    case StreamBeside::Before::beside:
      return ended_beside(thread, of.before);
    case StreamBeside::Before::collective:
      return of.before < queues_[of.queue.index()].collective;
  }
  return false;
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
    StreamBeside& of = beside(thread, stream);
    if (of.iteration > last_iteration_ || !(of.kernel < state.host)) {
      continue;
    }
    if (of.ready == kNever && of.kind != StreamBeside::Before::nothing) {
      if (!is_before_over(thread, of)) {
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
