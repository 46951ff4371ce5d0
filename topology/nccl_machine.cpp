#include "topology/nccl_machine.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "topology/rates.h"

namespace paceline {
namespace {

constexpr std::int64_t kMostNumber = 1 << 20;  // of a device, rank, PCI vendor, ...
constexpr int kMostParts = 20'000;

// GB/s of a PCIe link, as NCCL counts: lanes * rate / 80, the rate in 100 Mb/s with the encoding's loss; 16
// lanes and 60 where the file can't tell. From the fifth generation on what it carries.
BytesPerSecond pcie_rate(const XmlFile& xml, pugi::xml_node pci) {
  constexpr std::int64_t kMostLanes = 32, kUsualLanes = 16;
  std::int64_t lanes = xml.whole(pci, "link_width", INT32_MIN, INT32_MAX).value_or(0);
  lanes = lanes < 1 || lanes > kMostLanes ? kUsualLanes : lanes;
  const std::string text = xml.text(pci, "link_speed").value_or("");
  double transfers = 0;  // GT/s
  const char* end = text.data() + text.size();
  const auto number = std::from_chars(text.data(), end, transfers);
  const bool known = number.ec == std::errc() && std::string(number.ptr, end).starts_with(" GT/s");
  int rate = 60;
  for (const auto& [speed, value] :
       {std::pair(2.5, 15), {5.0, 30}, {8.0, 60}, {16.0, 120}, {32.0, 240}, {64.0, 480}}) {
    rate = known && transfers == speed ? value : rate;
  }
  constexpr double kBytesPerUnit = 1e9 / 80;
  constexpr int kFifth = 240;
  return BytesPerSecond(static_cast<double>(lanes * rate) * kBytesPerUnit *
                        (rate >= kFifth ? kPcieCarries : 1));
}

BytesPerSecond intel_rate(std::int64_t family, std::int64_t model) {
  if (family != 6) {
    return kBroadwell;
  }
  return model >= 0xcf   ? kEmeraldRapids
         : model >= 0x8f ? kSapphireRapids
         : model >= 0x55 ? kSkylake
                         : kBroadwell;
}

struct Processor {
  CpuVendor vendor = CpuVendor::intel;
  BytesPerSecond rate = kUnlimited;
};

Processor processor_of(const XmlFile& xml, pugi::xml_node cpu) {
  const std::string arch = xml.text(cpu, "arch").value_or("x86_64");
  if (arch == "arm64") {
    return {CpuVendor::arm, kArm};
  }
  if (arch == "ppc64") {
    return {CpuVendor::power, kPower9};
  }
  const std::string vendor = xml.text(cpu, "vendor").value_or("");
  const std::int64_t family = xml.whole(cpu, "familyid", -1, kMostNumber).value_or(6);
  const std::int64_t model = xml.whole(cpu, "modelid", -1, kMostNumber).value_or(0x55);
  if (vendor == "AuthenticAMD") {
    return {CpuVendor::amd, kAmd};
  }
  if (vendor == "CentaurHauls" || vendor == "Shanghai") {
    return {CpuVendor::zhaoxin, family == 7 && model == 0x5b ? kYongfeng : kZhaoxin};
  }
  return vendor == "GenuineIntel" ? Processor{CpuVendor::intel, intel_rate(family, model)} : Processor{};
}

class Reader {
 public:
  explicit Reader(const XmlFile& xml) : xml_(xml) {}

  Machine read() {
    for (const pugi::xml_node cpu : xml_.root().children("cpu")) {
      read_cpu(cpu);
    }
    return std::move(machine_);
  }

 private:
  int add(MachinePart part) {
    if (machine_.parts.size() >= kMostParts) {
      xml_.fail(part.at, "expected at most " + std::to_string(kMostParts) + " devices, found more");
    }
    machine_.parts.push_back(std::move(part));
    return static_cast<int>(machine_.parts.size()) - 1;
  }

  MachinePart& part(int i) { return machine_.parts[static_cast<std::size_t>(i)]; }

  MachinePart below(int parent, pugi::xml_node at, NodePart kind, BytesPerSecond rate) {
    MachinePart made;
    made.kind = kind;
    made.at = at;
    made.parent = parent;
    made.host = part(parent).host;
    made.cpu = part(parent).kind == NodePart::cpu ? parent : part(parent).cpu;
    made.to_parent = rate;
    return made;
  }

  void read_cpu(pugi::xml_node cpu) {
    const std::string hash = xml_.text(cpu, "host_hash").value_or("0");
    const int host = hosts_.try_emplace(hash, static_cast<int>(hosts_.size())).first->second;
    const std::string numa = xml_.text(cpu, "numaid").value_or("");
    const auto [known, fresh] = cpus_.try_emplace({host, numa}, -1);
    if (fresh) {
      const Processor processor = processor_of(xml_, cpu);
      MachinePart made;
      made.kind = NodePart::cpu;
      made.at = cpu;
      made.host = host;
      made.name = "numa" + XmlFile::printable(numa);
      made.to_parent = processor.rate;
      machine_.cpu = cpus_.size() == 1 ? processor.vendor : machine_.cpu;
      known->second = add(std::move(made));
    }
    const int here = known->second;
    for (const pugi::xml_node child : cpu.children()) {
      if (std::strcmp(child.name(), "pci") == 0) {
        read_pci(child, here);
      } else if (std::strcmp(child.name(), "nic") == 0) {
        read_ports(child, child, here, kUnlimited);
      }
    }
  }

  void take_bus(pugi::xml_node at, std::int64_t bus, int index) {
    if (!machine_.at_bus.try_emplace({part(index).host, bus}, index).second) {
      xml_.fail(at, "expected each busid once, found " +
                        XmlFile::quoted(xml_.text(at, "busid").value_or("")) + " again");
    }
    part(index).bus = bus;
  }

  void read_pci(pugi::xml_node pci, int parent) {
    const std::string kind = xml_.text(pci, "class").value_or("");
    const BytesPerSecond rate = pcie_rate(xml_, pci);
    const bool nvidia = xml_.whole(pci, "vendor", 0, kMostNumber).value_or(kNvidia) == kNvidia;
    if (pci.child("gpu")) {
      add_gpu(pci, parent, rate);
    } else if (pci.child("nic")) {
      read_ports(pci.child("nic"), pci, parent, rate);
    } else if (kind.starts_with("0x03")) {
      if (nvidia) {
        add_gpu(pci, parent, rate);
      }
    } else if (kind.starts_with("0x02")) {
      add_nic_by_class(pci, parent, rate);
    } else if (!kind.starts_with("0x0680")) {  // an NVSwitch, or a CPU's bridge to NVLink
      read_switch(pci, parent, rate);
    }
  }

  void add_gpu(pugi::xml_node pci, int parent, BytesPerSecond rate) {
    const pugi::xml_node gpu = pci.child("gpu");  // the first: several ranks on one GPU are one GPU
    MachinePart made = below(parent, pci, NodePart::gpu, rate);
    made.name = XmlFile::printable(xml_.text(pci, "busid").value_or(""));
    made.declared = !gpu.empty();
    made.number = xml_.whole(gpu, "dev", 0, kMostNumber).value_or(-1);
    made.rank = xml_.whole(gpu, "rank", -1, INT32_MAX).value_or(-1);
    made.gpu_direct = xml_.whole(gpu, "gdr", 0, 1).value_or(1) == 1;
    made.card = pci_gpu(xml_.whole(pci, "device", 0, kMostNumber).value_or(0));
    constexpr std::int64_t kMostCapability = 999;
    made.compute_capability =
        static_cast<int>(xml_.whole(gpu, "sm", 0, kMostCapability).value_or(made.card.compute_capability));
    const std::int64_t bus = bus_number(xml_, pci, "busid");
    take_bus(pci, bus, add(std::move(made)));
  }

  // The <net> of a NIC; several ports share the PCIe link once it is known which of them count.
  void read_ports(pugi::xml_node nic, pugi::xml_node adapter, int parent, BytesPerSecond rate) {
    constexpr double kMostMegabits = 1e8, kUsualSpeed = 10000, kBytesPerMegabit = 1e6 / 8;
    bool first = true;
    for (const pugi::xml_node net : nic.children("net")) {
      if (xml_.whole(net, "net", 0, kMostNumber).value_or(1) == 0) {
        continue;  // not for send and receive
      }
      const double speed = xml_.number(net, "speed", -kMostMegabits, kMostMegabits).value_or(0);
      MachinePart made = below(parent, net, NodePart::nic, rate);
      made.declared = true;
      made.number = xml_.whole(net, "dev", 0, kMostNumber).value_or(-1);
      made.gpu_direct = xml_.whole(net, "gdr", 0, 1).value_or(1) == 1;
      made.name = XmlFile::printable(xml_.text(net, "name").value_or("net" + std::to_string(made.number)));
      made.port = BytesPerSecond((speed > 0 ? speed : kUsualSpeed) * kBytesPerMegabit);
      made.adapter = adapter;
      const int index = add(std::move(made));
      if (first && nic != adapter) {
        take_bus(adapter, bus_number(xml_, adapter, "busid"), index);
      }
      first = false;
    }
  }

  void add_nic_by_class(pugi::xml_node pci, int parent, BytesPerSecond rate) {
    MachinePart made = below(parent, pci, NodePart::nic, rate);
    made.name = XmlFile::printable(xml_.text(pci, "busid").value_or(""));
    made.adapter = pci;
    const BytesPerSecond known = pci_nic_rate(xml_.whole(pci, "vendor", 0, kMostNumber).value_or(0),
                                              xml_.whole(pci, "device", 0, kMostNumber).value_or(0));
    made.port = known.value > 0 ? known : rate;
    const std::int64_t bus = bus_number(xml_, pci, "busid");
    take_bus(pci, bus, add(std::move(made)));
  }

  // Broadcom's switches of generation 4 and 5 show themselves as two levels; 0: another switch.
  int broadcom_generation(pugi::xml_node pci, bool lower) const {
    const auto id = [&](const char* name) { return xml_.whole(pci, name, 0, kMostNumber).value_or(0); };
    if (id("vendor") != kBroadcom || id("subsystem_vendor") != kBroadcom) {
      return 0;
    }
    const std::int64_t device = id("device"), kind = id("subsystem_device") >> 12;
    if (device == 0xc010 && kind == 0xa) {
      return 4;
    }
    return device == 0xc030 && kind == (lower ? 1 : 0) ? 5 : 0;
  }

  void read_switch(pugi::xml_node pci, int parent, BytesPerSecond rate) {
    const std::int64_t bus = bus_number(xml_, pci, "busid");
    const bool right_below = part(parent).kind == NodePart::pcie_switch &&
                             pci.parent() == part(parent).at;  // not below one that was merged
    const int generation = right_below ? broadcom_generation(part(parent).at, false) : 0;
    int here = parent;
    if (generation == 0 || generation != broadcom_generation(pci, true)) {
      MachinePart made = below(parent, pci, NodePart::pcie_switch, rate);
      made.name = XmlFile::printable(xml_.text(pci, "busid").value_or(""));
      here = add(std::move(made));
    }
    take_bus(pci, bus, here);
    for (const pugi::xml_node child : pci.children("pci")) {
      read_pci(child, here);
    }
  }

  const XmlFile& xml_;
  Machine machine_;
  std::map<std::string, int> hosts_;
  std::map<std::pair<int, std::string>, int> cpus_;
};

}  // namespace

std::int64_t bus_number(const XmlFile& xml, pugi::xml_node node, const char* attribute) {
  constexpr std::size_t kMostDigits = 15;
  const std::string text = xml.text(node, attribute).value_or("");
  std::string digits;
  std::ranges::copy_if(text, std::back_inserter(digits), [](char c) { return c != ':' && c != '.'; });
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  std::int64_t bus = 0;
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, bus, 16);
  const bool zero = digits.empty() && !text.empty();
  if (!zero && (result.ec != std::errc() || result.ptr != end || bus < 0 || digits.size() > kMostDigits)) {
    xml.fail(node, std::string("expected a PCI bus id such as \"0000:0f:00.0\" as ") + attribute + " of <" +
                       XmlFile::printable(node.name()) + ">, found " + XmlFile::quoted(text));
  }
  return bus;
}

Machine read_machine(const XmlFile& xml) { return Reader(xml).read(); }

}  // namespace paceline
