// What a function of the module is asked for: one JSON object, read by a description as a scenario is.
#pragma once

#include <optional>
#include <string>

#include "calibrate/fit/fit_files.h"
#include "scenarios/collective_options.h"
#include "scenarios/description.h"
#include "scenarios/profile.h"
#include "scenarios/reader.h"
#include "scenarios/run_overrides.h"
#include "scenarios/trace.h"
#include "studies/run_view.h"

namespace paceline::python {

// A document that Python has read, and the file that it comes from, if any.
struct Document {
  std::string text, file;
};

struct RunRequest {
  std::optional<Document> profile;
  RunOverrides overrides;
  bool explain = false;
  int jobs = 1;
  bool require_fit = false, allow_other_machine = false;
  std::optional<TraceChoice> trace;
  std::optional<ViewChoice> view;
};

struct LogRequest {
  FitFiles files;
  std::optional<Document> profile;
  bool allow_other_machine = false;
};

struct CollectiveRequest {
  CollectiveOptions options;
  std::optional<Document> profile;
  bool allow_other_machine = false;
};

}  // namespace paceline::python

// Beside the structs, where the reader finds them.
namespace paceline {

inline constexpr Limits kArgument = text(1'000'000, 0);

template <class V>
void describe(V& v, TraceChoice& s) {
  v.key("ranks", s.ranks, kArgument, "Which ranks: \"0,37,100-107\".");
  v.key("steps", s.steps, kArgument, "Which steps: \"1-3\".");
}

template <class V>
void describe(V& v, ViewChoice& s) {
  v.key("step", s.step, between(-1'000'000'000, 1'000'000'000),
        "Which step: its number; left out: one that took the median time.");
  v.key("ranks", s.ranks, kArgument, "Ranks to show beside those that matter: \"0,37,100-107\".");
  v.key("slices", s.slices, between(-1'000'000'000, 1'000'000'000), "Most operations to show.");
}

template <class V>
void describe(V& v, FitFiles& s) {
  v.key("paths", s.files, kArgument, "Files or folders of measurements.", required());
  v.key("cluster", s.cluster, kArgument, "What was measured.", required());
  v.key("nccl", s.nccl, kArgument, "NCCL version of rows that don't say.");
  v.key("nodes", s.nodes, kArgument, "Nodes of rows that don't say.");
  v.key("gpus_per_node", s.gpus_per_node, kArgument, "GPUs of each node, of rows that don't say.");
  v.key("algorithm", s.algorithm, kArgument, "NCCL_ALGO of rows that don't say.");
  v.key("protocol", s.protocol, kArgument, "NCCL_PROTO of rows that don't say.");
  v.key("settings", s.settings, text(1 << 20, 0),
        "JSON: keys of training.collective, of rows that don't say.");
  v.key("library", s.library, kArgument, "nccl, mpi, gloo or tensorflow.");
  v.key("scenario", s.scenario, kArgument, "A file: whose throughput rows these are.");
  v.key("overlap", s.overlap, kArgument, "stated or unknown.");
}

namespace python {

template <class V>
void describe(V& v, Document& s) {
  v.key("text", s.text, text(64 << 20, 0), "Its text.", required());
  v.key("file", s.file, kArgument, "Its file, for messages.");
}

template <class V>
void describe(V& v, RunRequest& s) {
  v.key("profile", s.profile, any(), "What calibration knows of the machine.");
  v.key("engine", s.overrides.engine, kArgument, "Instead of the scenario's.");
  v.key("seed", s.overrides.seed, kArgument, "Instead of the scenario's.");
  v.key("iterations", s.overrides.iterations, kArgument, "Instead of the scenario's.");
  v.key("explain", s.explain, any(), "Add what `paceline explain` does.");
  v.key("jobs", s.jobs, between(1, 100'000), "Threads to explain with.");
  v.key("require_fit", s.require_fit, any(), "Fail where a GPU has too little memory.");
  v.key("allow_other_machine", s.allow_other_machine, any(), "The profile may be of another machine.");
  v.key("trace", s.trace, any(), "Record a timeline.");
  v.key("view", s.view, any(), "Record what a page shows.");
}

template <class V>
void describe(V& v, LogRequest& s) {
  describe(v, s.files);
  v.key("profile", s.profile, any(), "What calibration knows of such a machine.");
  v.key("allow_other_machine", s.allow_other_machine, any(), "The profile may be of another machine.");
}

template <class V>
void describe(V& v, CollectiveRequest& s) {
  CollectiveOptions& o = s.options;
  v.key("kind", o.kind, kArgument, "Which collective.", required());
  v.key("cluster", o.cluster, kArgument, "On what.", required());
  v.key("nodes", o.nodes, kArgument, "Of the cluster.");
  v.key("gpus_per_node", o.gpus_per_node, kArgument, "Of the cluster.");
  v.key("sizes", o.sizes, kArgument, "Not empty: these instead of first, last and factor.");
  v.key("first", o.first, kArgument, "nccl-tests' -b.");
  v.key("last", o.last, kArgument, "nccl-tests' -e.");
  v.key("factor", o.factor, kArgument, "nccl-tests' -f.");
  v.key("nccl", o.nccl, kArgument, "The version whose tuner chooses.");
  v.key("algorithm", o.algorithm, kArgument, "As NCCL_ALGO.");
  v.key("protocol", o.protocol, kArgument, "As NCCL_PROTO.");
  v.key("library", o.library, kArgument, "nccl, mpi, gloo or tensorflow.");
  v.key("gpus_per_process", o.gpus_per_process, kArgument, "GPUs that one process drives.");
  v.key("settings", o.settings, kArgument, "JSON: keys of training.collective.");
  v.key("explain", o.explain, any(), "Add what the time is made of.");
  v.key("all", o.all, any(), "What every algorithm and protocol would take.");
  v.key("profile", s.profile, any(), "What calibration knows of the machine.");
  v.key("allow_other_machine", s.allow_other_machine, any(), "The profile may be of another machine.");
}

// Throws InputError that names the argument.
template <class T>
T read_request(const std::string& json) {
  T request;
  read_object(parse_json(json), request, {});
  return request;
}

}  // namespace python
}  // namespace paceline
