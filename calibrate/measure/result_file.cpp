#include "calibrate/measure/result_file.h"

#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
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

std::string number(double value) { return formatted("%.6g", value); }

// Whole however large: FLOP counts above 10^6 must not lose digits.
std::string count(double value) { return formatted("%.0f", value); }

std::vector<std::string> texts(const ResultRow& row) {
  const auto whole = [](auto value) { return std::to_string(value); };
  return {row.kind,
          row.name,
          row.precision,
          whole(row.ranks),
          whole(row.nodes),
          whole(row.gpus_per_node),
          whole(row.size_bytes),
          whole(row.m),
          whole(row.n),
          whole(row.k),
          count(row.work_flop),
          whole(row.traffic_bytes),
          number(row.time_us),
          number(row.min_us),
          number(row.max_us),
          whole(row.repeats),
          row.condition,
          row.backend,
          row.library,
          row.device,
          row.host,
          row.driver,
          whole(row.clock_mhz),
          row.date};
}

constexpr std::size_t kColumns = 24;

bool identifies(std::size_t column) {
  constexpr std::size_t kTime = 12, kRepeats = 15, kClock = 22, kDate = 23;
  return !(column >= kTime && column <= kRepeats) && column != kClock && column != kDate;
}

std::string key_of(const std::vector<std::string>& fields) {
  std::string key;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (identifies(i)) {
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

std::string csv_line(const ResultRow& row) {
  std::string line;
  for (const std::string& text : texts(row)) {
    line += quoted(text) + ',';
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
    std::fprintf(file_.get(), "%s\n", kHeader);
  }
  std::fflush(file_.get());
}

ResultFile::State ResultFile::read_existing() {
  std::ifstream in(path_);
  std::string line;
  if (!std::getline(in, line)) {
    return State::empty;
  }
  if (csv_fields(line) != csv_fields(kHeader)) {
    throw InputError("is not a file of measurements: its header is not \"" + std::string(kHeader) + "\"",
                     "line 1", path_);
  }
  bool unfinished = in.eof();
  for (int number = 2; std::getline(in, line); ++number) {
    unfinished = in.eof();
    if (unfinished || line.empty()) {
      continue;
    }
    const std::vector<std::string> fields = fields_of(line, number, path_);
    if (fields.size() == kColumns) {
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
