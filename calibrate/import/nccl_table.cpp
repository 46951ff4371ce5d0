// A table as a whole: which collective it is of, over how many ranks.
#include <algorithm>
#include <cmath>
#include <optional>

#include "calibrate/import/nccl_row.h"
#include "core/text.h"
#include "scenarios/collective_table.h"

namespace paceline {
namespace {

Range both(const Range& a, const Range& b) { return {std::max(a.low, b.low), std::min(a.high, b.high)}; }
bool is_empty(const Range& range) { return range.low > range.high; }

// Of busbw / algbw, which is the same in all rows: the range that most of them agree on, begun at any of
// some.
Range common_factor(std::span<const NcclRow> rows) {
  constexpr std::size_t kBeginnings = 16;
  Range best;
  std::size_t most = 0;
  for (std::size_t i = 0; i < std::min(kBeginnings, rows.size()); ++i) {
    Range common = rows[i * rows.size() / std::min(kBeginnings, rows.size())].factor;
    std::size_t agreeing = 0;
    for (const NcclRow& row : rows) {
      if (const Range closer = both(common, row.factor); !is_empty(closer)) {
        common = closer;
        ++agreeing;
      }
    }
    if (agreeing > most) {
      most = agreeing;
      best = common;
    }
  }
  return best;
}

bool holds(const Range& range, double factor) {
  constexpr double kTiny = 1e-9;
  return factor >= range.low - kTiny && factor <= range.high + kTiny;
}

bool depends_on_ranks(CollectiveKind kind) { return bus_factor(kind, 2) != bus_factor(kind, 4); }

struct Concluded {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::string from;  // empty: it is stated
};

CollectiveKind kind_from_columns(const NcclTable& table, const Range& factor) {
  const NcclRow& row = table.rows.front();
  const bool rooted = row.has_root && row.root >= 0;
  if (row.redop.empty() || row.redop == "none") {
    return rooted               ? CollectiveKind::broadcast
           : holds(factor, 1.0) ? CollectiveKind::send_recv
                                : CollectiveKind::all_gather;
  }
  return rooted            ? CollectiveKind::reduce
         : factor.high < 1 ? CollectiveKind::reduce_scatter
                           : CollectiveKind::all_reduce;
}

// Whether a table with such factors can be of that kind.
bool fits(const Range& factor, CollectiveKind kind) {
  if (!depends_on_ranks(kind)) {
    return holds(factor, 1.0);
  }
  return factor.low <= 2 * bus_factor(kind, 2);
}

std::optional<Concluded> kind_of(const NcclTable& table, const std::string& file, const Range& factor) {
  if (!table.program.empty()) {
    const auto kind = collective_called(table.program);
    return kind ? std::optional<Concluded>({*kind, ""}) : std::nullopt;
  }
  if (const auto kind = collective_within(file); kind && fits(factor, *kind)) {
    return Concluded{*kind, "the file's name"};
  }
  return Concluded{kind_from_columns(table, factor), "its columns"};
}

int ranks_of(const NcclTable& table, CollectiveKind kind, const Range& factor, Findings& findings) {
  const auto stated = static_cast<int>(table.hosts.ranks);
  const int implied = ranks_from(factor, kind);
  if (stated == 0 || !depends_on_ranks(kind) ||
      holds(factor, bus_factor(kind, static_cast<std::size_t>(stated)))) {
    return stated > 0 ? stated : implied;
  }
  findings.remark("tables that contradict their devices", table.rows.front().line,
                  "the run lists " + std::to_string(stated) + " ranks, busbw / algbw says " +
                      (implied > 0 ? std::to_string(implied) + ": taken as that many"
                                   : "another number: taken as not stated"));
  return implied;
}

// What makes the times those of something else than one collective that the host launches, on GPUs that are alike.
struct Condition {
  std::string stated, tables, remark;
};

std::vector<Condition> conditions_of(const NcclTable& table) {
  std::vector<Condition> all;
  if (table.grouped > 1) {
    const std::string number = std::to_string(table.grouped);
    all.push_back(
        {"agg iters: " + number, "tables of grouped operations",
         " (-m): a time of this table is its share of " + number +
             " operations that are launched at once; a prediction is of one that is launched alone"});
  }
  if (table.graphs > 0) {
    all.push_back({"graph: " + std::to_string(table.graphs), "tables of CUDA graphs",
                   " (-G): the times of this table are those in a CUDA graph, without the host's launches; a "
                   "prediction is of one collective that the host launches"});
  }
  if (table.blocking) {
    all.push_back(
        {"blocking", "tables of blocking operations",
         " (-z): the times of this table are those of a host that waits for each operation; a prediction is "
         "of operations in a row"});
  }
  if (!table.hosts.gpu_kinds.empty()) {
    all.push_back({"GPUs of several kinds (" + table.hosts.gpu_kinds + ")", "tables of unlike GPUs",
                   ": a prediction is of GPUs that are all alike"});
  }
  if (table.hosts.groups > 1) {
    all.push_back({std::to_string(table.hosts.groups) + " groups of ranks at once",
                   "tables of several groups",
                   " (NCCL_TESTS_SPLIT), " +
                       (table.hosts.groups_alike ? "ranks of each: " + std::to_string(table.hosts.ranks)
                                                 : "not all alike: taken as not stated") +
                       "; a prediction has one group alone"});
  }
  return all;
}

}  // namespace

int ranks_from(const Range& range, CollectiveKind kind) {
  if (!depends_on_ranks(kind)) {
    return 0;
  }
  // The factor is most * (n - 1) / n.
  const double most = 2 * bus_factor(kind, 2);
  constexpr double kMost = 1e6, kTiny = 1e-9;
  if (range.high >= most) {
    return 0;
  }
  const double least = std::ceil(most / (most - range.low) - kTiny);
  const double largest = std::floor(most / (most - range.high) + kTiny);
  return least == largest && least >= 1 && least <= kMost ? static_cast<int>(least) : 0;
}

void finish_table(const NcclTable& table, const std::string& name, Findings& findings) {
  if (table.rows.empty()) {
    return;
  }
  const std::int64_t line = table.rows.front().line;
  if (table.layout.cpu_time) {
    findings.remark("tables of the host's times", line,
                    "a table of the host's times (-C), which are not those of the collective: left out");
    return;
  }
  const std::string file = name.substr(0, name.find('#'));
  const Range factor = common_factor(table.rows);
  const std::optional<Concluded> concluded = kind_of(table, file, factor);
  if (!concluded) {
    findings.remark("tables of unknown collectives", line,
                    "a table of " + table.program + ", of which Paceline has no plan: left out");
    return;
  }
  if (!concluded->from.empty()) {
    findings.remark("tables without a name", line,
                    "the collective is not stated: taken as " + std::string(name_of(concluded->kind)) +
                        " from " + concluded->from);
  }
  const auto wrong = std::ranges::count_if(table.rows, &NcclRow::wrong_values);
  if (wrong > 0) {
    findings.remark(
        "tables with wrong values", line,
        std::to_string(wrong) + " rows of this table moved wrong values (#wrong); their times are kept");
  }
  CollectiveMeasurement one;
  one.kind = concluded->kind;
  one.ranks = ranks_of(table, one.kind, factor, findings);
  const bool all_listed = one.ranks > 0 && static_cast<std::size_t>(one.ranks) == table.hosts.ranks;
  one.nodes = all_listed ? static_cast<int>(table.hosts.hosts) : 0;
  one.fullest = all_listed ? table.hosts.fullest : 0;
  one.gpu = table.hosts.gpu;
  one.nccl = table.nccl;
  one.algorithm = table.environment.algorithm;
  one.protocol = table.environment.protocol;
  one.channels = table.environment.channels;
  one.nvls = table.environment.nvls;
  one.socket_threads = table.environment.socket_threads;
  one.sockets_per_thread = table.environment.sockets_per_thread;
  std::vector<std::string> unmodelled;
  for (const auto& [setting, value] : table.environment.unmodelled) {
    if (value != "0") {
      unmodelled.push_back(setting + (value.empty() ? "" : '=' + value));
    }
  }
  for (const Condition& each : conditions_of(table)) {
    findings.remark(each.tables, line, each.stated + each.remark);
    unmodelled.push_back(each.stated);
  }
  one.unmodelled = joined(unmodelled, ", ");
  one.gpus_per_process = table.gpus_per_process;
  one.table = name;
  for (const NcclRow& row : table.rows) {
    if (is_empty(both(factor, row.factor))) {
      findings.remark("garbled rows", row.line,
                      "a garbled row (busbw / algbw is not that of the table's other rows): left out");
      continue;
    }
    one.bytes = Bytes(row.size);
    one.time = row.time;
    one.wrong_values = row.wrong_values;
    one.origin = findings.at(row.line);
    findings.data().collectives.push_back(one);
  }
}

}  // namespace paceline
