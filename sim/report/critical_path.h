// The critical path of a step: the chain of intervals from the end of the step before to the latest rank's
// end, each of which had to end before the next could begin. Follows the definitions of docs/model.md
// backwards through what ranks did:
//   a kernel                    -> what the stream did before it
//   a wait for a collective     -> the collective, back to its last launch, on the rank that launched it last
//   a launch                    -> what the stream did before it, or the collective before it
//   a launch that was decided   -> the kernel that made its last tensor, the agreement, or the collective before it:
//                                  whichever was last; an agreement -> what held up the background thread, or the host
//   a stream with nothing ready -> the host, which was waiting for input, or launching
// A rank that left a collective before the last one launched it (the root of a broadcast) was bound by its
// own launch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/names.h"
#include "sim/engine/simulate.h"
#include "sim/job.h"

namespace paceline {

enum class PathKind : std::uint8_t { compute, communication, input_wait, launch };
template <>
inline constexpr auto kNames<PathKind> = names<PathKind>({{"compute", PathKind::compute},
                                                          {"communication", PathKind::communication},
                                                          {"input_wait", PathKind::input_wait},
                                                          {"launch", PathKind::launch}});

struct PathSegment {
  PathKind kind = PathKind::compute;
  Rank rank;         // communication: the last to launch it
  Purpose purpose;   // compute, communication: of its operation, the last of those that are one segment
  std::string what;  // compute: forward, backward, ...; launch: launch, agreement; else the label
  SimTime start, end;
};

struct CriticalPath {
  std::uint32_t iteration = 0;
  SimTime began;  // segments' times are the run's; the first begins here
  // Each begins where the one before ends: together the step time, exactly.
  std::vector<PathSegment> segments;
};

// What critical_path needs to be traced. Requires: `iteration` is a steady one of the run.
TraceRequest ranks_on_path(const TrainingJob&, const Result&, std::uint32_t iteration);

// traced: a run of the same job with that request.
CriticalPath critical_path(const TrainingJob&, const Result& traced, std::uint32_t iteration);

}  // namespace paceline
