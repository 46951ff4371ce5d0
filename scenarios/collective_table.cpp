#include "scenarios/collective_table.h"

#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "scenarios/files.h"
#include "scenarios/limits.h"
#include "scenarios/predict.h"
#include "scenarios/readable.h"
#include "scenarios/reader.h"
#include "scenarios/writer.h"
#include "sim/collective/costs.h"

namespace paceline {
namespace {

constexpr std::int64_t kElement = 4;  // bytes of a float
constexpr std::size_t kMostRows = 10'000;

bool counts_per_rank(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter ||
         kind == CollectiveKind::all_to_all;
}
bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter ||
         kind == CollectiveKind::reduce || kind == CollectiveKind::send_recv;  // as nccl-tests prints it
}
// Rounded down to what every rank has an equal share of, in elements.
Bytes usable(Bytes size, CollectiveKind kind, std::size_t ranks) {
  const std::int64_t share = counts_per_rank(kind) ? kElement * static_cast<std::int64_t>(ranks) : kElement;
  return Bytes(size.value / share * share);
}

std::vector<Bytes> sizes_of(const CollectiveTest& test, std::size_t ranks) {
  std::vector<Bytes> sizes;
  for (const Bytes size : test.sizes) {
    sizes.push_back(usable(size, test.kind, ranks));
  }
  for (Bytes size = test.first; test.sizes.empty() && size <= test.last;) {
    sizes.push_back(usable(size, test.kind, ranks));
    if (sizes.size() > kMostRows) {
      throw InputError("expected at most " + std::to_string(kMostRows) + " sizes, found more", "-i");
    }
    if (test.factor > 0 && size.value > test.last.value / test.factor) {
      break;
    }
    size = test.factor > 0 ? size * test.factor : size + test.increment;
  }
  return sizes;
}

std::string time_text(double us) { return formatted(us < 100 ? "%.2f" : us < 10'000 ? "%.1f" : "%.0f", us); }

struct Bandwidths {
  double algorithm = 0, bus = 0;  // GB/s
};
Bandwidths bandwidths(const CollectiveCost& row, std::size_t ranks) {
  const double us = to_microseconds(row.time);
  const double algorithm = us > 0 ? static_cast<double>(row.plan.bytes.value) * 1e-3 / us : 0;
  return {algorithm, algorithm * bus_factor(row.plan.kind, ranks)};
}

std::int64_t count_of(const CollectiveCost& row, std::size_t ranks) {
  const std::int64_t elements = row.plan.bytes.value / kElement;
  return counts_per_rank(row.plan.kind) ? elements / static_cast<std::int64_t>(ranks) : elements;
}

// Literals, as all names are.
std::string_view algorithm_of(const CollectiveCost& row) {
  return row.channels > 0 ? name_of(row.plan.algorithm) : "none";
}
std::string_view protocol_of(const CollectiveCost& row) {
  return row.channels > 0 ? name_of(row.plan.protocol) : "none";
}

Json others_json(const std::vector<OtherChoice>& others) {
  Json::Array all;
  for (const OtherChoice& other : others) {
    Json::Object entry{{"algorithm", name_of(other.algorithm)},
                       {"protocol", name_of(other.protocol)},
                       {"time", other.time.value * 1e6},
                       {"beside_choice", other.beside_choice},
                       {"likely", other.likely}};
    if (!other.chosen_by.empty()) {
      entry.push_back({"chosen_by", other.chosen_by});
    }
    all.push_back(std::move(entry));
  }
  return all;
}

double average_bus(const CollectiveTestResult& result) {
  double sum = 0;
  for (const CollectiveCost& row : result.rows) {
    sum += bandwidths(row, result.ranks).bus;
  }
  return result.rows.empty() ? 0 : sum / static_cast<double>(result.rows.size());
}

std::string table_row(const CollectiveTestResult& result, const CollectiveCost& row) {
  const Bandwidths bandwidth = bandwidths(row, result.ranks);
  const std::string half = formatted("  %7s  %6.2f  %6.2f  %5d", time_text(to_microseconds(row.time)).c_str(),
                                     bandwidth.algorithm, bandwidth.bus, 0);
  std::string text = formatted("%12lld  %12lld  %8s  %6s  %6d", static_cast<long long>(row.plan.bytes.value),
                               static_cast<long long>(count_of(row, result.ranks)), "float",
                               reduces(row.plan.kind) ? "sum" : "none", has_root(row.plan.kind) ? 0 : -1);
  text += half + half +
          formatted("  %14s  %6s  %8u", algorithm_of(row).data(), protocol_of(row).data(), row.channels);
  if (result.test.explain) {
    for (const SimTime part : {row.launch, row.latency, row.fill, row.bandwidth}) {
      text += formatted("  %9s", time_text(to_microseconds(part)).c_str());
    }
  }
  return text;
}

// "tree Simple" under the tuner's or another's eyes.
std::string why_likely(const OtherChoice& other) {
  return other.chosen_by.empty() ? formatted("NCCL decides by %.0f %%", 100 * (other.beside_choice - 1))
                                 : "chosen by " + other.chosen_by;
}

// What may run in place of the choice and makes a difference.
std::string others_text(const CollectiveInterval& interval, Seconds time) {
  constexpr double kDiffers = 0.05;  // of ln(time)
  std::string text;
  for (const OtherChoice& other : interval.others) {
    if (other.likely && std::abs(std::log(other.time / time)) > kDiffers) {
      text += (text.empty() ? "  or " : ", or ") + time_text(other.time.value * 1e6) + " as " +
              std::string(name_of(other.algorithm)) + ' ' + std::string(name_of(other.protocol)) + " (" +
              why_likely(other) + ')';
    }
  }
  return text;
}

std::string interval_columns(const CollectiveInterval& interval, Seconds time) {
  return formatted("  %9s %9s", time_text(interval.low.value * 1e6).c_str(),
                   time_text(interval.high.value * 1e6).c_str()) +
         (interval.extrapolated ? "  extrapolated: " + interval.why : "") + others_text(interval, time);
}

// What each algorithm and protocol takes, by size.
std::string all_choices_text(const CollectiveTestResult& result,
                             std::span<const CollectiveInterval> intervals) {
  using Choice = std::pair<Algorithm, Protocol>;
  std::set<Choice> columns;
  std::vector<std::map<Choice, std::string>> cells(result.rows.size());
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    const CollectiveCost& row = result.rows[i];
    const auto add = [&](const Choice& choice, double us, const char* mark) {
      columns.insert(choice);
      cells[i][choice] = time_text(us) + mark;
    };
    add({row.plan.algorithm, row.plan.protocol}, to_microseconds(row.time), "*");
    for (const OtherChoice& other : intervals[i].others) {
      add({other.algorithm, other.protocol}, other.time.value * 1e6, other.likely ? "?" : " ");
    }
  }
  std::string text =
      "#\n# All that could run, in us; *: the choice, ?: what may well run in its place\n#       size  ";
  for (const auto& [algorithm, protocol] : columns) {
    text +=
        formatted("  %17s", (std::string(name_of(algorithm)) + ' ' + std::string(name_of(protocol))).c_str());
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    text += formatted("\n%12lld", static_cast<long long>(result.rows[i].plan.bytes.value));
    for (const Choice& column : columns) {
      const auto cell = cells[i].find(column);
      text += formatted("  %17s", cell == cells[i].end() ? "- " : cell->second.c_str());
    }
  }
  return text + '\n';
}

}  // namespace

double bus_factor(CollectiveKind kind, std::size_t ranks) {
  const auto n = static_cast<double>(ranks);
  switch (kind) {
    case CollectiveKind::all_reduce:
      return 2 * (n - 1) / n;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
      return (n - 1) / n;
    default:
      return 1;
  }
}

CollectiveKind collective_named(const std::string& name) {
  return value_named<CollectiveKind>("collective", in_short(name));
}

CollectiveLibrary collective_library_named(const std::string& name) {
  return value_named<CollectiveLibrary>("library", in_short(name));
}

Bytes test_size(const std::string& text, const char* option) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  if (suffix.ends_with("iB")) {  // as everything else here has them
    suffix.remove_suffix(2);
    suffix.remove_prefix(suffix.starts_with(' ') ? 1 : 0);
    suffix = suffix.empty() ? "iB" : suffix;
  }
  const int shift = suffix.empty()                   ? 0
                    : suffix == "K" || suffix == "k" ? 10
                    : suffix == "M" || suffix == "m" ? 20
                    : suffix == "G" || suffix == "g" ? 30
                                                     : -1;
  constexpr std::int64_t kMost = std::int64_t{1} << 42;
  if (error != std::errc() || shift < 0 || value < 1 || value > (kMost >> shift)) {
    throw InputError("expected a size such as 8, 64K or 16 GiB, up to 4096G, found " + in_quotes(text),
                     option);
  }
  return Bytes(value << shift);
}

CollectiveTestResult run_collective_test(const CollectiveTest& test) {
  if (test.last < test.first) {
    throw InputError("expected at least the first size, " + std::to_string(test.first.value) + ", found " +
                         std::to_string(test.last.value),
                     "-e");
  }
  const std::int64_t ranks = std::int64_t{test.cluster.nodes} * std::max(1, test.cluster.gpus_per_node);
  if (ranks > kMostRanks) {
    throw InputError(
        "expected at most " + std::to_string(kMostRanks) + " GPUs, found " + std::to_string(ranks),
        "--nodes");
  }
  const Topology topology = build_checked_topology(test.cluster);
  CollectivePlanner planner =
      collective_planner(topology, {.cluster = test.cluster, .collective = test.collective});
  const std::vector<Bytes> sizes = sizes_of(test, topology.ranks());
  return {test, topology.ranks(), cost_collectives(planner, test.kind, sizes, test.explain)};
}

namespace {

// What NCCL is told beside its version, whoever says it.
Json::Object settings_of(const CollectiveSpec& spec) {
  if (spec.library != CollectiveLibrary::nccl) {
    return {};
  }
  const Json said = write(spec), defaults = write(CollectiveSpec{});
  Json::Object settings;
  for (const JsonMember& member : *said.as<Json::Object>()) {
    const Json* other = defaults.find(member.key);
    const bool told = member.key == "library" || member.key == "nccl" || member.key == "corrections";
    if (!told && (other == nullptr || to_line(*other) != to_line(member.value))) {
      settings.push_back(member);
    }
  }
  return settings;
}

}  // namespace

std::string nccl_tests_table(const CollectiveTestResult& result,
                             std::span<const CollectiveInterval> intervals) {
  const CollectiveTest& test = result.test;
  std::string text = formatted("# Collective test starting: %s_perf\n", name_of(test.kind).data());
  const bool nccl = test.collective.library == CollectiveLibrary::nccl;
  text += "# predicted by paceline: " + plural(static_cast<std::int64_t>(result.ranks), "GPU") + ", " +
          plural(test.cluster.nodes, "node") + " of " + in_short(test.cluster_name) + ", " +
          in_words(test.collective) + (nccl && !test.nccl_stated ? " (not stated)" : "") + '\n';
  const Json::Object settings = settings_of(test.collective);
  text += (settings.empty() ? "" : "# with " + to_line(settings) + '\n') + "#\n";
  text +=
      "#                                                              out-of-place                       "
      "in-place\n";
  text +=
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw "
      "  busbw #wrong"
      "       algorithm   proto  channels";
  text += test.explain ? "     launch    latency       fill  bandwidth" : "";
  text += intervals.empty() ? "\n" : "       from        to\n";
  text +=
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s) "
      " (GB/s)       ";
  text += test.explain ? "                                        (us)       (us)       (us)       (us)" : "";
  text += intervals.empty()
              ? "\n"
              : std::string(test.explain ? 7 : 42, ' ') + "(us)      (us): 90 % of measurements\n";
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    text += table_row(result, result.rows[i]) +
            (intervals.empty() ? "" : interval_columns(intervals[i], to_seconds(result.rows[i].time))) + '\n';
  }
  text += test.all && !intervals.empty() ? all_choices_text(result, intervals) : "";
  text += "# Out of bounds values : 0 OK\n";
  text += formatted("# Avg bus bandwidth    : %g\n#\n", average_bus(result));
  return text + formatted("# Collective test concluded: %s_perf\n", name_of(test.kind).data());
}

std::string nccl_tests_json(const CollectiveTestResult& result,
                            std::span<const CollectiveInterval> intervals) {
  Json::Array rows;
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    const CollectiveCost& row = result.rows[i];
    const Bandwidths bandwidth = bandwidths(row, result.ranks);
    const Json half = Json::Object{{"time", to_microseconds(row.time)},
                                   {"alg_bw", bandwidth.algorithm},
                                   {"bus_bw", bandwidth.bus},
                                   {"nwrong", 0}};
    Json::Object entry{{"size", row.plan.bytes.value},
                       {"count", count_of(row, result.ranks)},
                       {"type", "float"},
                       {"redop", reduces(row.plan.kind) ? "sum" : "none"},
                       {"root", has_root(row.plan.kind) ? 0 : -1},
                       {"out_of_place", half},
                       {"in_place", half},
                       {"algorithm", algorithm_of(row)},
                       {"protocol", protocol_of(row)},
                       {"channels", static_cast<std::int64_t>(row.channels)}};
    if (result.test.explain) {
      entry.push_back({"explained_us", Json::Object{{"launch", to_microseconds(row.launch)},
                                                    {"latency", to_microseconds(row.latency)},
                                                    {"fill", to_microseconds(row.fill)},
                                                    {"bandwidth", to_microseconds(row.bandwidth)}}});
    }
    if (!intervals.empty()) {
      entry.push_back({"interval_us", Json::Object{{"low", intervals[i].low.value * 1e6},
                                                   {"high", intervals[i].high.value * 1e6}}});
      entry.push_back({"extrapolated", intervals[i].extrapolated});
      if (intervals[i].extrapolated) {
        entry.push_back({"extrapolated_because", intervals[i].why});
      }
      if (!intervals[i].others.empty()) {
        entry.push_back({"others", others_json(intervals[i].others)});
      }
    }
    rows.push_back(std::move(entry));
  }
  return to_text(Json(Json::Object{{"collective", name_of(result.test.kind)},
                                   {"cluster", result.test.cluster_name},
                                   {"nodes", nodes_of_job(result.test.cluster)},
                                   {"ranks", static_cast<std::int64_t>(result.ranks)},
                                   {"library", name_of(result.test.collective.library)},
                                   {"nccl_version", result.test.collective.nccl},
                                   {"settings", settings_of(result.test.collective)},
                                   {"results", std::move(rows)},
                                   {"average_bus_bandwidth", average_bus(result)}}));
}

}  // namespace paceline
