#include "topology/channel_rates.h"

#include <algorithm>
#include <cmath>

namespace paceline {
namespace {

void subtract(float& rate, float by) { rate = std::round((rate - by) * 1000) / 1000; }

}  // namespace

LinkRates::LinkRates(const CountedNode& node) : node_(node) {
  for (const CountedLink& link : node_.links) {
    rates_.push_back(link.rate);
  }
  for (int n = 0; n < node_.nics; ++n) {
    port_rates_.push_back(node_.links[node_.links_from[node_.port(n)].front()].rate);
  }
}

bool LinkRates::take(const CountedPath& path, std::uint32_t from, float rate) {
  const std::size_t taken = take_first(path, from, rate, path.links.size());
  if (taken < path.links.size()) {
    take_first(path, from, -rate, taken);
    return false;
  }
  return true;
}

// Takes `rate` from the path's first links; how many of them had it.
std::size_t LinkRates::take_first(const CountedPath& path, std::uint32_t from, float rate,
                                  std::size_t count) {
  // Intel CPUs split what one GPU sends to another into small packets.
  const bool costly =
      path.through_cpu && path.type == PathType::phb && node_.is_gpu(from) && node_.cpu == CpuVendor::intel;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t k = path.links[i];
    const CountedLink& link = node_.links[k];
    const float forth = costly && link.type == PathType::pix ? rate * 6 / 5 : rate;
    float back = 0;  // requests that reads of the GPU send the other way
    if (node_.is_gpu(link.to) && node_.compute_capability < 80 && !node_.is_gpu(from)) {
      back += forth / 8;
    }
    if (node_.is_cpu(link.to) && node_.cpu == CpuVendor::power && link.type == PathType::nvl) {
      back += forth;
    }
    if (rates_[k] < forth || (back != 0 && rates_[link.back] < back)) {
      return i;
    }
    subtract(rates_[k], forth);
    if (back != 0) {
      subtract(rates_[link.back], back);
    }
  }
  return count;
}

int LinkRates::pcie_rate(int gpu) const {
  for (const std::uint32_t k : node_.links_from[node_.gpu(gpu)]) {
    if (node_.links[k].type == PathType::pix) {
      return whole_gigabytes(std::min(rates_[k], rates_[node_.links[k].back]));
    }
  }
  return -1;
}

}  // namespace paceline
