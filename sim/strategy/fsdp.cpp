#include "sim/strategy/fsdp.h"

#include <optional>
#include <string>
#include <utility>

#include "core/error.h"
#include "sim/strategy/sharding.h"

namespace paceline {
namespace {

// The ranks of a job by what they do together: `shard` ranks share a copy of the parameters, `regather` of
// them gather a unit again, and those of the same place in their groups hold the same shard.
struct Groups {
  std::uint32_t all = 1, shard = 1, regather = 1;

  GroupShape shards() const { return consecutive_ranks(shard); }
  GroupShape regathers() const { return consecutive_ranks(regather); }
  GroupShape replicas() const { return {all / shard, shard}; }
  bool regather_apart() const { return regather < shard; }
  bool replicated() const { return shard < all; }
};

Groups groups_of(const FsdpSpec& fsdp, const RankLayout& job) {
  Groups groups{job.ranks(), shard_ranks(fsdp.shard_group, job), 1};
  const std::int64_t within = fsdp.reshard_after_forward.within;
  groups.regather = within > 0 ? static_cast<std::uint32_t>(within) : groups.shard;
  if (groups.shard % groups.regather != 0) {
    throw InputError("expected a number of ranks that divides the shard group of " +
                         std::to_string(groups.shard) + ", found " + std::to_string(groups.regather),
                     "/training/fsdp/reshard_after_forward");
  }
  require_alike_on_nodes(groups.regather, job, "/training/fsdp/reshard_after_forward");
  return groups;
}

// An iteration of every rank, in the order in which its host issues operations. A communicator is a queue:
// all-gathers and reduce-scatters share one, those who gather again from fewer ranks and those who all-reduce
// have their own. gloo's collectives block the host (async_op=False, no streams): all is in series, in that order.
class FsdpIteration {
 public:
  FsdpIteration(const FsdpSpec& fsdp, const Workload& work, PlanTable& plans)
      : fsdp_(fsdp),
        work_(work),
        groups_(groups_of(fsdp, plans.layout())),
        units_(units_of(fsdp.units, work.model)),
        gathered_(gathered_format(fsdp, work.training.precision)),
        wire_(fsdp.reduce_precision.value_or(work.training.gradients)),
        root_(root()),
        blocks_(work.training.collective.library == CollectiveLibrary::gloo),
        b_(work, plans) {
    for (const FsdpUnit& unit : units_) {
      shards_.push_back(shard_of(unit));
    }
  }

  Program build() {
    const TrainingSpec& training = work_.training;
    for (int micro = 0; micro < training.accumulation; ++micro) {
      const bool synchronised = reduces_each_pass(training) || micro + 1 == training.accumulation;
      b_.take_batch();
      forward();
      adds_ = micro > 0;
      backward(synchronised);
      if (synchronised) {
        wait_for_gradients();
      }
    }
    std::int64_t elements = root_.elements;
    for (const Shard& shard : shards_) {
      elements += shard.elements;
    }
    b_.reduce_norms();
    b_.optimizer(elements, training.parameters);
    return b_.finish();
  }

 private:
  // What each rank keeps of a unit, and what all layers of the unit have; of either as it is gathered.
  struct Shard {
    std::string name;
    std::int64_t elements = 0, of_layers = 0;
    Bytes gathered{}, of_layers_gathered{};
  };

  void add(Shard& shard, std::uint32_t first, std::uint32_t end) const {
    for (std::uint32_t l = first; l < end; ++l) {
      const std::int64_t each = gathered_bytes(gathered_, work_.model.layers[l]),
                         elements = shard_elements(work_.model, l, 1, groups_.shard),
                         all = shard_elements(work_.model, l, 1, 1);
      shard.elements += elements;
      shard.of_layers += all;
      shard.gathered = shard.gathered + Bytes(each * elements);
      shard.of_layers_gathered = shard.of_layers_gathered + Bytes(each * all);
    }
  }

  Shard shard_of(const FsdpUnit& unit) const {
    Shard shard{.name = unit.name};
    add(shard, unit.first, unit.end());
    return shard;
  }

  Shard root() const {
    Shard root{.name = "root"};
    std::uint32_t begin = 0;
    for (const FsdpUnit& unit : units_) {
      add(root, begin, unit.first);
      begin = unit.end();
    }
    add(root, begin, static_cast<std::uint32_t>(work_.model.layers.size()));
    return root;
  }

  Bytes bytes(std::int64_t elements, Precision precision) const {
    return Bytes(elements * bytes_per_element(precision));
  }
  Bytes of_all(const Shard& shard, Precision precision) const {
    return static_cast<std::int64_t>(groups_.shard) * bytes(shard.elements, precision);
  }

  SimTime moved(Bytes traffic) const { return to_sim_time(memory_time(work_.costs, traffic)); }
  SimTime cast(const Shard& shard, Precision from, Precision to) const {
    return cast_time(work_.costs, shard.elements, from, to);
  }

  // Returns its number. Where it blocks the host, all before it has ended when the host comes to it, and so has it when
  // the host goes on.
  std::uint32_t collective(const CollectiveRequest& request, const Purpose& purpose, const std::string& label,
                           const Issue& issue) {
    if (!blocks_) {
      return b_.collective(request, purpose, label, issue);
    }
    b_.synchronize();  // what is computed is the host's own work
    const std::uint32_t number =
        b_.collective(request, purpose, label,
                      {.queue = issue.queue, .prepare = issue.prepare, .conclude = issue.conclude});
    b_.wait(number);
    b_.synchronize();
    return number;
  }
  void wait(std::uint32_t number) {
    if (!blocks_) {
      b_.wait(number);
    }
  }

  Bytes of_all_gathered(const Shard& shard) const {
    return static_cast<std::int64_t>(groups_.shard) * shard.gathered;
  }

  // From the parameters in memory, cast where they have another format.
  std::uint32_t gather(const Shard& shard, Phase phase, After after, std::uint32_t after_op) {
    const Precision parameters = work_.training.parameters;
    const SimTime prepare = same_format(parameters, gathered_)
                                ? SimTime{}
                                : moved(bytes(shard.elements, parameters) + shard.gathered);
    return collective({CollectiveKind::all_gather, of_all_gathered(shard), groups_.shards()},
                      {.phase = phase, .payload = Payload::parameters}, "all_gather " + shard.name,
                      {.after = after, .after_op = after_op, .prepare = prepare});
  }

  // For the backward pass: from the parameters in memory, or from what fewer ranks kept of the forward pass.
  std::uint32_t gather_again(const Shard& shard) {
    if (!groups_.regather_apart()) {
      return gather(shard, Phase::backward, After::compute, 0);
    }
    return collective({CollectiveKind::all_gather, of_all_gathered(shard), groups_.regathers()},
                      {.phase = Phase::backward, .payload = Payload::parameters}, "all_gather " + shard.name,
                      {.queue = 1});
  }

  // Out of the buffer of the all-gather. Returns the operation.
  std::uint32_t copy_out(const Shard& shard) {
    return b_.copy(2 * shard.of_layers_gathered, 1, kNoIndex, "copy out " + shard.name);
  }

  // Gathers run ahead of the compute stream as far as their two buffers allow.
  void gather_forward(const Shard& shard, std::vector<std::uint32_t>& copies) {
    const std::size_t before = copies.size();
    wait(before < 2 ? gather(shard, Phase::forward, before == 0 ? After::compute : After::nothing, 0)
                    : gather(shard, Phase::forward, After::op, copies[before - 2]));
    copies.push_back(copy_out(shard));
  }

  void forward() {
    std::vector<std::uint32_t> copies;
    if (root_.elements > 0) {
      gather_forward(root_, copies);
    }
    std::size_t unit = 0;
    for (std::uint32_t l = 0; l < work_.model.layers.size(); ++l) {
      if (unit < units_.size() && units_[unit].first == l) {
        gather_forward(shards_[unit++], copies);
      }
      b_.forward(l);
    }
  }

  // Under no_sync whole gradients add up, in the format that they are reduced in (FSDPParam.to_accumulated_grad_if_needed
  // and accumulate_unsharded_grad_if_needed), else the shards do, once they are reduced.
  void sum_up(std::uint32_t layer) {
    const std::int64_t sum = bytes_per_element(wire_), gradient = bytes_per_element(work_.training.gradients);
    if (adds_) {
      b_.gradients(layer, 2 * sum + gradient, "accumulate");
    } else if (sums_apart()) {
      b_.gradients(layer, sum + gradient, "cast");
    }
  }
  bool sums_apart() const { return !same_format(wire_, work_.training.gradients); }

  void backward(bool synchronised) {
    const bool sums = work_.training.accumulation > 1 && !reduces_each_pass(work_.training);
    std::size_t left = units_.size();  // units whose first layer is still to come
    std::optional<std::uint32_t> gathered;
    if (fsdp_.reshard_after_forward.reshards && left > 0) {
      gathered = gather_again(shards_[left - 1]);
    }
    for (auto l = static_cast<std::uint32_t>(work_.model.layers.size()); l-- > 0;) {
      if (left > 0 && l + 1 == units_[left - 1].end()) {
        enter_backward(left - 1, gathered);
      }
      b_.backward(l);
      if (sums) {
        sum_up(l);
      }
      if (left > 0 && l == units_[left - 1].first) {
        --left;
        if (synchronised) {
          reduce(shards_[left]);
        }
      }
    }
    if (synchronised && root_.elements > 0) {
      reduce(root_);
    }
  }

  // The unit's parameters, and then those of the unit before it, which are gathered beside its kernels.
  void enter_backward(std::size_t unit, std::optional<std::uint32_t>& gathered) {
    if (gathered) {
      wait(*gathered);
      copy_out(shards_[unit]);
      gathered = unit > 0 ? std::optional(gather_again(shards_[unit - 1])) : std::nullopt;
    }
  }

  void reduce(const Shard& shard) {
    const Precision parameters = work_.training.parameters;
    const bool adds = adds_ && reduces_each_pass(work_.training);
    const Precision held = adds_ && !adds ? wire_ : work_.training.gradients;
    const SimTime conclude =
        cast(shard, wire_, parameters) + (adds ? moved(3 * bytes(shard.elements, parameters)) : SimTime{});
    if (reduced_) {
      wait(*reduced_);
    }
    const std::uint32_t number = reduces_++;
    b_.copy(bytes(shard.of_layers, held) + bytes(shard.of_layers, wire_), 1, number, "copy in " + shard.name);
    reduced_ = collective({CollectiveKind::reduce_scatter, of_all(shard, wire_), groups_.shards()},
                          {.phase = Phase::exchange, .bucket = number}, "reduce_scatter " + shard.name,
                          {.conclude = groups_.replicated() ? SimTime{} : conclude});
    if (groups_.replicated()) {
      all_reduced_.push_back(
          collective({CollectiveKind::all_reduce, bytes(shard.elements, wire_), groups_.replicas()},
                     {.phase = Phase::exchange}, "all_reduce " + shard.name,
                     {.queue = groups_.regather_apart() ? 2U : 1U,
                      .after = After::op,
                      .after_op = b_.last_op(),
                      .conclude = conclude}));
    }
  }

  void wait_for_gradients() {
    wait(*reduced_);
    reduced_.reset();
    for (const std::uint32_t each : all_reduced_) {
      wait(each);
    }
    all_reduced_.clear();
  }

  const FsdpSpec& fsdp_;
  const Workload& work_;
  Groups groups_;
  std::vector<FsdpUnit> units_;
  std::vector<Shard> shards_;  // by unit
  Precision gathered_, wire_;  // formats of parameters, and of reduced gradients
  Shard root_;
  bool blocks_;
  ProgramBuilder b_;
  std::uint32_t reduces_ = 0;
  bool adds_ = false;                     // to gradients of earlier passes
  std::optional<std::uint32_t> reduced_;  // the last reduce-scatter
  std::vector<std::uint32_t> all_reduced_;
};

}  // namespace

void require_shards(const TrainingSpec& training, const RankLayout& job) {
  if (fully_shards(training) && job.ranks() > 1) {
    const bool zero = training.strategy == StrategyKind::zero;
    static_cast<void>(groups_of(zero ? fsdp_of(training.zero, training.fsdp) : training.fsdp, job));
  }
}

void add_fsdp_programs(const FsdpSpec& fsdp, const Workload& work, PlanTable& plans, TrainingJob& job) {
  job.main().steady = job.main().warm_up = FsdpIteration(fsdp, work, plans).build();
}

}  // namespace paceline
