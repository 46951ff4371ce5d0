#include "scenarios/readable.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

namespace paceline {
namespace {

struct Scale {
  double factor;
  const char* name;
};

// With four digits in the largest unit that leaves one before the point.
std::string scaled(double value, std::span<const Scale> scales) {
  for (const Scale& scale : scales) {
    if (std::abs(value) >= scale.factor || &scale == &scales.back()) {
      const double shown = value / scale.factor;
      const double size = std::abs(shown);
      const int decimals = shown == 0 || size >= 999.95 ? 0 : size >= 99.995 ? 1 : size >= 9.9995 ? 2 : 3;
      return fixed(shown, decimals) + ' ' + scale.name;
    }
  }
  return {};
}

}  // namespace

std::string fixed(double value, int decimals) {
  std::array<char, 400> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, decimals)
          .ptr;
  return {buffer.data(), end};
}

std::string readable_time(Seconds t) {
  constexpr Scale kScales[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
  return t.value == 0 ? "0 s" : scaled(t.value, kScales);
}

std::string readable_duration(Seconds t) {
  constexpr Scale kScales[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}, {1e-3, "ms"}, {1e-6, "us"}};
  return t.value == 0 ? "0 s" : scaled(t.value, kScales);
}

std::string readable_size(Bytes size) {
  constexpr Scale kScales[] = {{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "B"}};
  return scaled(static_cast<double>(size.value), kScales);
}

std::string readable_rate(BytesPerSecond rate) {
  constexpr Scale kScales[] = {{1e12, "TB/s"}, {1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}, {1, "B/s"}};
  return scaled(rate.value, kScales);
}

std::string readable_large(double value) {
  constexpr Scale kScales[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}};
  return scaled(value, kScales);
}

std::string readable_count(double value) {
  std::string text = fixed(value, value < 100 ? 2 : value < 1000 ? 1 : 0);
  const std::size_t whole = text.find('.') == std::string::npos ? text.size() : text.find('.');
  for (std::size_t i = whole; i > 3; i -= 3) {
    text.insert(i - 3, ",");
  }
  return text;
}

std::string plural(std::int64_t n, const std::string& noun) {
  return std::to_string(n) + ' ' + noun + (n == 1 ? "" : "s");
}

std::string with_spaces(std::string_view name) {
  std::string words(name);
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::string padded(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string padded_right(const std::string& text, std::size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 1, ' ');
}

std::string row(const std::string& label, const std::string& text) {
  return "  " + padded_right(label, 16) + text + '\n';
}

std::string aligned(const std::vector<Cells>& rows, std::size_t left) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Cells& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], row[c].size());
    }
  }
  std::string text;
  for (const Cells& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - row[c].size(), ' ');
      const bool last = c + 1 == row.size();
      text += (c == 0 ? "" : "  ") + (c < left ? row[c] + (last ? "" : space) : space + row[c]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace paceline
