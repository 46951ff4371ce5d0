// Indices into tables, one type per table, so that a rank can't be passed where a link belongs.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>

namespace paceline {

template <class Tag>
struct Id {
  std::uint32_t value = 0;

  constexpr Id() = default;
  constexpr explicit Id(std::integral auto v) : value(static_cast<std::uint32_t>(v)) {}
  friend constexpr auto operator<=>(Id, Id) = default;
  constexpr std::size_t index() const { return value; }
};

using Rank = Id<struct RankTag>;        // a GPU's place in the job, 0 .. ranks-1
using DeviceId = Id<struct DeviceTag>;  // a vertex of the topology
using LinkId = Id<struct LinkTag>;      // a directed edge of the topology
using FlowId = Id<struct FlowTag>;      // a live transfer in a FlowNetwork

}  // namespace paceline
