// The messages of a steady iteration.
#pragma once

#include <cstdint>

#include "sim/job.h"

namespace paceline {

template <class F>  // f(op, from, to): each but those to where it lies, and servers' answers
void for_each_message(const TrainingJob& job, const F& f) {
  for (std::uint32_t r = 0; r < job.ranks(); ++r) {
    for (const Thread& thread : job.roles[job.role_of(r)].threads) {
      for (const Op& op : thread.steady.ops) {
        if (op.kind == OpKind::send && op.to != kWorld) {
          const Family& family = job.families[op.to];
          const std::uint32_t from = op.source == kNoIndex ? r : op.source;
          for (const std::uint32_t to : family.groups[family.group_of[r]]) {
            if (to != from) {
              f(op, from, to);
            }
          }
        }
      }
    }
  }
}

}  // namespace paceline
