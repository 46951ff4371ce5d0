#include "calibrate/fit/collective_points.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/median.h"
#include "core/minor_version.h"
#include "core/text.h"
#include "kernels/gpu.h"
#include "scenarios/limits.h"
#include "sim/collective/nccl_words.h"
#include "sim/report/collective_cost.h"

namespace paceline {
namespace {

// A larger message can't be faster by so much, of ln(time), unless one of the two was disturbed.
constexpr double kDisturbed = 0.262364264467;  // ln(1.3)

constexpr Bytes kMostBytesOfRow(std::int64_t{1} << 40);

// What the row says, then the request; else full nodes.
struct Layout {
  int nodes = 0, ranks = 0;
};
Layout layout_of(const CollectiveMeasurement& row, const FitRequest& request) {
  const int gpus = request.cluster.node.gpus;
  int nodes = row.nodes > 0 ? row.nodes : request.nodes;
  const int each = request.gpus_per_node;
  if (row.ranks == 0 && (request.nodes > 0 || each > 0)) {
    nodes = std::max(nodes, 1);
    return {nodes, static_cast<int>(
                       std::min<std::int64_t>(std::int64_t{nodes} * (each > 0 ? each : gpus), INT32_MAX))};
  }
  if (nodes == 0) {
    nodes = each > 0 && row.ranks % each == 0 ? row.ranks / each : (row.ranks + gpus - 1) / gpus;
  }
  return {std::max(nodes, 1), row.ranks};
}

// MAX_THREADS and MAX_SOCKETS of src/transport/net_socket.cc: NCCL takes no more, whatever it is told.
void take_sockets(const CollectiveMeasurement& row, CollectiveSpec& spec) {
  constexpr int kMostThreads = 16, kMostSockets = 64;
  spec.socket_threads =
      std::min(row.socket_threads > 0 ? row.socket_threads : spec.socket_threads, kMostThreads);
  spec.sockets_per_thread =
      std::min(row.sockets_per_thread > 0 ? row.sockets_per_thread : spec.sockets_per_thread,
               kMostSockets / std::max(spec.socket_threads, 1));
}

// "" or why the row says nothing about this cluster.
std::string place_row(const CollectiveMeasurement& row, const FitRequest& request, MeasuredPlace& place) {
  if (row.bytes.value <= 0 || !(row.time.value > 0)) {
    return "no size or no time";
  }
  if (row.bytes > kMostBytesOfRow) {
    return "larger than 1 TiB";
  }
  constexpr double kShortest = 1e-8, kLongest = 1e4;  // s
  if (row.time.value < kShortest || row.time.value > kLongest) {
    return "a time that no collective takes";
  }
  if (!row.nccl.empty() && !row.nccl.starts_with("2.")) {
    return "NCCL " + row.nccl + ", of which no tuner is known: 2.12 to 2.30 are";
  }
  const auto [nodes, ranks] = layout_of(row, request);
  if (ranks < 2) {
    return ranks == 0 ? "its number of GPUs is not stated; --nodes says it" : "one GPU alone";
  }
  if (ranks > kMostRanks) {
    return std::to_string(ranks) + " GPUs, more than a cluster may have";
  }
  const int gpus = request.cluster.node.gpus;
  if (row.fullest > 0) {
    return std::to_string(ranks) + " GPUs on " + std::to_string(nodes) + " nodes, of which one has " +
           std::to_string(row.fullest) + ": nodes with unequal numbers of GPUs aren't simulated";
  }
  if (ranks % nodes != 0 || ranks / nodes > gpus) {
    return std::to_string(ranks) + " GPUs on " + std::to_string(nodes) + " nodes, but a node of " +
           request.cluster_name + " has " + std::to_string(gpus);
  }
  if (row.nodes == 0 && request.nodes > 0 && request.gpus_per_node > 0 &&
      ranks != request.nodes * request.gpus_per_node) {
    return std::to_string(ranks) + " GPUs, where " + std::to_string(request.nodes) + " nodes of " +
           std::to_string(request.gpus_per_node) + " are said to have taken part";
  }
  place.nodes_stated = row.nodes > 0 || request.nodes > 0 || request.gpus_per_node > 0;
  place.nccl_stated = !row.nccl.empty() || request.nccl_stated;
  place.kind = row.kind;
  place.cluster = request.cluster;
  place.cluster.nodes = std::max(nodes, 1);
  place.cluster.job_nodes = 0;
  place.cluster.gpus_per_node = ranks / nodes;
  place.spec = request.collective;
  if (!row.nccl.empty()) {
    place.spec.nccl = nearest_nccl(row.nccl);
  }
  place.spec.algorithm = row.algorithm.empty() ? place.spec.algorithm : row.algorithm;
  place.spec.protocol = row.protocol.empty() ? place.spec.protocol : row.protocol;
  place.spec.max_channels = row.channels > 0 ? row.channels : place.spec.max_channels;
  place.spec.nvls = place.spec.nvls && row.nvls != "off";
  take_sockets(row, place.spec);
  place.spec.sizes.buffer = row.buffer.value > 0 ? row.buffer : place.spec.sizes.buffer;
  if (place.spec.max_channels > 0 && place.spec.min_channels > place.spec.max_channels) {
    return "NCCL_MAX_NCHANNELS=" + std::to_string(place.spec.max_channels) + ", and at least " +
           std::to_string(place.spec.min_channels) + " channels are said";
  }
  if (row.gpus_per_process > 0) {
    place.spec.gpus_per_process = std::min(row.gpus_per_process, ranks / nodes);
  }
  return {};
}

// "" or why the simulator can't run it; then with its channels.
std::string why_impossible(MeasuredPlace& place, Bytes bytes) {
  try {
    const PlaceModel model(place, std::span(&bytes, 1), AlgorithmChoice::tuner);
    keep_channels(place, model);
    return {};
  } catch (const InputError& error) {
    return error.message();
  }
}

using PlaceKey = std::tuple<CollectiveKind, int, int, std::string, std::string, std::string, int, bool, int,
                            std::int64_t, int, int>;
PlaceKey key_of(const MeasuredPlace& place) {
  const CollectiveSpec& s = place.spec;
  return {place.kind,         place.nodes(),        place.gpus_per_node(), s.nccl,
          s.algorithm,        s.protocol,           s.max_channels,        s.nvls,
          s.gpus_per_process, s.sizes.buffer.value, s.socket_threads,      s.sockets_per_thread};
}

// The rows of one table at one place, by size.
class Table {
 public:
  Table(const std::vector<std::size_t>& rows, const MeasuredData& data) {
    for (const std::size_t r : rows) {
      log_bytes_.push_back(std::log(static_cast<double>(data.collectives[r].bytes.value)));
      log_time_.push_back(std::log(data.collectives[r].time.value));
    }
  }
  // Slower than the next size allows, and than the last.
  bool above(std::size_t i) const {
    return i + 1 < size() && falls(i, i + 1) && (i == 0 || log_time_[i] > log_time_[i - 1] + kDisturbed);
  }
  // Faster than the last size allows, and than the next. Row 1 may only seem so: row 0 warms up.
  bool below(std::size_t i) const {
    return i > 1 && i < size() && falls(i - 1, i) &&
           (i + 1 == size() || log_time_[i] + kDisturbed < log_time_[i + 1]);
  }
  // Of two rows that blame each other: whether the first is farther from the line of those around them.
  bool first_is_farther(std::size_t i) const {
    const bool last = i + 2 == size();
    const std::size_t a = last ? i - 2 : i - 1, b = last ? i - 1 : i + 2;
    const auto miss = [&](std::size_t at) {
      const double wide = log_bytes_[b] - log_bytes_[a];
      const double share = wide > 0 ? (log_bytes_[at] - log_bytes_[a]) / wide : 0.5;
      return std::abs(log_time_[at] - log_time_[a] - share * (log_time_[b] - log_time_[a]));
    };
    return miss(i) > miss(i + 1);
  }
  std::size_t size() const { return log_time_.size(); }

 private:
  bool falls(std::size_t i, std::size_t next) const { return log_time_[i] > log_time_[next] + kDisturbed; }

  std::vector<double> log_bytes_, log_time_;
};

// A first row that is slower than the next has warmed up; one that is slower than both neighbours' sizes
// allow, or faster, was disturbed.
void mark_disturbed(const std::vector<std::size_t>& rows_of_table, const MeasuredData& data,
                    std::vector<FittedRow>& rows) {
  const Table table(rows_of_table, data);
  for (std::size_t i = 0; i < table.size(); ++i) {
    FittedRow& row = rows[rows_of_table[i]];
    // A spike among growing times makes its successor look too fast, a dip its predecessor too slow.
    const bool with_next = i > 1 && table.above(i) && table.below(i + 1);
    const bool with_last = i > 2 && table.below(i) && table.above(i - 1);
    if (table.above(i) && (!with_next || table.first_is_farther(i))) {
      row.use = i == 0 ? RowUse::warm_up : RowUse::outlier;
      row.note = i == 0 ? "slower than the next larger size: warm-up"
                        : "slower than both neighbouring sizes: disturbed";
    } else if (table.below(i) && (!with_last || !table.first_is_farther(i - 1))) {
      row.use = RowUse::outlier;
      row.note = "faster than both neighbouring sizes: disturbed";
    }
  }
}

void find_disturbed(const std::map<std::pair<std::size_t, std::string>, std::vector<std::size_t>>& tables,
                    const MeasuredData& data, std::vector<FittedRow>& rows) {
  for (auto [key, table] : tables) {
    std::ranges::stable_sort(table, {}, [&](std::size_t r) { return data.collectives[r].bytes; });
    mark_disturbed(table, data, rows);
  }
}

// At most `each` points of an octave of a place.
std::size_t thin(std::vector<MeasuredPoint>& points, int each) {
  std::map<std::pair<std::size_t, int>, int> of_octave;
  std::size_t fitted = 0;
  for (MeasuredPoint& point : points) {
    const int octave = std::ilogb(static_cast<double>(point.bytes.value));
    point.fitted = ++of_octave[{point.place, octave}] <= each;
    fitted += point.fitted ? 1 : 0;
  }
  return fitted;
}

}  // namespace

std::vector<NcclVersion> likely_versions(int compute_capability) {
  const int oldest = compute_capability >= 100 ? 26 : compute_capability >= 90 ? 18 : 14;
  std::vector<NcclVersion> versions;
  for (int minor = oldest; minor < kNewestNccl; minor += 4) {
    versions.push_back({minor});
  }
  return versions;
}

double noise_of(Bytes bytes) { return bytes.value < (1 << 20) ? 0.04 : 0.02; }

std::string version_remarks(const MeasuredData& data) {
  std::map<std::string, std::set<std::string>> files;
  for (const CollectiveMeasurement& row : data.collectives) {
    if (row.nccl.starts_with("2.") && nearest_nccl(row.nccl) != row.nccl) {
      files[row.nccl].insert(row.origin.file);
    }
  }
  std::string text;
  for (const auto& [version, of] : files) {
    const int away = leading_minor(version) - leading_minor(nearest_nccl(version));
    text += *of.begin() + (of.size() > 1 ? " and " + std::to_string(of.size() - 1) + " more" : "") +
            ": NCCL " + version + " is taken for " + nearest_nccl(version) + ", " +
            std::to_string(std::abs(away)) + " minor versions " +
            (away < 0 ? "later, the oldest" : "earlier, the newest") +
            " whose tuner is known: another algorithm may have run\n";
  }
  return text;
}

namespace {

// Options that no row of a file takes: what its rows state instead, by file and option with its value.
class UnusedOptions {
 public:
  explicit UnusedOptions(const FitRequest& request) : request_(request) {}

  void add(const CollectiveMeasurement& row) {
    const auto number = [](int n) { return n > 0 ? std::to_string(n) : std::string(); };
    compare(row, "--nodes", number(request_.nodes), number(row.nodes));
    compare(row, "--gpus-per-node", number(request_.gpus_per_node),
            row.nodes > 0 && row.fullest == 0 ? number(row.ranks / row.nodes) : "");
    compare(row, "--nccl", request_.nccl_stated ? nearest_nccl(request_.collective.nccl) : "",
            row.nccl.starts_with("2.") ? nearest_nccl(row.nccl) : "");
    compare(row, "--algo", request_.collective.algorithm, row.algorithm);
    compare(row, "--proto", request_.collective.protocol, row.protocol);
    const CollectiveSpec& told = request_.collective;
    compare(row, "--set max_channels", number(told.max_channels), number(row.channels));
    compare(row, "--set socket_threads", number(told.socket_threads), number(row.socket_threads));
    compare(row, "--set sockets_per_thread",
            told.sockets_per_thread > 1 ? number(told.sockets_per_thread) : "",
            number(row.sockets_per_thread));
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const auto& [of, stated] : stated_) {
      if (!used_.contains(of)) {
        const std::string values = joined(std::vector<std::string>(stated.begin(), stated.end()), ", ");
        lines.push_back(of.first + ": " + of.second + " is not used: the log states " + values);
      }
    }
    return lines;
  }

 private:
  void compare(const CollectiveMeasurement& row, const char* option, const std::string& given,
               const std::string& stated) {
    if (given.empty()) {
      return;
    }
    const std::pair of{row.origin.file, std::string(option) + ' ' + given};
    if (stated.empty() || in_capitals(stated) == in_capitals(given)) {
      used_.insert(of);
    } else {
      stated_[of].insert(stated);
    }
  }

  const FitRequest& request_;
  std::set<std::pair<std::string, std::string>> used_;
  std::map<std::pair<std::string, std::string>, std::set<std::string>> stated_;
};

// Settings of a row but for those that the node's own words are for.
std::string not_described(std::string_view settings, const NodeSpec& node) {
  std::vector<std::string> left;
  while (!settings.empty()) {
    const std::size_t end = std::min(settings.find(", "), settings.size());
    const std::string_view each = settings.substr(0, end);
    settings.remove_prefix(std::min(end + 2, settings.size()));
    const bool by_sockets =
        each == "\"Using network Socket\"" || (each.starts_with("NCCL_IB_DISABLE=") && !each.ends_with("=0"));
    const bool described = (by_sockets && node.network == NetworkKind::tcp) ||
                           (each.starts_with("NCCL_P2P_DISABLE") && node.p2p_level != P2pLevel::by_cpu);
    if (!described) {
      left.emplace_back(each);
    }
  }
  return joined(left, ", ");
}

}  // namespace

std::vector<std::string> log_remarks(const FitRequest& request, const MeasuredData& data) {
  const NodeSpec& node = request.cluster.node;
  const std::vector<std::string> presets = gpu_preset_names();
  const bool of_preset = std::ranges::count(presets, node.gpu) > 0;
  std::map<std::string, std::string> others, unknown, settings;  // the first file that says so
  UnusedOptions unused(request);
  for (const CollectiveMeasurement& row : data.collectives) {
    const std::string gpu = gpu_called(row.gpu);
    const bool same = in_capitals(row.gpu).find(in_capitals(node.gpu)) != std::string::npos;
    if (!may_be_gpu(gpu, node.gpu) && (of_preset || !same)) {
      others.try_emplace(gpu, row.origin.file);
    } else if (!same && gpu.empty() && !row.gpu.empty()) {
      unknown.try_emplace(row.gpu, row.origin.file);
    }
    if (!row.unmodelled.empty()) {
      settings.try_emplace(row.unmodelled, row.origin.file);
    }
    unused.add(row);
  }
  for (const KernelMeasurement& row : data.kernels) {
    if (const std::string gpu = gpu_called(row.device); !gpu.empty() && !may_be_gpu(gpu, node.gpu)) {
      others.try_emplace(gpu, row.origin.file);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [gpu, file] : others) {
    lines.push_back(file + ": the log's GPUs are " + gpu + ", " + request.cluster_name + " has " + node.gpu);
  }
  for (const auto& [gpu, file] : unknown) {
    lines.push_back(file + ": the log's GPUs are " + gpu +
                    ", which is no GPU that Paceline knows by that name; " + request.cluster_name + " has " +
                    node.gpu);
  }
  for (std::string& line : unused.lines()) {
    lines.push_back(std::move(line));
  }
  const bool pcie = !has_nvlink(node) && node.devices.empty();
  const bool told = node.p2p_level != P2pLevel::by_cpu;  // which GPUs are peers
  for (const auto& [settings_of_row, file] : settings) {
    const std::string setting = not_described(settings_of_row, node);
    const bool peers = setting.starts_with("NCCL_P2P_DISABLE");
    if (!setting.empty()) {
      lines.push_back(
          file + ": the log states " + setting +
          ", which the prediction does not model: it is of one collective alone, launched by the "
          "host, on the machine as described" +
          (peers && pcie && !told ? R"(; "p2p_level": "loc" in the node describes that one)" : ""));
    }
  }
  return lines;
}

MeasuredPoints gather_points(const FitRequest& request, const MeasuredData& data) {
  MeasuredPoints all;
  std::map<PlaceKey, std::size_t> known;
  std::map<PlaceKey, std::string> impossible;
  std::map<std::pair<std::size_t, std::string>, std::vector<std::size_t>> tables;  // by place
  for (std::size_t r = 0; r < data.collectives.size(); ++r) {
    FittedRow& row = all.rows.emplace_back();
    row.row = r;
    MeasuredPlace place;
    row.note = place_row(data.collectives[r], request, place);
    if (!row.note.empty()) {
      row.use = RowUse::elsewhere;
      continue;
    }
    const PlaceKey key = key_of(place);
    if (const auto bad = impossible.find(key); bad != impossible.end()) {
      row.use = RowUse::elsewhere;
      row.note = bad->second;
      continue;
    }
    const auto [at, added] = known.try_emplace(key, all.places.size());
    if (added) {
      if (request.progress) {
        request.progress("rows placed", r, data.collectives.size());
      }
      take_channels(place, all.places);
      if (std::string why = why_impossible(place, data.collectives[r].bytes); !why.empty()) {
        known.erase(at);
        row.use = RowUse::elsewhere;
        row.note = impossible[key] = std::move(why);
        continue;
      }
      all.places.push_back(place);
    }
    MeasuredPlace& joined = all.places[at->second];
    joined.nodes_stated = joined.nodes_stated && place.nodes_stated;
    joined.nccl_stated = joined.nccl_stated && place.nccl_stated;
    tables[{at->second, data.collectives[r].table}].push_back(r);
  }
  find_disturbed(tables, data, all.rows);
  std::map<std::pair<std::size_t, Bytes>, std::vector<std::size_t>> by_size;
  for (const auto& [key, rows] : tables) {
    for (const std::size_t r : rows) {
      if (all.rows[r].use == RowUse::fitted) {
        by_size[{key.first, data.collectives[r].bytes}].push_back(r);
      }
    }
  }
  for (const auto& [key, rows] : by_size) {
    std::vector<double> logs;
    for (const std::size_t r : rows) {
      logs.push_back(std::log(data.collectives[r].time.value));
    }
    all.points.push_back(
        {key.first, key.second, median(std::move(logs)), rows, true, 1, noise_of(key.second)});
  }
  std::size_t fitted = thin(all.points, 4);
  for (int each = 2; fitted > kMostFitted && each > 0; each /= 2) {
    fitted = thin(all.points, each);
  }
  for (std::size_t seen = 0; MeasuredPoint& point : all.points) {  // of very many places, evenly
    if (fitted > kMostFitted && point.fitted) {
      point.fitted = seen * kMostFitted / fitted != (seen + 1) * kMostFitted / fitted;
      ++seen;
    }
  }
  return all;
}

MeasuredPoints require_points(const FitRequest& request, const MeasuredData& data) {
  MeasuredPoints measured = gather_points(request, data);
  if (measured.points.empty()) {
    throw InputError("expected measured collectives on " + request.cluster_name + ", found none (" +
                     (measured.rows.empty() ? "the files hold no collectives" : measured.rows.front().note) +
                     ")");
  }
  return measured;
}

std::size_t end_of_place(const std::vector<MeasuredPoint>& points, std::size_t first) {
  std::size_t end = first;
  while (end < points.size() && points[end].place == points[first].place) {
    ++end;
  }
  return end;
}

std::vector<Bytes> sizes_of(const std::vector<MeasuredPoint>& points, std::size_t first, std::size_t end) {
  std::vector<Bytes> sizes;
  for (std::size_t p = first; p < end; ++p) {
    sizes.push_back(points[p].bytes);
  }
  return sizes;
}

}  // namespace paceline
