// The page of `paceline calibrate defaults`, and the sources that it writes.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>

#include "calibrate/validate/defaults.h"
#include "core/text.h"

namespace paceline {
namespace {

constexpr std::int64_t kOneMiB = 1 << 20;

struct Errors {
  double sum = 0;
  int rows = 0;
  void add(double log_ratio) {
    sum += std::abs(log_ratio);
    ++rows;
  }
  std::optional<double> mean() const {
    return rows > 0 ? std::optional(std::expm1(sum / rows)) : std::nullopt;
  }
};

std::string mean_cell(std::optional<double> mean) {
  return mean ? formatted(" %8.1f %%", 100 * *mean) : std::string(11, ' ');
}

// Below 1 MiB, from there on, from 256 MiB on.
struct BySize {
  std::array<Errors, 3> of;
  void add(std::int64_t bytes, double log_ratio) {
    of[bytes < kOneMiB ? 0 : 1].add(log_ratio);
    if (bytes >= 256 * kOneMiB) {
      of[2].add(log_ratio);
    }
  }
  std::string text() const {
    std::string all;
    for (const Errors& each : of) {
      all += mean_cell(each.mean());
    }
    return all;
  }
};

// The mean over tables, of each size class.
struct OfTables {
  std::array<double, 3> sum{};
  std::array<int, 3> tables{};
  void add(const BySize& errors) {
    for (std::size_t i = 0; i < errors.of.size(); ++i) {
      if (const std::optional<double> mean = errors.of[i].mean()) {
        sum[i] += *mean;
        ++tables[i];
      }
    }
  }
  std::string text() const {
    std::string all;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      all += mean_cell(tables[i] > 0 ? std::optional(sum[i] / tables[i]) : std::nullopt);
    }
    return all;
  }
};

std::string held_out_page(const std::vector<HeldOutRow>& rows) {
  std::string page = formatted("%-40s %-14s %11s %-33s %s\n", "table", "collective", "nodes x GPUs",
                               "  its site left out: < 1 MiB, >= 1, >= 256", "  as built in");
  OfTables all, one, several, all_before, one_before, several_before;
  for (std::size_t i = 0; i < rows.size();) {
    const HeldOutRow& first = rows[i];
    BySize after, before;
    for (; i < rows.size() && rows[i].table == first.table && rows[i].kind == first.kind; ++i) {
      after.add(rows[i].bytes, rows[i].log_ratio);
      before.add(rows[i].bytes, rows[i].as_built);
    }
    page += formatted("%-40s %-14s %5d x %-4d", first.table.c_str(), std::string(name_of(first.kind)).c_str(),
                      first.nodes, first.ranks / first.nodes) +
            after.text() + "   " + before.text() + '\n';
    if (first.kind == CollectiveKind::all_reduce) {
      all.add(after);
      all_before.add(before);
      (first.nodes == 1 ? one : several).add(after);
      (first.nodes == 1 ? one_before : several_before).add(before);
    }
  }
  const auto line = [&](const char* name, const OfTables& after, const OfTables& before) {
    page += formatted("%-67s", name) + after.text() + "   " + before.text() + '\n';
  };
  line("all_reduce, mean over tables", all, all_before);
  line("all_reduce on one node", one, one_before);
  line("all_reduce on several nodes", several, several_before);
  return page;
}

// 90 % of what was left out lies so near, sites alike.
std::vector<DefaultSpread> spread_of(const std::vector<HeldOutRow>& rows) {
  constexpr std::int64_t kFrom[] = {0, 32 << 10, 1 << 20, 16 << 20, 256 << 20};
  constexpr double kShare = 0.9;
  std::vector<DefaultSpread> all;
  for (const Named<Reach>& reach : kNames<Reach>) {
    for (std::size_t c = 0; c < std::size(kFrom); ++c) {
      std::map<std::string, std::vector<double>> of_site;
      for (const HeldOutRow& row : rows) {
        if (row.reach == reach.value && row.bytes >= kFrom[c] &&
            (c + 1 == std::size(kFrom) || row.bytes < kFrom[c + 1])) {
          of_site[row.site].push_back(row.beyond);
        }
      }
      std::vector<std::pair<double, double>> weighted;
      for (const auto& [site, each] : of_site) {
        for (const double beyond : each) {
          weighted.emplace_back(beyond, 1 / static_cast<double>(each.size() * of_site.size()));
        }
      }
      std::ranges::sort(weighted);
      double sum = 0, spread = 0;
      for (const auto& [beyond, weight] : weighted) {
        spread = sum < kShare ? beyond : spread;
        sum += weight;
      }
      all.push_back({reach.value, kFrom[c], spread, static_cast<int>(of_site.size())});
    }
  }
  return all;
}

std::string value_line(const std::string& of, const FittedDefault& each) {
  return formatted("%-10s %-28s %10.4g  +- %3.0f %%  %d sites\n", of.c_str(), each.name.c_str(), each.value,
                   100 * each.deviation, each.sites);
}

}  // namespace

std::string defaults_page(const DefaultsFit& fit) {
  std::string page;
  for (std::size_t g = 0; g < kGenerations; ++g) {
    for (const FittedDefault& each : fit.of_generation[g]) {
      page += value_line(std::string(name_of(static_cast<Generation>(g))), each);
    }
  }
  for (const DefaultsFit::OfNetwork& network : fit.of_network) {
    for (const FittedDefault& each : network.values) {
      page += value_line(std::string(name_of(network.kind)) + (network.before_hopper ? " old" : ""), each);
    }
  }
  for (const DefaultSpread& each : spread_of(fit.held_out)) {
    page += formatted("%-14s from %9lld B: 90 %% within x/ %.2f, %d sites\n",
                      std::string(name_of(each.reach)).c_str(), static_cast<long long>(each.from_bytes),
                      std::exp(each.of_ninety), each.sites);
  }
  return page + '\n' + held_out_page(fit.held_out);
}

std::string generation_source(const DefaultsFit& fit) {
  std::string source;
  for (std::size_t g = 0; g < kGenerations; ++g) {
    for (const FittedDefault& each : fit.of_generation[g]) {
      source += formatted("    {\"%s\", %zu, %.4g, %.2f, %d},\n", each.name.c_str(), g, each.value,
                          each.deviation, each.sites);
    }
  }
  return source;
}

std::string spread_source(const DefaultsFit& fit) {
  std::string source;
  for (const DefaultSpread& each : spread_of(fit.held_out)) {
    source += formatted("    {Reach::%s, %lld, %.2f, %d},\n", std::string(name_of(each.reach)).c_str(),
                        static_cast<long long>(each.from_bytes), each.of_ninety, each.sites);
  }
  return source;
}

std::string network_source(const DefaultsFit& fit) {
  std::string source;
  for (const DefaultsFit::OfNetwork& network : fit.of_network) {
    for (const FittedDefault& each : network.values) {
      source +=
          formatted("    {NetworkKind::%s, %s, \"%s\", %.4g, %.2f, %d},\n",
                    std::string(name_of(network.kind)).c_str(), network.before_hopper ? "true" : "false",
                    each.name.c_str(), each.value, each.deviation, each.sites);
    }
  }
  return source;
}

}  // namespace paceline
