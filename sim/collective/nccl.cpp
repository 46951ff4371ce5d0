#include "sim/collective/nccl.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"
#include "sim/collective/live_loops.h"
#include "sim/collective/networks.h"
#include "sim/collective/sizing.h"
#include "topology/channel_search.h"

namespace paceline {
namespace {

SearchSpec search_spec(const CollectiveSpec& spec, const FabricSpec& fabric, const NodeSpec& node) {
  SearchSpec search;
  search.nccl_minor = nccl_version(spec.nccl).minor;
  search.cross_nic = spec.cross_nic;
  search.pxn = spec.pxn;
  search.nvls = spec.nvls;
  search.gdr = node.gpu_direct;
  search.sharp = fabric.sharp;
  search.min_channels = spec.min_channels;
  search.max_channels = spec.max_channels > 0 ? spec.max_channels : search.max_channels;
  return search;
}

constexpr std::array<ChannelGraph ChannelGraphs::*, 5> kAllGraphs{
    &ChannelGraphs::ring, &ChannelGraphs::tree, &ChannelGraphs::collnet_chain, &ChannelGraphs::collnet_direct,
    &ChannelGraphs::nvls};

NcclSizes sizes_of(NcclSizes asked, const NcclSizes& of_plugin) {
  for (Bytes NcclSizes::* each :
       {&NcclSizes::buffer, &NcclSizes::nvls_chunk, &NcclSizes::nvls_tree_chunk, &NcclSizes::peer_chunk}) {
    asked.*each = (asked.*each).value > 0 ? asked.*each : of_plugin.*each;
  }
  return asked;
}

double width_of_rings(const ChannelGraphs& graphs, const RankLayout& layout) {
  const ChannelGraph& ring = graphs.ring;
  return static_cast<double>(ring.channels.size()) * (layout.nodes > 1 ? ring.bw_inter : ring.bw_intra);
}

}  // namespace

NcclCollectives::NcclCollectives(const Topology& topology, const CollectiveSpec& spec,
                                 std::span<const BackgroundFlow> background, const GroupShape& groups)
    : spec_(spec), family_(topology, groups), links_(topology, background) {
  input_.version = nccl_version(spec.nccl);
  input_.nodes = static_cast<int>(family_.layout().nodes);
  input_.ranks = static_cast<int>(family_.layout().ranks());
  describe_nodes(topology);
  find_channels(topology);
  input_.sharp = topology.spec().fabric.sharp;
  input_.sizes = spec.sizes;
  if (input_.nodes > 1) {
    const Network& of = network(topology.spec().node.network, input_.compute_capability);
    input_.sizes = sizes_of(spec.sizes, of.sizes);
    plugin_protocols_ = of.protocols;
    for (const auto graph : kAllGraphs) {
      double& stated = (input_.graphs.*graph).latency_inter;
      stated = stated > 0 ? stated : stated_latency(of, input_.version);
    }
  }
}

// What the tuner asks for of nodes, and what their hops cost.
void NcclCollectives::describe_nodes(const Topology& topology) {
  std::set<std::uint32_t> kinds;
  for (const PlacedFamily::Kind& kind : family_.kinds()) {
    kinds.insert(kind.of_node.begin(), kind.of_node.end());
  }
  const NodeSpec& first = topology.spec_of_kind(*kinds.begin());
  input_.compute_capability = first.compute_capability;
  input_.cpu = first.cpu;
  input_.nvswitch = true;
  for (const std::uint32_t kind : kinds) {
    const NodeSpec& node = topology.spec_of_kind(kind);
    input_.unlike_gpus = input_.unlike_gpus || node.compute_capability != first.compute_capability;
    input_.unlike_cpus = input_.unlike_cpus || node.cpu != first.cpu;
    input_.compute_capability = std::min(input_.compute_capability, node.compute_capability);
    input_.nvswitch = input_.nvswitch && topology.kinds()[kind].count(DeviceKind::nvswitch) > 0;
  }
  input_.nvls = spec_.nvls && input_.nvswitch && input_.compute_capability >= 90;
  for (std::uint32_t kind = 0; kind < topology.kinds().size();
       ++kind) {  // those of other jobs count as the first
    const NodeSpec& node = kinds.contains(kind) ? topology.spec_of_kind(kind) : first;
    costs_.push_back(default_costs(node.compute_capability, node.network));
    set_costs(spec_.costs, costs_.back());
  }
}

// The channels that are given are those of all GPUs in use.
void NcclCollectives::find_channels(const Topology& topology) {
  const std::optional<ChannelGraphs>& given = topology.spec().graphs;
  std::map<std::pair<std::vector<std::uint32_t>, std::uint32_t>, ChannelGraphs> searched;
  const auto search = [&](const NodeLayout& node, std::uint32_t kind) {
    const NodeSpec& spec = topology.spec_of_kind(kind);
    const auto [at, added] = searched.try_emplace({node.gpus_in_use, kind});
    if (added) {
      const SearchSpec how = search_spec(spec_, topology.spec().fabric, spec);
      const bool all = node.gpus_in_use == topology.node().gpus_in_use;
      at->second = given && all ? *given : search_channels(node, spec, input_.nodes, how);
      if (at->second.channels == 0) {
        count_channels(at->second, node, spec, input_.nodes, how);
      }
    }
    return at->second;
  };
  for (const PlacedFamily::Kind& group : family_.kinds()) {
    std::vector<std::uint32_t> kinds;
    std::vector<SearchedNode> nodes;
    Found found;
    for (const std::uint32_t kind : group.of_node) {
      const auto known = std::ranges::find(kinds, kind);
      found.on_node.push_back(static_cast<std::uint32_t>(known - kinds.begin()));
      if (known == kinds.end()) {
        kinds.push_back(kind);
        nodes.push_back({&group.nodes[kind], &topology.spec_of_kind(kind), search(group.nodes[kind], kind)});
      }
    }
    if (nodes.size() > 1) {
      agree(nodes, input_.nodes, search_spec(spec_, topology.spec().fabric, *nodes.front().spec));
    } else {
      found.on_node.clear();
    }
    for (SearchedNode& node : nodes) {
      found.of_kind.push_back(std::move(node.graphs));
    }
    found_.push_back(std::move(found));
  }
  const Found& narrowest = *std::ranges::min_element(found_, {}, [&](const Found& found) {
    return width_of_rings(found.of_kind.front(), family_.layout());
  });
  input_.graphs = narrowest.of_kind.front();
  for (const ChannelGraphs& kind : narrowest.of_kind) {
    input_.graphs.tree.pattern = std::max(input_.graphs.tree.pattern, kind.tree.pattern);
  }
  for (const auto graph : kAllGraphs) {
    if (std::ranges::any_of(
            found_, [&](const Found& kind) { return (kind.of_kind.front().*graph).channels.empty(); })) {
      (input_.graphs.*graph).channels.clear();
    }
  }
}

void NcclCollectives::select(CollectiveKind kind) {
  const auto [at, added] = tables_.try_emplace(kind);
  input_.kind = kind;
  if (added) {
    input_.allowed = tuner_overrides(spec_.algorithm == kHierarchical ? "" : spec_.algorithm,
                                     spec_.protocol.empty() ? plugin_protocols_ : spec_.protocol, kind);
    at->second = {input_.allowed, tuner_table(input_)};
  }
  input_.allowed = at->second.allowed;
}

const TunerTable& NcclCollectives::table() const { return tables_.at(input_.kind).table; }

void NcclCollectives::ask_for(const std::string& algorithm, const std::string& protocol) {
  spec_.algorithm = algorithm;
  spec_.protocol = protocol;
  tables_.clear();
}

TunerChoice NcclCollectives::tuned(CollectiveKind kind, Bytes bytes) {
  if (spec_.algorithm == kHierarchical && runs(Algorithm::hierarchical, kind, family_.layout())) {
    return {Algorithm::hierarchical, Protocol::simple, 0};
  }
  select(kind);
  if (const std::optional<TunerChoice> choice = tune(input_, table(), bytes)) {
    return *choice;
  }
  if (has_root(kind)) {
    return {Algorithm::ring, Protocol::simple, 0};  // whatever is asked for: they have no other algorithm
  }
  const bool both = !spec_.algorithm.empty() && !spec_.protocol.empty();
  throw InputError("expected an algorithm and a protocol that NCCL can run here, found none that " +
                       (spec_.algorithm.empty() ? "" : '"' + spec_.algorithm + '"') + (both ? " with " : "") +
                       (spec_.protocol.empty() ? "" : '"' + spec_.protocol + '"') + " leaves",
                   std::string(kCollectivePlace));
}

double NcclCollectives::time_of(CollectiveKind kind, Bytes bytes, const TunerChoice& choice) {
  select(kind);
  return tuner_time(input_, table(), choice.algorithm, choice.protocol, bytes);
}

std::vector<TunerChoice> NcclCollectives::possible(CollectiveKind kind, Bytes bytes, double within) {
  std::vector<TunerChoice> choices{tuned(kind, bytes)};
  if (!(choices.front().time > 0)) {
    return choices;  // hierarchical, or nothing that NCCL tunes
  }
  for (std::size_t a = 0; a < kNcclAlgorithms; ++a) {
    for (std::size_t p = 0; p < kProtocols; ++p) {
      TunerChoice choice{static_cast<Algorithm>(a), static_cast<Protocol>(p), 0};
      choice.time = time_of(kind, bytes, choice);
      const bool tuned =
          choice.algorithm == choices.front().algorithm && choice.protocol == choices.front().protocol;
      if (!tuned && choice.time > 0 && choice.time <= within * choices.front().time) {
        choices.push_back(choice);
      }
    }
  }
  return choices;
}

CollectivePlan NcclCollectives::plan(Communicator& communicator, CollectiveKind kind, Bytes bytes,
                                     const TunerChoice& choice, std::uint32_t root) {
  select(kind);
  const Sizing sizing = size_collective(input_, choice, bytes);
  CollectivePlan plan;
  plan.kind = kind;
  plan.bytes = bytes;
  plan.algorithm = choice.algorithm;
  plan.protocol = choice.protocol;
  plan.slots = spec_.limited_fifos ? sizing.slots : 0;
  plan.root = root;
  plan.graph =
      graph(communicator, {choice.algorithm, kind, static_cast<std::uint32_t>(sizing.channels), root});
  plan.loops = cut_where_rates_change(sizing.loops, communicator.graphs[plan.graph],
                                      fills_faster(plan.algorithm, plan.protocol));
  price(plan, communicator, costs_);
  if (!communicator.graphs[plan.graph].shared.empty()) {
    communicator.shared_links = links_.links;
    communicator.shared_capacity = links_.capacity;
    communicator.background = links_.flows;
  }
  return plan;
}

void NcclCollectives::price(CollectivePlan& plan, const Communicator& communicator,
                            std::span<const CollectiveCosts> costs) const {
  price_plan(plan, communicator.graphs[plan.graph], costs,
             {.socket_threads = spec_.socket_threads,
              .sockets_per_thread = spec_.sockets_per_thread,
              .gpus_per_process = spec_.gpus_per_process,
              .fills_faster = fills_faster(plan.algorithm, plan.protocol)});
}

// Seen since trees in Simple move the largest chunks that there are; before, they had many small ones (sizing.cpp).
bool NcclCollectives::fills_faster(Algorithm algorithm, Protocol protocol) const {
  return algorithm == Algorithm::tree && protocol == Protocol::simple && input_.version.minor >= 20;
}

std::size_t NcclCollectives::channels_of(Algorithm algorithm) const {
  const bool nvls = algorithm == Algorithm::nvls || algorithm == Algorithm::nvls_tree;
  return static_cast<std::size_t>(nvls ? input_.graphs.nvls_channels : input_.graphs.channels);
}

std::uint32_t NcclCollectives::graph(Communicator& communicator, const GraphKey& key) {
  const auto [at, added] = graphs_.try_emplace(key, static_cast<std::uint32_t>(communicator.graphs.size()));
  if (added) {
    require_memory(key.kind, key.channels);
    std::vector<CollectiveGraph> of_kind;
    for (const Found& found : found_) {
      std::vector<const ChannelGraphs*> by_node;
      for (const std::uint32_t kind : found.on_node) {
        by_node.push_back(&found.of_kind[kind]);
      }
      const GraphsOfNodes graphs =
          by_node.empty() ? GraphsOfNodes(found.of_kind.front()) : GraphsOfNodes(std::move(by_node));
      of_kind.push_back(
          make_graph(key.algorithm, key.kind, family_.layout(), graphs, key.channels, key.root));
    }
    communicator.graphs.push_back(family_.join(std::move(of_kind), links_));
  }
  return at->second;
}

// An all-to-all has a FIFO for every pair of ranks on every channel.
void NcclCollectives::require_memory(CollectiveKind kind, std::uint32_t channels) const {
  const RankLayout& layout = family_.layout();
  const auto groups = static_cast<double>(family_.groups());
  constexpr double kMostFifos = 1e7;  // about 2 GB
  const double fifos = groups * layout.ranks() * layout.ranks() * channels;
  if (kind == CollectiveKind::all_to_all && fifos > kMostFifos) {
    throw InputError("expected an all-to-all over at most " +
                         std::to_string(static_cast<int>(std::sqrt(kMostFifos / channels / groups))) +
                         " GPUs on " + std::to_string(channels) + " channels, found " +
                         std::to_string(layout.ranks()) + ": every pair of GPUs is simulated",
                     "/cluster/nodes");
  }
  constexpr double kMostThreadBlocks = 4e7;  // about 10 GB
  const double ranks = groups * layout.ranks();
  if (ranks * channels > kMostThreadBlocks || (input_.sharp && layout.nodes > 65'535)) {
    throw InputError("expected at most " + std::to_string(static_cast<int>(kMostThreadBlocks / channels)) +
                         " GPUs on " + std::to_string(channels) +
                         " channels, and 65535 nodes with SHARP, found " +
                         std::to_string(static_cast<std::int64_t>(ranks)),
                     "/cluster/nodes");
  }
}

void scale(CollectivePlan& plan, double factor) {
  const auto scaled = [&](SimTime time) {
    return SimTime{round_to_picoseconds(static_cast<double>(time.ps) * factor)};
  };
  plan.startup = scaled(plan.startup);
  plan.launch_period = scaled(plan.launch_period);
  plan.launch_exposed = scaled(plan.launch_exposed);
  plan.copy_rate = plan.copy_rate / factor;
  for (BytesPerSecond& rate : plan.paced) {
    rate = rate / factor;
  }
  for (HopCost& hop : plan.hops) {
    hop = {hop.rate / factor,   scaled(hop.latency),       scaled(hop.least),
           scaled(hop.hidden),  scaled(hop.overhead),      hop.cut_through / factor,
           scaled(hop.channel), hop.channel_rate / factor, hop.eager};
  }
}

}  // namespace paceline
