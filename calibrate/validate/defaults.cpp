#include "calibrate/validate/defaults.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "calibrate/fit/collective_points.h"
#include "calibrate/fit/cost_fit.h"
#include "calibrate/validate/validation_set.h"

namespace paceline {
namespace {

// The points of one table, and whose it is.
struct TablePoints {
  const CollectiveTable* table = nullptr;
  std::vector<MeasuredPlace> places;
  std::vector<MeasuredPoint> points;
  int generation() const { return paceline::generation(table->cluster.node.compute_capability); }
  NetworkKind network() const { return table->cluster.node.network; }
  bool on_one_node() const { return table->cluster.nodes == 1; }
};

FitRequest request_of(const CollectiveTable& table) {
  FitRequest request;
  request.cluster_name = table.cluster_name;
  request.cluster = table.cluster;
  request.collective = table.spec;
  return request;
}

TablePoints points_of(const CollectiveTable& table) {
  MeasuredPoints gathered = gather_points(request_of(table), read_table(table));
  return {&table, std::move(gathered.places), std::move(gathered.points)};
}

// What an all-to-all reaches of NICs of 50 GB/s is 23, 33 and 49 on three sites, and nobody knows why
// (docs/accuracy.md). So no default is fitted to all_to_all and send_recv between nodes.
bool of_peers_between_nodes(const CollectiveTable& table) {
  return between_peers(table.kind) && table.cluster.nodes > 1;
}

// NCCL's words for a setting that leaves one choice.
MeasuredPlace forced(MeasuredPlace place, const PlaceModel::Candidate& candidate) {
  if (candidate.algorithm <= Algorithm::pat) {
    place.spec.algorithm = name_of(candidate.algorithm);
    place.spec.protocol = name_of(candidate.protocol);
  }
  return place;
}

// Where the version of NCCL is not stated, what ran is not known: for each size, of what the tuner has near its
// choice, that which comes nearest to the measurement.
TablePoints as_it_ran(const TablePoints& table, const std::vector<CostParameter>& costs) {
  constexpr double kNear = 1.3;
  TablePoints ran{table.table, {}, {}};
  for (std::size_t p = 0; p < table.places.size(); ++p) {
    MeasuredPlace place = table.places[p];
    std::vector<MeasuredPoint> points;
    std::ranges::copy_if(table.points, std::back_inserter(points),
                         [&](const MeasuredPoint& point) { return point.place == p; });
    std::vector<Bytes> sizes;
    std::ranges::transform(points, std::back_inserter(sizes), &MeasuredPoint::bytes);
    place.spec.costs = costs;
    PlaceModel model(place, sizes, AlgorithmChoice::tuner, {.near = kNear});
    const auto& candidates = model.candidates();
    std::vector<double> seconds(candidates.size());
    model.times(model.costs(), std::vector<bool>(candidates.size(), true), seconds);
    std::map<std::pair<Algorithm, Protocol>, std::vector<MeasuredPoint>> by_choice;
    std::map<std::pair<Algorithm, Protocol>, PlaceModel::Candidate> choice;
    for (std::size_t s = 0; s < points.size(); ++s) {
      std::size_t best = candidates.size();
      double miss = 0;
      for (std::size_t c = 0; c < candidates.size(); ++c) {
        const double here = std::abs(std::log(seconds[c]) - points[s].log_time);
        if (candidates[c].size == s && (best == candidates.size() || here < miss)) {
          best = c;
          miss = here;
        }
      }
      const std::pair key(candidates[best].algorithm, candidates[best].protocol);
      by_choice[key].push_back(points[s]);
      choice.try_emplace(key, candidates[best]);
    }
    for (auto& [key, mine] : by_choice) {
      for (MeasuredPoint& point : mine) {
        point.place = ran.places.size();
        ran.points.push_back(std::move(point));
      }
      ran.places.push_back(forced(table.places[p], choice.at(key)));
    }
  }
  return ran;
}

using Chosen = std::vector<const TablePoints*>;

// From 256 MiB on rates are measured: half of the tables are within 3 % of what other sites say (docs/accuracy.md).
constexpr Bytes kOfRates{256 << 20};
constexpr double kRatesDiffer = 0.03;

// Places and points of all, with costs in place of the defaults. Sites weigh alike, whatever their number of
// tables and rows: what a site's rows miss by, they miss by together, so all say little more than one row of an
// interval of 10 % would. Those of rates have that weight once more: they are few, and among all rows of a site what
// they say of a network would be an outlier. One process that drives several GPUs weighs a third, because training has
// a process for each.
struct Joined {
  std::vector<MeasuredPlace> places;
  std::vector<MeasuredPoint> points;
};
Joined join(const Chosen& tables, const std::vector<CostParameter>& costs) {
  constexpr double kOfManyGpus = 1.0 / 3, kOfSite = 1.0 / 3;
  struct Rows {
    double all = 0, of_rates = 0;
  };
  std::map<std::string, Rows> of_site;
  for (const TablePoints* table : tables) {
    for (const MeasuredPoint& point : table->points) {
      Rows& rows = of_site[table->table->site];
      rows.all += point.fitted ? 1 : 0;
      rows.of_rates += point.fitted && point.bytes >= kOfRates ? 1 : 0;
    }
  }
  Joined joined;
  for (const TablePoints* table : tables) {
    const std::size_t first = joined.places.size();
    for (MeasuredPlace place : table->places) {
      place.spec.costs = costs;
      joined.places.push_back(std::move(place));
    }
    const Rows& rows = of_site.at(table->table->site);
    for (MeasuredPoint point : table->points) {
      const bool of_rate = point.bytes >= kOfRates;
      const double share = point.fitted ? kOfSite / (of_rate ? rows.of_rates : rows.all) : 0;
      point.deviation = of_rate ? kRatesDiffer : point.deviation;
      point.place += first;
      point.weight = share * (table->table->spec.gpus_per_process > 1 ? kOfManyGpus : 1);
      joined.points.push_back(std::move(point));
    }
  }
  return joined;
}

std::vector<std::string> names_of(const std::vector<CostParameter>& costs) {
  std::vector<std::string> names;
  std::ranges::transform(costs, std::back_inserter(names), &CostParameter::name);
  return names;
}

// Fits to tables, and to those without one site.
class SiteFits {
 public:
  SiteFits(const Chosen& tables, const std::vector<CostParameter>& start,
           const std::vector<std::string>& only)
      : joined_(join(tables, start)) {
    for (const TablePoints* table : tables) {
      site_.insert(site_.end(), table->points.size(), table->table->site);
    }
    if (!joined_.points.empty()) {
      fitter_ = std::make_unique<CostFitter>(joined_.places, joined_.points, AlgorithmChoice::tuner,
                                             FitProgress{}, only);
    }
  }

  // What the tables without this site's determine, by name; "": all tables.
  std::map<std::string, double> values(const std::string& left_out) {
    std::vector<double> weights;
    for (std::size_t p = 0; p < site_.size(); ++p) {
      weights.push_back(site_[p] == left_out ? 0 : joined_.points[p].weight);
    }
    std::map<std::string, double> determined;
    for (const FittedParameter& fitted :
         fitter_ ? fitter_->fit(weights).parameters : std::vector<FittedParameter>{}) {
      if (fitted.determined) {
        determined[fitted.name] = fitted.value;
      }
    }
    return determined;
  }

 private:
  Joined joined_;
  std::vector<std::string> site_;  // by point
  std::unique_ptr<CostFitter> fitter_;
};

std::vector<CostParameter> replaced(std::vector<CostParameter> costs,
                                    const std::map<std::string, double>& by) {
  for (const auto& [name, value] : by) {
    const auto at = std::ranges::find(costs, name, &CostParameter::name);
    if (at == costs.end()) {
      costs.push_back({name, value});
    } else {
      at->value = value;
    }
  }
  return costs;
}

std::set<std::string> sites_of(const Chosen& tables) {
  std::set<std::string> sites;
  for (const TablePoints* table : tables) {
    sites.insert(table->table->site);
  }
  return sites;
}

// With all, and without each site.
struct Jackknife {
  std::map<std::string, double> values;
  std::map<std::string, std::map<std::string, double>> without;  // by site
};

std::vector<FittedDefault> summary(const Jackknife& fits, const std::vector<CostParameter>& start) {
  constexpr double kMoved = 0.002;  // of ln(value), at least, by a site that bears on it
  std::vector<FittedDefault> all;
  for (const auto& [name, value] : fits.values) {
    // No NIC carries more than its rate, and the flow network would not let it.
    const bool most_one = name == "network.efficiency";
    FittedDefault fitted{name, most_one ? std::min(value, 1.0) : value, 0, 0};
    const auto begun = std::ranges::find(start, name, &CostParameter::name);
    double squares = 0;
    for (const auto& [site, values] : fits.without) {
      const auto other = values.find(name);
      const double moved = std::log((other != values.end() ? other->second : begun->value) / value);
      squares += moved * moved;
      fitted.sites += std::abs(moved) > kMoved ? 1 : 0;
    }
    const auto n = static_cast<double>(fits.without.size());
    fitted.sites = std::max(fitted.sites, 1);
    fitted.deviation = n > 1 ? std::sqrt(squares * (n - 1) / n) : prior_deviation(name);
    all.push_back(std::move(fitted));
  }
  return all;
}

double log_time(const CollectiveCost& row) { return std::log(to_seconds(row.time).value); }

void hold_out(const Chosen& tables, const std::string& site, const std::vector<CostParameter>& costs,
              std::vector<HeldOutRow>& rows) {
  Chosen mine;
  std::ranges::copy_if(tables, std::back_inserter(mine),
                       [&](const TablePoints* table) { return table->table->site == site; });
  for (const TablePoints* table : mine) {
    for (std::size_t p = 0; p < table->places.size(); ++p) {
      const MeasuredPlace& place = table->places[p];
      CollectiveTest test;
      test.kind = place.kind;
      test.cluster_name = table->table->cluster_name;
      test.cluster = place.cluster;
      test.collective = place.spec;
      test.nccl_stated = table->table->nccl_stated;
      std::vector<double> log_times;
      for (const MeasuredPoint& point : table->points) {
        if (point.place == p) {
          test.sizes.push_back(point.bytes);
          log_times.push_back(point.log_time);
        }
      }
      const CollectivePrediction built = predict_collectives(test, {});
      test.collective.costs = costs;
      const CollectivePrediction without = predict_collectives(test, {});
      for (std::size_t i = 0; i < log_times.size(); ++i) {
        const Reach reach = reach_of(place.nodes(), place.cluster.node);
        const double spread = default_spread(reach, without.result.rows[i].plan.bytes);
        const CollectiveInterval& interval = without.intervals[i];
        const double below = std::log(interval.low.value) + spread - log_times[i],
                     above = log_times[i] + spread - std::log(interval.high.value);
        rows.push_back({table->table->name, site, place.kind, place.nodes(), place.ranks(), reach,
                        test.sizes[i].value, log_time(without.result.rows[i]) - log_times[i],
                        log_time(built.result.rows[i]) - log_times[i], std::max({below, above, 0.0})});
      }
    }
  }
}

// Tables that have defaults of their own: those that are fitted, and those that are predicted.
struct TableGroup {
  Chosen fitted, predicted;
};

// With each of these sites left out, its tables are predicted from the others' alone: rows for `held_out`.
std::vector<FittedDefault> fit_group(const TableGroup& group, const std::vector<CostParameter>& start,
                                     const std::set<std::string>& sites,
                                     const std::function<void(std::size_t done)>& told,
                                     std::vector<HeldOutRow>& held_out) {
  SiteFits site_fits(group.fitted, start, names_of(start));
  Jackknife fits{site_fits.values(""), {}};
  const std::set<std::string> fitted = sites_of(group.fitted);
  std::size_t done = 0;
  for (const std::string& site : sites) {
    told(done++);
    const std::map<std::string, double> without = site_fits.values(site);
    hold_out(group.predicted, site, replaced(start, without), held_out);
    if (fitted.contains(site)) {
      fits.without[site] = without;
    }
  }
  return summary(fits, start);
}

}  // namespace

DefaultsFit fit_defaults(const std::string& index, const FitProgress& progress) {
  const std::vector<CollectiveTable> listed = load_tables(index);
  const std::vector<CostParameter> start = starting_costs();
  const auto plain = [](const TablePoints& table) {
    return table.on_one_node() || is_verbs(table.network());
  };
  std::vector<TablePoints> tables, ran;
  for (const CollectiveTable& table : listed) {
    if (!table.doubtful) {
      const TablePoints& points = tables.emplace_back(points_of(table));
      const bool known = table.nccl_stated || !table.spec.algorithm.empty();
      if (table.fitted && !of_peers_between_nodes(table)) {
        const NetworkKind network = points.network();
        const bool old = before_hopper(network, points.generation());
        ran.push_back(
            known ? points : as_it_ran(points, plain(points) ? start : starting_network_costs(network, old)));
      }
    }
  }
  const auto choose = [](const std::vector<TablePoints>& from, const auto& which) {
    Chosen chosen;
    for (const TablePoints& table : from) {
      if (which(table)) {
        chosen.push_back(&table);
      }
    }
    return chosen;
  };
  DefaultsFit fit;
  for (std::size_t g = 0; g < kGenerations; ++g) {
    const auto mine = [&](const TablePoints& table) {
      return plain(table) && table.generation() == static_cast<int>(g);
    };
    const TableGroup group{choose(ran, mine), choose(tables, mine)};
    const std::set<std::string> sites = sites_of(group.predicted);
    const auto told = [&](std::size_t done) {
      if (progress) {
        progress("sites left out of generation " + std::to_string(g + 1), done, sites.size());
      }
    };
    fit.of_generation[g] = fit_group(group, start, sites, told, fit.held_out);
  }
  std::vector<std::pair<NetworkKind, bool>> networks;
  for (const Named<NetworkKind>& kind : kNames<NetworkKind>) {
    networks.insert(networks.end(), {{kind.value, true}, {kind.value, false}});
  }
  for (const std::pair<NetworkKind, bool>& each : networks) {
    const auto with_it = [&](const TablePoints& table) {
      return !plain(table) && table.network() == each.first &&
             before_hopper(each.first, table.generation()) == each.second;
    };
    const TableGroup group{choose(ran, with_it), choose(tables, with_it)};
    if (group.fitted.empty()) {
      continue;
    }
    const std::vector<CostParameter> of_network =
        starting_network_costs(each.first, each.second);  // all else as fitted
    const auto told = [](std::size_t) {};
    fit.of_network.push_back(
        {each.first, each.second, fit_group(group, of_network, sites_of(group.fitted), told, fit.held_out)});
  }
  return fit;
}

}  // namespace paceline
