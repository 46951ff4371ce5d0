// Backend (calibrate/measure/backend.h) by MPI and the CPU. A process without a launcher works without MPI.
#include <mpi.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "calibrate/measure/backend.h"
#include "calibrate/measure/wait.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/loops.h"

namespace paceline::measure {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void require(int code, const char* call) {
  if (code != MPI_SUCCESS) {
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, text, &length);
    throw std::runtime_error(std::string(call) + ": " + text);
  }
}

// Rings, as NCCL's, so that sizes and ranks mean the same: Open MPI's "tuned" component would otherwise
// change its algorithm with the size. 4: ring (all-reduce, all-gather); 3: ring (reduce-scatter), pipeline
// (broadcast, in segments). What the user has set stays.
void pin_algorithms() {
  const std::pair<const char*, const char*> settings[]{
      {"OMPI_MCA_coll_tuned_use_dynamic_rules", "1"},
      {"OMPI_MCA_coll_tuned_allreduce_algorithm", "4"},
      {"OMPI_MCA_coll_tuned_allgather_algorithm", "4"},
      {"OMPI_MCA_coll_tuned_reduce_scatter_algorithm", "3"},
      {"OMPI_MCA_coll_tuned_bcast_algorithm", "3"},
      {"OMPI_MCA_coll_tuned_bcast_algorithm_segmentsize", "131072"},
      {"OMPI_MCA_mpi_yield_when_idle", "1"},
  };
  for (const auto& [name, value] : settings) {
    setenv(name, value, 0);
  }
}

// Cores that this process may use: those it is bound to, or its share of all.
int threads_for(int local_ranks) {
  const int all = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  cpu_set_t bound;
  const int mine = sched_getaffinity(0, sizeof bound, &bound) == 0 ? CPU_COUNT(&bound) : all;
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return mine < online ? mine : std::max(1, all / local_ranks);
}

// The values of a key of /proc/cpuinfo, one per core.
std::vector<std::string> processor_values(const std::string& key) {
  std::ifstream in("/proc/cpuinfo");
  std::vector<std::string> values;
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with(key) && colon != std::string::npos) {
      values.push_back(line.substr(colon + 2));
    }
  }
  return values;
}

// "Open MPI v4.1.4" of "Open MPI v4.1.4, package: Debian OpenMPI, ..."
std::string library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string version(text);
  return version.substr(0, version.find_first_of(",\n"));
}

int count_of(std::int64_t elements) {
  if (elements > INT_MAX) {
    throw std::runtime_error("MPI counts elements with 31 bits: sizes must be below 8 GiB");
  }
  return static_cast<int>(elements);
}

constexpr std::int64_t kWorkSize = 96;  // of the trainer's matrix product: some microseconds

}  // namespace

struct Backend::State {
  Place place;
  bool alone = false;  // no MPI
  std::vector<float> send, receive;
  std::shared_ptr<ThreadTeam> team;
  std::vector<float> work_a, work_b, work_c;
  double work_s = 0;  // of one product; 0: not yet known

  void do_work() {
    cpu::gemm(*team, kWorkSize, kWorkSize, kWorkSize, work_a.data(), work_b.data(), work_c.data());
  }
  void calibrate_work();
};

void Backend::State::calibrate_work() {
  work_a.assign(kWorkSize * kWorkSize, 1.0F);
  work_b = work_c = work_a;
  std::vector<double> times;
  for (int batch = 0; batch < 21; ++batch) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < 20; ++i) {
      do_work();
    }
    times.push_back(seconds_since(start) / 20);
  }
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  work_s = times[10];
}

Backend::Backend(Place& place) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.alone = place.launcher.empty();
  if (!s.alone) {
    pin_algorithms();
    int provided = 0;
    require(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != place.ranks) {
      throw std::runtime_error("MPI sees " + std::to_string(ranks) + " ranks where " + place.launcher +
                               " started " + std::to_string(place.ranks) + ": start it by mpirun");
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &place.rank);
    MPI_Comm here = MPI_COMM_NULL;
    require(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, place.rank, MPI_INFO_NULL, &here),
            "MPI_Comm_split_type");
    MPI_Comm_rank(here, &place.local_rank);
    MPI_Comm_size(here, &place.local_ranks);
    MPI_Comm_free(&here);
  }
  s.place = place;
  s.team = std::make_shared<ThreadTeam>(threads_for(place.local_ranks));
}

Backend::~Backend() = default;

BackendFacts Backend::facts() const {
  const std::vector<std::string> models = processor_values("model name");
  utsname system{};
  uname(&system);
  const int threads = state_->team->size();
  return {.backend = "mpi",
          .library = state_->alone ? "none" : library_version(),
          .device = (models.empty() ? std::string(system.machine) : models.front()) + " (" +
                    std::to_string(threads) + (threads == 1 ? " thread)" : " threads)"),
          .driver = std::string(system.sysname) + " " + system.release};
}

int Backend::clock_mhz() const {
  double sum = 0;
  const std::vector<std::string> clocks = processor_values("cpu MHz");
  for (const std::string& clock : clocks) {
    double mhz = 0;
    std::from_chars(clock.data(), clock.data() + clock.size(), mhz);
    sum += mhz;
  }
  return clocks.empty() ? 0 : static_cast<int>(std::lround(sum / static_cast<double>(clocks.size())));
}

std::optional<std::string> Backend::share_address(const std::string& of_rank_0) {
  if (state_->alone) {
    return of_rank_0;
  }
  int size = static_cast<int>(of_rank_0.size());
  require(MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
  std::string shared = of_rank_0;
  shared.resize(static_cast<std::size_t>(size));
  require(MPI_Bcast(shared.data(), size, MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
  return shared;
}

std::string Backend::make_token() { return {}; }
void Backend::connect(const std::string&) {}

void Backend::barrier() {
  if (!state_->alone) {
    require(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
  }
}

void Backend::load(const Collective& collective, std::span<const float> send) {
  state_->send.assign(send.begin(), send.end());
  state_->receive.assign(static_cast<std::size_t>(recv_elements(collective, state_->place.ranks)), 0.0F);
}

void Backend::run(const Collective& collective) {
  State& s = *state_;
  const int ranks = s.place.ranks, rank = s.place.rank;
  const int sent = count_of(send_elements(collective, ranks));
  const int received = count_of(recv_elements(collective, ranks));
  float* const from = s.send.data();
  float* const to = s.receive.data();
  if (s.alone) {
    std::memcpy(to, from, static_cast<std::size_t>(received) * sizeof(float));
    return;
  }
  switch (collective.kind) {
    case CollectiveKind::all_reduce:
      require(MPI_Allreduce(from, to, sent, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
      break;
    case CollectiveKind::all_gather:
      require(MPI_Allgather(from, sent, MPI_FLOAT, to, sent, MPI_FLOAT, MPI_COMM_WORLD), "MPI_Allgather");
      break;
    case CollectiveKind::reduce_scatter: {
      const std::vector<int> counts(static_cast<std::size_t>(ranks), received);
      require(MPI_Reduce_scatter(from, to, counts.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
              "MPI_Reduce_scatter");
      break;
    }
    case CollectiveKind::broadcast:
      // MPI broadcasts in place: the root sends from its send buffer, which is its result too.
      require(MPI_Bcast(rank == 0 ? from : to, sent, MPI_FLOAT, 0, MPI_COMM_WORLD), "MPI_Bcast");
      break;
    case CollectiveKind::sendrecv:
      require(MPI_Sendrecv(from, sent, MPI_FLOAT, (rank + 1) % ranks, 0, to, received, MPI_FLOAT,
                           (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              "MPI_Sendrecv");
      break;
  }
}

double Backend::time(const Collective& collective, double delay_s) {
  barrier();
  const Clock::time_point start = Clock::now();
  if (delay_s > 0) {
    precise_wait(delay_s);
  }
  run(collective);
  return seconds_since(start);
}

std::vector<float> Backend::result(const Collective& collective) {
  const State& s = *state_;
  const bool root = collective.kind == CollectiveKind::broadcast && s.place.rank == 0;
  const std::vector<float>& buffer = root ? s.send : s.receive;
  return {buffer.begin(), buffer.begin() + recv_elements(collective, s.place.ranks)};
}

std::vector<KernelSpec> Backend::kernels() const { return cpu_kernel_shapes(); }

RunnableKernel Backend::make_kernel(const KernelSpec& kernel) {
  return make_cpu_kernel(kernel, state_->team);
}

double Backend::time_kernel(const RunnableKernel& kernel, int count) {
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < count; ++i) {
    kernel.launch();
  }
  return seconds_since(start);
}

void Backend::synchronise() {}

void Backend::compute(double seconds) {
  State& s = *state_;
  if (s.work_s <= 0) {
    s.calibrate_work();
  }
  for (std::int64_t left = std::llround(seconds / s.work_s); left > 0; --left) {
    s.do_work();
  }
}

void Backend::finish() {
  if (!state_->alone) {
    MPI_Finalize();
  }
}

}  // namespace paceline::measure
