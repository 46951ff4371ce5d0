#include "studies/run_view.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/error.h"
#include "scenarios/link_traffic_json.h"
#include "scenarios/trace.h"
#include "sim/engine/program_layout.h"
#include "sim/report/critical_path.h"
#include "studies/explain.h"

namespace paceline {
namespace {

constexpr std::size_t kMostRankSteps = std::size_t{1} << 19;  // some 8 MB of a page
constexpr std::size_t kMostLinks = std::size_t{1} << 18;      // some 7 MB

float milliseconds(SimTime t) { return static_cast<float>(static_cast<double>(t.ps) * 1e-9); }

// A trace cuts times to the nanosecond, and leaves out what is then empty.
bool shows(OpSpan span) { return span.start.ps / 1000 < span.end.ps / 1000; }

SliceKind kind_of_kernel(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return SliceKind::forward;
    case Phase::backward:
      return SliceKind::backward;
    case Phase::accumulate:
      return SliceKind::accumulate;
    case Phase::compress:
      return SliceKind::compress;
    case Phase::exchange:
      return SliceKind::copies;
    case Phase::update:
      return SliceKind::optimizer;
    case Phase::other:
      break;
  }
  return SliceKind::other;
}

struct Slice {
  SliceKind kind = SliceKind::other;
  std::uint16_t stream = 0;
  std::size_t op = 0;
  OpSpan span;
};

// Where kernels beside the compute stream are drawn; one runs at a time. Queues stand between.
constexpr std::uint32_t kBesideCompute = 65'535;

template <class F>  // f(slice): what a trace has of an iteration, on the streams and where the host waits
void for_each_slice(const Program& program, const TracedIteration& traced, const F& f) {
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    const OpSpan ran = traced.ops[i];
    if (traced.issued[i] == SimTime{} && ran.end == SimTime{}) {
      continue;  // left out of the iteration
    }
    const auto add = [&](SliceKind kind, std::uint32_t stream, OpSpan span) {
      if (shows(span)) {
        f(Slice{kind, static_cast<std::uint16_t>(stream), i, span});
      }
    };
    switch (op.kind) {
      case OpKind::kernel:
        add(kind_of_kernel(op.purpose.phase), op.stream == 0 ? 1 : kBesideCompute, ran);
        break;
      case OpKind::collective:
        add(SliceKind::cast, 2 + op.queue, {ran.start, ran.start + op.prepare});
        add(SliceKind::collective, 2 + op.queue, {ran.start + op.prepare, ran.end - op.conclude});
        add(SliceKind::cast, 2 + op.queue, {ran.end - op.conclude, ran.end});
        break;
      case OpKind::wait:
      case OpKind::gate:
      case OpKind::join:
        add(SliceKind::wait, 1, ran);
        break;
      case OpKind::take_batch:
        add(SliceKind::input, 0, {ran.start, traced.issued[i]});
        break;
      case OpKind::synchronize:
        add(SliceKind::synchronize, 0, {ran.start, traced.issued[i]});
        break;
      case OpKind::send:
        break;
    }
  }
}

// When the last rank of each group launched each collective of an iteration, by record of its row. Requires: they were
// traced.
std::vector<SimTime> last_launches(const TrainingJob& job, const JobLayout& layout, const Result& result,
                                   std::uint32_t iteration) {
  std::map<Rank, const TracedIteration*> traced;
  for (const TracedIteration& each : result.trace) {
    traced[each.rank] = &each;
  }
  const Groups groups(job);
  std::vector<SimTime> launches(layout.records);
  for (const CollectiveRow& row : layout.rows) {
    for (std::uint32_t g = 0; row.steady && g < groups.count(row.family); ++g) {
      const std::size_t number = (iteration - 1) * layout.steady_records + row.first_steady + g;
      const Rank last = result.last_to_launch[number];
      const ProgramLayout& program = layout.roles[job.role_of(last.index())].front().of(iteration);
      const auto at = std::ranges::find_if(program.collectives, [&](const CollectiveLayout& each) {
        return each.first_record == row.first_record;
      });
      launches[row.first_record + g] = traced.at(last)->ops[at->op].start;
    }
  }
  return launches;
}

// Which ranks are shown, and why.
class ShownRanks {
 public:
  void add(Rank rank, const std::string& reason) {
    if (reasons_.try_emplace(rank, reason).second) {
      ranks_.push_back(rank);
    }
  }
  const std::vector<Rank>& ranks() const { return ranks_; }
  const std::string& reason(Rank rank) const { return reasons_.at(rank); }
  void keep(std::size_t most) { ranks_.resize(std::min(ranks_.size(), most)); }

  Json ranks_json() const {
    Json::Array ranks;
    for (const Rank rank : ranks_) {
      ranks.push_back(std::int64_t{rank.value});
    }
    return ranks;
  }
  Json reasons_json() const {
    Json::Object reasons;
    for (const Rank rank : ranks_) {
      if (const std::string& reason = reasons_.at(rank); !reason.empty()) {
        reasons.push_back({std::to_string(rank.value), reason});
      }
    }
    return reasons;
  }

 private:
  std::vector<Rank> ranks_;
  std::map<Rank, std::string> reasons_;
};

// By what they compute in the steps after the first, which ranks begin before it counts.
void add_extremes(const Result& result, ShownRanks& shown) {
  const std::size_t ranks = result.breakdown.size(), steps = result.rank_steps.size();
  std::vector<SimTime> compute(ranks);
  for (std::size_t i = std::min(ranks, steps - ranks); i < steps; ++i) {
    compute[i % ranks] += result.rank_steps[i].compute;
  }
  std::vector<std::uint32_t> order(ranks);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t r) { return compute[r]; });
  shown.add(Rank(order.front()), "fastest");
  shown.add(Rank(order[(order.size() - 1) / 2]), "median");
  shown.add(Rank(order.back()), "slowest");
}

// Those that matter whatever the critical path is, and the first ones while there is room.
ShownRanks without_path(const Result& result, const std::vector<Rank>& asked, std::size_t most) {
  ShownRanks shown;
  for (const Rank rank : asked) {
    shown.add(rank, "asked for");
  }
  add_extremes(result, shown);
  for (std::uint32_t r = 0; r < result.breakdown.size() && shown.ranks().size() < most; ++r) {
    shown.add(Rank(r), "");
  }
  shown.keep(most);
  return shown;
}

std::size_t slices_of_rank(const TrainingJob& job) {
  const auto of = [](const Program& program) {
    std::size_t most = 0;
    for (const Op& op : program.ops) {
      const bool casts = op.prepare > SimTime{} || op.conclude > SimTime{};
      most += op.kind == OpKind::send ? 0 : op.kind == OpKind::collective && casts ? 3 : 1;
    }
    return most;
  };
  std::size_t most = 1;
  for (const Role& role : job.roles) {
    most = std::max(most, of(role.threads.front().steady));
  }
  return most;
}

// Ranks whose slices there is room for.
std::size_t most_ranks(const TrainingJob& job, std::int64_t slices) {
  const auto each = static_cast<std::int64_t>(slices_of_rank(job));
  if (slices < each) {
    throw InputError("expected at least " + std::to_string(each) + ", the slices of one rank, found " +
                         std::to_string(slices),
                     "--slices");
  }
  return static_cast<std::size_t>(slices / each);
}

std::uint32_t chosen_step(const ViewChoice& choice, const Result& result) {
  const auto last = static_cast<std::int64_t>(result.iteration_end.size()) - 1;
  if (choice.step && (*choice.step < 1 || *choice.step > last)) {
    throw InputError(
        "expected a step from 1 to " + std::to_string(last) + ", found " + std::to_string(*choice.step),
        "--step");
  }
  return choice.step               ? static_cast<std::uint32_t>(*choice.step)
         : result.own_ends.empty() ? median_iteration(result)
                                   : static_cast<std::uint32_t>((last + 1) / 2);
}

// The step that is shown, of all ranks; with servers, of those that are shown.
OpSpan extent(const Result& result, std::uint32_t step, const std::vector<Rank>& shown) {
  if (result.own_ends.empty()) {
    return {result.iteration_end[step - 1], result.iteration_end[step]};
  }
  OpSpan all{kNever, SimTime{}};
  for (const Rank rank : shown) {
    all.start = std::min(all.start, result.own_ends[rank.index()][step - 1]);
    all.end = std::max(all.end, result.own_ends[rank.index()][step]);
  }
  return all;
}

struct SliceColumns {
  std::vector<std::uint32_t> rank;
  std::vector<std::uint8_t> kind;
  std::vector<std::uint16_t> stream, label;
  std::vector<float> start, duration, waiting;
};

// Texts that many slices have, by number; those beyond what a number holds share the last.
class Labels {
 public:
  std::uint16_t number(const std::string& text) {
    constexpr std::size_t kMost = 65'535;
    const auto [at, added] = numbers_.try_emplace(text, static_cast<std::uint16_t>(texts_.size()));
    if (added && texts_.size() == kMost) {
      at->second = kMost - 1;
    } else if (added) {
      texts_.push_back(text);
    }
    return at->second;
  }
  Json json() const { return Json::Array(texts_.begin(), texts_.end()); }

 private:
  std::map<std::string, std::uint16_t> numbers_;
  std::vector<std::string> texts_;
};

void add_slices(const TrainingJob& job, const Result& traced, OpSpan step, const std::vector<Rank>& shown,
                Labels& labels, RunView& view) {
  const JobLayout layout(job);
  const Groups groups(job);
  const std::uint32_t iteration = traced.trace.front().iteration;
  const std::vector<SimTime> launches = last_launches(job, layout, traced, iteration);
  const std::set<Rank> wanted(shown.begin(), shown.end());
  SliceColumns all;
  for (const TracedIteration& each : traced.trace) {
    if (!wanted.contains(each.rank)) {
      continue;
    }
    const ProgramLayout& program = layout.roles[job.role_of(each.rank.index())].front().of(iteration);
    for_each_slice(*program.program, each, [&](const Slice& slice) {
      const Op& op = program.program->ops[slice.op];
      SimTime waiting;
      if (slice.kind == SliceKind::collective) {
        const CollectiveLayout& of = program.collectives[op.index];
        const SimTime last =
            launches[of.first_record + groups.group(of.family, each.rank.value)] + op.prepare;
        waiting = std::clamp(last - slice.span.start, SimTime{}, slice.span.end - slice.span.start);
      }
      all.rank.push_back(each.rank.value);
      all.stream.push_back(slice.stream);
      all.kind.push_back(static_cast<std::uint8_t>(slice.kind));
      all.label.push_back(labels.number(slice.kind == SliceKind::cast ? "cast shard" : op.label));
      all.start.push_back(milliseconds(slice.span.start - step.start));
      all.duration.push_back(milliseconds(slice.span.end - slice.span.start));
      all.waiting.push_back(milliseconds(waiting));
    });
  }
  view.columns.push_back(column("slice_rank", all.rank));
  view.columns.push_back(column("slice_stream", all.stream));
  view.columns.push_back(column("slice_kind", all.kind));
  view.columns.push_back(column("slice_label", all.label));
  view.columns.push_back(column("slice_start_ms", all.start));
  view.columns.push_back(column("slice_duration_ms", all.duration));
  view.columns.push_back(column("slice_waiting_ms", all.waiting));
}

void add_rank_steps(const TrainingJob& job, const Result& result, RunView& view) {
  const double ranks = static_cast<double>(job.ranks());
  std::vector<float> compute, waiting, waited_for;
  for (const RankStep& step : result.rank_steps) {
    compute.push_back(milliseconds(step.compute));
    waiting.push_back(milliseconds(step.waiting));
    waited_for.push_back(static_cast<float>(static_cast<double>(step.waited_for) * 1e-9 / ranks));
  }
  view.columns.push_back(column("step_compute_ms", compute));
  view.columns.push_back(column("step_waiting_ms", waiting));
  view.columns.push_back(column("step_waited_for_ms", waited_for));
}

void add_devices(const Topology& topology, RunView& view) {
  std::vector<std::uint8_t> kinds;
  std::vector<std::int32_t> nodes;
  std::vector<std::uint32_t> numbers;
  for (std::size_t d = 0; d < topology.devices(); ++d) {
    const DeviceKind kind = topology.device_kind(DeviceId(d));
    const std::optional<std::uint32_t> in = topology.node_of(DeviceId(d));
    const std::int32_t node = in ? static_cast<std::int32_t>(*in) : -1;
    const bool begins = d == 0 || node != nodes.back() || kind != static_cast<DeviceKind>(kinds.back());
    kinds.push_back(static_cast<std::uint8_t>(kind));
    nodes.push_back(node);
    numbers.push_back(begins ? 0 : numbers.back() + 1);
  }
  view.columns.push_back(column("device_kind", kinds));
  view.columns.push_back(column("device_node", nodes));
  view.columns.push_back(column("device_number", numbers));
}

// Those with traffic; of more than a page holds the busiest for their bandwidth. Returns how many are left out.
std::size_t add_links(const Prediction& p, RunView& view) {
  const Topology& topology = *p.topology;
  const LinkTraffic traffic = link_traffic(p);
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < topology.links(); ++i) {
    if (traffic.bytes[i] > 0 || traffic.neighbours[i] > 0) {
      used.push_back(i);
    }
  }
  const std::size_t kept = std::min(used.size(), kMostLinks), left_out = used.size() - kept;
  if (left_out > 0) {
    std::ranges::stable_sort(used, std::ranges::greater{}, [&](std::size_t i) {
      return traffic.bytes[i] / topology.link(LinkId(i)).bandwidth.value;
    });
    used.resize(kept);
    std::ranges::sort(used);
  }
  std::vector<std::uint32_t> from, to;
  std::vector<std::uint8_t> classes;
  std::vector<float> bandwidth, bytes, neighbours;
  for (const std::size_t i : used) {
    const Link& link = topology.link(LinkId(i));
    from.push_back(link.from.value);
    to.push_back(link.to.value);
    classes.push_back(static_cast<std::uint8_t>(class_of(topology, LinkId(i))));
    bandwidth.push_back(static_cast<float>(link.bandwidth.value));
    bytes.push_back(static_cast<float>(traffic.bytes[i]));
    neighbours.push_back(static_cast<float>(traffic.neighbours[i]));
  }
  view.columns.push_back(column("link_from", from));
  view.columns.push_back(column("link_to", to));
  view.columns.push_back(column("link_class", classes));
  view.columns.push_back(column("link_bandwidth", bandwidth));
  view.columns.push_back(column("link_bytes", bytes));
  view.columns.push_back(column("link_neighbours", neighbours));
  return left_out;
}

template <class E>
Json names_json() {
  Json::Array names;
  for (std::size_t i = 0; i < kNames<E>.size(); ++i) {
    names.push_back(name_of(static_cast<E>(i)));
  }
  return names;
}

Json gpus_in_use_json(const Topology& topology) {
  const std::vector<std::uint32_t>& gpus = topology.node().gpus_in_use;
  Json::Array numbers;
  for (const std::uint32_t gpu : gpus) {
    numbers.push_back(std::int64_t{gpu});
  }
  return numbers;
}

}  // namespace

TraceRequest request_for_view(const Scenario& scenario) {
  const auto ranks = static_cast<std::size_t>(gpus_of_job(scenario.cluster));
  TraceRequest request;
  request.rank_steps = static_cast<std::uint32_t>(std::max<std::size_t>(1, kMostRankSteps / ranks));
  return request;
}

RunView run_view(const Prediction& p, const ViewChoice& choice) {
  const auto ranks = static_cast<std::uint32_t>(p.job.ranks());
  const RunSpec& run = p.scenario.run;
  // A run in windows is several, which record nothing: of the last one's batches, simulated by themselves.
  const bool recorded = !p.result.rank_steps.empty();
  const Result again = recorded ? Result{} : simulate(p.job, run, request_for_view(p.scenario));
  const Result& result = recorded ? p.result : again;
  const std::uint32_t step = chosen_step(choice, result);
  const bool served = !result.own_ends.empty();

  TraceRequest request = served ? TraceRequest{{}, step, 1} : ranks_on_path(p.job, result, step);
  const std::size_t most = most_ranks(p.job, choice.slices);
  const std::vector<Rank> asked =
      choice.ranks ? ranks_named(*choice.ranks, ranks - 1, "--ranks") : std::vector<Rank>();
  const ShownRanks others = without_path(result, asked, most);
  request.ranks.insert(request.ranks.end(), others.ranks().begin(), others.ranks().end());
  std::ranges::sort(request.ranks);
  request.ranks.erase(std::unique(request.ranks.begin(), request.ranks.end()), request.ranks.end());
  RunSpec as_far = run;
  if (result.engine == EngineKind::vector) {  // there nothing later bears on a step
    as_far.iterations = static_cast<int>(step);
  }
  const Result traced = simulate(p.job, as_far, request);
  const CriticalPath path = served ? CriticalPath{} : critical_path(p.job, traced, step);
  ShownRanks shown;
  for (const Rank rank : asked) {
    shown.add(rank, "asked for");
  }
  for (const PathSegment& segment : path.segments) {
    shown.add(segment.rank, "critical path");
  }
  for (const Rank rank : others.ranks()) {
    shown.add(rank, others.reason(rank));
  }
  shown.keep(most);
  const OpSpan extent_of_step = extent(traced, step, shown.ranks());

  RunView view;
  Labels labels;
  add_slices(p.job, traced, extent_of_step, shown.ranks(), labels, view);
  add_rank_steps(p.job, result, view);
  add_devices(*p.topology, view);
  const std::size_t left_out = add_links(p, view);
  view.about = Json::Object{
      {"step", std::int64_t{step}},
      {"began_s", to_seconds(extent_of_step.start).value},
      {"duration_ms", static_cast<double>((extent_of_step.end - extent_of_step.start).ps) * 1e-9},
      {"critical_path", served ? Json() : path_json(p, path)},
      {"ranks", std::int64_t{ranks}},
      {"gpus_in_use", gpus_in_use_json(*p.topology)},
      {"shown", shown.ranks_json()},
      {"reasons", shown.reasons_json()},
      {"steps", static_cast<std::int64_t>(result.rank_steps.size() / ranks)},
      {"labels", labels.json()},
      {"kinds", names_json<SliceKind>()},
      {"device_kinds", names_json<DeviceKind>()},
      {"link_classes", names_json<LinkClass>()},
      {"links_left_out", static_cast<std::int64_t>(left_out)}};
  return view;
}

}  // namespace paceline
