// What a ClusterSpec must satisfy before anything is built from it.
#pragma once

#include "topology/cluster_spec.h"

namespace paceline {

// Throws InputError, with a place such as "/cluster/node/mesh/3/a". Names of degraded devices are left to the
// builder.
void check_cluster(const ClusterSpec&);

}  // namespace paceline
