// Does a run compare what its set asks for, and say whether it held?
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <sstream>

#include "calibrate/validate/compare.h"
#include "calibrate/validate/defaults.h"
#include "calibrate/validate/pairs.h"
#include "calibrate/validate/validate.h"
#include "scenarios/json.h"
#include "scenarios/scenario.h"
#include "tests/error_of.h"
#include "tests/files.h"

namespace paceline {
namespace {

using Catch::Contains;

// 64 KiB to 256 MiB on eight GPUs of a DGX A100: latency and bytes over a rate, no switch of protocols.
std::string table(double slower = 1) {
  std::string text = "size_bytes,time_us,gpus\n";
  for (int shift = 16; shift <= 28; ++shift) {
    const double bytes = std::ldexp(1, shift);
    text += number_text(bytes) + ',' + number_text(slower * (40 + bytes / 130e3)) + ",8\n";
  }
  return text;
}

std::string set_of(const std::string& rest) {
  return R"({"description": "d", "kind": "collective", "source": "made", "cluster": "dgx-a100", )" + rest +
         "}";
}
const std::string kHalves =
    R"("fit": [{"data": "t.csv", "rows": "odd"}], "test": [{"data": "t.csv", "rows": "even"}])";

ValidationResult run(const std::string& json, ValidationForm form = ValidationForm::table) {
  const TemporaryFolder folder;
  folder.write("t.csv", table());
  folder.write("slow.csv", table(1.5));
  const std::vector<std::string> paths{folder.write("set.json", json)};
  return run_validation(paths, form);
}

TEST_CASE("a smooth curve is found again between its rows, a tolerance that is broken fails") {
  const ValidationResult result = run(set_of(kHalves + R"(, "tolerance": {"mean": 0.05})"));
  INFO(result.text);
  CHECK(result.holds);
  CHECK_THAT(result.text, Contains("128 KiB") && !Contains("64 KiB      8"));
  CHECK_THAT(result.text, Contains("6 held-out measurements"));
  CHECK_THAT(result.text, Contains("fitted: t (odd rows)") && Contains("source: made"));

  const ValidationResult broken = run(set_of(kHalves + R"(, "tolerance": {"mean": 0.000001})"));
  CHECK_FALSE(broken.holds);
  CHECK_THAT(broken.text, Contains("BROKEN"));
}

TEST_CASE("the figures are those of the rows: a machine that became 1.5 times slower") {
  const std::string json = set_of(R"("fit": [{"data": "t.csv"}], "test": [{"data": "slow.csv"}],
    "tolerance": {"mean": 0.1}, "known_gaps": [{"which": "mean", "measured": 0.5, "why": "it was throttled"}])");
  const ValidationResult result = run(json, ValidationForm::json);
  CHECK(result.holds);
  const Json all = parse_json(result.text);
  const Json& set = all.find("sets")->as<Json::Array>()->at(0);
  const Json& rows = *set.find("cases")->as<Json::Array>()->at(0).find("rows");
  REQUIRE(rows.as<Json::Array>()->size() == 13);
  double sum = 0;
  for (const Json& row : *rows.as<Json::Array>()) {
    const double measured = *row.find("measured_us")->as<double>();
    const double predicted = *row.find("predicted_us")->as<double>();
    sum += std::abs(std::log(predicted / measured));
    CHECK(*row.find("error")->as<double>() == Approx(predicted / measured - 1));
    CHECK(row.find("interpolated_us") == nullptr);  // another table
  }
  const double mean = std::expm1(sum / 13);
  CHECK(mean == Approx(0.5).epsilon(0.05));
  CHECK(*set.find("figures")->find("mean")->as<double>() == Approx(mean));
  const Json& check = set.find("checks")->as<Json::Array>()->at(0);
  CHECK(*check.find("verdict")->as<std::string>() == "known_gap");
  CHECK_THAT(run(json).text, Contains("known gap: it was throttled"));
  CHECK_THAT(run(json, ValidationForm::markdown).text, Contains("| set | 13 |"));
}

TEST_CASE("interpolation is of the fitted rows, and its figure their quotient") {
  const ValidationResult result = run(set_of(kHalves), ValidationForm::json);
  const Json all = parse_json(result.text);
  const Json& one = all.find("sets")->as<Json::Array>()->at(0).find("cases")->as<Json::Array>()->at(0);
  const Json& row = one.find("rows")->as<Json::Array>()->at(0);  // 128 KiB, between 64 and 256
  const auto time = [](double bytes) { return 40 + bytes / 130e3; };
  CHECK(*row.find("interpolated_us")->as<double>() == Approx(std::sqrt(time(65536) * time(262144))));
  CHECK(one.find("figures")->find("to_interpolation") != nullptr);
}

TEST_CASE("a row that is both fitted and tested is refused, whatever name its file has") {
  const auto refused = [](const std::string& rest) { return error_of([&] { run(set_of(rest)); }); };
  CHECK_THAT(refused(R"("fit": [{"data": "t.csv"}], "test": [{"data": "t.csv", "rows": "odd"}])"),
             Contains("t.csv: line 2: this row is fitted and tested"));
  CHECK_THAT(refused(R"("fit": [{"data": "t.csv", "rows": "even"}], "test": [{"data": "./t.csv"}])"),
             Contains("line 3: this row is fitted and tested"));
  CHECK_THAT(refused(R"("fit": [{"data": "t.csv"}], "test": [{"data": "slow.csv", "gpus_per_node": 4}])"),
             Contains("slow.csv: line 2: expected rows of 4 GPUs") && Contains("found 8"));
  CHECK_THAT(refused(R"("fit": [{"data": "t.csv"}], "test": [{"data": "none.csv"}])"), Contains("none.csv"));
  CHECK_THAT(refused(R"("fit": [{"data": "t.csv"}, {"data": "slow.csv", "cluster": "dgx-h100"}],
                        "test": [{"data": "t.csv"}])"),
             Contains("case set: expected one cluster in \"fit\", found \"dgx-a100\" and \"dgx-h100\""));
}

TEST_CASE("a first row that is slower than the next is published and doesn't count") {
  const TemporaryFolder folder;
  std::string text = table();
  text.insert(text.find('\n') + 1, "32768,500,8\n");
  folder.write("t.csv", text);
  const std::vector<std::string> paths{folder.write(
      "set.json",
      set_of(R"("fit": [{"data": "t.csv", "rows": "even"}], "test": [{"data": "t.csv", "rows": "odd"}])"))};
  const std::string table_text = run_validation(paths, ValidationForm::table).text;
  CHECK_THAT(table_text, Contains("not counted: slower than the next larger size: warm-up"));
  CHECK_THAT(table_text, Contains(" of 6 held-out"));
  CHECK_THAT(run_validation(paths, ValidationForm::markdown).text, Contains("- t, 32 KiB: measured 500.0"));
}

std::string run_training(const std::string& rows, ValidationForm form = ValidationForm::table) {
  const TemporaryFolder folder;
  folder.write("machine.json", R"({"cluster": {"node": {"preset": "dgx1-v100", "nics": 1}, "nodes": 2},
    "model": "resnet18", "training": {"batch_per_gpu": 128}})");
  folder.write("rows.csv", "gpus,nodes,accumulation,throughput,use\n" + rows);
  const std::vector<std::string> paths{folder.write("set.json", R"({"description": "d", "kind": "training",
    "source": "made", "scenario": "machine.json", "data": "rows.csv", "overlap_known": true})")};
  return run_validation(paths, form).text;
}

TEST_CASE("training: perfect scaling from the smallest row stands beside the prediction") {
  // From 1,000.2 a GPU: 8,001.6, measured 7,900 and 1.3 % above it.
  const std::string rows = "1,1,,1000.2,fit\n8,1,,7900,test\n";
  CHECK_THAT(run_training(rows), Contains("log-log line  perfect scaling\n") &&
                                     Contains("    +1.3 %     +1.3 %\n") && Contains("  source: made\n"));
  CHECK_THAT(run_training(rows, ValidationForm::markdown),
             Contains("| mean | bias | perfect scaling | log-log line | worst |"));
  const Json all = parse_json(run_training(rows, ValidationForm::json));
  const Json& one = all.find("sets")->as<Json::Array>()->at(0).find("cases")->as<Json::Array>()->at(0);
  CHECK(*one.find("rows")->as<Json::Array>()->at(0).find("perfect_scaling_samples_per_s")->as<double>() ==
        Approx(8001.6));
  CHECK(*one.find("figures")->find("perfect_scaling")->as<double>() == Approx(8001.6 / 7900 - 1));
}

TEST_CASE("training: a row's parameter servers are simulated", "[release]") {
  const TemporaryFolder folder;
  folder.write("machine.json", R"({"cluster": {"node": {"preset": "dgx1-v100", "nics": 1}, "nodes": 2},
    "model": "resnet18", "training": {"batch_per_gpu": 128, "strategy": "parameter_server",
      "parameter_server": {"servers": {"placement": "with_workers", "memory_bandwidth": "4 GB/s"}}}})");
  const auto error = [&](const std::string& servers) {
    folder.write("rows.csv",
                 "gpus,nodes,servers,throughput,use\n1,1,1,1000,fit\n16,2," + servers + ",10000,test\n");
    const std::vector<std::string> paths{folder.write("set.json", R"({"description": "d", "kind": "training",
      "source": "made", "scenario": "machine.json", "data": "rows.csv", "overlap_known": true})")};
    const Json all = parse_json(run_validation(paths, ValidationForm::json).text);
    const Json& one = all.find("sets")->as<Json::Array>()->at(0).find("cases")->as<Json::Array>()->at(0);
    return *one.find("rows")->as<Json::Array>()->at(0).find("error")->as<double>();
  };
  CHECK(error("") == error("1"));
  CHECK(1 + error("2") >
        1.5 * (1 + error("1")));  // a step waits for 16 pushes of 46.8 MB, one after the other
  CHECK_THAT(error_of([&] { error("0"); }), Contains("column servers: expected a whole number from 1 on"));
}

TEST_CASE("training: a row's accumulation is simulated", "[release]") {
  const auto error = [](const std::string& accumulation) {  // of 16 GPUs on two nodes, anchored to 8
    const Json all = parse_json(
        run_training("8,1,,7900,fit\n16,2," + accumulation + ",15000,test\n", ValidationForm::json));
    const Json& one = all.find("sets")->as<Json::Array>()->at(0).find("cases")->as<Json::Array>()->at(0);
    return *one.find("rows")->as<Json::Array>()->at(0).find("error")->as<double>();
  };
  CHECK(error("") == error("1"));
  CHECK(error("16") > error("1") + 0.005);  // fewer reductions over the one NIC
}

TEST_CASE("training: rows by their use, and wrong ones with line and column") {
  const std::string text = run_training("1,1,,1000,fit\n8,1,,7900,test\n");
  CHECK_THAT(text, Contains("fitted: 1 GPU\n") && Contains("8 GPUs") && Contains("7900.0"));
  const auto refused = [&](const std::string& rows) { return error_of([&] { run_training(rows); }); };
  CHECK_THAT(refused("1,1,,1000,fit\n8,1,,7900,predict\n"),
             Contains("rows.csv: line 3, column use: expected \"fit\" or \"test\", found \"predict\""));
  CHECK(refused("1,1,,990,fit\n1,1,,1010,fit\n8,1,,7900,test\n8,1,,7950,test\n").empty());  // repeated runs
  CHECK_THAT(refused("1,1,,1000,fit\n"), Contains("found none of \"test\""));
  CHECK_THAT(refused("1,1,,fast,fit\n"), Contains("line 2, column throughput: expected a number"));
  CHECK_THAT(refused("1,1,0,1000,fit\n"),
             Contains("line 2, column accumulation: expected a whole number from 1 on"));
  CHECK_THAT(refused("3,2,,10,fit\n"), Contains("line 2, column gpus: expected as many GPUs on each node"));
}

TEST_CASE("pairs: each table of a cluster by a profile of each other, beside the defaults") {
  const TemporaryFolder folder;
  folder.write("index.csv",
               "name,file,collective,cluster,nodes,gpus_per_node,source,doubtful\n"
               "fast,fast.csv,all_reduce,dgx-a100,1,8,s,\nslow,slow.csv,all_reduce,dgx-a100,1,8,s,\n"
               "other,slow.csv,all_reduce,dgx-h100,1,8,s,\nbad,slow.csv,all_reduce,dgx-a100,1,8,s,yes\n");
  const auto write = [&](const char* name, double factor) {
    CollectiveTest test;
    test.cluster = load_cluster("dgx-a100");
    for (std::int64_t size = 1 << 16; size <= 1 << 30; size *= 4) {
      test.sizes.emplace_back(size);
    }
    std::string rows = "size_bytes,time_us\n";
    for (const CollectiveCost& row : run_collective_test(test).rows) {
      rows += std::to_string(row.plan.bytes.value) + ',' +
              std::to_string(static_cast<double>(row.time.ps) * 1e-6 * factor) + '\n';
    }
    folder.write(name, rows);
  };
  write("fast.csv", 1);
  write("slow.csv", 1.5);
  const std::vector<ComparedPair> pairs = compare_pairs(folder.file("index.csv"), {});
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[0].fitted == "fast");
  CHECK(pairs[0].predicted == "slow");
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(pairs[0].with_defaults[c].value() == Approx(0.5).epsilon(0.01));  // as the tables were made
    CHECK(pairs[0].with_profile[c].value() == Approx(0.5).epsilon(0.05));
    CHECK(pairs[1].with_defaults[c].value() < 0.01);
    CHECK(pairs[1].with_profile[c].value() > 0.3);  // worse by far
  }
  const std::string page = pairs_page(pairs);
  CHECK_THAT(page, Contains("all pairs") && Contains("one node from one") && !Contains("several nodes from"));
  CHECK(page.find("slow") < page.find("fast", page.find("the worst")));
}

TEST_CASE(
    "what one site's rates say of a network is known at another, even where smaller sizes don't show it") {
  constexpr double kCarried = 0.75, kDefault = 0.9686;  // of the NICs' rate
  constexpr Bytes kOfRates(256 << 20);
  const TemporaryFolder folder;
  folder.write("cluster.json", text_of(kSource / "scenarios/validation/collectives/perlmutter.json"));
  folder.write("index.csv",
               "name,file,collective,cluster,nodes,gpus_per_node,nccl,nccl_known,source,doubtful,site\n"
               "a,t.csv,all_reduce,cluster.json,2,4,2.21,yes,s,no,a\n"
               "b,t.csv,all_reduce,cluster.json,2,4,2.21,yes,s,no,b\n");
  CollectiveTest test;
  test.cluster = load_cluster(folder.file("cluster.json"));
  test.collective.nccl = "2.21";
  std::string rows = "size_bytes,time_us\n";
  for (std::int64_t size = 1 << 12; size <= 1 << 30; size *= 2) {
    test.sizes = {Bytes(size)};
    test.collective.costs = {{"network.efficiency", test.sizes[0] < kOfRates ? kDefault : kCarried}};
    const SimTime time = run_collective_test(test).rows[0].time;
    rows += std::to_string(size) + ',' + std::to_string(static_cast<double>(time.ps) * 1e-6) + '\n';
  }
  folder.write("t.csv", rows);
  const DefaultsFit fit = fit_defaults(folder.file("index.csv"), {});
  int of_rates = 0;
  for (const HeldOutRow& row : fit.held_out) {
    if (row.bytes >= kOfRates.value) {
      ++of_rates;
      CHECK(std::abs(row.log_ratio) < 0.2 * std::log(kDefault / kCarried));
    }
  }
  CHECK(of_rates == 6);  // 256 MiB to 1 GiB at two sites
}

TEST_CASE("nothing named, nothing run") {
  CHECK_THAT(error_of([] { run_validation({}, ValidationForm::table); }), Contains("scenarios/validation"));
}

TEST_CASE("shipped sets hold, with the figures that docs/accuracy.md states") {
  const std::string document = text_of(kSource / "docs/accuracy.md");
#ifdef NDEBUG
  const std::vector<std::string> names{"gpu_counts_a100", "gpu_counts_v100",
                                       "deeplearningexamples_resnet50_fp32", "fsdp_mpt"};
#else
  const std::vector<std::string> names{"gpu_counts_v100"};  // with sanitizers the others take minutes
#endif
  for (const std::string& name : names) {
    const std::vector<std::string> paths{(kSource / "scenarios/validation" / (name + ".json")).string()};
    const ValidationResult result = run_validation(paths, ValidationForm::markdown);
    INFO(result.text);
    CHECK(result.holds);
    std::istringstream lines(result.text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("| ")) {  // of a table: the document has its figures
        CHECK_THAT(document, Contains(line));
      }
    }
  }
}

}  // namespace
}  // namespace paceline
