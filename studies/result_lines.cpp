#include "studies/result_lines.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>

#include "core/error.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const std::string& what) { throw InputError(what, {}, path); }
[[noreturn]] void fail_with_errno(const std::string& path, const std::string& what) {
  fail(path, what + ": " + std::strerror(errno));
}

// The bytes up to the end of the last line that has one.
off_t whole_lines(int fd, const std::string& path) {
  constexpr off_t kPiece = 1 << 16;
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    fail(path, "expected a regular file, found something else");
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

ResultLines::ResultLines(const std::string& folder) : path_((fs::path(folder) / "results.jsonl").string()) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    fail(folder, "can't be made a folder: " + error.message());
  }
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  if (fd_ < 0) {
    fail_with_errno(path_, "can't be written");
  }
  try {
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      fail(path_, errno == EWOULDBLOCK ? "belongs to another sweep that is running"
                                       : std::string("can't be locked: ") + std::strerror(errno));
    }
    if (::ftruncate(fd_, whole_lines(fd_, path_)) != 0) {
      fail_with_errno(path_, "can't be written");
    }
  } catch (const InputError&) {
    ::close(fd_);
    throw;
  }
}

ResultLines::~ResultLines() { ::close(fd_); }

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

void for_each_line(const std::string& path, const std::function<void(std::size_t, const std::string&)>& use) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(path.c_str(), "rbe"), &std::fclose);
  if (!in) {
    fail_with_errno(path, "can't be read");
  }
  std::string piece(1 << 16, '\0'), line;
  std::size_t number = 0;
  while (const std::size_t length = std::fread(piece.data(), 1, piece.size(), in.get())) {
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
