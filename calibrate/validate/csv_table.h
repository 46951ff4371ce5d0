// A CSV file with a header, as rows of cells by column.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace paceline {

class CsvTable {
 public:
  // Throws InputError where it can't be read, lacks one of `columns` or has a row of another length.
  CsvTable(std::string path, const std::vector<std::string>& columns);

  struct Row {
    std::int64_t line = 0;
    std::map<std::string, std::string> cells;  // without the empty ones

    std::string text(const std::string& column) const;  // "" where it is empty
  };
  const std::string& path() const { return path_; }
  const std::vector<Row>& rows() const { return rows_; }

  // Throws InputError with file, line and column unless the cell is a number from `least` on. An empty cell
  // is `otherwise`.
  double number(const Row&, const std::string& column, double least) const;
  int whole(const Row&, const std::string& column, int least, int otherwise) const;
  [[noreturn]] void fail(const Row&, const std::string& column, const std::string& expected) const;

 private:
  std::string path_;
  std::vector<Row> rows_;
};

}  // namespace paceline
