#include "calibrate/validate/csv_table.h"

#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "calibrate/import/csv_rows.h"
#include "core/error.h"
#include "core/unknown_name.h"
#include "scenarios/json.h"

namespace paceline {

std::string CsvTable::Row::text(const std::string& column) const {
  const auto found = cells.find(column);
  return found == cells.end() ? std::string() : found->second;
}

CsvTable::CsvTable(std::string path, const std::vector<std::string>& columns) : path_(std::move(path)) {
  InputFile file(path_);
  MeasuredData remarks;
  Findings findings(path_, remarks);
  CsvRows rows(file, findings);
  for (const std::string& column : columns) {
    const std::array<std::string_view, 1> wanted{column};
    if (!rows.has(wanted)) {
      const std::vector<std::string> near = nearest_names(column, rows.header());
      throw InputError("missing column " + in_quotes(column) +
                           (near.empty() ? "" : " (found " + in_quotes(near.front()) + ")"),
                       "line " + std::to_string(rows.header_line()), path_);
    }
  }
  while (rows.next()) {
    Row& row = rows_.emplace_back();
    row.line = rows.line();
    for (const std::string& column : rows.header()) {
      const std::array<std::string_view, 1> wanted{column};
      if (const std::string_view text = rows.cell(wanted); !text.empty()) {
        row.cells[column] = text;
      }
    }
  }
  if (!remarks.remarks.empty()) {
    const Remark& first = remarks.remarks.front();
    throw InputError(first.text, "line " + std::to_string(first.origin.line), path_);
  }
}

void CsvTable::fail(const Row& row, const std::string& column, const std::string& expected) const {
  const std::string text = row.text(column);
  throw InputError("expected " + expected + ", found " + (text.empty() ? "none" : in_quotes(text)),
                   "line " + std::to_string(row.line) + ", column " + column, path_);
}

double CsvTable::number(const Row& row, const std::string& column, double least) const {
  double value = 0;
  if (!read_number(row.text(column), value) || value < least) {
    fail(row, column, "a number from " + number_text(least) + " on");
  }
  return value;
}

int CsvTable::whole(const Row& row, const std::string& column, int least, int otherwise) const {
  if (row.text(column).empty() && otherwise >= least) {
    return otherwise;
  }
  std::int64_t value = 0;
  if (!read_whole(row.text(column), value) || value < least || value > std::numeric_limits<int>::max()) {
    fail(row, column, "a whole number from " + std::to_string(least) + " on");
  }
  return static_cast<int>(value);
}

}  // namespace paceline
