#include <algorithm>
#include <chrono>
#include <cmath>

#include "calibrate/measure/session.h"
#include "core/text.h"
#include "kernels/reference.h"

namespace paceline::measure {
namespace {

// A timed batch of a short kernel lasts at least this long: the clock's own cost must not count.
constexpr double kLeastBatch = 50e-6;

std::string readable(double value) { return formatted("%.6g", value); }

std::string wrong_collective(Session& session, const Collective& collective,
                             const std::optional<Fault>& fault) {
  std::vector<float> result = session.backend.result(collective);
  if (fault && fault->kind == Fault::Kind::wrong) {
    result.front() += 1;
  }
  const auto wrong = first_wrong(collective, result, session.place.rank, session.place.ranks);
  return !wrong ? ""
                : "element " + std::to_string(wrong->index) + " is " +
                      readable(static_cast<double>(wrong->found)) + ", not " +
                      readable(static_cast<double>(wrong->expected));
}

std::string wrong_kernel(const RunnableKernel& kernel, const std::optional<Fault>& fault) {
  const double error = kernel.check() + (fault && fault->kind == Fault::Kind::wrong ? 1.0 : 0.0);
  const double tolerance = kernel_tolerance(kernel.spec);
  return error <= tolerance
             ? ""
             : "the result is off by " + readable(error) + " of its scale, more than " + readable(tolerance);
}

std::optional<Spread> measure_collective(Session& session, const PlanRow& row, std::optional<Fault> fault) {
  const Collective& collective = *row.collective;
  session.backend.load(collective, pattern(collective, session.place.rank, session.place.ranks));
  session.control.progress();
  session.backend.run(collective);
  session.require_right(row.title(), wrong_collective(session, collective, fault));
  if (fault) {
    suffer(*fault);
  }
  const bool late = row.straggler && row.straggler->rank == session.place.rank;
  const double delay = late ? row.straggler->seconds : 0;
  const auto once = [&] { return session.backend.time(collective, delay); };
  session.control.progress();
  once();
  session.control.progress();
  return session.spread_of_slowest(session.repeat(once(), once));
}

// What a launch costs the host: it doesn't wait for the kernels, as long as their queue has room.
double launch_cost(Backend& backend, const RunnableKernel& kernel) {
  constexpr int kLaunches = 100;
  backend.synchronise();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kLaunches; ++i) {
    kernel.launch();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  backend.synchronise();
  return took.count() / kLaunches;
}

std::optional<Spread> measure_kernel(Session& session, const PlanRow& row, std::optional<Fault> fault) {
  const RunnableKernel kernel = session.backend.make_kernel(*row.kernel);
  session.control.progress();
  session.require_right(row.title(), wrong_kernel(kernel, fault));
  if (fault) {
    suffer(*fault);
  }
  if (kernel_kind(kernel.spec) == "launch") {
    const auto once = [&] { return launch_cost(session.backend, kernel); };
    once();
    return session.spread_of_slowest(session.repeat(once(), once));
  }
  session.backend.time_kernel(kernel, 1);
  const double alone = session.largest(session.backend.time_kernel(kernel, 1));
  const int batch = std::max(1, static_cast<int>(std::ceil(kLeastBatch / std::max(alone, 1e-7))));
  const auto once = [&] { return session.backend.time_kernel(kernel, batch) / batch; };
  return session.spread_of_slowest(session.repeat(alone * batch, once));
}

}  // namespace

std::optional<Spread> measure_row(Session& session, const PlanRow& row, int number) {
  session.control.now(row.title());
  if (row.beside != Beside::nothing) {
    return measure_overlap(session, row);
  }
  const std::optional<Fault> fault = session.fault_at(number);
  return row.collective ? measure_collective(session, row, fault) : measure_kernel(session, row, fault);
}

}  // namespace paceline::measure
