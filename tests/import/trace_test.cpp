// Layer times from traces of the PyTorch profiler, made here event by event: each number is known.
#include <catch2/catch.hpp>

#include "written_file.h"

using namespace paceline;
using Catch::Contains;

namespace {

constexpr int kHost = 100, kAutograd = 101, kCompute = 7, kCollectives = 20;

// Writes events as the profiler does.
class Trace {
 public:
  void span(const std::string& category, const std::string& name, int thread, double start, double duration,
            const std::string& args = "") {
    text_ += (text_.empty() ? "" : ",\n") +
             ("{\"ph\": \"X\", \"cat\": \"" + category + "\", \"name\": \"" + name +
              "\", \"pid\": 1, \"tid\": " + std::to_string(thread) + ", \"ts\": " + std::to_string(start) +
              ", \"dur\": " + std::to_string(duration) + ", \"args\": {" + args + "}}");
  }
  void op(const std::string& name, int thread, double start, double duration, int sequence,
          int forward_thread) {
    span("cpu_op", name, thread, start, duration,
         "\"External id\": 1, \"Sequence number\": " + std::to_string(sequence) +
             ", \"Fwd thread id\": " + std::to_string(forward_thread) + ", \"Input Dims\": [[1, 2], []]");
  }
  // A launch on the host and its kernel on the GPU.
  void kernel(const std::string& name, int thread, double launch, double start, double duration,
              int stream = kCompute) {
    const std::string id = "\"correlation\": " + std::to_string(++correlation_);
    span("cuda_runtime", "cudaLaunchKernel", thread, launch, 1, id);
    span("kernel", name, stream, start, duration,
         id + ", \"device\": 0, \"stream\": " + std::to_string(stream));
  }
  std::string object() const {
    return "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA "
           "A100\"}],\n\"traceEvents\": [\n" +
           text_ + "\n], \"traceName\": \"x.json\"}";
  }
  std::string list() const { return "[" + text_ + "]"; }

 private:
  std::string text_;
  int correlation_ = 0;
};

struct Shape {
  bool modules = true, steps = true;
  double collective = 0;  // how long NCCL's kernel runs beside the backward pass
  bool host_bound = false;
};

// Two layers, `Linear_0` of forward 40 and `Linear_1` of 60 us, backward twice that, an optimizer of 15;
// every kernel of step k takes k us more. The first step is ten times as slow.
std::string training(const Shape& shape, bool as_list = false) {
  Trace trace;
  constexpr double kStep = 2000;
  for (int k = 0; k < 4; ++k) {
    const double t = k * kStep, more = k;
    const double slow = k == 0 ? 10 : 1;
    if (shape.steps) {
      trace.span("user_annotation", "ProfilerStep#" + std::to_string(k), kHost, t, kStep - 1);
    }
    if (shape.modules) {
      trace.span("python_function", "nn.Module: Net_0", kHost, t + 10, 80);
      trace.span("python_function", "nn.Module: Linear_0", kHost, t + 12, 30);
      trace.span("python_function", "nn.Module: Linear_1", kHost, t + 50, 30);
      trace.span("python_function", "torch/nn/functional.py(1): relu", kHost, t + 51, 3);
    }
    const int sequence = 10 * k;
    // aten::linear adds nothing to the graph: its number is that of the operator inside.
    trace.op("aten::linear", kHost, t + 14, 20, sequence, 0);
    trace.op("aten::addmm", kHost, t + 15, 18, sequence, 0);
    trace.op("aten::linear", kHost, t + 52, 20, sequence + 1, 0);
    trace.op("aten::addmm", kHost, t + 53, 18, sequence + 1, 0);
    // Kernels follow each other without a gap; or each waits for the host.
    double gpu = t + 20;
    const auto launch = [&](const std::string& name, int thread, double at, double duration) {
      gpu = shape.host_bound ? at + 3 : gpu;
      trace.kernel(name, thread, at, gpu, duration);
      gpu += duration;
    };
    const double scale = shape.host_bound ? 0.01 : 1;
    launch("gemm", kHost, t + 16, scale * (40 + more) * slow);
    launch("gemm", kHost, t + 54, scale * (60 + more) * slow);
    trace.op("autograd::engine::evaluate_function: AddmmBackward0", kAutograd, t + 100, 30, sequence + 1, 1);
    trace.op("AddmmBackward0", kAutograd, t + 101, 28, sequence + 1, 1);
    const double beside = gpu;
    launch("gemm", kAutograd, t + 102, scale * (120 + more) * slow);
    trace.op("autograd::engine::evaluate_function: AddmmBackward0", kAutograd, t + 140, 30, sequence, 1);
    launch("gemm", kAutograd, t + 142, scale * (80 + more) * slow);
    if (shape.collective > 0) {
      trace.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", kAutograd,
                   t + 145, beside + 60, shape.collective, kCollectives);
    }
    trace.span("user_annotation", "Optimizer.step#SGD.step", kHost, t + 200, 25);
    launch("multi_tensor_apply", kHost, t + 205, scale * (15 + more) * slow);
  }
  return as_list ? trace.list() : trace.object();
}

const LayerMeasurement& layer(const MeasuredData& data, const std::string& name) {
  for (const LayerMeasurement& each : data.layers) {
    if (each.layer == name) {
      return each;
    }
  }
  FAIL("no layer " << name);
  return data.layers.front();
}

// Steps 1, 2 and 3: the median is that of step 2.
void check_layers(const MeasuredData& data) {
  INFO(remarks_of(data));
  REQUIRE(data.layers.size() == 3);
  CHECK(data.layers[0].layer == "Linear_0");
  CHECK(data.layers[0].forward.value == Approx(42e-6));
  CHECK(data.layers[0].backward.value == Approx(82e-6));
  CHECK(data.layers[1].layer == "Linear_1");
  CHECK(data.layers[1].forward.value == Approx(62e-6));
  CHECK(data.layers[1].backward.value == Approx(122e-6));
  CHECK(data.layers[2].layer == "optimizer");
  CHECK(data.layers[2].update.value == Approx(17e-6));
  CHECK(data.layers[2].forward.value == 0);
}

}  // namespace

TEST_CASE("layers by module, median over the steps but the first") {
  const MeasuredData data = import_text(training({}), "trace.json");
  check_layers(data);
  CHECK(data.files.at(0).format == "Kineto trace");
  CHECK(data.files.at(0).rows == 3);
  CHECK(data.remarks.empty());
}

TEST_CASE("a trace may be compressed, or a list of events") {
  const TemporaryFolder folder;
  check_layers(import_file(write_gz(folder, "trace.json.gz", training({}))));
  check_layers(import_text(training({}, true), "trace.json"));
}

TEST_CASE("NCCL's kernels beside the backward pass add nothing, that they slow it is said") {
  const MeasuredData data = import_text(training({.collective = 700}), "trace.json");
  check_layers(data);
  // From 60 us after the backward pass begins: 62 + 82 + 17 of 325 us (those of step 2; the others alike).
  CHECK_THAT(remarks_of(data), Contains("50 % of the computing kernels' time ran beside NCCL's kernels"));
}

TEST_CASE("without modules each outermost operator is a layer") {
  const MeasuredData data = import_text(training({.modules = false}), "trace.json");
  CHECK(layer(data, "aten::linear.0").forward.value == Approx(42e-6));
  CHECK(layer(data, "aten::linear.0").backward.value == Approx(82e-6));
  CHECK(layer(data, "aten::linear.1").backward.value == Approx(122e-6));
  CHECK_THAT(remarks_of(data), Contains("no modules in the trace"));
}

TEST_CASE("where the GPU waits for the host, the host's times are kept") {
  const MeasuredData data = import_text(training({.host_bound = true}), "trace.json");
  INFO(remarks_of(data));
  CHECK(layer(data, "Linear_0").forward.value == Approx(30e-6));
  CHECK(layer(data, "Linear_1").backward.value == Approx(30e-6));
  CHECK(layer(data, "Net_0").forward.value == Approx(20e-6));  // 80 without the two layers
  CHECK(layer(data, "optimizer").update.value == Approx(25e-6));
  CHECK(layer(data, "Linear_0").host_bound);
  CHECK_THAT(remarks_of(data), Contains("3 of 3 steps are bound by the host"));
}

TEST_CASE("a trace without steps is one step, a broken one is read up to there") {
  const MeasuredData data = import_text(training({.steps = false}), "trace.json");
  CHECK_THAT(remarks_of(data), Contains("no ProfilerStep in the trace"));
  CHECK(layer(data, "Linear_0").forward.value == Approx((400 + 41 + 42 + 43) * 1e-6));

  const std::string whole = training({});
  const MeasuredData cut = import_text(whole.substr(0, whole.size() - 200), "trace.json");
  CHECK_THAT(remarks_of(cut), Contains("breaks off in the middle of a value"));
  CHECK(layer(cut, "Linear_0").forward.value == Approx(42e-6));

  const TemporaryFolder folder;
  const std::string gz = text_of(write_gz(folder, "whole.json.gz", whole));
  const MeasuredData cut_gz = import_file(folder.write("cut.json.gz", gz.substr(0, gz.size() * 9 / 10)));
  CHECK_THAT(remarks_of(cut_gz), Contains("the gzip stream breaks off: read up to there"));
}

TEST_CASE("a trace without anything to time says what it lacks") {
  CHECK_THAT(import_error("{\"schemaVersion\": 1, \"deviceProperties\": []}", "t.json"),
             Contains("expected a profiler's trace, an object with \"traceEvents\""));
  CHECK_THAT(import_error("{\"traceEvents\": [{\"ph\": \"M\", \"name\": \"x\"}]}", "t.json"),
             Contains("neither operators (cat cpu_op) nor kernels"));
  CHECK_THAT(import_error("{\"traceEvents\": {\"ph\": 3}, \"x\": [1]}", "t.json"), Contains("no events"));
}
