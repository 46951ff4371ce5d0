// What a page shows of a run beside its result: the operations of one step, what every rank did in each step, and what
// is on the links. By simulating again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/names.h"
#include "scenarios/json.h"
#include "scenarios/predict.h"
#include "studies/columns.h"

namespace paceline {

// Of an operation on a stream, by its number in the column "kind". wait: the compute stream waits for communication;
// input, synchronize: the host waits; cast: a queue, before or after a collective.
enum class SliceKind : std::uint8_t {
  forward,
  backward,
  accumulate,
  copies,
  optimizer,
  other,
  collective,
  cast,
  wait,
  input,
  synchronize,
  compress
};
template <>
inline constexpr auto kNames<SliceKind> = names<SliceKind>({{"forward", SliceKind::forward},
                                                            {"backward", SliceKind::backward},
                                                            {"accumulate", SliceKind::accumulate},
                                                            {"copies", SliceKind::copies},
                                                            {"optimizer", SliceKind::optimizer},
                                                            {"other", SliceKind::other},
                                                            {"collective", SliceKind::collective},
                                                            {"cast", SliceKind::cast},
                                                            {"wait", SliceKind::wait},
                                                            {"input", SliceKind::input},
                                                            {"synchronize", SliceKind::synchronize},
                                                            {"compress", SliceKind::compress}});

struct ViewChoice {
  // Left out: the first that took the median time; with servers, whose workers count steps of their own, the
  // middle one.
  std::optional<std::int64_t> step;
  std::optional<std::string> ranks;  // "0,37,100-107"; beside those that matter
  std::int64_t slices = 100'000;     // at most
};

// about: the step, its critical path, which ranks have slices and why, labels, names of classes. Columns:
//   slice_rank slice_stream slice_kind slice_label slice_start_ms slice_duration_ms slice_waiting_ms, a row an
// operation,
//     as `--trace` has it, from the step's begin; stream 0 is the host, 1 computes, the others are communication
//     queues; waiting: of a collective, till the last rank of its group launched it
//   step_compute_ms step_waiting_ms step_waited_for_ms, by step, then rank; waited for: mean over all ranks
//   device_kind device_node device_number, by device; node -1: of the fabric
//   link_from link_to link_class link_bandwidth link_bytes link_neighbours, those with traffic (LinkTraffic)
struct RunView {
  Json about;
  std::vector<Column> columns;
};

// What `predict` should record, so that run_view needs to simulate but once more.
TraceRequest request_for_view(const Scenario&);

// Of ranks there are shown, while there is room for all slices of one more: those asked for, those on the
// critical path, the fastest, the median and the slowest, then the others in order. Throws InputError for a step
// or ranks that the run lacks, and for less room than one rank needs.
RunView run_view(const Prediction&, const ViewChoice&);

}  // namespace paceline
