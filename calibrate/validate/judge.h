// Is a log as it should be? Every row beside what the machine should take, and a verdict in words: nothing is
// fitted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/fit/fit_files.h"
#include "calibrate/validate/diagnose.h"

namespace paceline {

struct JudgedRow {
  std::size_t row = 0;    // in MeasuredData::collectives
  std::size_t point = 0;  // in ExpectedLog
  bool judged = false;
  std::string left_out;  // why it isn't, if it isn't
};

// Rows of neighbouring sizes at one place that are as they should be, or that aren't.
struct Stretch {
  std::size_t place = 0;
  Bytes first, last;
  std::size_t rows = 0;
  bool expected = true;
  double speed = 1;  // predicted / measured, geometric mean
};

struct JudgedLog {
  MeasuredData data;
  std::vector<std::string>
      remarks;  // of its files, and what they say that the cluster or the prediction hasn't got
  ExpectedLog log;
  std::vector<JudgedRow> rows;       // of data
  ExpectedLog diagnosed;             // so much of the log as was
  Diagnosis diagnosis;               // of that
  std::vector<Stretch> stretches;    // likewise
  std::vector<std::string> verdict;  // a line for each place, then what explains it
  bool healthy() const;              // nothing is wrong, no row is impossible, and each moved what it should
};

struct LogFiles {
  FitFiles files;  // what `calibrate fit` is told of logs
  std::optional<Profile> profile;
};

// Throws InputError with the files' or the command line's names, and as for_machine does. Cost: some ten simulations of
// every size.
JudgedLog judge(const LogFiles&);

// Within the interval, for a program that takes so much to launch.
bool as_expected(const ExpectedPoint&, Seconds measured, Seconds launch);

// `paceline calibrate compare` and `diagnose`.
std::string compare_text(const JudgedLog&);
std::string diagnose_text(const JudgedLog&);
std::string compare_json(const JudgedLog&);
std::string diagnose_json(const JudgedLog&);

}  // namespace paceline
