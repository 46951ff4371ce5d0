// NCCL's words: its version, NCCL_ALGO and NCCL_PROTO.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "sim/collective/plan.h"
#include "sim/collective/spec.h"

namespace paceline {

// 2.12 to 2.30, by minor version. A patch that differs within a minor version: the last one's.
struct NcclVersion {
  int minor = 30;
  friend auto operator<=>(const NcclVersion&, const NcclVersion&) = default;
};
inline constexpr int kOldestNccl = 12, kNewestNccl = 30;
NcclVersion nccl_version(const std::string& text);   // "2.22", "2.22.3"; throws InputError with what is known
std::string to_string(NcclVersion);                  // "2.22"
std::string nearest_nccl(std::string_view version);  // of a log's, that which is known

// What NCCL_ALGO and NCCL_PROTO allow.
struct TunerOverrides {
  std::array<bool, kNcclAlgorithms> algorithm{true, true, true, true, true, true, true};
  std::array<bool, kProtocols> protocol{true, true, true};
  bool protocol_forced = false;  // NCCL_PROTO is set: LL128 is allowed where it would be off by default
};
// "ring", "ring,tree", "^nvls", "tree;allgather:ring": NCCL's syntax (2.24 and later). Throws InputError.
TunerOverrides tuner_overrides(const std::string& algo, const std::string& proto, CollectiveKind);

// A word beside NCCL's, for what Horovod puts together: within the node, then between nodes.
inline constexpr const char* kHierarchical = "hierarchical";

// Where a user says these: JSON pointers, or options.
struct ChoicePlaces {
  std::string nccl, algorithm, protocol;
};
// Throws InputError where one is no word of NCCL's, or is said of a library that has but one way.
void require_choice(const CollectiveSpec&, const ChoicePlaces&);

}  // namespace paceline
