// Campaigns in studies: sweeps over what a scenario with a given step may say, strategies by their checkpoints, what a
// page shows; and as a user runs them.
#include <catch2/catch.hpp>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "studies/campaign_view.h"
#include "studies/compare_campaigns.h"
#include "studies/evaluate.h"
#include "studies/strategy_choice.h"
#include "studies/sweep.h"
#include "tests/dice.h"
#include "tests/error_of.h"
#include "tests/files.h"
#include "tests/studies/small_study.h"

namespace paceline {
namespace {

using Catch::Contains;

// 32 GPUs; without failures all is known by hand.
std::string with_faults(const std::string& faults) {
  return R"({"cluster": {"node": {"preset": "dgx-a100", "pcie_bandwidth": "20 GB/s", "nics": 2,
      "nic_bandwidth": "10 GB/s"}, "nodes": 4}, "model": "resnet18",
      "training": {"batch_per_gpu": 8, "optimizer": "adam"}, "faults": )" +
         faults + "}";
}

const std::string kSound = with_faults(R"({"steps": 1000, "step": "4 s", "failures": [],
    "restart": {"load": "1 s"}, "checkpoint": {"stall": "5 s", "interval": {"steps": 10}}})");
const std::string kFailing = with_faults(R"({"length": "30 d", "step": "4 s", "seeds": 5, "spares": 1,
    "failures": [{"of": "node", "mtbf": "40 d", "repair": "8 h"}, {"of": "software", "mtbf": "9 d"}],
    "slow_nodes": [{"every": "20 d", "lasts": "6 h", "factor": 1.5}],
    "restart": {"load": "60 s"}, "checkpoint": {"stall": "20 s", "interval": "daly"}})");

nlohmann::json line_of_point(const Study& study, std::size_t point) {
  return nlohmann::json::parse(sweep_line(study, study.points[point]));
}

TEST_CASE("a sweep over a step that is given: goodput by hand without failures") {
  const Study stalls =
      study(R"([{"key": "/faults/checkpoint/stall", "values": ["5 s", "15 s", "0 s"]}])", kSound);
  for (const auto& [point, wall] : {std::pair{0, 4500.0}, {1, 5500.0}, {2, 4000.0}}) {
    const nlohmann::json line = line_of_point(stalls, static_cast<std::size_t>(point));
    CAPTURE(line.dump());
    CHECK(line["goodput"] == Approx(4000 / wall).epsilon(1e-12));
    CHECK(line["campaign"]["wall_s"] == Approx(wall).epsilon(1e-12));
    CHECK(line["campaign"]["losses_s"]["checkpoint"] == Approx(wall - 4000));
    CHECK(line["campaign"]["steps"] == 1000);
    CHECK(line["campaign"]["interval_s"] == Approx(40));
    CHECK(line["gpus"] == 32);
    CHECK_FALSE(line.contains("step_time_s"));
  }
}

TEST_CASE("a sweep's goodput is that of the same campaign run alone, over MTBF, interval and spares") {
  const Study all = study(R"([{"key": "/faults/failures/0/mtbf", "values": ["40 d", "160 d"]},
      {"key": "/faults/checkpoint/interval", "values": ["10 min", "daly", {"steps": 500}]},
      {"key": "/faults/spares", "values": [0, 2]}])",
                          kFailing);
  REQUIRE(all.points.size() == 12);
  for (std::size_t i = 0; i < all.points.size(); ++i) {
    const nlohmann::json line = line_of_point(all, i);
    Json written = parse_json(kFailing);
    const Json::Object& axes = all.points[i].axes;
    set_at(written, "/faults/failures/0/mtbf", axes[0].value, "");
    set_at(written, "/faults/checkpoint/interval", axes[1].value, "");
    set_at(written, "/faults/spares", axes[2].value, "");
    Machines machines;
    const CampaignPrediction alone = predict_campaign(parse_scenario(to_line(written), "s.json"), machines);
    const Spread goodput = goodput_of(alone);
    CHECK(line["goodput"] == Approx(goodput.mean).epsilon(1e-14));
    CHECK(line["goodput_p5"] == Approx(goodput.p5).epsilon(1e-14));
    CHECK(line["campaign"]["system_mtbf_s"] == Approx(alone.inputs.m.value).epsilon(1e-14));
    double lost = 0;
    for (const auto& [name, seconds] : line["campaign"]["losses_s"].items()) {
      lost += seconds.get<double>();
    }
    CHECK(lost / line["campaign"]["wall_s"].get<double>() == Approx(1 - goodput.mean).epsilon(1e-6));
  }
}

TEST_CASE("strong scaling of a step that is given has no meaning") {
  const nlohmann::json line =
      line_of_point(study(R"([{"key": "gpus", "values": [8, 16]}])", kSound, R"(, "scaling": "strong")"), 0);
  CHECK_THAT(line["error"]["message"].get<std::string>(), Contains("compares it with one GPU alone"));
  CHECK(line["error"]["place"] == "/faults/step");
}

TEST_CASE("strategies by what their checkpoints take, where the step is given") {
  Json scenario = parse_json(kSound);
  set_at(scenario, "/faults/checkpoint",
         Json::Object{{"bytes", "640 GB"}, {"storage_bandwidth", "40 GB/s"}, {"interval", "400 s"}}, "");
  REQUIRE(gives_step(scenario));
  const CampaignComparison c =
      compare_campaigns(scenario, "s.json", strategy_choices("fsdp,ddp"), 2, [](Scenario s) { return s; });
  // DDP's first GPU saves all: 640 GB at 20 GB/s, twice; of FSDP each of 32: 1 s and 16 s.
  const nlohmann::json told = nlohmann::json::parse(comparison_json(c));
  CHECK(told["strategies"][1]["stall_s"] == Approx(64));
  CHECK(told["strategies"][1]["goodput"] == Approx(4000 / (4000 + 10 * 64.0)));
  CHECK(told["strategies"][0]["stall_s"] == Approx(17).epsilon(0.01));
  CHECK(told["strategies"][0]["goodput"] == Approx(4000 / (4000 + 10 * 17.0)).epsilon(1e-3));
  CHECK_THAT(c.verdict, Catch::StartsWith("fsdp keeps most, 95.9") && Contains("ddp loses 9.72"));
  CHECK_THAT(comparison_text(c), Contains("1.067 min") && Contains("as told"));
  CHECK_THAT(error_of([&] {
               compare_campaigns(scenario, "s.json", strategy_choices("fsdp,parameter_server"), 1,
                                 [](Scenario s) { return s; });
             }),
             Contains("parameter_server: ") && Contains("as parameters are kept by servers"));
}

template <class T>
std::vector<T> column_values(const RunView& view, const std::string& name) {
  const auto found = std::ranges::find(view.columns, name, &Column::name);
  REQUIRE(found != view.columns.end());
  std::vector<T> all(found->bytes.size() / sizeof(T));
  std::memcpy(all.data(), found->bytes.data(), found->bytes.size());
  return all;
}

TEST_CASE("what a page shows of a campaign is its account") {
  const Scenario scenario = parse_scenario(kFailing, "s.json");
  Machines machines;
  const CampaignPrediction p =
      predict_campaign(scenario, machines, {.log = true, .levers = true, .progress = {}});
  const RunView view = campaign_view(scenario, p);
  const CampaignReport& report = p.reports.front();
  const nlohmann::json about = nlohmann::json::parse(to_line(view.about));
  const auto from = column_values<double>(view, "event_from_s"),
             to = column_values<double>(view, "event_to_s"),
             undone = column_values<double>(view, "event_undone_s"),
             useful = column_values<double>(view, "event_useful_s");
  const auto what = column_values<std::uint8_t>(view, "event_what");
  const auto label = column_values<std::uint32_t>(view, "event_label");
  const auto kind = column_values<std::uint16_t>(view, "event_kind");
  REQUIRE(from.size() == report.events.size());
  REQUIRE(from.size() > 100);
  const auto sum = [](const std::vector<double>& all) {
    return std::accumulate(all.begin(), all.end(), 0.0);
  };
  CHECK(sum(useful) == Approx(to_seconds(report.goodput).value));
  CHECK(sum(undone) ==
        Approx(to_seconds(report.losses[static_cast<std::size_t>(CampaignLoss::redone_steps)]).value));
  CHECK(about["wall_s"] == Approx(30 * 86400.0));
  CHECK(to.back() == Approx(30 * 86400.0));
  std::vector<std::int64_t> failures(2);
  bool slow = false;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::string text = about["labels"][label[i]];
    slow = slow || text == "4 nodes; 1 in slow nodes 0";
    if (about["whats"][what[i]] == "failure") {
      REQUIRE(kind[i] < 2);
      ++failures[kind[i]];
      CHECK(text.starts_with(about["kinds"][kind[i]].get<std::string>()));
    } else {
      CHECK(kind[i] == 65'535);
    }
  }
  CHECK(failures == report.failures);
  CHECK(slow);
}

TEST_CASE("a campaign tells how many of its campaigns have ended") {
  Machines machines;
  std::vector<std::size_t> told;
  const auto tell = [&](std::size_t done, std::size_t all) {
    CHECK(all == 5 * 5);  // five seeds, as they are and with four levers
    told.push_back(done);
  };
  predict_campaign(parse_scenario(kFailing, "s.json"), machines,
                   {.log = false, .levers = true, .progress = tell});
  REQUIRE(told.size() == 25);
  CHECK(told.front() == 1);
  CHECK(std::ranges::is_sorted(told));
}

TEST_CASE("why a step takes the mean is told", "[release]") {
  const auto taken = [](const std::string& length, const std::string& more = "") {
    Machines machines;
    const Scenario scenario =
        parse_scenario(R"({"cluster": {"node": "dgx-a100", "nodes": 2}, "model": "resnet18",
        "training": {"batch_per_gpu": 8}, "run": {"iterations": 5}, )" +
                           more + R"("faults": {"length": ")" + length + R"(", "seeds": 1000,
        "failures": [], "restart": {"load": "1 s"}, "checkpoint": {"stall": "1 s", "interval": "1 h"}}})",
                       "s.json");
    const CampaignPrediction p = predict_campaign(scenario, machines);
    return std::pair{std::string(name_of(p.taken)), campaign_table(scenario, p)};
  };
  const std::string jitters =
      R"("variability": {"per_iteration": {"distribution": "lognormal", "cv": 0.1}}, )";
  CHECK(taken("1 min").first == "mean");
  CHECK_THAT(taken("1 min").second, Contains("a step takes the mean of those simulated of its state\n"));
  CHECK(taken("1 min", jitters).first == "drawn");
  CHECK_THAT(taken("1 min", jitters).second, Contains("one of the 5 simulated of its state, drawn"));
  const auto [word, page] = taken("30 d", jitters);
  CHECK(word == "mean");
  CHECK_THAT(page, Contains("not drawn ones: ") &&
                       Contains("T would be drawn in all seeds and levers, more than 300.0 M"));
}

TEST_CASE("a campaign from the command line: bytes for any number of threads, events, sweeps, strategies") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& words) { return shell(folder, "'" PACELINE_PROGRAM "' " + words); };
  folder.write("given.json", kFailing);
  folder.write("simulated.json", R"({"cluster": {"node": "dgx-a100", "nodes": 3}, "model": "resnet18",
      "training": {"batch_per_gpu": 8, "optimizer": "adam"}, "run": {"iterations": 3},
      "variability": {"per_iteration": {"distribution": "lognormal", "cv": 0.05}},
      "faults": {"length": "2 h", "seeds": 3, "elastic": {"min_nodes": 1},
      "failures": [{"of": "node", "mtbf": "6 h", "repair": "10 min"}],
      "slow_nodes": [{"every": "6 h", "lasts": "20 min", "factor": 1.3}],
      "restart": {"load": "5 s"}, "checkpoint": {"stall": "1 s", "interval": "5 min"}}})");
  const std::vector<std::string> names{"given", "simulated"};
  for (std::size_t i = 0; i < names.size(); i += stride()) {
    const std::string& name = names[i];
    for (const std::string jobs : {"1", "2", "8"}) {
      const Outcome outcome = run("run " + name + ".json --jobs " + jobs + " --out " + name + jobs +
                                  ".json --events " + name + jobs + ".csv");
      INFO(outcome.error);
      REQUIRE(outcome.status == 0);
      CHECK(text_of(folder.file(name + jobs + ".json")) == text_of(folder.file(name + "1.json")));
      CHECK(text_of(folder.file(name + jobs + ".csv")) == text_of(folder.file(name + "1.csv")));
    }
    const Outcome again =
        run("run " + name + "1.json --out " + name + "_again.json --quiet");  // of its result
    INFO(again.error);
    CHECK(again.status == 0);
    CHECK(text_of(folder.file(name + "_again.json"))
              .find(nlohmann::json::parse(text_of(folder.file(name + "1.json")))["campaign"]["fingerprint"]
                        .get<std::string>()) != std::string::npos);
  }
  CHECK_THAT(text_of(folder.file("given1.csv")),
             Catch::StartsWith("from_s,to_s,what,which,steps,undone_s,useful_s\n"));
  folder.write("s.json", study_text(R"([{"key": "/faults/spares", "values": [0, 2]}])", kFailing));
  const Outcome sweep = run("sweep s.json --out out --jobs 2");
  INFO(sweep.out << sweep.error);
  CHECK(sweep.status == 0);
  CHECK_THAT(sweep.out,
             Contains("spares") && Contains("goodput (%)") && Contains("30.00 d") && !Contains("samples/s"));
  const Outcome compared = run("compare given.json --strategies fsdp,ddp");
  INFO(compared.error);
  CHECK(compared.status == 0);
  CHECK_THAT(compared.out, Contains("goodput") && Contains("ddp keeps as much"));
}

}  // namespace
}  // namespace paceline
