#include "calibrate/validate/pairs.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <mutex>

#include "calibrate/fit/collective_points.h"
#include "calibrate/validate/validation_set.h"
#include "core/parallel.h"
#include "core/text.h"

namespace paceline {
namespace {

struct SizeClass {
  const char* name;
  std::int64_t from, to;
};
constexpr std::int64_t kMegabyte = 1 << 20, kNoEnd = std::numeric_limits<std::int64_t>::max();
constexpr SizeClass kSizeClasses[]{{"below 1 MiB", 0, kMegabyte},
                                   {"1 MiB and above", kMegabyte, kNoEnd},
                                   {"256 MiB and above", 256 * kMegabyte, kNoEnd}};

struct PlacedTable {
  CollectiveTable table;
  MeasuredData data;
  MeasuredPoints points;
  std::array<std::optional<double>, 3> with_defaults;
};

std::array<std::optional<double>, 3> errors(const PlacedTable& of, const Profile& profile) {
  std::array<double, 3> sum{};
  std::array<int, 3> rows{};
  for (std::size_t p = 0; p < of.points.places.size(); ++p) {
    std::vector<Bytes> sizes;
    std::vector<double> measured;
    for (const MeasuredPoint& point : of.points.points) {
      if (point.place == p) {
        sizes.push_back(point.bytes);
        measured.push_back(point.log_time);
      }
    }
    const std::vector<double> predicted = predicted_log_times(of.points.places[p], sizes, profile);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      for (std::size_t c = 0; const SizeClass& each : kSizeClasses) {
        const bool inside = each.from <= sizes[i].value && sizes[i].value < each.to;
        sum[c] += inside ? std::abs(predicted[i] - measured[i]) : 0;
        rows[c] += inside ? 1 : 0;
        ++c;
      }
    }
  }
  std::array<std::optional<double>, 3> means;
  for (std::size_t c = 0; c < means.size(); ++c) {
    if (rows[c] > 0) {
      means[c] = std::expm1(sum[c] / rows[c]);
    }
  }
  return means;
}

PlacedTable placed(CollectiveTable table) {
  FitRequest request;
  request.cluster_name = table.cluster_name;
  request.cluster = table.cluster;
  request.collective = table.spec;
  PlacedTable result{std::move(table), {}, {}, {}};
  result.data = read_table(result.table);
  result.points = gather_points(request, result.data);
  result.with_defaults = errors(result, {});
  return result;
}

Profile profile_of(const PlacedTable& of) {
  FitRequest request;
  request.cluster_name = of.table.cluster_name;
  request.cluster = of.table.cluster;
  request.collective = of.table.spec;
  request.nccl_stated = of.table.nccl_stated;
  return fit_collectives(request, of.data).profile;
}

}  // namespace

std::vector<ComparedPair> compare_pairs(const std::string& index, const FitProgress& progress) {
  std::vector<CollectiveTable> tables = load_tables(index);
  std::erase_if(tables, [](const CollectiveTable& table) { return table.doubtful; });
  std::vector<PlacedTable> all;
  for (CollectiveTable& table : tables) {
    all.push_back(placed(std::move(table)));
  }
  std::vector<std::vector<ComparedPair>> of_fitted(all.size());
  std::mutex telling;
  std::size_t done = 0;
  for_each_on_threads(all.size(), all_cores(), [&](std::size_t a) {
    std::optional<Profile> profile;
    for (std::size_t b = 0; b < all.size(); ++b) {
      if (a == b || all[a].table.cluster_name != all[b].table.cluster_name) {
        continue;
      }
      if (!profile) {
        profile = profile_of(all[a]);
      }
      of_fitted[a].push_back({all[a].table.name, all[b].table.name, all[a].table.cluster.nodes,
                              all[b].table.cluster.nodes, all[b].with_defaults, errors(all[b], *profile)});
    }
    const std::scoped_lock lock(telling);
    if (progress) {
      progress("tables fitted", ++done, all.size());
    }
  });
  std::vector<ComparedPair> pairs;
  for (std::vector<ComparedPair>& each : of_fitted) {
    std::ranges::move(each, std::back_inserter(pairs));
  }
  return pairs;
}

namespace {

constexpr double kWorse = 0.02;

std::string class_line(const char* what, const char* size, const std::vector<const ComparedPair*>& pairs,
                       std::size_t c) {
  int counted = 0, worse = 0;
  double defaults = 0, profile = 0;
  for (const ComparedPair* pair : pairs) {
    if (pair->with_profile[c]) {
      ++counted;
      defaults += *pair->with_defaults[c];
      profile += *pair->with_profile[c];
      worse += *pair->with_profile[c] > *pair->with_defaults[c] + kWorse ? 1 : 0;
    }
  }
  return counted == 0 ? std::string()
                      : formatted("%-28s %-18s %6d %10.1f %% %10.1f %% %8d\n", what, size, counted,
                                  100 * defaults / counted, 100 * profile / counted, worse);
}

}  // namespace

std::string pairs_page(const std::vector<ComparedPair>& pairs) {
  struct Group {
    const char* what;
    bool (*has)(const ComparedPair&);
  };
  constexpr Group kGroups[] = {
      {"all pairs", [](const ComparedPair&) { return true; }},
      {"one node from one",
       [](const ComparedPair& p) { return p.fitted_nodes == 1 && p.predicted_nodes == 1; }},
      {"one node from several",
       [](const ComparedPair& p) { return p.fitted_nodes > 1 && p.predicted_nodes == 1; }},
      {"several nodes from one",
       [](const ComparedPair& p) { return p.fitted_nodes == 1 && p.predicted_nodes > 1; }},
      {"several nodes from several",
       [](const ComparedPair& p) { return p.fitted_nodes > 1 && p.predicted_nodes > 1; }},
  };
  std::string page = formatted("%-28s %-18s %6s %12s %12s %8s\n", "", "", "pairs", "defaults", "profile",
                               "worse by 2 points");
  for (const Group& group : kGroups) {
    std::vector<const ComparedPair*> chosen;
    for (const ComparedPair& pair : pairs) {
      if (group.has(pair)) {
        chosen.push_back(&pair);
      }
    }
    for (std::size_t c = 0; const SizeClass& each : kSizeClasses) {
      page += class_line(group.what, each.name, chosen, c++);
    }
  }
  std::vector<const ComparedPair*> worst;
  for (const ComparedPair& pair : pairs) {
    if (pair.with_profile[1]) {
      worst.push_back(&pair);
    }
  }
  const auto gain = [](const ComparedPair* pair) { return *pair->with_defaults[1] - *pair->with_profile[1]; };
  std::ranges::stable_sort(worst, {}, gain);
  constexpr std::size_t kShown = 10;
  worst.resize(std::min(worst.size(), kShown));
  page += "\nthe worst, 1 MiB and above: fitted, predicted, with the defaults, with the profile\n";
  for (const ComparedPair* pair : worst) {
    page += formatted("%-42s %-42s %6.1f %% %6.1f %%\n", pair->fitted.c_str(), pair->predicted.c_str(),
                      100 * *pair->with_defaults[1], 100 * *pair->with_profile[1]);
  }
  return page;
}

}  // namespace paceline
