#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>

#include "topology/nccl_xml.h"
#include "topology/xml_file.h"

namespace paceline {
namespace {

constexpr double kMostSpeed = 1e6, kMostLatency = 1e6;  // GB/s, us

// In NCCL's numbering of graphs.
constexpr std::array kGraphs{&ChannelGraphs::ring, &ChannelGraphs::tree, &ChannelGraphs::collnet_chain,
                             &ChannelGraphs::nvls, &ChannelGraphs::collnet_direct};

// From the file's numbers of devices to GPUs or NICs of a node.
using Numbers = std::map<std::int64_t, int>;

class GraphReader {
 public:
  GraphReader(const XmlFile& xml, const NodeSpec* node) : xml_(xml), node_(node) {
    if (node != nullptr) {
      number_devices(*node, NodePart::gpu, gpus_);
      number_devices(*node, NodePart::nic, nics_);
    } else {
      count_gpus();
    }
  }

  ChannelGraphs read() {
    std::set<std::int64_t> seen;
    for (const pugi::xml_node graph : xml_.root().children("graph")) {
      const std::int64_t id = xml_.whole(graph, "id", 0, INT32_MAX).value_or(-1);
      if (id < 0 || !seen.insert(id).second) {
        xml_.fail(graph, id < 0 ? "expected a graph with an id, found none"
                                : "expected each graph once, found id " + std::to_string(id) + " again");
      }
      if (id < static_cast<std::int64_t>(kGraphs.size())) {
        graphs_.*kGraphs[static_cast<std::size_t>(id)] = read_graph(graph, id);
      }
    }
    if (graphs_.ring.channels.empty()) {
      xml_.fail(xml_.root(), "expected a graph 0, the rings, with channels, found none");
    }
    complete_channels();
    keep_common_channels();
    return std::move(graphs_);
  }

 private:
  static void number_devices(const NodeSpec& node, NodePart kind, Numbers& numbers) {
    int count = 0;
    for (const NodeDevice& device : node.devices) {
      if (device.kind == kind) {
        numbers.emplace(device.number, count++);
      }
    }
  }

  void count_gpus() {
    for (const pugi::xml_node graph : xml_.root().children("graph")) {
      for (const pugi::xml_node channel : graph.children("channel")) {
        for (const pugi::xml_node gpu : channel.children("gpu")) {
          gpus_.emplace(number_of(gpu), 0);
          if (gpus_.size() > kMostOfAKind) {
            xml_.fail(gpu, "expected at most " + std::to_string(kMostOfAKind) + " GPUs, found more");
          }
        }
      }
    }
    int count = 0;
    for (auto& [number, gpu] : gpus_) {
      gpu = count++;
    }
  }

  std::int64_t number_of(pugi::xml_node device) const {
    const std::optional<std::int64_t> number = xml_.hexadecimal(device, "dev");
    if (!number) {
      xml_.fail(device, "expected a dev, found none");
    }
    return *number;
  }

  int known(pugi::xml_node device, const Numbers& numbers) const {
    const auto at = numbers.find(number_of(device));
    if (at == numbers.end()) {
      xml_.fail(device, std::string("expected the dev of a ") + (&numbers == &gpus_ ? "GPU" : "NIC") +
                            " of the node, found " + XmlFile::quoted(device.attribute("dev").value()));
    }
    return at->second;
  }

  int nic(pugi::xml_node net) const {
    if (node_ != nullptr) {
      return known(net, nics_);
    }
    const std::int64_t number = number_of(net);
    if (number > INT32_MAX) {
      xml_.fail(net, "expected the number of a network device, found " + std::to_string(number));
    }
    return static_cast<int>(number);
  }

  PathType path_type(pugi::xml_node graph, const char* name, PathType usual) const {
    const std::optional<std::string> found = xml_.text(graph, name);
    if (!found) {
      return usual;
    }
    const std::optional<PathType> type = find_named<PathType>(*found);
    if (!type) {
      xml_.fail(graph, std::string("expected a type of path such as PIX as ") + name + ", found " +
                           XmlFile::quoted(*found));
    }
    return *type;
  }

  ChannelGraph read_graph(pugi::xml_node at, std::int64_t id) {
    constexpr std::int64_t kLastPattern = 6, kLastCrossNic = 2;
    constexpr std::array kUsual{GraphPattern::ring, GraphPattern::balanced_tree, GraphPattern::tree,
                                GraphPattern::nvls, GraphPattern::collnet_direct};
    ChannelGraph graph;
    const auto pattern = xml_.whole(at, "pattern", 1, kLastPattern);
    graph.pattern = pattern ? static_cast<GraphPattern>(*pattern) : kUsual[static_cast<std::size_t>(id)];
    graph.cross_nic = static_cast<int>(xml_.whole(at, "crossnic", 0, kLastCrossNic).value_or(0));
    graph.bw_intra = xml_.number(at, "speedintra", 0, kMostSpeed).value_or(0);
    graph.bw_inter = xml_.number(at, "speedinter", 0, kMostSpeed).value_or(0);
    graph.latency_inter = xml_.number(at, "latencyinter", 0, kMostLatency).value_or(0);
    graph.type_intra = path_type(at, "typeintra", graph.type_intra);
    graph.type_inter = path_type(at, "typeinter", graph.type_inter);
    graph.same_channels = xml_.whole(at, "samechannels", 0, 1).value_or(1) == 1;
    for (const pugi::xml_node channel : at.children("channel")) {
      if (graph.channels.size() == std::size_t{kMostChannels}) {
        xml_.fail(channel, "expected at most " + std::to_string(kMostChannels) + " channels, found more");
      }
      graph.channels.push_back(read_channel(channel, id));
    }
    const auto told = xml_.whole(at, "nchannels", 0, INT32_MAX);
    if (told && static_cast<std::size_t>(*told) != graph.channels.size()) {
      xml_.fail(at, "expected as many channels as nchannels says, " + std::to_string(*told) + ", found " +
                        std::to_string(graph.channels.size()));
    }
    return graph;
  }

  NodeChannel read_channel(pugi::xml_node at, std::int64_t id) {
    NodeChannel channel;
    std::vector<int> nics;
    for (const pugi::xml_node child : at.children()) {
      if (std::strcmp(child.name(), "gpu") == 0) {
        const int gpu = known(child, gpus_);
        if (std::ranges::find(channel.gpus, gpu) != channel.gpus.end()) {
          xml_.fail(child, "expected each GPU of a channel once, found " +
                               XmlFile::quoted(child.attribute("dev").value()) + " again");
        }
        channel.gpus.push_back(gpu);
      } else if (std::strcmp(child.name(), "net") == 0) {
        nics.push_back(nic(child));
      }
    }
    constexpr std::int64_t kNvls = 3, kCollnetDirect = 4;
    const std::size_t most = gpus_.size();
    const bool head_only = id == kNvls || (id == kCollnetDirect && channel.gpus.size() == 1);
    if (channel.gpus.empty() || (!head_only && node_ == nullptr && channel.gpus.size() != most)) {
      xml_.fail(at, "expected a channel through " + (head_only ? "a GPU" : std::to_string(most) + " GPUs") +
                        ", found " + std::to_string(channel.gpus.size()));
    }
    if (head_only) {
      heads_.push_back({at, *std::ranges::max_element(channel.gpus)});
    } else {
      check_same_gpus(at, channel);
    }
    if (nics.size() > 2) {
      xml_.fail(at, "expected one or two network devices in a channel, found " + std::to_string(nics.size()));
    }
    if (!nics.empty()) {
      channel.nic_in = nics.front();
      channel.nic_out = nics.back();
    }
    return channel;
  }

  // A job may leave out GPUs of its nodes, the last ones (ClusterSpec::gpus_per_node), in all channels alike.
  void check_same_gpus(pugi::xml_node at, const NodeChannel& channel) {
    gpus_in_use_ = gpus_in_use_ == 0 ? channel.gpus.size() : gpus_in_use_;
    const int last = *std::ranges::max_element(channel.gpus);
    if (channel.gpus.size() != gpus_in_use_ || static_cast<std::size_t>(last) >= gpus_in_use_) {
      xml_.fail(at, "expected a channel through the first " + std::to_string(gpus_in_use_) +
                        " GPUs, as the first channel has as many, found others");
    }
  }

  // Of the channels that have heads NCCL lists no more than these: the others follow in order.
  void complete_channels() {
    for (const auto& [at, last] : heads_) {
      if (static_cast<std::size_t>(last) >= gpus_in_use_) {
        xml_.fail(at, "expected one of the first " + std::to_string(gpus_in_use_) +
                          " GPUs at the head, as the rings have as many, found another");
      }
    }
    for (ChannelGraph* graph : {&graphs_.nvls, &graphs_.collnet_direct}) {
      for (NodeChannel& channel : graph->channels) {
        for (int gpu = 0; static_cast<std::size_t>(gpu) < gpus_in_use_; ++gpu) {
          if (std::ranges::find(channel.gpus, gpu) == channel.gpus.end()) {
            channel.gpus.push_back(gpu);
          }
        }
      }
    }
  }

  // Rings and trees run on as many (src/init.cc).
  void keep_common_channels() {
    if (!graphs_.tree.channels.empty()) {
      const std::size_t both = std::min(graphs_.ring.channels.size(), graphs_.tree.channels.size());
      graphs_.ring.channels.resize(both);
      graphs_.tree.channels.resize(both);
    }
  }

  const XmlFile& xml_;
  const NodeSpec* node_;
  Numbers gpus_, nics_;
  std::size_t gpus_in_use_ = 0;
  struct Head {
    pugi::xml_node at;
    int last;  // of the GPUs listed, usually the head alone
  };
  std::vector<Head> heads_;
  ChannelGraphs graphs_;
};

}  // namespace

ChannelGraphs read_nccl_graphs(const std::string& text, const std::string& file, const NodeSpec* node) {
  const XmlFile xml(text, file, "graphs");
  return GraphReader(xml, node).read();
}

}  // namespace paceline
