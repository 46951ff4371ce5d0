// Waiting for a known time, more precisely than a sleep.
#pragma once

namespace paceline::measure {

// Sleeps, and spins for the last 60 us, so that a loaded machine's timer does not make waits longer. Cost:
// those 60 us of processor time.
void precise_wait(double seconds);

}  // namespace paceline::measure
