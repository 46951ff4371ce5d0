#include "calibrate/measure/plan.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/error.h"
#include "core/unknown_name.h"

namespace paceline::measure {
namespace {

std::vector<std::string> chosen(const std::vector<std::string>& asked, const std::vector<std::string>& known,
                                bool all_by_default, const std::string& what) {
  if (asked.empty()) {
    return all_by_default ? known : std::vector<std::string>{};
  }
  if (asked.size() == 1 && (asked[0] == "none" || asked[0] == "all")) {
    return asked[0] == "all" ? known : std::vector<std::string>{};
  }
  for (const std::string& name : asked) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw InputError(unknown_name(what, name, std::span(known)));
    }
  }
  return asked;
}

std::vector<Collective> chosen_collectives(const Options& options, int ranks) {
  std::vector<Collective> collectives;
  const bool by_default = ranks > 1 && options.train.empty();
  for (const std::string& name :
       chosen(options.collectives, all_names<CollectiveKind>(), by_default, "collective")) {
    const CollectiveKind kind = find_named<CollectiveKind>(name).value();
    for (const std::int64_t size : options.sizes) {
      const Collective collective{kind, whole_size(kind, size, ranks)};
      if (std::find(collectives.begin(), collectives.end(), collective) == collectives.end()) {
        collectives.push_back(collective);
      }
    }
  }
  return collectives;
}

std::vector<KernelSpec> chosen_kernels(const Options& options, std::span<const KernelSpec> offered) {
  std::vector<std::string> known;
  for (const KernelSpec& kernel : offered) {
    if (std::find(known.begin(), known.end(), kernel.name) == known.end()) {
      known.push_back(kernel.name);
    }
  }
  const std::vector<std::string> names = chosen(options.kernels, known, options.train.empty(), "kernel");
  std::vector<KernelSpec> kernels;
  for (const KernelSpec& kernel : offered) {
    if (std::find(names.begin(), names.end(), kernel.name) != names.end()) {
      kernels.push_back(kernel);
    }
  }
  return kernels;
}

// The product in the middle by work: what a backward pass runs beside its all-reduces.
KernelSpec overlap_kernel(std::span<const KernelSpec> offered) {
  std::vector<KernelSpec> products;
  for (const KernelSpec& kernel : offered) {
    if (kernel.name == "gemm") {
      products.push_back(kernel);
    }
  }
  if (products.empty()) {
    throw InputError("--overlap needs the kernel gemm, which this backend does not have");
  }
  std::stable_sort(products.begin(), products.end(),
                   [](const KernelSpec& a, const KernelSpec& b) { return kernel_work(a) < kernel_work(b); });
  return products[products.size() / 2];
}

}  // namespace

std::string PlanRow::condition() const {
  std::string text;
  if (straggler) {
    text = "straggler=" + std::to_string(straggler->rank) + ":" +
           std::to_string(std::llround(straggler->seconds * 1e6));
  }
  if (beside == Beside::kernel) {
    text = "beside=" + kernel->name;
  }
  if (beside == Beside::collective) {
    text = "beside=" + std::string(name_of(collective->kind)) + ":" + std::to_string(collective->bytes);
  }
  return text;
}

std::string PlanRow::title() const {
  std::string text;
  if (times_collective()) {
    text = std::string(name_of(collective->kind)) + " " + std::to_string(collective->bytes) + " B";
  } else {
    std::string shape;
    for (const std::int64_t dimension : {kernel->m, kernel->n, kernel->k}) {
      if (dimension > 0) {
        shape += (shape.empty() ? " " : "x") + std::to_string(dimension);
      }
    }
    text = kernel->name + " " + kernel->precision + shape;
  }
  return condition().empty() ? text : text + " (" + condition() + ")";
}

std::vector<PlanRow> make_plan(const Options& options, int ranks, std::span<const KernelSpec> offered) {
  const std::vector<Collective> collectives = chosen_collectives(options, ranks);
  std::vector<PlanRow> plan;
  for (const Collective& collective : collectives) {
    plan.push_back({.collective = collective});
  }
  if (options.straggler) {
    Straggler straggler = *options.straggler;
    straggler.rank = straggler.rank < 0 ? ranks - 1 : straggler.rank;
    if (straggler.rank >= ranks) {
      throw InputError("rank " + std::to_string(straggler.rank) + " does not exist; ranks are 0 to " +
                           std::to_string(ranks - 1),
                       "--straggler");
    }
    for (const Collective& collective : collectives) {
      plan.push_back({.collective = collective, .straggler = straggler});
    }
  }
  for (const KernelSpec& kernel : chosen_kernels(options, offered)) {
    plan.push_back({.kernel = kernel});
  }
  if (options.overlap) {
    const KernelSpec kernel = overlap_kernel(offered);
    for (const Collective& collective : collectives) {
      plan.push_back({.collective = collective, .kernel = kernel, .beside = Beside::kernel});
      plan.push_back({.collective = collective, .kernel = kernel, .beside = Beside::collective});
    }
  }
  return plan;
}

std::string plan_text(const Options& options, std::span<const PlanRow> plan) {
  std::ostringstream text;
  text << options.repeats << ' ' << options.budget_s << ' ' << options.timeout_s << ' ' << options.train
       << ' ' << options.iterations << ' ' << options.real_compute;
  for (const PlanRow& row : plan) {
    text << ';' << row.title();
  }
  return text.str();
}

}  // namespace paceline::measure
