// DDP's buckets against those that PyTorch makes.
#include <catch2/catch.hpp>
#include <numeric>
#include <sstream>
#include <string>

#include "../engines/test_planner.h"
#include "core/error.h"
#include "scenarios/scenario.h"
#include "sim/strategy/ddp.h"
#include "sim/strategy/pytorch.h"
#include "tests/ddp_job.h"
#include "tests/sizes.h"

namespace paceline {
namespace {

std::vector<std::int64_t> bucket_bytes(const Model& model, std::int64_t cap_mib) {
  std::vector<Bytes> sizes;
  for (std::size_t l = model.layers.size(); l-- > 0;) {
    const std::vector<std::int64_t>& tensors = model.layers[l].parameters;
    for (std::size_t t = tensors.size(); t-- > 0;) {
      sizes.emplace_back(4 * tensors[t]);
    }
  }
  std::vector<std::int64_t> bytes;
  for (const std::vector<std::size_t>& bucket : assign_buckets(sizes, Bytes(kMiB), Bytes(cap_mib * kMiB))) {
    bytes.push_back(std::accumulate(bucket.begin(), bucket.end(), std::int64_t{0},
                                    [&](std::int64_t sum, std::size_t i) { return sum + sizes[i].value; }));
  }
  return bytes;
}

std::vector<std::int64_t> steady_buckets(const TrainingJob& job) {
  std::vector<std::int64_t> bytes;
  for (const std::uint32_t collective : bucket_collectives(job.main().steady)) {
    bytes.push_back(job.plans[job.main().steady.collectives[collective]].bytes.value);
  }
  return bytes;
}

TrainingJob on_two_ranks(const Model& model, const TrainingSpec& training) {
  CollectivePlanner planner =
      ring_planner(std::vector<HopCost>(2, {BytesPerSecond(1e10), SimTime{1000}, {}}));
  return ddp_job(model, gpu_preset("A100-80GB"), training, {}, planner);
}

TEST_CASE("ResNet-50 falls into the five buckets of a real PyTorch trace") {
  // "In msg nelems" of the all-reduces in a Kineto trace of torchvision's ResNet-50 on 2 x A100.
  const std::vector<std::int64_t> elements{2049000, 7875584, 6563840, 6637568, 2431040};
  std::vector<std::int64_t> bytes;
  for (const std::int64_t e : elements) {
    bytes.push_back(4 * e);
  }
  CHECK(bucket_bytes(builtin_model("resnet50"), 25) == bytes);
  TrainingSpec training;
  const TrainingJob job = on_two_ranks(builtin_model("resnet50"), training);
  CHECK(steady_buckets(job) == bytes);
}

TEST_CASE("a cap that is given is the first bucket's too, from PyTorch 2.4 on") {
  const auto buckets = [](const char* pytorch, std::optional<Bytes> cap, std::optional<Bytes> first) {
    TrainingSpec training;
    training.pytorch = pytorch;
    training.ddp.bucket_cap = cap;
    training.ddp.first_bucket = first;
    return steady_buckets(on_two_ranks(builtin_model("resnet50"), training));
  };
  using Sizes = std::vector<std::int64_t>;
  const Bytes large(100 * kMiB), usual(25 * kMiB), small(kMiB);
  const std::string newest = TrainingSpec{}.pytorch;
  CHECK(pytorch_version(newest) == kNewestPyTorch);
  const Sizes one{102'228'128}, first_alone{8'196'000, 94'032'128};
  const Sizes by_default{8'196'000, 31'502'336, 26'255'360, 26'550'272, 9'724'160};
  for (const char* version : {"2.4", "2.9", "2.15", "2.4.1+cu124"}) {
    CHECK(buckets(version, large, {}) == one);
    CHECK(buckets(version, large, small) == first_alone);  // an explicit first bucket wins
    CHECK(buckets(version, {}, {}) == by_default);
    CHECK(buckets(version, usual, {}).front() > usual.value);  // the default, but given
    CHECK(buckets(version, {}, large).front() == one.front());
  }
  for (const char* version : {"1.13", "2.0", "2.3", "2.3.1"}) {
    CHECK(buckets(version, large, {}) == first_alone);
    CHECK(buckets(version, large, large) == one);
    CHECK(buckets(version, usual, {}) == by_default);
  }
  // The warm-up has everything in one bucket, whatever the caps.
  TrainingSpec training;
  training.ddp.bucket_cap = Bytes(kMiB);
  const TrainingJob job = on_two_ranks(builtin_model("resnet50"), training);
  CHECK(job.plans[job.main().warm_up.collectives[bucket_collectives(job.main().warm_up).at(0)]].bytes ==
        Bytes(one.front()));
}

TEST_CASE("a version of PyTorch is 1.13, or 2.0 to 2.15") {
  CHECK(pytorch_version("1.13.0a0") == kOldestPyTorch);
  CHECK(pytorch_version("2.0") == PyTorchVersion{2, 0});
  CHECK(pytorch_version("2.11.0") == PyTorchVersion{2, 11});
  CHECK(to_string(PyTorchVersion{2, 11}) == "2.11");
  for (const char* bad :
       {"", "2", "2.", "1.12", "1.14", "2.16", "3.0", "2.x", "2.4.x", "2.-4", "2.4.", "v2.4", "2.4 "}) {
    CHECK_THROWS_AS(pytorch_version(bad), InputError);
  }
}

TEST_CASE("with find_unused_parameters buckets stay as the constructor made them: the small one comes last") {
  // What two gloo processes under PyTorch 2.15 reduce of torchvision's ResNet-50, in this order.
  const std::vector<std::int64_t> bytes{12'410'784, 31'502'336, 29'669'376, 27'022'336, 1'623'296};
  TrainingSpec training;
  training.ddp.find_unused_parameters = true;
  const TrainingJob job = on_two_ranks(builtin_model("resnet50"), training);
  CHECK(steady_buckets(job) == bytes);
  std::vector<std::string> warm_up, steady;  // the first iteration is like the others
  for (const Op& op : job.main().warm_up.ops) {
    warm_up.push_back(op.label);
  }
  for (const Op& op : job.main().steady.ops) {
    steady.push_back(op.label);
  }
  CHECK(warm_up == steady);
  // Each is issued once its own gradients are there, the first long before backward ends.
  const auto at = [&](const char* label) { return std::ranges::find(steady, label) - steady.begin(); };
  CHECK(at("all_reduce bucket 0") < at("backward layer4.0.conv1"));
  CHECK(at("backward layer1.0.conv1") < at("all_reduce bucket 4"));
  CHECK(at("backward conv1") < at("all_reduce bucket 4"));
  CHECK(at("all_reduce bucket 4") < at("all_reduce used parameters"));
}

TEST_CASE("ResNet-18 falls into PyTorch's buckets at caps of 25 and 35 MiB") {
  CHECK(bucket_bytes(builtin_model("resnet18"), 25) ==
        std::vector<std::int64_t>{2'052'000, 28'852'224, 15'853'824});
  CHECK(bucket_bytes(builtin_model("resnet18"), 35) ==
        std::vector<std::int64_t>{2'052'000, 38'297'600, 6'408'448});
}

TEST_CASE("a bucket closes once it holds its limit, so it may overshoot by one tensor") {
  const std::vector<Bytes> sizes{Bytes(3), Bytes(3), Bytes(10), Bytes(1), Bytes(1)};
  const std::vector<std::vector<std::size_t>> wanted{{0, 1}, {2}, {3, 4}};
  CHECK(assign_buckets(sizes, Bytes(4), Bytes(5)) == wanted);
  CHECK(assign_buckets({}, Bytes(4), Bytes(5)).empty());
}

TEST_CASE("the warm-up reduces everything in one bucket, then broadcasts the rebuilt order") {
  const Model model = builtin_model("resnet50");
  TrainingSpec training;
  training.ddp.broadcast_buffers = false;
  const TrainingJob job = on_two_ranks(model, training);
  REQUIRE(job.main().warm_up.collectives.size() == 3);
  CHECK(job.plans[job.main().warm_up.collectives[0]].bytes == Bytes(4 * 25557032));
  CHECK(job.plans[job.main().warm_up.collectives[1]].kind == CollectiveKind::broadcast);
}

TEST_CASE("with broadcast_buffers a ResNet-50 sends 212480 bytes of statistics and 424 of counters") {
  // The two broadcasts of the same trace: 53120 fp32 and 53 int64.
  const TrainingJob job = on_two_ranks(builtin_model("resnet50"), TrainingSpec{});
  REQUIRE(job.main().steady.collectives.size() == 7);
  CHECK(job.plans[job.main().steady.collectives[0]].bytes == Bytes(4 * 53120));
  CHECK(job.plans[job.main().steady.collectives[1]].bytes == Bytes(8 * 53));
}

TEST_CASE("under accumulation only the last micro-batch communicates") {
  TrainingSpec training;
  training.accumulation = 4;
  const TrainingJob job = on_two_ranks(builtin_model("resnet50"), training);
  CHECK(job.main().steady.collectives.size() == 7);
  const auto is_forward = [](const Op& op) { return op.label == "forward conv1"; };
  const auto ops = job.main().steady.ops;
  CHECK(std::count_if(ops.begin(), ops.end(), is_forward) == 4);
  const auto last_forward = std::find_if(ops.rbegin(), ops.rend(), is_forward);
  const auto first_reduce =
      std::find_if(ops.begin(), ops.end(), [](const Op& op) { return op.label == "all_reduce bucket 0"; });
  CHECK(last_forward.base() - ops.begin() < first_reduce - ops.begin());
}

TEST_CASE("gradient_as_bucket_view leaves out the copies back, and keeps the division in place") {
  TrainingSpec training;
  const auto copies = [&](const char* direction) {
    const TrainingJob job = on_two_ranks(builtin_model("resnet50"), training);
    return std::count_if(job.main().steady.ops.begin(), job.main().steady.ops.end(),
                         [&](const Op& op) { return op.label.rfind(direction, 0) == 0; });
  };
  CHECK(copies("from bucket") == 5);
  const auto in = copies("to bucket");
  training.ddp.gradient_as_bucket_view = true;
  CHECK(copies("from bucket") == 0);
  CHECK(copies("to bucket") == in);
}

// Where each bucket's all-reduce stands against the last backward kernel, and whether buffers are broadcast.
struct Reduced {
  std::vector<std::int64_t> buckets;
  std::size_t before_end = 0, broadcasts = 0;
};

Reduced reduced(const TrainingSpec& training) {
  const TrainingJob job = on_two_ranks(builtin_model("resnet50"), training);
  const std::vector<Op>& ops = job.main().steady.ops;
  Reduced found{steady_buckets(job), 0, 0};
  const auto last =
      std::find_if(ops.rbegin(), ops.rend(), [](const Op& op) { return op.label.starts_with("backward "); });
  for (auto op = ops.begin(); op != ops.end(); ++op) {
    found.before_end += op->label.starts_with("all_reduce bucket") && op < last.base() ? 1 : 0;
    found.broadcasts += op->label == "broadcast buffers" ? 1 : 0;
  }
  return found;
}

TEST_CASE("each framework reduces gradients by its own rule") {
  const std::int64_t all = 4 * 25'557'032;
  const auto by = [](Reduction reduction) {
    TrainingSpec training;
    training.ddp.reduction = reduction;
    return reduced(training);
  };
  const Reduced torch = by(Reduction::pytorch_ddp), apex = by(Reduction::apex_ddp);
  CHECK(torch.buckets.size() == 5);
  CHECK(torch.before_end == 4);  // the last one closes with the last gradient
  CHECK(torch.broadcasts == 2);
  CHECK(by(Reduction::unknown).buckets == torch.buckets);
  CHECK(apex.buckets.size() == 3);  // closed at 10,000,000 elements
  for (std::size_t i = 0; i + 1 < apex.buckets.size(); ++i) {
    CHECK(apex.buckets[i] >= 40'000'000);
    CHECK(apex.buckets[i] < 40'000'000 + 4 * 2'359'296);  // by at most the largest tensor after the first
  }
  CHECK(apex.before_end == 2);
  CHECK(apex.broadcasts == 0);
  for (const Reduction late : {Reduction::apex_ddp_delayed, Reduction::after_backward}) {
    const Reduced once = by(late);
    CHECK(once.buckets == std::vector<std::int64_t>{all});
    CHECK(once.before_end == 0);
  }
  CHECK(by(Reduction::horovod_0_19).buckets.size() == 2);  // 64 MiB
  CHECK(by(Reduction::horovod_0_19).before_end == 0);
  CHECK(by(Reduction::horovod_0_21).buckets == std::vector<std::int64_t>{all});  // 128 MiB
  const Reduced group = by(Reduction::mxnet_horovod_group);
  CHECK(group.buckets == by(Reduction::horovod_0_19).buckets);
  CHECK(group.before_end == 0);
}

TEST_CASE("a message size of one's own replaces the rule's") {
  TrainingSpec training;
  training.ddp.reduction = Reduction::apex_ddp;
  training.ddp.bucket_cap = Bytes(4 * 20'000'000);
  CHECK(reduced(training).buckets.size() == 2);
}

TEST_CASE("gradients may travel in another format than they are kept in") {
  TrainingSpec training;
  const std::vector<std::int64_t> kept = reduced(training).buckets;
  training.ddp.wire = Precision::fp16;
  const std::vector<std::int64_t> half = reduced(training).buckets;
  REQUIRE(half.size() == kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    CHECK(2 * half[i] == kept[i]);
  }
}

TEST_CASE("clipping by the norm reads gradients once more, and reduces it where they are sharded") {
  TrainingSpec training;
  const auto labels = [&](const Strategy& strategy, const char* label) {
    CollectivePlanner planner =
        ring_planner(std::vector<HopCost>(2, {BytesPerSecond(1e10), SimTime{1000}, {}}));
    const TrainingJob job = build_job(
        strategy, workload(builtin_model("resnet50"), gpu_preset("A100-80GB"), training, {}), planner);
    const std::vector<Op>& ops = job.main().steady.ops;
    return std::count_if(ops.begin(), ops.end(), [&](const Op& op) { return op.label == label; });
  };
  CHECK(labels(DdpSpec{}, "clip") == 0);
  training.clip_norm = true;
  CHECK(labels(DdpSpec{}, "clip") == 1);
  CHECK(labels(DdpSpec{}, "all_reduce norm") == 0);
  CHECK(labels(ZeroSpec{1}, "all_reduce norm") == 1);
  CHECK(labels(FsdpSpec{}, "all_reduce norm") == 1);
}

TEST_CASE("a printed job reads like DDP's task graph") {
  const Model model{"two layers",
                    "",
                    {{"first", LayerKind::linear, {400'000, 100}, 1'000'000, 100},
                     {"second", LayerKind::linear, {300'000}, 1'000'000, 100}}};
  TrainingSpec training;
  training.layer_times = {{Seconds(2e-6), Seconds(4e-6)}, {Seconds(1e-6), Seconds(3e-6)}};
  const TrainingJob job = on_two_ranks(model, training);
  std::ostringstream out;
  print(job, out);
  const std::string text = out.str(), steady = text.substr(text.find("steady\n"));
  std::vector<std::string> labels;
  std::istringstream lines(steady);
  for (std::string line; std::getline(lines, line);) {
    labels.push_back(line.substr(line.rfind(": ") == std::string::npos ? 0 : line.rfind(": ") + 2));
  }
  CHECK(labels == std::vector<std::string>{"steady", "forward first", "forward second", "backward second",
                                           "to bucket 0", "all_reduce bucket 0", "backward first",
                                           "to bucket 1", "all_reduce bucket 1", "wait for collective 0",
                                           "from bucket 0", "wait for collective 1", "from bucket 1",
                                           "optimizer"});
  CHECK(steady.find("1200000 bytes, ring simple on 1 channels: all_reduce bucket 0") != std::string::npos);
}

}  // namespace
}  // namespace paceline
