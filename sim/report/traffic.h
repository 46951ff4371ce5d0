// What GPUs send.
#pragma once

#include "sim/job.h"

namespace paceline {

// Bytes that a rank sends in a steady iteration, mean over ranks, by the slowest links that they cross.
struct SentBytes {
  double nvlink = 0, pcie = 0, network = 0;
  double total() const { return nvlink + pcie + network; }
};

// Of collectives: with rings exactly what their bytes need ((n-1)/n of an all-gather's); and of messages. Cost:
// O(thread blocks) of every graph, and O(messages).
SentBytes sent_bytes(const TrainingJob&);

// Bytes that all workers together push in an iteration to the server that is sent most; 0 without servers.
Bytes hottest_server_in(const TrainingJob&);

}  // namespace paceline
