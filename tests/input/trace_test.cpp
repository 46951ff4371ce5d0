// Does a trace say what the run did, as PyTorch's profiler would?
#include "scenarios/trace.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/predict.h"
#include "scenarios/trace_names.h"
#include "sim/report/overlap.h"
#include "tests/example.h"
#include "tests/trace_of_first.h"

namespace paceline {
namespace {

using nlohmann::json;

struct Span {
  std::int64_t start, end;  // ns
};

// The slices of each (process, track), in nanoseconds: they nest, or do not touch.
void check_nested(std::vector<Span> slices) {
  std::ranges::sort(slices,
                    [](Span a, Span b) { return a.start != b.start ? a.start < b.start : a.end > b.end; });
  std::vector<std::int64_t> open;
  bool nested = true;
  for (const Span& slice : slices) {
    while (!open.empty() && open.back() <= slice.start) {
      open.pop_back();
    }
    nested = nested && slice.start < slice.end && (open.empty() || slice.end <= open.back());
    open.push_back(slice.end);
  }
  CHECK(nested);
}

// The X events of a trace of that category.
std::vector<json> events_of(const json& trace, const std::string& category) {
  std::vector<json> events;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X" && event.at("cat") == category) {
      events.push_back(event);
    }
  }
  return events;
}

std::int64_t nanoseconds_of(const json& event, const char* key) {
  return std::llround(event.at(key).get<double>() * 1000);
}

TEST_CASE("the trace has a process per rank, a track per stream, and slices that nest", "[release]") {
  for (const char* name : {"slow_gpu_64", "input_bottleneck", "first_node"}) {
    CAPTURE(name);
    const Prediction p = predict(example(name), trace_of_first(5, 3));
    const json trace = json::parse(trace_json(p));
    std::map<std::pair<int, int>, std::vector<Span>> tracks;
    std::map<int, std::string> processes;
    std::map<std::string, int> names;
    for (const json& event : trace.at("traceEvents")) {
      const int pid = event.at("pid"), tid = event.at("tid");
      if (event.at("ph") == "M" && event.at("name") == "process_name") {
        processes[pid] = event.at("args").at("name");
      }
      if (event.at("ph") == "X") {
        const std::int64_t start = nanoseconds_of(event, "ts"), length = nanoseconds_of(event, "dur");
        CHECK(length >= 0);
        if (length > 0) {
          tracks[{pid, tid}].push_back({start, start + length});
        }
        ++names[event.at("name").get<std::string>()];
      }
    }
    CHECK(processes.size() == 5);
    CHECK(processes.at(3) == "rank 3 (node0/gpu3)");
    CHECK(names.at("ProfilerStep#2") == 5);
    CHECK(names.at("iteration 2") == 5);
    CHECK(names.at("DistributedDataParallel.forward") == 5 * 3);
    CHECK(names.at("backward") == 5 * 3);
    CHECK(names.at(p.scenario.training.optimizer == Optimizer::adam ? "Optimizer.step#Adam.step"
                                                                    : "Optimizer.step#SGD.step") == 5 * 3);
    CHECK(names["enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"] ==
          (p.scenario.training.input ? 5 * 3 : 0));
    for (auto& [track, slices] : tracks) {
      CHECK((track.second == 1 || track.second == 7 || track.second == 20));
      check_nested(std::move(slices));
    }
    CHECK(tracks.size() == 5 * 3);
  }
}

TEST_CASE("every kernel has its launch, an arrow from it, and an operator around it") {
  const Prediction p = predict(example("input_bottleneck"), trace_of_first(3, 4));
  const json trace = json::parse(trace_json(p));
  std::map<std::int64_t, json> launches, operators, departures, arrivals;
  for (const json& event : events_of(trace, "cuda_runtime")) {
    CHECK(launches.emplace(event.at("args").at("correlation"), event).second);
  }
  for (const json& event : events_of(trace, "cpu_op")) {
    CHECK(operators.emplace(event.at("args").at("External id"), event).second);
  }
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "s" || event.at("ph") == "f") {
      CHECK(event.at("cat") == "ac2g");
      (event["ph"] == "s" ? departures : arrivals)[event.at("id")] = event;
    }
  }
  const std::vector<json> kernels = events_of(trace, "kernel");
  REQUIRE(kernels.size() > 1000);
  for (const json& kernel : kernels) {
    const json& args = kernel.at("args");
    const json &launch = launches.at(args.at("correlation")), &around = operators.at(args.at("External id"));
    const bool nccl = kernel.at("tid") == 20;
    CHECK(kernel.at("tid") == args.at("stream"));
    CHECK(args.at("device") == kernel.at("pid"));  // one node: the rank is the device
    CHECK(launch.at("name") == (nccl ? "cudaLaunchKernelExC" : "cudaLaunchKernel"));
    CHECK(launch.at("pid") == kernel.at("pid"));
    CHECK(nanoseconds_of(launch, "ts") + nanoseconds_of(launch, "dur") <= nanoseconds_of(kernel, "ts"));
    CHECK(around.at("ts") == launch.at("ts"));
    CHECK(departures.at(args["correlation"]).at("ts") == launch.at("ts"));
    CHECK(arrivals.at(args["correlation"]).at("ts") == kernel.at("ts"));
  }
  CHECK(departures.size() == kernels.size());
  CHECK(arrivals.size() == kernels.size());
}

TEST_CASE("a communication kernel is named as NCCL's, and where the run had it") {
  const Prediction p = predict(example("first_node"), trace_of_first(1, 2));
  REQUIRE(p.result.trace.size() == 2);
  const TracedIteration& traced = p.result.trace[1];
  const Program& program = p.job.program(traced.rank, traced.iteration);
  const json trace = json::parse(trace_json(p));
  std::size_t found = 0, expected = 0;
  for (std::size_t i = 0; i < traced.ops.size(); ++i) {
    if (program.ops[i].kind != OpKind::collective) {
      continue;
    }
    ++expected;
    const CollectivePlan& plan = p.job.plans[program.collectives[program.ops[i].index]];
    for (const json& event : events_of(trace, "kernel")) {
      const json& args = event.at("args");
      if (event.at("tid") != 20 || nanoseconds_of(event, "ts") != traced.ops[i].start.ps / 1000) {
        continue;
      }
      ++found;
      CHECK(nanoseconds_of(event, "ts") + nanoseconds_of(event, "dur") == traced.ops[i].end.ps / 1000);
      CHECK(args.at("iteration") == traced.iteration);
      CHECK(args.at("label") == program.ops[i].label);
      CHECK(args.at("Group size") == 8);
      const bool reduces = plan.kind == CollectiveKind::all_reduce;
      CHECK(args.at("Collective name") == (reduces ? "allreduce" : "broadcast"));
      const std::int64_t bytes = args.at("dtype") == "Float" ? 4 : args.at("dtype") == "Long" ? 8 : 0;
      CHECK(args.at("In msg nelems").get<std::int64_t>() * bytes == plan.bytes.value);
      const std::string algorithm = plan.algorithm == Algorithm::tree ? "TREE" : "RING";
      CHECK(event.at("name") ==
            (reduces
                 ? "ncclDevKernel_AllReduce_Sum_f32_" + algorithm + "_LL(ncclDevKernelArgsStorage<4096ul>)"
                 : "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"));
    }
  }
  CHECK(expected > 1);
  CHECK(found == expected);
}

TEST_CASE("what an iteration leaves out is not in its trace") {
  Prediction p = predict(example("first_node"), {});
  std::size_t left_out = 0;
  for (Program* program : {&p.job.main().warm_up, &p.job.main().steady}) {
    for (Op& op : program->ops) {
      op.every = op.purpose.phase == Phase::exchange || op.kind == OpKind::wait ? 2 : 1;
      left_out += op.every == 2 ? 1 : 0;
    }
  }
  REQUIRE(left_out > 0);
  p.result = simulate(p.job, p.scenario.run, trace_of_first(2, 3));
  const json trace = json::parse(trace_json(p));
  std::map<std::int64_t, std::size_t> reduced;  // by iteration
  for (const json& event : trace.at("traceEvents")) {
    CHECK((!event.contains("dur") || nanoseconds_of(event, "dur") >= 0));
  }
  for (const json& event : events_of(trace, "kernel")) {
    reduced[event.at("args").at("iteration")] +=
        event.at("args").value("Collective name", "") == "allreduce" ? 1 : 0;
  }
  CHECK(reduced.at(0) > 0);
  CHECK(reduced.at(1) == 0);
  CHECK(reduced.at(2) > 0);
}

TEST_CASE("an average of local SGD is in the trace of every eighth step, in the parameters' format") {
  Scenario scenario = example("local_sgd_v100_4x8");
  scenario.model = builtin_model("bert_base");
  const Prediction p = predict(scenario, trace_of_first(1, 9));
  const json trace = json::parse(trace_json(p));
  std::vector<std::int64_t> averaged;  // in which iterations
  for (const json& event : trace.at("traceEvents")) {
    const json args = event.value("args", json::object());
    if (event.value("cat", "") == "kernel" && args.value("label", "") == "all_reduce parameters") {
      averaged.push_back(args.at("iteration").get<std::int64_t>());
      CHECK(args.at("dtype") == "Float");  // kernels and gradients are fp16
      CHECK(args.at("In msg nelems") == parameter_count(scenario.model));
    }
  }
  CHECK(averaged == std::vector<std::int64_t>{8});
}

TEST_CASE("casts of a shard are kernels of their own around their collective's") {
  Prediction p = predict(example("first_node"), {});
  const SimTime before{3'000'000}, after{2'000'000};
  for (Program* program : {&p.job.main().warm_up, &p.job.main().steady}) {
    for (Op& op : program->ops) {
      if (op.kind == OpKind::collective) {
        op.prepare = before;
        op.conclude = after;
      }
    }
  }
  p.result = simulate(p.job, p.scenario.run, trace_of_first(1, 1));
  std::map<std::int64_t, std::pair<std::int64_t, std::string>> ran;  // by start, ns: end and name
  for (const json& event : events_of(json::parse(trace_json(p)), "kernel")) {
    if (event.at("tid") == 20) {
      const std::int64_t start = nanoseconds_of(event, "ts");
      ran[start] = {start + nanoseconds_of(event, "dur"), event.at("name")};
    }
  }
  REQUIRE(ran.size() % 3 == 0);
  SimTime communicating;
  for (auto at = ran.begin(); at != ran.end();) {
    const auto cast = *at++, collective = *at++, divide = *at++;
    CHECK(cast.second.second == "cast shard");
    CHECK(cast.second.first == collective.first);
    CHECK(collective.second.second.starts_with("ncclDevKernel_"));
    CHECK(collective.second.first == divide.first);
    CHECK(divide.second.second == "cast shard");
    CHECK(cast.second.first - cast.first == Approx(3000).margin(1));
    CHECK(divide.second.first - divide.first == Approx(2000).margin(1));
    communicating += SimTime{1000 * (divide.first - collective.first)};
  }
  const std::vector<CommunicationOverlap> overlap = communication_overlap(p.job, p.result.trace);
  CHECK(static_cast<double>(overlap.at(0).communication.ps) ==
        Approx(static_cast<double>(communicating.ps)).epsilon(1e-4));
}

TEST_CASE("a trace of FSDP has casts and gathers on its stream, each pass annotated once") {
  Scenario scenario = example("fsdp_llama3_8b");
  scenario.cluster.nodes = 1;
  scenario.run.iterations = 1;
  const Prediction p = predict(scenario, trace_of_first(1, 2));
  std::map<std::string, int> names, gathered;
  int casts = 0;
  const json trace = json::parse(trace_json(p));
  for (const json& event : trace.at("traceEvents")) {
    ++names[event.at("name").get<std::string>()];
    const json args = event.value("args", json::object());
    casts += event.value("cat", "") == "kernel" && event.at("name") == "cast shard" ? 1 : 0;
    if (event.value("cat", "") == "kernel" && args.contains("Collective name")) {
      ++gathered[args.at("Collective name").get<std::string>() + " " + args.at("dtype").get<std::string>()];
      const std::int64_t in = args.at("In msg nelems"), out = args.at("Out msg nelems");
      CHECK((in == 8 * out || out == 8 * in));
    }
  }
  CHECK(names["forward"] == 2);
  CHECK(names["backward"] == 2);
  CHECK(names["Optimizer.step#Adam.step"] == 2);
  CHECK(casts == 2 * (33 + 32));  // gradients are reduced in fp32, the optimizer's format
  CHECK(gathered == std::map<std::string, int>{{"_allgather_base BFloat16", 2 * (33 + 32)},
                                               {"_reduce_scatter_base Float", 2 * 33}});
}

TEST_CASE("a trace names the optimizer's class") {
  const std::map<Optimizer, std::string> classes{{Optimizer::adamw, "AdamW"},
                                                 {Optimizer::lamb, "FusedLAMB"},
                                                 {Optimizer::lars, "FusedLARS"},
                                                 {Optimizer::adam_8bit, "Adam8bit"}};
  for (const auto& [optimizer, name] : classes) {
    Scenario scenario = example("first_node");
    scenario.training.optimizer = optimizer;
    scenario.run.iterations = 1;
    const std::string trace = trace_json(predict(scenario, trace_of_first(1, 1)));
    CHECK_THAT(trace, Catch::Contains("\"Optimizer.step#" + name + ".step\""));
  }
}

// What a trace says of each collective of a step, by its label: kind, type and elements that go in.
struct Carried {
  std::string kind, type;
  std::int64_t elements = 0;
};
std::map<std::string, Carried> carried(const Scenario& scenario) {
  std::map<std::string, Carried> made;
  const json trace = json::parse(trace_json(predict(scenario, trace_of_first(1, 2))));
  for (const json& event : trace.at("traceEvents")) {
    const json args = event.value("args", json::object());
    if (event.value("cat", "") == "kernel" && args.contains("dtype") && args.at("iteration") == 1) {
      made[args.at("label")] = {args.at("Collective name"), args.at("dtype"), args.at("In msg nelems")};
      if (args.at("Collective name") == "allreduce") {
        const std::string type = args.at("dtype");
        const std::string in_name = type == "Half" ? "_f16_" : type == "BFloat16" ? "_bf16_" : "_f32_";
        CHECK(event.at("name").get<std::string>().find(in_name) != std::string::npos);
      }
    }
  }
  return made;
}

TEST_CASE("a trace has what is sent in the type in which it is sent") {
  Scenario plain = example("first_node");
  plain.training.ddp.broadcast_buffers = false;
  const std::int64_t all = parameter_count(plain.model);
  const auto buckets = [&](const Scenario& scenario, const std::string& kind, const std::string& type,
                           const std::string& suffix = "") {
    std::int64_t elements = 0;
    for (const auto& [label, each] : carried(scenario)) {
      if (label.find(" bucket ") != std::string::npos && label.ends_with(suffix)) {
        CAPTURE(label);
        CHECK(each.kind == kind);
        CHECK(each.type == type);
        elements += each.elements;
      }
    }
    return elements;
  };
  CHECK(buckets(plain, "allreduce", "Float") == all);
  Scenario wire = plain;
  wire.training.ddp.wire = Precision::fp16;
  CHECK(buckets(wire, "allreduce", "Half") == all);
  const auto with = [&](CompressionKind kind) {
    Scenario made = plain;
    made.training.compression.kind = kind;
    made.training.compression.start = 2;
    return made;
  };
  CHECK(buckets(with(CompressionKind::fp16), "allreduce", "Half") == all);
  CHECK(buckets(with(CompressionKind::bf16), "allreduce", "BFloat16") == all);
  CHECK(buckets(with(CompressionKind::quantize_tensor), "_allgather_base", "Byte", "values") == all);
  CHECK(buckets(with(CompressionKind::quantize_tensor), "_allgather_base", "Float", "scales") > 0);
  CHECK(buckets(with(CompressionKind::sign), "_allgather_base", "Byte") >= all / 8);
  CHECK(buckets(with(CompressionKind::top_k), "_allgather_base", "Int", "indices") ==
        buckets(with(CompressionKind::top_k), "_allgather_base", "Float", "values"));
  Scenario powersgd = with(CompressionKind::powersgd);
  const std::int64_t sent = buckets(powersgd, "allreduce", "Float");
  powersgd.training.compression.wrapper = HookWrapper::fp16;
  CHECK(buckets(powersgd, "allreduce", "Half") == sent);
}

TEST_CASE("a trace of Horovod has what was fused, in the type in which it was sent") {
  for (const bool half : {false, true}) {
    Scenario scenario = example("horovod_p100_16");
    scenario.training.horovod.fp16 = half;
    const std::map<std::string, Carried> sent = carried(scenario);
    std::int64_t elements = 0;
    for (const auto& [label, each] : sent) {
      CHECK(each.type == (half ? "Half" : "Float"));
      elements += each.elements;
    }
    CHECK(elements == parameter_count(scenario.model));
    CHECK(sent.size() < parameter_tensors(scenario.model));
  }
}

TEST_CASE("names of NCCL's kernels follow its version and type") {
  const auto name = [](CollectiveKind kind, Algorithm algorithm, const char* version, Precision precision) {
    CollectivePlan plan;
    plan.kind = kind;
    plan.algorithm = algorithm;
    TrainingSpec training;
    training.gradients = precision;
    return nccl_kernel_name(plan, element_type(Purpose{}, training), version);
  };
  CHECK(name(CollectiveKind::all_reduce, Algorithm::tree, "2.30", Precision::bf16) ==
        "ncclDevKernel_AllReduce_Sum_bf16_TREE_LL(ncclDevKernelArgsStorage<4096ul>)");
  CHECK(name(CollectiveKind::all_reduce, Algorithm::nvls_tree, "2.21", Precision::fp16) ==
        "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)");
  CHECK(name(CollectiveKind::all_reduce, Algorithm::ring, "2.18", Precision::tf32) ==
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)");
  CHECK(name(CollectiveKind::broadcast, Algorithm::ring, "2.12", Precision::fp32) ==
        "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*, ncclWorkElem)");
  CHECK(name(CollectiveKind::send_recv, Algorithm::point_to_point, "2.30", Precision::fp32) ==
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)");
  std::vector<std::uint32_t> ranks(64);
  std::iota(ranks.begin(), ranks.end(), 0U);
  CHECK(group_ranks(std::span(ranks).first(3)) == "[0, 1, 2]");
  CHECK(group_ranks(ranks).ends_with("27, 28, ..., 63]"));
}

TEST_CASE("a rank's own trace has the head and processes of PyTorch's profiler") {
  Prediction p = predict(example("slow_gpu_64"));
  const std::vector<Rank> ranks = ranks_worth_tracing(p.result);
  REQUIRE(ranks.size() == 9);
  CHECK(ranks.back() == Rank(37));  // the slow one
  record_trace(p, {ranks, 1, 2});
  REQUIRE(p.result.trace.size() == 18);
  const json trace = json::parse(trace_json(p, Rank(37)));
  CHECK(trace.at("schemaVersion") == 1);
  CHECK(trace.at("distributedInfo") == json{{"backend", "nccl"}, {"rank", 37}, {"world_size", 64}});
  CHECK(trace.at("deviceProperties").at(0).at("id") == 5);
  for (const json& kernel : events_of(trace, "kernel")) {
    CHECK(kernel.at("pid") == 5);
    CHECK(kernel.at("args").at("device") == 5);
  }
  for (const json& launch : events_of(trace, "cuda_runtime")) {
    CHECK(launch.at("pid") == 1037);
  }
  for (const json& event : events_of(trace, "user_annotation")) {
    CHECK(event.at("name") != "ProfilerStep#0");
    CHECK(event.at("name") != "ProfilerStep#3");
  }
}

TEST_CASE("what is traced afterwards is what the run did, with either engine") {
  for (const EngineChoice engine : {EngineChoice::vector, EngineChoice::event}) {
    Scenario s = example("first_node");
    s.run.engine = engine;
    s.run.iterations = 5;
    Prediction p = predict(s);
    record_trace(p, trace_of_first(2, 3));
    const Prediction at_once = predict(s, trace_of_first(2, 3));
    CHECK(trace_json(p) == trace_json(at_once));
    CHECK(p.result.iteration_end == at_once.result.iteration_end);
  }
}

TEST_CASE("a trace without bounds is refused") {
  Prediction p = predict(example("slow_gpu_64"));
  CHECK_THROWS_WITH(record_trace(p, trace_of_first(64, 100'000)), Catch::Contains("--trace-ranks"));
  CHECK(overlap_json(p).empty());
  CHECK(overlap_text(p).empty());
}

TEST_CASE("a trace that was not asked for is empty but valid") {
  CHECK(json::parse(trace_json(predict(example("first_node")))).at("traceEvents").empty());
}

}  // namespace
}  // namespace paceline
