// What is to be measured, row by row: a pure function of the options, the number of ranks and what the
// backend can do.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/measure/collective.h"
#include "calibrate/measure/options.h"
#include "kernels/runnable.h"

namespace paceline::measure {

enum class Beside : std::uint8_t {
  nothing,
  kernel,      // the collective is timed while the kernel runs again and again
  collective,  // the kernel is timed while the collective runs again and again
};

struct PlanRow {
  std::optional<Collective> collective{};
  std::optional<KernelSpec> kernel{};  // one of the two, or both where one is beside the other
  Beside beside = Beside::nothing;
  std::optional<Straggler> straggler{};  // its rank is known here

  std::string condition() const;  // the CSV's column
  std::string title() const;      // for messages: "all_reduce 1048576 B", "gemm fp32 512x512x512"
  bool times_collective() const { return collective && beside != Beside::collective; }
};

// Collectives over sizes, then stragglers, kernels, overlap. `kernels`: all that the backend offers, of which
// the options choose. Throws InputError where an option asks for what cannot be.
std::vector<PlanRow> make_plan(const Options&, int ranks, std::span<const KernelSpec> kernels);

// Everything that must be the same on all ranks, in one line of text.
std::string plan_text(const Options&, std::span<const PlanRow>);

}  // namespace paceline::measure
