// The paths that NCCL takes through a CountedNode (src/graph/paths.cc).
#include "topology/channel_paths.h"

#include <algorithm>

#include "topology/channel_search.h"
#include "topology/channel_speeds.h"

namespace paceline {
namespace {

constexpr int kMaxChannels = 64;

// Of `count` vertices, numbered from `first`, those nearest to `from`: the widest path, then the best type.
std::vector<int> nearest(const CountedNode& node, std::uint32_t from, std::uint32_t first, int count) {
  std::vector<int> found;
  float rate = 0;
  PathType type = PathType::dis;
  for (int i = 0; i < count; ++i) {
    const CountedPath& path = node.path(from, first + static_cast<std::uint32_t>(i));
    if (path.rate > rate || (path.rate == rate && path.type < type)) {
      rate = path.rate;
      type = path.type;
      found.clear();
    }
    if (path.rate == rate && path.type == type) {
      found.push_back(i);
    }
  }
  return found;
}

// May a path from further away to `base` go on through `at`? GPUs forward over one NVLink to another GPU
// only.
bool may_pass(const CountedNode& node, std::uint32_t base, std::uint32_t at, const CountedLink& onward,
              std::size_t length) {
  return at == base || !node.is_gpu(at) ||
         (onward.type == PathType::nvl && node.is_gpu(onward.to) && length <= 1);
}

PathType type_through(const CountedNode& node, const CountedPath& path, std::uint32_t at,
                      const CountedLink& onward) {
  PathType type = onward.type;
  if (node.is_switch(at) && node.is_switch(onward.to)) {
    type = PathType::pxb;
  }
  if (type == PathType::pix && (node.is_cpu(at) || node.is_cpu(onward.to))) {
    type = PathType::phb;
  }
  if (node.is_gpu(at) && path.type == PathType::nvl && type == PathType::nvl && path.links.size() == 1) {
    type = PathType::nvb;
  }
  return std::max(path.type, type);
}

bool better(PathType type, float rate, std::size_t length, const CountedPath& than) {
  return type < than.type || (type == than.type && rate > than.rate) ||
         (type == than.type && rate == than.rate && length < than.links.size());
}

// Paths from everywhere to `base`, level by level; a path that became better is looked at again.
void find_paths_to(CountedNode& node, std::uint32_t base) {
  node.path(base, base) = {PathType::loc, false, kLocalRate, 0, {}};
  std::vector<std::uint32_t> level{base}, next;
  while (!level.empty()) {
    next.clear();
    for (const std::uint32_t at : level) {
      const CountedPath& path = node.path(at, base);
      for (const std::uint32_t k : node.links_from[at]) {
        const CountedLink& onward = node.links[k];
        if (!may_pass(node, base, at, onward, path.links.size())) {
          continue;
        }
        const PathType type = type_through(node, path, at, onward);
        const float rate = std::min(path.rate, onward.rate);
        CountedPath& further = node.path(onward.to, base);
        if (!better(type, rate, path.links.size() + 1, further)) {
          continue;
        }
        further.type = type;
        further.rate = rate;
        further.links.assign(1, onward.back);
        further.links.insert(further.links.end(), path.links.begin(), path.links.end());
        if (std::ranges::find(next, onward.to) == next.end()) {
          next.push_back(onward.to);
        }
      }
    }
    level.swap(next);
  }
}

void finish_paths_to(CountedNode& node, std::uint32_t base) {
  for (std::uint32_t from = 0; from < node.vertices; ++from) {
    CountedPath& path = node.path(from, base);
    path.hops =
        from == base ? 0 : static_cast<int>(path.links.size()) + node.is_gpu(from) + node.is_gpu(base);
    path.through_cpu = std::ranges::any_of(path.links, [&](auto k) { return node.is_cpu(node.links[k].to); });
  }
}

// The path from -> to goes by way of `via` instead.
void divert(CountedNode& node, std::uint32_t from, std::uint32_t via, std::uint32_t to) {
  const CountedPath first = node.path(from, via), second = node.path(via, to);
  CountedPath path;
  const auto [low, high] = std::minmax(first.type, second.type);
  path.type = low == PathType::c2c && high == PathType::phb ? PathType::p2c : high;
  path.type = node.is_gpu(via) ? PathType::pxn : path.type;
  path.through_cpu = first.through_cpu || second.through_cpu;
  path.rate = std::min(first.rate, second.rate);
  path.hops = first.hops + second.hops;
  path.links = first.links;
  path.links.insert(path.links.end(), second.links.begin(), second.links.end());
  node.path(from, to) = std::move(path);
}

std::uint32_t nearest_cpu(const CountedNode& node, int gpu) {
  const std::vector<int> cpus = nearest(node, node.gpu(gpu), node.cpu_at(0), node.cpus);
  const auto hops = [&](int i) { return node.path(node.gpu(gpu), node.cpu_at(i)).links.size(); };
  return node.cpu_at(*std::ranges::min_element(cpus, {}, hops));
}

// GPUs that are no peers talk through the memory of the receiver's CPU.
void divert_far_gpus(CountedNode& node) {
  for (int to = 0; to < node.gpus; ++to) {
    for (int from = 0; from < node.gpus; ++from) {
      if (node.path(node.gpu(from), node.gpu(to)).type > node.farthest_peers) {
        divert(node, node.gpu(from), nearest_cpu(node, to), node.gpu(to));
      }
    }
  }
}

// A GPU on its CPU's coherent link reaches its own NICs through that CPU.
void mark_c2c(CountedNode& node) {
  for (int g = 0; g < node.gpus; ++g) {
    const std::uint32_t gpu = node.gpu(g), cpu = nearest_cpu(node, g);
    for (const int n : nearest(node, gpu, node.port(0), node.nics)) {
      const std::uint32_t port = node.port(n);
      const auto [low, high] = std::minmax(node.path(gpu, cpu).type, node.path(port, cpu).type);
      if (low == PathType::c2c && high == PathType::phb) {
        node.path(gpu, port).type = std::min(PathType::p2c, node.path(gpu, port).type);
        node.path(port, gpu).type = std::min(PathType::p2c, node.path(port, gpu).type);
      }
    }
  }
}

int mirrored_bits(int value, int power_of_2) {
  int mirrored = 0;
  for (int low = 1, high = power_of_2 / 2; low < power_of_2; low *= 2, high /= 2) {
    mirrored |= (value & low) != 0 ? high : 0;
  }
  return mirrored;
}

// The NICs that NCCL gives a GPU, channel after channel: GPUs that are equally near some share them out.
std::vector<int> own_nics(const CountedNode& node, int gpu) {
  const std::vector<int> nics = nearest(node, node.gpu(gpu), node.port(0), node.nics);
  const auto sharers = static_cast<int>(node.near_gpus[static_cast<std::size_t>(nics[0])].size());
  const auto count = static_cast<int>(nics.size());
  const int per_gpu = std::min((count + sharers - 1) / sharers, kMaxChannels);
  int first = static_cast<int>(node.gpu_numbers[static_cast<std::size_t>(gpu)]) % sharers;
  if ((count & (count - 1)) == 0) {
    first = mirrored_bits(first, count);
  }
  std::vector<int> own;
  for (int i = 0; i < per_gpu; ++i) {
    own.push_back(nics[static_cast<std::size_t>((first + i) % count)]);
  }
  return own;
}

void find_near_devices(CountedNode& node) {
  node.near_gpus.clear();
  node.own_nics.clear();
  for (int n = 0; n < node.nics; ++n) {
    node.near_gpus.push_back(nearest(node, node.port(n), 0, node.gpus));
  }
  for (int g = 0; g < node.gpus && node.nics > 0; ++g) {
    node.own_nics.push_back(own_nics(node, g));
  }
}

// The GPU that has the NIC as its own in the lowest channel; -1: none has.
int first_owner(const CountedNode& node, int nic) {
  int owner = -1;
  std::size_t channel = kMaxChannels;
  for (const int gpu : node.near_gpus[static_cast<std::size_t>(nic)]) {
    const std::vector<int>& own = node.own_nics[static_cast<std::size_t>(gpu)];
    const auto at = static_cast<std::size_t>(std::ranges::find(own, nic) - own.begin());
    if (at < own.size() && at < channel) {
      owner = gpu;
      channel = at;
    }
  }
  return owner;
}

// Does a GPU that lends its path to a NIC (PXN) read and write its memory?
bool lends(const CountedNode& node, int gpu, int nic, bool gdr) {
  bool nvlinked = node.gpus == 1;
  for (int other = 0; other < node.gpus; ++other) {
    nvlinked |= other != gpu && node.path(node.gpu(gpu), node.gpu(other)).type == PathType::nvl;
  }
  return gdr && (node.compute_capability >= 80 || nvlinked) &&
         node.path(node.gpu(gpu), node.port(nic)).type <= PathType::p2c;
}

// The way to a NIC: through the GPU next to it, and through the CPU without GPUDirect.
void divert_to_nics(CountedNode& node, const SearchSpec& search) {
  for (int n = 0; n < node.nics; ++n) {
    const std::uint32_t port = node.port(n);
    for (int g = 0; g < node.gpus; ++g) {
      const std::uint32_t gpu = node.gpu(g);
      const int lender = search.pxn ? first_owner(node, n) : -1;
      if (lender >= 0 && lender != g && lends(node, lender, n, search.gdr)) {
        const std::uint32_t peer = node.gpu(lender);
        const CountedPath& own = node.path(gpu, port);
        const bool better_way = node.path(peer, port).rate > own.rate || own.type > PathType::pxn;
        if (node.path(peer, gpu).type <= PathType::nvl && better_way) {
          divert(node, gpu, peer, port);
          node.own_nics[static_cast<std::size_t>(g)] = own_nics(node, g);
        }
      }
      if (node.path(gpu, port).type < PathType::phb && !search.gdr) {
        const std::uint32_t cpu = nearest_cpu(node, g);
        divert(node, port, cpu, gpu);
        divert(node, gpu, cpu, port);
        find_near_devices(node);
      }
    }
  }
}

void measure_gpus(CountedNode& node, bool several_nodes) {
  if (!several_nodes && node.gpus == 1) {
    node.max_rate = node.total_rate = kLocalRate;
    return;
  }
  for (int g = 0; g < node.gpus; ++g) {
    const int targets = several_nodes ? node.nics : node.gpus;
    for (int i = 0; i < targets; ++i) {
      const std::uint32_t to = several_nodes ? node.port(i) : node.gpu(i);
      if (to != node.gpu(g)) {
        node.max_rate = std::max(node.max_rate, node.path(node.gpu(g), to).rate);
      }
    }
    float nvlinks = 0, pcie = 0;
    for (const std::uint32_t k : node.links_from[node.gpu(g)]) {
      nvlinks += node.links[k].type == PathType::nvl ? node.links[k].rate : 0;
      pcie = node.links[k].type == PathType::pix ? node.links[k].rate : pcie;
    }
    node.total_rate = std::max({node.total_rate, nvlinks, pcie});
  }
}

}  // namespace

CountedNode count_node(const NodeLayout& layout, const NodeSpec& spec, int nodes, const SearchSpec& search) {
  CountedNode node = count_links(layout, spec, search.version());
  const std::uint32_t targets = node.cpu_at(node.cpus);
  node.paths.resize(std::size_t{targets} * node.vertices);
  for (std::uint32_t base = 0; base < targets; ++base) {
    find_paths_to(node, base);
    finish_paths_to(node, base);
  }
  measure_gpus(node, nodes > 1);
  divert_far_gpus(node);
  if (search.version() >= 227) {  // before, such paths count as through the host
    mark_c2c(node);
  }
  find_near_devices(node);
  divert_to_nics(node, search);
  for (int n = 0; n < node.nics; ++n) {
    node.nearest_gpu.push_back(first_owner(node, n));
  }
  return node;
}

}  // namespace paceline
