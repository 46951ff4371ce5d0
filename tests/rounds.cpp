#include "tests/dice.h"

namespace paceline {

#if defined(PACELINE_SANITIZED)
std::uint64_t rounds(std::uint64_t all) { return (all + 29) / 30; }
#elif defined(PACELINE_PLAIN)  // without vector instructions (CMakeLists.txt)
std::uint64_t rounds(std::uint64_t all) { return (all + 9) / 10; }
#else
std::uint64_t rounds(std::uint64_t all) { return all; }
#endif

}  // namespace paceline
