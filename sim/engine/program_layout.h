// A job's programs as the engines look things up in them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/job.h"

namespace paceline {

// Whether `this_one` is in no iteration that `other` is left out of.
inline bool only_with(const Op& this_one, const Op& other) {
  return this_one.every % other.every == 0 && this_one.from >= other.from && this_one.until <= other.until;
}

// What a kernel beside the compute stream, or a collective, comes after: an operation, or the kernel before it on its
// stream; nothing where it comes after neither.
std::optional<std::uint32_t> predecessor(const Program&, std::uint32_t op);

// The groups of the families, and of all ranks together.
class Groups {
 public:
  explicit Groups(const TrainingJob& job) : families_(job.families), ranks_(job.ranks()) {}

  std::uint32_t count(std::uint32_t family) const {
    return family == kWorld ? 1 : static_cast<std::uint32_t>(families_[family].groups.size());
  }
  std::uint32_t group(std::uint32_t family, std::uint32_t member) const {
    return family == kWorld ? 0 : families_[family].group_of[member];
  }
  std::size_t size(std::uint32_t family, std::uint32_t group) const {
    return family == kWorld ? ranks_ : families_[family].groups[group].size();
  }
  std::vector<std::uint32_t> members(std::uint32_t family, std::uint32_t group) const {
    std::vector<std::uint32_t> all;
    for_each(family, group, [&all](std::uint32_t member) { all.push_back(member); });
    return all;
  }
  template <class F>  // f(member)
  void for_each(std::uint32_t family, std::uint32_t group, const F& f) const {
    if (family == kWorld) {
      for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        f(rank);
      }
    } else {
      std::ranges::for_each(families_[family].groups[group], f);
    }
  }

 private:
  const std::vector<Family>& families_;
  std::size_t ranks_;
};

struct CollectiveLayout {
  std::uint32_t op = 0, plan = 0, queue = 0, family = kWorld;
  std::uint32_t row = 0;           // in JobLayout::rows
  std::uint32_t first_record = 0;  // that of the family's first group
};

struct ProgramLayout {
  const Program* program = nullptr;
  std::uint32_t last_stream_op = 0;
  std::vector<CollectiveLayout> collectives;
  std::vector<std::vector<std::uint32_t>> followers;  // by op: collectives that come after it (After::op)
  std::vector<std::vector<std::uint32_t>> beside;  // kernels of each stream but the compute stream, in order
};

struct ThreadLayout {
  std::array<ProgramLayout, 2> programs;  // warm-up, steady
  std::uint32_t queues = 0;
  std::uint32_t streams_beside = 0;

  const ProgramLayout& of(std::uint32_t iteration) const { return programs[iteration == 0 ? 0 : 1]; }
};

// The n-th collective of a family in an iteration, whoever's program it stands in.
struct CollectiveRow {
  std::uint32_t family = kWorld;
  std::uint32_t first_record = 0;    // one for each group
  std::uint32_t of_main = kNoIndex;  // its number in the first role's steady program
  bool steady = false;               // whether steady iterations have it
  std::uint32_t first_steady = 0;    // the same among steady rows: in Result::last_to_launch of an iteration
};

struct JobLayout {
  explicit JobLayout(const TrainingJob&);

  std::vector<std::vector<ThreadLayout>> roles;  // by role, by thread
  std::vector<CollectiveRow> rows;
  std::uint32_t records = 0, steady_records = 0;
  std::vector<std::uint32_t> role_of_graph;  // whose programs run collectives on it

  const ThreadLayout& main() const { return roles.front().front(); }
};

}  // namespace paceline
