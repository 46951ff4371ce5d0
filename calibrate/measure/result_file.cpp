#include "calibrate/measure/result_file.h"

#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "core/error.h"
#include "core/text.h"

namespace paceline::measure {
namespace {

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) {
    return text;
  }
  std::string result = "\"";
  for (const char c : text) {
    // A line is a row, also for those who read line by line.
    result += c == '"' ? std::string("\"\"") : std::string(1, c == '\n' || c == '\r' ? ' ' : c);
  }
  return result + '"';
}

std::string shown(const std::string& text) { return text; }
std::string shown(int value) { return std::to_string(value); }
std::string shown(std::int64_t value) { return std::to_string(value); }
std::string shown(double value) { return formatted("%.6g", value); }

template <auto kMember>
std::string text(const ResultRow& row) {
  return shown(row.*kMember);
}

// Whole however large: FLOP counts above 10^6 must not lose digits.
std::string work(const ResultRow& row) { return formatted("%.0f", row.work_flop); }

struct Column {
  const char* name;
  std::string (*text)(const ResultRow&);
  bool identifies = true;
};

constexpr Column kColumns[] = {
    {"kind", text<&ResultRow::kind>},
    {"name", text<&ResultRow::name>},
    {"precision", text<&ResultRow::precision>},
    {"ranks", text<&ResultRow::ranks>},
    {"nodes", text<&ResultRow::nodes>},
    {"gpus_per_node", text<&ResultRow::gpus_per_node>},
    {"size_bytes", text<&ResultRow::size_bytes>},
    {"m", text<&ResultRow::m>},
    {"n", text<&ResultRow::n>},
    {"k", text<&ResultRow::k>},
    {"work_flop", work},
    {"traffic_bytes", text<&ResultRow::traffic_bytes>},
    {"time_us", text<&ResultRow::time_us>, false},
    {"min_us", text<&ResultRow::min_us>, false},
    {"max_us", text<&ResultRow::max_us>, false},
    {"repeats", text<&ResultRow::repeats>, false},
    {"condition", text<&ResultRow::condition>},
    {"backend", text<&ResultRow::backend>},
    {"library", text<&ResultRow::library>},
    {"device", text<&ResultRow::device>},
    {"host", text<&ResultRow::host>},
    {"driver", text<&ResultRow::driver>},
    {"clock_mhz", text<&ResultRow::clock_mhz>, false},
    {"date", text<&ResultRow::date>, false},
};

std::string key_of(const std::vector<std::string>& fields) {
  std::string key;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (kColumns[i].identifies) {
      key += quoted(fields[i]) + ',';
    }
  }
  return key;
}

std::vector<std::string> fields_of(const std::string& line, int number, const std::string& file) {
  try {
    return csv_fields(line);
  } catch (const InputError& error) {
    throw InputError(error.message(), "line " + std::to_string(number), file);
  }
}

}  // namespace

std::string csv_header() {
  std::string line;
  for (const Column& column : kColumns) {
    line += std::string(column.name) + ',';
  }
  line.pop_back();
  return line;
}

std::string csv_line(const ResultRow& row) {
  std::string line;
  for (const Column& column : kColumns) {
    line += quoted(column.text(row)) + ',';
  }
  line.pop_back();
  return line;
}

std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool inside = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && inside && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[i++];
    } else if (line[i] == '"') {
      inside = !inside;
    } else if (line[i] == ',' && !inside) {
      fields.emplace_back();
    } else if (line[i] != '\r') {
      fields.back() += line[i];
    }
  }
  if (inside) {
    throw InputError("a quote is not closed");
  }
  return fields;
}

std::string row_key(const ResultRow& row) { return key_of(csv_fields(csv_line(row))); }

std::string utc_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

ResultFile::ResultFile(std::string path) : path_(std::move(path)) {
  file_.reset(std::fopen(path_.c_str(), "a"));
  if (file_ == nullptr) {
    throw InputError(std::string("cannot be written: ") + std::strerror(errno), "", path_);
  }
  if (flock(fileno(file_.get()), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw InputError("is being written by another run; name another file with --out, or wait for its end", "",
                     path_);
  }
  const State state = read_existing();
  if (state == State::unfinished) {
    std::fprintf(file_.get(), "\n");
  } else if (state == State::empty) {
    std::fprintf(file_.get(), "%s\n", csv_header().c_str());
  }
  std::fflush(file_.get());
}

ResultFile::State ResultFile::read_existing() {
  std::ifstream in(path_);
  std::string line;
  if (!std::getline(in, line)) {
    return State::empty;
  }
  if (csv_fields(line) != csv_fields(csv_header())) {
    throw InputError("is not a file of measurements: its header is not \"" + csv_header() + "\"", "line 1",
                     path_);
  }
  bool unfinished = in.eof();
  for (int number = 2; std::getline(in, line); ++number) {
    unfinished = in.eof();
    if (unfinished || line.empty()) {
      continue;
    }
    const std::vector<std::string> fields = fields_of(line, number, path_);
    if (fields.size() == std::size(kColumns)) {
      keys_.insert(key_of(fields));
      ++rows_;
    }
  }
  return unfinished ? State::unfinished : State::whole;
}

void ResultFile::append(const ResultRow& row) {
  if (std::fprintf(file_.get(), "%s\n", csv_line(row).c_str()) < 0 || std::fflush(file_.get()) != 0) {
    throw std::runtime_error(path_ + " cannot be written: " + std::strerror(errno));
  }
  keys_.insert(row_key(row));
  ++rows_;
}

}  // namespace paceline::measure
