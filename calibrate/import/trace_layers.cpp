// Layer times from a profiler's trace: kernel -> launch (by correlation) -> operator and module (by nesting
// on the host's thread); a backward operator belongs to the module of the forward operator with its sequence
// number. Collectives' kernels are never a cost: they last as long as the slowest rank takes to come.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "calibrate/import/trace_records.h"
#include "core/error.h"
#include "core/median.h"

namespace paceline {
namespace {

constexpr std::int32_t kNoLayer = -1;
constexpr std::size_t kMostLayers = 100'000;

// What surrounds a moment on a host thread.
struct Surroundings {
  std::int32_t layer = kNoLayer;  // a name
  std::int64_t sequence = kNone;  // of the backward operator
  bool in_operator = false, backward = false, update = false;
};

struct Launched {
  Surroundings in;
  double start = 0;
};

struct Sums {
  double forward = 0, backward = 0, update = 0;  // us
};
struct LayerInStep {
  Sums kernels, host;
};
struct Layer {
  std::int32_t name = 0;
  double first = std::numeric_limits<double>::max();
  std::map<std::size_t, LayerInStep> steps;  // those it was seen in: there may be very many steps and layers
};

enum class What : std::uint8_t { module, annotated_update, operation, launch };
struct Item {
  double start = 0, end = 0;
  What what = What::launch;
  std::size_t index = 0;
};

struct Interval {
  double start = 0, end = 0;
};

// When any of NCCL's kernels ran. Requires: `kernels` by start.
std::vector<Interval> times_of_collectives(const std::vector<TraceKernel>& kernels) {
  std::vector<Interval> times;
  for (const TraceKernel& one : kernels) {
    if (one.nccl && !times.empty() && one.start <= times.back().end) {
      times.back().end = std::max(times.back().end, one.end);
    } else if (one.nccl) {
      times.push_back({one.start, one.end});
    }
  }
  return times;
}

// How much of what came before a moment collectives ran.
class CollectiveTime {
 public:
  explicit CollectiveTime(std::vector<Interval> times) : times_(std::move(times)) {
    double sum = 0;
    for (const Interval& one : times_) {
      before_.push_back(sum);
      sum += one.end - one.start;
    }
  }
  double until(double moment) const {
    const auto after = std::ranges::upper_bound(times_, moment, {}, &Interval::start) - times_.begin();
    if (after == 0) {
      return 0;
    }
    const auto last = static_cast<std::size_t>(after - 1);
    return before_[last] + std::min(moment, times_[last].end) - times_[last].start;
  }

 private:
  std::vector<Interval> times_;
  std::vector<double> before_;  // of each, the sum of those before it
};

std::string percent(double share) { return std::to_string(std::lround(share * 100)) + " %"; }

class LayerFinder {
 public:
  LayerFinder(TraceRecords& records, Findings& findings)
      : records_(records), findings_(findings), optimizer_(records.names.id("optimizer")) {}

  void find() {
    cut_steps();
    // A module's name says more than an annotation of the user, that more than an operator's.
    std::vector<TraceSpan>& named = records_.modules.empty() ? records_.annotations : records_.modules;
    by_operator_ = named.empty();
    sweep_threads(named);
    choose_stream();
    add_kernels();
    add_host_times();
    report_shares();
    write_layers();
  }

 private:
  void cut_steps() {
    std::ranges::sort(records_.steps, {}, &TraceSpan::start);
    if (records_.steps.empty()) {
      findings_.remark("steps", 0, "no ProfilerStep in the trace: all of it is taken as one step");
      starts_ = {-std::numeric_limits<double>::infinity()};
      ends_ = {std::numeric_limits<double>::infinity()};
      return;
    }
    if (records_.steps.size() == 1) {
      findings_.remark("steps", 0,
                       "only one ProfilerStep: it is kept, though a first step is seldom like others");
    }
    for (std::size_t i = records_.steps.size() > 1 ? 1 : 0; i < records_.steps.size(); ++i) {
      starts_.push_back(records_.steps[i].start);
      ends_.push_back(records_.steps[i].end);
    }
  }

  // The kept step of a moment on the host; -1: none.
  std::ptrdiff_t step_of(double moment) const {
    const auto after = std::ranges::upper_bound(starts_, moment);
    const std::ptrdiff_t step = after - starts_.begin() - 1;
    return step >= 0 && moment <= ends_[static_cast<std::size_t>(step)] ? step : -1;
  }

  LayerInStep* at(std::int32_t name, double start) {
    const std::ptrdiff_t step = step_of(start);
    if (step < 0) {
      return nullptr;
    }
    Layer& one = layers_[name];
    if (layers_.size() > kMostLayers) {
      throw InputError(
          "expected at most " + std::to_string(kMostLayers) +
          " layers, found more: record the trace with modules (with_modules=True), or fewer steps");
    }
    one.name = name;
    one.first = std::min(one.first, start);
    return &one.steps[static_cast<std::size_t>(step)];
  }

  void sweep_threads(const std::vector<TraceSpan>& named) {
    std::map<std::int32_t, std::vector<Item>> threads;
    const auto add = [&](const auto& spans, What what) {
      for (std::size_t i = 0; i < spans.size(); ++i) {
        threads[spans[i].thread].push_back({spans[i].start, spans[i].end, what, i});
      }
    };
    add(named, What::module);
    add(records_.optimizers, What::annotated_update);
    add(records_.operators, What::operation);
    for (std::size_t i = 0; i < records_.launches.size(); ++i) {
      const TraceLaunch& one = records_.launches[i];
      threads[one.thread].push_back({one.start, one.start, What::launch, i});
    }
    for (auto& [thread, items] : threads) {
      // What starts together: the longer one is outside, a launch inside of all.
      std::ranges::sort(items, [](const Item& a, const Item& b) {
        return a.start != b.start ? a.start < b.start : a.end != b.end ? a.end > b.end : a.what < b.what;
      });
      sweep(items, named);
      items = {};
    }
  }

  struct Open {
    double end;
    Surroundings inside;
    std::size_t own_time = SIZE_MAX;  // of the innermost module, in host_times_
  };
  struct HostTime {
    Surroundings in;
    double start, duration;
  };

  void sweep(const std::vector<Item>& items, const std::vector<TraceSpan>& named) {
    std::vector<Open> open;
    for (const Item& item : items) {
      // Whole microseconds in old traces: a launch may seem to begin where its operator ends.
      while (!open.empty() &&
             (open.back().end < item.start || (open.back().end == item.start && item.what != What::launch))) {
        open.pop_back();
      }
      Open next = open.empty() ? Open{item.end, {}} : open.back();
      next.end = item.end;
      switch (item.what) {
        case What::launch: {
          const TraceLaunch& one = records_.launches[item.index];
          if (one.correlation != kNone) {
            launched_[one.correlation] = {next.inside, one.start};
          }
          continue;
        }
        case What::module:
          enter_module(named[item.index], next);
          break;
        case What::annotated_update:
          next.inside.update = true;
          next.inside.layer = optimizer_;
          host_times_.push_back({next.inside, item.start, item.end - item.start});
          break;
        case What::operation:
          enter_operator(records_.operators[item.index], next);
          break;
      }
      open.push_back(next);
    }
  }

  void enter_module(const TraceSpan& span, Open& next) {
    if (next.inside.backward || next.inside.update) {
      return;  // recomputed for the backward pass: part of that operator
    }
    const double duration = span.end - span.start;
    if (next.own_time != SIZE_MAX) {
      host_times_[next.own_time].duration -= duration;
    }
    next.inside.layer = span.name;
    next.own_time = host_times_.size();
    host_times_.push_back({next.inside, span.start, duration});
  }

  void enter_operator(const TraceOperator& one, Open& next) {
    const bool outermost = !next.inside.in_operator;
    next.inside.in_operator = true;
    if (one.backward && !next.inside.update) {
      next.inside.sequence = next.inside.sequence == kNone ? one.sequence : next.inside.sequence;
      if (!next.inside.backward) {
        next.inside.backward = true;
        host_times_.push_back({next.inside, one.start, one.end - one.start});
      }
    } else if (!next.inside.backward && !next.inside.update) {
      if (by_operator_ && outermost) {
        next.inside.layer = nth_of_step(one);
        host_times_.push_back({next.inside, one.start, one.end - one.start});
      }
      remember_forward(one, next.inside.layer);
    }
    if (records_.launches.empty() && one.external != kNone) {
      by_external_[one.external] = {next.inside, one.start};
    }
  }

  // Operators before it may have its number, as they add nothing to the graph: the last one counts.
  void remember_forward(const TraceOperator& one, std::int32_t in_layer) {
    if (one.sequence == kNone || in_layer == kNoLayer) {
      return;
    }
    const auto [found, is_new] = forward_.try_emplace(one.sequence, one.start, in_layer);
    if (!is_new && one.start >= found->second.first) {
      found->second = {one.start, in_layer};
    }
  }

  std::int32_t nth_of_step(const TraceOperator& one) {
    const int nth = count_in_step_[{step_of(one.start), one.name}]++;
    return records_.names.id(records_.names[one.name] + '.' + std::to_string(nth));
  }

  // Where work counts: a layer and a direction; nullptr where it belongs to none, or to no kept step.
  std::pair<std::int32_t, double Sums::*> target_of(const Surroundings& in) const {
    if (in.update) {
      return {optimizer_, &Sums::update};
    }
    if (in.backward) {
      const auto found = forward_.find(in.sequence);
      return {found == forward_.end() ? kNoLayer : found->second.second, &Sums::backward};
    }
    return {in.layer, &Sums::forward};
  }

  // The stream of most kernels that are no collectives.
  void choose_stream() {
    std::map<std::int64_t, std::size_t> kernels_on;
    for (const TraceKernel& one : records_.kernels) {
      kernels_on[one.stream] += one.nccl ? 0 : 1;
    }
    const auto most = std::ranges::max_element(
        kernels_on, [](const auto& a, const auto& b) { return a.second < b.second; });
    stream_ = most != kernels_on.end() ? most->first : 0;
  }

  const Launched* launch_of(const TraceKernel& one) const {
    const auto& all = launched_.empty() ? by_external_ : launched_;
    const auto found = all.find(launched_.empty() ? one.external : one.correlation);
    return found != all.end() ? &found->second : nullptr;
  }

  void add_kernels() {
    std::ranges::sort(records_.kernels, {}, &TraceKernel::start);
    waited_.resize(starts_.size());
    launched_in_.resize(starts_.size());
    double previous_end = std::numeric_limits<double>::infinity();
    const CollectiveTime collectives(times_of_collectives(records_.kernels));
    for (const TraceKernel& one : records_.kernels) {
      if (one.nccl || one.stream != stream_) {
        continue;
      }
      const Launched* const launch = launch_of(one);
      const std::ptrdiff_t step = step_of(launch != nullptr ? launch->start : one.start);
      if (step >= 0) {
        count_kernel(one, launch, static_cast<std::size_t>(step), previous_end);
        overlap_ += collectives.until(one.end) - collectives.until(one.start);
      }
      previous_end = one.end;
    }
  }

  void count_kernel(const TraceKernel& one, const Launched* launch, std::size_t step, double previous_end) {
    const double duration = one.end - one.start;
    kernel_time_ += duration;
    if (launch == nullptr) {
      homeless_ += duration;
      return;
    }
    ++launched_in_[step];
    waited_[step] +=
        previous_end <= launch->start ? 1 : 0;  // the stream was idle: the GPU waited for the host
    const auto [name, direction] = target_of(launch->in);
    LayerInStep* const layer_in_step = name != kNoLayer ? at(name, launch->start) : nullptr;
    if (layer_in_step == nullptr) {
      homeless_ += duration;
      return;
    }
    layer_in_step->kernels.*direction += duration;
  }

  void add_host_times() {
    for (const HostTime& one : host_times_) {
      const auto [name, direction] = target_of(one.in);
      if (name != kNoLayer) {
        if (LayerInStep* const layer_in_step = at(name, one.start)) {
          layer_in_step->host.*direction += std::max(0.0, one.duration);
        }
      }
    }
  }

  bool host_bound(std::size_t step) const {
    return records_.kernels.empty() || 2 * waited_[step] > launched_in_[step];
  }

  void report_shares() {
    constexpr double kWorthTelling = 0.01;
    if (records_.kernels.empty()) {
      findings_.remark("host", 0, "no kernels in the trace: the times are the host's");
    } else if (kernel_time_ > 0 && homeless_ / kernel_time_ > kWorthTelling) {
      findings_.remark(
          "homeless", 0,
          percent(homeless_ / kernel_time_) + " of the kernels' time belongs to no layer and is left out");
    }
    if (kernel_time_ > 0 && overlap_ / kernel_time_ > kWorthTelling) {
      findings_.remark(
          "overlap", 0,
          percent(overlap_ / kernel_time_) +
              " of the computing kernels' time ran beside NCCL's kernels, which slow them: the layers' "
              "times hold that; a trace of one GPU does not");
    }
    std::size_t bound = 0;
    for (std::size_t i = 0; i < starts_.size(); ++i) {
      bound += !records_.kernels.empty() && host_bound(i) ? 1 : 0;
    }
    if (bound > 0) {
      findings_.remark("host", 0,
                       std::to_string(bound) + " of " + std::to_string(starts_.size()) +
                           " steps are bound by the host (most kernels were launched into an idle "
                           "stream): there the host's times are kept");
    }
    if (by_operator_) {
      findings_.remark("layers", 0,
                       "no modules in the trace (with_modules): each outermost operator is a layer");
    }
  }

  void write_layers() {
    std::vector<const Layer*> ordered;
    for (const auto& [name, one] : layers_) {
      ordered.push_back(&one);
    }
    std::ranges::sort(ordered, {}, [](const Layer* one) { return std::pair(one->first, one->name); });
    for (const Layer* const one : ordered) {
      write_layer(*one);
    }
  }

  void write_layer(const Layer& one) {
    std::vector<double> forward, backward, update;
    std::size_t bound = 0;
    for (const auto& entry : one.steps) {
      const LayerInStep& step = entry.second;
      const bool on_host = host_bound(entry.first);
      bound += on_host ? 1 : 0;
      const auto time = [&](double Sums::* direction) {
        return on_host ? std::max(step.kernels.*direction, step.host.*direction) : step.kernels.*direction;
      };
      forward.push_back(time(&Sums::forward));
      backward.push_back(time(&Sums::backward));
      update.push_back(time(&Sums::update));
    }
    if (forward.empty()) {
      return;
    }
    constexpr double kMicrosecond = 1e-6;
    LayerMeasurement layer{.layer = records_.names[one.name],
                           .forward = Seconds(median(forward) * kMicrosecond),
                           .backward = Seconds(median(backward) * kMicrosecond),
                           .origin = findings_.at(0),
                           .update = Seconds(median(update) * kMicrosecond),
                           .host_bound = bound * 2 > forward.size()};
    if ((layer.forward.value > 0 || layer.backward.value > 0 || layer.update.value > 0) && findings_.row()) {
      findings_.data().layers.push_back(std::move(layer));
    }
  }

  TraceRecords& records_;
  Findings& findings_;
  std::int32_t optimizer_;
  bool by_operator_ = false;
  std::vector<double> starts_, ends_;  // of the kept steps
  std::map<std::int32_t, Layer> layers_;
  std::unordered_map<std::int64_t, Launched> launched_, by_external_;
  std::unordered_map<std::int64_t, std::pair<double, std::int32_t>> forward_;  // sequence -> start, layer
  std::map<std::pair<std::ptrdiff_t, std::int32_t>, int> count_in_step_;
  std::vector<HostTime> host_times_;
  std::vector<std::size_t> waited_, launched_in_;
  std::int64_t stream_ = 0;
  double kernel_time_ = 0, homeless_ = 0, overlap_ = 0;
};

}  // namespace

void find_layers(TraceRecords& records, Findings& findings) { LayerFinder(records, findings).find(); }

}  // namespace paceline
