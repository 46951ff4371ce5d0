#include "sim/strategy/ddp.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "sim/strategy/buffers.h"
#include "sim/strategy/compression.h"
#include "sim/strategy/gradients.h"
#include "sim/strategy/pytorch.h"
#include "sim/strategy/sharding.h"

namespace paceline {
namespace {

std::vector<Bytes> sizes(const std::vector<Gradient>& gradients) {
  std::vector<Bytes> bytes;
  for (const Gradient& g : gradients) {
    bytes.push_back(g.bytes);
  }
  return bytes;
}

Bytes sum(const std::vector<Gradient>& gradients, const std::vector<std::size_t>& which) {
  Bytes total;
  for (const std::size_t i : which) {
    total = total + gradients[i].bytes;
  }
  return total;
}

using Buckets = std::vector<std::vector<std::size_t>>;

// As DDP's constructor makes them (torch/nn/parallel/distributed.py): tensors in the order of registration,
// then the list of buckets reversed, so that the small one is reduced last. Gradients: reversed ones; each bucket
// holds some that follow each other.
Buckets constructed_buckets(const std::vector<Gradient>& gradients, const BucketLimits& limits) {
  std::vector<Bytes> registered = sizes(gradients);
  std::ranges::reverse(registered);
  Buckets buckets = assign_buckets(registered, limits.first, limits.cap);
  std::ranges::reverse(buckets);
  for (std::vector<std::size_t>& bucket : buckets) {
    std::ranges::reverse(bucket);
    for (std::size_t& gradient : bucket) {
      gradient = gradients.size() - 1 - gradient;
    }
  }
  return buckets;
}

// In the order that their buckets go by.
std::vector<Gradient> gradients_of(const DdpSpec& ddp, const Model& model, std::int64_t bytes_each) {
  return ddp.searches() ? reversed_gradients(model, bytes_each) : gradients_in_ready_order(model, bytes_each);
}

// The buckets are rebuilt in the order in which gradients became ready; where each step searches they never are.
Buckets steady_buckets(const DdpSpec& ddp, const std::vector<Gradient>& gradients,
                       const BucketLimits& limits) {
  return ddp.searches() ? constructed_buckets(gradients, limits)
                        : assign_buckets(sizes(gradients), limits.first, limits.cap);
}

// Each rank has the same number of elements.
std::int64_t padded(std::int64_t elements, std::int64_t ranks) {
  return (elements + ranks - 1) / ranks * ranks;
}

// Builds the programs of all ranks; the order of its calls is the order of DDP's task graph.
class DdpPrograms {
 public:
  DdpPrograms(const DdpSpec& ddp, const DdpUse& use, const Workload& work, PlanTable& plans)
      : ddp_(ddp),
        use_(use),
        work_(work),
        plans_(plans),
        rule_(reduction_rule(ddp.reduction)),
        wire_(ddp.wire.value_or(work.training.gradients)),
        kernels_(kept_in(work.training.precision)),
        gradients_(gradients_of(ddp, work.model, bytes_per_element(work.training.gradients))) {}

  Program steady(bool warm_up = false) {
    return iteration(steady_buckets(ddp_, gradients_,
                                    bucket_limits(ddp_, work_.training.gradients, work_.training.pytorch,
                                                  plans_.layout().ranks())),
                     warm_up, false);
  }

  // Iteration 0: all gradients in one bucket; then the order in which they became ready is broadcast, and the
  // host waits for it. static_graph: they are reduced when backward has ended, after a map of those that were used.
  // Megatron's buckets are there before.
  Program warm_up() {
    if (ddp_.searches() || rule_.in_place) {
      return steady(true);
    }
    Buckets all(1);
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      all[0].push_back(i);
    }
    return iteration(all, true, true);
  }

 private:
  Program iteration(const Buckets& buckets, bool warm_up, bool rebuild) {
    ProgramBuilder b(work_, plans_);
    hooks_ = hooks_of(buckets, warm_up);
    ends_.clear();
    streams_ = 0;
    join_ = JoinContext(use_.input);
    reduced_.clear();
    used_.reset();
    for (int micro = 0; micro < work_.training.accumulation; ++micro) {
      const bool each = reduces_each_pass(work_.training);
      const bool synchronised = each || micro + 1 == work_.training.accumulation;
      first_bucket_ = each ? static_cast<std::uint32_t>(micro * buckets.size()) : 0;
      delayed_ = rebuild && ddp_.static_graph && (micro == 0 || !each);
      join_.active(b, [&] { b.take_batch(); });
      join_.notify(b);
      if ((micro == 0 || each) && rule_.buffers && ddp_.broadcast_buffers) {
        broadcast_buffers(b);
      }
      join_.notify(b);
      join_.fill_zeros(b, bytes_of(buckets));
      const bool gathers = micro == 0 && !warm_up && use_.zero && use_.zero->overlap_gather;
      join_.active(b, [&] { forward(b, synchronised, gathers ? &buckets : nullptr); });
      backward(b, micro, synchronised ? &buckets : nullptr);
      if (synchronised) {
        finalize(b, buckets);
      }
    }
    join_.active(b, [&] { update(b); });
    if (rebuild) {
      broadcast_rebuilt_buckets(b);
    } else {
      join_.broadcast_model(b, work_);
    }
    return join_.limited(b.finish());
  }

  std::vector<Bytes> bytes_of(const Buckets& buckets) const {
    std::vector<Bytes> bytes;
    for (const std::vector<std::size_t>& bucket : buckets) {
      bytes.push_back(on_wire(sum(gradients_, bucket)));
    }
    return bytes;
  }

  // buckets: their parameters come meanwhile, the last bucket's first: each is waited for before the first layer that
  // has some of it, and the next is asked for then (_ParamAndGradBucketGroup.finish_param_sync).
  void forward(ProgramBuilder& b, bool synchronised, const Buckets* buckets) {
    std::size_t left = buckets != nullptr ? buckets->size() : 0;
    std::uint32_t asked_for = 0;
    const auto ask = [&] {
      if (left > 0) {
        asked_for = gather_bucket(b, (*buckets)[left - 1], left - 1);
      }
    };
    ask();
    for (std::uint32_t l = 0; l < work_.model.layers.size(); ++l) {
      for (; left > 0 && first_layer((*buckets)[left - 1]) <= l; ask()) {
        b.wait(asked_for);
        --left;
      }
      b.forward(l);
    }
    const Seconds each = work_.training.host.unused_search;
    if (ddp_.searches() && synchronised && each.value > 0) {
      b.host_work(to_sim_time(each * static_cast<double>(gradients_.size())), {Phase::forward},
                  "search unused parameters");
    }
  }

  std::size_t first_layer(const std::vector<std::size_t>& bucket) const {
    const auto layer = [&](std::size_t i) { return gradients_[i].layer; };
    return layer(*std::ranges::min_element(bucket, {}, layer));
  }

  std::int64_t elements_of(const std::vector<std::size_t>& bucket) const {
    return sum(gradients_, bucket).value / bytes_per_element(work_.training.gradients);
  }

  std::uint32_t gather_bucket(ProgramBuilder& b, const std::vector<std::size_t>& bucket, std::size_t number) {
    const std::int64_t ranks = plans_.layout().ranks(), all = padded(elements_of(bucket), ranks);
    return b.collective(
        {CollectiveKind::all_gather, Bytes(all * bytes_per_element(kernels_))},
        {.phase = Phase::forward, .payload = Payload::parameters},
        "all_gather bucket " + std::to_string(number),
        {.prepare = cast_time(work_.costs, all / ranks, work_.training.parameters, kernels_)});
  }

  void broadcast_buffers(ProgramBuilder& b) {
    const std::vector<Buffers> buffers = buffers_of(work_.model);
    if (!buffers.empty()) {
      join_.agree_on_rank(b);
    }
    for (const Buffers& each : buffers) {
      b.wait(b.collective({CollectiveKind::broadcast, each.bytes},
                          {.phase = Phase::forward, .payload = each.what}, "broadcast buffers"));
    }
  }

  // buckets: none under no_sync, where gradients only add up.
  void backward(ProgramBuilder& b, int micro, const Buckets* buckets) {
    std::size_t next = 0, in_bucket = 0;  // gradient, and its place in its bucket
    std::uint32_t bucket = 0;
    std::vector<Bytes> waiting;  // buckets that are reduced when backward has ended
    for (auto l = static_cast<std::uint32_t>(work_.model.layers.size()); l-- > 0;) {
      join_.active(b, [&] {
        b.backward(l);
        if (micro > 0) {
          b.accumulate(l);
        }
      });
      const std::size_t tensors = work_.model.layers[l].parameters.size();
      for (std::size_t done = 0; buckets != nullptr && done < tensors;) {
        const std::size_t piece = std::min(tensors - done, (*buckets)[bucket].size() - in_bucket);
        if (!delayed_) {
          copy_in(b, layer_bytes(next + done, piece), piece, bucket);
        }
        done += piece;
        in_bucket += piece;
        if (in_bucket == (*buckets)[bucket].size()) {
          const Bytes bytes = on_wire(sum(gradients_, (*buckets)[bucket]));
          if (rule_.overlapped && !delayed_) {
            reduce_bucket(b, bytes, bucket);
          } else {
            waiting.push_back(bytes);
          }
          ++bucket;
          in_bucket = 0;
        }
      }
      next += tensors;
    }
    if (delayed_ && buckets != nullptr) {  // Reducer::delay_all_reduce
      used_ = reduce_used(b);
      for (std::uint32_t i = 0; i < buckets->size(); ++i) {
        copy_in(b, sum(gradients_, (*buckets)[i]), (*buckets)[i].size(), i);
      }
    }
    for (std::uint32_t i = 0; i < waiting.size(); ++i) {
      reduce_bucket(b, waiting[i], i);
    }
  }

  // Of each bucket; none without compression.
  std::vector<std::vector<HookPart>> hooks_of(const Buckets& buckets, bool warm_up) const {
    const CompressionSpec& compression = work_.training.compression;
    const std::int64_t each = bytes_per_element(work_.training.gradients);
    std::vector<std::vector<HookPart>> hooks;
    for (std::size_t i = 0; compression.kind != CompressionKind::none && i < buckets.size(); ++i) {
      std::vector<HookTensor> tensors;
      for (const std::size_t which : buckets[i]) {
        const Gradient& gradient = gradients_[which];
        const Layer& layer = work_.model.layers[gradient.layer];
        tensors.push_back(
            {gradient.bytes.value / each, matrix_rows(work_.model, layer, place_in_layer(gradient))});
      }
      const bool starts = warm_up && compression.kind == CompressionKind::powersgd;
      hooks.push_back(starts ? plain_hook(tensors, each)
                             : hook_of(compression, tensors, each, plans_.layout().ranks()));
    }
    return hooks;
  }

  // Among the tensors of its layer, in the order of registration.
  std::size_t place_in_layer(const Gradient& gradient) const {
    std::size_t before = 0;
    for (std::size_t l = 0; l < gradient.layer; ++l) {
      before += work_.model.layers[l].parameters.size();
    }
    return gradient.tensor - before;
  }

  // What precedes the first collective is the compute stream's; what follows one is on the next stream of PyTorch's
  // pool (ATen/core/ivalue_inl.h, Future::invokeCallback).
  void run_hook(ProgramBuilder& b, std::uint32_t bucket) {
    constexpr std::uint32_t kStreamsInPool = 32;  // c10/cuda/CUDAStream.cpp
    const std::uint32_t number = first_bucket_ + bucket;
    const std::string label = "hook of bucket " + std::to_string(number) + ": ";
    std::uint32_t stream = 0, last = 0;
    std::optional<std::uint32_t> after;
    const auto run = [&](const HookKernels& kernels) {
      const SimTime time = to_sim_time(hook_time(work_.costs, kernels, work_.training.gradients));
      last = b.kernels(time, static_cast<std::size_t>(kernels.launches), number, label + kernels.what, stream,
                       std::exchange(after, {}));
    };
    for (const HookPart& part : hooks_[bucket]) {
      std::ranges::for_each(part.kernels, run);
      if (part.reads_back || part.synchronize) {
        b.synchronize(part.synchronize ? kWholeDevice : stream);
      }
      std::ranges::for_each(part.at_last, run);
      const Issue issue{.after = stream == 0 ? After::compute : After::op, .after_op = last};
      for (const auto& [kind, bytes, what, payload, format] : part.exchanges) {
        const bool gathers = kind == CollectiveKind::all_gather;
        b.collective({kind, gathers ? plans_.layout().ranks() * bytes : bytes},
                     {.phase = Phase::exchange, .bucket = number, .payload = payload, .format = format},
                     std::string(name_of(kind)) + " bucket " + std::to_string(number) +
                         (what.empty() ? "" : ", ") + what,
                     issue);
        after = last = b.last_op();
      }
      stream = streams_++ % kStreamsInPool + 1;
    }
    --streams_;
    ends_.push_back(last);
  }

  // The compute stream waits for a bucket's last operation.
  void wait_for_bucket(ProgramBuilder& b, std::uint32_t bucket) const {
    const std::uint32_t number = first_bucket_ + bucket;
    if (hooks_.empty()) {
      b.wait(reduced_[number]);
      return;
    }
    const Op last = b.program().ops[ends_[number]];
    if (last.kind == OpKind::collective) {
      b.wait(last.index);
    } else {
      b.join(ends_[number], number);
    }
  }

  void copy_in(ProgramBuilder& b, Bytes gradients, std::size_t tensors, std::uint32_t bucket) {
    if ((hooks_.empty() && !use_.hook_divides) || !ddp_.gradient_as_bucket_view) {
      join_.active(b, [&] { copy(b, gradients, tensors, bucket, "to bucket "); });
    }
  }

  // int32 per parameter.
  std::uint32_t reduce_used(ProgramBuilder& b) {
    return b.collective({CollectiveKind::all_reduce, Bytes(4 * static_cast<std::int64_t>(gradients_.size()))},
                        {.phase = Phase::exchange, .payload = Payload::indices},
                        "all_reduce used parameters");
  }

  Bytes on_wire(Bytes gradients) const {
    return Bytes(gradients.value / bytes_per_element(work_.training.gradients) * bytes_per_element(wire_));
  }

  // One kernel per tensor that reads and writes its bytes once: into a bucket with the division by the number
  // of ranks (gradient_as_bucket_view: the division in place; a hook divides by itself), or back out; cast where
  // the wire has another format.
  void copy(ProgramBuilder& b, Bytes gradients, std::size_t tensors, std::uint32_t bucket,
            const char* label) {
    const std::uint32_t number = first_bucket_ + bucket;
    b.copy(gradients + on_wire(gradients), tensors, number, label + std::to_string(number));
  }

  void reduce_bucket(ProgramBuilder& b, Bytes bytes, std::uint32_t bucket) {
    if (!hooks_.empty()) {
      run_hook(b, bucket);
      return;
    }
    const std::uint32_t number = first_bucket_ + bucket;
    if (use_.hook_divides) {  // reads and writes it
      b.copy(2 * bytes, 1, number, "divide bucket " + std::to_string(number));
    }
    const bool scatters = use_.zero && use_.zero->reduce_scatter;
    const std::int64_t each = bytes_per_element(wire_);
    const CollectiveRequest request =
        scatters ? CollectiveRequest{CollectiveKind::reduce_scatter,
                                     Bytes(padded(bytes.value / each, plans_.layout().ranks()) * each)}
                 : CollectiveRequest{CollectiveKind::all_reduce, bytes, use_.reduced_in};
    reduced_.push_back(
        b.collective(request, {.phase = Phase::exchange, .bucket = number, .format = wire_},
                     std::string(name_of(request.kind)) + " bucket " + std::to_string(number)));
  }

  // The compute stream waits for each bucket in order and copies it back, unless gradients are views of the
  // buckets, or the optimizer's part was reduced in place.
  void finalize(ProgramBuilder& b, const Buckets& buckets) {
    if (ddp_.searches()) {  // launched last, waited for last
      used_ = reduce_used(b);
    }
    for (std::uint32_t i = 0; i < buckets.size(); ++i) {
      wait_for_bucket(b, i);
      const bool stays =
          ddp_.gradient_as_bucket_view || rule_.in_place || (use_.zero && use_.zero->reduce_scatter);
      if (!stays || !same_format(wire_, work_.training.gradients)) {
        join_.active(b, [&] { copy(b, sum(gradients_, buckets[i]), buckets[i].size(), i, "from bucket "); });
      }
    }
    if (used_) {
      join_.active(b, [&] { b.wait(*used_); });
      used_.reset();
    }
  }

  // Nobody computes between the update and the next forward pass, which waits for the gathered parameters unless they
  // come beside it.
  void update(ProgramBuilder& b) {
    const TrainingSpec& training = work_.training;
    if (!use_.zero) {
      b.optimizer(parameter_count(work_.model), training.gradients);
      return;
    }
    const std::uint32_t ranks = plans_.layout().ranks();
    const std::int64_t shard =
        shard_elements(work_.model, 0, static_cast<std::uint32_t>(work_.model.layers.size()), ranks);
    b.reduce_norms();
    b.optimizer(shard, training.gradients);
    if (use_.zero->overlap_gather) {
      return;
    }
    b.wait(b.collective({CollectiveKind::all_gather, Bytes(ranks * shard * bytes_per_element(kernels_))},
                        {.phase = Phase::update, .payload = Payload::parameters}, "all_gather parameters",
                        {.prepare = cast_time(work_.costs, shard, training.parameters, kernels_)}));
  }

  void broadcast_rebuilt_buckets(ProgramBuilder& b) {
    const auto tensors = static_cast<std::int64_t>(gradients_.size());
    for (const Bytes bytes : {Bytes(4 * tensors), Bytes(4 * (tensors + 1))}) {
      b.wait(b.collective({CollectiveKind::broadcast, bytes}, {.payload = Payload::indices},
                          "broadcast rebuilt buckets"));
    }
    b.synchronize();
  }

  Bytes layer_bytes(std::size_t first, std::size_t count) const {
    Bytes total;
    for (std::size_t i = first; i < first + count; ++i) {
      total = total + gradients_[i].bytes;
    }
    return total;
  }

  const DdpSpec& ddp_;
  DdpUse use_;
  const Workload& work_;
  PlanTable& plans_;
  ReductionRule rule_;
  Precision wire_, kernels_;  // of reduced gradients, and of gathered parameters
  std::vector<Gradient> gradients_;
  std::uint32_t first_bucket_ = 0;      // of the pass: they are numbered through the step
  std::vector<std::uint32_t> reduced_;  // each bucket's collective
  // Of the iteration that is being built: each bucket's hook, its last operation, and streams that were taken.
  std::vector<std::vector<HookPart>> hooks_;
  std::vector<std::uint32_t> ends_;
  std::uint32_t streams_ = 0;
  JoinContext join_{std::nullopt};
  bool delayed_ = false;               // the iteration at hand reduces when backward has ended
  std::optional<std::uint32_t> used_;  // its map of used parameters
};

}  // namespace

std::vector<std::vector<std::size_t>> assign_buckets(std::span<const Bytes> sizes, Bytes first, Bytes cap) {
  std::vector<std::vector<std::size_t>> buckets;
  std::vector<std::size_t> open;
  Bytes held;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    open.push_back(i);
    held = held + sizes[i];
    if (held >= (buckets.empty() ? first : cap)) {
      buckets.push_back(std::exchange(open, {}));
      held = {};
    }
  }
  if (!open.empty()) {
    buckets.push_back(std::move(open));
  }
  return buckets;
}

ReductionRule reduction_rule(Reduction reduction) {
  constexpr std::int64_t kMiB = 1 << 20;
  constexpr Bytes kAll(std::int64_t{1} << 50);
  static const ReductionRule kRules[] = {{Reduction::pytorch_ddp, true, 0, {}, true},
                                         {Reduction::apex_ddp, true, 10'000'000, {}, false},
                                         {Reduction::apex_ddp_delayed, false, 0, kAll, false},
                                         {Reduction::megatron, true, 40'000'000, {}, false, 1'000'000, true},
                                         {Reduction::horovod_0_19, false, 0, Bytes(64 * kMiB), false},
                                         {Reduction::horovod_0_21, false, 0, Bytes(128 * kMiB), false},
                                         {Reduction::mxnet_horovod_group, false, 0, Bytes(64 * kMiB), false},
                                         {Reduction::after_backward, false, 0, kAll, false},
                                         {Reduction::unknown, true, 0, {}, true}};
  return *std::ranges::find(kRules, reduction, &ReductionRule::reduction);
}

BucketLimits bucket_limits(const DdpSpec& ddp, Precision gradients, const std::string& pytorch,
                           std::int64_t ranks) {
  const ReductionRule rule = reduction_rule(ddp.reduction);
  const std::int64_t elements = std::max(rule.elements, rule.elements_a_rank * ranks);
  const Bytes of_rule = elements > 0 ? Bytes(elements * bytes_per_element(gradients)) : rule.bytes;
  if (of_rule.value > 0) {
    const Bytes cap = ddp.bucket_cap.value_or(of_rule);
    return {ddp.first_bucket.value_or(cap), cap};
  }
  const Bytes cap = ddp.bucket_cap.value_or(Bytes(25 << 20));
  const bool cap_for_all = ddp.bucket_cap && pytorch_version(pytorch) >= kCapIsFirstBucketToo;
  return {ddp.first_bucket.value_or(cap_for_all ? cap : Bytes(1 << 20)), cap};
}

std::vector<std::vector<std::size_t>> ddp_buckets(const DdpSpec& ddp, const Model& model, Precision gradients,
                                                  const std::string& pytorch, std::int64_t ranks) {
  const std::vector<Gradient> all = gradients_of(ddp, model, bytes_per_element(gradients));
  Buckets buckets = steady_buckets(ddp, all, bucket_limits(ddp, gradients, pytorch, ranks));
  for (std::vector<std::size_t>& bucket : buckets) {
    for (std::size_t& gradient : bucket) {
      gradient = all[gradient].tensor;
    }
  }
  return buckets;
}

Program ddp_warm_up(const DdpSpec& ddp, const DdpUse& use, const Workload& work, PlanTable& plans) {
  return DdpPrograms(ddp, use, work, plans).warm_up();
}
Program ddp_steady(const DdpSpec& ddp, const DdpUse& use, const Workload& work, PlanTable& plans) {
  return DdpPrograms(ddp, use, work, plans).steady();
}

void add_ddp_programs(const DdpSpec& ddp, const DdpUse& use, const Workload& work, PlanTable& plans,
                      TrainingJob& job) {
  job.main().warm_up = ddp_warm_up(ddp, use, work, plans);
  job.main().steady = ddp_steady(ddp, use, work, plans);
}

}  // namespace paceline
