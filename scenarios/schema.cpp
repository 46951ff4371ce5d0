#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "scenarios/reader.h"
#include "scenarios/scenario.h"
#include "scenarios/schema_writer.h"
#include "sim/collective/costs.h"

namespace paceline {

namespace {

Json bound(double value) {
  constexpr double kWhole = 9223372036854775808.0;   // 2^63
  constexpr double kSeeds = 18446744073709551616.0;  // 2^64, the double that 2^64 - 1 is rounded to
  if (value == kSeeds) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  return value == std::floor(value) && std::abs(value) < kWhole ? Json(static_cast<std::int64_t>(value))
                                                                : Json(value);
}

std::string title_of_quantity(const Dimension& dimension, const Limits& limits) {
  const bool of_days = &dimension == &dimension_of(LongSeconds{});  // which has units of its own
  std::string title(of_days ? "a long time" : dimension.noun);
  if (!std::isfinite(limits.least) || !std::isfinite(limits.most)) {
    return title;
  }
  const std::string most = limits.most == kMostBytes ? kMostBytesText : quantity_text(limits.most, dimension);
  return title + ", " + quantity_text(limits.least, dimension) + " to " + most;
}

}  // namespace

Json::Object schema_of_number(const Limits& limits, bool whole) {
  Json::Object schema{{"type", whole ? "integer" : "number"}};
  if (std::isfinite(limits.least)) {
    schema.push_back({limits.above ? "exclusiveMinimum" : "minimum", bound(limits.least)});
  }
  if (std::isfinite(limits.most)) {
    schema.push_back({"maximum", bound(limits.most)});
  }
  return schema;
}

Json::Object schema_of_quantity(const Dimension& dimension, const Limits& limits) {
  std::string pattern = limits.least >= 0 ? "^" : "^-?";
  pattern += R"([0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)? ()";
  for (std::size_t i = 0; i < dimension.units.size(); ++i) {
    pattern += (i == 0 ? "" : "|") + std::string(dimension.units[i].name);
  }
  return {{"type", "string"},
          {"title", title_of_quantity(dimension, limits)},
          {"pattern", pattern + ")$"},
          {"examples", Json::Array{dimension.example}}};
}

Json::Object schema_of_names(const std::vector<std::string>& names) {
  return {{"type", "string"}, {"enum", write(names)}};
}

Json::Object one_of(Json::Array choices) { return {{"anyOf", std::move(choices)}}; }

Json::Object titled(const char* title, Json::Object schema) {
  schema.insert(schema.begin(), {"title", title});
  return schema;
}

Json schema_of_file(const char* title, const char* description, Json::Object object) {
  Json::Object schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                      {"title", title},
                      {"description", description}};
  for (JsonMember& member : object) {
    if (auto* properties = std::get_if<Json::Object>(&member.value.value); member.key == "properties") {
      Json::Object own = schema_of(Type<std::string>{}, kSchemaName);
      own.push_back(
          {"description",
           "Where an editor finds this schema, for completion and hints: a path from this file, or a "
           "URL. Not used otherwise."});
      properties->insert(properties->begin(), {"$schema", std::move(own)});
    }
    schema.push_back(std::move(member));
  }
  return schema;
}

Json::Object schema_of(Type<Slowdown>, const Limits& limits) {
  return one_of({schema_of_number(limits, false),
                 titled("the same as a text: a fraction \"121/100\", or \"1.21\"",
                        {{"type", "string"}, {"pattern", R"(^([0-9]+/[0-9]+|[0-9]+(\.[0-9]{1,6})?)$)"}})});
}

namespace {

// By the end of a parameter's name; the first that fits.
constexpr std::pair<std::string_view, const char*> kCostDocumentation[] = {
    {"mpi.startup", "From the call to the first message."},
    {"gloo.startup", "From the call to the first segment."},
    {"gloo.handshake",
     "How much longer each segment occupies a network hop, while sender and receiver tell each other that "
     "they are ready."},
    {"gloo.reduce_rate", "At which a segment that was received is reduced into the rank's own."},
    {"gloo.copy_rate",
     "At which a buffer is copied to the host before and back after; 0: it is there. "
     "Left out, for a node's GPUs: half of what PCIe leaves each of them."},
    {"gloo.local_rate", "From a process to another of its host, by TCP's loopback."},
    {"tensorflow.startup", "From the operation to the first chunk."},
    {"tensorflow.reduce_rate", "At which a chunk that was received is reduced into the GPU's own."},
    {"tensorflow.copy_rate",
     "At which a chunk that leaves the node is copied to the host, and at the other end to the GPU; 0: it is "
     "there."},
    {"tcp.acknowledgements",
     "Of mpi, gloo and tensorflow: what a rank sends back of what it receives in a ring of more than two, "
     "as a share of its bytes, beside what it sends on; 0 where the network card joins packets."},
    {"mpi.rendezvous",
     "How much longer a block above 65,472 B (64 KiB less what leads a message) occupies a network hop, "
     "while sender and receiver agree."},
    {"network.thread_rate",
     "That a thread sends, or receives, over TCP sockets: of socket_threads threads for each channel and "
     "direction, "
     "or of a GPU's proxy, each way, for all its channels together."},
    {"network.socket_rate",
     "Of one TCP socket, where the network limits a flow (EC2: 5 Gb/s, or 10 in a placement group); a "
     "channel has "
     "sockets_per_thread of them for each thread. Left out: it doesn't."},
    {"network.adapter_rate",
     "That a host moves through an adapter over TCP sockets, each way, however fast the adapter is."},
    {"mpi.reduce_rate", "At which a block that was received is reduced into the rank's own."},
    {"launch.latency", "From the call to the startup, whatever the algorithm."},
    {"launch.period", "From one launch to the next: what small collectives in a row take."},
    {"launch.exposed",
     "Of each launch where a process drives several GPUs: what the collective before doesn't hide."},
    {"network.channel_overhead",
     "What a channel in Simple takes for a message between nodes, beside its bytes at network.channel_rate, "
     "however idle the NIC is; not of all_to_all and send_recv."},
    {"network.channel_rate",
     "At which a channel in Simple moves a message's bytes, however idle the NIC is; not of all_to_all and "
     "send_recv. Left out: 23.7 GB/s on Hopper, elsewhere no limit."},
    {"network.fifo_startup",
     "Of a GPU's proxy before the first step, times the FIFOs over the network that it begins."},
    {"nvls.tree_efficiency", "Of nvls.efficiency, while heads also run the tree between nodes."},
    {"network.slice_overhead",
     "What a GPU's proxy takes for a message, times the FIFOs that the GPU sends on at once: on EFA, TCPX "
     "and TCPXO a slice occupies a network hop so much longer than its bytes, elsewhere at least so long (on "
     "Slingshot not up to 16 KiB, which go at once)."},
    {"host.efficiency",
     "Share of its bandwidth, in all protocols, at which a GPU reads a host's memory over PCIe, where GPUs "
     "are no peers (past a CPU, or as p2p_level has it); pcie.efficiency doesn't count there."},
    {"simple.slice_overhead", "How much longer a slice in Simple occupies a hop in a node than its bytes."},
    {"nvls.slice_overhead", "How much longer a slice occupies a hop to or from the switch than its bytes."},
    {"nvls.latency", "Of a hop to or from the switch that reduces or multicasts."},
    {"ll.proxy_rate", "At which a GPU's proxy sends in LL, whose lines it looks at one by one."},
    {"block.copy_rate", "What a thread block moves, in its GPU or out of it."},
    {"nvls.efficiency", "Share of the NVLinks' bandwidth while the switch reduces or multicasts."},
    {".startup", "From the launch to the first step."},
    {".nvlink.latency", "Of a step, or with mpi, gloo and tensorflow a message, over NVLink."},
    {".pcie.latency", "Of a step, or with mpi, gloo and tensorflow a message, over PCIe."},
    {".network.latency", "Of a step, or with mpi, gloo and tensorflow a message, between nodes."},
    {"network.latency", "Of a hop between nodes, beyond InfiniBand's."},
    {".ll.efficiency", "Share of what NCCL holds a channel to carry."},
    {".ll128.efficiency", "Share of what NCCL holds a channel to carry."},
    {".simple.efficiency", "Share of what NCCL holds a channel to carry."},
    {"efficiency", "Payload over the links' bandwidth, in Simple."}};

const char* cost_documentation(std::string_view name) {
  const auto* const row =
      std::ranges::find_if(kCostDocumentation, [&](const auto& each) { return name.ends_with(each.first); });
  return row != std::end(kCostDocumentation) ? row->second : "";
}

}  // namespace

Json::Object schema_of(Type<std::vector<CostParameter>>, const Limits&) {
  Json::Object properties;
  for (const std::string& name : cost_parameter_names()) {
    const auto [dimension, limits] = form_of_cost(name);
    Json::Object schema =
        dimension != nullptr ? schema_of_quantity(*dimension, limits) : schema_of_number(limits, false);
    schema.push_back({"description", cost_documentation(name)});
    properties.push_back({name, std::move(schema)});
  }
  return {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

Json::Object schema_of(Type<Cluster>, const Limits&) {
  std::vector<std::string> names = cluster_names();
  std::ranges::copy(node_preset_names(), std::back_inserter(names));
  return one_of({titled("the name of a built-in cluster or a node preset", schema_of_names(names)),
                 titled("a file, with a / in its name or ending in .json",
                        {{"type", "string"}, {"pattern", R"(/|\.(json|xml)$)"}}),
                 titled("its parts", schema_of_object<Cluster>())});
}

Json::Object schema_of(Type<NodeSpec>, const Limits&) {
  return one_of({titled("a preset's name", schema_of_names(node_preset_names())),
                 titled("its parts", schema_of_object<NodeSpec>()),
                 titled("a file of NCCL's", schema_of_object<NodeOfTopologyFile>())});
}

Json::Object schema_of(Type<GpuSpec>, const Limits&) {
  return one_of({titled("a preset's name", schema_of_names(gpu_preset_names())),
                 titled("its numbers", schema_of_object<GpuSpec>())});
}

Json::Object schema_of(Type<Model>, const Limits&) {
  return one_of({titled("a built-in model's name", schema_of_names(model_names())),
                 titled("a built-in model at a sequence length", schema_of_object<ModelPreset>()),
                 titled("its layers", schema_of_object<Model>()),
                 titled("a file", schema_of_object<ModelFile>()),
                 titled("a transformer", schema_of_object<ModelOfTransformer>())});
}

namespace {

void add_keys(const Json& schema, const std::string& place, std::vector<KeyPlaces>& keys) {
  if (const Json* items = schema.find("items")) {
    add_keys(*items, pointer(place, std::size_t{0}), keys);
  }
  if (const Json* forms = schema.find("anyOf")) {
    for (const Json& form : *forms->as<Json::Array>()) {
      add_keys(form, place, keys);
    }
  }
  const Json* properties = schema.find("properties");
  for (const JsonMember& member : properties == nullptr ? Json::Object{} : *properties->as<Json::Object>()) {
    auto found = std::ranges::find(keys, member.key, &KeyPlaces::key);
    found = found == keys.end() ? keys.insert(found, {member.key, {}}) : found;
    if (std::ranges::find(found->places, place) == found->places.end()) {
      found->places.push_back(place);
    }
    add_keys(member.value, pointer(place, member.key), keys);
  }
}

}  // namespace

std::vector<KeyPlaces> scenario_keys() {
  std::vector<KeyPlaces> keys;
  add_keys(schema_of_object<ScenarioFile>(), {}, keys);
  return keys;
}

std::string scenario_schema() {
  return to_text(
      schema_of_file("Paceline scenario",
                     "What is trained, on which machines, and how. Quantities are texts with their "
                     "unit: \"25 MiB\", \"450 GB/s\", \"400 Gb/s\" (bits), \"5 us\".",
                     schema_of_object<ScenarioFile>()));
}

}  // namespace paceline
