// Independent pieces of work on threads.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace paceline {

// Calls work(i) once for each i below `count`, on up to `threads` threads, or as many as the system gives, in
// ascending order of their start. An exception of one piece is thrown again when all threads have ended;
// pieces not begun by then are left out.
void for_each_on_threads(std::size_t count, int threads, const std::function<void(std::size_t)>& work);

// What went wrong that is not the input's fault, in words; empty: nothing did. Throws InputError alone.
std::string fault_of(const std::function<void()>& work);

// The same of each piece on threads; where memory ran out beside the others, a piece is done once more alone.
std::vector<std::string> faults_of(std::size_t count, int threads,
                                   const std::function<void(std::size_t)>& work);

}  // namespace paceline
