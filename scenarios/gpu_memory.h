// Does it fit into a GPU? How that is said, and what would.
#pragma once

#include <string>
#include <vector>

#include "scenarios/json.h"
#include "scenarios/scenario.h"
#include "sim/strategy/memory.h"

namespace paceline {

// Throws InputError as the strategy's memory_of does.
GpuMemory memory_of(const Scenario&);
// What a GPU has, of several kinds the least; 0 where that is not known.
Bytes memory_of_gpu(const Scenario&);

// gpu_bytes and fits are null where the GPU's memory is not known.
Json::Object memory_json(const GpuMemory&, Bytes gpu);

// "93.1 GB of 85.9 GB (80.00 GiB)", "model states 80.3 GB, gathered 1.2 GB, activations 11.6 GB (estimate)".
std::string memory_text(const GpuMemory&, Bytes gpu);
std::string memory_parts_text(const GpuMemory&);
// "a loss that no kernel fuses takes 25.2 GB more, with which it doesn't fit"; nothing where that is little.
std::string loss_text(const GpuMemory&, Bytes gpu);

// "does not fit: 93.1 GB of 85.9 GB (80.00 GiB): model states ..."; nothing where it fits, or where nobody
// knows.
std::string does_not_fit(const Scenario&);

// Likewise of the fewest nodes that an elastic job goes on with, and how many would do: "with 1 node ... it does not
// fit: ...; 2 nodes are the fewest".
std::string too_few_left(const Scenario&);

// The nearest settings that fit, as --set takes them, each with less memory than those before it:
// "/training/strategy=fsdp (40.8 GB)". Requires: it doesn't fit.
std::vector<std::string> settings_that_fit(const Scenario&);
// "it would fit with ..."; or that nothing does.
std::string what_would_fit(const Scenario&);

// Throws InputError that says so and names settings with which it would fit; also where nobody knows, and for what is
// left of an elastic job.
void require_fit(const Scenario&);

}  // namespace paceline
