#include "core/fingerprint.h"

namespace paceline {

std::string to_hex(std::uint64_t value) {
  std::string digits(16, '0');
  for (std::size_t i = digits.size(); i-- > 0; value >>= 4) {
    digits[i] = "0123456789abcdef"[value & 15];
  }
  return digits;
}

std::string checksum(std::string_view text) {
  std::uint64_t sum = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return to_hex(sum);
}

}  // namespace paceline
