// Parameter servers against closed forms, recursions written from the rules, and plain simulations. Every worker has a
// node and a NIC of its own, and so has every server, unless a test says otherwise.
#include "sim/strategy/parameter_server.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/engine/variability.h"
#include "sim/report/report.h"
#include "tests/dice.h"
#include "tests/error_of.h"

namespace paceline {
namespace {

constexpr BytesPerSecond kPort{1e9};  // a byte in 1,000 ps
constexpr SimTime kServerLatency{7'000'000};
constexpr SimTime kStep{1'000'000'000'000};

struct Setup {
  std::uint32_t workers = 1;
  ParameterServerSpec spec{};
  std::vector<std::int64_t> tensors{1};  // elements, one layer each
  std::vector<LayerSpan> layers{};       // empty: of kStep, forward and backward of all layers together
  VariabilitySpec variability{};
  bool beside = false;  // server k with worker k, sharing its NIC
  BytesPerSecond nic = kPort;
  SimTime latency = kServerLatency;
};

Workload workload_of(const Setup& setup) {
  Workload work;
  work.variability = setup.variability;
  work.training.host = {Seconds(0), Seconds(0), 1};
  work.training.batch_per_gpu = 1;
  for (const std::int64_t elements : setup.tensors) {
    Layer layer;
    layer.name = "layer " + std::to_string(work.model.layers.size());
    layer.parameters = {elements};
    work.model.layers.push_back(layer);
  }
  const auto layers = static_cast<std::int64_t>(setup.tensors.size());
  work.layers = setup.layers.empty()
                    ? std::vector<LayerSpan>(setup.tensors.size(), {SimTime{kStep.ps / 4 / layers},
                                                                    SimTime{kStep.ps * 3 / 4 / layers}, 0, 0})
                    : setup.layers;
  return work;
}

// Links: what member m's NIC sends is 2 m, what it is sent 2 m + 1.
TrainingJob job_of(const Setup& setup) {
  TrainingJob job;
  const RankLayout layout{setup.workers, 1};
  job.communicator.ranks = setup.workers;
  job.samples_per_iteration = setup.workers;
  const Workload work = workload_of(setup);
  job.variability = setup.variability;
  add_parameter_server_programs(setup.spec, {{work}}, layout, job);
  job.communicator.shared_capacity.assign(2 * job.member_count(), setup.nic);
  const auto nic = [&](std::uint32_t member) {
    return setup.beside && member >= setup.workers ? member - setup.workers : member;
  };
  for (std::uint32_t from = 0; from < job.member_count(); ++from) {
    for (std::uint32_t to = 0; to < job.member_count(); ++to) {
      if ((from < setup.workers) == (to < setup.workers)) {
        continue;
      }
      if (nic(from) == nic(to)) {
        job.routes.push_back({from, to, SimTime{}, BytesPerSecond(1e30), {}});
      } else {
        job.routes.push_back(
            {from, to, setup.latency, setup.nic, {LinkId(2 * nic(from)), LinkId(2 * nic(to) + 1)}});
      }
    }
  }
  return job;
}

Result served_run(const TrainingJob& job, int iterations = 5) {
  RunSpec spec;
  spec.iterations = iterations;
  return simulate(job, spec);
}

// Nothing takes time but kernels.
Setup without_messages(std::uint32_t workers, Consistency consistency) {
  Setup setup{.workers = workers};
  setup.spec.consistency = consistency;
  setup.spec.servers.memory_bandwidth = BytesPerSecond(1e30);
  setup.nic = BytesPerSecond(1e18);
  setup.latency = {};
  return setup;
}

ParameterServerSpec balanced(std::int64_t servers, Bytes each) {
  ParameterServerSpec spec;
  spec.servers.count = servers;
  spec.overlap = ServerOverlap::none;
  spec.partition = each;
  return spec;
}

constexpr Consistency kSync{}, kAsync{Consistency::Kind::asynchronous, 0};
Consistency stale(std::int64_t by) { return {Consistency::Kind::stale, by}; }

void every_step_takes(const Result& result, SimTime step) {
  for (const std::vector<SimTime>& ends : result.own_ends) {
    for (std::size_t i = 1; i < ends.size(); ++i) {
      CHECK((ends[i] - ends[i - 1]).ps == step.ps);
    }
  }
}

// Each way W K flows of P / K bytes, W into each server's port and K out of each worker's: all have the rate of the
// narrower, min(B / W, B / K). A server then sums W gradients of P / K one after the other, and updates.
TEST_CASE("incast: computing, twice max(P/B, W P/(K B)), applying, latencies") {
  for (const std::uint32_t workers : {1U, 3U, 8U}) {
    for (const std::int64_t servers : {1, 2, 8}) {
      INFO(workers << " workers, " << servers << " servers");
      const Bytes each(24'000'000), all(each.value * servers);
      Setup setup{.workers = workers, .spec = balanced(servers, each), .tensors = {all.value / 4}};
      setup.spec.servers.memory_bandwidth = BytesPerSecond(1e12);
      const SimTime sum{3 * each.value}, update{5 * each.value};  // a byte in a picosecond; SGD: five passes
      const std::int64_t sent = std::max(all.value, workers * each.value) * 1000;
      every_step_takes(
          served_run(job_of(setup)),
          kStep + SimTime{2 * sent} + static_cast<std::int64_t>(workers) * sum + update + 2 * kServerLatency);
    }
  }
}

// What a worker sends to its own server crosses no NIC.
TEST_CASE("servers beside the workers: twice P (W - 1) / (W B), as a ring's all-reduce") {
  for (const std::uint32_t workers : {2U, 3U, 8U}) {
    const Bytes each(24'000'000);
    Setup setup{.workers = workers, .spec = balanced(workers, each), .beside = true};
    setup.tensors = {workers * each.value / 4};
    setup.spec.servers.memory_bandwidth = BytesPerSecond(1e30);
    every_step_takes(served_run(job_of(setup)),
                     kStep + SimTime{2 * (workers - 1) * each.value * 1000} + 2 * kServerLatency);
  }
}

// Tensors of 1, 6 and 2 million elements on three servers: the one that has the large one is the last.
TEST_CASE("servers that keep unequal parts: the one with most decides") {
  for (const std::uint32_t workers : {3U, 8U}) {
    Setup setup{.workers = workers, .tensors = {1'000'000, 6'000'000, 2'000'000}};
    setup.layers.assign(3, {SimTime{100'000'000'000}, SimTime{200'000'000'000}, 0, 0});
    setup.spec.servers.count = 3;
    setup.spec.servers.memory_bandwidth = BytesPerSecond(1e30);
    setup.spec.overlap = ServerOverlap::none;
    every_step_takes(
        served_run(job_of(setup)),
        SimTime{900'000'000'000} + SimTime{2 * 24'000'000LL * workers * 1000} + 2 * kServerLatency);
  }
}

TEST_CASE("whole tensors go to the server that has least, of equal ones to the first") {
  const Setup setup{.tensors = {5, 3, 3, 1, 1, 9}};
  ParameterServerSpec spec;
  spec.servers.count = 2;
  std::vector<std::uint32_t> servers;
  for (const Piece& piece : pieces_of(spec, workload_of(setup).model, Precision::fp32, 1)) {
    servers.push_back(piece.server);
  }
  CHECK(servers == std::vector<std::uint32_t>{0, 1, 1, 0, 0, 1});  // 5 3 | 5 6 | 6 6 | 7 6 ...
  spec.servers.count = 7;
  CHECK_THAT(error_of([&] { pieces_of(spec, workload_of(setup).model, Precision::fp32, 1); }),
             Catch::Contains("at most a server for each of the 6 tensors"));
  spec.partition = Bytes(16);  // 2 + 1 + 1 + 1 + 1 + 3
  const std::vector<Piece> pieces = pieces_of(spec, workload_of(setup).model, Precision::fp32, 1);
  REQUIRE(pieces.size() == 9);
  for (std::uint32_t i = 0; i < pieces.size(); ++i) {
    CHECK(pieces[i].server == i % 7);
    CHECK(pieces[i].elements <= 4);
  }
  CHECK(std::accumulate(pieces.begin(), pieces.end(), std::int64_t{0},
                        [](std::int64_t sum, const Piece& piece) { return sum + piece.elements; }) == 22);
}

// A port that all share equally. When what is asked for at `asked` has come through. Exact where times are multiples.
std::vector<SimTime> shared_port(const std::vector<SimTime>& asked, const std::vector<std::int64_t>& bytes,
                                 std::int64_t ps_per_byte) {
  std::vector<double> left(bytes.begin(), bytes.end());
  std::vector<SimTime> ends(bytes.size(), kNever);
  for (SimTime now{};;) {
    std::size_t live = 0;
    SimTime next = kNever;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      live += asked[i] <= now && ends[i] == kNever ? 1 : 0;
      next = asked[i] > now ? std::min(next, asked[i]) : next;
    }
    const auto slow = static_cast<double>(ps_per_byte) * static_cast<double>(live);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (asked[i] <= now && ends[i] == kNever) {
        next = std::min(next, now + SimTime{static_cast<std::int64_t>(std::llround(left[i] * slow))});
      }
    }
    if (next == kNever) {
      return ends;
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (asked[i] <= now && ends[i] == kNever) {
        left[i] -= static_cast<double>((next - now).ps) / slow;
        ends[i] = left[i] < 1e-3 ? next : kNever;
      }
    }
    now = next;
  }
}

// The steps of equal workers with one server that sums and applies in no time. Layer by layer: pushes leave as
// backward passes end and share the server's port, answers leave as the last push has come, and share it again.
std::vector<SimTime> steps_by_tensor(const Setup& setup, int iterations) {
  const std::size_t layers = setup.tensors.size();
  std::vector<std::int64_t> bytes;
  for (const std::int64_t elements : setup.tensors) {
    bytes.push_back(4 * elements);
  }
  std::vector<SimTime> pulled(layers), ends;
  SimTime now;
  for (int i = 0; i <= iterations; ++i) {
    for (std::size_t l = 0; l < layers; ++l) {
      now = std::max(now, pulled[l]) + setup.layers[l].forward;
    }
    std::vector<SimTime> pushed(layers);
    for (std::size_t l = layers; l-- > 0;) {
      now += setup.layers[l].backward;
      pushed[l] = now;
    }
    ends.push_back(now);
    for (int way = 0; way < 2; ++way) {
      pushed = shared_port(pushed, bytes, 1000 * static_cast<std::int64_t>(setup.workers));
      for (SimTime& at : pushed) {
        at += kServerLatency;
      }
    }
    pulled = pushed;
  }
  return ends;
}

TEST_CASE("by tensor: pushed when they exist, pulled before they are needed") {
  Dice dice(11);
  for (std::uint64_t round = 0; round < rounds(200); ++round) {
    Setup setup{.workers = static_cast<std::uint32_t>(dice.between(1, 8)), .tensors = {}};
    setup.spec.servers.memory_bandwidth = BytesPerSecond(1e30);
    for (std::int64_t l = dice.between(1, 6); l > 0; --l) {
      setup.tensors.push_back(dice.between(1, 20) * 1'000'000);
      setup.layers.push_back(
          {SimTime{dice.between(1, 50) * 1'000'000'000}, SimTime{dice.between(1, 50) * 1'000'000'000}, 0, 0});
    }
    const Result result = served_run(job_of(setup), 4);
    const std::vector<SimTime> expected = steps_by_tensor(setup, 4);
    for (const std::vector<SimTime>& ends : result.own_ends) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK(std::abs((ends[i] - expected[i]).ps) <=
              8 * (1 + static_cast<std::int64_t>(i)));  // roundings of shares
      }
    }
  }
}

// Two layers are ready together, and the window holds one: the front one is pushed first, and its answer has come when
// the other's begins.
TEST_CASE("priority: of what waits, front layers first") {
  Setup setup{.tensors = {1'000'000, 1'000'000, 1'000'000}};
  setup.layers = {
      {SimTime{1}, SimTime{1}, 0, 0}, {SimTime{1}, SimTime{1}, 0, 0}, {SimTime{1}, SimTime{1}, 0, 0}};
  setup.spec.servers.memory_bandwidth = BytesPerSecond(1e30);
  setup.spec.overlap = ServerOverlap::priority;
  setup.spec.partition = Bytes(2'000'000);  // a window of two: 4,000,000 bytes, each tensor two partitions
  const SimTime tensor{4'000'000'000};
  const Result priority = served_run(job_of(setup), 3);
  // Layer 2 goes first, as it is ready first; then layer 0 before 1. Forward 0 may begin when layers 2 and 0 have come.
  setup.spec.overlap = ServerOverlap::by_tensor;
  const Result shared = served_run(job_of(setup), 3);
  const SimTime of_priority = priority.own_ends[0][2] - priority.own_ends[0][1];
  const SimTime of_shared = shared.own_ends[0][2] - shared.own_ends[0][1];
  // Either way all three layers are there after three tensors out, and the last one back.
  CHECK(of_priority < of_shared);
  CHECK(of_shared - of_priority > SimTime{tensor.ps});
  CHECK(of_shared - of_priority <= SimTime{2 * tensor.ps});
}

// Messages take no time, nor does applying.
TEST_CASE("stale by s: the fast worker's iteration c begins at max(c, f (c - s))") {
  for (const double factor : {1.5, 2.0, 3.0}) {
    for (const std::int64_t by : {0, 1, 3, 7}) {
      Setup setup = without_messages(4, stale(by));
      setup.variability.slow_gpus = {{{2}, 0, factor}};
      constexpr int kIterations = 30;
      const Result result = served_run(job_of(setup), kIterations);
      const std::vector<SimTime>& fast = result.own_ends[0];
      for (std::int64_t c = 0; c <= kIterations; ++c) {
        const double begins = std::max(static_cast<double>(c), factor * static_cast<double>(c - by));
        CHECK((fast[static_cast<std::size_t>(c)] - kStep).ps ==
              std::llround(begins * static_cast<double>(kStep.ps)));
      }
    }
  }
}

// Every s steps ahead count once: in the long run all are as fast as the slowest.
TEST_CASE("throughput at the bound is the slowest worker's, whatever the head start") {
  for (const int iterations : {20, 40}) {
    Setup setup = without_messages(4, stale(4));
    setup.variability.slow_gpus = {{{2}, 0, 1.5}};
    const TrainingJob job = job_of(setup);
    const Result result = served_run(job, iterations);
    CHECK(result.served.held_back > 0);
    CHECK(lasting_throughput(job, result) == Approx(4 / 1.5));
    setup.spec.consistency = stale(1000);  // nobody gets so far ahead
    const Result ahead = served_run(job_of(setup), iterations);
    CHECK(ahead.served.held_back == 0);
    CHECK(lasting_throughput(job, ahead) == Approx(3 + 1 / 1.5));
  }
}

Setup random_setup(Dice& dice) {
  Setup setup{.workers = static_cast<std::uint32_t>(dice.between(2, 8)), .tensors = {}};
  for (std::int64_t l = dice.between(1, 4); l > 0; --l) {
    setup.tensors.push_back(dice.between(1, 2'000'000));
    setup.layers.push_back(
        {SimTime{dice.between(1, 20'000'000'000)}, SimTime{dice.between(1, 20'000'000'000)}, 0, 0});
  }
  setup.spec.servers.count = dice.between(1, static_cast<std::int64_t>(setup.tensors.size()));
  setup.spec.overlap = dice.one_of(kNames<ServerOverlap>).value;
  setup.latency = SimTime{dice.between(0, 50'000'000)};
  setup.nic = BytesPerSecond(dice.real(1e8, 1e11));
  setup.variability.per_operation = {DistributionKind::lognormal, dice.real(0.01, 0.3), {}};
  setup.variability.slow_gpus = {{{0}, 0, dice.real(1, 4)}};
  return setup;
}

// Completed: so many answers of all shards have come for it to go on.
TEST_CASE("workers' iterations differ by s + 1 at most, whatever messages and kernels take") {
  Dice dice(3);
  for (std::uint64_t round = 0; round < rounds(1000); ++round) {
    Setup setup = random_setup(dice);
    const std::int64_t by = dice.between(0, 4);
    setup.spec.consistency = stale(by);
    const Result result = served_run(job_of(setup), 6);
    for (const std::vector<SimTime>& one : result.own_ends) {
      for (const std::vector<SimTime>& other : result.own_ends) {
        for (std::size_t i = static_cast<std::size_t>(by) + 1; i < one.size(); ++i) {
          const std::size_t least = i - static_cast<std::size_t>(by) - 1;  // the other has ended it
          CHECK((least < other.size() && other[least] <= one[i]));
        }
      }
    }
  }
}

void same_steps(const Result& a, const Result& b) {
  REQUIRE(a.own_ends.size() == b.own_ends.size());
  for (std::size_t r = 0; r < a.own_ends.size(); ++r) {
    for (std::size_t i = 0; i < a.iteration_end.size(); ++i) {
      CHECK(a.own_ends[r][i].ps == b.own_ends[r][i].ps);
    }
  }
}

TEST_CASE(
    "stale by 0 is synchronous where applying takes no time, and stale by more than there are is "
    "asynchronous") {
  Dice dice(5);
  for (std::uint64_t round = 0; round < rounds(300); ++round) {
    Setup setup = random_setup(dice);
    const BytesPerSecond memory = setup.spec.servers.memory_bandwidth;
    setup.spec.servers.memory_bandwidth = BytesPerSecond(1e30);
    setup.spec.consistency = stale(0);
    const Result bound = served_run(job_of(setup));
    setup.spec.consistency = kSync;
    same_steps(bound, served_run(job_of(setup)));
    setup.spec.servers.memory_bandwidth = memory;
    setup.spec.consistency = stale(1000);
    const Result free = served_run(job_of(setup));
    setup.spec.consistency = kAsync;
    same_steps(free, served_run(job_of(setup)));
  }
}

// Equal workers push at once; the server applies one after the other, and each waits for its own alone. Ever after they
// come one after the other, and between two pushes of one there is one of each other.
TEST_CASE("staleness of equal workers: 0 to W - 1 in the first round, then W - 1") {
  for (const std::uint32_t workers : {1U, 2U, 5U, 16U}) {
    Setup setup{.workers = workers, .tensors = {1'000'000}};
    setup.spec.consistency = kAsync;
    const Result result = served_run(job_of(setup), 8);
    const auto& [first, later, updates, held_back] = result.served;
    CHECK(held_back == 0);
    CHECK(first.staleness == std::vector<std::uint64_t>(workers, 1));
    std::vector<std::uint64_t> expected(workers);
    expected.back() = later.pushes;
    CHECK(later.staleness == expected);
    CHECK(later.pushes >= 7 * workers);
    CHECK(updates == first.pushes + later.pushes);
  }
}

struct Backup {
  std::uint32_t fast = 0, slow = 0;
  double factor = 1;
  SimTime step;
};

TEST_CASE("backup workers: what a straggler costs depends on when it comes back") {
  for (const Backup& each : {Backup{6, 2, 3, kStep}, Backup{5, 3, 1.5, SimTime{kStep.ps * 3 / 2}}}) {
    Setup setup = without_messages(each.fast + each.slow, kSync);
    setup.spec.backup = 2;
    std::vector<std::int64_t> ranks(each.slow);
    std::iota(ranks.begin(), ranks.end(), each.fast);
    setup.variability.slow_gpus = {{ranks, 0, each.factor}};
    const Result result = served_run(job_of(setup), 12);
    for (std::uint32_t r = 0; r < each.fast; ++r) {
      for (std::size_t i = 0; i + 1 < result.own_ends[r].size(); ++i) {
        const SimTime begins = result.own_ends[r][i + 1] - kStep;
        CHECK(begins.ps == each.step.ps * static_cast<std::int64_t>(i + 1));
      }
    }
    const Served& served = result.served;
    const std::uint64_t dropped = served.first.dropped + served.later.dropped;
    const std::uint64_t pushes = served.first.pushes + served.later.pushes;
    CHECK(pushes - dropped - 6 * served.updates < 6);  // an update takes six
    // Both slow ones each third second, the fast ones never; or two of the three that come last. The run ends with a
    // slow one's thirteenth iteration, when pushes of this instant are under way.
    CHECK(dropped >= 2 * 12);
    CHECK(dropped <= 2 * 13);
    const std::uint64_t counted = each.factor == 3 ? 13 * (3 * 6 + 2) : 13 * 8;
    CHECK(pushes <= counted);
    CHECK(pushes + 8 >= counted);
  }
}

// One server, no messages' time: each push is one event. Ends of the workers' iterations, and how many are dropped.
struct PlainBackup {
  std::vector<std::vector<SimTime>> ends;
  std::uint64_t dropped = 0, pushes = 0;
};
PlainBackup plain_backup(std::uint32_t workers, std::uint32_t backup, int iterations,
                         const Variability& factors) {
  PlainBackup result;
  result.ends.resize(workers);
  std::vector<SimTime> due(workers);  // its push
  std::vector<bool> waits(workers);
  std::vector<std::uint32_t> read(workers), done(workers);
  std::uint32_t version = 0, fresh = 0;
  const auto begin = [&](std::uint32_t w, SimTime now) {
    due[w] = now;
    for (const std::int64_t part : {kStep.ps / 4, kStep.ps * 3 / 4}) {
      due[w] += disturbed(SimTime{part}, factors.rank_factor(Rank(w), done[w]), 1);
    }
  };
  for (std::uint32_t w = 0; w < workers; ++w) {
    begin(w, {});
  }
  while (std::ranges::any_of(done,
                             [&](std::uint32_t n) { return n <= static_cast<std::uint32_t>(iterations); })) {
    std::uint32_t next = workers;
    for (std::uint32_t w = 0; w < workers; ++w) {
      if (!waits[w] && (next == workers || due[w] < due[next])) {
        next = w;
      }
    }
    const SimTime now = due[next];
    result.ends[next].push_back(now);
    ++done[next];
    ++result.pushes;
    if (read[next] != version) {
      ++result.dropped;
      read[next] = version;
      begin(next, now);
      continue;
    }
    waits[next] = true;
    if (++fresh == workers - backup) {
      fresh = 0;
      ++version;
      for (std::uint32_t w = 0; w < workers; ++w) {
        if (waits[w]) {
          waits[w] = false;
          read[w] = version;
          begin(w, now);
        }
      }
    }
  }
  return result;
}

TEST_CASE("backup workers of random speed: as a plain simulation") {
  Dice dice(9);
  for (std::uint64_t round = 0; round < rounds(200); ++round) {
    const auto workers = static_cast<std::uint32_t>(dice.between(2, 12));
    Setup setup = without_messages(workers, kSync);
    setup.spec.backup = dice.between(0, workers - 1);
    setup.variability.per_iteration = {DistributionKind::lognormal, dice.real(0.01, 0.8), {}};
    const Result result = served_run(job_of(setup), 10);
    const PlainBackup expected = plain_backup(workers, static_cast<std::uint32_t>(setup.spec.backup), 10,
                                              Variability(setup.variability, workers, RunSpec{}.seed));
    for (std::uint32_t w = 0; w < workers; ++w) {
      REQUIRE(result.own_ends[w].size() <= expected.ends[w].size());
      CHECK(std::ranges::equal(result.own_ends[w],
                               std::span(expected.ends[w]).first(result.own_ends[w].size())));
    }
    CHECK(result.served.first.dropped + result.served.later.dropped <= expected.dropped);
    CHECK(result.served.first.dropped + result.served.later.dropped + workers >= expected.dropped);
  }
}

// One push of a node in place of one of each GPU: at the server's port one part in g.
TEST_CASE("gradients that a node sums first: P each way on a NIC, however many GPUs it has") {
  constexpr std::uint32_t kNodes = 3, kGpus = 4;
  for (const NodeGradients node : {NodeGradients::each, NodeGradients::aggregate}) {
    Setup setup{.workers = kNodes * kGpus, .tensors = {8'000'000}};
    setup.spec.servers.memory_bandwidth = BytesPerSecond(1e30);
    setup.spec.overlap = ServerOverlap::none;
    setup.spec.node = node;
    Workload work = workload_of(setup);
    work.costs.gpu.memory_bandwidth = BytesPerSecond(1e30);
    TrainingJob job;
    job.communicator.ranks = setup.workers;
    add_parameter_server_programs(setup.spec, {{work}}, {kNodes, kGpus}, job);
    job.communicator.shared_capacity.assign(2 * (kNodes + 1), kPort);
    const auto nic = [](std::uint32_t member) { return member / kGpus; };
    for (std::uint32_t from = 0; from < job.member_count(); ++from) {
      for (std::uint32_t to = 0; to < job.member_count(); ++to) {
        if (from != to && nic(from) == nic(to)) {
          job.routes.push_back({from, to, SimTime{}, BytesPerSecond(1e30), {}});
        } else if (from != to) {
          job.routes.push_back(
              {from, to, kServerLatency, kPort, {LinkId(2 * nic(from)), LinkId(2 * nic(to) + 1)}});
        }
      }
    }
    const std::int64_t pushes = kNodes * (node == NodeGradients::each ? kGpus : 1);
    every_step_takes(served_run(job), kStep + SimTime{2 * pushes * 32'000'000 * 1000} + 2 * kServerLatency);
  }
}

TEST_CASE("what servers can't do is told") {
  const auto error = [](const auto& change) {
    Setup setup{.workers = 4};
    Workload work = workload_of(setup);
    change(setup.spec, work.training);
    TrainingJob job;
    return error_of([&] { add_parameter_server_programs(setup.spec, {{work}}, {4, 1}, job); });
  };
  CHECK_THAT(error([](auto& spec, auto&) { spec.backup = 4; }),
             Catch::Contains("fewer backup workers than the 4"));
  CHECK_THAT(error([](auto& spec, auto&) {
               spec.backup = 1;
               spec.consistency = kAsync;
             }),
             Catch::Contains("no backup workers"));
  CHECK_THAT(error([](auto&, auto& training) { training.clip_norm = true; }), Catch::Contains("no clipping"));
}

}  // namespace
}  // namespace paceline
