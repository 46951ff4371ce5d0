// Is what a page shows what happened? Its slices against the trace, its sums against the result.
#include "studies/run_view.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "scenarios/link_traffic_json.h"
#include "scenarios/trace.h"
#include "tests/dice.h"
#include "tests/example.h"

namespace paceline {
namespace {

using nlohmann::json;

Prediction predicted_example(const std::string& name, int iterations) {
  return predict(example(name, iterations));
}

template <class T>
std::vector<T> values(const RunView& view, const std::string& name) {
  const auto at = std::ranges::find(view.columns, name, &Column::name);
  REQUIRE(at != view.columns.end());
  std::vector<T> found(at->bytes.size() / sizeof(T));
  std::memcpy(found.data(), at->bytes.data(), at->bytes.size());
  return found;
}

json about(const RunView& view) { return json::parse(to_line(view.about)); }

struct Sum {
  int count = 0;
  double milliseconds = 0;
};
using Sums = std::map<std::pair<std::uint32_t, int>, Sum>;  // by rank and stream

Sums sums_of_slices(const RunView& view) {
  const auto rank = values<std::uint32_t>(view, "slice_rank");
  const auto stream = values<std::uint16_t>(view, "slice_stream");
  const auto duration = values<float>(view, "slice_duration_ms"),
             waiting = values<float>(view, "slice_waiting_ms");
  Sums sums;
  bool wait_within = true;
  for (std::size_t i = 0; i < rank.size(); ++i) {
    Sum& sum = sums[{rank[i], stream[i]}];
    ++sum.count;
    sum.milliseconds += duration[i];
    wait_within = wait_within && waiting[i] >= 0 && waiting[i] <= duration[i];
  }
  CHECK(wait_within);
  return sums;
}

// What the profiler's file has of a step on GPU streams, communication threads, and where the host waits.
Sums sums_of_trace(const Prediction& p) {
  Sums sums;
  const json file = json::parse(trace_json(p));
  std::map<std::pair<std::uint32_t, int>, std::string> names;  // of tracks, by process and thread
  for (const json& event : file.at("traceEvents")) {
    if (event["ph"] == "M" && event["name"] == "thread_name") {
      const std::string name = event["args"]["name"];
      CHECK(names.try_emplace({event["pid"], event["tid"]}, name).second);
    }
    if (event["ph"] != "X") {
      continue;
    }
    const int thread = event["tid"];
    const std::string name = event["name"], category = event["cat"];
    const bool on_host = name.starts_with("enumerate(DataLoader)") || name == "cudaStreamSynchronize";
    if (event["dur"] == 0) {
      continue;  // the host didn't wait
    }
    if (thread == 1 ? !on_host : category == "gpu_user_annotation" && name.starts_with("iteration ")) {
      continue;
    }
    const bool hooks = names.at({event["pid"], thread}).ends_with(": hooks");
    Sum& sum = sums[{event["pid"], hooks ? 65'535 : thread == 1 ? 0 : thread == 7 ? 1 : thread - 20 + 2}];
    ++sum.count;
    sum.milliseconds += event["dur"].get<double>() * 1e-3;
  }
  return sums;
}

void check_slices(Prediction p, std::int64_t step) {
  const RunView view = run_view(p, {.step = step, .ranks = "0-1", .slices = 100'000});
  const json of = about(view);
  std::vector<Rank> shown;
  for (const std::uint32_t rank : of["shown"]) {
    shown.emplace_back(rank);
  }
  std::ranges::sort(shown);
  record_trace(p, {shown, static_cast<std::uint32_t>(step), 1});
  const Sums slices = sums_of_slices(view), traced = sums_of_trace(p);
  REQUIRE(slices.size() == traced.size());
  for (const auto& [place, sum] : traced) {
    INFO("rank " << place.first << ", stream " << place.second);
    REQUIRE(slices.contains(place));
    CHECK(slices.at(place).count == sum.count);
    const double cut = 2e-6 * sum.count + 1e-6 * sum.milliseconds;  // to nanoseconds, and to floats
    CHECK(std::abs(slices.at(place).milliseconds - sum.milliseconds) < cut);
  }
}

}  // namespace

TEST_CASE("the slices of a page are the operations of a trace") {
  constexpr std::array kTracedRuns{"slow_gpu_64",    "first_node",      "input_bottleneck",
                                   "stragglers_64",  "fsdp_llama3_8b",  "data_parallel_8_v100",
                                   "accumulation_8", "replay_two_hosts"};
  for (std::size_t i = 0; i < kTracedRuns.size(); i += stride()) {
    const char* const name = kTracedRuns[i];
    CAPTURE(name);
    const Prediction p = predicted_example(name, 3);
    check_slices(p, i % 2 == 0 ? 1 : 3);
  }
}

TEST_CASE("of gloo, whose collectives have a queue each, none is taken for the host, compute or hooks") {
  Scenario scenario = example("first_node");
  scenario.cluster.gpus_per_node = 2;
  scenario.model = builtin_model("resnet152");
  scenario.training.collective.library = CollectiveLibrary::gloo;
  scenario.training.ddp.first_bucket = scenario.training.ddp.bucket_cap = Bytes(1 << 12);
  scenario.training.compression.kind = CompressionKind::fp16;
  scenario.run.iterations = 1;
  const Prediction p = predict(scenario);
  CHECK(p.job.program(Rank(0), 1).collectives.size() > 200);
  check_slices(p, 1);
}

TEST_CASE("the critical path of any step adds up to it, and its ranks are shown first") {
  const Prediction p = predicted_example("slow_gpu_64", 4);
  for (std::int64_t step = 1; step <= 4; ++step) {
    const json of = about(run_view(p, {.step = step, .ranks = {}, .slices = 4'000}));
    CHECK(of["step"] == step);
    std::int64_t all = 0;
    for (const json& segment : of["critical_path"]["segments"]) {
      all += segment["duration_ps"].get<std::int64_t>();
      CHECK(of["reasons"][std::to_string(segment["rank"].get<int>())] == "critical path");
    }
    const auto at = static_cast<std::size_t>(step);
    const SimTime lasted = p.result.iteration_end[at] - p.result.iteration_end[at - 1];
    CHECK(all == lasted.ps);
    CHECK(of["duration_ms"].get<double>() == Approx(static_cast<double>(lasted.ps) * 1e-9));
    CHECK(of["shown"][0] == 37);
  }
}

TEST_CASE("rank by rank and step by step a page has what the result has in all") {
  constexpr std::array kWholeRuns{"slow_gpu_64", "two_jobs", "stragglers_64", "data_parallel_8_v100"};
  for (std::size_t which = 0; which < kWholeRuns.size(); which += stride()) {
    const char* const name = kWholeRuns[which];
    CAPTURE(name);
    const Prediction p = predicted_example(name, 3);
    const RunView view = run_view(p, {});
    const auto compute = values<float>(view, "step_compute_ms"),
               waited = values<float>(view, "step_waited_for_ms");
    const std::size_t ranks = p.job.ranks();
    REQUIRE(compute.size() == 3 * ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      double computed = 0, waited_for = 0;
      for (std::size_t i = r; i < compute.size(); i += ranks) {
        computed += compute[i];
        waited_for += waited[i];
      }
      CHECK(computed == Approx(to_seconds(p.result.breakdown[r].compute).value * 1e3).epsilon(1e-5));
      const double all = static_cast<double>(p.result.waited_for[r]) * 1e-9 / static_cast<double>(ranks);
      CHECK(waited_for == Approx(all).epsilon(1e-5).margin(1e-9));
    }
  }
}

TEST_CASE("devices have the topology's names, links their traffic", "[release]") {
  const Prediction p = predicted_example("two_jobs", 2);
  const Topology& topology = *p.topology;
  const RunView view = run_view(p, {});
  const json of = about(view);
  const auto kind = values<std::uint8_t>(view, "device_kind");
  const auto node = values<std::int32_t>(view, "device_node");
  const auto number = values<std::uint32_t>(view, "device_number");
  REQUIRE(kind.size() == topology.devices());
  for (std::size_t d = 0; d < kind.size(); ++d) {
    const std::string name = topology.device_name(DeviceId(d));
    std::string expected = node[d] < 0 ? "" : "node" + std::to_string(node[d]) + "/";
    expected += of["device_kinds"][kind[d]];
    CHECK((name == expected || name == expected + std::to_string(number[d])));
  }
  const auto bytes = values<float>(view, "link_bytes"), neighbours = values<float>(view, "link_neighbours");
  const LinkTraffic traffic = link_traffic(p);
  CHECK(std::accumulate(bytes.begin(), bytes.end(), 0.0) ==
        Approx(std::accumulate(traffic.bytes.begin(), traffic.bytes.end(), 0.0)).epsilon(1e-5));
  CHECK(std::accumulate(neighbours.begin(), neighbours.end(), 0.0) ==
        Approx(std::accumulate(traffic.neighbours.begin(), traffic.neighbours.end(), 0.0)).epsilon(1e-5));
  CHECK(of["links_left_out"] == 0);
}

TEST_CASE("a page's step, ranks and slices are the run's") {
  const Prediction p = predicted_example("slow_gpu_64", 2);
  const auto told = [&](const ViewChoice& choice) {
    try {
      run_view(p, choice);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  CHECK(told({.step = 3, .ranks = {}}) == "--step: expected a step from 1 to 2, found 3");
  CHECK(told({.step = 0, .ranks = {}}) == "--step: expected a step from 1 to 2, found 0");
  CHECK(told({.step = {}, .ranks = "64"}) == "--ranks: expected numbers up to 63, found 64");
  CHECK_THAT(told({.step = {}, .ranks = {}, .slices = 0}), Catch::StartsWith("--slices: expected at least "));
  const json of = about(run_view(p, {.step = {}, .ranks = "5", .slices = 100'000}));
  CHECK(of["shown"].size() == 64);
  CHECK(of["reasons"]["5"] == "asked for");
}

}  // namespace paceline
