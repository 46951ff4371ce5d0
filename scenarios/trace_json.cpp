// Kineto's trace events of traced ranks.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/fingerprint.h"
#include "scenarios/json.h"
#include "scenarios/predict.h"
#include "scenarios/trace.h"
#include "scenarios/trace_events.h"
#include "scenarios/trace_names.h"
#include "sim/collective/costs.h"
#include "sim/engine/program_layout.h"

namespace paceline {
namespace {

using Track = TraceTrack;
using Span = TraceSlice;
using Events = TraceEvents;

constexpr int kHostThread = 1, kComputeStream = 7, kCommunicationStream = 20;
// CUPTI's numbers of runtime calls, which tools read beside the names.
constexpr int kLaunchKernel = 211, kLaunchKernelExC = 430, kStreamSynchronize = 131, kEventSynchronize = 137,
              kDeviceSynchronize = 165;

// What the collectives of an iteration are called, by their number; of those that are decided, as many as there were.
struct CollectiveEvent {
  std::string kernel, annotation, arguments;
};
std::vector<CollectiveEvent> collective_events(const Prediction& p, Rank rank, std::uint32_t iteration) {
  const Program& program = p.job.program(rank, iteration);
  const Decisions& decisions = p.result.decisions;
  const Groups groups(p.job);
  const CollectiveSpec& spec = p.scenario.training.collective;
  const std::string library(name_of(spec.library));
  std::vector<CollectiveEvent> events;
  for (const Op& op : program.ops) {
    if (op.kind != OpKind::collective) {
      continue;
    }
    const bool decided = op.after == After::decision;
    if (decided && op.index >= decisions.iterations[iteration].size()) {
      continue;
    }
    const CollectivePlan& plan = decided ? decisions.plans[decisions.iterations[iteration][op.index].plan]
                                         : p.job.plans[program.collectives[op.index]];
    const ElementType type = element_type(op.purpose, p.scenario.training);
    const std::int64_t elements = plan.bytes.value / type.bytes;
    const std::uint32_t group = groups.group(plan.family, rank.value);
    const auto size = static_cast<std::int64_t>(groups.size(plan.family, group));
    const bool world = plan.family == kWorld;
    const std::string arguments = to_line(Json::Object{
        {"Collective name", c10d_name(plan.kind)},
        {"In msg nelems", plan.kind == CollectiveKind::all_gather ? elements / size : elements},
        {"Out msg nelems", plan.kind == CollectiveKind::reduce_scatter ? elements / size : elements},
        {"Group size", size},
        {"dtype", type.torch},
        {"Process Group Name", std::to_string(world ? 0 : 1 + plan.family)},
        {"Process Group Description", world ? "default_pg" : "undefined"},
        {"Process Group Ranks", group_ranks(groups.members(plan.family, group))},
        {"algorithm", name_of(plan.algorithm)},
        {"protocol", name_of(plan.protocol)},
        {"label", op.label}});
    events.push_back({spec.library == CollectiveLibrary::nccl
                          ? in_json(nccl_kernel_name(plan, type, spec.nccl))
                          : std::string(),
                      in_json(library + ':' + c10d_operation(plan.kind)),
                      ", " + arguments.substr(1, arguments.size() - 2)});
  }
  return events;
}

constexpr auto kOptimizerClasses = names<Optimizer>({{"SGD", Optimizer::sgd},
                                                     {"Adam", Optimizer::adam},
                                                     {"AdamW", Optimizer::adamw},
                                                     {"FusedLAMB", Optimizer::lamb},
                                                     {"FusedLARS", Optimizer::lars},
                                                     {"Adam8bit", Optimizer::adam_8bit}});

// What the host is at, as PyTorch annotates it: forward, backward with the exchange, optimizer, or nothing.
Phase annotation_after(Phase before, const Op& op) {
  if (op.kind == OpKind::wait || op.kind == OpKind::join) {
    return before;
  }
  const Phase phase = op.purpose.phase;
  return phase == Phase::accumulate                             ? Phase::backward
         : phase == Phase::exchange || phase == Phase::compress ? before
                                                                : phase;
}

// Of the warm-up and the steady iterations.
template <class F>
void for_each_op(const Prediction& p, Rank rank, const F& f) {
  for (const std::uint32_t iteration : {0U, 1U}) {
    std::ranges::for_each(p.job.program(rank, iteration).ops, f);
  }
}

std::uint32_t queues_of(const Prediction& p, Rank rank) {
  std::uint32_t most = 1;
  for_each_op(p, rank, [&](const Op& op) { most = std::max(most, op.queue + 1); });
  return most;
}

struct Tracks {
  std::int64_t host = 0, device = 0;  // processes
  std::int64_t gpu = 0;               // number of the device in its node
};

class RankWriter {
 public:
  RankWriter(const Prediction& p, Rank rank, Events& events, Tracks tracks, std::int64_t& last_id)
      : p_(p),
        rank_(rank),
        events_(events),
        tracks_(tracks),
        queues_(queues_of(p, rank)),
        last_id_(last_id) {}

  void metadata() {
    const std::string name =
        "rank " + std::to_string(rank_.value) + " (" + gpu_name(p_.scenario, rank_) + ')';
    if (tracks_.device != tracks_.host) {
      describe_process(tracks_.host, name, "CPU");
    }
    describe_process(tracks_.device, name, "GPU " + std::to_string(tracks_.gpu));
    describe_thread(host(), "host thread");
    describe_thread(compute(), "stream 7: compute");
    for (std::uint32_t q = 0; q < queues_; ++q) {
      describe_thread(communication(q), q == 0 ? "stream 20: communication"
                                               : "stream " + std::to_string(kCommunicationStream + q) +
                                                     ": communication " + std::to_string(q + 1));
    }
    std::set<std::uint32_t> beside;
    for_each_op(p_, rank_, [&](const Op& op) {
      if (runs_beside_compute_stream(op)) {
        beside.insert(op.stream);
      }
    });
    for (const std::uint32_t stream : beside) {
      const Track track = hooks(stream);
      describe_thread(track, "stream " + std::to_string(track.thread) + ": hooks");
    }
  }

  void iteration(const TracedIteration& traced, const std::vector<CollectiveEvent>& collectives) {
    traced_ = &traced;
    program_ = &p_.job.program(traced.rank, traced.iteration);
    ran_.clear();
    for (std::size_t i = 0; i < program_->ops.size(); ++i) {
      if (traced.issued[i] > SimTime{} || traced.ops[i].end > SimTime{}) {
        ran_.push_back(i);
      }
    }
    if (ran_.empty()) {
      return;
    }
    annotate_step();
    annotate_phases();
    for (const std::size_t i : ran_) {
      operation(i, collectives);
    }
    last_issued_ = traced.issued[ran_.back()];
    next_iteration_ = traced.iteration + 1;
  }

 private:
  Track host() const { return {tracks_.host, kHostThread}; }
  Track compute() const { return {tracks_.device, kComputeStream}; }
  Track communication(std::uint32_t queue) const {
    return {tracks_.device, kCommunicationStream + static_cast<int>(queue)};
  }
  // Behind the queues; gloo has one for every collective.
  Track hooks(std::uint32_t stream) const { return communication(queues_ + stream); }
  Track stream_of(const Op& op) const { return op.stream == 0 ? compute() : hooks(op.stream); }
  void describe_process(std::int64_t process, const std::string& name, const std::string& label) {
    events_.metadata("process_name", {process, 0}, {{"name", name}});
    events_.metadata("process_labels", {process, 0}, {{"labels", label}});
    events_.metadata("process_sort_index", {process, 0}, {{"sort_index", std::int64_t{rank_.value}}});
  }
  void describe_thread(Track track, const std::string& name) {
    events_.metadata("thread_name", track, {{"name", name}});
    events_.metadata("thread_sort_index", track, {{"sort_index", std::int64_t{track.thread}}});
  }

  bool host_waits(std::size_t op) const {
    return program_->ops[op].kind == OpKind::take_batch || program_->ops[op].kind == OpKind::synchronize;
  }
  // When the host was at an operation.
  Span issue(std::size_t op) const {
    const SimTime issued = traced_->issued[op];
    return {host_waits(op) ? traced_->ops[op].start : issued - program_->ops[op].host_cost, issued};
  }
  std::string step_argument() const { return "\"iteration\": " + std::to_string(traced_->iteration); }

  // The host's step, and the compute stream's.
  void annotate_step() {
    const bool follows = last_issued_ && next_iteration_ == traced_->iteration;
    const Span first = issue(ran_.front());
    const Span step{follows ? *last_issued_ : first.start, traced_->issued[ran_.back()]};
    const std::string number = std::to_string(traced_->iteration);
    events_.add("user_annotation", "\"ProfilerStep#" + number + '"', host(), step, "");
    if (step.start < first.start) {  // as far ahead of its GPU as it may be
      call("cudaEventSynchronize", kEventSynchronize, ++last_id_, {step.start, first.start});
    }
    Span on_stream{kNever, SimTime{}};
    for (const std::size_t i : ran_) {
      if (runs_on_compute_stream(program_->ops[i]) && program_->ops[i].kind != OpKind::send) {
        on_stream.start = std::min(on_stream.start, traced_->ops[i].start);
        on_stream.end = std::max(on_stream.end, traced_->ops[i].end);
      }
    }
    if (on_stream.start < on_stream.end) {
      events_.add("gpu_user_annotation", "\"iteration " + number + '"', compute(), on_stream,
                  step_argument());
    }
  }

  void annotate_phases() {
    Phase open = Phase::other;
    Span span;
    for (const std::size_t i : ran_) {
      const Phase phase = annotation_after(open, program_->ops[i]);
      if (phase != open) {
        annotate_phase(open, span);
        span.start = issue(i).start;
        open = phase;
      }
      span.end = issue(i).end;
    }
    annotate_phase(open, span);
  }

  void annotate_phase(Phase phase, Span span) {
    const auto add = [&](const std::string& name) {
      events_.add("user_annotation", '"' + name + '"', host(), span, "");
    };
    switch (phase) {
      case Phase::forward:
        add(p_.job.ranks() > 1 && !fully_shards(p_.scenario.training) ? "DistributedDataParallel.forward"
                                                                      : "forward");
        break;
      case Phase::backward:
        add("backward");
        break;
      case Phase::update:
        add("Optimizer.step#" + std::string(kOptimizerClasses[p_.scenario.training.optimizer]) + ".step");
        break;
      case Phase::accumulate:
      case Phase::exchange:
      case Phase::compress:
      case Phase::other:
        break;
    }
  }

  void operation(std::size_t i, const std::vector<CollectiveEvent>& collectives) {
    const Op& op = program_->ops[i];
    const OpSpan& ran = traced_->ops[i];
    switch (op.kind) {
      case OpKind::kernel:
        kernel(op, issue(i), {ran.start, ran.end});
        break;
      case OpKind::collective:
        if (op.index >= collectives.size()) {
          break;  // nothing was left to decide
        }
        cast(communication(op.queue), issue(i), {ran.start, ran.start + op.prepare});
        collective(collectives[op.index], communication(op.queue), issue(i),
                   {ran.start + op.prepare, ran.end - op.conclude});
        cast(communication(op.queue), issue(i), {ran.end - op.conclude, ran.end});
        break;
      case OpKind::send:
        break;  // it takes the stream no time
      case OpKind::wait:
      case OpKind::gate:
      case OpKind::join:
        if (nanoseconds(ran.start) < nanoseconds(ran.end)) {
          events_.add("gpu_user_annotation", in_json(op.label), compute(), {ran.start, ran.end},
                      step_argument());
        }
        break;
      case OpKind::take_batch:
        events_.add("user_annotation", "\"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__\"",
                    host(), issue(i), "");
        break;
      case OpKind::synchronize:
        if (op.stream == kWholeDevice) {
          call("cudaDeviceSynchronize", kDeviceSynchronize, ++last_id_, issue(i));
        } else {
          call("cudaStreamSynchronize", kStreamSynchronize, ++last_id_, issue(i));
        }
        break;
    }
  }

  void call(const char* name, int number, std::int64_t id, Span span) {
    events_.add("cuda_runtime", '"' + std::string(name) + '"', host(), span,
                "\"cbid\": " + std::to_string(number) + ", \"correlation\": " + std::to_string(id));
  }

  // A launch and what it launched; `arguments` are the kernel's own.
  void launch(const char* name, int number, std::int64_t id, Span issued, Track stream,
              const std::string& kernel, Span ran, const std::string& arguments) {
    const std::string external = "\"External id\": " + std::to_string(id);
    const std::string correlation = "\"correlation\": " + std::to_string(id);
    events_.add("cuda_runtime", '"' + std::string(name) + '"', host(), issued,
                external + ", \"cbid\": " + std::to_string(number) + ", " + correlation);
    if (nanoseconds(ran.start) >= nanoseconds(ran.end)) {
      return;
    }
    events_.flow(id, host(), issued.start, stream, ran.start);
    events_.add("kernel", kernel, stream, ran,
                external + ", \"device\": " + std::to_string(tracks_.gpu) + ", \"stream\": " +
                    std::to_string(stream.thread) + ", " + correlation + ", " + step_argument() + arguments);
  }

  void kernel(const Op& op, Span issued, Span ran) {
    const std::int64_t id = ++last_id_;
    const auto layer = [&] { return p_.scenario.model.layers[op.purpose.layer].name; };
    std::string name = op.label, arguments = "\"External id\": " + std::to_string(id);
    if (op.purpose.layer == kNoIndex) {  // of no module: copies, the loss, the optimizer
    } else if (op.purpose.phase == Phase::forward) {
      events_.add("python_function", in_json("nn.Module: " + layer()), host(), issued, "");
      sequences_[layer()].push_back(++last_sequence_);
      arguments += ", \"Sequence number\": " + std::to_string(last_sequence_) + ", \"Fwd thread id\": 0";
    } else if (op.purpose.phase == Phase::backward) {
      name = "autograd::engine::evaluate_function: " + layer();
      if (std::vector<std::int64_t>& of_layer = sequences_[layer()]; !of_layer.empty()) {
        arguments += ", \"Sequence number\": " + std::to_string(of_layer.back()) +
                     ", \"Fwd thread id\": " + std::to_string(kHostThread);
        of_layer.pop_back();
      }
    }
    events_.add("cpu_op", in_json(name), host(), issued, arguments);
    launch("cudaLaunchKernel", kLaunchKernel, id, issued, stream_of(op), in_json(op.label), ran, "");
  }

  void collective(const CollectiveEvent& event, Track stream, Span issued, Span ran) {
    const std::int64_t id = ++last_id_;
    const std::string arguments = "\"External id\": " + std::to_string(id) + event.arguments;
    events_.add("user_annotation", event.annotation, host(), issued, "");
    events_.add("cpu_op", "\"record_param_comms\"", host(), issued, arguments);
    if (!event.kernel.empty()) {
      launch("cudaLaunchKernelExC", kLaunchKernelExC, id, issued, stream, event.kernel, ran, event.arguments);
    } else if (nanoseconds(ran.start) < nanoseconds(ran.end)) {  // MPI: a thread of the host
      events_.add("cpu_op", event.annotation, stream, ran, arguments + ", " + step_argument());
    }
  }

  // What a communication queue does before or after a collective, if anything.
  void cast(Track stream, Span issued, Span ran) {
    if (nanoseconds(ran.start) < nanoseconds(ran.end)) {
      const std::int64_t id = ++last_id_;
      events_.add("cpu_op", "\"cast shard\"", host(), issued, "\"External id\": " + std::to_string(id));
      launch("cudaLaunchKernel", kLaunchKernel, id, issued, stream, "\"cast shard\"", ran, "");
    }
  }

  const Prediction& p_;
  Rank rank_;
  Events& events_;
  Tracks tracks_;
  std::uint32_t queues_;
  std::int64_t& last_id_;  // of correlations and operators, in the file
  std::int64_t last_sequence_ = 0;
  std::map<std::string, std::vector<std::int64_t>>
      sequences_;  // of forward operators whose backward is to come
  std::optional<SimTime> last_issued_;
  std::uint32_t next_iteration_ = 0;
  const TracedIteration* traced_ = nullptr;
  const Program* program_ = nullptr;
  std::vector<std::size_t> ran_;  // operations of the iteration at hand; others were left out
};

// A process per rank (one file), or one for the host and one for the device, named by its number (a file per
// rank).
struct TraceFile {
  std::vector<Rank> ranks;
  bool own_file = false;
};

std::string head(const Prediction& p, Rank first, std::int64_t gpu) {
  const Json::Object device{
      {"id", gpu}, {"name", p.scenario.gpu.name}, {"totalGlobalMem", p.scenario.gpu.memory.value}};
  const Json::Object job{{"backend", name_of(p.scenario.training.collective.library)},
                         {"rank", std::int64_t{first.value}},
                         {"world_size", static_cast<std::int64_t>(p.job.ranks())}};
  const Json::Object other{{"fingerprint", to_hex(p.result.fingerprint)},
                           {"seed", p.scenario.run.seed},
                           {"model", p.scenario.model.name}};
  return "{\"schemaVersion\": 1,\n \"deviceProperties\": [" + to_line(device) +
         "],\n \"distributedInfo\": " + to_line(job) +
         ",\n \"displayTimeUnit\": \"ms\",\n \"otherData\": " + to_line(other) + ",\n \"traceEvents\": [";
}

std::int64_t device_of(const Scenario& scenario, Rank rank) {
  const std::string name = gpu_name(scenario, rank);  // "node3/gpu5"
  std::int64_t number = 0;
  std::from_chars(name.data() + name.rfind("gpu") + 3, name.data() + name.size(), number);
  return number;
}

std::string write_trace(const Prediction& p, const TraceFile& file) {
  constexpr std::int64_t kFirstHostProcess = 1000;
  const Rank first = file.ranks.empty() ? Rank(0) : file.ranks.front();
  std::string out = head(p, first, device_of(p.scenario, first));
  Events events(out);
  // Tools keep correlations in as few bits as these need, and then put numbers of rows in their place.
  std::int64_t last_id = 100'000;
  for (const Rank rank : file.ranks) {
    const std::int64_t gpu = device_of(p.scenario, rank), process = rank.value;
    const Tracks tracks =
        file.own_file ? Tracks{kFirstHostProcess + process, gpu, gpu} : Tracks{process, process, gpu};
    std::vector<CollectiveEvent> collectives;
    std::optional<std::uint32_t> last;
    RankWriter writer(p, rank, events, tracks, last_id);
    writer.metadata();
    for (const TracedIteration& traced : p.result.trace) {
      if (traced.rank == rank) {
        if (!last || *last == 0 || p.job.negotiation) {  // steady iterations are alike
          collectives = collective_events(p, rank, traced.iteration);
        }
        last = traced.iteration;
        writer.iteration(traced, collectives);
      }
    }
  }
  return out += "\n ]}\n";
}

}  // namespace

std::string trace_json(const Prediction& p) {
  TraceFile file;
  for (const TracedIteration& traced : p.result.trace) {
    file.ranks.push_back(traced.rank);
  }
  std::ranges::sort(file.ranks);
  file.ranks.erase(std::unique(file.ranks.begin(), file.ranks.end()), file.ranks.end());
  return write_trace(p, file);
}

std::string trace_json(const Prediction& p, Rank rank) { return write_trace(p, {{rank}, true}); }

}  // namespace paceline
