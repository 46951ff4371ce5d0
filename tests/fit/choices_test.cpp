// What may run in place of the tuner's choice, how far defaults may be off, and whose machine a profile is for.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "sim/collective/default_costs.h"
#include "tests/fit/synthetic.h"

namespace paceline {
namespace {

using namespace synthetic;
using Catch::Contains;

CollectiveTest on(const std::string& cluster, int nodes, std::vector<Bytes> at) {
  World world;
  world.cluster = cluster;
  world.nccl = "2.30";
  const int gpus = load_cluster(cluster).node.gpus;
  CollectiveTest test = test_of(world, {nodes, gpus}, std::move(at));
  test.nccl_stated = true;
  return test;
}

double forced_time(CollectiveTest test, const OtherChoice& other, Bytes bytes) {
  test.sizes = {bytes};
  test.collective.algorithm = name_of(other.algorithm);
  test.collective.protocol = name_of(other.protocol);
  return times(run_collective_test(test)).front();
}

TEST_CASE("each other choice takes what it takes when it is asked for") {
  for (const char* cluster : {"dgx-a100", "dgx-h100"}) {
    for (const int nodes : {1, 2}) {
      CollectiveTest test = on(cluster, nodes, sizes(1 << 10, 1 << 28, 16));
      test.all = true;
      const CollectivePrediction all = predict_collectives(test, {});
      for (std::size_t i = 0; i < test.sizes.size(); ++i) {
        const CollectivePlan& chosen = all.result.rows[i].plan;
        std::set<std::pair<Algorithm, Protocol>> seen{{chosen.algorithm, chosen.protocol}};
        for (const OtherChoice& other : all.intervals[i].others) {
          INFO(cluster << ", " << nodes << " nodes, " << test.sizes[i].value << " bytes, "
                       << name_of(other.algorithm) << " " << name_of(other.protocol));
          CHECK(seen.emplace(other.algorithm, other.protocol).second);
          CHECK(other.time.value == Approx(forced_time(test, other, test.sizes[i])).epsilon(1e-9));
          CHECK(other.likely == (other.beside_choice <= 1.1));
        }
        CHECK(seen.count({Algorithm::ring, Protocol::simple}) == 1);
        CHECK(seen.count({Algorithm::tree, Protocol::ll}) == 1);
      }
    }
  }
}

TEST_CASE("the interval of a default holds what may well run, and what defaults were off by elsewhere") {
  CollectiveTest test = on("dgx-h100", 2, sizes(1 << 16, 1 << 26));
  const auto check = [&](const CollectivePrediction& prediction) {
    int uncertain = 0;
    for (std::size_t i = 0; i < test.sizes.size(); ++i) {
      const CollectiveInterval& interval = prediction.intervals[i];
      double least = times(prediction.result)[i], most = least;
      for (const OtherChoice& other : interval.others) {
        CHECK(other.likely);
        least = std::min(least, other.time.value);
        most = std::max(most, other.time.value);
        ++uncertain;
      }
      const double spread = std::exp(default_spread(reach_of(2, test.cluster.node), test.sizes[i]));
      CHECK(interval.low.value == Approx(least / spread));
      CHECK(interval.high.value == Approx(most * spread));
      CHECK_FALSE(interval.extrapolated);
    }
    return uncertain;
  };
  const int stated = check(predict_collectives(test, {}));
  test.nccl_stated = false;
  const CollectivePrediction any = predict_collectives(test, {});
  CHECK(stated > 0);
  CHECK(check(any) > stated);  // what other versions would take
  CHECK(std::ranges::any_of(any.intervals, [](const CollectiveInterval& interval) {
    return std::ranges::any_of(interval.others,
                               [](const OtherChoice& other) { return !other.chosen_by.empty(); });
  }));
}

TEST_CASE("between racks the interval holds what NCCL would take without NVLS, unless NVLS is off") {
  CollectiveTest test = on("gb200-nvl72", 2, sizes(1 << 20, 1 << 30));
  const auto off = [](const OtherChoice& other) { return other.chosen_by == "NCCL without NVLS"; };
  const CollectivePrediction racks = predict_collectives(test, {});
  test.all = true;
  const CollectivePrediction all = predict_collectives(test, {});
  test.all = false;
  test.collective.algorithm = "nvls_tree";
  CHECK(predict_collectives(test, {}).intervals.front().others.empty());
  test.collective.algorithm = {};
  test.collective.nvls = false;
  const CollectivePrediction without = predict_collectives(test, {});
  for (std::size_t i = 0; i < test.sizes.size(); ++i) {
    const std::vector<OtherChoice>& others = racks.intervals[i].others;
    const auto at = std::ranges::find_if(others, off);
    REQUIRE(at != others.end());
    CHECK(at->likely);
    CHECK(at->algorithm == without.result.rows[i].plan.algorithm);
    CHECK(at->time.value == Approx(times(without.result)[i]));
    CHECK(racks.intervals[i].high.value > times(without.result)[i]);
    CHECK(all.intervals[i].others.size() > others.size());
    CHECK(all.intervals[i].low.value == racks.intervals[i].low.value);
    CHECK(all.intervals[i].high.value == racks.intervals[i].high.value);
    CHECK(std::ranges::none_of(without.intervals[i].others, off));
  }
  for (const auto& [node, nodes] : {std::pair("gb200-nvl72", 1), {"dgx-b200", 2}}) {
    for (const CollectiveInterval& one :
         predict_collectives(on(node, nodes, sizes(1 << 20, 1 << 26)), {}).intervals) {
      CHECK(std::ranges::none_of(one.others, off));
    }
  }
}

TEST_CASE("defaults are less sure on several nodes and between protocols, and always known to some degree") {
  for (const Bytes bytes : sizes(8, std::int64_t{1} << 34, 4)) {
    for (const Named<Reach>& reach : kNames<Reach>) {
      CHECK(default_spread(reach.value, bytes) > 0.02);
      const bool erratic = reach.value == Reach::slingshot || reach.value == Reach::sockets;
      CHECK(default_spread(reach.value, bytes) < (erratic ? 2 : 1));
    }
  }
  const Bytes mid(1 << 20), most(1 << 30);
  CHECK(default_spread(Reach::verbs, most) > default_spread(Reach::one_node, most));
  CHECK(default_spread(Reach::one_node, mid) > default_spread(Reach::one_node, most));
  CHECK(default_spread(Reach::slingshot, mid) > default_spread(Reach::verbs, mid));
  CHECK(default_spread(Reach::plugins, most) >= default_spread(Reach::verbs, most));
  CHECK(default_spread(Reach::pcie, most) > default_spread(Reach::one_node, most));
  const auto reach = [](int nodes, NetworkKind network, NvlinkWiring wiring = NvlinkWiring::nvswitch) {
    NodeSpec node;
    node.network = network;
    node.wiring = wiring;
    return reach_of(nodes, node);
  };
  CHECK(reach(2, NetworkKind::tcp) == Reach::sockets);
  CHECK(reach(2, NetworkKind::tcpxo) == Reach::plugins);
  CHECK(reach(1, NetworkKind::efa) == Reach::one_node);
  CHECK(reach(1, NetworkKind::tcp, NvlinkWiring::mesh) == Reach::one_node);
  CHECK(reach(1, NetworkKind::infiniband, NvlinkWiring::none) == Reach::pcie);
  CHECK(reach(2, NetworkKind::infiniband, NvlinkWiring::none) == Reach::verbs);
  CHECK(reach(2, NetworkKind::efa_v3) == Reach::plugins);
  CHECK(reach(2, NetworkKind::roce) == Reach::verbs);
  CHECK(reach(2, NetworkKind::slingshot) == Reach::slingshot);
  NodeSpec listed;  // as NCCL's XML lists a node's devices and links
  listed.wiring = NvlinkWiring::none;
  listed.cables = {{0, 1, CableKind::nvlink, {}}};
  listed.devices.resize(2);
  CHECK(reach_of(1, listed) == Reach::one_node);
  listed.wiring = NvlinkWiring::nvswitch;  // which counts for nodes in short alone
  listed.cables.front().kind = CableKind::pcie;
  CHECK(reach_of(1, listed) == Reach::pcie);
}

CollectiveFit fit_of(const World& world, const std::vector<std::pair<Place, std::vector<Bytes>>>& measured) {
  Noise noise(0.01, 7);
  MeasuredData data;
  for (const auto& [place, at] : measured) {
    measure(world, place, at, noise, data);
  }
  FitRequest request;
  request.cluster_name = "dgx-a100";
  request.cluster = load_cluster("dgx-a100");
  request.collective.nccl = world.nccl;
  request.nccl_stated = true;
  return fit_collectives(request, data);
}
CollectiveFit fit_of(const World& world, const Place& place, const std::vector<Bytes>& at) {
  return fit_of(world, {{place, at}});
}

double spread(const CollectiveInterval& interval) {
  return std::log(interval.high.value / interval.low.value);
}

TEST_CASE("below half the measured sizes a profile knows ever less, above them no byte takes longer") {
  World world;
  world.costs = {{"nvlink.efficiency", 0.7}, {"simple.startup", 9e-5}, {"ll128.startup", 6e-5}};
  const Profile profile = fit_of(world, {1, 8}, sizes(1 << 22, 1 << 26)).profile;
  World unknown;
  const CollectivePrediction more =
      predict_collectives(test_of(unknown, {1, 8}, sizes(1 << 18, std::int64_t{1} << 33)), profile);
  const std::vector<double> seconds = times(more.result);
  for (std::size_t i = 8; i + 1 < seconds.size(); ++i) {  // from the largest that was measured on
    CHECK(seconds[i + 1] < 2.0001 * seconds[i]);
  }
  const CollectiveTest below = test_of(unknown, {1, 8}, sizes(1 << 18, 1 << 22));
  const std::vector<double> defaults = times(run_collective_test(below));
  CollectiveTest model = below;
  model.collective = with_costs(model.collective, profile);
  const std::vector<double> simulated = times(run_collective_test(model));
  const double off = seconds[4] / simulated[4];  // at the smallest that was measured
  for (std::size_t i = 0; i < 4; ++i) {
    const double known = std::exp2((static_cast<double>(i) - 3) / 3);  // three octaves halve it
    CHECK(seconds[i] ==
          Approx(std::pow(defaults[i], 1 - known) * std::pow(off * simulated[i], known)).epsilon(1e-6));
  }
  // The parameters' part goes over to the defaults' as the prediction does.
  const std::vector<CollectiveInterval> unfitted = predict_collectives(below, {}).intervals;
  CHECK(spread(more.intervals[0]) > 0.5 * spread(unfitted[0]));
}

TEST_CASE("what peers' messages were measured to cost is not carried to collectives, nor theirs to peers") {
  World world;
  world.costs = {{"nvlink.efficiency", 0.6}, {"block.copy_rate", 12e9}};
  const std::vector<Bytes> at = sizes(1 << 20, 1 << 28, 4);
  World unknown;
  for (const auto& [fitted, other, alike] :
       {std::tuple(CollectiveKind::send_recv, CollectiveKind::all_reduce, CollectiveKind::all_to_all),
        {CollectiveKind::all_reduce, CollectiveKind::send_recv, CollectiveKind::all_gather}}) {
    const Profile profile = fit_of(world, {1, 8, fitted}, at).profile;
    const CollectiveTest unlike = test_of(unknown, {1, 8, other}, at);
    const CollectivePrediction with = predict_collectives(unlike, profile);
    CHECK(times(with.result) == times(predict_collectives(unlike, {}).result));
    CHECK(with.intervals.front().why == "this collective was not measured");
    const CollectiveTest like = test_of(unknown, {1, 8, alike}, at);
    CHECK(times(predict_collectives(like, profile).result).back() >
          1.2 * times(run_collective_test(like)).back());
  }
}

TEST_CASE("what peers' messages cost is known from where they were measured, whatever else was") {
  World world;
  world.costs = {{"nvlink.efficiency", 0.6}, {"ll.startup", 4e-5}};
  const Place peers{1, 8, CollectiveKind::send_recv};
  const Profile profile =
      fit_of(world, {{{1, 8}, sizes(8, 1 << 26, 4)}, {peers, sizes(1 << 25, 1 << 28)}}).profile;
  const CollectiveTest small = test_of({}, peers, {Bytes(8)});
  CollectiveTest fitted = small;
  fitted.collective = with_costs(small.collective, profile);
  const double by_defaults = times(run_collective_test(small)).front(),
               by_profile = times(run_collective_test(fitted)).front();
  REQUIRE(by_profile > 1.5 * by_defaults);
  CHECK(times(predict_collectives(small, profile).result).front() < 1.1 * by_defaults);
}

TEST_CASE("a profile that was applied already counts once") {
  World world;
  world.costs = {{"nvlink.efficiency", 0.7}, {"simple.startup", 9e-5}, {"ll128.startup", 6e-5}};
  const Profile profile = fit_of(world, {1, 8}, sizes(1 << 22, 1 << 26)).profile;
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::send_recv}) {
    const CollectiveTest test = test_of({}, {1, 8, kind}, sizes(1 << 10, 1 << 26, 4));
    CollectiveTest applied = test;
    applied.collective = with_costs(test.collective, profile);
    CHECK(times(predict_collectives(applied, profile).result) ==
          times(predict_collectives(test, profile).result));
  }
}

TEST_CASE("training has all collectives as collective predicts them with the profile, measured or not") {
  World world;
  world.costs = {{"nvlink.efficiency", 0.7}, {"simple.startup", 9e-5}, {"ll128.startup", 6e-5}};
  const Profile profile = fit_of(world, {1, 8}, sizes(1 << 22, 1 << 26)).profile;
  Scenario scenario;
  scenario.cluster = load_cluster("dgx-a100");
  scenario.model.layers = {{.name = "one", .parameters = {std::int64_t{1} << 26}}};
  const CollectiveSpec spec = with_profile(scenario, profile).training.collective;
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather}) {
    const CollectiveTest test = test_of({}, {1, 8, kind}, {Bytes(1 << 14)});
    CollectiveTest trained = test;
    trained.collective = spec;
    trained.collective.nccl = test.collective.nccl;
    CHECK(times(run_collective_test(trained)).front() ==
          Approx(times(predict_collectives(test, profile).result).front()).epsilon(1e-3));
  }
}

TEST_CASE("libraries that run on hosts are predicted with any profile, or none") {
  for (const CollectiveLibrary library :
       {CollectiveLibrary::mpi, CollectiveLibrary::gloo, CollectiveLibrary::tensorflow}) {
    CollectiveTest test = on("dgx-a100", 2, {Bytes(8), Bytes(1 << 20)});
    test.collective.library = library;
    Profile costs;
    ProfileParameter& half = costs.parameters.emplace_back();
    half.name = "network.efficiency";
    half.value = 0.5;
    half.fitted = true;
    const std::vector<double> plain = times(predict_collectives(test, {}).result);
    CHECK(plain == times(run_collective_test(test)));
    CHECK(times(predict_collectives(test, costs).result).back() > plain.back());
  }
}

TEST_CASE("what a profile doesn't say of a network is known as well as without one") {
  const Profile one_node = fit_of({}, {1, 8}, sizes(1 << 20, 1 << 30)).profile;
  World unknown;
  const CollectivePrediction two =
      predict_collectives(test_of(unknown, {2, 8}, sizes(1 << 28, std::int64_t{1} << 32)), one_node);
  constexpr double kNothingNear =
      0.122;  // 12 % of a place without neighbours, 2 % of its own (docs/model.md)
  const double of_defaults = default_spread(Reach::verbs, Bytes(1 << 28));
  for (std::size_t i = 0; i < two.intervals.size(); ++i) {
    double most = times(two.result)[i];
    for (const OtherChoice& other : two.intervals[i].others) {
      most = std::max(most, other.likely ? other.time.value : 0);
    }
    const double spread = std::log(two.intervals[i].high.value / most);
    CHECK(spread > of_defaults);
    CHECK(spread <= 1.001 * std::hypot(of_defaults, kNinety * kNothingNear));
  }
}

TEST_CASE("links carry no more than they can, and what is far from all machines is named") {
  World world;
  world.costs = {{"nvlink.efficiency", 1.6}};
  const CollectiveFit fast = fit_of(world, {1, 8}, sizes(1 << 20, 1 << 30));
  const auto links = std::ranges::find(fast.profile.parameters, "nvlink.efficiency", &ProfileParameter::name);
  REQUIRE(links != fast.profile.parameters.end());
  CHECK(links->value == Approx(1.05));
  const std::vector<std::string> lines = implausible(fast.profile);
  CHECK(std::ranges::any_of(lines, [](const std::string& line) {
    return line.starts_with("nvlink.efficiency") && line.find("dgx-a100") != std::string::npos;
  }));

  World slow;
  slow.costs = {{"network.efficiency", 0.24}};
  const std::vector<std::string> quarter = implausible(fit_of(slow, {2, 8}, sizes(1 << 20, 1 << 30)).profile);
  CHECK(std::ranges::any_of(
      quarter, [](const std::string& line) { return line.starts_with("network.efficiency 0.2"); }));
  CHECK(implausible(fit_of({}, {2, 8}, sizes(1 << 20, 1 << 30)).profile).empty());
}

TEST_CASE("a profile is for its machine, and for another on request without launches and what was measured") {
  World world;
  world.costs = {{"nvlink.efficiency", 0.8}, {"launch.latency", 3e-5}};
  Profile profile = fit_of(world, {1, 8}, sizes(8, 1 << 30)).profile;
  CHECK(profile.machine == "A100-80GB, nvswitch");
  CHECK(profile.network.empty());
  CHECK(for_machine(profile, load_cluster("dgx-a100")).points.size() == profile.points.size());
  ClusterSpec two = load_cluster("dgx-a100");
  two.nodes = 2;
  two.node.network = NetworkKind::efa;
  CHECK_NOTHROW(for_machine(profile, two));  // one node says nothing of a network
  const ClusterSpec hopper = load_cluster("dgx-h100");
  CHECK_THROWS_WITH(for_machine(profile, hopper), Contains("H100, nvswitch") &&
                                                      Contains("A100-80GB, nvswitch") &&
                                                      Contains("--allow-other-machine"));
  ClusterSpec both = load_cluster("dgx-a100");  // whichever comes first
  both.nodes = 2;
  both.runs.assign({NodeRun{1, both.node}, NodeRun{1, hopper.node}});
  CHECK(for_machine(profile, both).points.empty());  // its costs, not its certainty
  std::ranges::reverse(both.runs);
  CHECK(for_machine(profile, both).points.empty());
  both.runs.front() = both.runs.back() = {1, hopper.node};
  CHECK_THROWS_WITH(for_machine(profile, both), Contains("H100, nvswitch"));
  profile.any_machine = true;
  const Profile other = for_machine(profile, hopper);
  CHECK(other.points.empty());
  const auto has = [&](const char* name) {
    return std::ranges::count(other.parameters, name, &ProfileParameter::name) == 1;
  };
  CHECK(has("nvlink.efficiency"));
  CHECK_FALSE(has("launch.latency"));

  const Profile crossing = fit_of({}, {2, 8}, sizes(1 << 10, 1 << 30)).profile;
  CHECK(crossing.network == "infiniband");
  CHECK_THROWS_WITH(for_machine(crossing, two), Contains("efa") && Contains("infiniband"));
  two.nodes = 1;
  CHECK_NOTHROW(for_machine(crossing, two));
}

TEST_CASE("the fastest is chosen only near measured sizes") {
  Profile profile = fit_of({}, {1, 8}, sizes(1 << 20, 1 << 24)).profile;
  profile.choose = AlgorithmChoice::fastest;
  const CollectiveSpec spec = with_costs({}, profile);
  CHECK(who_chooses(spec, Bytes((1 << 18) - 1)) == AlgorithmChoice::tuner);
  CHECK(who_chooses(spec, Bytes(1 << 18)) == AlgorithmChoice::fastest);
  CHECK(who_chooses(spec, Bytes(1 << 26)) == AlgorithmChoice::fastest);
  CHECK(who_chooses(spec, Bytes((1 << 26) + 1)) == AlgorithmChoice::tuner);
  profile.choose = AlgorithmChoice::tuner;
  CHECK(with_costs({}, profile).fastest_to == CollectiveSpec{}.fastest_to);
}

}  // namespace
}  // namespace paceline
