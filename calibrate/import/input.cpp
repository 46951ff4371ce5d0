#include "calibrate/import/input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/fingerprint.h"

namespace paceline {
namespace {

constexpr std::size_t kBeginning = 64u << 10;
// What a gzip file may unpack to: profilers' traces take some 20 times their packed size.
constexpr std::uint64_t kUnpacked = 64u << 20, kMostUnpacked = 64;
constexpr std::size_t kMostPassedOver = 4u << 20;  // of one line, before the reader's caller is asked again

// Text of two bytes a character: a byte order mark, or every other byte of the first ones zero.
bool is_utf16(std::string_view text) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    return true;
  }
  const std::size_t looked_at = std::min<std::size_t>(text.size(), 64) & ~std::size_t{1};
  std::size_t even = 0, odd = 0;
  for (std::size_t i = 0; i < looked_at; i += 2) {
    even += text[i] == 0 ? 1 : 0;
    odd += text[i + 1] == 0 ? 1 : 0;
  }
  return looked_at >= 8 && std::max(even, odd) > looked_at * 2 / 5 && std::min(even, odd) == 0;
}

}  // namespace

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // A FIFO without a writer must not hold the program: it is opened without waiting.
  const int fd = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    throw InputError(std::string("can't be read: ") + std::strerror(errno), {}, path_);
  }
  struct stat status{};
  if (::fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) {
    ::close(fd);
    throw InputError("is a folder; expected a file", {}, path_);
  }
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  file_ = ::gzdopen(fd, "rb");
  if (file_ == nullptr) {
    ::close(fd);
    throw InputError("can't be read: out of memory", {}, path_);
  }
  if (S_ISREG(status.st_mode)) {
    most_ = std::max(kUnpacked, static_cast<std::uint64_t>(status.st_size) * kMostUnpacked);
  }
  ::gzbuffer(file_, 1u << 18);
  try {
    start_.resize(kBeginning);
    start_.resize(read_file(start_.data(), start_.size()));
    if (constexpr std::string_view kMark = "\xef\xbb\xbf"; beginning().starts_with(kMark)) {
      mark_ = start_given_ = kMark.size();
    }
    if (is_utf16(beginning())) {
      throw InputError("is written in UTF-16; convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW", {}, path_);
    }
  } catch (...) {
    close();
    throw;
  }
}

InputFile::~InputFile() { close(); }

void InputFile::close() {
  if (file_ != nullptr) {
    ::gzclose(std::exchange(file_, nullptr));
  }
}

std::string InputFile::name() const { return path_.substr(path_.rfind('/') + 1); }

std::size_t InputFile::read_file(char* to, std::size_t most) {
  std::size_t done = 0;
  while (done < most && trouble_.empty()) {
    const int n = ::gzread(file_, to + done, static_cast<unsigned>(std::min(most - done, kBeginning * 4)));
    if (n <= 0) {
      int code = Z_OK;
      const char* const text = ::gzerror(file_, &code);
      if (code == Z_ERRNO) {
        throw InputError(std::string("can't be read: ") + std::strerror(errno), {}, path_);
      }
      if (code != Z_OK && code != Z_STREAM_END) {
        trouble_ = code == Z_BUF_ERROR ? "the gzip stream breaks off"
                                       : std::string("the gzip stream is damaged (") + text + ")";
      }
      break;
    }
    done += static_cast<std::size_t>(n);
    total_ += static_cast<std::uint64_t>(n);
    if (total_ > most_ && ::gzdirect(file_) == 0) {
      throw InputError("expected a gzip file that unpacks to at most " + std::to_string(most_ >> 20) +
                           " MiB, " + std::to_string(kMostUnpacked) +
                           " times its size, found more: unpack it first (gunzip) if that is right",
                       {}, path_);
    }
  }
  return done;
}

std::size_t InputFile::read(char* to, std::size_t most) {
  std::size_t n = std::min(most, start_.size() - start_given_);
  if (n > 0) {
    std::memcpy(to, start_.data() + start_given_, n);
    start_given_ += n;
  } else {
    n = read_file(to, most);
  }
  add_to_hash({to, n});
  return n;
}

// By words of 8 bytes, wherever the blocks are cut.
void InputFile::add_to_hash(std::string_view bytes) {
  const auto add = [this](std::uint64_t word) {
    hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15ULL;
    hash_ ^= hash_ >> 32;
  };
  std::size_t i = 0;
  while (i < bytes.size()) {
    if (pending_bytes_ == 0 && bytes.size() - i >= sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, sizeof word);
      add(word);
      i += sizeof word;
      continue;
    }
    pending_ |= std::uint64_t{static_cast<unsigned char>(bytes[i++])} << (8 * pending_bytes_);
    if (++pending_bytes_ == sizeof pending_) {
      add(std::exchange(pending_, 0));
      pending_bytes_ = 0;
    }
  }
}

std::uint64_t InputFile::hash() const { return mix64(mix64(hash_ ^ pending_) + pending_bytes_); }

bool LineReader::next(std::string_view& line) {
  line = {};
  too_long_ = false;
  std::size_t searched = at_, passed_over = 0;
  for (;;) {
    const void* const end = std::memchr(buffer_.data() + searched, '\n', size_ - searched);
    if (end != nullptr || (ended_ && (at_ < size_ || passed_over > 0))) {
      const std::size_t stop =
          end != nullptr ? static_cast<std::size_t>(static_cast<const char*>(end) - buffer_.data()) : size_;
      too_long_ = too_long_ || stop - at_ > kLongestLine;
      if (!too_long_) {
        line = {buffer_.data() + at_, stop - at_};
        if (line.ends_with('\r')) {
          line.remove_suffix(1);
        }
      }
      bytes_ += stop - at_ + 1;
      at_ = std::min(stop + 1, size_);
      ++number_;
      return true;
    }
    if (ended_) {
      return false;
    }
    if (size_ - at_ > kLongestLine || too_long_) {
      too_long_ = true;
      bytes_ += size_ - at_;
      passed_over += size_ - at_;
      at_ = size_;
    }
    if (passed_over > kMostPassedOver) {
      ++number_;
      return true;
    }
    std::memmove(buffer_.data(), buffer_.data() + at_, size_ - at_);
    size_ -= at_;
    at_ = 0;
    searched = size_;
    const std::size_t n = file_.read(buffer_.data() + size_, buffer_.size() - size_);
    size_ += n;
    ended_ = n == 0;
  }
}

}  // namespace paceline
