// What the columns of a CSV mean: collectives, training throughput, and what calibrate/measure writes.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "calibrate/import/csv_rows.h"
#include "calibrate/import/nccl_row.h"
#include "calibrate/import/readers.h"
#include "core/error.h"
#include "core/text.h"
#include "core/unknown_name.h"
#include "scenarios/collective_table.h"
#include "scenarios/json.h"

namespace paceline {
namespace {

using Columns = std::span<const std::string_view>;
constexpr std::array<std::string_view, 4> kSize{"size_bytes", "size", "bytes", "size (b)"};
constexpr std::array<std::string_view, 1> kTime{"time_us"};
constexpr std::array<std::string_view, 1> kOutOfPlace{"time_us_out_of_place"};
constexpr std::array<std::string_view, 1> kInPlace{"time_us_in_place"};
constexpr std::array<std::string_view, 2> kBus{"busbw_gbps", "busbw"};
constexpr std::array<std::string_view, 3> kRanks{"ranks", "gpus", "n_gpus"};
constexpr std::array<std::string_view, 1> kNodes{"nodes"};
constexpr std::array<std::string_view, 1> kPerNode{"gpus_per_node"};
constexpr std::array<std::string_view, 1> kCollective{"collective"};
constexpr std::array<std::string_view, 3> kNccl{"nccl", "nccl_version", "library"};
constexpr std::array<std::string_view, 2> kAlgorithm{"algo", "algorithm"};
constexpr std::array<std::string_view, 2> kProtocol{"proto", "protocol"};
constexpr std::array<std::string_view, 1> kChannels{"channels"};
constexpr std::array<std::string_view, 1> kNvls{"nvls"};
constexpr std::array<std::string_view, 1> kSocketThreads{"socket_threads"};
constexpr std::array<std::string_view, 1> kSocketsPerThread{"sockets_per_thread"};
constexpr std::array<std::string_view, 1> kTable{"table"};
constexpr std::array<std::string_view, 1> kGpuName{"gpu_name"};
constexpr std::array<std::string_view, 1> kFullest{"fullest_node"};
constexpr std::array<std::string_view, 1> kPerProcess{"gpus_per_process"};
constexpr std::array<std::string_view, 1> kWrong{"wrong_values"};
constexpr std::array<std::string_view, 1> kNotModelled{"not_modelled"};
constexpr std::array<std::string_view, 4> kThroughput{"throughput", "samples_per_s", "images_per_s",
                                                      "throughput (samples/s)"};
constexpr std::array<std::string_view, 4> kTokens{"tokens_per_s", "tokens_per_second", "tokens/s",
                                                  "throughput (tokens/s)"};
constexpr std::array<std::string_view, 2> kAccumulation{"accumulation", "gradaccum"};
constexpr std::array<std::string_view, 1> kBatch{"batch_per_gpu"};
constexpr std::array<std::string_view, 1> kUnit{"unit"};
constexpr std::array<std::string_view, 1> kKind{"kind"};
constexpr std::array<std::string_view, 1> kName{"name"};
constexpr std::array<std::string_view, 1> kCondition{"condition"};
constexpr std::array<std::string_view, 1> kPrecision{"precision"};
constexpr std::array<std::string_view, 1> kModel{"model"};
constexpr std::array<std::string_view, 1> kDevice{"device"};
constexpr std::array<std::string_view, 1> kBackend{"backend"};
constexpr std::array<std::string_view, 1> kWork{"work_flop"};
constexpr std::array<std::string_view, 1> kTraffic{"traffic_bytes"};
constexpr std::array<std::string_view, 1> kM{"m"}, kN{"n"}, kK{"k"};

// "img/s", "tokens per second"; not of one GPU, and no other time.
bool is_rate_of_job(std::string_view unit) {
  constexpr std::array<std::string_view, 18> kThings{
      "sample", "samples", "image",    "images",   "img",       "imgs",  "sequence", "sequences", "seq",
      "seqs",   "example", "examples", "sentence", "sentences", "token", "tokens",   "tok",       "toks"};
  constexpr std::array<std::string_view, 5> kTimes{"/s", "/sec", "/second", " per second", " / s"};
  return std::ranges::any_of(kThings, [&](std::string_view thing) {
    return unit.starts_with(thing) &&
           (unit.size() == thing.size() || std::ranges::count(kTimes, unit.substr(thing.size())) > 0);
  });
}

// A row that can't be used, and why.
struct BadCell {
  std::string text;
};

class TableReader {
 public:
  TableReader(InputFile& file, Findings& findings)
      : file_(file), findings_(findings), rows_(file, findings) {}

  void read() {
    void (TableReader::* const read_row)() = reader();
    while (rows_.next()) {
      if (findings_.rows() == kMostRows) {
        findings_.row();  // remarks it
        break;
      }
      try {
        (this->*read_row)();
        findings_.row();
      } catch (const BadCell& bad) {
        findings_.remark("rows with wrong cells", rows_.line(), bad.text + ": the row is left out");
      }
    }
    set_ranks();
  }

 private:
  void (TableReader::* reader())() {
    if (rows_.has(kKind) && rows_.has(kName) && rows_.has(kTime)) {
      return &TableReader::read_own;
    }
    if (rows_.has(kSize) &&
        (rows_.has(kTime) || rows_.has(kOutOfPlace) || rows_.has(kInPlace) || rows_.has(kBus))) {
      return &TableReader::read_collective;
    }
    if ((rows_.has(kThroughput) || rows_.has(kTokens)) && rows_.has(kRanks)) {
      return &TableReader::read_training;
    }
    refuse();
  }

  // Names what the nearest kind of table lacks.
  [[noreturn]] void refuse() const {
    const auto missing = [&](std::string_view column) {
      std::string text = "missing column " + in_quotes(column);
      const std::vector<std::string> near = nearest_names(column, rows_.header());
      return near.empty() ? text : text + " (found " + in_quotes(near.front()) + ")";
    };
    std::string text;
    if (rows_.has(kSize)) {
      text = missing("time_us") + " or \"busbw_GBps\"";
    } else if (rows_.has(kThroughput) || rows_.has(kTokens)) {
      text = missing("gpus");
    } else {
      text = missing("size_bytes") +
             "; a table of training needs \"gpus\" and \"throughput\" or \"tokens_per_s\"";
    }
    throw InputError(text, "line " + std::to_string(rows_.header_line()), file_.path());
  }

  bool number(Columns columns, double& value) const {
    const std::string_view text = rows_.cell(columns);
    if (text.empty()) {
      return false;
    }
    if (!read_number(text, value)) {
      not_a_number(columns, text);
    }
    return true;
  }
  [[noreturn]] static void not_a_number(Columns columns, std::string_view text) {
    throw BadCell{std::string(columns[0]) + ": expected a number, found " + in_quotes(text)};
  }

  std::int64_t whole(Columns columns, std::int64_t otherwise, double most) const {
    double value = 0;
    if (!number(columns, value)) {
      return otherwise;
    }
    if (value < 0 || value > most || value != std::floor(value)) {
      throw BadCell{std::string(columns[0]) + ": expected a whole number up to " + number_text(most) +
                    ", found " + in_quotes(rows_.cell(columns))};
    }
    return static_cast<std::int64_t>(value);
  }
  std::int64_t whole(Columns columns) const {
    constexpr double kMost = 1e18;
    return whole(columns, 0, kMost);
  }
  int count(Columns columns) const {
    constexpr double kMost = 1e7;
    return static_cast<int>(whole(columns, 0, kMost));
  }

  std::optional<Seconds> time(Columns columns) const {
    const std::string_view text = rows_.cell(columns);
    if (text.empty()) {
      return std::nullopt;
    }
    Seconds value;
    if (!read_microseconds(text, value)) {
      not_a_number(columns, text);
    }
    if (value.value <= 0) {
      throw BadCell{std::string(columns[0]) + ": expected more than 0, found " + in_quotes(text)};
    }
    return value;
  }

  Seconds own_time() const {
    const std::optional<Seconds> value = time(kTime);
    if (!value) {
      throw BadCell{"time_us: expected a number, found none"};
    }
    return *value;
  }

  CollectiveKind kind_in(std::string_view text) {
    if (const auto kind = collective_called(text.substr(0, text.find(',')))) {
      return *kind;
    }
    throw BadCell{"unknown collective " + in_quotes(text)};
  }

  CollectiveKind kind() {
    if (const std::string_view text = rows_.cell(kCollective); !text.empty()) {
      return kind_in(text);
    }
    const auto from_name = collective_within(file_.name());
    if (!kind_told_) {
      kind_told_ = true;
      findings_.remark("tables without a name", rows_.header_line(),
                       "no column \"collective\": taken as " +
                           std::string(name_of(from_name.value_or(CollectiveKind::all_reduce))) +
                           (from_name ? " from the file's name" : ""));
    }
    return from_name.value_or(CollectiveKind::all_reduce);
  }

  CollectiveMeasurement stated() {
    CollectiveMeasurement one;
    one.bytes = Bytes(whole(kSize));
    one.ranks = count(kRanks);
    one.nodes = count(kNodes);
    const int per_node = count(kPerNode);
    if (one.ranks == 0 && one.nodes > 0 && per_node > 0) {
      constexpr std::int64_t kMost = 1'000'000'000;
      one.ranks = static_cast<int>(std::min(std::int64_t{one.nodes} * per_node, kMost));
    }
    if (one.nodes == 0 && per_node > 0 && one.ranks % per_node == 0) {
      one.nodes = one.ranks / per_node;
    }
    one.nccl = nccl_version_in(rows_.cell(kNccl));
    NcclEnvironment environment;
    environment.read(rows_.cell(kCollective));
    environment.set("NCCL_ALGO", rows_.cell(kAlgorithm));
    environment.set("NCCL_PROTO", rows_.cell(kProtocol));
    for (const auto& [name, columns] : {std::pair("NCCL_SOCKET_NTHREADS", Columns(kSocketThreads)),
                                        {"NCCL_NSOCKS_PERTHREAD", kSocketsPerThread}}) {
      if (const int stated = count(columns); stated > 0) {
        environment.set(name, std::to_string(stated));
      }
    }
    one.algorithm = environment.algorithm;
    one.protocol = environment.protocol;
    one.channels = count(kChannels);
    one.nvls = rows_.cell(kNvls) == "off" ? "off" : environment.nvls;
    one.socket_threads = environment.socket_threads;
    one.sockets_per_thread = environment.sockets_per_thread;
    one.gpu = rows_.cell(kGpuName);
    one.fullest = count(kFullest);
    one.gpus_per_process = count(kPerProcess);
    one.wrong_values = count(kWrong) > 0;
    one.unmodelled = rows_.cell(kNotModelled);
    one.origin = findings_.at(rows_.line());
    return one;
  }

  void read_collective() {
    CollectiveMeasurement one = stated();
    if (one.bytes.value == 0) {
      throw BadCell{"size_bytes: expected more than 0, found a row of 0 bytes"};
    }
    one.kind = kind();
    std::optional<Seconds> least;
    for (const Columns columns : {Columns(kTime), Columns(kOutOfPlace), Columns(kInPlace)}) {
      if (const auto each = time(columns)) {
        least = least ? std::min(*least, *each) : *each;
      }
    }
    double bus = 0;
    const bool has_bus = number(kBus, bus);
    if (!least) {
      least = time_from_bus(one, has_bus ? bus : 0);
    }
    one.time = *least;
    if (one.ranks == 0 && has_bus && rows_.has(kTime) && !rows_.has(kRanks)) {
      look_for_ranks(one, rows_.cell(kTime), rows_.cell(kBus));
    }
    one.table = table_of(one);
    findings_.data().collectives.push_back(std::move(one));
  }

  static Seconds time_from_bus(const CollectiveMeasurement& one, double gigabytes_per_second) {
    if (gigabytes_per_second <= 0) {
      throw BadCell{"neither a time nor a bus bandwidth above 0"};
    }
    if (one.ranks == 0 && bus_factor(one.kind, 2) != bus_factor(one.kind, 4)) {
      throw BadCell{"a bus bandwidth without \"gpus\" makes no time"};
    }
    const double factor = bus_factor(one.kind, static_cast<std::size_t>(std::max(1, one.ranks)));
    if (factor <= 0) {
      throw BadCell{"a bus bandwidth of one rank makes no time"};
    }
    return Seconds(static_cast<double>(one.bytes.value) * factor / (gigabytes_per_second * 1e9));
  }

  // What time and bandwidth of a row say of the number of ranks: all rows without it are of the same run.
  void look_for_ranks(const CollectiveMeasurement& one, std::string_view time_text,
                      std::string_view bus_text) {
    NcclRow row;
    row.size = one.bytes.value;
    const double algorithm = static_cast<double>(one.bytes.value) * 1e-9 / one.time.value;
    const NcclHalf half{.time = one.time,
                        .time_half_digit = printed(time_text).half_digit * 1e-6,
                        .algorithm_bandwidth = {algorithm, algorithm},
                        .bus_bandwidth = printed(bus_text)};
    if (add_half(half, row)) {
      factor_.low = std::max(factor_.low, row.factor.low);
      factor_.high = std::min(factor_.high, row.factor.high);
    }
    without_ranks_.push_back(findings_.data().collectives.size());
  }

  void set_ranks() {
    if (without_ranks_.empty()) {
      return;
    }
    const int ranks = ranks_from(factor_, findings_.data().collectives[without_ranks_.front()].kind);
    for (const std::size_t each : without_ranks_) {
      findings_.data().collectives[each].ranks = ranks;
    }
  }

  // Rows of one setup are one table.
  std::string table_of(const CollectiveMeasurement& one) {
    if (const std::string_view text = rows_.cell(kTable); !text.empty()) {
      return std::string(text);
    }
    const auto [found, is_new] =
        setups_.try_emplace(std::tuple(one.kind, one.ranks, one.nodes, one.nccl,
                                       one.algorithm + '/' + one.protocol + '/' + one.nvls),
                            setups_.size() + 1);
    return found->second == 1 ? file_.name() : file_.name() + '#' + std::to_string(found->second);
  }

  void read_training() {
    TrainingMeasurement one;
    one.ranks = count(kRanks);
    one.nodes = std::max(1, count(kNodes));
    const std::string unit = in_lower_case(rows_.cell(kUnit));
    if (!unit.empty() && !is_rate_of_job(unit)) {
      throw BadCell{"unit: expected samples (images, sequences) or tokens a second of all GPUs, found " +
                    in_quotes(unit)};
    }
    const bool tokens = unit.find("tok") != std::string::npos;
    double& stated = tokens ? one.tokens_per_second : one.samples_per_second;
    if (!number(kThroughput, stated)) {
      number(kTokens, one.tokens_per_second);
    }
    if (one.ranks == 0 || std::max(one.samples_per_second, one.tokens_per_second) <= 0) {
      throw BadCell{"gpus and throughput: expected more than 0"};
    }
    one.accumulation = count(kAccumulation);
    one.batch_per_gpu = count(kBatch);
    one.model = rows_.cell(kModel);
    one.precision = rows_.cell(kPrecision);
    // What tells runs of one file apart.
    one.table = file_.name();
    for (const std::string_view column : {"model", "framework", "precision", "table"}) {
      if (const std::string_view text = rows_.cell(Columns(&column, 1)); !text.empty()) {
        one.table += ", " + std::string(text);
      }
    }
    one.origin = findings_.at(rows_.line());
    findings_.data().training.push_back(std::move(one));
  }

  void read_own() {
    const std::string_view what = rows_.cell(kKind);
    const std::string condition(rows_.cell(kCondition));
    if (what == "collective") {
      read_own_collective(condition);
    } else if (what == "kernel" || what == "launch" || what == "memory") {
      read_own_kernel(what, condition);
    } else if (what == "step") {
      findings_.data().steps.push_back({.name = std::string(rows_.cell(kName)),
                                        .precision = std::string(rows_.cell(kPrecision)),
                                        .ranks = std::max(1, count(kRanks)),
                                        .nodes = std::max(1, count(kNodes)),
                                        .time = own_time(),
                                        .device = std::string(rows_.cell(kDevice)),
                                        .origin = findings_.at(rows_.line())});
    } else if (what == "bucket") {
      findings_.data().buckets.push_back({.moment = std::string(rows_.cell(kName)),
                                          .bucket = count(kM),
                                          .ranks = std::max(1, count(kRanks)),
                                          .bytes = Bytes(whole(kSize)),
                                          .time = own_time(),
                                          .origin = findings_.at(rows_.line())});
    } else {
      throw BadCell{"kind: expected collective, kernel, launch, memory, step or bucket, found " +
                    in_quotes(what)};
    }
  }

  void read_own_collective(const std::string& condition) {
    CollectiveMeasurement one = stated();
    if (one.bytes.value == 0) {
      throw BadCell{"size_bytes: expected more than 0"};
    }
    one.kind = kind_in(rows_.cell(kName));
    one.time = own_time();
    if (in_lower_case(rows_.cell(kBackend)).find("nccl") == std::string::npos) {
      one.nccl.clear();  // the library is another one
    }
    one.table = table_of(one);
    if (condition.empty()) {
      findings_.data().collectives.push_back(std::move(one));
    } else {
      findings_.data().conditioned.push_back({condition, std::move(one)});
    }
  }

  void read_own_kernel(std::string_view what, const std::string& condition) {
    KernelMeasurement one;
    one.kind = what;
    one.kernel = rows_.cell(kName);
    one.precision = rows_.cell(kPrecision);
    one.m = whole(kM);
    one.n = whole(kN);
    one.k = whole(kK);
    number(kWork, one.work.value);
    one.traffic = Bytes(whole(kTraffic));
    one.time = own_time();
    one.device = rows_.cell(kDevice);
    one.origin = findings_.at(rows_.line());
    if (condition.empty()) {
      findings_.data().kernels.push_back(std::move(one));
    } else {
      findings_.data().conditioned_kernels.push_back({condition, std::move(one)});
    }
  }

  InputFile& file_;
  Findings& findings_;
  CsvRows rows_;
  std::map<std::tuple<CollectiveKind, int, int, std::string, std::string>, std::size_t> setups_;
  bool kind_told_ = false;
  std::vector<std::size_t> without_ranks_;  // which collectives
  Range factor_;
};

}  // namespace

bool is_csv(std::string_view beginning) {
  while (!beginning.empty()) {
    const std::string_view line = beginning.substr(0, beginning.find('\n'));
    beginning.remove_prefix(std::min(line.size() + 1, beginning.size()));
    if (trimmed(line).empty() || line.starts_with('#')) {
      continue;
    }
    const CsvCells cells = csv_cells(line.substr(0, kLongestLine));
    const auto known = [&](Columns columns) {
      return std::ranges::any_of(columns,
                                 [&](std::string_view name) { return std::ranges::count(cells, name) > 0; });
    };
    return cells.size() > 1 &&
           (known(kSize) || known(kTime) || known(kOutOfPlace) || known(kInPlace) || known(kBus) ||
            known(kRanks) || known(kThroughput) || known(kTokens) || known(kCollective));
  }
  return false;
}

void read_csv(InputFile& file, Findings& findings) { TableReader(file, findings).read(); }

}  // namespace paceline
