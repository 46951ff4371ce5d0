#include "calibrate/measure/progress_line.h"

#include <unistd.h>

#include <cstdio>

#include "core/text.h"

namespace paceline::measure {
namespace {

std::string readable_time(double us) {
  return us < 1e3   ? formatted("%.1f us", us)
         : us < 1e6 ? formatted("%.2f ms", us / 1e3)
                    : formatted("%.2f s", us / 1e6);
}

std::string readable_left(double seconds) {
  return seconds < 90 ? formatted("%.0f s left", seconds) : formatted("%.0f min left", seconds / 60);
}

}  // namespace

std::string progress_text(int done, int total, const std::string& title, double time_us, double eta_s) {
  const std::string all = std::to_string(total);
  std::string count = std::to_string(done);
  count.insert(0, all.size() - count.size(), ' ');
  return "[" + count + "/" + all + "] " + title + ": " + readable_time(time_us) +
         (eta_s >= 0 ? "  " + readable_left(eta_s) : "");
}

ProgressLine::ProgressLine(int total, bool shown)
    : total_(total),
      shown_(shown),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::clear() {
  if (shown_ && terminal_ && done_ > 0) {
    std::fputs("\r\033[K", stderr);
  }
}

void ProgressLine::skip() { ++skipped_; }

void ProgressLine::done(const std::string& title, double time_us) {
  ++done_;
  if (!shown_) {
    return;
  }
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double left = elapsed / done_ * (total_ - skipped_ - done_);
  const std::string text = progress_text(done_ + skipped_, total_, title, time_us, terminal_ ? left : -1);
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", text.c_str());
  std::fflush(stderr);
}

}  // namespace paceline::measure
