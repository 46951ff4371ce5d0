// Running all points of a study, on several threads, so that nothing computed is ever lost.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "studies/shard.h"
#include "studies/study.h"

namespace paceline {

// In folder `out`: study.json (the study with its scenario written in; relative paths in it start where they
// did) and results.jsonl, a line per point, in the order in which they ended, each written whole with one
// write:
//   {"point": {axis: value, ...}, "key": content hash, "model_version": ..., "gpus": ..., "step_time_s": {...}, ...}
//     as result.json names them
//   {"point": {...}, "error": {"message", "place", "file"}, "scenario": {...}}
//     where the input is wrong; with "key" too where that shows only in the simulation
// each with a last member "check", a sum over the line before it (result_lines.h): a line that was changed, or
// has none, as older versions wrote them, is refused. When sweep returns, all lines are on the disk.
// A line depends on its point alone: neither on time, nor on threads, nor on what else was computed. Where
// the scenario of a point couldn't be read and later can, its new line follows the old one: of a point's
// lines the last counts.
struct SweepProgress {
  std::size_t done = 0, points = 0;  // lines written, of how many
  std::size_t failed = 0;
};

struct SweepOptions {
  std::string out;
  int jobs = 1;  // threads
  std::function<void(const SweepProgress&)>
      progress;                          // after each point, from one thread at a time; may be empty
  std::optional<SweepShard> shard = {};  // its points alone, into a file of its own
};

struct SweepOutcome {
  std::string file;          // where the lines are
  std::size_t points = 0;    // of the shard, where one is asked for
  std::size_t found = 0;     // by an earlier run, or by shards
  std::size_t joined = 0;    // lines of shards that are now in results.jsonl
  std::size_t computed = 0;  // simulations made
  std::size_t failed = 0;
  std::size_t older = 0;    // lines of another model version (core/version.h), computed again
  std::string older_lines;  // the file beside results.jsonl where such a folder's lines are kept
  bool locked = true;       // whether the file system's locks keep a second sweep out
  // What went wrong that is not the input's fault; those points have no line.
  std::vector<std::string> faults;
};

// A shard computes those points whose key, as a number, is its index modulo the count (of a point that can't be read: a
// sum over it), so equal scenarios fall into one; its lines are in a file of its own (file_of), and any number of
// shards may run at once. A sweep without a shard takes their lines into results.jsonl, each point's once,
// deletes their files when all is on the disk, and computes what is missing; a shard that still runs is an error.
//
// Points that results.jsonl holds already are not computed again (a last line without an end is cut off);
// equal scenarios are computed once and written for each point. Where lines are of another model version, all are
// kept apart in `older_lines`, and every point is computed again. A wrong point is a line, not an exception.
// Throws InputError when `out` can't be used, belongs to another sweep that is running, holds lines that
// can't be read or are of another study, or a study.json that no sweep wrote or that this study is made of;
// nothing in it has changed then. Symbolic links in the place of the two files are not followed.
SweepOutcome sweep(const Study&, const SweepOptions&);

// The line of one point, as sweep writes it, without its end.
std::string sweep_line(const Study&, const StudyPoint&);

// What a computed point is known by: 128 bits over the effective scenario without its description, the
// profile, the model version, and, under strong scaling, what it is compared with.
std::string content_key(const Scenario&, const Study&, const std::optional<BatchShare>& alone);

// What a sweep says at its end: a table of the combinations of all axes but the seed, if there are few (means
// over the seeds, and of the step 5 % to 95 % of them, interpolated as numpy does), and the first points that
// failed with their messages.
std::string sweep_table(const Study&, const std::string& out);
// And its last line: the file, how many points were found, computed, joined, and failed.
std::string sweep_summary(const SweepOutcome&);
// What else is to be known of it: locks that don't hold, lines set aside.
std::vector<std::string> sweep_remarks(const SweepOutcome&);

}  // namespace paceline
