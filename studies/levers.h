// What could be changed about a scenario, each as edits that anybody can make and run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/names.h"
#include "scenarios/machines.h"
#include "scenarios/predict.h"
#include "studies/edit.h"

namespace paceline {

// software: a setting, which costs nothing; hardware: to be bought or mended; unobtainable: it tells where
// time goes, but nobody sells it.
enum class LeverKind : std::uint8_t { software, hardware, unobtainable };
template <>
inline constexpr auto kNames<LeverKind> = names<LeverKind>({{"software", LeverKind::software},
                                                            {"hardware", LeverKind::hardware},
                                                            {"cannot be had", LeverKind::unobtainable}});

struct Lever {
  std::string change;  // "NIC bandwidth x2 (50 GB/s)"
  std::string advice;  // in a sentence: "with twice the NIC bandwidth (50 GB/s)"
  LeverKind kind = LeverKind::software;
  Scenario changed;
  std::vector<Edit> edits;  // of the effective scenario (result.json's "scenario"): they make it `changed`
};

// Those that apply to this scenario and change something, each once: the collectives that NCCL could run
// instead; DDP's buckets and precision of gradients, or what FSDP keeps, reduces and shards; accumulation; what is
// slow, degraded or shared; network, NVLink, GPUs.
std::vector<Lever> levers(const Prediction&, Machines&);

}  // namespace paceline
