// What a sweep says at its end.
#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "core/text.h"
#include "core/version.h"
#include "scenarios/json.h"
#include "scenarios/readable.h"
#include "studies/edit.h"
#include "studies/result_lines.h"
#include "studies/sweep.h"

namespace paceline {
namespace {

constexpr std::size_t kMostRows = 40, kMostFailures = 5;
constexpr const char* kMisfit = "does not fit: ";

// A combination of all axes but the seed.
struct Row {
  double throughput = 0, efficiency = 0;  // sums over the seeds
  std::vector<double> steps;
  std::vector<double> goodputs;   // of campaigns, by seed
  double low = 0, high = 0;       // 5 and 95 % of the last one's own seeds
  double interval = 0, wall = 0;  // sums over the seeds
  std::string memory;             // "does not fit: 175.8 GB of 85.9 GB", "40.8 GB"
};

struct Failures {
  std::size_t count = 0;
  std::string first;
};

double number_at(const Json& json, std::string_view pointer) {
  const Json* value = value_at(json, pointer);
  if (value == nullptr) {
    return 0;
  }
  const auto* whole = value->as<std::int64_t>();
  const auto* number = value->as<double>();
  return whole != nullptr ? static_cast<double>(*whole) : number != nullptr ? *number : 0;
}

std::string text_at(const Json& json, std::string_view pointer) {
  const Json* value = value_at(json, pointer);
  const auto* text = value == nullptr ? nullptr : value->as<std::string>();
  return text == nullptr ? "" : *text;
}

std::string cell(const Json& value) {
  const auto* text = value.as<std::string>();
  return text == nullptr ? to_line(value) : *text;
}

// The values of all axes but the seed, each as JSON: whole, unlike what is printed of them.
struct Combination {
  std::string key;
  Cells cells;
};

bool is_seed(const StudyAxis& axis) { return axis.key == "/run/seed"; }

std::string key_of(const Study& study, const StudyPoint& point) {
  Json::Array values;
  for (std::size_t i = 0; i < study.axes.size(); ++i) {
    if (!is_seed(study.axes[i])) {
      values.push_back(point.axes[i].value);
    }
  }
  return to_line(Json(std::move(values)));
}

Cells cells_of(const Study& study, const StudyPoint& point) {
  Cells cells;
  for (std::size_t i = 0; i < study.axes.size(); ++i) {
    if (!is_seed(study.axes[i])) {
      cells.push_back(in_short(cell(point.axes[i].value)));
    }
  }
  return cells;
}

// Which columns there are.
struct Columns {
  bool seeds = false, steps = false, campaigns = false, memory = false;
};

Cells heads_of(const Study& study, const Columns& columns) {
  Cells heads;
  for (const StudyAxis& axis : study.axes) {
    if (!is_seed(axis)) {
      heads.push_back(axis.name);
    }
  }
  if (columns.steps) {
    heads.insert(heads.end(), {"step (ms)", "samples/s", "scaling"});
  }
  if (columns.steps && columns.seeds) {
    heads.emplace_back("5 % to 95 % of seeds (ms)");
  }
  if (columns.campaigns) {
    heads.insert(heads.end(), {"goodput (%)", "5 % to 95 % of seeds (%)", "interval", "wall time"});
  }
  if (columns.memory) {
    heads.emplace_back("memory");
  }
  return heads;
}

// Of the sorted values; between two of them interpolated, as Python's `bands` does.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const double above = sorted[std::min(below + 1, sorted.size() - 1)];
  return sorted[below] + (at - static_cast<double>(below)) * (above - sorted[below]);
}

bool cannot_fit(const Json& line) {
  const Json* fits = value_at(line, "/memory/fits");
  const auto* yes = fits == nullptr ? nullptr : fits->as<bool>();
  return yes != nullptr && !*yes;
}

std::string memory_of(const Json& line) {
  const std::string needs = formatted("%.1f GB", number_at(line, "/memory/total_bytes") * 1e-9);
  return cannot_fit(line)
             ? kMisfit + needs + formatted(" of %.1f GB", number_at(line, "/memory/gpu_bytes") * 1e-9)
             : needs;
}

void add(Row& row, const Json& line) {
  if (line.find("step_time_s") != nullptr) {
    row.memory = memory_of(line);
    row.steps.push_back(number_at(line, "/step_time_s/mean"));
    row.throughput += number_at(line, "/throughput_samples_per_s");
    row.efficiency += number_at(line, "/scaling_efficiency");
  }
  if (line.find("goodput") != nullptr) {
    row.goodputs.push_back(number_at(line, "/goodput"));
    row.low = number_at(line, "/goodput_p5");
    row.high = number_at(line, "/goodput_p95");
    row.interval += number_at(line, "/campaign/interval_s");
    row.wall += number_at(line, "/campaign/wall_s");
  }
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void add_steps(const Row& row, bool seeds, Cells& line) {
  const auto points = static_cast<double>(row.steps.size());
  std::vector<double> steps = row.steps;
  std::ranges::sort(steps);
  line.push_back(formatted("%.3f", mean_of(steps) * 1e3));
  line.push_back(formatted("%.1f", row.throughput / points));
  line.push_back(formatted("%.3f", row.efficiency / points));
  if (seeds) {
    line.push_back(formatted("%.3f", quantile(steps, 0.05) * 1e3) + " to " +
                   formatted("%.3f", quantile(steps, 0.95) * 1e3));
  }
}

void add_campaigns(const Row& row, Cells& line) {
  const auto points = static_cast<double>(row.goodputs.size());
  std::vector<double> shares = row.goodputs;
  std::ranges::sort(shares);
  const bool several = shares.size() > 1;
  const double low = several ? quantile(shares, 0.05) : row.low;
  const double high = several ? quantile(shares, 0.95) : row.high;
  line.push_back(formatted("%.2f", 100 * mean_of(shares)));
  line.push_back(low < high ? formatted("%.2f", 100 * low) + " to " + formatted("%.2f", 100 * high) : "-");
  line.push_back(readable_duration(Seconds(row.interval / points)));
  line.push_back(readable_duration(Seconds(row.wall / points)));
}

void add(Failures& failures, const Json& line) {
  if (++failures.count <= kMostFailures) {
    const std::string file = text_at(line, "/error/file"), place = text_at(line, "/error/place");
    failures.first += "  " + to_line(*line.find("point")) + ": " + (file.empty() ? "" : file + ": ") +
                      (place.empty() ? "" : place + ": ") + text_at(line, "/error/message") + '\n';
  }
}

// The combinations in the study's order, if they are few.
std::vector<Combination> combinations(const Study& study) {
  std::vector<Combination> order;
  for (const StudyPoint& point : study.points) {
    std::string key = key_of(study, point);
    if (std::ranges::find(order, key, &Combination::key) == order.end()) {
      order.push_back({std::move(key), cells_of(study, point)});
      if (order.size() > kMostRows) {
        return {};
      }
    }
  }
  return order;
}

std::string table(const Study& study, const std::vector<Combination>& order,
                  const std::map<std::string, Row>& rows) {
  Columns columns;
  columns.seeds = std::ranges::any_of(study.axes, is_seed);
  for (const auto& [key, row] : rows) {
    columns.steps = columns.steps || !row.steps.empty();
    columns.campaigns = columns.campaigns || !row.goodputs.empty();
    columns.memory = columns.memory || row.memory.starts_with(kMisfit);
  }
  std::vector<Cells> lines{heads_of(study, columns)};
  for (const Combination& combination : order) {
    const auto at = rows.find(combination.key);
    if (at == rows.end()) {
      continue;
    }
    const Row& row = at->second;
    Cells line = combination.cells;
    const auto blank = [&](std::size_t cells) { line.insert(line.end(), cells, "-"); };
    if (columns.steps && row.steps.empty()) {
      blank(columns.seeds ? 4 : 3);
    } else if (columns.steps) {
      add_steps(row, columns.seeds, line);
    }
    if (columns.campaigns && row.goodputs.empty()) {
      blank(4);
    } else if (columns.campaigns) {
      add_campaigns(row, line);
    }
    if (columns.memory) {
      line.push_back(row.memory);
    }
    lines.push_back(std::move(line));
  }
  return lines.size() > 1 ? aligned(lines) : "";
}

}  // namespace

std::string sweep_table(const Study& study, const std::string& out) {
  const std::vector<Combination> order = combinations(study);
  std::map<std::string, Json> last;  // of a point's lines the last counts
  std::map<std::string, Row> rows;
  std::set<std::string> too_large;
  for_each_line((std::filesystem::path(out) / "results.jsonl").string(),
                [&](std::size_t, const std::string& text) {
                  Json line = parse_json(text);
                  std::string point = to_line(*line.find("point"));
                  too_large.erase(point);
                  if (cannot_fit(line)) {
                    too_large.insert(point);
                  }
                  if (!order.empty() || line.find("error") != nullptr) {
                    last.insert_or_assign(std::move(point), std::move(line));
                  } else {
                    last.erase(point);
                  }
                });
  Failures failures;
  for (const StudyPoint& point : study.points) {
    const auto at = last.find(to_line(Json(point.axes)));
    if (at == last.end()) {
      continue;
    }
    if (at->second.find("error") != nullptr) {
      add(failures, at->second);
    } else {
      add(rows[key_of(study, point)], at->second);
    }
  }
  std::string text;
  if (!too_large.empty()) {
    text += std::to_string(too_large.size()) + " of " + std::to_string(study.points.size()) +
            " points do not fit: their GPUs need more memory than they have (\"memory\" in results.jsonl)\n";
  }
  text += table(study, order, rows);
  if (failures.count > 0) {
    text += "failed:\n" + failures.first;
    if (failures.count > kMostFailures) {
      text += "  and " + std::to_string(failures.count - kMostFailures) + " more\n";
    }
  }
  return text;
}

std::string sweep_summary(const SweepOutcome& outcome) {
  std::string text = outcome.file + ": " + plural(static_cast<std::int64_t>(outcome.points), "point") + ", " +
                     std::to_string(outcome.found) + " found" +
                     (outcome.joined > 0 ? " (" + std::to_string(outcome.joined) + " in shards)" : "") +
                     ", " + std::to_string(outcome.computed) + " computed";
  text += outcome.failed > 0 ? ", " + std::to_string(outcome.failed) + " failed" : "";
  text += outcome.faults.empty() ? "" : ", " + std::to_string(outcome.faults.size()) + " not computed";
  return text + '\n';
}

std::vector<std::string> sweep_remarks(const SweepOutcome& outcome) {
  std::vector<std::string> remarks;
  if (!outcome.locked) {
    remarks.push_back(
        outcome.file +
        ": this file system's locks keep nobody out (a network's?): see that no two sweeps write it");
  }
  if (outcome.older > 0) {
    remarks.push_back(std::to_string(outcome.older) + " lines of another model version are left aside in " +
                      outcome.older_lines + "; this is model version " + std::to_string(kModelVersion));
  }
  return remarks;
}

}  // namespace paceline
