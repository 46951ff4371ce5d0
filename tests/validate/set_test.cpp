// Is a set read as the README says, and a wrong one refused with place and cure?
#include <catch2/catch.hpp>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/validate/compare.h"
#include "calibrate/validate/validation_set.h"
#include "scenarios/scenario.h"
#include "tests/error_of.h"
#include "tests/files.h"

namespace paceline {
namespace {

using Catch::Contains;

const std::string kSets = (kSource / "scenarios/validation").string();
const std::string kStart = R"({"description": "d", "kind": "collective", "source": "s", )";

std::string refused(const std::string& json) {
  const TemporaryFolder folder;
  const std::string path = folder.write("set.json", json);
  return error_of([&] { load_validation_set(path); });
}

TEST_CASE("a small set of collectives") {
  const TemporaryFolder folder;
  const ValidationSet set = load_validation_set(folder.write("mine.json", kStart + R"("cluster": "dgx-a100",
    "fit": [{"data": "one.csv", "rows": "even", "nccl": "2.8"}],
    "test": [{"data": "two.csv", "nodes": 2, "gpus_per_node": 4, "collective": "all_gather", "nvls": false}],
    "tolerance": {"below_1MiB": 0.03}, "tolerance_of_each": {"worst": 0.2},
    "known_gaps": [{"which": "below_1MiB", "measured": 0.04, "why": "w"}]})"));
  REQUIRE(set.collective.size() == 1);
  CHECK(set.collective[0].name == "mine");
  REQUIRE(set.collective[0].folds.size() == 1);
  const ChosenRows& fit = set.collective[0].folds[0].fit.at(0);
  CHECK(fit.table.file == folder.file("one.csv"));
  CHECK(fit.rows == RowChoice::even);
  CHECK(fit.table.spec.nccl == "2.12");  // the oldest that is simulated
  CHECK(fit.table.nccl_stated);
  CHECK(fit.table.cluster.nodes == 1);
  CHECK(fit.table.cluster.gpus_per_node == 8);
  const CollectiveTable& test = set.collective[0].folds[0].test.at(0).table;
  CHECK(test.cluster.nodes == 2);
  CHECK(test.cluster.gpus_per_node == 4);
  CHECK(test.kind == CollectiveKind::all_gather);
  CHECK_FALSE(test.spec.nvls);
  CHECK_FALSE(test.nccl_stated);
  CHECK(test.source == "s");
  CHECK(set.tolerance[static_cast<std::size_t>(Figure::below_1mib)] == 0.03);
  CHECK_FALSE(set.tolerance[0]);
  CHECK(set.of_each[static_cast<std::size_t>(Figure::worst)] == 0.2);
  CHECK(set.known_gaps.at(0).which == Figure::below_1mib);
}

TEST_CASE("wrong sets are refused with place and cure") {
  const std::string fit = R"("cluster": "dgx-a100", "fit": [{"data": "a.csv"}], )";
  const std::string both = fit + R"("test": [{"data": "b.csv"}])";
  CHECK_THAT(refused("{"), Contains("set.json: line 1, column 2"));
  CHECK_THAT(refused("{}"), Contains("missing keys \"description\" and \"kind\""));
  CHECK_THAT(refused(kStart + R"("fits": []})"), Contains("unknown key \"fits\"; did you mean \"fit\"?"));
  CHECK_THAT(refused(kStart + R"("cluster": "dgx-a100"})"), Contains("there is nothing to predict"));
  CHECK_THAT(refused(kStart + fit + R"("source_": 1})"), Contains("did you mean \"source\"?"));
  CHECK_THAT(refused(R"({"description": "d", "kind": "collective", )" + both + "}"),
             Contains("missing key \"source\": where the measurements are published"));
  CHECK_THAT(refused(kStart + R"("cluster": "dgx-a100", "fit": [{"data": "a.csv"}]})"),
             Contains("missing key \"test\""));
  CHECK_THAT(refused(kStart + R"("fit": [{"data": "a.csv"}], "test": [{"data": "b.csv"}]})"),
             Contains("/fit/0: missing key \"cluster\", here or in the set"));
  CHECK_THAT(
      refused(kStart + R"("cluster": "dgx-a10", "fit": [{"data": "a.csv"}], "test": [{"data": "b"}]})"),
      Contains("/fit/0") && Contains("dgx-a100"));
  CHECK_THAT(refused(kStart + fit + R"("test": [{"rows": "odd"}]})"),
             Contains("/test/0: expected either table or data, found neither"));
  CHECK_THAT(refused(kStart + fit + R"("test": [{"table": "b"}]})"),
             Contains("/test/0: a table needs the key \"index\" of the set"));
  CHECK_THAT(refused(kStart + fit + R"("test": [{"data": "b.csv", "rows": "some"}]})"),
             Contains("/test/0/rows: unknown value \"some\"") && Contains("even"));
  CHECK_THAT(refused(kStart + both + R"(, "tolerance": {"from_1MB": 0.1}})"),
             Contains("/tolerance: unknown key \"from_1MB\"; did you mean \"from_1MiB\"?"));
  CHECK_THAT(refused(kStart + both + R"(, "tolerance": {"worst": "3 %"}})"), Contains("/tolerance/worst"));
  CHECK_THAT(refused(kStart + both + R"(, "scenario": "x.json"})"),
             Contains("expected no key \"scenario\", as it is for training"));
  CHECK_THAT(refused(kStart + both + R"(, "alternate": {}})"), Contains("/alternate: missing key \"index\""));
  CHECK_THAT(refused(kStart + both + R"(, "known_gaps": [{"which": "mean", "measured": 1, "why": "w"}]})"),
             Contains("/known_gaps/0: expected a figure above its tolerance, which is not given"));
  CHECK_THAT(refused(kStart + both + R"(, "tolerance": {"mean": 0.2},
                     "known_gaps": [{"which": "mean", "measured": 0.1, "why": "w"}]})"),
             Contains("above its tolerance, 0.2, found 0.1"));
  CHECK_THAT(refused(kStart + both + R"(, "tolerance": {"mean": 0.2},
                     "known_gaps": [{"case": "sets", "which": "mean", "measured": 1, "why": "w"}]})"),
             Contains("unknown case \"sets\"; did you mean \"set\"?"));
  CHECK_THAT(refused(R"({"description": "d", "kind": "training", "source": "s", "data": "x.csv"})"),
             Contains("missing key \"scenario\""));
  CHECK_THAT(error_of([] { load_validation_set("/nowhere/set.json"); }), Contains("/nowhere/set.json"));
}

TEST_CASE("the defaults are tried where nothing is fitted") {
  const TemporaryFolder folder;
  folder.write("index.csv",
               "name,file,collective,cluster,nodes,gpus_per_node,source,doubtful\n"
               "a,a.csv,all_reduce,dgx-a100,2,8,s,\nb,b.csv,all_gather,dgx-h100,1,8,s,yes\n"
               "c,c.csv,all_reduce,dgx-h100,2,8,s,not fitted\n");
  const std::string all = folder.write(
      "all.json", R"({"description": "d", "kind": "collective", "index": "index.csv", "defaults": true})");
  const ValidationSet set = load_validation_set(all);
  REQUIRE(set.collective.size() == 3);
  CHECK(set.collective[2].excluded.empty());  // it counts, and no default is fitted to it
  CHECK_FALSE(set.collective[2].folds.at(0).test.at(0).table.fitted);
  CHECK(set.collective[0].folds.at(0).test.at(0).table.fitted);
  CHECK(set.collective[0].folds.at(0).fit.empty());
  CHECK(set.collective[0].folds.at(0).test.at(0).table.name == "a");
  CHECK(set.collective[0].excluded.empty());
  CHECK_FALSE(set.collective[1].excluded.empty());

  folder.write("a.csv", "size_bytes,time_us\n1048576,100\n16777216,400\n");
  const std::string one = folder.write("one.json",
                                       R"({"description": "d", "kind": "collective", "source": "s",
                           "cluster": "dgx-a100", "test": [{"data": "a.csv", "nodes": 2}]})");
  const ComparedCase compared = compare(load_validation_set(one)).at(0);
  CHECK(compared.fitted.empty());
  REQUIRE(compared.rows.size() == 2);
  CollectiveTest test;
  test.cluster = load_cluster("dgx-a100");
  test.cluster.nodes = 2;
  test.sizes = {Bytes(1 << 20), Bytes(1 << 24)};
  const CollectivePrediction expected = predict_collectives(test, {});
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(compared.rows[i].predicted == to_seconds(expected.result.rows[i].time).value);
    CHECK(compared.rows[i].high == expected.intervals[i].high.value);
  }
  CHECK_THAT(refused(kStart + R"("defaults": true})"), Contains("/defaults: missing key \"index\""));
}

TEST_CASE("an index says what NCCL was set to") {
  const TemporaryFolder folder;
  const std::string index =
      folder.write("index.csv",
                   "name,file,collective,cluster,nodes,gpus_per_node,source,buffer_bytes,"
                   "gpus_per_process,socket_threads\n"
                   "plain,a.csv,all_reduce,dgx-a100,2,8,s,,,\n"
                   "set,b.csv,all_reduce,dgx-a100,2,8,s,8388608,2,4\n");
  const std::vector<CollectiveTable> tables = load_tables(index);
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].spec.sizes.buffer == Bytes(0));
  CHECK(tables[0].spec.gpus_per_process == 1);
  CHECK(tables[0].spec.socket_threads == 0);
  CHECK(tables[1].spec.sizes.buffer == Bytes(8 << 20));
  CHECK(tables[1].spec.gpus_per_process == 2);
  CHECK(tables[1].spec.socket_threads == 4);
}

TEST_CASE("wrong indexes are refused with line and column") {
  const auto with_index = [](const std::string& rows) {
    const TemporaryFolder folder;
    folder.write("index.csv", "name,file,collective,cluster,nodes,gpus_per_node,source\n" + rows);
    const std::string path = folder.write(
        "set.json", R"({"description": "d", "kind": "collective", "index": "index.csv", "alternate": {}})");
    return error_of([&] { load_validation_set(path); });
  };
  CHECK_THAT(with_index("a,a.csv,all_reduce,dgx-a100,two,8,s\n"),
             Contains("index.csv: line 2, column nodes: expected a whole number from 1 on, found \"two\""));
  CHECK_THAT(with_index("a,a.csv,all_reduc,dgx-a100,2,8,s\n"), Contains("line 2: unknown collective"));
  CHECK_THAT(with_index("a,a.csv,all_reduce,dgx-a100,2,8,\n"),
             Contains("line 2, column source: expected a text, found none"));
  CHECK_THAT(with_index("a,a.csv,all_reduce,dgx-a100,2,8\n"), Contains("line 2: expected 7 cells"));
  CHECK_THAT(with_index("a,a.csv,all_reduce,dgx-a100,2,8,s\na,a.csv,all_reduce,dgx-a100,2,8,s\n"),
             Contains("line 3, column name: expected each name once"));
  CHECK_THAT(with_index("a,a.csv,all_reduce,dgx-a100,2,8,s\n"), Contains("a.csv"));  // isn't there
}

TEST_CASE("the shipped sets are read, their fit and test rows are disjoint by construction") {
  std::size_t cases = 0;
  const std::vector<std::string> files = validation_files(kSets);
  CHECK(files.size() >= 9);
  for (const std::string& file : files) {
    const ValidationSet set = load_validation_set(file);
    INFO(file);
    const std::size_t of_set = set.collective.size() + set.training.size() + set.steps.size();
    const std::size_t of_kind = set.kind == SetKind::collective ? set.collective.size()
                                : set.kind == SetKind::training ? set.training.size()
                                                                : set.steps.size();
    CHECK(of_set > 0);
    CHECK(of_kind == of_set);
    cases += of_set;
    for (const CollectiveCase& each : set.collective) {
      for (const Fold& fold : each.folds) {
        for (const ChosenRows& fit : fold.fit) {
          for (const ChosenRows& test : fold.test) {
            const bool same = fit.table.file == test.table.file;
            CHECK((!same ||
                   (fit.rows != test.rows && fit.rows != RowChoice::all && test.rows != RowChoice::all)));
          }
        }
      }
    }
  }
  CHECK(cases > 90);
}

TEST_CASE("a folder stands for its sets, and an empty one for nothing") {
  const TemporaryFolder folder;
  CHECK_THAT(error_of([&] { validation_files(folder.path()); }), Contains("found none"));
  folder.write("b.json", "{}");
  folder.write("a.json", "{}");
  folder.write("a.csv", "");
  CHECK(validation_files(folder.path()) ==
        std::vector<std::string>{folder.file("a.json"), folder.file("b.json")});
}

}  // namespace
}  // namespace paceline
