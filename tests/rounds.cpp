#include <cstdlib>

#include "tests/dice.h"

namespace paceline {

bool thorough() { return !kSanitized && std::getenv("PACELINE_THOROUGH") != nullptr; }

#if defined(PACELINE_SANITIZED)
std::uint64_t rounds(std::uint64_t all) { return (all + 29) / 30; }
std::size_t stride() { return kStride; }
#elif defined(PACELINE_PLAIN)  // without vector instructions (CMakeLists.txt)
std::uint64_t rounds(std::uint64_t all) { return (all + 9) / 10; }
std::size_t stride() { return 11; }
#else
std::uint64_t rounds(std::uint64_t all) { return thorough() ? all : (all + 3) / 4; }
std::size_t stride() { return thorough() ? 1 : 4; }
#endif

}  // namespace paceline
