#include "calibrate/measure/session.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <thread>

#include "calibrate/measure/progress_line.h"
#include "calibrate/measure/wire.h"
#include "calibrate/measure_help.h"
#include "core/error.h"

namespace paceline::measure {
namespace {

constexpr int kDone = 0, kFailed = 1, kBadInput = 2;
constexpr const char* kProgram = "paceline-measure";

// Different on every machine and boot; alike on all that share one clock.
std::string machine_identity() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string identity;
  std::getline(in, identity);
  return identity.empty() ? host_name() : identity;
}

// Signals that end a process are waited for by a thread: rank 0 then says why it ends and what is kept. A
// launcher that ends the job because one rank died sends them too, so they leave the control channel time to
// name it: Open MPI kills after a second (odls_base_sigkill_timeout).
class SignalWatch {
 public:
  SignalWatch() {
    sigemptyset(&signals_);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
      sigaddset(&signals_, signal);
    }
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    thread_ = std::thread([this] { watch(); });
  }
  ~SignalWatch() {
    over_ = true;
    thread_.join();
  }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  void tell(Control* control) { control_ = control; }

 private:
  void watch() {
    while (!over_) {
      const timespec patience{0, 100'000'000};
      if (sigtimedwait(&signals_, nullptr, &patience) <= 0) {
        continue;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(800));
      if (Control* control = control_) {
        control->stopped("stopped by a signal");
      }
      _exit(kFailed);
    }
  }

  sigset_t signals_{};
  std::atomic<Control*> control_{nullptr};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// On a terminal the progress line may stand where the message goes.
void print(const std::string& message) {
  const char* const clear = isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "";
  std::fprintf(stderr, "%s%s: %s\n", clear, kProgram, message.c_str());
  std::fflush(stderr);
}

// Rank 0 finds out whether all ranks want the same, and how they lie on machines.
void compare_ranks(Session& session, const std::string& plan) {
  const Writer own = Writer().text(plan).text(machine_identity()).put(session.place.local_rank);
  const std::vector<std::string> all = session.control.gather(own.bytes());
  Writer agreed;
  if (session.leads()) {
    int nodes = 0;
    bool one_clock = true;
    std::string first_machine;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      Reader in(all[rank]);
      if (in.text() != plan) {
        session.control.fail(static_cast<int>(rank),
                             "disagrees: its options or kernels are not those of rank 0");
      }
      const std::string machine = in.text();
      first_machine = rank == 0 ? machine : first_machine;
      one_clock = one_clock && machine == first_machine;
      nodes += in.get<int>() == 0 ? 1 : 0;
    }
    agreed.put(std::max(1, nodes)).put(one_clock);
  }
  const std::string answer = session.control.spread(agreed.bytes());
  Reader in(answer);
  session.nodes = in.get<int>();
  session.one_clock = in.get<bool>();
}

// A row with the columns that do not depend on what is measured.
ResultRow common_columns(const Session& session, const BackendFacts& facts) {
  ResultRow row;
  row.ranks = session.place.ranks;
  row.nodes = session.nodes;
  row.gpus_per_node = session.place.ranks / session.nodes;
  row.backend = facts.backend;
  row.library = facts.library;
  row.device = facts.device;
  row.host = session.place.host;
  row.driver = facts.driver;
  return row;
}

ResultRow columns_of(const PlanRow& plan, ResultRow row) {
  row.condition = plan.condition();
  if (plan.times_collective()) {
    row.kind = "collective";
    row.name = name_of(plan.collective->kind);
    row.precision = "fp32";
    row.size_bytes = plan.collective->bytes;
    return row;
  }
  const KernelSpec& kernel = *plan.kernel;
  row.kind = kernel_kind(kernel);
  row.name = kernel.name;
  row.precision = kernel.precision;
  row.m = kernel.m;
  row.n = kernel.n;
  row.k = kernel.k;
  row.work_flop = kernel_work(kernel);
  row.traffic_bytes = kernel_traffic(kernel);
  return row;
}

class Run {
 public:
  Run(Session& session, ResultFile* file, ProgressLine& line)
      : session_(session), file_(file), line_(line), facts_(session.backend.facts()) {}

  void measure(const std::vector<PlanRow>& plan);
  void train_once(const std::vector<StepOperation>&);

 private:
  // On rank 0 whether the file has the row, spread to all.
  bool agree_to_skip(const ResultRow& row) {
    const std::string own = session_.leads() && file_->has(row) ? "skip" : "measure";
    return session_.control.spread(own) == "skip";
  }
  void append(ResultRow row) {
    row.clock_mhz = session_.backend.clock_mhz();
    row.date = utc_date();
    file_->append(row);
  }

  Session& session_;
  ResultFile* file_;  // rank 0 only
  ProgressLine& line_;
  BackendFacts facts_;
};

void Run::measure(const std::vector<PlanRow>& plan) {
  const ResultRow common = common_columns(session_, facts_);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    ResultRow row = columns_of(plan[i], common);
    if (agree_to_skip(row)) {
      line_.skip();
      continue;
    }
    const std::optional<Spread> times = measure_row(session_, plan[i], static_cast<int>(i));
    if (times) {
      row.time_us = times->median * 1e6;
      row.min_us = times->min * 1e6;
      row.max_us = times->max * 1e6;
      row.repeats = times->repeats;
      append(row);
      line_.done(plan[i].title(), row.time_us);
    }
  }
}

void Run::train_once(const std::vector<StepOperation>& operations) {
  const ResultRow median = train_row(common_columns(session_, facts_), session_.options, operations);
  if (agree_to_skip(median)) {
    line_.skip();
    return;
  }
  train(session_, operations, median, [&](const ResultRow& row) {
    append(row);
    if (row.name == median.name) {
      line_.done("step of " + session_.options.train, row.time_us);
    }
  });
}

}  // namespace

std::optional<Fault> Session::fault_at(int row) const {
  const std::optional<Fault>& fault = options.fault;
  return fault && fault->rank == place.rank && fault->row == row ? fault : std::nullopt;
}

double Session::largest(double own) {
  const std::vector<std::string> all = control.gather(Writer().put(own).bytes());
  for (const std::string& bytes : all) {
    own = std::max(own, Reader(bytes).get<double>());
  }
  return Reader(control.spread(Writer().put(own).bytes())).get<double>();
}

bool Session::all(bool own) { return largest(own ? 0 : 1) <= 0; }

void Session::require_right(const std::string& title, const std::string& wrong) {
  const std::vector<std::string> every = control.gather(wrong);
  for (std::size_t rank = 0; rank < every.size(); ++rank) {
    if (!every[rank].empty()) {
      control.fail(static_cast<int>(rank), "disagrees during " + title + ": " + every[rank]);
    }
  }
  (void)control.spread("");  // nobody goes on before all are known to be right
}

std::vector<std::vector<double>> Session::gather_times(const std::vector<double>& own) {
  std::vector<std::vector<double>> times;
  for (const std::string& bytes : control.gather(Writer().numbers(own).bytes())) {
    times.push_back(Reader(bytes).numbers());
  }
  return times;
}

std::optional<Spread> Session::spread_of_slowest(const std::vector<double>& own) {
  const std::vector<std::vector<double>> times = gather_times(own);
  return times.empty() ? std::nullopt : std::optional(spread_of(slowest(times)));
}

std::vector<double> Session::repeat(double estimate_s, const std::function<double()>& once) {
  const int repeats = repeats_within(largest(estimate_s), options.budget_s, kLeastRepeats, options.repeats);
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    control.progress();
    times.push_back(once());
  }
  return times;
}

namespace {

// What a run needs before other ranks are met: wrong input shows here.
struct Input {
  Options options;
  Place place;
  std::vector<StepOperation> steps;
  std::unique_ptr<ResultFile> file;  // rank 0 only
};

// Exit status, or nothing where the run goes on.
std::optional<int> read_input(const std::vector<std::string>& arguments, const std::string& program,
                              Input& input) {
  try {
    input.place = place_from_environment(process_environment(), host_name());
    input.options = parse_options(arguments);
    if (input.options.help) {
      if (input.place.rank == 0) {
        std::fputs(measure_help(program).c_str(), stdout);
      }
      return kDone;
    }
    if (!input.options.train.empty()) {
      input.steps = read_steps(input.options.train);
    }
    if (input.place.rank == 0) {
      input.file = std::make_unique<ResultFile>(input.options.out);
    }
    return std::nullopt;
  } catch (const InputError& error) {
    if (input.place.rank == 0) {
      print(error.what());
    }
    return kBadInput;
  }
}

std::string kept(const Input& input) {
  return input.file ? "; kept " + std::to_string(input.file->rows()) + " rows in " + input.options.out
                    : "; what was measured is in " + input.options.out;
}

void measure_all(Session& session, const Input& input, const std::vector<PlanRow>& plan) {
  const Options& options = input.options;
  compare_ranks(session, plan_text(options, plan));
  session.backend.connect(
      session.control.spread(session.leads() ? session.backend.make_token() : std::string()));
  session.control.progress();
  session.backend.barrier();
  const int rows = static_cast<int>(plan.size()) + (options.train.empty() ? 0 : 1);
  ProgressLine line(rows, session.leads() && !options.quiet);
  Run run(session, input.file.get(), line);
  run.measure(plan);
  if (!options.train.empty()) {
    run.train_once(input.steps);
  }
  session.backend.finish();
  session.control.finish();
}

}  // namespace

int run_session(const std::vector<std::string>& arguments, const std::string& program) {
  Input input;
  if (const std::optional<int> status = read_input(arguments, program, input)) {
    return *status;
  }
  SignalWatch signals;
  try {
    Backend backend(input.place);
    const std::vector<PlanRow> plan = make_plan(input.options, input.place.ranks, backend.kernels());
    Control control(
        input.place, input.options.timeout_s,
        [&](const std::string& address) { return backend.share_address(address); },
        [&](const std::string& message) { print(message + kept(input)); });
    signals.tell(&control);
    Session session{input.options, input.place, backend, control};
    try {
      measure_all(session, input, plan);
    } catch (const std::exception& error) {
      control.error(error.what());
    }
    signals.tell(nullptr);
  } catch (const InputError& error) {
    if (input.place.rank == 0) {
      print(error.what());
    }
    _exit(kBadInput);
  } catch (const std::exception& error) {
    print("rank " + std::to_string(input.place.rank) + " on " + input.place.host + ": " + error.what());
    _exit(kFailed);
  }
  if (input.file && !input.options.quiet) {
    print(std::to_string(input.file->rows()) + " rows in " + input.options.out);
  }
  return kDone;
}

}  // namespace paceline::measure
