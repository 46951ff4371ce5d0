// `paceline calibrate` and --profile, as a user runs them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/version.h"
#include "tests/files.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

Outcome run(const TemporaryFolder& folder, const std::string& arguments) {
  return shell(folder, "'" PACELINE_PROGRAM "' " + arguments);
}

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

const std::string kTable = quoted(kSource / "tests/import/logs/h100_dgx_1node_dgxc.txt");

TEST_CASE("fit, then predict with the profile") {
  const TemporaryFolder folder;
  const Outcome fit = run(folder, "calibrate fit " + kTable + " --cluster dgx-h100 -o profile.json");
  INFO(fit.out << fit.error);
  REQUIRE(fit.status == 0);
  CHECK_THAT(fit.out, Contains("parameter") && Contains("nvlink.efficiency") && Contains("rows fitted"));
  const nlohmann::json profile = nlohmann::json::parse(text_of(folder.file("profile.json")));
  CHECK(profile.at("cluster") == "dgx-h100");
  CHECK(profile.at("points").size() == 32);
  CHECK(profile.at("sources").at(0).at("rows") == 32);

  const std::string collective = "collective all_reduce --cluster dgx-h100 -b 1M -e 64M ";
  const Outcome table = run(folder, collective + "--profile profile.json");
  CHECK(table.status == 0);
  CHECK_THAT(table.out, Contains("90 % of measurements"));
  const Outcome plain = run(folder, collective);
  CHECK(plain.status == 0);
  CHECK_THAT(plain.out, Contains("90 % of measurements") && Contains("(not stated)"));
  const Outcome all = run(folder, collective + "--nccl 2.28 --all");
  CHECK(all.status == 0);
  CHECK_THAT(all.out, Contains("All that could run") && Contains("ring ll128") && !Contains("(not stated)"));
  const Outcome others = run(folder, collective + "--nodes 2 --json --all");
  REQUIRE(others.status == 0);
  const nlohmann::json at_two = nlohmann::json::parse(others.out);
  for (const nlohmann::json& row : at_two.at("results")) {
    CHECK(row.at("others").size() > 3);
    CHECK(row.at("others").at(0).at("time").get<double>() > 0);
  }
  const std::string many = "collective all_reduce --cluster dgx-h100 -b 8M -e 8M --json ";
  const auto time_of = [&](const std::string& options) {
    const Outcome outcome = run(folder, many + options);
    REQUIRE(outcome.status == 0);
    return nlohmann::json::parse(outcome.out).at("results").at(0).at("in_place").at("time").get<double>();
  };
  CHECK(time_of("--gpus-per-process 8") >= time_of(""));
  const Outcome json = run(folder, collective + "--json --profile profile.json");
  REQUIRE(json.status == 0);
  const nlohmann::json entries = nlohmann::json::parse(json.out).at("results");
  for (const nlohmann::json& row : entries) {
    const double time = row.at("in_place").at("time").get<double>();
    CHECK(row.at("interval_us").at("low").get<double>() < time);
    CHECK(row.at("interval_us").at("high").get<double>() > time);
    CHECK(row.at("extrapolated") == false);
  }
  CHECK(shell(folder, "echo '{\"node\": \"dgx-h100\"}' | '" PACELINE_PROGRAM
                      "' collective all_reduce --cluster /dev/stdin -b 1M -e 1M --profile profile.json")
            .status == 0);  // read once
  const std::string other = "collective all_reduce --cluster dgx-a100 -b 1M -e 64M --profile profile.json";
  const Outcome machine = run(folder, other);
  CHECK(machine.status == 2);
  CHECK_THAT(machine.error,
             Contains("found one of another (H100, nvswitch)") && Contains("--allow-other-machine"));
  CHECK(run(folder, other + " --allow-other-machine").status == 0);
  const Outcome nodes = run(folder, collective + "--nodes 2 --profile profile.json");
  CHECK(nodes.status == 0);
  CHECK_THAT(nodes.out, Contains("extrapolated: measured on one node only"));

  folder.write("scenario.json",
               R"({"cluster": "dgx-h100", "model": "resnet18", "training": {"batch_per_gpu": 64}})");
  const Outcome predicted = run(folder, "run scenario.json --profile profile.json --out result.json");
  INFO(predicted.error);
  CHECK(predicted.status == 0);
  CHECK_THAT(predicted.out, Contains("90 % of cases"));
  CHECK(run(folder, "run result.json").status == 0);  // with the profile's corrections in it
}

TEST_CASE("a log of another machine is fitted, and called implausible with the likely cause") {
  const TemporaryFolder folder;
  const Outcome fit = run(folder, "calibrate fit " + kTable + " --cluster dgx-a100 -o profile.json");
  CHECK(fit.status == 0);
  CHECK_THAT(fit.out, Contains("implausible: nvlink.efficiency 1.05 is the most that a fit may take") &&
                          Contains("another machine: dgx-h100"));
  const Outcome piped = shell(folder, "cat " + kTable +
                                          " | '" PACELINE_PROGRAM
                                          "' calibrate fit /dev/stdin --cluster dgx-a100 -o piped.json");
  CHECK(piped.status == 0);  // the diagnosis can't read it again
  CHECK_THAT(piped.out, Contains("calibrate diagnose: /dev/stdin") && Contains("Wrote piped.json"));
  CHECK(nlohmann::json::parse(text_of(folder.file("piped.json"))).at("points").size() == 32);
}

TEST_CASE("a log is compared and diagnosed without fitting") {
  const TemporaryFolder folder;
  const Outcome compare = run(folder, "calibrate compare " + kTable + " --cluster dgx-h100");
  INFO(compare.error);
  CHECK(compare.status == 0);
  CHECK_THAT(compare.out, Contains("h100_dgx_1node_dgxc.txt: all_reduce on 1 node of 8 GPUs") &&
                              Contains("measured us") && Contains("as expected at all sizes"));
  const Outcome diagnose = run(folder, "calibrate diagnose " + kTable + " --cluster dgx-h100 --json");
  REQUIRE(diagnose.status == 0);
  CHECK(nlohmann::json::parse(diagnose.out).at("healthy") == true);
}

TEST_CASE("the layout of logs that don't state it, and an NCCL that is too old") {
  const TemporaryFolder folder;
  folder.write("all_reduce.csv",
               "size_bytes,time_us,nccl\n1048576,60,2.4\n4194304,110,2.4\n67108864,900,2.4\n");
  const std::string fit = "calibrate fit all_reduce.csv --cluster dgx-a100 -o p.json";
  CHECK_THAT(run(folder, fit).error, Contains("its number of GPUs is not stated"));
  const Outcome told = run(folder, fit + " --nodes 2 --gpus-per-node 4");
  INFO(told.out << told.error);
  REQUIRE(told.status == 0);
  CHECK_THAT(told.out,
             Contains("all_reduce.csv: NCCL 2.4 is taken for 2.12, 8 minor versions later, the oldest whose "
                      "tuner is known"));
  const nlohmann::json point = nlohmann::json::parse(text_of(folder.file("p.json"))).at("points").at(0);
  CHECK(point.at("nodes") == 2);
  CHECK(point.at("gpus_per_node") == 4);
  const Outcome all = run(folder, fit + " --nodes 2");
  REQUIRE(all.status == 0);
  CHECK(nlohmann::json::parse(text_of(folder.file("p.json"))).at("points").at(0).at("gpus_per_node") == 8);
  CHECK_THAT(run(folder, fit + " --gpus-per-node 9").error, Contains("--gpus-per-node"));
  // What a log says holds.
  folder.write("stated.csv", "size_bytes,time_us,gpus,nodes\n1048576,60,8,1\n");
  REQUIRE(run(folder, "calibrate fit stated.csv --cluster dgx-a100 --nodes 2 -o p.json").status == 0);
  CHECK(nlohmann::json::parse(text_of(folder.file("p.json"))).at("points").at(0).at("nodes") == 1);
  folder.write("sixteen.csv", "size_bytes,time_us,gpus\n1048576,60,16\n");
  CHECK_THAT(
      run(folder, "calibrate fit sixteen.csv --cluster dgx-a100 --nodes 2 --gpus-per-node 4 -o p.json").error,
      Contains("16 GPUs, where 2 nodes of 4 are said to have taken part"));
  folder.write("first.csv", "size_bytes,time_us,gpus,nccl\n1048576,60,8,1.3\n");
  CHECK_THAT(run(folder, "calibrate fit first.csv --cluster dgx-a100 -o p.json").error, Contains("NCCL 1.3"));
}

TEST_CASE("a log that was taken with an algorithm and a protocol set") {
  const TemporaryFolder folder;
  const std::string log = "calibrate compare " + kTable + " --cluster dgx-h100 --json";
  const auto algorithm = [&](const std::string& options) {
    const Outcome outcome = run(folder, log + options);
    INFO(outcome.error);
    REQUIRE(outcome.status == 0);
    return outcome.out;
  };
  CHECK_THAT(algorithm(" --algo ring --proto simple"), Contains("ring") && !Contains("nvls"));
  CHECK_THAT(algorithm(""), Contains("nvls"));
  CHECK_THAT(run(folder, log + " --algo rings").error, Contains("--algo") && Contains("ring"));
}

TEST_CASE("import says what it found") {
  const TemporaryFolder folder;
  const Outcome import = run(folder, "calibrate import " + kTable + " --csv rows.csv");
  INFO(import.error);
  CHECK(import.status == 0);
  CHECK_THAT(import.out, Contains("h100_dgx_1node_dgxc.txt: nccl-tests, 32 measurements"));
  CHECK_THAT(run(folder, "calibrate import rows.csv").out, Contains("32 measurements"));
}

TEST_CASE("wrong input ends with status 2 and one line") {
  const TemporaryFolder folder;
  folder.write("profile.json", R"({"parameters": {"nvlink.eficiency": 1}})");
  folder.write("empty.csv", "");
  folder.write("notes.txt", "nothing\nmeasured\n");
  for (const auto& [arguments, part] : std::vector<std::pair<std::string, std::string>>{
           {"calibrate fit none.log --cluster dgx-h100 -o p.json", "none.log"},
           {"calibrate fit empty.csv --cluster dgx-h100 -o p.json", "empty.csv"},
           {"calibrate fit notes.txt --cluster dgx-h100 -o p.json", "notes.txt"},
           {"calibrate fit " + kTable + " --cluster dgx-h1000 -o p.json", "did you mean"},
           {"calibrate fit " + kTable + " --cluster dgx-h100 --nccl 9.9 -o p.json", "--nccl"},
           {"calibrate fit " + kTable + " --cluster dgx-h100 -o none/p.json", "none/p.json"},
           {"calibrate fit " + kTable + " --cluster dgx-h100", "--out"},
           {"calibrate import none.log", "none.log"},
           {"calibrate replay none.json", "none.json"},
           {"calibrate",
            "\"measure\", \"import\", \"fit\", \"compare\", \"diagnose\", \"replay\", \"defaults\" or "
            "\"pairs\""},
           {"collective all_reduce --cluster dgx-h100 --profile none.json", "none.json"},
           {"collective all_reduce --cluster dgx-h100 --profile profile.json", "nvlink.efficiency"}}) {
    const Outcome outcome = run(folder, arguments);
    INFO(arguments << ": " << outcome.error);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.error, Contains(part));
    CHECK(outcome.error.starts_with("paceline: "));
    CHECK(std::count(outcome.error.begin(), outcome.error.end(), '\n') == 1);
    CHECK_FALSE(fs::exists(folder.file("p.json")));
  }
}

TEST_CASE("replay writes the step's operations, and compares what was measured") {
  const TemporaryFolder folder;
  folder.write("two.json",
               R"({"cluster": {"node": "dgx-a100", "nodes": 1, "gpus_per_node": 2}, "model": "resnet18",
             "training": {"batch_per_gpu": 8, "ddp": {"broadcast_buffers": false}}})");
  const Outcome replay = run(folder, "calibrate replay two.json --steps steps.csv");
  INFO(replay.out << replay.error);
  REQUIRE(replay.status == 0);
  CHECK_THAT(replay.out, Contains("Wrote steps.csv") && Contains("2 ranks"));
  std::istringstream steps(text_of(folder.file("steps.csv")));
  std::string line;
  REQUIRE(std::getline(steps, line));
  CHECK(line == "op,index,duration_us,bytes,label");
  int collectives = 0, computes = 0;
  std::int64_t bytes = 0;
  while (std::getline(steps, line)) {
    std::istringstream cells(line);
    std::string op, index, duration, size;
    std::getline(cells, op, ',');
    std::getline(cells, index, ',');
    std::getline(cells, duration, ',');
    std::getline(cells, size, ',');
    computes += op == "compute" ? 1 : 0;
    CHECK((op != "compute" || std::stod(duration) > 0));
    collectives += op == "collective" ? 1 : 0;
    bytes += op == "collective" ? std::stoll(size) : 0;
  }
  CHECK(collectives >= 2);
  CHECK(computes >= collectives);
  CHECK(bytes == 11'689'512 * 4);  // every gradient of ResNet-18 once

  folder.write("one.json",
               R"({"cluster": {"node": "dgx-a100", "nodes": 1, "gpus_per_node": 2}, "model": "resnet18",
             "training": {"batch_per_gpu": 8}})");
  const Outcome buffers = run(folder, "calibrate replay one.json");
  CHECK(buffers.status == 2);
  CHECK_THAT(buffers.error, Contains("broadcast_buffers"));
}

TEST_CASE("what PyTorch can't be told to do is no plan for it") {
  const TemporaryFolder folder;
  const auto plan = [&](const std::string& training, const std::string& beside) {
    folder.write("s.json", R"({"cluster": {"node": "dgx-a100", "nodes": 1, "gpus_per_node": 2},
             "model": "resnet18", "training": {"batch_per_gpu": 8)" +
                               training + "}" + beside + "}");
    return run(folder, "calibrate replay s.json --with torch --steps plan.json");
  };
  const Outcome plain = plan("", "");
  INFO(plain.error);
  REQUIRE(plain.status == 0);
  for (const auto& [training, beside, place] : std::vector<std::array<std::string, 3>>{
           {R"(, "collective": {"library": "mpi"})", "", "/training/collective/library"},
           {R"(, "strategy": "horovod")", "", "/training/strategy"},
           {R"(, "strategy": "local_sgd")", "", "/training/strategy"},
           {R"(, "compression": {"kind": "powersgd", "rank": 2})", "", "/training/compression"},
           {R"(, "ddp": {"reduction": "after_backward"})", "", "/training/ddp/reduction"},
           {R"(, "ddp": {"static_graph": true})", "", "/training/ddp/static_graph"},
           {R"(, "clip_norm": true)", "", "/training/clip_norm"},
           {R"(, "input": {"rate": "1000 samples/s"})", "", "/training/input"},
           {R"(, "slowdown_while_communicating": 1.1)", "", "/training/slowdown_while_communicating"},
           {"", R"(, "background": [{"from": 0, "to": 1, "rate": "1 GB/s"}])", "/background"}}) {
    const Outcome refused = plan(training, beside);
    INFO(training << beside << ": " << refused.error);
    CHECK(refused.status == 2);
    CHECK_THAT(refused.error, Contains(place + ": expected what PyTorch can be told to do"));
  }
}

// Three steps of one layer: forward 40 us, backward 80 us, on one stream, without a gap.
std::string trace_of_one_layer() {
  std::ostringstream events;
  int correlation = 0;
  const auto span = [&](const char* kind, const std::string& name, int thread, double start, double duration,
                        const std::string& more = "") {
    events << (events.tellp() > 0 ? ",\n" : "") << R"({"ph": "X", "cat": ")" << kind << R"(", "name": ")"
           << name << R"(", "pid": 1, "tid": )" << thread << R"(, "ts": )" << start << R"(, "dur": )"
           << duration << R"(, "args": {)" << more << "}}";
  };
  const auto kernel = [&](int thread, double launch, double start, double duration) {
    const std::string id = R"("correlation": )" + std::to_string(++correlation);
    span("cuda_runtime", "cudaLaunchKernel", thread, launch, 1, id);
    span("kernel", "gemm", 7, start, duration, id + R"(, "device": 0, "stream": 7)");
  };
  for (int k = 0; k < 3; ++k) {
    const double t = 1000.0 * k;
    const std::string number = R"("External id": 1, "Sequence number": )" + std::to_string(k);
    span("user_annotation", "ProfilerStep#" + std::to_string(k), 1, t, 999);
    span("python_function", "nn.Module: Linear_0", 1, t + 10, 30);
    span("cpu_op", "aten::addmm", 1, t + 12, 20, number + R"(, "Fwd thread id": 0)");
    kernel(1, t + 15, t + 20, 40);
    span("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 2, t + 50, 30,
         number + R"(, "Fwd thread id": 1)");
    kernel(2, t + 52, t + 60, 80);
  }
  return R"({"schemaVersion": 1, "traceEvents": [)" + events.str() + "]}";
}

TEST_CASE("the layers of a profiler's trace become a scenario's layer times") {
  const TemporaryFolder folder;
  folder.write("trace.json", trace_of_one_layer());
  const Outcome done = run(folder, "calibrate import trace.json --layers layers.json");
  INFO(done.out << done.error);
  REQUIRE(done.status == 0);
  const nlohmann::json layers = nlohmann::json::parse(text_of(folder.file("layers.json")));
  REQUIRE(layers.size() == 1);
  CHECK(layers[0]["forward"] == "40 us");
  CHECK(layers[0]["backward"] == "80 us");
  folder.write("rank1.json", trace_of_one_layer());
  const Outcome ranks = run(folder, "calibrate import trace.json rank1.json --layers layers.json");
  CHECK(ranks.status == 2);
  CHECK_THAT(ranks.error, Contains("expected the trace of one rank, found layers in trace.json and in "
                                   "rank1.json: name one of them"));
  const Outcome none =
      run(folder, "calibrate import " + quoted(kSource / "tests/import/logs/h100_dgx_1node_dgxc.txt") +
                      " --layers layers.json");
  CHECK(none.status == 2);
  CHECK_THAT(none.error, Contains("expected a profiler's trace with layers"));
}

TEST_CASE("a profile of another model version is told, and used") {
  const TemporaryFolder folder;
  folder.write("p.json", R"({"tool": "paceline 0.0", "parameters": {"nvlink.efficiency": 0.9}})");
  const Outcome outcome = run(folder, "collective all_reduce --cluster dgx-a100 -b 8 -e 8 --profile p.json");
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.out, Catch::Contains("# Avg bus bandwidth"));
  CHECK_THAT(outcome.error,
             Catch::StartsWith("paceline: p.json: fitted with an earlier one, this is model version "));
}

TEST_CASE("a result of another model version is told, and run again, and a scenario has none") {
  const TemporaryFolder folder;
  const std::string scenario = quoted(kSource / "scenarios/first_node.json");
  CHECK(run(folder, "run --quiet --no-explain --out r.json " + scenario).error.empty());
  CHECK(run(folder, "run --quiet --no-explain --out same.json r.json").error.empty());
  std::string text = text_of(folder.file("r.json"));
  const std::string key = "\"model_version\": ", own = key + std::to_string(kModelVersion);
  text.replace(text.find(own), own.size(), key + "12");
  folder.write("old.json", text);
  for (const char* command : {"run --no-explain old.json", "run --no-explain --set /run/seed=2 old.json",
                              "compare old.json --strategies ddp,zero1", "compare old.json r.json"}) {
    INFO(command);
    const Outcome outcome = run(folder, command);
    CHECK(outcome.status == 0);
    CHECK_THAT(
        outcome.error,
        Catch::StartsWith("paceline: old.json: a result of model version 12, this is model version " +
                          std::to_string(kModelVersion) + ": its scenario may give other figures now\n"));
  }
}

TEST_CASE("throughputs are of a machine, a model and a precision, and refused for others") {
  const TemporaryFolder folder;
  folder.write("t.csv", "nodes,gpus,throughput\n1,8,2900\n2,16,5600\n4,32,10800\n");
  const auto scenario = [&](const char* name, const char* node, const char* model, const char* precision) {
    folder.write(name, std::string(R"({"cluster": {"nodes": 4, "node": ")") + node + R"("}, "model": ")" +
                           model + R"(", "training": {"batch_per_gpu": 32, "precision": ")" + precision +
                           "\"}}");
  };
  scenario("s.json", "dgx-a100", "bert_large", "bf16");
  scenario("hopper.json", "dgx-h100", "bert_large", "bf16");
  scenario("model.json", "dgx-a100", "resnet50", "bf16");
  scenario("fp32.json", "dgx-a100", "bert_large", "fp32");
  const Outcome fit = run(folder, "calibrate fit t.csv --cluster dgx-a100 --scenario s.json -o p.json");
  INFO(fit.error);
  REQUIRE(fit.status == 0);
  // A table's own columns, where they speak as scenarios do.
  const auto of_table = [&](const char* first) {
    folder.write("own.csv", std::string("nodes,gpus,model,precision,throughput\n1,8,") + first +
                                ",2900\n2,16,bert_large,bf16,5600\n");
    return run(folder, "calibrate fit own.csv --cluster dgx-a100 --scenario s.json -o own.json");
  };
  CHECK(of_table("BERT-Large,mixed").status == 0);
  CHECK_THAT(of_table("bert_base,bf16").error,
             Contains("own.csv: line 2: expected throughput of bert_large, as --scenario has it, or no such "
                      "column, found bert_base"));
  CHECK_THAT(of_table("bert_large,fp32").error, Contains("own.csv: line 2: expected throughput in bf16, as "
                                                         "--scenario has it, or no such column, found fp32"));
  nlohmann::json profile = nlohmann::json::parse(text_of(folder.file("p.json")));
  CHECK(profile["machine"] == "A100-80GB, nvswitch");
  CHECK(profile["network"] == "infiniband");
  CHECK(profile["training"][0]["model"] == "bert_large");
  CHECK(profile["training"][0]["precision"] == "bf16");
  CHECK(run(folder, "run s.json --no-explain --profile p.json").status == 0);
  const auto error_with = [&](const std::string& file, const char* by) {
    const Outcome outcome = run(folder, "run " + file + " --no-explain --profile " + by);
    CHECK(outcome.status == (outcome.error.empty() ? 0 : 2));
    return outcome.error;
  };
  CHECK_THAT(
      error_with("hopper.json", "p.json"),
      Contains("expected a profile of this machine (H100, nvswitch), found one of another (A100-80GB"));
  CHECK_THAT(error_with("model.json", "p.json"),
             Contains("expected a profile with throughputs of resnet50, found one with those of bert_large"));
  CHECK_THAT(error_with("fp32.json", "p.json"),
             Contains("throughputs in fp32, found one with those in bf16"));
  // On another machine, if it may be: nothing of the rates, in the interval either.
  const auto page = [&](const char* options) {
    return run(folder, std::string("run hopper.json --no-explain ") + options);
  };
  const Outcome allowed = page("--profile p.json --allow-other-machine");
  CHECK(allowed.status == 0);
  CHECK_THAT(allowed.out, Contains("nobody measured the kernels"));
  // A profile that says nothing of them, as earlier ones: for any.
  profile["machine"] = profile["network"] = "";
  profile["training"][0].erase("model");
  profile["training"][0].erase("precision");
  folder.write("old.json", profile.dump());
  CHECK(error_with("hopper.json", "old.json").empty());
  CHECK(error_with("model.json", "old.json").empty());
  // Which machine was measured is said twice.
  const Outcome two = run(folder, "calibrate fit t.csv --cluster dgx-h100 --scenario s.json -o q.json");
  CHECK(two.status == 2);
  CHECK_THAT(two.error,
             Contains("--scenario: expected a scenario of the machine that --cluster names (H100, nvswitch), "
                      "found one of another (A100-80GB, nvswitch)") &&
                 !Contains("--allow-other-machine"));
  folder.write("both.csv", "size_bytes,time_us,gpus,nodes\n1048576,60,8,1\n");
  CHECK_THAT(run(folder, "calibrate fit t.csv both.csv --cluster dgx-h100 --scenario s.json -o q.json").error,
             Contains("that --cluster names") && !Contains("--allow-other-machine"));
}

TEST_CASE("a profile of one library is not used where another is asked for") {
  const TemporaryFolder folder;
  REQUIRE(run(folder, "calibrate fit " + kTable + " --cluster dgx-h100 -o p.json").status == 0);
  const std::string collective = "collective all_reduce --cluster dgx-h100 -b 1M -e 1M --profile p.json";
  CHECK(run(folder, collective).status == 0);
  CHECK(run(folder, collective + " --library nccl").status == 0);
  const Outcome mpi = run(folder, collective + " --library mpi");
  CHECK(mpi.status == 2);
  CHECK_THAT(mpi.error,
             Contains("--profile: expected a profile of the library mpi") && Contains("found one of nccl"));
  REQUIRE(run(folder, "calibrate fit " + kTable + " --cluster dgx-h100 --library mpi -o m.json").status == 0);
  const std::string with_mpi = "collective all_reduce --cluster dgx-h100 -b 1M -e 1M --profile m.json";
  CHECK(run(folder, with_mpi).status == 0);
  CHECK_THAT(run(folder, with_mpi + " --library nccl").error,
             Contains("--profile: expected a profile of the library nccl") && Contains("found one of mpi"));
  folder.write("s.json", R"({"cluster": "dgx-h100", "model": "resnet18",
    "training": {"batch_per_gpu": 64, "collective": {"library": "gloo"}}})");
  CHECK_THAT(run(folder, "run s.json --profile p.json").error, Contains("of the library gloo"));
}

TEST_CASE("a log is not judged by a profile of another machine, unless that is asked for") {
  const TemporaryFolder folder;
  REQUIRE(run(folder, "calibrate fit " + kTable + " --cluster dgx-h100 -o p.json").status == 0);
  for (const char* command : {"compare ", "diagnose "}) {
    const std::string other =
        std::string("calibrate ") + command + kTable + " --cluster dgx-a100 --profile p.json";
    const Outcome refused = run(folder, other);
    CHECK(refused.status == 2);
    CHECK_THAT(refused.error,
               Contains("--profile: expected a profile of this machine (A100-80GB, nvswitch)") &&
                   Contains("--allow-other-machine"));
    CHECK(run(folder, other + " --allow-other-machine").status == 0);
  }
}

TEST_CASE(
    "throughputs that don't fit are told with their rows, and refused where GPUs would gain from more of "
    "them") {
  const TemporaryFolder folder;
  folder.write("s.json", R"({"cluster": {"node": "dgx-a100", "nodes": 4}, "model": "bert_large",
    "training": {"batch_per_gpu": 32, "precision": "bf16"}})");
  const auto fit = [&](const std::string& rows) {
    folder.write("t.csv", "nodes,gpus,throughput\n" + rows);
    return run(folder, "calibrate fit t.csv --cluster dgx-a100 --scenario s.json -o p.json");
  };
  const Outcome gain = fit("1,8,2900\n2,16,7600\n");
  CHECK(gain.status == 2);
  CHECK_THAT(gain.error,
             Contains("t.csv: line 3: expected throughputs that grow no faster than the GPUs, found 7600 "
                      "samples/s of 16 GPUs on 2 nodes"));
  folder.write("s.json", R"({"cluster": {"node": "dgx-a100", "nodes": 4}, "model": "bert_large",
    "training": {"batch_per_gpu": 32, "precision": "bf16", "measured": "200 samples/s"}})");
  CHECK_THAT(fit("1,8,2900\n").error,
             Contains("t.csv: line 2: expected throughputs that grow no faster than the GPUs, found 2900 "
                      "samples/s of 8 GPUs on 1 node, more for each than the scenario's own rate of one GPU "
                      "allows (training.measured, which counts as a row)"));
  folder.write("s.json", R"({"cluster": {"node": "dgx-a100", "nodes": 4}, "model": "bert_large",
    "training": {"batch_per_gpu": 32, "precision": "bf16"}})");
  const Outcome repeated = fit("1,8,2900\n1,8,900\n1,8,2890\n");
  CHECK(repeated.status == 0);
  CHECK_THAT(repeated.out, Contains("implausible: 8 GPUs (t.csv, line 3): 900 samples/s"));
  const Outcome nodes = fit("1,8,2900\n2,8,5600\n");
  CHECK_THAT(nodes.out + nodes.error, Contains("8 GPUs on 2 nodes"));
  const Outcome good = fit("1,8,2900\n2,16,5600\n4,32,10800\n");
  CHECK(good.status == 0);
  CHECK_THAT(good.out, !Contains("implausible") && Contains("  16 GPUs on 2 nodes: measured 5600"));
}

TEST_CASE("a fit that leaves its rows far off is called implausible") {
  const TemporaryFolder folder;
  for (const char* more : {"--cluster pcie-a100", "--cluster dgx-h100 --library mpi"}) {
    const Outcome fit = run(folder, "calibrate fit " + kTable + " -o p.json " + more);
    INFO(fit.error);
    CHECK(fit.status == 0);
    CHECK_THAT(fit.out, Contains("implausible: what was measured takes 0.") && Contains("another machine"));
  }
  CHECK_THAT(run(folder, "calibrate fit " + kTable + " -o p.json --cluster dgx-h100").out,
             !Contains("implausible"));
}

}  // namespace
}  // namespace paceline
