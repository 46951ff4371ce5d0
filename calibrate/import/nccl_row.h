// A row of nccl-tests' table, and what a whole table of them says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/findings.h"
#include "calibrate/import/nccl_run.h"

namespace paceline {

// A printed number lies within half of its last digit.
struct Printed {
  double value = 0, half_digit = 0;
};
Printed printed(std::string_view number);
struct NcclHalf {
  Seconds time;
  double time_half_digit = 0;                  // s
  Printed algorithm_bandwidth, bus_bandwidth;  // GB/s
};

// What busbw / algbw may be, as far as the printed digits tell.
struct Range {
  double low = 0, high = 2;
};

struct NcclRow {
  std::int64_t size = 0, count = 0;
  std::string redop;  // "none" where it reduces nothing; empty: no such column
  bool has_root = false;
  std::int64_t root = -1;
  Seconds time;
  Range factor;
  bool wrong_values = false;
  std::int64_t line = 0;
  std::uint64_t text = 0;  // a hash of size and columns: copies are alike
};

enum class RowIs : std::uint8_t { no_row, good, part, cut_off, garbled, no_number, empty };

// Looks for a row in a line, past any prefix. `start` and `stop`: where the row was found. `part`: one half
// was cut off and is left out; `no_number`: a cell is "nan" or "98,55", and no half stands before it; `empty`: of
// size 0, or with no half printed.
RowIs find_nccl_row(std::string_view line, const NcclLayout* layout, NcclRow& row, std::size_t& start,
                    std::size_t& stop);

// Puts a half's numbers into the row; false: they contradict each other or the row's size by more than they
// were rounded.
bool add_half(const NcclHalf&, NcclRow&);

// Of its run what concerns the rows: how many ranks and hosts are listed, not which, as a log may hold very many
// tables of very many ranks.
struct NcclTable {
  std::string program, nccl;
  NcclEnvironment environment;
  NcclHosts hosts;
  int gpus_per_process = 0;
  std::int64_t grouped = 1, graphs = 0;  // as NcclRun has them, and the next one
  bool blocking = false;
  NcclLayout layout;
  std::vector<NcclRow> rows;
};

// The only number of ranks whose busbw / algbw lies in the range; 0 where there is none, or more than one.
int ranks_from(const Range&, CollectiveKind);

// The table's rows as measurements, named `name`; remarks where kind or ranks had to be concluded.
void finish_table(const NcclTable&, const std::string& name, Findings&);

}  // namespace paceline
