// Where a process stands among the processes of its job, as the launcher tells it by environment variables.
#pragma once

#include <map>
#include <string>

namespace paceline::measure {

struct Place {
  int rank = 0, ranks = 1;
  int local_rank = 0, local_ranks = 1;  // among those of this host; chooses the GPU
  std::string host;                     // name of this machine
  std::string master_address;           // of rank 0; empty: the launcher did not say
  int master_port = 0;                  // 0: likewise
  std::string launcher;                 // "mpirun", "torchrun", "srun", "PMI"; empty: a single process
  std::string job;     // tells this job's processes from those of others on the machine: a file's name
  std::string secret;  // PACELINE_SECRET: only this job's processes know it; empty: not set

  bool one_machine() const { return local_ranks == ranks; }
};

// Reads, first found: OMPI_COMM_WORLD_* (mpirun of Open MPI), RANK and WORLD_SIZE (torchrun), SLURM_PROCID
// and SLURM_NTASKS (srun), PMI_RANK and PMI_SIZE (MPICH). MASTER_ADDR, MASTER_PORT and PACELINE_SECRET count
// with any launcher. Throws InputError naming the variable that is missing, not a number or out of range, or
// a secret that could be guessed.
Place place_from_environment(const std::map<std::string, std::string>& environment, const std::string& host);

// The process's own environment as a map.
std::map<std::string, std::string> process_environment();
std::string host_name();

}  // namespace paceline::measure
