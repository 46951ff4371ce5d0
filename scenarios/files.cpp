#include "scenarios/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"

namespace paceline {
namespace {

// An open file, closed at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  int get() const { return fd_; }
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

[[noreturn]] void fail(const std::string& path, const std::string& what) { throw InputError(what, {}, path); }
[[noreturn]] void fail_with_errno(const std::string& path, const std::string& what) {
  fail(path, what + ": " + std::strerror(errno));
}

[[noreturn]] void refuse_size(const std::string& path) {
  fail(path, "expected a file of at most " + std::to_string(kLargestFile >> 20) + " MiB, found a larger one");
}

// A FIFO without a writer must not hold the program: it is opened without waiting, and then reads as empty.
int open_to_read(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd >= 0) {
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  }
  return fd;
}

void write_all(int fd, const std::string& path, const std::string& content) {
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t n = ::write(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno != EINTR) {
      fail_with_errno(path, "can't be written");
    }
    done += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
}

// Where to write, with symbolic links followed; nothing when `path` is there and no regular file.
std::optional<std::string> place_of(const std::string& path) {
  struct stat status {};
  if (path.empty()) {
    throw InputError("expected the name of a file to write, found an empty one");
  }
  if (::stat(path.c_str(), &status) != 0) {
    return path;
  }
  if (S_ISDIR(status.st_mode)) {
    fail(path, "can't be written: is a directory");
  }
  if (!S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

std::string temporary_name(const std::string& place) { return place + ".tmp-" + std::to_string(::getpid()); }

// Removes what is left of unfinished writes.
struct Temporaries {
  std::vector<std::string> names;
  Temporaries() = default;
  Temporaries(const Temporaries&) = delete;
  Temporaries& operator=(const Temporaries&) = delete;
  ~Temporaries() {
    for (const std::string& name : names) {
      ::unlink(name.c_str());
    }
  }
};

void write_directly(const OutputFile& file) {
  Descriptor out(::open(file.path.c_str(), O_WRONLY | O_CLOEXEC));
  if (out.get() < 0) {
    fail_with_errno(file.path, "can't be written");
  }
  write_all(out.get(), file.path, file.content);
}

void write_temporary(const OutputFile& file, const std::string& name, Temporaries& temporaries) {
  Descriptor out(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (out.get() < 0) {
    fail_with_errno(file.path, "can't be written");
  }
  temporaries.names.push_back(name);
  write_all(out.get(), file.path, file.content);
  if (!out.close()) {
    fail_with_errno(file.path, "can't be written");
  }
}

}  // namespace

std::string read_file(const std::string& path) {
  const Descriptor in(open_to_read(path));
  struct stat status {};
  if (in.get() < 0 || ::fstat(in.get(), &status) != 0) {
    fail_with_errno(path, "can't be read");
  }
  if (S_ISDIR(status.st_mode)) {
    fail(path, "can't be read: is a directory");
  }
  if (S_ISREG(status.st_mode) && status.st_size > static_cast<off_t>(kLargestFile)) {
    refuse_size(path);
  }
  constexpr std::size_t kPiece = 1 << 16;
  std::string text;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + kPiece);
    const ssize_t n = ::read(in.get(), text.data() + before, kPiece);
    text.resize(before + (n > 0 ? static_cast<std::size_t>(n) : 0));
    if (n == 0) {
      return text;
    }
    if (n < 0 && errno != EINTR) {
      fail_with_errno(path, "can't be read");
    }
    if (text.size() > kLargestFile) {
      refuse_size(path);
    }
  }
}

void write_files(std::span<const OutputFile> files) {
  Temporaries temporaries;
  std::vector<std::string> places;
  for (const OutputFile& file : files) {
    const std::optional<std::string> place = place_of(file.path);
    if (place) {
      write_temporary(file, temporary_name(*place), temporaries);
    }
    places.push_back(place.value_or(""));
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (places[i].empty()) {
      write_directly(files[i]);
    } else if (::rename(temporary_name(places[i]).c_str(), places[i].c_str()) != 0) {
      fail_with_errno(files[i].path, "can't be written");
    }
  }
  temporaries.names.clear();
}

void write_file(const std::string& path, const std::string& content) {
  const OutputFile file{path, content};
  write_files({&file, 1});
}

void require_writable(const std::string& path) {
  const std::optional<std::string> place = place_of(path);
  if (!place) {
    return;
  }
  std::filesystem::path folder = std::filesystem::path(*place).parent_path();
  folder = folder.empty() ? "." : folder;
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0 || ::access(folder.c_str(), W_OK | X_OK) != 0) {
    fail_with_errno(path, "can't be written");
  }
  if (!S_ISDIR(status.st_mode)) {
    fail(path, "can't be written: " + folder.string() + " is not a directory");
  }
}

}  // namespace paceline
