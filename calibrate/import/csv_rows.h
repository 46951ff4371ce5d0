// A CSV file as rows of cells found by their column's name (libcsv reads quotes and line ends).
#pragma once

#include <csv.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/findings.h"
#include "calibrate/import/input.h"

namespace paceline {

using CsvCells = std::vector<std::string>;

class CsvRows {
 public:
  // The first row that is no comment ('#') is the header. Throws InputError where there is none.
  CsvRows(InputFile& file, Findings& findings);
  CsvRows(const CsvRows&) = delete;
  CsvRows& operator=(const CsvRows&) = delete;
  ~CsvRows() { csv_free(&parser_); }

  const CsvCells& header() const { return header_; }  // lower case, trimmed
  std::int64_t header_line() const { return header_line_; }

  // The next row that has as many cells as the header; others are remarks.
  bool next();
  std::int64_t line() const { return row_line_; }
  // The cell of the first of these columns that is there, trimmed, without what stands for nothing ("", "not
  // stated", "n/a", "-").
  std::string_view cell(std::span<const std::string_view> columns) const;
  bool has(std::span<const std::string_view> columns) const;

 private:
  struct Row {
    CsvCells cells;
    std::int64_t line;
  };
  bool read_row(Row& row);
  void feed_line(std::string_view line);

  LineReader lines_;
  Findings& findings_;
  csv_parser parser_{};
  CsvCells header_, cells_, current_;
  std::deque<Row> ready_;  // a line with bare carriage returns holds many rows
  std::int64_t header_line_ = 0, row_line_ = 0, current_line_ = 0;
  std::size_t current_bytes_ = 0;
  std::int64_t rows_ = 0;
  bool ended_ = false;
};

// The header's cells of a line, for telling a CSV by its beginning.
CsvCells csv_cells(std::string_view line);

}  // namespace paceline
