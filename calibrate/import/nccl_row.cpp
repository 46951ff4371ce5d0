#include "calibrate/import/nccl_row.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/fingerprint.h"
#include "core/text.h"

namespace paceline {
namespace {

struct Type {
  std::string_view name;
  int bytes;
};
constexpr std::array kTypes{Type{"float", 4},   Type{"half", 2},   Type{"bfloat16", 2}, Type{"double", 8},
                            Type{"int8", 1},    Type{"uint8", 1},  Type{"int32", 4},    Type{"uint32", 4},
                            Type{"int64", 8},   Type{"uint64", 8}, Type{"char", 1},     Type{"int", 4},
                            Type{"f8e4m3", 1},  Type{"f8e5m2", 1}, Type{"fp8_e4m3", 1}, Type{"fp8_e5m2", 1},
                            Type{"fp8e4m3", 1}, Type{"fp8e5m2", 1}};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view word_from(std::string_view line, std::size_t& at) {
  while (at < line.size() && is_blank(line[at])) {
    ++at;
  }
  const std::size_t start = at;
  while (at < line.size() && !is_blank(line[at])) {
    ++at;
  }
  return line.substr(start, at - start);
}

bool is_whole(std::string_view word) {
  return !word.empty() && word.size() <= 18 && std::ranges::all_of(word, is_digit);
}

bool is_printed_number(std::string_view word) {
  double value = 0;
  return read_number(word, value);
}

// Half of the last digit of "17.05", "18535" or "1.2e+04".
double half_digit(std::string_view text) {
  const std::size_t e = std::min(text.find_first_of("eE"), text.size());
  const std::size_t point = text.find('.');
  double digit = 1;
  if (point < e) {
    digit = std::pow(10.0, -static_cast<double>(e - point - 1));
  }
  double exponent = 0;
  if (e < text.size() && read_number(text.substr(e + 1), exponent)) {
    digit *= std::pow(10.0, exponent);
  }
  return digit / 2;
}

// The first two whole numbers and a type in a row; `at` is then behind the type.
const Type* find_type(std::string_view line, std::size_t& at, std::size_t& start, NcclRow& row) {
  std::string_view before_last, last;
  while (at < line.size()) {
    const std::string_view word = word_from(line, at);
    if (word.empty()) {
      break;
    }
    if (is_whole(last) && word[0] >= 'a' && word[0] <= 'u') {
      // A size may follow its prefix without a blank: "[1,0]<stdout>:8388608".
      std::size_t digits = before_last.size();
      while (digits > 0 && is_digit(before_last[digits - 1])) {
        --digits;
      }
      const bool glued = digits > 0;
      const std::string_view size = before_last.substr(digits);
      const bool bounded = !glued || before_last[digits - 1] == ':' || before_last[digits - 1] == '>';
      const auto* const type = std::ranges::find(kTypes, word, &Type::name);
      if (type != kTypes.end() && is_whole(size) && bounded) {
        start = static_cast<std::size_t>(size.data() - line.data());
        read_whole(size, row.size);
        read_whole(last, row.count);
        return type;
      }
    }
    before_last = last;
    last = word;
  }
  return nullptr;
}

bool is_operation(std::string_view word) {
  constexpr std::array<std::string_view, 7> kOperations{"sum", "prod", "max", "min", "avg", "mulsum", "none"};
  return std::ranges::count(kOperations, word) > 0;
}

struct Cells {
  std::array<std::string_view, 24> text;
  std::size_t count = 0;
};

Cells cells_from(std::string_view line, std::size_t& at) {
  Cells cells;
  while (cells.count < cells.text.size()) {
    std::size_t next = at;
    const std::string_view word = word_from(line, next);
    if (!is_printed_number(word) && word != "N/A") {
      break;
    }
    // Two rows on one line: the second begins here.
    std::size_t third = next;
    if (is_whole(word) && is_whole(word_from(line, third)) &&
        std::ranges::find(kTypes, word_from(line, third), &Type::name) != kTypes.end()) {
      break;
    }
    cells.text[cells.count++] = word;
    at = next;
  }
  return cells;
}

// "nan", "-inf", "98,55": where a number belongs, and is none. Other words are another process's.
bool is_number_gone_wrong(std::string_view word) {
  const std::string_view bare = word.starts_with('-') ? word.substr(1) : word;
  constexpr std::array<std::string_view, 4> kNone{"nan", "NaN", "inf", "Inf"};
  return std::ranges::count(kNone, bare) > 0 ||
         (!bare.empty() && is_digit(bare[0]) && !is_printed_number(word) &&
          bare.find_first_not_of("0123456789.,") == std::string_view::npos);
}

bool read_half(std::span<const std::string_view> cells, bool milliseconds, NcclHalf& half) {
  if (!read_microseconds(cells[0], half.time) || !is_printed_number(cells[1]) ||
      !is_printed_number(cells[2])) {
    return false;
  }
  const double unit = milliseconds ? 1e3 : 1;
  half.time = half.time * unit;
  half.time_half_digit = half_digit(cells[0]) * 1e-6 * unit;
  half.algorithm_bandwidth = printed(cells[1]);
  half.bus_bandwidth = printed(cells[2]);
  return true;
}

}  // namespace

Printed printed(std::string_view text) {
  Printed number;
  read_number(text, number.value);
  number.half_digit = half_digit(text);
  return number;
}

bool add_half(const NcclHalf& half, NcclRow& row) {
  constexpr double kSlack = 1.02, kTiny = 1e-9;
  const double low_time = half.time.value - half.time_half_digit * kSlack;
  if (half.time.value <= 0) {
    return false;
  }
  const double gigabytes = static_cast<double>(row.size) * 1e-9;
  const Printed& algorithm = half.algorithm_bandwidth;
  const Printed& bus = half.bus_bandwidth;
  // algbw from size and time, and as printed: both ranges hold it.
  const double from_time_low = gigabytes / (half.time.value + half.time_half_digit * kSlack);
  const double from_time_high = low_time > 0 ? gigabytes / low_time : HUGE_VAL;
  const double low = std::max(from_time_low, algorithm.value - algorithm.half_digit * kSlack);
  const double high = std::min(from_time_high, algorithm.value + algorithm.half_digit * kSlack);
  if (low > high * (1 + kTiny) + kTiny || bus.value < 0 || high <= 0) {
    return false;
  }
  const double factor_low = std::max(0.0, bus.value - bus.half_digit * kSlack) / high;
  const double factor_high = low > 0 ? (bus.value + bus.half_digit * kSlack) / low : HUGE_VAL;
  constexpr double kLargestFactor = 2;
  if (factor_low > kLargestFactor * (1 + kTiny)) {
    return false;
  }
  row.factor.low = std::max(row.factor.low, factor_low);
  row.factor.high = std::min(row.factor.high, factor_high);
  row.time = row.time.value > 0 ? std::min(row.time, half.time) : half.time;
  return row.factor.low <= row.factor.high * (1 + kTiny);
}

RowIs find_nccl_row(std::string_view line, const NcclLayout* layout, NcclRow& row, std::size_t& start,
                    std::size_t& stop) {
  std::size_t at = stop;
  row = {};
  const Type* const type = find_type(line, at, start, row);
  if (type == nullptr) {
    stop = line.size();
    return RowIs::no_row;
  }
  if (layout == nullptr || layout->redop) {
    std::size_t next = at;
    const std::string_view word = word_from(line, next);
    if (is_operation(word)) {
      row.redop = word;
      at = next;
    } else if (layout != nullptr) {
      stop = at;
      return word.empty() ? RowIs::cut_off : RowIs::garbled;
    }
  }
  const Cells cells = cells_from(line, at);
  stop = at;
  const std::size_t width = layout != nullptr ? static_cast<std::size_t>(layout->columns_per_half) : 4;
  std::size_t behind = at;
  const bool wrong_cell = is_number_gone_wrong(word_from(line, behind));
  const bool root = layout != nullptr ? layout->root : cells.count % width == 1;
  std::size_t first = 0;
  if (root) {
    row.has_root = cells.count > 0 && read_whole(cells.text[0], row.root);
    if (!row.has_root) {
      return wrong_cell ? RowIs::no_number : cells.count == 0 ? RowIs::cut_off : RowIs::garbled;
    }
    first = 1;
  }
  const std::size_t most = layout != nullptr ? static_cast<std::size_t>(layout->halves) : 2;
  const std::size_t halves = std::min((cells.count - first) / width, most);
  if (row.size > 0 && halves == 0 && wrong_cell) {
    return RowIs::no_number;
  }
  const bool cut = halves < most && ((cells.count - first) % width != 0 || (layout != nullptr && wrong_cell));
  if (row.size == 0 || (halves == 0 && !cut)) {
    return RowIs::empty;
  }
  if (row.size < row.count || (row.count > 0 && row.size / row.count < type->bytes)) {
    return RowIs::garbled;
  }
  for (std::size_t i = 0; i < halves; ++i) {
    const std::span<const std::string_view> half_cells(&cells.text[first + i * width], width);
    NcclHalf half;
    if (!read_half(half_cells, layout != nullptr && layout->milliseconds, half) || !add_half(half, row)) {
      return RowIs::garbled;
    }
    double wrong = 0;  // a million is 1e+06
    row.wrong_values = row.wrong_values || (width > 3 && layout != nullptr && layout->counts_wrong &&
                                            read_number(half_cells[3], wrong) && wrong > 0);
  }
  row.text = mix64(static_cast<std::uint64_t>(row.size));
  for (const char c : line.substr(start, stop - start)) {
    if (!is_blank(c)) {
      row.text = (row.text ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    }
  }
  return halves == 0 ? RowIs::cut_off : cut ? RowIs::part : RowIs::good;
}

}  // namespace paceline
