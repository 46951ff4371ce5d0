// Names of enums: complete, in order, found both ways, never beyond the table.
#include "core/names.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <stdexcept>

#include "topology/channel_graph.h"
#include "topology/link.h"

namespace paceline {

enum class Fruit : std::uint8_t { apple, pear, plum };
template <>
inline constexpr auto kNames<Fruit> =
    names<Fruit>({{"apple", Fruit::apple}, {"pear", Fruit::pear}, {"plum", Fruit::plum}});

namespace {

constexpr auto kPlaces = names<Fruit>({{"low", Fruit::apple}, {"high", Fruit::pear}, {"low", Fruit::plum}});

static_assert(is_enumerator<Fruit::plum>() && !is_enumerator<static_cast<Fruit>(3)>());
static_assert(end_of_enumerators<Fruit>() == 3);
static_assert(first_enumerator<GraphPattern>() == 1 && end_of_enumerators<GraphPattern>() == 7);
static_assert(name_of(Fruit::pear) == "pear" && kPlaces[Fruit::plum] == "low");
static_assert(find_named<Fruit>("plum") == Fruit::plum && !find_named<Fruit>("Plum"));

TEST_CASE("a value that is no enumerator has no name, and no other memory is read for it") {
  CHECK_THROWS_AS(name_of(static_cast<Fruit>(3)), std::out_of_range);
  CHECK_THROWS_AS(kPlaces[static_cast<Fruit>(255)], std::out_of_range);
  CHECK_THROWS_AS(name_of(static_cast<GraphPattern>(0)), std::out_of_range);  // it begins at 1
  CHECK(name_of(GraphPattern::balanced_tree) == "balanced_tree");
  CHECK(name_of(DeviceKind::core) == "core");
}

TEST_CASE("a name that is not known is told with the nearest one") {
  CHECK(value_named<Fruit>("fruit", "pear") == Fruit::pear);
  CHECK_THROWS_WITH(value_named<Fruit>("fruit", "peer", "--fruit"),
                    "--fruit: unknown fruit \"peer\"; did you mean \"pear\"? Known: apple, pear, plum");
}

}  // namespace
}  // namespace paceline
