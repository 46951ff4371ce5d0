// nccl-tests' output as text: lines of several launchers' streams, several runs and tables in each.
#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "calibrate/import/nccl_row.h"
#include "calibrate/import/readers.h"
#include "core/error.h"
#include "core/text.h"

namespace paceline {
namespace {

constexpr std::size_t kMostStreams = 1024;
constexpr std::string_view kNothingKnown =
    "no line of nccl-tests, no CSV and no JSON; write what another program measured as CSV: a line "
    "\"collective,size_bytes,time_us,ranks,nodes\", then one for each size, "
    "\"all_reduce,1048576,812.4,16,2\"";
constexpr std::uint64_t kMostSinceALine = std::uint64_t{8} << 30;

// Without the escape sequences that colour a terminal.
std::string without_colours(std::string_view line) {
  std::string plain;
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] != '\x1b') {
      plain += line[at++];
      continue;
    }
    ++at;
    if (at < line.size() && line[at] == '[') {
      ++at;
      while (at < line.size() && (line[at] < '@' || line[at] > '~')) {
        ++at;
      }
      ++at;
    }
  }
  return plain;
}

bool is_time_stamp(std::string_view word) {
  const auto digits = std::ranges::count_if(word, is_digit);
  return digits >= 6 && word.find_first_not_of("0123456789:-.,TZ+[]/") == std::string_view::npos;
}

// What a launcher puts before each line of one process, without what changes from line to line.
std::string stream_of(std::string_view prefix) {
  std::string stream;
  constexpr std::size_t kLongest = 200;
  prefix = prefix.substr(0, std::min(prefix.size(), kLongest));
  while (!(prefix = trimmed(prefix)).empty()) {
    const std::string_view word = prefix.substr(0, std::min(prefix.find_first_of(" \t"), prefix.size()));
    if (!is_time_stamp(word)) {
      stream += word;
      stream += ' ';
    }
    prefix.remove_prefix(word.size());
  }
  return stream;
}

// The lines of one process.
struct Stream {
  NcclRun run;
  std::optional<NcclHosts> hosts;  // of the run, as long as it says no more
  NcclLayout layout;
  bool has_layout = false;
  NcclTable* table = nullptr;  // the one that rows are added to
};

class TextReader {
 public:
  TextReader(InputFile& file, Findings& findings) : file_(file), lines_(file), findings_(findings) {}

  void read() {
    std::string_view line;
    while (lines_.next(line)) {
      if (lines_.too_long()) {
        findings_.remark("lines that are too long", lines_.number(),
                         "a line of more than " + std::to_string(kLongestLine >> 10) + " KiB: left out");
      } else if (!read_line(line)) {
        break;
      }
      if (lines_.bytes() - last_known_ > (known_ ? kMostSinceALine : kMostWithoutARow)) {
        give_up();
        break;
      }
    }
    finish();
  }

 private:
  void give_up() {
    if (!known_) {
      throw InputError(
          "the first " + std::to_string(kMostWithoutARow >> 20) + " MiB hold " + std::string(kNothingKnown),
          {}, file_.path());
    }
    findings_.remark("ends", lines_.number(), "nothing known for gigabytes: what follows was not read");
  }

  void recognised() {
    known_ = true;
    last_known_ = lines_.bytes();
  }

  // False: enough was read.
  bool read_line(std::string_view line) {
    if (std::memchr(line.data(), '\x1b', line.size()) != nullptr) {
      plain_ = without_colours(line);
      line = plain_;
    }
    if (!read_rows(line)) {
      return false;
    }
    const std::size_t hash = line.find('#');
    if (hash != std::string_view::npos) {
      const std::string_view text = line.substr(hash + 1);
      if (read_header(line.substr(0, hash), text)) {
        return true;
      }
      if (const std::string name = nccl_collective_in(text); !name.empty()) {
        program_ = name;
      }
    }
    if (line.find("NCCL") != std::string_view::npos || line.find("_perf") != std::string_view::npos) {
      read_surroundings(line);
    }
    return true;
  }

  bool read_rows(std::string_view line) {
    std::size_t start = 0, stop = 0;
    while (stop < line.size()) {
      // The layout is that of the row's stream, which its prefix names: found first without one.
      NcclRow row;
      const std::size_t from = stop;
      if (find_nccl_row(line, nullptr, row, start, stop) == RowIs::no_row) {
        break;
      }
      recognised();
      Stream& stream = stream_of_row(line.substr(from, start - from));
      stop = from;
      const NcclLayout* const layout = stream.has_layout ? &stream.layout : nullptr;
      const RowIs found = find_nccl_row(line, layout, row, start, stop);
      row.line = lines_.number();
      if (!take(found, row, stream)) {
        return false;
      }
    }
    return true;
  }

  bool take(RowIs found, const NcclRow& row, Stream& stream) {
    switch (found) {
      case RowIs::no_row:
        return true;
      case RowIs::empty:
        if (row.size == 0) {
          findings_.remark("rows of 0 bytes", row.line, "a row of 0 bytes: left out");
        }
        return true;
      case RowIs::garbled:
        findings_.remark("garbled rows", row.line,
                         "a garbled row (its columns don't fit each other): left out");
        return true;
      case RowIs::no_number:
        findings_.remark("rows with a cell that is no number", row.line,
                         "a cell of the row is no number: left out");
        return true;
      case RowIs::cut_off:
        findings_.remark("rows that break off", row.line, "the row breaks off: left out");
        return true;
      case RowIs::part:
        findings_.remark("rows that break off", row.line, "the row breaks off: its second half is left out");
        break;
      case RowIs::good:
        break;
    }
    NcclTable& table = table_of(stream);
    // The same numbers twice in a table: printed by a second rank.
    for (std::size_t i = table.rows.size(), looked_at = 0; i > 0 && looked_at < 64; --i, ++looked_at) {
      if (table.rows[i - 1].text == row.text) {
        findings_.remark("rows printed twice", row.line,
                         "the row repeats line " + std::to_string(table.rows[i - 1].line) + ": kept once");
        return true;
      }
    }
    if (!findings_.row()) {
      return false;
    }
    table.rows.push_back(row);
    surroundings_used_ = true;
    return true;
  }

  NcclTable& table_of(Stream& stream) {
    if (stream.table == nullptr) {
      stream.table = &tables_.emplace_back();
      NcclTable& table = *stream.table;
      table.layout = stream.layout;
      table.program = stream.run.program.empty() ? program_ : stream.run.program;
      table.nccl = stream.run.nccl.empty() ? version_ : stream.run.nccl;
      table.environment = set_in_run_;
      table.environment.complete(on_command_);
      table.environment.complete(exported_);
      if (!stream.hosts) {
        stream.hosts = hosts_of(stream.run);
      }
      table.hosts = *stream.hosts;
      table.gpus_per_process = stream.run.gpus_per_process;
      table.grouped = stream.run.grouped;
      table.graphs = stream.run.graphs;
      table.blocking = stream.run.blocking;
    }
    return *stream.table;
  }

  Stream& stream_at(std::string_view prefix) {
    std::string name = stream_of(prefix);
    const auto found = streams_.find(name);
    if (found != streams_.end()) {
      return found->second;
    }
    return streams_.size() < kMostStreams ? streams_[std::move(name)] : streams_[""];
  }

  // What no header's prefix stands before (warnings glued to a row) belongs to the table last begun.
  Stream& stream_of_row(std::string_view prefix) {
    const auto found = streams_.find(stream_of(prefix));
    if (found != streams_.end() && found->second.has_layout) {
      return found->second;
    }
    return last_begun_ != nullptr ? *last_begun_ : stream_at({});
  }

  bool read_header(std::string_view prefix, std::string_view text) {
    NcclRun run;
    NcclLayout layout;
    // Which kind of line it is, before a stream is made for it.
    if (read_nccl_header(text, run, layout) == NcclLine::other) {
      return false;
    }
    recognised();
    Stream& stream = stream_at(prefix);
    const NcclLine kind = read_nccl_header(text, stream.run, stream.layout);
    if (kind != NcclLine::table_starts) {
      stream.hosts.reset();
    }
    switch (kind) {
      case NcclLine::run_starts:
        stream.table = nullptr;
        stream.has_layout = false;
        if (surroundings_used_) {
          set_in_run_ = {};
          version_.clear();
          surroundings_used_ = false;
        }
        break;
      case NcclLine::table_starts:
        stream.has_layout = true;
        stream.table = nullptr;
        last_begun_ = &stream;
        break;
      default:
        break;
    }
    return true;
  }

  // Commands, variables that are printed, and what NCCL itself says.
  void read_surroundings(std::string_view line) {
    if (const std::size_t at = line.find("CCL version "); at != std::string_view::npos) {
      constexpr std::size_t kSkipped = 12;
      std::string_view rest = line.substr(at + kSkipped);
      rest.remove_prefix(std::min(rest.find_first_not_of(" :"), rest.size()));  // "RCCL version : 2.22.3"
      const std::string version = nccl_version_in(rest.substr(0, std::min(rest.find(' '), rest.size())));
      if (!version.empty()) {
        recognised();
        const bool other_library =
            at > 0 && line[at - 1] == 'R' && set_in_run_.unmodelled.try_emplace("RCCL").second;
        if (std::exchange(version_, version) != version || other_library) {
          complete_open_tables();
        }
      }
      return;
    }
    if (line.find("Using network Socket") != std::string_view::npos) {
      if (set_in_run_.unmodelled.try_emplace("\"Using network Socket\"").second) {
        complete_open_tables();
      }
      recognised();
      return;
    }
    const bool of_sockets = line.find("NET/Socket: Using ") != std::string_view::npos;
    if (of_sockets || line.find(" set by environment to ") != std::string_view::npos) {
      const NcclEnvironment before = set_in_run_;
      if ((of_sockets ? set_in_run_.read_sockets(line) : set_in_run_.read(line)) && set_in_run_ != before) {
        complete_open_tables();
      }
      recognised();
      return;
    }
    if (const std::string program = nccl_program_in(line); !program.empty()) {
      program_ = program;
      exported_.take_back(line);
      on_command_ = {};
      on_command_.read(line);
      recognised();
      return;
    }
    if (exported_.read(line) || line.find("NCCL INFO") != std::string_view::npos ||
        line.find("NCCL WARN") != std::string_view::npos) {
      recognised();
    }
  }

  // NCCL's lines may come after the first rows, as they are written without a buffer.
  void complete_open_tables() {
    for (auto& [name, stream] : streams_) {
      if (stream.table != nullptr && stream.table->nccl.empty()) {
        stream.table->nccl = version_;
      }
      if (stream.table != nullptr) {
        stream.table->environment.complete(set_in_run_);
      }
    }
  }

  void finish() {
    leave_out_copies();
    int number = 0;
    for (const NcclTable& table : tables_) {
      if (!table.rows.empty()) {
        ++number;
        finish_table(table, number == 1 ? file_.name() : file_.name() + '#' + std::to_string(number),
                     findings_);
      }
    }
    if (!known_) {
      throw InputError("holds " + std::string(kNothingKnown), {}, file_.path());
    }
  }

  // A table most rows of which an earlier table has, digit for digit, is that table printed by another rank.
  void leave_out_copies() {
    std::unordered_map<std::uint64_t, std::int64_t> first_line;
    for (NcclTable& table : tables_) {
      const auto copied = std::ranges::count_if(
          table.rows, [&](const NcclRow& row) { return first_line.contains(row.text); });
      if (copied > 0 && static_cast<std::size_t>(copied) * 2 >= table.rows.size()) {
        findings_.remark("tables printed twice", table.rows.front().line,
                         std::to_string(copied) + " rows of this table repeat those from line " +
                             std::to_string(first_row_like(table, first_line)) + " on: kept once");
        std::erase_if(table.rows, [&](const NcclRow& row) { return first_line.contains(row.text); });
      }
      for (const NcclRow& row : table.rows) {
        first_line.emplace(row.text, row.line);
      }
    }
  }

  static std::int64_t first_row_like(const NcclTable& table,
                                     const std::unordered_map<std::uint64_t, std::int64_t>& first_line) {
    for (const NcclRow& row : table.rows) {
      if (const auto found = first_line.find(row.text); found != first_line.end()) {
        return found->second;
      }
    }
    return 0;
  }

  InputFile& file_;
  LineReader lines_;
  Findings& findings_;
  std::map<std::string, Stream, std::less<>> streams_;
  Stream* last_begun_ = nullptr;
  std::deque<NcclTable> tables_;
  std::string program_, version_, plain_;
  NcclEnvironment exported_, on_command_, set_in_run_;
  bool surroundings_used_ = false;  // by a row, since a run started
  bool known_ = false;
  std::uint64_t last_known_ = 0;
};

}  // namespace

void read_nccl_text(InputFile& file, Findings& findings) { TextReader(file, findings).read(); }

}  // namespace paceline
