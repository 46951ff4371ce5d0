#include "scenarios/link_traffic_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "sim/collective/communicator.h"
#include "sim/report/overlap.h"

namespace paceline {
namespace {

std::int64_t whole(double bytes) { return std::llround(bytes); }

// What `bytes` of a step are of what a link could carry in a time; null where that isn't known.
Json share(double bytes, BytesPerSecond bandwidth, std::optional<Seconds> in) {
  const double most = in ? bandwidth.value * in->value : 0;
  return !in ? Json() : Json(most > 0 ? bytes / most : 0.0);
}

struct ClassTraffic {
  std::size_t links = 0;
  double bytes = 0, utilisation = 0;  // of all of them
  std::size_t busiest = 0;            // a link
  double neighbours = 0;              // of the link that has most
};

}  // namespace

LinkTraffic link_traffic(const Prediction& p) {
  return link_traffic(*p.topology, p.job,
                      traffic_of_others(*p.topology, p.scenario.background, p.scenario.other_jobs));
}

Json link_traffic_json(const Prediction& p) {
  const Topology& topology = *p.topology;
  const LinkTraffic traffic = link_traffic(p);
  const Seconds step = p.report.step.mean;
  const std::optional<Seconds> live = communicating(p.job, p.result);
  std::vector<double> utilisation;
  std::vector<ClassTraffic> classes(kNames<LinkClass>.size());
  for (std::size_t i = 0; i < topology.links(); ++i) {
    const LinkId link(i);
    utilisation.push_back(traffic.bytes[i] / (topology.link(link).bandwidth.value * step.value));
    ClassTraffic& of = classes[static_cast<std::size_t>(class_of(topology, link))];
    of.busiest = of.links == 0 || utilisation[i] > utilisation[of.busiest] ? i : of.busiest;
    ++of.links;
    of.bytes += traffic.bytes[i];
    of.utilisation += utilisation[i];
    of.neighbours = std::max(of.neighbours, traffic.neighbours[i]);
  }
  Json::Array by_class;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const ClassTraffic& of = classes[c];
    if (of.links == 0 || (of.bytes == 0 && of.neighbours == 0)) {
      continue;
    }
    const BytesPerSecond bandwidth = topology.link(LinkId(of.busiest)).bandwidth;
    const double bytes = traffic.bytes[of.busiest];
    by_class.push_back(Json::Object{{"class", name_of(static_cast<LinkClass>(c))},
                                    {"links", static_cast<std::int64_t>(of.links)},
                                    {"bytes", whole(of.bytes / static_cast<double>(of.links))},
                                    {"utilisation", of.utilisation / static_cast<double>(of.links)},
                                    {"busiest", topology.link_name(LinkId(of.busiest))},
                                    {"busiest_bandwidth_bytes_per_s", bandwidth.value},
                                    {"busiest_bytes", whole(bytes)},
                                    {"busiest_utilisation", utilisation[of.busiest]},
                                    {"busiest_while_communicating", share(bytes, bandwidth, live)},
                                    {"neighbours_bytes_per_s", of.neighbours}});
  }
  std::vector<std::size_t> order(topology.links());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto most = static_cast<std::ptrdiff_t>(std::min(order.size(), kBusiestLinks));
  std::ranges::partial_sort(order, order.begin() + most, [&](std::size_t a, std::size_t b) {
    return utilisation[a] != utilisation[b] ? utilisation[a] > utilisation[b] : a < b;
  });
  Json::Array busiest;
  for (std::ptrdiff_t i = 0; i < most && traffic.bytes[order[static_cast<std::size_t>(i)]] > 0; ++i) {
    const std::size_t at = order[static_cast<std::size_t>(i)];
    const LinkId link(at);
    const BytesPerSecond bandwidth = topology.link(link).bandwidth;
    busiest.push_back(Json::Object{{"link", topology.link_name(link)},
                                   {"class", name_of(class_of(topology, link))},
                                   {"bandwidth_bytes_per_s", bandwidth.value},
                                   {"bytes", whole(traffic.bytes[at])},
                                   {"utilisation", utilisation[at]},
                                   {"while_communicating", share(traffic.bytes[at], bandwidth, live)},
                                   {"neighbours_bytes_per_s", traffic.neighbours[at]}});
  }
  return Json::Object{{"communicating_s", live ? Json(live->value) : Json()},
                      {"classes", std::move(by_class)},
                      {"busiest", std::move(busiest)}};
}

}  // namespace paceline
