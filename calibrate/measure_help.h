// What the measuring program's options are: it says so itself, and `paceline calibrate measure --help` where it
// couldn't be built.
#pragma once

#include <string>

namespace paceline {

inline constexpr const char* kMeasureHelp = R"(
Measures collectives, kernels and training steps, and appends one CSV row per measurement. A row that the
file already has is not measured again, so the same command resumes what was interrupted.

  mpirun -np 4 PROGRAM --collectives all_reduce --sizes 1K:64M:x4 --kernels none --out ring.csv

What:
  --collectives LIST   of all_reduce, all_gather, reduce_scatter, broadcast, sendrecv; all or none.
                       Default: all where there are several ranks
  --sizes LIST         4,64K,1M (powers of 1024) or FROM:TO:xFACTOR. Default: 1K:64M:x4
  --kernels LIST       of gemm, conv_gemm, elementwise, layer_norm, softmax, adam, copy_scale, quantise,
                       dequantise, top_k, copy (memory bandwidth), empty (a launch); all or none.
                       Default: all
  --straggler [RANK:]TIME   also time every collective with one rank (default: the last) late by TIME (500us)
  --overlap            also time every collective beside a gemm, and that gemm beside it
  --train STEPS.csv    run a data-parallel trainer: columns op,index,duration_us,bytes,label; op is compute,
                       collective or wait. Then the default is no other collectives and no kernels
  --iterations N       of the trainer, after one for warm-up. Default: 20
  --compute wait|real  the trainer's compute operations sleep, or keep the device busy. Default: wait
How long:
  --repeats N          of a row, at most. At least 5 are made. Default: 100
  --budget SECONDS     for a row, at most (but for the least repeats). Default: 1
  --timeout SECONDS    without progress: a rank hangs. Default: 60
Where to:
  --out FILE.csv       Default: measured.csv
  --quiet              no progress on stderr
  --help

Ranks come from mpirun (Open MPI), torchrun, srun or a PMI launcher; without one there is a single process.
Where they are on several machines and the program is NCCL's, set MASTER_ADDR to rank 0's machine and
PACELINE_SECRET to the same random text for all (openssl rand -hex 16): nobody else may join the job.
Exit status: 0 everything is in the file; 1 a rank died, hangs or disagrees, or the machine failed: what was
measured is kept; 2 the command line or an input file is wrong.
)";

inline std::string measure_help(const std::string& program) {
  std::string text = program + kMeasureHelp;
  text.replace(text.find("PROGRAM"), 7, program);
  return text;
}

}  // namespace paceline
