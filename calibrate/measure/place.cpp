#include "calibrate/measure/place.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/error.h"
#include "core/text.h"

namespace paceline::measure {
namespace {

using Environment = std::map<std::string, std::string>;

std::optional<std::string> text(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::nullopt : std::optional(found->second);
}

int number(const Environment& environment, const std::string& name, int least, int most) {
  const std::optional<std::string> value = text(environment, name);
  if (!value) {
    throw InputError("is missing, though others of its launcher are set", "environment variable " + name);
  }
  int parsed = 0;
  const char* end = value->data() + value->size();
  const auto [stop, error] = std::from_chars(value->data(), end, parsed);
  if (error != std::errc{} || stop != end || parsed < least || parsed > most) {
    throw InputError("must be a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
                         ", not \"" + *value + "\"",
                     "environment variable " + name);
  }
  return parsed;
}

constexpr int kMostRanks = 1 << 20;

struct Names {
  const char *launcher, *rank, *ranks, *local_rank, *local_ranks;
};
constexpr Names kLaunchers[]{
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};

// Inside an allocation but not under srun, Slurm sets SLURM_PROCID=0 with the allocation's SLURM_NTASKS.
bool is_srun_step(const Environment& environment) { return environment.contains("SLURM_STEP_ID"); }

void read_launcher(const Environment& environment, const Names& names, Place& place) {
  place.launcher = names.launcher;
  place.ranks = number(environment, names.ranks, 1, kMostRanks);
  place.rank = number(environment, names.rank, 0, place.ranks - 1);
  const bool one_node = text(environment, "SLURM_NNODES") == "1" || place.launcher != "srun";
  place.local_ranks = one_node ? place.ranks : 1;
  if (environment.contains(names.local_ranks)) {
    place.local_ranks = number(environment, names.local_ranks, 1, place.ranks);
  }
  place.local_rank = place.rank % place.local_ranks;
  if (environment.contains(names.local_rank)) {
    place.local_rank = number(environment, names.local_rank, 0, place.ranks - 1);
    place.local_ranks = std::max(place.local_ranks, place.local_rank + 1);
  }
}

// Alike for all processes that one call of a launcher has started.
std::string job_name(const Environment& environment, const std::string& launcher) {
  std::string name = launcher.empty() ? "alone" : launcher;
  for (const char* variable : {"MASTER_PORT", "SLURM_JOB_ID", "SLURM_STEP_ID", "TORCHELASTIC_RUN_ID",
                               "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID"}) {
    name += '-' + text(environment, variable).value_or("");
  }
  std::ranges::replace_if(name, [](char c) { return !is_letter(c) && !is_digit(c) && c != '-'; }, '_');
  return name.substr(0, 200);
}

std::string secret_of(const Environment& environment) {
  constexpr std::size_t kShortest = 16, kLongest = 256;
  std::string secret = text(environment, "PACELINE_SECRET").value_or("");
  const bool plain = std::ranges::all_of(secret, [](unsigned char c) { return std::isgraph(c) != 0; });
  if (!secret.empty() && (!plain || secret.size() < kShortest || secret.size() > kLongest)) {
    throw InputError(
        "must be 16 to 256 letters, digits and signs without spaces, such as the output of "
        "`openssl rand -hex 16`",
        "environment variable PACELINE_SECRET");
  }
  return secret;
}

}  // namespace

Place place_from_environment(const Environment& environment, const std::string& host) {
  Place place;
  place.host = host;
  for (const Names& names : kLaunchers) {
    const bool srun = std::string(names.launcher) == "srun";
    if (environment.contains(names.rank) && (!srun || is_srun_step(environment))) {
      read_launcher(environment, names, place);
      break;
    }
  }
  place.master_address = text(environment, "MASTER_ADDR").value_or("");
  if (environment.contains("MASTER_PORT")) {
    place.master_port = number(environment, "MASTER_PORT", 1, 65535);
  }
  place.job = job_name(environment, place.launcher);
  place.secret = secret_of(environment);
  return place;
}

std::map<std::string, std::string> process_environment() {
  Environment environment;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string line = *variable;
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) {
      environment[line.substr(0, equals)] = line.substr(equals + 1);
    }
  }
  return environment;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

}  // namespace paceline::measure
