// The JSON of a validation set as it stands, and its description for the scenarios room's reader.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/validate/validation_set.h"
#include "scenarios/reader.h"

namespace paceline {

struct EntryOfFile {
  std::string table, data;
  RowChoice rows = RowChoice::all;
  std::string cluster, nccl, algorithm, protocol;
  int nodes = 1, gpus_per_node = 0, channels = 0;
  CollectiveKind collective = CollectiveKind::all_reduce;
  CollectiveLibrary library = CollectiveLibrary::nccl;
  bool nvls = true;
};
struct CaseOfFile {
  std::string name, excluded;
  std::vector<EntryOfFile> fit, test;
};
struct AlternateOfFile {
  int least_rows = 8;
};
struct ToleranceOfFile {
  Tolerance values;
};
struct SetFile {
  std::string description, source, index, cluster;
  SetKind kind = SetKind::collective;
  std::vector<EntryOfFile> fit, test;
  std::vector<CaseOfFile> cases;
  std::optional<AlternateOfFile> alternate;
  bool defaults = false;
  std::vector<std::string> tables;
  std::string scenario, data;
  bool overlap_known = false;
  ToleranceOfFile tolerance, tolerance_of_each;
  std::vector<KnownGap> known_gaps;
};

template <class V>
void describe(V& v, EntryOfFile& s) {
  v.key("table", s.table, text(200), "A name in the index; or");
  v.key("data", s.data, text(4000), "a file of measurements, of which the keys below say what it doesn't.");
  v.key("rows", s.rows, any(), "Which of its rows, in order: the first one is odd.");
  v.key("cluster", s.cluster, text(4000), "A preset or a file; left out: the set's.");
  v.key("nodes", s.nodes, between(1, 100'000), "How many nodes took part.");
  v.key("gpus_per_node", s.gpus_per_node, between(1, 1024), "And GPUs of each; left out: all.");
  v.key("collective", s.collective, any(), "As nccl-tests' programs are called.");
  v.key("library", s.library, any(), "Whose it is: nccl, mpi, gloo or tensorflow.");
  v.key("nccl", s.nccl, text(20), "NCCL's version, where it is known.");
  v.key("algorithm", s.algorithm, text(200), "NCCL_ALGO, where it was set.");
  v.key("protocol", s.protocol, text(200), "NCCL_PROTO, where it was set.");
  v.key("channels", s.channels, between(1, 64), "NCCL_MAX_NCHANNELS, where it was set.");
  v.key("nvls", s.nvls, any(), "NCCL_NVLS_ENABLE.");
}

template <class V>
void describe(V& v, CaseOfFile& s) {
  v.key("name", s.name, text(200), "What to call it.", required());
  v.key("fit", s.fit, list(1, 100), "What is fitted; left out: nothing.");
  v.key("test", s.test, list(1, 100), "What is predicted and compared.", required());
  v.key("excluded", s.excluded, text(1000), "Why it doesn't count; it is published all the same.");
}

template <class V>
void describe(V& v, AlternateOfFile& s) {
  v.key("least_rows", s.least_rows, between(4, 1'000'000), "Tables with fewer rows are left out.");
}

template <class V>
void describe(V& v, ToleranceOfFile& s) {
  for (const Named<Figure>& each : kNames<Figure>) {
    v.key(each.name.data(), s.values[static_cast<std::size_t>(each.value)], above(0, 100),
          "The most that this figure may be.");
  }
}

template <class V>
void describe(V& v, KnownGap& s) {
  v.key("case", s.case_name, text(200), "Of which case; left out: of the whole set.");
  v.key("which", s.which, any(), "Which figure misses its tolerance.", required());
  v.key("measured", s.measured, above(0, 1e6), "What it was.", required());
  v.key("why", s.why, text(2000), "The reason, as far as it is known.", required());
}

template <class V>
void describe(V& v, SetFile& s) {
  v.key("description", s.description, text(10'000), "The question that the set answers.", required());
  v.key("kind", s.kind, any(), "What is predicted.", required());
  v.key("source", s.source, text(4000), "Where the measurements are published.");
  v.key("index", s.index, text(4000),
        "A CSV that lists many tables with their sources; of steps: the cases.");
  v.key("cluster", s.cluster, text(4000), "A preset or a file.");
  v.key("fit", s.fit, list(1, 100), "What is fitted; left out: nothing, the default costs are tried.");
  v.key("test", s.test, list(1, 100), "What is predicted and compared.");
  v.key("cases", s.cases, list(1, 1000), "Several of that.");
  v.key("alternate", s.alternate, any(),
        "Each table of the index: its even rows from its odd ones, and its odd ones from its even ones.");
  v.key("defaults", s.defaults, any(), "Each table of the index by the default costs: nothing is fitted.");
  v.key("tables", s.tables, text(200).length(1, 10'000), "These of the index; left out: all.");
  v.key("scenario", s.scenario, text(4000), "Training: the machine and the job.");
  v.key("data", s.data, text(4000), "Training: a CSV of gpus, nodes, throughput and use (fit or test).");
  v.key("overlap_known", s.overlap_known, any(),
        "Training: gradients are reduced during backward, as the scenario says.");
  v.key("tolerance", s.tolerance, any(), "The most that the figures of the whole set may be.");
  v.key("tolerance_of_each", s.tolerance_of_each, any(), "And those of each case.");
  v.key("known_gaps", s.known_gaps, list(1, 1000), "Misses that are known.");
}

}  // namespace paceline
