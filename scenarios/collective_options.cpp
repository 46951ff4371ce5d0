#include "scenarios/collective_options.h"

#include "core/error.h"
#include "core/option_text.h"
#include "scenarios/json.h"
#include "scenarios/limits.h"
#include "scenarios/reader.h"
#include "scenarios/scenario.h"
#include "sim/collective/host_collectives.h"
#include "sim/collective/nccl_words.h"

namespace paceline {
namespace {

void set_sizes(const CollectiveOptions& options, CollectiveTest& test) {
  constexpr std::uint64_t kMostFactor = 1 << 20;
  test.first = test_size(options.first, "-b");
  test.last = test_size(options.last, "-e");
  test.factor = static_cast<std::int64_t>(whole_number(options.factor, 2, kMostFactor, "-f"));
  if (options.increment) {
    test.factor = 0;
    test.increment = test_size(*options.increment, "-i");
  }
  for (const std::string& size : options.sizes) {
    test.sizes.push_back(test_size(size, "sizes"));
  }
}

// NCCL's other variables: NVLS, channels, buffers, costs.
void set_collective(const Json& json, CollectiveSpec& collective) {
  constexpr std::pair<const char*, const char*> kOptions[] = {
      {"library", "library"}, {"nccl", "nccl"}, {"algorithm", "algo"}, {"protocol", "proto"}};
  for (const auto& [key, option] : kOptions) {
    if (json.find(key) != nullptr) {
      throw InputError("expected the option for it, --" + std::string(option), "/" + std::string(key));
    }
  }
  if (json.find("corrections") != nullptr) {
    throw InputError("expected them in a profile", "/corrections");
  }
  read_object(json, collective, {});
  require_channels(collective, {});
}

// Of another library only `costs` counts.
void require_costs_alone(const std::string& settings, CollectiveLibrary library) {
  const Json json = parse_json(settings);
  for (const JsonMember& member : *json.as<Json::Object>()) {
    if (member.key != "costs") {
      throw InputError("expected no such key with the library " + std::string(name_of(library)),
                       pointer("", member.key));
    }
  }
}

// Whose word it is: an option's, or the scenario's.
ChoicePlaces places_of(const CollectiveOptions& options, const ClusterInUse& in_use) {
  const auto place = [&](bool option, const std::string& name, const char* key) {
    return option || in_use.scenario.empty() ? name : in_use.scenario + ": /training/collective/" + key;
  };
  return {place(options.nccl.has_value(), kChoiceOptions.nccl, "nccl"),
          place(!options.algorithm.empty(), kChoiceOptions.algorithm, "algorithm"),
          place(!options.protocol.empty(), kChoiceOptions.protocol, "protocol")};
}

}  // namespace

void set_as_told(const std::string& settings, CollectiveSpec& collective) {
  const Json json = parse_json(settings);
  for (const char* const key : {"costs", "choose", "fastest_from", "fastest_to"}) {
    if (json.find(key) != nullptr) {
      throw InputError(
          "expected what NCCL was told; what collectives cost, and which are fastest, is a profile's",
          '/' + std::string(key));
    }
  }
  if (collective.library != CollectiveLibrary::nccl) {
    require_costs_alone(settings, collective.library);
  }
  set_collective(json, collective);
}

ClusterInUse cluster_of(const CollectiveOptions& options) {
  ClusterInUse in_use;
  ClusterSpec& cluster = in_use.cluster;
  naming_option("--cluster", [&] {
    in_use = load_cluster_in_use(options.cluster);
    require_like_nodes(cluster);
  });
  if (options.nodes) {
    cluster.nodes = static_cast<int>(whole_number(*options.nodes, 1, kMostRanks, "--nodes"));
  }
  if (options.gpus_per_node) {
    cluster.gpus_per_node =
        static_cast<int>(whole_number(*options.gpus_per_node, 1, kMostGpusOfNode, "--gpus-per-node"));
  }
  return in_use;
}

CollectiveTest collective_test(const CollectiveOptions& options, const ClusterInUse& in_use,
                               const Profile& profile) {
  CollectiveTest test;
  naming_option("COLLECTIVE", [&] { test.kind = collective_named(options.kind); });
  test.cluster_name = options.cluster;
  test.cluster = in_use.cluster;
  test.collective = in_use.collective;
  set_sizes(options, test);
  if (!options.settings.empty()) {
    naming_option("--set", [&] {
      const Json json = parse_json(options.settings);
      if (json.find("costs") != nullptr && !profile.parameters.empty()) {
        throw InputError("expected either costs or a profile, which has its own, found both", "/costs");
      }
      set_collective(json, test.collective);
    });
  }
  test.collective.nccl = options.nccl.value_or(test.collective.nccl);
  if (!options.algorithm.empty()) {
    test.collective.algorithm = options.algorithm;
  }
  if (!options.protocol.empty()) {
    test.collective.protocol = options.protocol;
  }
  if (options.library) {
    CollectiveLibrary asked{};
    naming_option("--library", [&] { asked = collective_library_named(*options.library); });
    if (asked != in_use.collective.library) {  // whose choices they are
      test.collective.algorithm = options.algorithm;
      test.collective.protocol = options.protocol;
    }
    test.collective.library = asked;
    require_library(test.collective.library, profile);
  }
  if (test.collective.library != CollectiveLibrary::nccl) {
    naming_option(
        options.library ? "--library" : (in_use.scenario + ": /training/collective/library").c_str(),
        [&] { require_runs(test.collective.library, test.kind); });
  }
  if (!options.settings.empty() && test.collective.library != CollectiveLibrary::nccl) {
    naming_option("--set", [&] { require_costs_alone(options.settings, test.collective.library); });
  }
  require_choice(test.collective, places_of(options, in_use));
  test.nccl_stated = options.nccl || in_use.nccl_stated;
  if (!test.nccl_stated && !profile.nccl.empty()) {
    test.collective.nccl = profile.nccl;
    test.nccl_stated = true;
  }
  if (options.gpus_per_process) {
    const int gpus = test.cluster.gpus_per_node > 0 ? test.cluster.gpus_per_node : test.cluster.node.gpus;
    int& of_process = test.collective.gpus_per_process;
    of_process = static_cast<int>(whole_number(*options.gpus_per_process, 1, 256, "--gpus-per-process"));
    if (gpus % of_process != 0) {
      throw InputError("expected a divisor of the " + std::to_string(gpus) + " GPUs of a node, found " +
                           std::to_string(of_process),
                       "--gpus-per-process");
    }
  }
  test.explain = options.explain;
  test.all = options.all;
  return test;
}

}  // namespace paceline
