// Pieces of work that may go wrong.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace paceline {

// What went wrong that is not the input's fault, in words; empty: nothing did. Throws InputError alone.
std::string fault_of(const std::function<void()>& work);

// The same of each piece on threads; where memory ran out beside the others, a piece is done once more alone.
std::vector<std::string> faults_of(std::size_t count, int threads,
                                   const std::function<void(std::size_t)>& work);

}  // namespace paceline
