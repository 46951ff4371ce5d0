#include "core/fingerprint.h"

namespace paceline {

std::string to_hex(std::uint64_t value) {
  std::string digits(16, '0');
  for (std::size_t i = digits.size(); i-- > 0; value >>= 4) {
    digits[i] = "0123456789abcdef"[value & 15];
  }
  return digits;
}

}  // namespace paceline
