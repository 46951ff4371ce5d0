#include "calibrate/validate/validation_set.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "calibrate/import/import.h"
#include "calibrate/validate/csv_table.h"
#include "calibrate/validate/set_file.h"
#include "core/error.h"
#include "core/unknown_name.h"
#include "scenarios/collective_table.h"
#include "scenarios/file_kind.h"
#include "scenarios/files.h"
#include "sim/collective/nccl_words.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

const std::string kDoubtful = "marked doubtful in the index";

std::string beside(const fs::path& folder, const std::string& name) {
  return (folder / name).lexically_normal().string();
}

void set_cluster(CollectiveTable& table, const std::string& name, const fs::path& folder, int nodes,
                 int gpus_per_node) {
  table.cluster_name = name;
  table.cluster = load_cluster(name.ends_with(".json") ? beside(folder, name) : name);
  require_like_nodes(table.cluster);
  table.cluster.nodes = nodes;
  table.cluster.job_nodes = 0;
  table.cluster.gpus_per_node = gpus_per_node > 0 ? gpus_per_node : table.cluster.node.gpus;
}

CollectiveTable table_of(const CsvTable& index, const CsvTable::Row& row) {
  const fs::path folder = fs::path(index.path()).parent_path();
  CollectiveTable table;
  table.name = row.text("name");
  table.file = beside(folder, row.text("file"));
  table.source = row.text("source");
  table.doubtful = row.text("doubtful") == "yes";
  table.fitted = row.text("doubtful") != "not fitted";
  for (const char* const column : {"name", "file", "source", "cluster"}) {
    if (row.text(column).empty()) {
      index.fail(row, column, "a text");
    }
  }
  try {
    table.kind = collective_named(row.text("collective"));
    set_cluster(table, row.text("cluster"), folder, index.whole(row, "nodes", 1, 1),
                index.whole(row, "gpus_per_node", 1, 1));
  } catch (const InputError& error) {
    throw error.file().empty() ? error.at("line " + std::to_string(row.line)).in_file(index.path()) : error;
  }
  if (const std::string version = row.text("nccl"); !version.empty()) {
    table.spec.nccl = nearest_nccl(version);
    table.nccl_stated = row.text("nccl_known") == "yes";
  }
  table.spec.algorithm = row.text("algo");
  table.spec.protocol = row.text("proto");
  table.site = row.text("site").empty() ? table.name : row.text("site");
  table.spec.gpus_per_process = index.whole(row, "gpus_per_process", 1, 1);
  table.spec.min_channels = table.spec.max_channels = index.whole(row, "channels", 0, 0);
  table.spec.sizes.buffer = Bytes(index.whole(row, "buffer_bytes", 0, 0));
  table.spec.socket_threads = index.whole(row, "socket_threads", 0, table.spec.socket_threads);
  table.spec.nvls = row.text("nvls") != "off";
  return table;
}

using Index = std::map<std::string, CollectiveTable>;

// In the order of the file, and by name.
struct Tables {
  std::vector<std::string> order;
  Index by_name;
};

Tables read_index(const std::string& path) {
  const CsvTable csv(path, {"name", "file", "collective", "cluster", "nodes", "gpus_per_node", "source"});
  Tables tables;
  for (const CsvTable::Row& row : csv.rows()) {
    CollectiveTable table = table_of(csv, row);
    const std::string name = table.name;
    if (!tables.by_name.try_emplace(name, std::move(table)).second) {
      csv.fail(row, "name", "each name once");
    }
    tables.order.push_back(name);
  }
  return tables;
}

// Turns a file's parts into cases.
class SetBuilder {
 public:
  SetBuilder(const SetFile& file, std::string path)
      : file_(file), path_(std::move(path)), folder_(fs::path(path_).parent_path()) {}

  ValidationSet build() {
    ValidationSet set{path_,
                      file_.description,
                      file_.source,
                      file_.kind,
                      {},
                      {},
                      {},
                      file_.tolerance.values,
                      file_.tolerance_of_each.values,
                      file_.known_gaps};
    if (file_.source.empty() && file_.index.empty()) {
      throw InputError("missing key \"source\": where the measurements are published");
    }
    switch (file_.kind) {
      case SetKind::collective:
        set.collective = collective_cases();
        break;
      case SetKind::training:
        set.training = training_cases();
        break;
      case SetKind::steps:
        set.steps = step_cases();
        break;
    }
    check_gaps(set);
    return set;
  }

 private:
  std::vector<CollectiveCase> collective_cases() {
    forbid(!file_.scenario.empty(), "scenario", "training");
    forbid(!file_.data.empty(), "data", "training");
    forbid(file_.overlap_known, "overlap_known", "training");
    if (!file_.index.empty()) {
      tables_ = read_index(beside(folder_, file_.index));
    }
    std::vector<CollectiveCase> cases;
    if (file_.alternate) {
      cases = alternate_cases();
    }
    if (file_.defaults) {
      add_default_cases(cases);
    }
    if (!file_.fit.empty() && file_.test.empty()) {
      throw InputError("missing key \"test\": what is predicted");
    }
    if (!file_.test.empty()) {
      cases.push_back(
          case_of({fs::path(path_).stem().string(), {}, file_.fit, file_.test}, {"", folder_.string(), 0}));
    }
    for (std::size_t i = 0; i < file_.cases.size(); ++i) {
      cases.push_back(case_of(file_.cases[i], below(Spot{"/cases", {}, 0}, i)));
    }
    if (cases.empty()) {
      throw InputError(
          "missing key \"test\", \"cases\", \"alternate\" or \"defaults\": there is nothing to predict");
    }
    return cases;
  }

  std::vector<CollectiveCase> alternate_cases() {
    if (file_.index.empty()) {
      throw InputError("missing key \"index\": the tables that are meant", "/alternate");
    }
    std::vector<CollectiveCase> cases;
    for (const std::string& name : chosen(tables_.order)) {
      const CollectiveTable& table = tables_.by_name.at(name);
      if (import_file(table.file).collectives.size() <
          static_cast<std::size_t>(file_.alternate->least_rows)) {
        continue;
      }
      const ChosenRows odd{table, RowChoice::odd}, even{table, RowChoice::even};
      cases.push_back({name, {{{odd}, {even}}, {{even}, {odd}}}, table.doubtful ? kDoubtful : ""});
    }
    return cases;
  }

  void add_default_cases(std::vector<CollectiveCase>& cases) {
    if (file_.index.empty()) {
      throw InputError("missing key \"index\": the tables that are meant", "/defaults");
    }
    for (const std::string& name : chosen(tables_.order)) {
      const CollectiveTable& table = tables_.by_name.at(name);
      cases.push_back({name, {{{}, {{table, RowChoice::all}}}}, table.doubtful ? kDoubtful : ""});
    }
  }

  CollectiveCase case_of(const CaseOfFile& from, const Spot& spot) {
    CollectiveCase result{from.name, {Fold{}}, from.excluded};
    const auto take = [&](const std::vector<EntryOfFile>& entries, const char* key,
                          std::vector<ChosenRows>& to) {
      for (std::size_t i = 0; i < entries.size(); ++i) {
        to.push_back({entry_table(entries[i], below(below(spot, key), i)), entries[i].rows});
        if (to.back().table.doubtful && result.excluded.empty()) {
          result.excluded = kDoubtful;
        }
      }
    };
    take(from.fit, "fit", result.folds[0].fit);
    take(from.test, "test", result.folds[0].test);
    return result;
  }

  CollectiveTable entry_table(const EntryOfFile& entry, const Spot& spot) {
    if (entry.table.empty() == entry.data.empty()) {
      throw InputError(
          "expected either table or data, found " + std::string(entry.table.empty() ? "neither" : "both"),
          spot.place);
    }
    if (!entry.table.empty()) {
      const auto found = tables_.by_name.find(entry.table);
      if (found == tables_.by_name.end()) {
        throw InputError(file_.index.empty() ? "a table needs the key \"index\" of the set"
                                             : unknown_name("table", in_short(entry.table), tables_.order),
                         spot.place);
      }
      return found->second;
    }
    CollectiveTable table;
    table.name = fs::path(entry.data).stem().string();
    table.file = beside(folder_, entry.data);
    table.source = file_.source;
    const std::string& cluster = entry.cluster.empty() ? file_.cluster : entry.cluster;
    if (cluster.empty()) {
      throw InputError("missing key \"cluster\", here or in the set", spot.place);
    }
    try {
      set_cluster(table, cluster, folder_, entry.nodes, entry.gpus_per_node);
    } catch (const InputError& error) {
      throw error.file().empty() ? error.at(spot.place) : error;
    }
    table.kind = entry.collective;
    table.spec.library = entry.library;
    if (!entry.nccl.empty()) {
      table.spec.nccl = nearest_nccl(entry.nccl);
      table.nccl_stated = true;
    }
    table.spec.algorithm = entry.algorithm;
    table.spec.protocol = entry.protocol;
    table.spec.max_channels = entry.channels;
    table.spec.nvls = entry.nvls;
    return table;
  }

  std::vector<TrainingCase> training_cases() {
    forbid(!file_.fit.empty(), "fit", "collectives: the column \"use\" of data says it");
    forbid(!file_.test.empty(), "test", "collectives: the column \"use\" of data says it");
    forbid(!file_.cases.empty(), "cases", "collectives");
    forbid(file_.alternate.has_value(), "alternate", "collectives");
    forbid(!file_.cluster.empty(), "cluster", "collectives: the scenario says it");
    if (file_.index.empty()) {
      if (file_.scenario.empty() || file_.data.empty()) {
        throw InputError(std::string("missing key ") + (file_.data.empty() ? "\"data\"" : "\"scenario\"") +
                         ": a set of training has both, or \"index\"");
      }
      return {{fs::path(path_).stem().string(),
               beside(folder_, file_.scenario),
               beside(folder_, file_.data),
               file_.overlap_known,
               {},
               file_.source}};
    }
    const CsvTable csv(beside(folder_, file_.index), {"set", "overlap", "excluded"});
    std::map<std::string, TrainingCase> by_name;
    std::vector<std::string> order;
    const fs::path folder = fs::path(csv.path()).parent_path();
    for (const CsvTable::Row& row : csv.rows()) {
      const std::string name = row.text("set"), overlap = row.text("overlap");
      if (!overlap.empty() && overlap != "stated") {  // "unknown" reads as an empty cell
        csv.fail(row, "overlap", "\"stated\" or \"unknown\"");
      }
      TrainingCase one{name,
                       beside(folder, name + ".json"),
                       beside(folder, name + ".csv"),
                       !overlap.empty(),
                       row.text("excluded") == "yes" ? row.text("why") : "",
                       file_.source};
      if (row.text("excluded") == "yes" && one.excluded.empty()) {
        csv.fail(row, "why", "a reason");
      }
      by_name[name] = std::move(one);
      order.push_back(name);
    }
    std::vector<TrainingCase> cases;
    for (const std::string& name : chosen(order)) {
      cases.push_back(by_name.at(name));
    }
    return cases;
  }

  std::vector<StepCase> step_cases() {
    if (file_.index.empty() || file_.fit.empty()) {
      throw InputError(std::string("missing key ") + (file_.fit.empty() ? "\"fit\"" : "\"index\"") +
                       ": steps are predicted after collectives, case by case");
    }
    const CollectiveCase fitted = case_of({"", {}, file_.fit, {}}, {"", folder_.string(), 0});
    const CsvTable csv(beside(folder_, file_.index), {"case", "excluded"});
    const fs::path folder = fs::path(csv.path()).parent_path();
    std::vector<StepCase> cases;
    for (const CsvTable::Row& row : csv.rows()) {
      const std::string name = row.text("case");
      cases.push_back({name, beside(folder, name + ".json"), beside(folder, name + ".csv"), file_.source,
                       fitted.folds[0].fit, row.text("excluded")});
    }
    return cases;
  }

  // "tables", or all of the index.
  std::vector<std::string> chosen(const std::vector<std::string>& all) const {
    for (std::size_t i = 0; i < file_.tables.size(); ++i) {
      if (std::ranges::count(all, file_.tables[i]) == 0) {
        throw InputError(unknown_name("table", in_short(file_.tables[i]), all),
                         "/tables/" + std::to_string(i));
      }
    }
    return file_.tables.empty() ? all : file_.tables;
  }

  static void forbid(bool given, const std::string& key, const std::string& belongs_to) {
    if (given) {
      throw InputError("expected no key " + in_quotes(key) + ", as it is for " + belongs_to);
    }
  }

  // A gap without its tolerance would never be looked at.
  static void check_gaps(const ValidationSet& set) {
    std::vector<std::string> names;
    for (const CollectiveCase& each : set.collective) {
      names.push_back(each.name);
    }
    for (const TrainingCase& each : set.training) {
      names.push_back(each.name);
    }
    for (const StepCase& each : set.steps) {
      names.push_back(each.name);
    }
    for (std::size_t i = 0; i < set.known_gaps.size(); ++i) {
      const KnownGap& gap = set.known_gaps[i];
      const std::string place = "/known_gaps/" + std::to_string(i);
      if (!gap.case_name.empty() && std::ranges::count(names, gap.case_name) == 0) {
        throw InputError(unknown_name("case", in_short(gap.case_name), names), place);
      }
      const Tolerance& tolerance = gap.case_name.empty() ? set.tolerance : set.of_each;
      const std::optional<double>& limit = tolerance[static_cast<std::size_t>(gap.which)];
      if (!limit || gap.measured <= *limit) {
        throw InputError("expected a figure above its tolerance, " +
                             (limit ? number_text(*limit) : std::string("which is not given")) + ", found " +
                             number_text(gap.measured),
                         place);
      }
    }
  }

  const SetFile& file_;
  std::string path_;
  fs::path folder_;
  Tables tables_;
};

}  // namespace

ValidationSet load_validation_set(const std::string& path) {
  try {
    const Json json = parse_json(read_file(path));
    require_kind(json, {FileKind::validation_set});
    SetFile file;
    read_object(json, file, Spot{"", fs::path(path).parent_path().string(), 0});
    return SetBuilder(file, path).build();
  } catch (const InputError& error) {
    throw error.file().empty() ? error.in_file(path) : error;
  }
}

std::vector<std::string> validation_files(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return {path};
  }
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (entry.path().extension() == ".json") {
      files.push_back(entry.path().string());
    }
  }
  if (files.empty()) {
    throw InputError("expected validation sets (*.json) in this folder, found none", {}, path);
  }
  std::ranges::sort(files);
  return files;
}

std::vector<CollectiveTable> load_tables(const std::string& index) {
  Tables tables = read_index(index);
  std::vector<CollectiveTable> all;
  for (const std::string& name : tables.order) {
    all.push_back(std::move(tables.by_name.at(name)));
  }
  return all;
}

}  // namespace paceline
