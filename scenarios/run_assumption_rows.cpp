#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cost_model.h"
#include "scenarios/readable.h"
#include "scenarios/run_table_rows.h"
#include "scenarios/utilisation.h"

namespace paceline {
namespace {

// Of two measured batches beside the run's, when their steps differ far less than their kernels' work does: then
// the host was the limit, whose time tells little of another batch.
std::string host_limit_row(const Scenario& s) {
  std::vector<MeasuredRate> rates = pinned_rates(s.training);
  if (rates.size() < 2) {
    return "";
  }
  std::ranges::sort(rates, {}, &MeasuredRate::batch_per_gpu);
  const auto above =
      std::clamp(std::ranges::upper_bound(rates, s.training.batch_per_gpu, {}, &MeasuredRate::batch_per_gpu),
                 rates.begin() + 1, rates.end() - 1);
  const MeasuredRate &large = *above, &small = *std::prev(above);
  const auto kernels = [&](const MeasuredRate& rate) {
    Seconds sum;
    for (const LayerTime& layer :
         layer_times({s.gpu, s.training.roofline, s.training.precision}, s.model, rate.batch_per_gpu)) {
      sum = sum + layer.forward + layer.backward;
    }
    return sum;
  };
  const double work = static_cast<double>(large.batch_per_gpu) / static_cast<double>(small.batch_per_gpu),
               longer = work * (small.rate / large.rate), priced = kernels(large) / kernels(small);
  constexpr double kFar = 0.5;
  return longer - 1 < kFar * (priced - 1)
             ? row("", "from batch " + std::to_string(small.batch_per_gpu) + " to " +
                           std::to_string(large.batch_per_gpu) + " a step takes " + fixed(longer, 2) +
                           " times as long, its kernels " + fixed(priced, 2) + " times: the host,") +
                   row("", "it seems, was the limit there; measure the batch that you run")
             : "";
}

// Of kernels that nobody measured, on GPUs of one kind: what torch.compile decides, and what it doesn't pad.
std::string compiled_row(const Prediction& p) {
  const Scenario& s = p.scenario;
  if (s.gpus.size() > 1) {
    return "";
  }
  const GpuCosts costs{s.gpu, s.training.roofline, s.training.precision};
  const bool compiled = costs.roofline.kernels == KernelMode::compiled;
  std::string text;
  const double slower = eager_slowdown(costs, s.model, s.training.batch_per_gpu);
  if (slower >= kSlowdownMatters) {
    text = compiled ? "compiled; eager layers " + fixed(slower, 2) + " times as long"
                    : "eager; compiled layers " + fixed(1 / slower, 2) + " of that time";
  } else if (!compiled) {
    text = "eager; compiled layers no shorter";
  }
  const Seconds longer = s.training.accumulation * misaligned_time(costs, s.model, s.training.batch_per_gpu);
  constexpr double kWorthwhile = 0.01;
  if (longer > kWorthwhile * p.report.step.p50) {
    text +=
        std::string(text.empty() ? "" : "; ") + "unpadded sizes (a vocabulary) cost " + readable_time(longer);
  }
  return text.empty() ? "" : row("", text);
}

// Likewise: what the order of an image's numbers decides, where tensor cores care.
std::string memory_format_row(const Prediction& p) {
  const Scenario& s = p.scenario;
  if (s.gpus.size() > 1) {
    return "";
  }
  const double slower = channels_first_slowdown({s.gpu, s.training.roofline, s.training.precision}, s.model,
                                                s.training.batch_per_gpu);
  if (!(slower >= kSlowdownMatters)) {
    return "";
  }
  const bool last = s.training.roofline.memory_format == MemoryFormat::channels_last;
  return row("", last ? "images in channels_last; in channels_first, PyTorch's default, layers take " +
                            fixed(slower, 2) + " times as long"
                      : "images in channels_first; in channels_last layers take " + fixed(1 / slower, 2) +
                            " of that time");
}

// What the kernels' times are worth.
std::string compute_row(const Prediction& p) {
  const TrainingSpec& training = p.scenario.training;
  if (compute_source(p.scenario) == "measured" && training.measured.empty()) {
    std::string text = "as measured: ";
    for (const GpuKind& kind : p.scenario.gpus) {
      text += (text.back() == ' ' ? "" : ", ") + readable_count(kind.measured.front().rate.value) +
              " samples/s on " + kind.gpu.name;
    }
    return row("kernels", text);
  }
  if (training.measured.empty()) {
    return training.layer_times.empty()
               ? row("kernels",
                     "from the roofline; nobody measured them, and PyTorch's took 0.8 to 2.7 times as long") +
                     compiled_row(p) + memory_format_row(p)
               : row("kernels", "as layer_times says");
  }
  std::string text;
  for (const MeasuredRate& rate : pinned_rates(training)) {
    text += (text.empty() ? "as measured: " : ", ") + readable_count(rate.rate.value) +
            " samples/s with batch " + std::to_string(rate.batch_per_gpu) +
            (rate.accumulation > 1 ? " x " + std::to_string(rate.accumulation) : "");
  }
  const bool own = std::ranges::any_of(pinned_rates(training), [&](const MeasuredRate& rate) {
    return rate.batch_per_gpu == training.batch_per_gpu;
  });
  return own ? row("kernels", text)
             : row("kernels", text + "; nobody measured batch " + std::to_string(training.batch_per_gpu)) +
                   host_limit_row(p.scenario);
}

std::string percent_and_time(const DelaySpec& delays) {
  return readable_time(delays.per_step) + " a step and " + fixed(100 * delays.per_doubling, 1) +
         " % of the layers' time for each doubling of GPUs";
}

// What steps lose beside communication, and what they would lose as published runs do.
std::string delays_row(const Prediction& p) {
  const auto ranks = static_cast<double>(p.job.ranks());
  if (ranks == 1) {
    return "";
  }
  if (p.scenario.variability.delays) {
    return row("delays", percent_and_time(*p.scenario.variability.delays));
  }
  const double passes = std::sqrt(static_cast<double>(p.scenario.training.accumulation));
  const Seconds delayed =
      kTypicalDelays.per_step +
      p.report.breakdown.compute * (kTypicalDelays.per_doubling * std::log2(ranks) / passes);
  const Seconds longer(std::max(0.0, (delayed - p.report.breakdown.input_wait).value));  // who waits has time
  return row("delays", "none; " + percent_and_time(kTypicalDelays) + ",") +
         row("",
             "as published runs lose, would make it about " +
                 readable_count(p.report.throughput * (p.report.step.mean / (p.report.step.mean + longer))) +
                 " samples/s (variability.delays)");
}

// Input that no loader is asked for, from where published nodes waited for theirs on. Images have no tokens.
std::string input_row(const Prediction& p) {
  const double of_a_node = p.report.throughput / p.topology->job_nodes();
  if (p.scenario.training.input || p.scenario.model.tokens > 0 || of_a_node < kFewestWaitedFor) {
    return "";
  }
  return row("input", "taken as ready: " + readable_count(of_a_node) +
                          " samples/s a node. Of images, some published nodes waited for") +
         row("", readable_count(kFewestWaitedFor) + ", others read " + readable_count(kMostRead) +
                     " (training.input)");
}

}  // namespace

std::string assumption_rows(const Prediction& p) {
  return compute_row(p) + delays_row(p) + input_row(p) +
         (static_cast<std::int64_t>(p.job.ranks()) > kMostCompared
              ? row("beyond", "nothing beyond " + readable_count(kMostCompared) +
                                  " GPUs was ever compared with a measurement")
              : "");
}

}  // namespace paceline
