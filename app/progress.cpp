#include "app/progress.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>

#include "scenarios/readable.h"

namespace paceline {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kBetweenLines{5};
constexpr double kSecondsToJudge = 2;  // before that, the time left would be a guess

bool installed(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty() && ::access((std::filesystem::path(folder) / program).c_str(), X_OK) == 0) {
      return true;
    }
  }
  return false;
}

std::string duration_text(double seconds) {
  constexpr double kMinute = 60, kHour = 3600;
  const auto whole = [](double value) { return std::to_string(static_cast<long>(std::ceil(value))); };
  return seconds < 2 * kMinute ? whole(seconds) + " s"
         : seconds < 2 * kHour ? whole(seconds / kMinute) + " min"
                               : whole(seconds / kHour) + " h";
}

}  // namespace

std::string progress_text(const SweepProgress& progress, std::size_t found, double seconds) {
  std::string text = std::to_string(progress.done) + " of " + std::to_string(progress.points) + " points";
  text += progress.failed > 0 ? ", " + std::to_string(progress.failed) + " failed" : "";
  if (seconds >= kSecondsToJudge && progress.done > found && progress.done < progress.points) {
    const double each = seconds / static_cast<double>(progress.done - found);
    text += ", about " + duration_text(each * static_cast<double>(progress.points - progress.done)) + " left";
  }
  return text;
}

ProgressLines::ProgressLines() : last_(Clock::now()) {}

void ProgressLines::show(const std::string& part, std::size_t done, std::size_t all) {
  if (const Clock::time_point now = Clock::now(); now - last_ >= kBetweenLines) {
    last_ = now;
    std::cerr << done << " of " << all << ' ' << part << '\n';
  }
}

FitProgress shown_on(ProgressLines& lines) {
  return [&](const std::string& part, std::size_t done, std::size_t all) { lines.show(part, done, all); };
}

ProgressDisplay::ProgressDisplay(std::size_t points) : points_(points), last_(Clock::now()) {}

void ProgressDisplay::start(const SweepProgress& progress) {
  started_ = true;
  begin_ = Clock::now();
  found_ = progress.done;
  fed_ = progress.done - 1;
  if (::isatty(STDERR_FILENO) == 0 || !installed("pv")) {
    return;
  }
  struct sigaction ignored{};
  ignored.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignored, &before_);
  const std::string command = "exec pv --line-mode --size " + std::to_string(points_ - fed_) +
                              " --progress --eta --timer --name sweep > /dev/null";
  pv_ = ::popen(command.c_str(), "we");
  if (pv_ == nullptr) {
    ::sigaction(SIGPIPE, &before_, nullptr);
  }
}

ProgressDisplay::~ProgressDisplay() {
  if (pv_ != nullptr) {
    ::pclose(pv_);
    ::sigaction(SIGPIPE, &before_, nullptr);
  }
}

bool ProgressDisplay::feed(const SweepProgress& progress) {
  for (; fed_ < progress.done; ++fed_) {
    if (std::fputc('\n', pv_) == EOF) {
      return false;
    }
  }
  return std::fflush(pv_) == 0;
}

void ProgressDisplay::show(const SweepProgress& progress) {
  if (!started_) {
    start(progress);
  }
  if (pv_ != nullptr) {
    if (feed(progress)) {
      return;
    }
    ::pclose(pv_);  // it was ended: lines instead
    pv_ = nullptr;
    ::sigaction(SIGPIPE, &before_, nullptr);
  }
  const Clock::time_point now = Clock::now();
  if (now - last_ >= kBetweenLines || progress.done == progress.points) {
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    std::cerr << progress_text(progress, found_, seconds) << '\n';
  }
}

std::string progress_text(std::size_t tried, std::size_t levers, const Sensitivity* best) {
  return std::to_string(tried) + " of " + std::to_string(levers) + " changes tried" +
         (best == nullptr
              ? ""
              : ", best so far: " + best->lever.change + ", " + fixed(100 * best->change, 1) + " %");
}

ExplanationProgress::ExplanationProgress() : terminal_(::isatty(STDERR_FILENO) != 0) {}

void ExplanationProgress::show(std::size_t tried, std::size_t levers, const Sensitivity* best) {
  constexpr std::size_t kWidth = 79;  // a longer line would wrap, and stay
  if (terminal_) {
    clear();
    std::cerr << progress_text(tried, levers, best).substr(0, kWidth) << std::flush;
    shown_ = true;
  }
}

void ExplanationProgress::clear() {
  if (shown_) {
    std::cerr << "\r\x1b[K" << std::flush;  // to the line's beginning, and all of it gone
    shown_ = false;
  }
}

}  // namespace paceline
