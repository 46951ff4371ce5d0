#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/collective_points.h"
#include "calibrate/import/import.h"
#include "calibrate/validate/compare.h"
#include "core/error.h"
#include "scenarios/json.h"

namespace paceline {
namespace {

FitRequest request_for(const CollectiveTable& table) {
  FitRequest request;
  request.cluster_name = table.cluster_name;
  request.cluster = table.cluster;
  request.collective.library = table.spec.library;
  request.collective.nccl = table.spec.nccl;
  request.collective.gpus_per_process = table.spec.gpus_per_process;
  request.collective.min_channels = table.spec.min_channels;
  request.nccl_stated = table.nccl_stated;
  return request;
}

bool is_chosen(RowChoice choice, std::size_t row) {
  return choice == RowChoice::all || (choice == RowChoice::odd) == (row % 2 == 0);
}

// What tells a row from all others.
std::string key_of(const Origin& origin) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::weakly_canonical(origin.file, error);
  return (error ? origin.file : path.string()) + ':' + std::to_string(origin.line);
}

// The rows to fit, all of one cluster.
struct FitData {
  FitRequest request;
  MeasuredData data;
  std::set<std::string> keys;
};

FitData gather(const std::vector<ChosenRows>& parts) {
  FitData all;
  all.request = request_for(parts.front().table);
  for (const ChosenRows& part : parts) {
    if (part.table.cluster_name != parts.front().table.cluster_name) {
      throw InputError("expected one cluster in \"fit\", found " +
                       in_quotes(parts.front().table.cluster_name) + " and " +
                       in_quotes(part.table.cluster_name));
    }
    if (part.table.spec.nccl != parts.front().table.spec.nccl) {
      all.request.nccl_stated = false;
    }
    MeasuredData data = read_table(part.table);
    for (std::size_t i = 0; i < data.collectives.size(); ++i) {
      if (is_chosen(part.rows, i)) {
        all.keys.insert(key_of(data.collectives[i].origin));
        all.data.collectives.push_back(std::move(data.collectives[i]));
      }
    }
    std::ranges::move(data.files, std::back_inserter(all.data.files));
  }
  return all;
}

struct Predicted {
  double time = 0, low = 0, high = 0;
};

std::map<std::int64_t, Predicted> predict_sizes(const CollectiveTable& table, const Profile& profile,
                                                const std::set<std::int64_t>& sizes) {
  CollectiveTest test;
  test.kind = table.kind;
  test.cluster_name = table.cluster_name;
  test.cluster = table.cluster;
  test.collective = table.spec;
  test.nccl_stated = table.nccl_stated;
  for (const std::int64_t size : sizes) {
    test.sizes.emplace_back(size);
  }
  std::map<std::int64_t, Predicted> all;
  const CollectivePrediction prediction = predict_collectives(test, profile);
  std::size_t row = 0;
  for (const std::int64_t size : sizes) {
    const CollectiveInterval& interval = prediction.intervals.at(row);
    const SimTime time = prediction.result.rows.at(row++).time;
    all[size] = {to_seconds(time).value, interval.low.value, interval.high.value};
  }
  return all;
}

// The fitted rows of the same place, as points of a curve.
std::vector<LogPoint> curve_of(const CollectiveTable& table, const FitData& fit,
                               const CollectiveFit& fitted) {
  std::map<std::int64_t, std::pair<double, int>> by_size;
  for (const FittedRow& row : fitted.rows) {
    const CollectiveMeasurement& one = fit.data.collectives[row.row];
    if (row.use == RowUse::fitted && one.table == table.name) {
      auto& [sum, count] = by_size[one.bytes.value];
      sum += std::log(one.time.value);
      ++count;
    }
  }
  std::vector<LogPoint> points;
  for (const auto& [bytes, sum] : by_size) {
    points.push_back({std::log(static_cast<double>(bytes)), sum.first / sum.second});
  }
  return points;
}

// By the fit's own rule on the whole table: why a row says nothing.
std::vector<std::string> disturbed_rows(const CollectiveTable& table, const MeasuredData& data) {
  std::vector<std::string> why(data.collectives.size());
  for (const FittedRow& row : gather_points(request_for(table), data).rows) {
    why[row.row] = row.use == RowUse::fitted ? "" : row.note;
  }
  return why;
}

void compare_table(const ChosenRows& part, const FitData& fit, const CollectiveFit& fitted,
                   std::vector<ComparedRow>& rows) {
  const MeasuredData data = read_table(part.table);
  const std::vector<std::string> disturbed = disturbed_rows(part.table, data);
  const std::vector<LogPoint> curve = curve_of(part.table, fit, fitted);
  std::set<std::int64_t> sizes;
  const std::size_t first = rows.size();
  for (std::size_t i = 0; i < data.collectives.size(); ++i) {
    if (!is_chosen(part.rows, i)) {
      continue;
    }
    const CollectiveMeasurement& one = data.collectives[i];
    if (fit.keys.contains(key_of(one.origin))) {
      throw InputError("this row is fitted and tested; \"rows\": \"odd\" and \"even\" divide a table",
                       "line " + std::to_string(one.origin.line), one.origin.file);
    }
    ComparedRow row;
    row.table = part.table.name;
    row.origin = one.origin;
    row.bytes = one.bytes.value;
    row.nodes = one.nodes;
    row.ranks = one.ranks;
    row.measured = one.time.value;
    row.excluded = disturbed[i];
    if (curve.size() >= 2) {
      row.interpolated = std::exp(interpolate(curve, std::log(static_cast<double>(row.bytes))));
    }
    sizes.insert(row.bytes);
    rows.push_back(std::move(row));
  }
  const std::map<std::int64_t, Predicted> predicted = predict_sizes(part.table, fitted.profile, sizes);
  for (std::size_t i = first; i < rows.size(); ++i) {
    const Predicted& p = predicted.at(rows[i].bytes);
    rows[i].predicted = p.time;
    rows[i].low = p.low;
    rows[i].high = p.high;
  }
}

std::string described(const ChosenRows& part) {
  return part.table.name + (part.rows == RowChoice::odd    ? " (odd rows)"
                            : part.rows == RowChoice::even ? " (even rows)"
                                                           : "");
}

}  // namespace

MeasuredData read_table(const CollectiveTable& table) {
  MeasuredData data = import_file(table.file);
  const int ranks = table.cluster.nodes * table.cluster.gpus_per_node;
  if (data.collectives.empty()) {
    throw InputError("expected measured collectives, found none", {}, table.file);
  }
  for (CollectiveMeasurement& row : data.collectives) {
    if (row.ranks != 0 && row.ranks != ranks) {
      throw InputError("expected rows of " + std::to_string(ranks) + " GPUs, as " + in_quotes(table.name) +
                           " has nodes * gpus_per_node, found " + std::to_string(row.ranks),
                       "line " + std::to_string(row.origin.line), table.file);
    }
    row.kind = table.kind;
    row.ranks = ranks;
    row.nodes = table.cluster.nodes;
    row.nccl = table.nccl_stated ? table.spec.nccl : "";
    row.algorithm = table.spec.algorithm;
    row.protocol = table.spec.protocol;
    row.channels = table.spec.max_channels;
    row.nvls = table.spec.nvls ? "" : "off";
    row.gpus_per_process = table.spec.gpus_per_process;
    row.buffer = table.spec.sizes.buffer;
    row.socket_threads = table.spec.socket_threads;
    row.sockets_per_thread = table.spec.sockets_per_thread;
    row.table = table.name;
  }
  return data;
}

Profile fitted_profile(const std::vector<ChosenRows>& rows) {
  const FitData fit = gather(rows);
  return fit_collectives(fit.request, fit.data).profile;
}

ComparedCase compare(const CollectiveCase& from) {
  ComparedCase result{from.name, {}, {}, {}, from.excluded};
  std::set<std::string> sources;
  for (const Fold& fold : from.folds) {
    FitData fit;
    CollectiveFit fitted;
    if (!fold.fit.empty()) {
      fit = gather(fold.fit);
      fitted = fit_collectives(fit.request, fit.data);
    }
    for (const ChosenRows& part : fold.fit) {
      result.fitted.push_back(described(part));
    }
    for (const ChosenRows& part : fold.test) {
      compare_table(part, fit, fitted, result.rows);
      if (sources.insert(part.table.source).second) {
        result.source += (result.source.empty() ? "" : "; ") + part.table.source;
      }
    }
  }
  std::ranges::stable_sort(result.rows, {},
                           [](const ComparedRow& row) { return std::pair(row.table, row.bytes); });
  return result;
}

}  // namespace paceline
