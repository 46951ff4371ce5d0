// paceline-measure-mpi, paceline-measure-nccl: measures collectives, kernels and whole training steps on the
// machine it is started on, and appends one CSV row per measurement. One process per GPU (or per CPU rank):
//
//   paceline-measure-mpi                                            one process: kernels of this CPU
//   mpirun -np 4 paceline-measure-mpi --collectives all_reduce --sizes 1K:64M:x4 --kernels none
//   torchrun --no-python --nproc-per-node 8 paceline-measure-nccl --out node.csv
//   srun --ntasks-per-node 8 paceline-measure-nccl --overlap      (MASTER_ADDR and PACELINE_SECRET set)
//   mpirun -np 4 paceline-measure-mpi --train steps.csv --iterations 50
//
// Options: calibrate/measure_help.h, printed by --help. Exit status: 0 all rows are in the file; 1 a rank died,
// hangs or disagrees, or the machine failed (what was measured is kept, the same command resumes); 2 the
// command line, the environment or an input file is wrong. When it ends with 1, the last line on stderr reads
//
//   paceline-measure: rank 2 on HOST died during all_reduce 1048576 B; kept 3 rows in measured.csv
//
// (or "hangs", or "disagrees ...: what was found"), and all processes have ended.
//
// --train STEPS.csv: columns op,index,duration_us,bytes,label, one line per operation of one iteration, in
// order of the compute thread. op is
//   compute     occupies the compute thread for duration_us
//   collective  hands an all-reduce of `bytes` to the communication thread, number `index` (0, 1, ...)
//   wait        blocks the compute thread until collective `index` of this iteration is done
// All-reduces run one at a time in the order they were handed over. An iteration ends when all is done. Rows:
// kind step, name step, m = iteration, one each (iteration 0 is warm-up and has repeats 0), then one named
// step_median over the others. condition holds `train=FILE` and, with --compute real, ` compute=real`.
//
// --fault KIND:RANK:ROW (for tests): in row ROW of the plan (from 0; with --train: iteration ROW) rank RANK
// does what KIND says: die (kills itself), hang (stops calling anything), freeze (the whole process stops),
// wrong (its result has one wrong number; of training the last).
#include "calibrate/measure/session.h"
#include "core/standard_streams.h"

int main(int count, char** values) {
  paceline::open_standard_streams();
  const std::vector<std::string> arguments(values + 1, values + count);
  const std::string path = values[0];
  return paceline::measure::run_session(arguments, path.substr(path.find_last_of('/') + 1));
}
