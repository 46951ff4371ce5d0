#include "topology/nccl_xml.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "topology/nccl_machine.h"
#include "topology/node_layout.h"
#include "topology/rates.h"

namespace paceline {
namespace {

constexpr int kMostLinksOfPair = 1000;  // NVLinks of a GPU to one device

BytesPerSecond nvlink_rate(int compute_capability) {
  const double gigabytes = compute_capability >= 100  ? 40.1
                           : compute_capability >= 90 ? 20.6
                           : compute_capability == 86 ? 12.0
                           : compute_capability >= 80 ? 20.0
                           : compute_capability >= 70 ? 20.0
                           : compute_capability >= 60 ? 18.0
                                                      : 20.0;
  return BytesPerSecond(gigabytes * 1e9);
}

class Importer {
 public:
  Importer(const XmlFile& xml, const std::string& file) : xml_(xml), machine_(read_machine(xml)) {
    spec_.name = file;
  }

  NodeSpec import() {
    keep_gpus();
    keep_nics();
    list_devices();
    join_tree();
    join_cpus();
    for (const int gpu : kept(NodePart::gpu)) {
      join_gpu(gpu);
    }
    join_peers();
    join_switches();
    list_cables();
    assume_nvswitch();
    describe();
    return std::move(spec_);
  }

 private:
  MachinePart& part(int i) { return machine_.parts[static_cast<std::size_t>(i)]; }
  int parts() const { return static_cast<int>(machine_.parts.size()); }

  std::vector<int> all(NodePart kind) {
    std::vector<int> found;
    for (int i = 0; i < parts(); ++i) {
      if (part(i).kind == kind) {
        found.push_back(i);
      }
    }
    return found;
  }
  std::vector<int>& kept(NodePart kind) { return kept_[static_cast<std::size_t>(kind)]; }

  // Only those of which `has` is true, if it is of any.
  template <class Has>
  static void prefer(std::vector<int>& found, Has has) {
    if (std::ranges::any_of(found, has)) {
      std::erase_if(found, [&](int i) { return !has(i); });
    }
  }

  // By number where each has one, else by bus id; two with one number are an error.
  void sort(std::vector<int>& found, const char* what) {
    const bool numbered = std::ranges::all_of(found, [&](int i) { return part(i).number >= 0; });
    const auto key = [&](int i) { return std::pair(part(i).host, numbered ? part(i).number : part(i).bus); };
    std::ranges::stable_sort(found, {}, key);
    const auto twice = numbered ? std::ranges::adjacent_find(found, {}, key) : found.end();
    if (twice != found.end()) {
      xml_.fail(part(*(twice + 1)).at, std::string("expected each ") + what +
                                           " of a host to have its own dev, found " +
                                           std::to_string(part(*twice).number) + " again");
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      MachinePart& p = part(found[i]);
      constexpr int kHostBits = 56;  // above them stands the host, as in a graph file
      p.number = numbered ? p.number + (std::int64_t{p.host} << kHostBits) : static_cast<std::int64_t>(i);
    }
  }

  void check_count(NodePart kind) {
    if (kept(kind).size() > kMostOfAKind) {
      xml_.fail(part(kept(kind)[kMostOfAKind]).at, "expected at most " + std::to_string(kMostOfAKind) + " " +
                                                       std::string(kPlurals[kind]) + ", found " +
                                                       std::to_string(kept(kind).size()));
    }
  }

  void keep_gpus() {
    std::vector<int>& gpus = kept(NodePart::gpu);
    gpus = all(NodePart::gpu);
    prefer(gpus, [&](int i) { return part(i).declared; });
    prefer(gpus, [&](int i) { return part(i).rank >= 0; });
    if (gpus.empty()) {
      xml_.fail(xml_.root(), "expected a machine with a GPU, found none");
    }
    check_count(NodePart::gpu);
    sort(gpus, "GPU");
  }

  void keep_nics() {
    std::vector<int>& nics = kept(NodePart::nic);
    nics = all(NodePart::nic);
    prefer(nics, [&](int i) { return part(i).declared; });
    prefer(nics, [&](int i) { return part(i).number >= 0; });
    BytesPerSecond fastest;
    for (const int nic : nics) {
      fastest = std::max(fastest, part(nic).port);
    }
    std::erase_if(nics, [&](int i) { return part(i).port < fastest * 0.5; });
    check_count(NodePart::nic);
    sort(nics, "NIC");
  }

  // PCIe switches count where something that counts is below them.
  void keep_switches() {
    std::vector<bool> used(machine_.parts.size(), false);
    for (const NodePart kind : {NodePart::gpu, NodePart::nic}) {
      for (const int end : kept(kind)) {
        for (int at = end; at >= 0 && !used[static_cast<std::size_t>(at)]; at = part(at).parent) {
          used[static_cast<std::size_t>(at)] = true;
        }
      }
    }
    kept(NodePart::pcie_switch) = all(NodePart::pcie_switch);
    std::erase_if(kept(NodePart::pcie_switch), [&](int i) { return !used[static_cast<std::size_t>(i)]; });
    kept(NodePart::cpu) = all(NodePart::cpu);
    check_count(NodePart::pcie_switch);
    check_count(NodePart::cpu);
  }

  void list_devices() {
    keep_switches();
    place_.assign(machine_.parts.size(), -1);
    for (const NodePart kind : {NodePart::gpu, NodePart::pcie_switch, NodePart::cpu, NodePart::nic}) {
      for (const int i : kept(kind)) {
        place_[static_cast<std::size_t>(i)] = static_cast<int>(spec_.devices.size());
        spec_.devices.push_back({kind, part(i).name, part(i).port, part(i).number});
      }
    }
  }

  // Between two devices one cable: what is wider in kind (c2c, NVLink) stands for both.
  void join(int a, int b, CableKind kind, BytesPerSecond bandwidth) {
    const auto [at, fresh] = cables_.try_emplace(std::minmax(a, b), NodeCable{a, b, kind, bandwidth});
    if (!fresh && at->second.kind != kind) {
      at->second.kind = kind;
      at->second.bandwidth = bandwidth;
    } else if (!fresh) {
      at->second.bandwidth = at->second.bandwidth + bandwidth;
    }
  }
  int place(int i) const { return place_[static_cast<std::size_t>(i)]; }

  void join_tree() {
    for (const NodePart kind : {NodePart::gpu, NodePart::pcie_switch, NodePart::nic}) {
      for (const int i : kept(kind)) {
        const auto ports = std::ranges::count_if(kept(NodePart::nic), [&](int other) {
          return kind == NodePart::nic && part(other).adapter == part(i).adapter;
        });
        const double shared = 1.0 / static_cast<double>(std::max<std::ptrdiff_t>(ports, 1));
        join(place(i), place(part(i).parent), CableKind::pcie, part(i).to_parent * shared);
      }
    }
  }

  void join_cpus() {
    const std::vector<int>& cpus = kept(NodePart::cpu);
    for (std::size_t a = 0; a < cpus.size(); ++a) {
      for (std::size_t b = a + 1; b < cpus.size(); ++b) {
        if (part(cpus[a]).host == part(cpus[b]).host) {
          join(place(cpus[a]), place(cpus[b]), CableKind::socket,
               std::min(part(cpus[a]).to_parent, part(cpus[b]).to_parent));
        }
      }
    }
  }

  // NVLinks and coherent links as the GPU's element lists them.
  void join_gpu(int gpu) {
    const BytesPerSecond rate = nvlink_rate(part(gpu).compute_capability);
    const pugi::xml_node element = part(gpu).at.child("gpu");
    for (const pugi::xml_node link : element.children("nvlink")) {
      const auto count = static_cast<int>(xml_.whole(link, "count", 0, kMostLinksOfPair).value_or(1));
      if (count > 0) {
        join_nvlink(gpu, link, count, rate);
      }
    }
    for (const pugi::xml_node link : element.children("c2c")) {
      constexpr double kMostMegabytes = 1e8;
      const double bandwidth = xml_.number(link, "bw", 0, kMostMegabytes).value_or(0);
      const double count = static_cast<double>(xml_.whole(link, "count", 0, kMostLinksOfPair).value_or(1));
      if (bandwidth * count > 0) {
        join(place(gpu), place(part(gpu).cpu), CableKind::c2c, BytesPerSecond(bandwidth * count * 1e6));
      }
    }
  }

  void join_nvlink(int gpu, pugi::xml_node link, int count, BytesPerSecond rate) {
    const std::string target_class = xml_.text(link, "tclass").value_or("");
    const int peer = target_class.empty() || target_class.starts_with("0x03") ? peer_of(gpu, link) : -1;
    if (peer >= 0) {
      if (peer == gpu) {
        xml_.fail(link, "expected another GPU as target of <nvlink>, found the GPU itself");
      }
      peers_[{gpu, peer}] += count;
    } else if (target_class.starts_with("0x068001")) {
      join(place(gpu), place(part(gpu).cpu), CableKind::c2c, rate * count);  // POWER
    } else if (!target_class.starts_with("0x03")) {
      if (nvswitch_ < 0) {
        nvswitch_ = static_cast<int>(spec_.devices.size());
        spec_.devices.push_back({NodePart::nvswitch, "nvswitch", {}, -1});
      }
      join(place(gpu), nvswitch_, CableKind::nvlink, rate * count);
    }
  }

  // -1: no GPU that counts.
  int peer_of(int gpu, pugi::xml_node link) {
    const auto at = machine_.at_bus.find({part(gpu).host, bus_number(xml_, link, "target")});
    const bool known =
        at != machine_.at_bus.end() && part(at->second).kind == NodePart::gpu && place(at->second) >= 0;
    return known ? at->second : -1;
  }

  // Each of two GPUs lists the links between them; if one doesn't, the other's word counts.
  void join_peers() {
    for (const auto& [pair, count] : peers_) {
      const auto back = peers_.find({pair.second, pair.first});
      if (back != peers_.end() && pair.first > pair.second) {
        continue;
      }
      const int links = back == peers_.end() ? count : std::max(count, back->second);
      const BytesPerSecond rate = std::min(nvlink_rate(part(pair.first).compute_capability),
                                           nvlink_rate(part(pair.second).compute_capability));
      join(place(pair.first), place(pair.second), CableKind::nvlink, rate * links);
    }
  }

  void join_switches() {
    for (const int here : kept(NodePart::pcie_switch)) {
      for (const pugi::xml_node link : part(here).at.children("pcilink")) {
        const std::int64_t target = bus_number(xml_, link, "target");
        const auto at = machine_.at_bus.find({part(here).host, target});
        if (at == machine_.at_bus.end()) {
          continue;
        }
        if (target == part(here).bus) {
          xml_.fail(link, "expected another switch as target of <pcilink>, found the switch itself");
        }
        const bool counts =
            at->second != here && part(at->second).kind == NodePart::pcie_switch && place(at->second) >= 0;
        if (counts && !cables_.contains(std::minmax(place(here), place(at->second)))) {
          join(place(here), place(at->second), CableKind::pcie, kUnlimited);
        }
      }
    }
  }

  void list_cables() {
    for (const auto& [ends, cable] : cables_) {
      spec_.cables.push_back(cable);
    }
  }

  void assume_nvswitch() {
    const std::vector<int>& gpus = kept(NodePart::gpu);
    const int links = part(gpus.front()).card.nvswitch_links;
    const bool alike = std::ranges::all_of(gpus, [&](int i) {
      return !part(i).declared && part(i).host == part(gpus.front()).host &&
             part(i).card.nvswitch_links == links;
    });
    if (alike && links > 0 && gpus.size() > 1) {
      add_nvswitch(spec_, nvlink_rate(part(gpus.front()).compute_capability) * links);
      nvswitch_ = static_cast<int>(spec_.devices.size()) - 1;
    }
  }

  // The fields that stand for a node in short.
  void describe() {
    const std::vector<int>& gpus = kept(NodePart::gpu);
    spec_.gpus = static_cast<int>(gpus.size());
    spec_.nics = static_cast<int>(kept(NodePart::nic).size());
    spec_.pcie_switches = static_cast<int>(kept(NodePart::pcie_switch).size());
    spec_.sockets = static_cast<int>(kept(NodePart::cpu).size());
    spec_.cpu = machine_.cpu;
    spec_.gpu = part(gpus.front()).card.preset;
    spec_.compute_capability = part(gpus.front()).compute_capability;
    for (const int gpu : gpus) {
      spec_.compute_capability = std::min(spec_.compute_capability, part(gpu).compute_capability);
      spec_.gpu = part(gpu).card.preset == spec_.gpu ? spec_.gpu : "";
    }
    spec_.nvlink_latency = kNvlinkLatency;
    spec_.pcie_latency = spec_.socket_latency = kHostLatency;
    spec_.pcie_bandwidth = part(gpus.front()).to_parent;
    spec_.socket_bandwidth = part(kept(NodePart::cpu).front()).to_parent;
    const auto direct = [&](int i) { return part(i).gpu_direct; };
    spec_.gpu_direct = std::ranges::any_of(gpus, direct);
    for (const int nic : kept(NodePart::nic)) {
      spec_.nic_bandwidth = std::max(spec_.nic_bandwidth, part(nic).port);
    }
    const std::vector<int>& nics = kept(NodePart::nic);
    spec_.gpu_direct = spec_.gpu_direct && (nics.empty() || std::ranges::any_of(nics, direct));
    spec_.nic_latency = spec_.nic_bandwidth <= kEdrRate ? kEdrLatency : kHdrLatency;
    describe_nvlink();
  }

  void describe_nvlink() {
    const auto nvlink = [](const NodeCable& c) { return c.kind == CableKind::nvlink; };
    if (nvswitch_ >= 0) {
      spec_.wiring = NvlinkWiring::nvswitch;
      spec_.nvlink_bandwidth = BytesPerSecond();
      for (const NodeCable& cable : spec_.cables) {
        if (nvlink(cable) && (cable.a == nvswitch_ || cable.b == nvswitch_)) {
          spec_.nvlink_bandwidth = std::max(spec_.nvlink_bandwidth, cable.bandwidth);
        }
      }
      return;
    }
    spec_.wiring = std::ranges::any_of(spec_.cables, nvlink) ? NvlinkWiring::mesh : NvlinkWiring::none;
    spec_.nvlink_bandwidth =
        spec_.wiring == NvlinkWiring::mesh ? nvlink_rate(spec_.compute_capability) : BytesPerSecond();
  }

  const XmlFile& xml_;
  Machine machine_;
  NodeSpec spec_;
  std::array<std::vector<int>, NodeLayout::kKinds> kept_;
  std::vector<int> place_;  // of a part: in spec_.devices; -1: it doesn't count
  std::map<std::pair<int, int>, NodeCable> cables_;
  std::map<std::pair<int, int>, int> peers_;  // NVLinks that a GPU lists to another
  int nvswitch_ = -1;
};

}  // namespace

NodeSpec read_nccl_topology(const std::string& text, const std::string& file) {
  const XmlFile xml(text, file, "system");
  return Importer(xml, file).import();
}

}  // namespace paceline
