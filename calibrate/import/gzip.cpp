#include "calibrate/import/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

namespace paceline {
namespace {

// zlib's state, freed at the end of its scope.
struct Deflater {
  z_stream stream{};
  Deflater() {
    constexpr int kGzipWindow = 15 + 16, kMemory = 8;
    constexpr int kLevel = 4;  // of a trace: a third of the default's time, a fifth larger
    if (deflateInit2(&stream, kLevel, Z_DEFLATED, kGzipWindow, kMemory, Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::runtime_error("zlib: out of memory");
    }
  }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  ~Deflater() { deflateEnd(&stream); }
};

}  // namespace

std::string gzip(std::string_view bytes) {
  Deflater deflater;
  z_stream& stream = deflater.stream;
  std::array<Bytef, 1U << 16> piece{};
  std::string out;
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    if (stream.avail_in == 0 && !bytes.empty()) {
      const std::size_t taken = std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // only read
      stream.avail_in = static_cast<uInt>(taken);
      bytes.remove_prefix(taken);
    }
    stream.next_out = piece.data();
    stream.avail_out = static_cast<uInt>(piece.size());
    state = deflate(&stream, bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
    if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR) {
      throw std::runtime_error("zlib: can't compress");
    }
    out.append(reinterpret_cast<const char*>(piece.data()), piece.size() - stream.avail_out);
  }
  return out;
}

}  // namespace paceline
