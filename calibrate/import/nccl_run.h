// What nccl-tests' output says about a run outside of its rows, as text (every version) or JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "sim/collective/plan.h"

namespace paceline {

// Of NCCL's environment variables, those that change a collective's time by choice.
struct NcclEnvironment {
  std::string algorithm, protocol, nvls;
  int channels = 0, socket_threads = 0, sockets_per_thread = 0;  // 0: not stated
  bool sockets_in_use = false;  // what NCCL says of these: whatever it was told
  // By name, such as NCCL_P2P_DISABLE, what changes a time, but no prediction; "0": not so.
  std::map<std::string, std::string> unmodelled;

  // Reads what a line sets: NCCL's `NAME set by environment to VALUE`, and `NAME=VALUE` as a shell or env has it; true:
  // there was one. Comments and NCCL's warnings set nothing.
  bool read(std::string_view line);
  // What a line unsets, and nothing that it sets: that is for its own command.
  void take_back(std::string_view line);
  // What `this` leaves open, from `other`.
  void complete(const NcclEnvironment& other);
  bool set(std::string_view name, std::string_view value);  // empty: unset
  // NCCL's "NET/Socket: Using 4 threads and 1 sockets per thread"; true: it was one.
  bool read_sockets(std::string_view line);
  bool operator==(const NcclEnvironment&) const = default;
};

// The columns of a table after count and type.
struct NcclLayout {
  bool redop = true, root = true;
  bool milliseconds = false;  // 1.0
  bool cpu_time = false;      // -C: not the time that a collective takes
  bool counts_wrong = true;   // the last column of a half counts wrong values; before 2.13 it is an error
  int halves = 2;
  int columns_per_half = 4;
};

struct NcclRun {
  std::string program;  // "all_reduce", as the program is called; empty: not stated
  std::string nccl;
  std::map<int, int> ranks;                                 // and which group each is in: NCCL_TESTS_SPLIT
  std::map<std::string, std::set<int>, std::less<>> hosts;  // their ranks
  std::set<std::string, std::less<>> gpus;                  // by name
  int gpus_per_process = 0;                                 // 0: not stated
  bool blocking = false;                                    // the host waits for each operation (-z)
  std::int64_t grouped = 1;                                 // operations of one launch (-m)
  std::int64_t graphs = 0;                                  // launches of a CUDA graph (-G)
};

// A GPU's name as NCCL's tests print it.
void add_gpu(std::string_view name, NcclRun&);

enum class NcclLine : std::uint8_t { other, run_starts, run, table_starts };

// What a line that begins with '#' (`text` is what follows it) says; fills `run` and `layout`. `run_starts`:
// the line is the first of a run; `run` is then that run.
NcclLine read_nccl_header(std::string_view text, NcclRun& run, NcclLayout& layout);

// "all_reduce" from "/opt/nccl-tests/build/all_reduce_perf -b 8"; empty where there is no such program.
std::string nccl_program_in(std::string_view line);

// "all_gather" from "Collective: all_gather" or "AllGather, 2 nodes", what a person or a script wrote into a header;
// empty where no word, or more than one, is such a name. "reduce" alone may be any word.
std::string nccl_collective_in(std::string_view comment);

// What a run says of its hosts and GPUs, as a measurement has it. Each group of ranks runs the collective on
// its own: ranks and hosts are those of one group, or not stated where groups differ.
struct NcclHosts {
  std::size_t ranks = 0, hosts = 0;
  int fullest = 0;
  std::string gpu;        // empty: not stated, or several
  std::string gpu_kinds;  // several, with commas
  std::size_t groups = 0;
  bool groups_alike = true;
};
NcclHosts hosts_of(const NcclRun&);

// The collective of a program or of a column's text: "all_reduce", "AllReduce", "all-to-all"; nothing for
// what Paceline knows no plan of (gather, scatter, hypercube).
std::optional<CollectiveKind> collective_called(std::string_view name);
// The one whose name stands somewhere in a text, such as a file's name.
std::optional<CollectiveKind> collective_within(std::string_view text);

}  // namespace paceline
