// What people already have, read as measurements: nccl-tests' output (every version, any launch prefix,
// several tables in a file) and its JSON, PyTorch profiler (Kineto) traces, plain CSV (also what
// calibrate/measure writes).
#pragma once

#include <iosfwd>
#include <span>
#include <string>

#include "calibrate/measurement.h"

namespace paceline {

// The format is told by the content. Throws InputError where the file can't be read or holds nothing that is
// a measurement; what can be read of a damaged file is read, and a remark says what was left out. Cost: one
// pass; memory: that of the measurements, not of the file.
MeasuredData import_file(const std::string& path);

// All of them in one, in order. A folder stands for its files (*.txt, *.log, *.out, *.err, *.csv, *.json, all
// also as *.gz), by name. What is no measurement in a folder is a remark. Throws InputError where a named file
// or a whole folder holds none.
MeasuredData import_files(std::span<const std::string> paths);

// For each file: format, rows, ranks, nodes, NCCL; then the remarks, as "FILE:LINE: TEXT".
std::string import_summary(const MeasuredData&);
std::string remark_line(const Remark&);

// The collectives that ran alone, as a CSV that import_file reads back as the same (but for their origin).
void write_csv(const MeasuredData&, std::ostream&);

}  // namespace paceline
