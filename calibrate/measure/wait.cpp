#include "calibrate/measure/wait.h"

#include <chrono>
#include <thread>

namespace paceline::measure {

void precise_wait(double seconds) {
  using Clock = std::chrono::steady_clock;
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
