#include "scenarios/files.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/fingerprint.h"

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

// The system would read such a name to its zero byte, and find another file.
void require_name(const std::string& path) {
  if (const std::size_t zero = path.find('\0'); zero != std::string::npos) {
    fail(path.substr(0, zero), "expected the name of a file, found one with a zero byte after this");
  }
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
  struct stat status{};
  require_name(path);
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

std::string folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

// Allocates nothing where it succeeds. path: as messages call it.
void sync_at(const std::string& folder, const std::string& path) {
  const Descriptor in(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (in.get() >= 0 && ::fsync(in.get()) != 0 && errno != EINVAL) {  // EINVAL: it can't be, here
    fail_with_errno(path, "can't be written");
  }
}

// Where a file is written before it takes its place. Removed with this, unless it has moved there.
class TemporaryFile {
 public:
  TemporaryFile(std::string place, std::string path)
      : folder_(folder_of(place)), place_(std::move(place)), path_(std::move(path)) {}
  TemporaryFile(TemporaryFile&& other) noexcept
      : folder_(std::move(other.folder_)),
        place_(std::move(other.place_)),
        path_(std::move(other.path_)),
        name_(std::exchange(other.name_, {})) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!name_.empty()) {
      ::unlink(name_.c_str());
    }
  }

  void write(const std::string& content) {
    Descriptor out(make());
    struct stat before{};
    if (::stat(place_.c_str(), &before) == 0) {
      ::fchmod(out.get(), before.st_mode & 07777);  // a file system without permissions may refuse
    }
    write_all(out.get(), path_, content);
    if (::fsync(out.get()) != 0 || !out.close()) {
      fail_with_errno(path_, "can't be written");
    }
  }
  void take_place() {
    if (::rename(name_.c_str(), place_.c_str()) != 0) {
      fail_with_errno(path_, "can't be written");
    }
    name_.clear();
  }
  void sync_place() const { sync_at(folder_, place_); }

 private:
  // A name that nobody has: drawn, as processes and containers may share their numbers.
  int make() {
    constexpr int kMostTries = 100;
    int fd = -1;
    for (int i = 0; fd < 0 && (i == 0 || errno == EEXIST) && i < kMostTries; ++i) {
      std::uint64_t drawn = 0;
      if (::getrandom(&drawn, sizeof drawn, 0) != static_cast<ssize_t>(sizeof drawn)) {
        break;
      }
      name_ = place_ + ".tmp-" + to_hex(drawn);
      fd = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (fd < 0) {
      name_.clear();
      fail_with_errno(path_, "can't be written");
    }
    return fd;
  }
  std::string folder_, place_, path_;  // path_: as messages call it
  std::string name_;
};

void write_directly(const OutputFile& file) {
  Descriptor out(::open(file.path.c_str(), O_WRONLY | O_CLOEXEC));
  if (out.get() < 0) {
    fail_with_errno(file.path, "can't be written");
  }
  write_all(out.get(), file.path, file.content);
}

bool is_regular(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

// Without links and dots, whether it is there or not.
std::filesystem::path real_place(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  const std::filesystem::path real = std::filesystem::weakly_canonical(whole, error);
  return error ? whole.lexically_normal() : real;
}

// Devices are no files in this: what is written to a terminal doesn't replace what is read from it.
bool are_one_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (std::filesystem::exists(a, error) && std::filesystem::exists(b, error)) {
    return is_regular(a) && std::filesystem::equivalent(a, b, error);
  }
  return real_place(a) == real_place(b);
}

// Whether the file is there, and in the folder itself.
bool is_in_folder(const std::string& path, const std::string& folder) {
  std::error_code error;
  return std::filesystem::is_directory(folder, error) && is_regular(path) &&
         std::filesystem::equivalent(real_place(path).parent_path(), folder, error);
}

}  // namespace

void sync_folder(const std::string& path) { sync_at(folder_of(path), path); }

FileTexts::FileTexts() : known_{std::filesystem::current_path().string(), {}} {}
FileTexts::FileTexts(Known known) : closed_(true), known_(std::move(known)) {}

FileTexts::Known FileTexts::known() const {
  const std::lock_guard lock(mutex_);
  return known_;
}

const std::string& FileTexts::text(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto [at, first] =
      known_.entries.try_emplace(std::filesystem::path(path).lexically_normal().string());
  if (first) {
    try {
      if (closed_) {
        throw std::logic_error(path + " was not read where its texts are from");
      }
      at->second.text = read_file(path);
    } catch (const InputError& error) {
      at->second.failure = error;
    } catch (...) {
      known_.entries.erase(at);
      throw;
    }
  }
  if (at->second.failure) {
    throw *at->second.failure;
  }
  return at->second.text;
}

void require_apart(std::span<const NamedFile> inputs, std::span<const NamedFile> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const NamedFile& output = outputs[i];
    for (const NamedFile& input : inputs) {
      const bool standard = output.path == "-";  // the standard output replaces nothing
      if (!standard && (are_one_file(output.path, input.path) || is_in_folder(output.path, input.path))) {
        throw InputError("expected a file of its own, found " + input.name + ", which it would replace",
                         output.name, output.path);
      }
    }
    for (const NamedFile& other : outputs.first(i)) {
      if (are_one_file(output.path, other.path)) {
        throw InputError("expected different files for " + other.name + " and " + output.name, {},
                         output.path);
      }
    }
  }
}

std::string read_file(const std::string& path) {
  require_name(path);
  const Descriptor in(open_to_read(path));
  struct stat status{};
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
  std::vector<TemporaryFile> written;
  std::vector<const OutputFile*> devices;
  for (const OutputFile& file : files) {
    if (std::optional<std::string> place = place_of(file.path)) {
      written.emplace_back(*std::move(place), file.path).write(file.content);
    } else {
      devices.push_back(&file);
    }
  }
  for (const OutputFile* device : devices) {
    write_directly(*device);
  }
  for (TemporaryFile& file : written) {
    file.take_place();
    file.sync_place();
  }
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
  struct stat status{};
  if (::stat(folder.c_str(), &status) != 0 || ::access(folder.c_str(), W_OK | X_OK) != 0) {
    fail_with_errno(path, "can't be written");
  }
  if (!S_ISDIR(status.st_mode)) {
    fail(path, "can't be written: " + folder.string() + " is not a directory");
  }
}

}  // namespace paceline
