// Independent pieces of work on threads.
#pragma once

#include <cstddef>
#include <functional>

namespace paceline {

// As many threads as the machine runs at once.
int all_cores();

// Calls work(i) once for each i below `count`, on up to `threads` threads, or as many as the system gives, in
// ascending order of their start. The exception of the first piece that fails is thrown again when all threads
// have ended; pieces not begun by then are left out.
void for_each_on_threads(std::size_t count, int threads, const std::function<void(std::size_t)>& work);

}  // namespace paceline
