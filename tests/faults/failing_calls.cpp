// The system's calls, as the program links them: these definitions stand before the C library's.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "tests/faults/failing.h"

namespace paceline {
namespace {

enum class Call { none, write, half_write, fsync, rename, open, ftruncate, allocation };
std::atomic<Call> chosen{Call::none};
std::atomic<long> left{0};
std::atomic<bool> failed{false};

bool fails(Call call) {
  if (chosen.load(std::memory_order_relaxed) != call || left.fetch_sub(1) != 1) {
    return false;
  }
  failed = true;
  return true;
}

}  // namespace

void let_fail(const std::string& call, long nth) {
  chosen = Call::none;
  left = nth;
  failed = failed && call.empty();
  chosen = call == "write"        ? Call::write
           : call == "half write" ? Call::half_write
           : call == "fsync"      ? Call::fsync
           : call == "rename"     ? Call::rename
           : call == "open"       ? Call::open
           : call == "ftruncate"  ? Call::ftruncate
           : call == "allocation" ? Call::allocation
                                  : Call::none;
}
bool has_failed() { return failed; }

namespace {
int failure(int error) {
  errno = error;
  return -1;
}
}  // namespace

}  // namespace paceline

using paceline::Call;
using paceline::fails;
using paceline::failure;

extern "C" {

ssize_t write(int fd, const void* data, std::size_t size) {
  if (fails(Call::half_write)) {
    return ::syscall(SYS_write, fd, data, size / 2);
  }
  return fails(Call::write) ? failure(ENOSPC) : ::syscall(SYS_write, fd, data, size);
}
int fsync(int fd) { return fails(Call::fsync) ? failure(EIO) : static_cast<int>(::syscall(SYS_fsync, fd)); }
int ftruncate(int fd, off_t length) noexcept {
  return fails(Call::ftruncate) ? failure(EIO) : static_cast<int>(::syscall(SYS_ftruncate, fd, length));
}
int rename(const char* from, const char* to) noexcept {
  return fails(Call::rename) ? failure(EACCES)
                             : static_cast<int>(::syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
}
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return fails(Call::open) ? failure(EMFILE)
                           : static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

}  // extern "C"

#ifndef PACELINE_SANITIZED  // the sanitizers have an operator new of their own
void* operator new(std::size_t size) {
  if (fails(Call::allocation)) {
    throw std::bad_alloc();
  }
  void* const memory = std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif
