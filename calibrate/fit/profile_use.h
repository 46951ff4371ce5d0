// What a profile put onto a scenario (apply_profile.cpp) and predictions (predict_collectives.cpp) share.
#pragma once

#include <span>

#include "scenarios/profile.h"
#include "scenarios/scenario.h"

namespace paceline {

// What of a profile is for a collective: its costs, unless they are fitted to unlike ones alone.
Profile serving(const Profile&, CollectiveKind);

// The profile's costs, and corrections of `kinds` up to `most` bytes.
CollectiveSpec with_corrections(const CollectiveSpec&, const Profile&, const ClusterSpec&,
                                std::span<const CollectiveKind> kinds, Bytes most);

// Throws InputError where both say a cost or corrections, and not the same.
void require_one_of(const CollectiveSpec& given, const CollectiveSpec& with_profile);

}  // namespace paceline
