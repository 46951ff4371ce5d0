#include "calibrate/import/csv_rows.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/text.h"

namespace paceline {
namespace {

constexpr std::size_t kMostOpenBytes = 64u << 10;  // of one row, over all its lines
constexpr std::size_t kMostCells = 1000;

char separator_of(std::string_view line) {
  for (const char separator : {',', ';', '\t'}) {
    if (line.find(separator) != std::string_view::npos) {
      return separator;
    }
  }
  return ',';
}

void add_cell(void* text, std::size_t size, void* cells) {
  auto& all = *static_cast<CsvCells*>(cells);
  if (all.size() < kMostCells) {
    all.emplace_back(static_cast<const char*>(text), size);
  }
}

}  // namespace

CsvCells csv_cells(std::string_view line) {
  csv_parser parser;
  csv_init(&parser, 0);
  csv_set_delim(&parser, static_cast<unsigned char>(separator_of(line)));
  CsvCells cells;
  csv_parse(&parser, line.data(), line.size(), add_cell, nullptr, &cells);
  csv_fini(&parser, add_cell, nullptr, &cells);
  csv_free(&parser);
  for (std::string& each : cells) {
    each = in_lower_case(trimmed(each));
  }
  return cells;
}

CsvRows::CsvRows(InputFile& file, Findings& findings) : lines_(file), findings_(findings) {
  csv_init(&parser_, 0);
  std::string_view line;
  while (lines_.next(line)) {
    if (!lines_.too_long() && !trimmed(line).empty() && !line.starts_with('#')) {
      header_ = csv_cells(line);
      header_line_ = lines_.number();
      csv_set_delim(&parser_, static_cast<unsigned char>(separator_of(line)));
      return;
    }
    if (lines_.bytes() > kLongestLine * 256) {
      break;
    }
  }
  csv_free(&parser_);
  throw InputError("expected a CSV with a header row, found none", {}, file.path());
}

void CsvRows::feed_line(std::string_view line) {
  const auto row_ends = [](int, void* self) {
    auto& rows = *static_cast<CsvRows*>(self);
    rows.ready_.push_back({std::move(rows.current_), rows.current_line_});
    rows.current_.clear();
    rows.current_bytes_ = 0;
  };
  const auto cell_ends = [](void* text, std::size_t size, void* self) {
    add_cell(text, size, &static_cast<CsvRows*>(self)->current_);
  };
  if (current_bytes_ == 0) {
    current_line_ = lines_.number();
  }
  current_bytes_ += line.size() + 1;
  csv_parse(&parser_, line.data(), line.size(), cell_ends, row_ends, this);
  csv_parse(&parser_, "\n", 1, cell_ends, row_ends, this);
  if (current_bytes_ > kMostOpenBytes) {
    findings_.remark("rows with an open quote", current_line_,
                     "a quote is not closed: the rows from here to line " + std::to_string(lines_.number()) +
                         " are left out");
    csv_fini(&parser_, cell_ends, row_ends, this);
    ready_.clear();
    current_.clear();
    current_bytes_ = 0;
  }
}

bool CsvRows::read_row(Row& row) {
  std::string_view line;
  while (ready_.empty() && !ended_) {
    if (!lines_.next(line)) {
      ended_ = true;
      if (current_bytes_ > 0) {
        findings_.remark("rows with an open quote", current_line_,
                         "a quote is not closed: the rows from here on are left out");
      }
    } else if (lines_.too_long()) {
      findings_.remark("lines that are too long", lines_.number(),
                       "a line of more than " + std::to_string(kLongestLine >> 10) + " KiB: left out");
      if (lines_.bytes() > std::uint64_t{1} << 34) {
        ended_ = true;
      }
    } else if (current_bytes_ > 0 || (!trimmed(line).empty() && !line.starts_with('#'))) {
      feed_line(line);
    }
  }
  if (ready_.empty()) {
    return false;
  }
  row = std::move(ready_.front());
  ready_.pop_front();
  return true;
}

bool CsvRows::next() {
  Row row;
  while (read_row(row)) {
    if (++rows_ > kMostRows) {  // wrong ones count too: each costs as much
      findings_.remark("too many rows", row.line,
                       "more than " + std::to_string(kMostRows) + " rows; what follows them was not read");
      return false;
    }
    if (row.cells.size() == header_.size()) {
      cells_ = std::move(row.cells);
      row_line_ = row.line;
      return true;
    }
    findings_.remark(
        "rows of another length", row.line,
        "expected " + std::to_string(header_.size()) + " cells as in the header, found " +
            std::to_string(row.cells.size()) + ": the row is left out" +
            (row.cells.size() > header_.size() ? "; numbers have a decimal point, no comma" : ""));
  }
  return false;
}

bool CsvRows::has(std::span<const std::string_view> columns) const {
  return std::ranges::any_of(
      columns, [&](std::string_view name) { return std::ranges::find(header_, name) != header_.end(); });
}

std::string_view CsvRows::cell(std::span<const std::string_view> columns) const {
  constexpr std::array<std::string_view, 7> kNothing{"", "not stated", "n/a", "na", "nan", "-", "unknown"};
  for (const std::string_view name : columns) {
    const auto found = std::ranges::find(header_, name);
    if (found != header_.end()) {
      const std::string_view text = trimmed(cells_[static_cast<std::size_t>(found - header_.begin())]);
      if (std::ranges::count(kNothing, in_lower_case(text)) == 0) {
        return text;
      }
    }
  }
  return {};
}

}  // namespace paceline
