// A profile put onto collectives and scenarios (collective_fit.h).
#include <algorithm>
#include <cmath>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/collective_points.h"
#include "calibrate/fit/profile_use.h"
#include "core/error.h"
#include "core/text.h"
#include "scenarios/json.h"
#include "sim/strategy/pytorch.h"

namespace paceline {
namespace {

// A choice that fits measured sizes is believed a little beyond them: up to four times as far tables say that it is
// better than the tuner's, farther it isn't (docs/model.md, "Calibration").
void set_range_of_choice(const Profile& profile, CollectiveSpec& spec) {
  constexpr std::int64_t kBeyond = 4;
  const CollectiveSpec always;
  spec.fastest_from = always.fastest_from;
  spec.fastest_to = always.fastest_to;
  if (profile.choose == AlgorithmChoice::fastest) {
    const auto [least, most] = std::ranges::minmax(profile.points, {}, &ProfilePoint::bytes);
    spec.fastest_from = Bytes(least.bytes.value / kBeyond);
    spec.fastest_to = std::min(most.bytes, Bytes(kMostChosen / kBeyond)) * kBeyond;
  }
}

// Throws where a scenario says another value than its default and than the profile's.
template <class T>
void take(T& value, const T& by_default, const T& measured, const char* key) {
  if (value != by_default && value != measured) {
    throw InputError(
        "expected either this or a profile with kernels, which measured another value, found both; a result "
        "has those of its profile: leave them out",
        std::string("/training/") + key);
  }
  value = measured;
}

// What a scenario says of its GPU's products beside its preset; 0: nothing.
double stated_product_efficiency(const GpuSpec& gpu, Precision precision) {
  const auto of_precision = static_cast<std::size_t>(precision);
  const bool is_preset = std::ranges::count(gpu_preset_names(), gpu.name) > 0;
  const double stated = gpu.product_efficiency[of_precision];
  return is_preset && stated == gpu_preset(gpu.name).product_efficiency[of_precision] ? 0 : stated;
}

void set_kernels(const ProfileKernels& kernels, Scenario& scenario) {
  TrainingSpec& training = scenario.training;
  const TrainingSpec by_default;
  RooflineSpec& roofline = training.roofline;
  const RooflineSpec& before = by_default.roofline;
  for (const ProfileRoofline& products : kernels.products) {
    if (products.precision == name_of(training.precision)) {
      const double measured = std::min(1.0, products.efficiency);
      const double stated = stated_product_efficiency(scenario.gpu, training.precision);
      if (stated > 0 && stated != measured) {
        throw InputError(
            "expected either this or a profile with kernels, which measured another value, found both",
            "/cluster/gpu/product_efficiency/" + products.precision);
      }
      take(roofline.compute_efficiency, before.compute_efficiency, {measured}, "roofline/compute_efficiency");
      take(roofline.half_work, before.half_work, products.half_work, "roofline/half_work");
    }
  }
  if (kernels.memory_efficiency > 0) {
    take(roofline.memory_efficiency, before.memory_efficiency, std::min(1.0, kernels.memory_efficiency),
         "roofline/memory_efficiency");
    take(roofline.memory_start, before.memory_start, kernels.memory_start, "roofline/memory_start");
  }
  for (const ProfileKernel& kernel : kernels.of_kernel) {
    const double measured = std::min(1.0, kernel.efficiency);
    if (kernel.name == "quantise") {
      take(roofline.quantise_efficiency, before.quantise_efficiency, {measured},
           "roofline/quantise_efficiency");
    } else if (kernel.name == "dequantise") {
      take(roofline.dequantise_efficiency, before.dequantise_efficiency, {measured},
           "roofline/dequantise_efficiency");
    } else if (kernel.name == "top_k") {
      take(roofline.top_k_efficiency, before.top_k_efficiency, measured, "roofline/top_k_efficiency");
    }
  }
  if (kernels.launch.value > 0) {
    take(training.host.kernel_launch, by_default.host.kernel_launch, kernels.launch, "host/kernel_launch");
  }
  if (kernels.slowdown > 1) {
    constexpr std::int64_t kParts = 100;
    take(training.slowdown_while_communicating, by_default.slowdown_while_communicating,
         {std::llround(kernels.slowdown * kParts), kParts}, "slowdown_while_communicating");
  }
}

// One GPU's rate is that of a model and of an arithmetic.
void require_same_training(const ProfileTraining& fit, const Scenario& scenario) {
  const auto check = [](const std::string& preposition, std::string_view expected, const std::string& found) {
    if (!found.empty() && found != expected) {
      throw InputError("expected a profile with throughputs " + preposition + in_short(expected) +
                           ", found one with those " + preposition + in_short(found) +
                           "; one that is fitted to collectives alone serves any training",
                       "--profile");
    }
  };
  check("of ", scenario.model.name, fit.model);
  check("in ", name_of(scenario.training.precision), fit.precision);
}

}  // namespace

CollectiveSpec with_costs(CollectiveSpec spec, const Profile& profile, bool nccl_stated) {
  for (const ProfileParameter& parameter : profile.parameters) {
    if (parameter.fitted) {
      std::erase_if(spec.costs, [&](const CostParameter& cost) { return cost.name == parameter.name; });
      spec.costs.push_back({parameter.name, parameter.value});
    }
  }
  std::ranges::sort(spec.costs, {}, &CostParameter::name);  // as a scenario is read
  if (!profile.points.empty()) {
    if (spec.library != CollectiveSpec{}.library) {  // asked for
      require_library(spec.library, profile);
    }
    spec.library = profile.library;
    spec.choose = profile.choose;
    set_range_of_choice(profile, spec);
    spec.corrections.clear();
    if (!nccl_stated && spec.nccl == CollectiveSpec{}.nccl) {  // not asked for
      spec.nccl = profile.nccl;
    }
    const ProfilePoint& told = *std::ranges::max_element(profile.points, {}, &ProfilePoint::socket_threads);
    if (spec.socket_threads == 0 && told.socket_threads > 0) {  // likewise
      spec.socket_threads = told.socket_threads;
      spec.sockets_per_thread = told.sockets_per_thread;
    }
  }
  return spec;
}

Bytes largest_collective(const Scenario& scenario) {
  const std::int64_t each = bytes_per_element(scenario.training.gradients);
  return Bytes(std::max<std::int64_t>(8, parameter_count(scenario.model) * each));
}

Profile for_machine(const Profile& given, const ClusterSpec& cluster) {
  const auto differs = [](const std::string& a, const std::string& b) { return !a.empty() && a != b; };
  std::string machine, network;  // of the last nodes that are others
  bool other_machine = false, other_network = false, one_alike = false;
  for_each_node(cluster, [&](const NodeSpec& node, std::uint32_t, std::uint32_t) {
    const bool unlike = differs(given.machine, machine_of(node)),
               far = nodes_of_job(cluster) > 1 && differs(given.network, network_of(node));
    machine = unlike ? machine_of(node) : machine;
    network = far ? network_of(node) : network;
    other_machine = other_machine || unlike;
    other_network = other_network || far;
    one_alike = one_alike || (!unlike && !far);
  });
  if (!other_machine && !other_network) {
    return given;
  }
  if (!given.any_machine && !one_alike) {
    throw InputError("expected a profile of this machine (" + (other_network ? network : machine) +
                         "), found one of another (" + (other_network ? given.network : given.machine) +
                         "); --allow-other-machine takes its costs all the same",
                     "--profile");
  }
  Profile profile = given;
  if (other_machine) {
    profile.kernels.clear();
  }
  if (other_machine && !one_alike) {
    profile.training.clear();
  }
  profile.points.clear();
  profile.covariance.clear();
  profile.nccl.clear();
  profile.choose = AlgorithmChoice::tuner;
  std::erase_if(profile.parameters,
                [](const ProfileParameter& parameter) { return parameter.name.starts_with("launch."); });
  return profile;
}

void require_one_of(const CollectiveSpec& given, const CollectiveSpec& with_profile) {
  constexpr const char* kPlace = "/training/collective/";
  for (const CostParameter& cost : given.costs) {
    const auto used = std::ranges::find(with_profile.costs, cost.name, &CostParameter::name);
    if (used->value != cost.value) {
      throw InputError(
          formatted("expected either this cost or a profile that is fitted to it, found both, %g and %g",
                    cost.value, used->value),
          kPlace + ("costs/" + cost.name));
    }
  }
  if (!given.corrections.empty() && given.corrections != with_profile.corrections) {
    throw InputError(
        "expected either corrections or a profile, which has its own, found both; a result has those of its "
        "profile: leave them out",
        std::string(kPlace) + "corrections");
  }
}

Scenario with_profile(const Scenario& given, const Profile& whole) {
  const Profile profile = serving(for_machine(whole, given.cluster), CollectiveKind::all_reduce);
  for (const ProfileTraining& training : profile.training) {
    require_same_training(training, given);
    if (!given.gpus.empty() && given.gpus.front().measured.empty()) {
      throw InputError(
          "expected each kind's rate in /cluster/gpus (\"measured\") beside a profile with throughputs, "
          "which is of one kind of GPU; one that is fitted to collectives alone serves any",
          "--profile");
    }
  }
  constexpr CollectiveKind kOfTraining[] = {CollectiveKind::all_reduce, CollectiveKind::broadcast,
                                            CollectiveKind::all_gather, CollectiveKind::reduce_scatter};
  Scenario scenario = given;
  CollectiveSpec collective = given.training.collective;
  if (!profile.points.empty() && collective.nccl == nccl_of(pytorch_version(given.training.pytorch))) {
    collective.nccl = profile.nccl;  // no other was asked for
  }
  scenario.training.collective =
      with_corrections(collective, profile, given.cluster, kOfTraining, largest_collective(given));
  require_one_of(given.training.collective, scenario.training.collective);
  for (const ProfileKernels& kernels : profile.kernels) {
    if (!whole.any_machine && given.gpus.empty() && !kernels.gpu.empty() && kernels.gpu != given.gpu.name) {
      throw InputError("expected a profile with kernels of this GPU (" + given.gpu.name + "), found one of " +
                           kernels.gpu + "; --allow-other-machine takes them all the same",
                       "--profile");
    }
    set_kernels(kernels, scenario);
  }
  for (const ProfileTraining& training : profile.training) {
    if (scenario.gpus.empty() && scenario.training.measured.empty()) {
      scenario.training.measured = training.rates;
    }
    if (!scenario.variability.delays) {
      scenario.variability.delays = training.delays;
    }
  }
  return scenario;
}

}  // namespace paceline
