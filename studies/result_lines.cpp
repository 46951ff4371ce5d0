#include "studies/result_lines.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>

#include "core/error.h"
#include "core/fingerprint.h"
#include "scenarios/files.h"
#include "scenarios/json.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const std::string& what) { throw InputError(what, {}, path); }
[[noreturn]] void fail_with_errno(const std::string& path, const std::string& what) {
  fail(path, what + ": " + std::strerror(errno));
}

[[noreturn]] void fail_to_open(const std::string& path, const std::string& what) {
  if (errno == ELOOP) {
    fail(path, "expected a regular file, found a symbolic link");
  }
  fail_with_errno(path, what);
}

// How every line begins.
constexpr std::string_view kBeginning = R"({"point": {)";
constexpr std::string_view kCheck = R"(, "check": ")", kCheckEnd = "\"}";
constexpr std::size_t kCheckDigits = 16;

// The bytes up to the end of the last line that has one.
off_t whole_lines(int fd, const std::string& path) {
  constexpr off_t kPiece = 1 << 16;
  struct stat status{};
  if (::fstat(fd, &status) != 0) {
    fail_with_errno(path, "can't be read");
  }
  std::string piece(static_cast<std::size_t>(kPiece), '\0');
  for (off_t end = status.st_size; end > 0;) {
    const off_t begin = end > kPiece ? end - kPiece : 0;
    const ssize_t n = ::pread(fd, piece.data(), static_cast<std::size_t>(end - begin), begin);
    if (n != end - begin) {
      fail_with_errno(path, "can't be read");
    }
    const std::size_t line_end = piece.rfind('\n', static_cast<std::size_t>(n) - 1);
    if (line_end != std::string::npos) {
      return begin + static_cast<off_t>(line_end) + 1;
    }
    end = begin;
  }
  return 0;
}

}  // namespace

ResultLines::ResultLines(const std::string& folder, const std::string& name)
    : path_((fs::path(folder) / name).string()) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    fail(folder, "can't be made a folder: " + error.message());
  }
  open();
}

void ResultLines::open() {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0666);
  if (fd_ < 0) {
    fail_to_open(path_, "can't be written");
  }
  try {
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      fail(path_, errno == EWOULDBLOCK ? "belongs to another sweep that is running"
                                       : std::string("can't be locked: ") + std::strerror(errno));
    }
    struct stat status{};
    if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
      fail(path_, "expected a regular file, found something else");
    }
  } catch (const InputError&) {
    ::close(fd_);
    throw;
  }
}

ResultLines::~ResultLines() { ::close(fd_); }

void ResultLines::cut_unfinished() {
  const off_t end = whole_lines(fd_, path_);
  std::array<char, kBeginning.size()> start{};
  const ssize_t length = end > 0 ? 0 : ::pread(fd_, start.data(), start.size(), 0);
  if (length < 0) {
    fail_with_errno(path_, "can't be read");
  }
  if (const std::string_view found(start.data(), static_cast<std::size_t>(length));
      !kBeginning.starts_with(found)) {
    throw InputError("expected a line that a sweep wrote, found " + in_quotes(found), "line 1", path_);
  }
  if (::ftruncate(fd_, end) != 0) {
    fail_with_errno(path_, "can't be written");
  }
}

void ResultLines::sync() {
  if (::fsync(fd_) != 0) {
    fail_with_errno(path_, "can't be written");
  }
  sync_folder(path_);
}

void ResultLines::remove() {
  if (::unlink(path_.c_str()) != 0) {
    fail_with_errno(path_, "can't be deleted");
  }
}

// Tried from a second process: to some file systems a lock is a process's.
bool ResultLines::keeps_others_out() const {
  const pid_t child = ::fork();
  if (child == 0) {  // nothing but system calls: other threads are gone, their locks are not
    const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    ::_exit(fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0 ? 1 : 0);
  }
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) == 0;
}

std::string ResultLines::set_aside(const std::string& why) {
  const fs::path folder = fs::path(path_).parent_path();
  fs::path kept = folder / ("results." + why + ".jsonl");
  for (int i = 2; fs::exists(kept); ++i) {
    kept = folder / ("results." + why + "." + std::to_string(i) + ".jsonl");
  }
  std::error_code error;
  fs::rename(path_, kept, error);
  if (error) {
    fail(path_, "can't be renamed: " + error.message());
  }
  ::close(fd_);
  open();
  return kept.string();
}

void ResultLines::append(std::string line) {
  line += '\n';
  ssize_t n = -1;
  do {
    n = ::write(fd_, line.data(), line.size());
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(line.size())) {
    return;
  }
  const std::string why = n < 0 ? std::strerror(errno) : "no space left";
  if (n > 0) {
    const off_t end = ::lseek(fd_, 0, SEEK_END);
    if (end < n || ::ftruncate(fd_, end - n) != 0) {
      fail_with_errno(path_, "can't be written");
    }
  }
  fail(path_, "can't be written: " + why);
}

std::string with_check(const std::string& line) {
  const std::string_view members = std::string_view(line).substr(0, line.size() - 1);
  return std::string(members) + std::string(kCheck) + checksum(members) + std::string(kCheckEnd);
}

LineCheck check_of(const std::string& line) {
  constexpr std::size_t kLength = kCheck.size() + kCheckDigits + kCheckEnd.size();
  const std::string_view text = line;
  if (text.size() < kLength || text.find(kCheck) == std::string_view::npos) {
    return LineCheck::none;
  }
  const std::string_view members = text.substr(0, text.size() - kLength), rest = text.substr(members.size());
  const bool right = rest.starts_with(kCheck) && rest.ends_with(kCheckEnd) &&
                     rest.substr(kCheck.size(), kCheckDigits) == checksum(members);
  return right ? LineCheck::right : LineCheck::wrong;
}

void for_each_line(const std::string& path, const std::function<void(std::size_t, const std::string&)>& use) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(fd < 0 ? nullptr : ::fdopen(fd, "rb"),
                                                           &std::fclose);
  if (!in) {
    fail_to_open(path, "can't be read");
  }
  std::string piece(1 << 16, '\0'), line;
  std::size_t number = 0;
  for (std::size_t length = piece.size(); length == piece.size();) {  // less: its end, or an error
    length = std::fread(piece.data(), 1, piece.size(), in.get());
    std::string_view rest(piece.data(), length);
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      line += rest.substr(0, end);
      use(++number, line);
      line.clear();
      rest.remove_prefix(end + 1);
    }
    line += rest;
  }
  if (std::ferror(in.get()) != 0) {
    fail(path, "can't be read");
  }
}

}  // namespace paceline
