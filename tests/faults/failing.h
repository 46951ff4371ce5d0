// Calls that fail when a test says so: the n-th from then on, once.
#pragma once

#include <string>

namespace paceline {

// "write", "half write" (a part is written, then the disk is full), "fsync", "rename", "open", "ftruncate",
// "allocation". Until the next call of this function; "": none from now on.
void let_fail(const std::string& call, long nth);
bool has_failed();  // since the last one that was named

}  // namespace paceline
