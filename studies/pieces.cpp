#include "studies/pieces.h"

#include <exception>
#include <new>

#include "core/error.h"
#include "core/parallel.h"

namespace paceline {
namespace {

constexpr const char* kNoMemory = "out of memory";

}  // namespace

std::string fault_of(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const InputError&) {
    throw;
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  } catch (const std::exception& error) {
    return std::string("internal error: ") + error.what();
  }
}

std::vector<std::string> faults_of(std::size_t count, int threads,
                                   const std::function<void(std::size_t)>& work) {
  std::vector<std::string> faults(count);
  const auto run = [&](std::size_t i) { faults[i] = fault_of([&] { work(i); }); };
  for_each_on_threads(count, threads, run);
  for (std::size_t i = 0; i < count && threads > 1; ++i) {
    if (faults[i] == kNoMemory) {
      run(i);
    }
  }
  return faults;
}

}  // namespace paceline
