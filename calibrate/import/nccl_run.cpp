#include "calibrate/import/nccl_run.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "calibrate/import/findings.h"
#include "core/text.h"

namespace paceline {
namespace {

// Without '_', '-' and blanks. Those that contain others stand before them.
constexpr std::array kSpellings{Named<CollectiveKind>{"allreduce", CollectiveKind::all_reduce},
                                Named<CollectiveKind>{"allgather", CollectiveKind::all_gather},
                                Named<CollectiveKind>{"reducescatter", CollectiveKind::reduce_scatter},
                                Named<CollectiveKind>{"broadcast", CollectiveKind::broadcast},
                                Named<CollectiveKind>{"bcast", CollectiveKind::broadcast},
                                Named<CollectiveKind>{"alltoall", CollectiveKind::all_to_all},
                                Named<CollectiveKind>{"all2all", CollectiveKind::all_to_all},
                                Named<CollectiveKind>{"sendrecv", CollectiveKind::send_recv},
                                Named<CollectiveKind>{"reduce", CollectiveKind::reduce}};

std::string bare(std::string_view name) {
  std::string text = in_lower_case(name);
  std::erase_if(text, [](char c) { return c == '_' || c == '-' || c == ' ' || c == '/'; });
  return text;
}

// Cuts the first word off.
std::string_view next_word(std::string_view& text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) {
    return text = {};
  }
  const std::size_t stop = std::min(text.find_first_of(" \t\r", first), text.size());
  const std::string_view word = text.substr(first, stop - first);
  text.remove_prefix(stop);
  return word;
}

// The number after `name`, with blanks between.
std::optional<std::int64_t> number_after(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  text.remove_prefix(at + name.size());
  std::string_view word = next_word(text);
  word = word.substr(0, std::min(word.find_first_not_of("0123456789"), word.size()));
  std::int64_t value = 0;
  return read_whole(word, value) ? std::optional(value) : std::nullopt;
}

constexpr std::size_t kMostDevices = 1u << 20;

// " [0000:0f:00] NVIDIA H100 80GB HBM3"
void read_gpu(std::string_view text, NcclRun& run) {
  if (const std::size_t bus_end = text.find(']'); bus_end != std::string_view::npos) {
    add_gpu(text.substr(bus_end + 1), run);
  }
}

// "  Rank  3 Group  0 Pid 12345 on   node-1 device  3 [0000:0f:00] NVIDIA H100"
bool read_device(std::string_view text, NcclRun& run) {
  std::string_view rest = text;
  if (next_word(rest) != "Rank") {
    return false;
  }
  std::int64_t rank = 0;
  if (!read_whole(next_word(rest), rank) || rank < 0 || rank > INT32_MAX ||
      run.ranks.size() >= kMostDevices) {
    return false;
  }
  int& group = run.ranks[static_cast<int>(rank)];
  group = 0;
  while (!rest.empty()) {
    const std::string_view word = next_word(rest);
    if (word == "Group") {
      std::int64_t number = 0;
      group = read_whole(next_word(rest), number) && number >= 0 && number <= INT32_MAX
                  ? static_cast<int>(number)
                  : 0;
    } else if (word == "on") {
      std::string host(next_word(rest));
      if (!host.empty() && next_word(rest) == "device") {
        run.hosts[std::move(host)].insert(static_cast<int>(rank));
        next_word(rest);
        read_gpu(rest, run);
      }
      break;
    }
  }
  return true;
}

constexpr std::array<std::string_view, 8> kHalfColumns{"algbw", "busbw", "#wrong", "error",
                                                       "res",   "i_min", "i_max",  "i_p99"};

bool read_columns(std::string_view text, NcclLayout& layout) {
  const std::string_view first = next_word(text), second = next_word(text);
  const bool version_1 = first == "bytes" && second == "N";
  if (!version_1 && !(first == "size" && second == "count")) {
    return false;
  }
  if (next_word(text) != "type") {
    return false;
  }
  NcclLayout found{.redop = false,
                   .root = false,
                   .milliseconds = version_1,
                   .counts_wrong = false,
                   .halves = 0,
                   .columns_per_half = 0};
  while (true) {
    const std::string_view word = next_word(text);
    if (word == "redop" || word == "op") {
      found.redop = true;
    } else if (word == "root") {
      found.root = true;
    } else if (word == "time" || word == "cputime") {
      found.cpu_time = found.cpu_time || word == "cputime";
      ++found.halves;
      found.columns_per_half += found.halves == 1 ? 1 : 0;
    } else if (found.halves > 0 && (std::ranges::count(kHalfColumns, word) > 0 || word == "i_cv%")) {
      found.columns_per_half += found.halves == 1 ? 1 : 0;
      found.counts_wrong = found.counts_wrong || word == "#wrong";
    } else {
      break;  // the end, or columns after the halves
    }
  }
  constexpr int kMostColumns = 10;
  if (found.halves < 1 || found.halves > 2 || found.columns_per_half < 3 ||
      found.columns_per_half > kMostColumns) {
    return false;
  }
  layout = found;
  return true;
}

// Ways between GPUs or nodes that a job may be told to do without, and channels that it has at least.
constexpr std::array<std::string_view, 6> kUnmodelled{"NCCL_IB_DISABLE",  "NCCL_P2P_DISABLE",
                                                      "NCCL_SHM_DISABLE", "NCCL_MIN_NCHANNELS",
                                                      "NCCL_MIN_CTAS",    "NCCL_PXN_DISABLE"};

constexpr std::size_t kLongestValue = 200;

constexpr std::int64_t kMostSockets = 1024;  // more is no number of threads or sockets

// Where a '#' begins a word, as a comment of a shell does, but for a batch system's lines, what is quoted, and prompts:
// "/ # export", "linux:~ # export".
std::size_t comment_in(std::string_view line) {
  constexpr std::array<std::string_view, 4> kDirectives{"SBATCH", "PBS", "BSUB", "$"};
  bool quoted = false;
  char last = ' ';  // that is no blank
  for (std::size_t at = 0; at < line.size(); ++at) {
    const bool begins =
        at == 0 || std::string_view(" \t:>;&|\"'`(").find(line[at - 1]) != std::string_view::npos;
    if (line[at] == '#' && begins && !quoted && last != '/' && last != '~' &&
        std::ranges::none_of(kDirectives, [&](auto word) { return line.substr(at + 1).starts_with(word); })) {
      return at;
    }
    quoted = quoted != (line[at] == '"');
    last = line[at] == ' ' ? last : line[at];
  }
  return line.size();
}

// Whether a name that ends `text` is one of those behind a command "unset ".
bool is_unset(std::string_view text) {
  constexpr std::string_view kUnset = "unset ";
  text = text.substr(text.find_last_of(";&|\"'`(") + 1);
  const std::size_t at = text.find(kUnset);
  if (at == std::string_view::npos) {
    return false;
  }
  const std::string_view before = text.substr(0, text.substr(0, at).find_last_not_of(' ') + 1);
  return before.empty() || std::string_view(":>]$#+").find(before.back()) != std::string_view::npos;
}

// "allreduce:"
bool names_function(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  return !name.empty() && name.size() < text.size() && std::ranges::all_of(name, is_letter);
}

// What a shell takes for the value behind '='; `before`: the character before the name, maybe the quote of both.
std::string_view value_of(std::string_view text, char before) {
  constexpr std::string_view kQuotes = "\"'`", kEnds = " \t\r\"'`\\;)]}<&|";
  const bool escaped = text.starts_with("\\\"") || text.starts_with("\\'") || text.starts_with("$'");
  text.remove_prefix(escaped ? 1 : 0);
  const bool own = !text.empty() && kQuotes.find(text.front()) != std::string_view::npos;
  const char quote = own ? text.front() : before;
  text = text.substr(own ? 1 : 0, kLongestValue + 1);
  std::size_t stop = 0;
  if (kQuotes.find(quote) != std::string_view::npos) {
    stop = text.find_first_of(std::string{quote, '\\'} + (own ? "" : " \t\r"));
  } else {
    stop = text.find_first_of(kEnds);
    // env has no quotes: "allgather:ring;allreduce:tree".
    while (stop != std::string_view::npos && text[stop] == ';' && names_function(text.substr(stop + 1))) {
      stop = text.find_first_of(kEnds, stop + 1);
    }
  }
  text = text.substr(0, stop);
  const std::size_t other = text.find('=');  // srun's "ALL,A=1,B=2"
  return other == std::string_view::npos ? text : text.substr(0, text.rfind(',', other));
}

struct Setting {
  std::string_view name, value;
  bool unset = false;
};

// What a line sets and unsets, in order.
std::vector<Setting> settings_in(std::string_view line) {
  constexpr std::string_view kSet = " set by environment to ",
                             kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  std::vector<Setting> found;
  if (line.find("NCCL WARN") != std::string_view::npos) {
    return found;
  }
  const std::size_t comment = comment_in(line);
  for (std::size_t at = line.find("NCCL_"); at != std::string_view::npos; at = line.find("NCCL_", at)) {
    const std::size_t stop = std::min(line.find_first_not_of(kLetters, at), line.size());
    const std::string_view before = line.substr(0, at), rest = line.substr(stop);
    const char last = before.empty() ? ' ' : before.back();
    const bool begins = kLetters.find(last) == std::string_view::npos;
    Setting one{line.substr(at, stop - at), {}};
    at = stop;
    if (rest.starts_with(kSet)) {
      one.value = rest.substr(kSet.size());
      one.value = one.value.substr(0, one.value.find_first_of(" \t\r\"'`\\"));
    } else if (rest.starts_with('=') && stop < comment && begins) {
      one.value = value_of(rest.substr(1), last);
    } else if (begins && stop <= comment &&
               is_unset(before.substr(before.size() - std::min(before.size(), kLongestValue)))) {
      one.unset = true;
    } else {
      continue;
    }
    while (one.value.ends_with('.') || one.value.ends_with(',') || one.value.ends_with(';')) {
      one.value.remove_suffix(1);
    }
    found.push_back(one);
  }
  return found;
}

NcclRun begun(std::string program, std::string nccl) {
  NcclRun run;
  run.program = std::move(program);
  run.nccl = std::move(nccl);
  return run;
}

}  // namespace

bool NcclEnvironment::set(std::string_view name, std::string_view value) {
  if (value.size() > kLongestValue) {
    return false;
  }
  std::int64_t number = 0;
  if (name == "NCCL_ALGO") {
    algorithm = in_capitals(value);
  } else if (name == "NCCL_PROTO") {
    protocol = in_capitals(value);
  } else if ((name == "NCCL_MAX_NCHANNELS" || name == "NCCL_MAX_CTAS") &&
             (value.empty() || (read_whole(value, number) && number > 0 && number < 1024))) {
    channels = static_cast<int>(number);
  } else if (name == "NCCL_SOCKET_NTHREADS" || name == "NCCL_NSOCKS_PERTHREAD") {
    if (!value.empty() && !(read_whole(value, number) && number >= 0)) {
      return false;
    }
    int& of_name = name == "NCCL_SOCKET_NTHREADS" ? socket_threads : sockets_per_thread;
    of_name = sockets_in_use ? of_name : static_cast<int>(std::min(number, kMostSockets));
  } else if (name == "NCCL_NVLS_ENABLE") {
    nvls = value == "0" ? "off" : "";
  } else if (std::ranges::count(kUnmodelled, name) > 0) {
    unmodelled.erase(std::string(name));
    if (!value.empty()) {
      unmodelled.emplace(name, value);
    }
  } else {
    return false;
  }
  return true;
}

bool NcclEnvironment::read(std::string_view line) {
  bool found = false;
  for (const Setting& each : settings_in(line)) {
    found = set(each.name, each.value) || found;
  }
  return found;
}

bool NcclEnvironment::read_sockets(std::string_view line) {
  constexpr std::string_view kThreads = "NET/Socket: Using ", kSockets = " threads and ";
  const auto threads = number_after(line, kThreads), sockets = number_after(line, kSockets);
  if (!threads || !sockets) {
    return false;
  }
  sockets_in_use = true;
  socket_threads = static_cast<int>(std::min(*threads, kMostSockets));
  sockets_per_thread = static_cast<int>(std::min(*sockets, kMostSockets));
  return true;
}

void NcclEnvironment::take_back(std::string_view line) {
  for (const Setting& each : settings_in(line)) {
    if (each.unset) {
      set(each.name, {});
    }
  }
}

void NcclEnvironment::complete(const NcclEnvironment& other) {
  const auto take = [](std::string& mine, const std::string& others) {
    if (mine.empty()) {
      mine = others;
    }
  };
  take(algorithm, other.algorithm);
  take(protocol, other.protocol);
  take(nvls, other.nvls);
  unmodelled.insert(other.unmodelled.begin(), other.unmodelled.end());
  const auto take_number = [](int& mine, int others) { mine = mine == 0 ? others : mine; };
  take_number(channels, other.channels);
  if (other.sockets_in_use && !sockets_in_use) {
    socket_threads = sockets_per_thread = 0;
    sockets_in_use = true;
  }
  take_number(socket_threads, other.socket_threads);
  take_number(sockets_per_thread, other.sockets_per_thread);
}

NcclHosts hosts_of(const NcclRun& run) {
  struct Group {
    std::size_t ranks = 0, hosts = 0, least = SIZE_MAX, most = 0;
    bool operator==(const Group&) const = default;
  };
  std::map<int, Group> groups;
  for (const auto& [rank, group] : run.ranks) {
    ++groups[group].ranks;
  }
  for (const auto& [host, ranks] : run.hosts) {
    std::map<int, std::size_t> of_group;
    for (const int rank : ranks) {
      ++of_group[run.ranks.at(rank)];
    }
    for (const auto& [number, size] : of_group) {
      Group& group = groups[number];
      ++group.hosts;
      group.least = std::min(group.least, size);
      group.most = std::max(group.most, size);
    }
  }
  NcclHosts found;
  found.groups = groups.size();
  found.groups_alike =
      std::ranges::all_of(groups, [&](const auto& each) { return each.second == groups.begin()->second; });
  if (!groups.empty() && found.groups_alike) {
    const Group& group = groups.begin()->second;
    found.ranks = group.ranks;
    found.hosts = group.hosts;
    found.fullest = group.hosts > 0 && group.least != group.most ? static_cast<int>(group.most) : 0;
  }
  (run.gpus.size() == 1 ? found.gpu : found.gpu_kinds) =
      joined(std::vector<std::string>(run.gpus.begin(), run.gpus.end()), ", ");
  return found;
}

void add_gpu(std::string_view name, NcclRun& run) {
  constexpr std::size_t kLongestName = 64, kMostKinds = 8;
  name = trimmed(name);
  if (!name.empty() && name.size() <= kLongestName && run.gpus.size() < kMostKinds) {
    run.gpus.emplace(name);
  }
}

NcclLine read_nccl_header(std::string_view text, NcclRun& run, NcclLayout& layout) {
  if (read_device(text, run)) {
    return NcclLine::run;
  }
  if (read_columns(text, layout)) {
    return NcclLine::table_starts;
  }
  if (text.find("nccl-tests version") != std::string_view::npos) {
    run = {};
    const auto library = number_after(text, "nccl-library=");
    run.nccl = library ? nccl_version_of_code(*library) : std::string();
    return NcclLine::run_starts;
  }
  constexpr std::string_view kStarting = "Collective test starting:";
  if (const std::size_t at = text.find(kStarting); at != std::string_view::npos) {
    // The version's line, where there is one, stands before this one.
    run = begun(nccl_program_in(text.substr(at)), run.ranks.empty() ? run.nccl : "");
    return NcclLine::run_starts;
  }
  const auto gpus = number_after(text, "nGpus");
  if (gpus && number_after(text, "nThread")) {
    const bool named = run.ranks.empty();
    run = named ? begun(run.program, run.nccl) : NcclRun();
    // Each thread launches for its own GPUs, so that -t slows no launch.
    constexpr std::int64_t kMostGpus = 1024;
    run.gpus_per_process = *gpus <= kMostGpus ? static_cast<int>(*gpus) : 0;
    run.grouped = number_after(text, "agg iters:").value_or(1);
    run.graphs = number_after(text, " graph:").value_or(0);
    return NcclLine::run_starts;
  }
  if (text.find("Blocking Enabled") != std::string_view::npos) {
    run.blocking = true;
    return NcclLine::run;
  }
  const bool known = text.find("Using devices") != std::string_view::npos ||
                     text.find("Out of bounds values") != std::string_view::npos ||
                     text.find("Avg bus bandwidth") != std::string_view::npos;
  if (text.find("(us)") != std::string_view::npos && text.find("(GB/s)") != std::string_view::npos) {
    layout.milliseconds = false;
    return NcclLine::run;
  }
  return known ? NcclLine::run : NcclLine::other;
}

std::string nccl_program_in(std::string_view line) {
  constexpr std::string_view kEnding = "_perf";
  for (std::size_t at = line.find(kEnding); at != std::string_view::npos; at = line.find(kEnding, at + 1)) {
    std::size_t start = at;
    while (start > 0 && ((line[start - 1] >= 'a' && line[start - 1] <= 'z') || line[start - 1] == '_')) {
      --start;
    }
    constexpr std::size_t kLongest = 64;  // it is kept for every table
    if (start < at && at - start <= kLongest) {
      return std::string(line.substr(start, at - start));
    }
  }
  return {};
}

std::string nccl_collective_in(std::string_view comment) {
  constexpr std::string_view kWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  std::optional<CollectiveKind> found;
  std::string name;
  while (!comment.empty()) {
    const std::size_t first = std::min(comment.find_first_of(kWord), comment.size());
    const std::size_t stop = std::min(comment.find_first_not_of(kWord, first), comment.size());
    const std::string_view word = comment.substr(first, stop - first);
    comment.remove_prefix(stop);
    const auto kind = collective_called(word);
    if (!kind || kind == CollectiveKind::reduce) {
      continue;
    }
    if (found && found != kind) {
      return {};
    }
    found = kind;
    name = word;
  }
  return name;
}

std::optional<CollectiveKind> collective_called(std::string_view name) {
  const std::string text = bare(name);
  for (const Named<CollectiveKind>& each : kSpellings) {
    if (text == each.name) {
      return each.value;
    }
  }
  return std::nullopt;
}

std::optional<CollectiveKind> collective_within(std::string_view text) {
  const std::string whole = bare(text);
  for (const Named<CollectiveKind>& each : kSpellings) {
    if (whole.find(each.name) != std::string::npos) {
      return each.value;
    }
  }
  return std::nullopt;
}

}  // namespace paceline
