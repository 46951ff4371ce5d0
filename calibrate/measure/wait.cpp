#include "calibrate/measure/wait.h"

#include <chrono>
#include <thread>

namespace paceline::measure {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void precise_wait(double seconds) {
  constexpr std::chrono::microseconds kSpin(60);
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  if (end - Clock::now() > kSpin) {
    std::this_thread::sleep_until(end - kSpin);
  }
  while (Clock::now() < end) {
  }
}

}  // namespace paceline::measure
