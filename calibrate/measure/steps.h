// The operations of one training iteration, as the trainer runs them, and the step times that come out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/names.h"

namespace paceline::measure {

struct StepOperation {
  enum class Kind : std::uint8_t { compute, collective, wait };
  Kind kind = Kind::compute;
  int index = 0;           // of the collective
  double duration_s = 0;   // compute
  std::int64_t bytes = 0;  // collective
  std::string label;
};

}  // namespace paceline::measure

namespace paceline {

// The column "op".
template <>
inline constexpr auto kNames<measure::StepOperation::Kind> =
    names<measure::StepOperation::Kind>({{"compute", measure::StepOperation::Kind::compute},
                                         {"collective", measure::StepOperation::Kind::collective},
                                         {"wait", measure::StepOperation::Kind::wait}});

}  // namespace paceline

namespace paceline::measure {

// Reads the columns op,index,duration_us,bytes,label (in any order; label may lack). Throws InputError with
// file and line: an unknown op, a number that is none, collectives not numbered 0, 1, ... in order, a wait
// for a collective that was not handed over before, no operation.
std::vector<StepOperation> read_steps(const std::string& path);
std::vector<StepOperation> parse_steps(const std::string& text);  // the same, without the file's name

// Step time of each iteration from every rank's ends (seconds, one more entry than iterations: the first is
// the start). One clock for all ranks: the difference of consecutive latest ends. Else the longest of the
// ranks' own differences.
std::vector<double> step_times(std::span<const std::vector<double>> ends_by_rank, bool one_clock);

}  // namespace paceline::measure
