// A PyTorch profiler's (Kineto) trace, event by event.
#include <algorithm>
#include <array>
#include <cmath>

#include "calibrate/import/readers.h"
#include "calibrate/import/trace_records.h"
#include "core/error.h"
#include "core/text.h"
#include "scenarios/json_stream.h"

namespace paceline {
namespace {

constexpr std::size_t kMostEvents = 60'000'000;

// Keys of an event that are read; all others are passed over by the parser.
bool is_read(std::string_view key) {
  constexpr std::array<std::string_view, 15> kKeys{"ph",
                                                   "cat",
                                                   "name",
                                                   "pid",
                                                   "tid",
                                                   "ts",
                                                   "dur",
                                                   "args",
                                                   "correlation",
                                                   "stream",
                                                   "device",
                                                   "External id",
                                                   "Sequence number",
                                                   "Fwd thread id",
                                                   "external id"};
  return std::ranges::find(kKeys, key) != kKeys.end();
}

std::int64_t whole_of(const Json* json) {
  if (json == nullptr) {
    return kNone;
  }
  if (const auto* whole = json->as<std::int64_t>()) {
    return *whole;
  }
  std::int64_t value = kNone;
  const auto* text = json->as<std::string>();
  return text != nullptr && read_whole(*text, value) ? value : kNone;
}

class TraceReader {
 public:
  TraceReader(InputFile& file, Findings& findings) : file_(file), findings_(findings) {}

  void read() {
    const JsonStreamEnd end =
        read_json_stream({.read = [&](char* to, std::size_t most) { return file_.read(to, most); },
                          .wanted =
                              [](std::string_view member, std::string_view key) {
                                return member.empty() ? key == "traceEvents" || is_read(key) : is_read(key);
                              },
                          .value = [&](const std::string& member, const Json& value,
                                       std::int64_t) { value_ends(member, value); }});
    if (!end.trouble.empty()) {
      findings_.remark("ends", end.line, "the trace " + end.trouble + ": read up to here");
    }
    if (events_ == 0) {
      throw InputError(
          "no events: expected a profiler's trace, an object with \"traceEvents\" or a list of events", {},
          file_.path());
    }
    if (records_.kernels.empty() && records_.operators.empty()) {
      throw InputError("the trace holds neither operators (cat cpu_op) nor kernels (cat kernel)", {},
                       file_.path());
    }
    if (too_many_) {
      findings_.remark(
          "events", end.line,
          "more than " + std::to_string(kMostEvents) + " events: those that follow were not read");
    }
    find_layers(records_, findings_);
  }

 private:
  void value_ends(const std::string& member, const Json& value) {
    if ((!member.empty() && member != "traceEvents") || value.as<Json::Object>() == nullptr) {
      return;
    }
    const Json* const phase = value.find("ph");
    const auto* letter = phase != nullptr ? phase->as<std::string>() : nullptr;
    if (letter == nullptr) {
      return;
    }
    ++events_;
    if (*letter == "X") {
      read_span(value);
    }
  }

  void read_span(const Json& value) {
    const Json* const category = value.find("cat");
    const Json* const name = value.find("name");
    const auto* cat = category != nullptr ? category->as<std::string>() : nullptr;
    const auto* text = name != nullptr ? name->as<std::string>() : nullptr;
    double start = 0, duration = 0;
    if (cat == nullptr || text == nullptr || !read_number(value.find("ts"), start) ||
        !read_number(value.find("dur"), duration) || !(duration >= 0)) {
      return;
    }
    if (kept_ >= kMostEvents) {
      too_many_ = true;
      return;
    }
    const Json* const given = value.find("args");
    const Json& args = given != nullptr && given->as<Json::Object>() != nullptr ? *given : empty_;
    const std::string kind = in_lower_case(*cat);
    if (kind == "kernel" || kind == "gpu_memcpy" || kind == "gpu_memset") {
      read_kernel(value, args, *text, start, start + duration);
    } else if (kind == "cuda_runtime" || kind == "cuda_driver" || kind == "hip_runtime" ||
               kind == "runtime") {
      records_.launches.push_back({whole_of(args.find("correlation")), start, thread_of(value)});
    } else if (kind == "cpu_op" || kind == "operator") {
      read_operator(value, args, *text, start, start + duration);
    } else if (kind == "user_annotation" || kind == "python_function") {
      read_annotation(kind == "python_function", *text, {start, start + duration, 0, thread_of(value)});
      return;
    } else {
      return;
    }
    ++kept_;
  }

  void read_kernel(const Json& value, const Json& args, const std::string& name, double start, double end) {
    const std::int64_t device = std::max<std::int64_t>(0, whole_of(args.find("device")));
    std::int64_t stream = whole_of(args.find("stream"));
    if (stream == kNone) {
      stream = thread_of(value);
    }
    constexpr std::int64_t kDevices = 1 << 20;
    const bool nccl = in_lower_case(name).find("nccl") != std::string::npos;
    records_.kernels.push_back({whole_of(args.find("correlation")), external_of(args), start, end,
                                (stream % kDevices) * kDevices + device % kDevices, nccl});
  }

  static std::int64_t external_of(const Json& args) {
    const std::int64_t id = whole_of(args.find("External id"));
    return id != kNone ? id : whole_of(args.find("external id"));
  }

  void read_operator(const Json& value, const Json& args, const std::string& name, double start, double end) {
    TraceOperator one;
    one.start = start;
    one.end = end;
    one.name = records_.names.id(name);
    one.thread = thread_of(value);
    one.sequence = whole_of(args.find("Sequence number"));
    one.external = external_of(args);
    one.backward =
        whole_of(args.find("Fwd thread id")) > 0 || name.starts_with("autograd::engine::evaluate_function");
    records_.operators.push_back(one);
  }

  void read_annotation(bool python, const std::string& name, TraceSpan span) {
    constexpr std::string_view kModule = "nn.Module: ";
    if (python) {
      if (name.starts_with(kModule)) {
        span.name = records_.names.id(name.substr(kModule.size()));
        records_.modules.push_back(span);
        ++kept_;
      }
      return;
    }
    span.name = records_.names.id(name);
    ++kept_;
    if (name.starts_with("ProfilerStep#")) {
      records_.steps.push_back(span);
    } else if (name.starts_with("Optimizer.step")) {
      records_.optimizers.push_back(span);
    } else if (name.starts_with(kModule)) {
      span.name = records_.names.id(name.substr(kModule.size()));
      records_.modules.push_back(span);
    } else if (!is_frameworks(name)) {
      records_.annotations.push_back(span);
    }
  }

  // Annotations that PyTorch makes on its own.
  static bool is_frameworks(std::string_view name) {
    constexpr std::array<std::string_view, 8> kBeginnings{"nccl:",
                                                          "gloo:",
                                                          "Optimizer.",
                                                          "DistributedDataParallel.",
                                                          "enumerate(",
                                                          "ProfilerStep",
                                                          "FullyShardedDataParallel.",
                                                          "Torch-Compiled"};
    return std::ranges::any_of(kBeginnings, [&](std::string_view each) { return name.starts_with(each); });
  }

  std::int32_t thread_of(const Json& value) {
    std::string key;
    for (const char* const part : {"pid", "tid"}) {
      const Json* const json = value.find(part);
      const auto* whole = json != nullptr ? json->as<std::int64_t>() : nullptr;
      key += whole != nullptr ? std::to_string(*whole) : json != nullptr ? to_line(*json) : std::string();
      key += '/';
    }
    return threads_.id(key);
  }

  InputFile& file_;
  Findings& findings_;
  TraceRecords records_;
  TraceNames threads_;
  const Json empty_ = Json::Object{};
  std::size_t events_ = 0, kept_ = 0;
  bool too_many_ = false;
};

}  // namespace

void read_trace(InputFile& file, Findings& findings) { TraceReader(file, findings).read(); }

}  // namespace paceline
