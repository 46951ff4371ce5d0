// trace.json: Chrome / Perfetto trace events. A process per rank; a track each for the host, the compute
// stream and the communication stream. Times are in microseconds with three decimals: both ends of a slice
// are cut to the nanosecond, so that slices that touch still touch and nothing overlaps.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/fingerprint.h"
#include "scenarios/json.h"
#include "scenarios/predict.h"

namespace paceline {
namespace {

enum Track : std::uint32_t { kHost, kCompute, kCommunication };
constexpr std::array<const char*, 3> kTrackNames{"host", "compute stream", "communication stream"};

struct Slice {
  std::uint32_t rank = 0, track = 0;
  std::int64_t start = 0, end = 0;  // ns
  std::string name;
  const char* category = "";
  Json::Object arguments;
};

std::int64_t nanoseconds(SimTime t) { return t.ps / 1000; }

std::string microseconds(std::int64_t ns) {
  const std::string decimals = std::to_string(ns % 1000);
  return std::to_string(ns / 1000) + '.' + std::string(3 - decimals.size(), '0') + decimals;
}

Track track_of(OpKind kind) {
  switch (kind) {
    case OpKind::kernel:
    case OpKind::wait:
      return kCompute;
    case OpKind::collective:
      return kCommunication;
    case OpKind::take_batch:
    case OpKind::synchronize:
      break;
  }
  return kHost;
}

const char* category_of(OpKind kind) {
  constexpr std::array<const char*, 5> kNames{"kernel", "collective", "wait", "input", "synchronize"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string name_of(const Op& op) {
  if (!op.label.empty()) {
    return op.label;
  }
  return op.kind == OpKind::wait ? "wait for collective " + std::to_string(op.index) : category_of(op.kind);
}

// Around the kernels and waits of an iteration, which follow each other on the compute stream.
Slice iteration_slice(const TracedIteration& traced, const Program& program) {
  Slice around{.rank = traced.rank.value,
               .track = kCompute,
               .start = INT64_MAX,
               .end = 0,
               .name = "iteration " + std::to_string(traced.iteration),
               .category = "iteration",
               .arguments = {}};
  for (std::size_t i = 0; i < traced.ops.size(); ++i) {
    if (track_of(program.ops[i].kind) == kCompute) {
      around.start = std::min(around.start, nanoseconds(traced.ops[i].start));
      around.end = std::max(around.end, nanoseconds(traced.ops[i].end));
    }
  }
  return around;
}

void append_slices(std::vector<Slice>& slices, const TrainingJob& job, const TracedIteration& traced) {
  const Program& program = job.program(traced.iteration);
  slices.push_back(iteration_slice(traced, program));
  for (std::size_t i = 0; i < traced.ops.size(); ++i) {
    const Op& op = program.ops[i];
    const OpSpan& span = traced.ops[i];
    Slice slice{.rank = traced.rank.value,
                .track = track_of(op.kind),
                .start = nanoseconds(span.start),
                .end = nanoseconds(span.end),
                .name = name_of(op),
                .category = category_of(op.kind),
                .arguments = {{"iteration", static_cast<std::int64_t>(traced.iteration)}}};
    if (op.kind == OpKind::collective) {
      slice.arguments.push_back({"bytes", job.plans[program.collectives[op.index]].bytes.value});
    }
    slices.push_back(std::move(slice));
  }
}

std::string metadata(const char* name, std::uint32_t rank, std::uint32_t track, Json::Object arguments) {
  return "{\"ph\": \"M\", \"name\": \"" + std::string(name) + "\", \"pid\": " + std::to_string(rank) +
         ", \"tid\": " + std::to_string(track) + ", \"args\": " + to_line(std::move(arguments)) + '}';
}

void append_metadata(std::vector<std::string>& events, const Scenario& scenario, Rank rank) {
  const std::string process = "rank " + std::to_string(rank.value) + " (" + gpu_name(scenario, rank) + ')';
  events.push_back(metadata("process_name", rank.value, 0, {{"name", process}}));
  events.push_back(metadata("process_sort_index", rank.value, 0, {{"sort_index", std::int64_t{rank.value}}}));
  for (std::uint32_t track = 0; track < kTrackNames.size(); ++track) {
    events.push_back(metadata("thread_name", rank.value, track, {{"name", kTrackNames[track]}}));
    events.push_back(metadata("thread_sort_index", rank.value, track, {{"sort_index", std::int64_t{track}}}));
  }
}

std::string event_of(const Slice& s) {
  return "{\"ph\": \"X\", \"name\": " + to_line(s.name) + ", \"cat\": \"" + s.category +
         "\", \"pid\": " + std::to_string(s.rank) + ", \"tid\": " + std::to_string(s.track) +
         ", \"ts\": " + microseconds(s.start) + ", \"dur\": " + microseconds(s.end - s.start) +
         ", \"args\": " + to_line(s.arguments) + '}';
}

}  // namespace

std::string trace_json(const Prediction& p) {
  std::vector<Slice> slices;
  std::vector<std::string> events;
  std::vector<std::uint32_t> ranks;
  for (const TracedIteration& traced : p.result.trace) {
    append_slices(slices, p.job, traced);
    ranks.push_back(traced.rank.value);
  }
  std::erase_if(slices, [](const Slice& s) { return s.end <= s.start; });
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  for (const std::uint32_t rank : ranks) {
    append_metadata(events, p.scenario, Rank(rank));
  }
  // By time; of those that begin together the longest first, so that the outer slice comes before the inner.
  std::ranges::stable_sort(slices, [](const Slice& a, const Slice& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  std::string out = "{\"displayTimeUnit\": \"ns\",\n \"otherData\": " +
                    to_line(Json::Object{{"fingerprint", to_hex(p.result.fingerprint)},
                                         {"seed", p.scenario.run.seed},
                                         {"model", p.scenario.model.name}}) +
                    ",\n \"traceEvents\": [";
  for (const Slice& slice : slices) {
    events.push_back(event_of(slice));
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    out += (i == 0 ? "\n  " : ",\n  ") + events[i];
  }
  return out + "\n ]}\n";
}

}  // namespace paceline
