// The published tables of scenarios/validation/collectives, with what the index says of them.
#pragma once

#include <string>
#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/import/import.h"
#include "calibrate/import/nccl_run.h"
#include "calibrate/validate/csv_table.h"
#include "scenarios/scenario.h"
#include "tests/files.h"

namespace paceline::published {

struct Log {
  std::string name;
  bool doubtful = false;
  FitRequest request;
  MeasuredData data;
};

inline std::vector<Log> logs() {
  const std::string folder = (kSource / "scenarios/validation/collectives/").string();
  const CsvTable index(folder + "index.csv", {"name", "file", "cluster"});
  std::vector<Log> all;
  for (const CsvTable::Row& row : index.rows()) {
    Log log;
    log.name = row.text("name");
    log.doubtful = row.text("doubtful") == "yes";
    const std::string cluster = row.text("cluster");
    log.request.cluster_name = cluster;
    log.request.cluster = load_cluster(cluster.ends_with(".json") ? folder + cluster : cluster);
    log.data = import_file(folder + row.text("file"));
    for (CollectiveMeasurement& one : log.data.collectives) {
      one.kind = *collective_called(row.text("collective"));
      one.ranks = index.whole(row, "gpus", 1, 0);
      one.nodes = index.whole(row, "nodes", 1, 0);
      one.nccl = row.text("nccl");
      one.algorithm = row.text("algo");
      one.protocol = row.text("proto");
      one.channels = index.whole(row, "channels", 0, 0);
      one.nvls = row.text("nvls") == "off" ? "off" : "";
    }
    all.push_back(std::move(log));
  }
  return all;
}

}  // namespace paceline::published
