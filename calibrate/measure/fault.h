// Faults on purpose, so that the tests can see what the program does about them.
#pragma once

#include <cstdint>
#include <string>

#include "core/names.h"

namespace paceline::measure {

struct Fault {
  enum class Kind : std::uint8_t { die, hang, freeze, wrong };
  Kind kind = Kind::die;
  int rank = 0;
  int row = 0;  // of the plan; with --train: iteration
};

}  // namespace paceline::measure

namespace paceline {

template <>
inline constexpr auto kNames<measure::Fault::Kind> =
    names<measure::Fault::Kind>({{"die", measure::Fault::Kind::die},
                                 {"hang", measure::Fault::Kind::hang},
                                 {"freeze", measure::Fault::Kind::freeze},
                                 {"wrong", measure::Fault::Kind::wrong}});

}  // namespace paceline

namespace paceline::measure {

// "die:RANK:ROW". Throws InputError.
Fault parse_fault(const std::string&);
// What die, hang and freeze do; wrong does nothing here. Returns only for wrong.
void suffer(const Fault&);

}  // namespace paceline::measure
