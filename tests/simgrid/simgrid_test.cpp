// Do FlowNetwork's rates equal SimGrid's on random graphs?
//
// SimGrid (Casanova, Giersch, Legrand, Quinson, Suter 2014) shares links max-min fairly in its model CM02.
// With no latency, no cross traffic and factors of 1 that is the definition of flow_network.h, written by
// others. Its engine is one per process, so this is a program of its own: many disjoint instances live in one
// SimGrid platform, one zone each. Three phases of one second: some flows start; more start; some stop. The
// bytes that a flow sends in a phase are its rate. Prints the worst relative difference; exit status 1 when
// it is over 1e-9.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "core/fingerprint.h"
#include "sim/network/flow_network.h"

namespace paceline {
namespace {

namespace s4u = simgrid::s4u;

constexpr std::size_t kInstances = 240;
constexpr double kTolerance = 1e-9;
constexpr std::uint64_t kEnough = 1'000'000'000'000;  // bytes: no flow ends within the three phases
constexpr int kPhases = 3;

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}
  std::size_t below(std::size_t bound) {
    state_ += 0x9e3779b97f4a7c15ULL;
    return mix64(state_) % bound;
  }
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(below(1'000'000'007)) / 1e9;
  }

 private:
  std::uint64_t state_;
};

struct TestFlow {
  std::vector<std::size_t> links;
  double cap = 0;                         // 0: none
  int first_phase = 0, phases = 0;        // lives in [first_phase, first_phase + phases)
  std::vector<double> simgrid, paceline;  // rates, by phase from the first
  s4u::Host *from = nullptr, *to = nullptr;
  s4u::CommPtr comm;
};

struct Instance {
  std::vector<double> capacity;
  std::vector<TestFlow> flows;
};

Instance draw_instance(Draws& draws) {
  Instance instance;
  instance.capacity.resize(1 + draws.below(15));
  for (double& c : instance.capacity) {
    c = draws.below(3) == 0 ? 1e9 : draws.between(1e8, 1e10);
  }
  instance.flows.resize(1 + draws.below(30));
  for (TestFlow& flow : instance.flows) {
    const std::size_t hops = 1 + draws.below(std::min<std::size_t>(5, instance.capacity.size()));
    while (flow.links.size() < hops) {
      const std::size_t link = draws.below(instance.capacity.size());
      if (std::find(flow.links.begin(), flow.links.end(), link) == flow.links.end()) {
        flow.links.push_back(link);
      }
    }
    const double first = instance.capacity[flow.links.front()];
    const std::size_t kind = draws.below(4);
    flow.cap = kind == 0   ? 0
               : kind == 1 ? first / static_cast<double>(1 + draws.below(6))
                           : first * draws.between(0.02, 1.2);
    flow.first_phase = static_cast<int>(draws.below(2));
    flow.phases = draws.below(4) == 0 ? 2 - flow.first_phase : kPhases - flow.first_phase;
  }
  return instance;
}

void build(Instance& instance, const std::string& name, const s4u::NetZone* root) {
  s4u::NetZone* zone = s4u::create_full_zone(name);
  zone->set_parent(root);
  std::vector<s4u::LinkInRoute> links;
  for (std::size_t i = 0; i < instance.capacity.size(); ++i) {
    s4u::Link* link = zone->create_link(name + ".link" + std::to_string(i), instance.capacity[i]);
    links.emplace_back(link->set_latency(0.0)->seal());
  }
  for (std::size_t i = 0; i < instance.flows.size(); ++i) {
    TestFlow& flow = instance.flows[i];
    flow.from = zone->create_host(name + ".from" + std::to_string(i), 1e9)->seal();
    flow.to = zone->create_host(name + ".to" + std::to_string(i), 1e9)->seal();
    std::vector<s4u::LinkInRoute> route;
    for (const std::size_t link : flow.links) {
      route.push_back(links[link]);
    }
    zone->add_route(flow.from->get_netpoint(), flow.to->get_netpoint(), nullptr, nullptr, route, false);
  }
  zone->seal();
}

// A flow is a message between two actors who wait for its time, and after it cancel what is left.
void add_actors(TestFlow& flow) {
  s4u::Mailbox* mailbox = s4u::Mailbox::by_name(flow.from->get_name());
  s4u::Actor::create("sender", flow.from, [&flow, mailbox] {
    s4u::this_actor::sleep_for(flow.first_phase);
    flow.comm = mailbox->put_init(&flow, kEnough);
    if (flow.cap > 0) {
      flow.comm->set_rate(flow.cap);
    }
    flow.comm->start();
    s4u::this_actor::sleep_for(flow.phases);
    flow.comm->cancel();
    flow.comm = nullptr;
  });
  s4u::Actor::create("receiver", flow.to, [&flow, mailbox] {
    TestFlow* received = nullptr;
    s4u::this_actor::sleep_for(flow.first_phase);
    const s4u::CommPtr comm = mailbox->get_async<TestFlow>(&received);
    s4u::this_actor::sleep_for(flow.phases + 0.01);
  });
}

// Half of every phase is watched, away from its ends.
void observe(std::vector<Instance>& instances) {
  for (int phase = 0; phase < kPhases; ++phase) {
    s4u::this_actor::sleep_until(phase + 0.25);
    std::vector<TestFlow*> live;
    std::vector<double> before;
    for (Instance& instance : instances) {
      for (TestFlow& flow : instance.flows) {
        if (flow.comm) {
          live.push_back(&flow);
          before.push_back(flow.comm->get_remaining());
        }
      }
    }
    s4u::this_actor::sleep_until(phase + 0.75);
    for (std::size_t i = 0; i < live.size(); ++i) {
      live[i]->simgrid.push_back((before[i] - live[i]->comm->get_remaining()) / 0.5);
    }
  }
}

void run_in_simgrid(s4u::Engine& engine, std::vector<Instance>& instances) {
  s4u::NetZone* root = s4u::create_full_zone("root");
  for (std::size_t i = 0; i < instances.size(); ++i) {
    build(instances[i], "instance" + std::to_string(i), root);
  }
  s4u::Host* observer = root->create_host("observer", 1e9)->seal();
  root->seal();
  for (Instance& instance : instances) {
    for (TestFlow& flow : instance.flows) {
      add_actors(flow);
    }
  }
  s4u::Actor::create("observer", observer, [&instances] { observe(instances); });
  engine.run();
}

void run_in_paceline(Instance& instance) {
  std::vector<BytesPerSecond> capacity;
  for (const double c : instance.capacity) {
    capacity.emplace_back(c);
  }
  FlowNetwork network(capacity, instance.flows.size());
  std::vector<FlowId> ids(instance.flows.size());
  for (int phase = 0; phase < kPhases; ++phase) {
    const SimTime now = to_sim_time(Seconds(phase));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const TestFlow& flow = instance.flows[i];
      if (flow.first_phase == phase) {
        const std::vector<LinkId> links(flow.links.begin(), flow.links.end());
        const double cap = flow.cap > 0 ? flow.cap : 1e30;
        ids[i] = network.start(links, BytesPerSecond(cap), Bytes(static_cast<std::int64_t>(kEnough)), i, now);
      } else if (flow.first_phase + flow.phases == phase) {
        network.stop(ids[i], now);
      }
    }
    network.share(now);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      TestFlow& flow = instance.flows[i];
      if (flow.first_phase <= phase && phase < flow.first_phase + flow.phases) {
        flow.paceline.push_back(network.rate(ids[i]).value);
      }
    }
  }
}

// The worst relative difference, or infinity where one of the two has no rate.
double compare(const Instance& instance, std::size_t& rates, std::size_t& below_cap) {
  double worst = 0;
  for (const TestFlow& flow : instance.flows) {
    if (flow.simgrid.size() != flow.paceline.size() ||
        flow.simgrid.size() != static_cast<std::size_t>(flow.phases)) {
      return HUGE_VAL;
    }
    for (std::size_t i = 0; i < flow.simgrid.size(); ++i) {
      const double difference = std::abs(flow.paceline[i] - flow.simgrid[i]) / flow.simgrid[i];
      worst = difference <= worst ? worst : std::isnan(difference) ? HUGE_VAL : difference;
      ++rates;
      below_cap += flow.cap == 0 || flow.paceline[i] < flow.cap;
    }
  }
  return worst;
}

int run(int argc, char** argv) {
  s4u::Engine engine(&argc, argv);
  for (const char* setting :
       {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0", "network/bandwidth-factor:1",
        "network/latency-factor:1", "network/weight-S:0", "network/loopback-bw:1e30",
        "maxmin/precision:1e-12", "surf/precision:1e-12", "contexts/stack-size:64"}) {
    s4u::Engine::set_config(setting);
  }
  Draws draws(2026);
  std::vector<Instance> instances(kInstances);
  for (Instance& instance : instances) {
    instance = draw_instance(draws);
  }
  run_in_simgrid(engine, instances);
  double worst = 0;
  std::size_t rates = 0, below_cap = 0, failed = 0;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    run_in_paceline(instances[i]);
    const double difference = compare(instances[i], rates, below_cap);
    if (difference > kTolerance) {
      std::printf("instance %zu: relative difference %.3g\n", i, difference);
      ++failed;
    }
    worst = std::max(worst, difference);
  }
  std::printf("%zu instances, worst relative difference %.3g (%zu rates, %zu of them below their cap)\n",
              instances.size(), worst, rates, below_cap);
  return failed == 0 && below_cap > 0 && below_cap < rates ? 0 : 1;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::run(argc, argv); }
