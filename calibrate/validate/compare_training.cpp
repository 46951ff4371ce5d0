#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "calibrate/fit/training_fit.h"
#include "calibrate/fit/training_prediction.h"
#include "calibrate/validate/compare.h"
#include "calibrate/validate/csv_table.h"
#include "core/error.h"
#include "scenarios/scenario.h"

namespace paceline {
namespace {

struct TrainingRows {
  std::vector<TrainingMeasurement> fit, test;
  std::string source;
};

TrainingRows read_rows(const TrainingCase& from) {
  const CsvTable csv(from.data, {"gpus", "throughput", "use"});
  TrainingRows rows;
  for (const CsvTable::Row& row : csv.rows()) {
    TrainingMeasurement one;
    one.ranks = csv.whole(row, "gpus", 1, 0);
    one.nodes = csv.whole(row, "nodes", 1, 1);
    one.samples_per_second = csv.number(row, "throughput", 1e-9);
    one.accumulation = row.text("accumulation").empty() ? 0 : csv.whole(row, "accumulation", 1, 0);
    one.batch_per_gpu = row.text("batch_per_gpu").empty() ? 0 : csv.whole(row, "batch_per_gpu", 1, 0);
    one.servers = row.text("servers").empty() ? 0 : csv.whole(row, "servers", 1, 0);
    one.table = from.name;
    one.origin = {from.data, row.line};
    if (one.ranks % one.nodes != 0) {
      csv.fail(row, "gpus", "as many GPUs on each node");
    }
    const std::string use = row.text("use");
    if (use != "fit" && use != "test") {
      csv.fail(row, "use", "\"fit\" or \"test\"");
    }
    (use == "fit" ? rows.fit : rows.test).push_back(one);
    if (rows.source.empty()) {
      rows.source = row.text("source");
    }
  }
  if (rows.fit.empty() || rows.test.empty()) {
    throw InputError("expected rows of use \"fit\" and of use \"test\", found none of " +
                         std::string(rows.fit.empty() ? "\"fit\"" : "\"test\""),
                     {}, from.data);
  }
  return rows;
}

// ln of samples/s over ln of GPUs, a line through the fitted rows; with one number of GPUs: as many times as fast.
class LogLine {
 public:
  explicit LogLine(std::span<const TrainingMeasurement> rows) {
    double x = 0, y = 0, xx = 0, xy = 0;
    for (const TrainingMeasurement& row : rows) {
      const double lx = std::log(row.ranks), ly = std::log(row.samples_per_second);
      x += lx, y += ly, xx += lx * lx, xy += lx * ly;
    }
    const auto n = static_cast<double>(rows.size());
    const double spread = xx - x * x / n;
    slope_ = spread > 1e-9 ? (xy - x * y / n) / spread : 1;
    offset_ = (y - slope_ * x) / n;
  }
  double at(int ranks) const { return std::exp(offset_ + slope_ * std::log(ranks)); }

 private:
  double slope_ = 1, offset_ = 0;
};

Scenario base_of(const TrainingCase& from) {
  Scenario base = load_scenario(from.scenario);
  if (!from.reduction_known && base.training.ddp.reduction == Reduction::pytorch_ddp) {
    base.training.ddp.reduction = Reduction::unknown;
  }
  return base;
}

}  // namespace

ComparedCase compare(const TrainingCase& from) {
  const Scenario base = base_of(from);
  const TrainingRows rows = read_rows(from);
  ComparedCase result{from.name, {}, rows.source.empty() ? from.source : rows.source, {}, from.excluded};
  for (const TrainingMeasurement& row : rows.fit) {
    result.fitted.push_back(std::to_string(row.ranks) + (row.ranks == 1 ? " GPU" : " GPUs"));
  }
  const TrainingMeasurement& smallest = *std::ranges::min_element(rows.fit, {}, &TrainingMeasurement::ranks);
  const LogLine line(rows.fit);
  const ProfileTraining fit = fit_training(base, rows.fit).result;
  for (const TrainingMeasurement& row : rows.test) {
    const ThroughputPrediction predicted = predict_throughput(fit, on_row(base, row));
    ComparedRow compared;
    compared.table = from.name;
    compared.origin = row.origin;
    compared.nodes = row.nodes;
    compared.ranks = row.ranks;
    compared.measured = row.samples_per_second;
    compared.predicted = predicted.samples_per_second;
    compared.low = predicted.low;
    compared.high = predicted.high;
    compared.on_line = line.at(row.ranks);
    compared.scaled = smallest.samples_per_second * row.ranks / smallest.ranks;
    result.rows.push_back(std::move(compared));
  }
  return result;
}

}  // namespace paceline
