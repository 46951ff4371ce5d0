#include "sim/strategy/mirrored.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "core/error.h"
#include "sim/strategy/gradients.h"
#include "sim/strategy/ring_of_nodes.h"

namespace paceline {
namespace {

constexpr const char* kMirroredOptions = "/training/mirrored";
constexpr std::uint32_t kSummingGpu = 0;

void refuse(bool given, const char* key, const std::string& what) {
  if (given) {
    throw InputError("expected no " + std::string(key) + ' ' + what,
                     kMirroredOptions + ('/' + std::string(key)));
  }
}

void check(const MirroredSpec& spec, const TrainingSpec& training, const RankLayout& layout) {
  const bool workers = spec.cross_device_ops == CrossDeviceOps::multi_worker;
  const bool nodes = spec.cross_device_ops == CrossDeviceOps::nccl_then_ring;
  const bool halves = spec.cross_device_ops == CrossDeviceOps::hierarchical_copy;
  refuse(spec.num_packs && spec.cross_device_ops != CrossDeviceOps::nccl && !halves, "num_packs",
         "but with the cross_device_ops nccl and hierarchical_copy, found " +
             std::to_string(spec.num_packs.value_or(0)));
  refuse(spec.bytes_per_pack && !workers, "bytes_per_pack",
         "but with the cross_device_ops multi_worker; nccl has num_packs");
  if (nodes && layout.nodes == 1) {
    throw InputError(
        R"(expected several nodes with nccl_then_ring, found one: "nccl" with num_packs 0 is its first half)",
        std::string(kMirroredOptions) + "/cross_device_ops");
  }
  if (!workers && !nodes && layout.nodes > 1) {
    throw InputError("expected one node with MirroredStrategy, which is one process, found " +
                         std::to_string(layout.nodes) + R"(; "multi_worker" has one on each node)",
                     std::string(kMirroredOptions) + "/cross_device_ops");
  }
  if (halves && layout.gpus_per_node % 2 != 0) {
    throw InputError("expected GPUs in two equal halves with hierarchical_copy, found " +
                         std::to_string(layout.gpus_per_node),
                     std::string(kMirroredOptions) + "/cross_device_ops");
  }
  const bool ring = training.collective.library == CollectiveLibrary::tensorflow;
  if (ring && !workers) {
    throw InputError(R"(expected TensorFlow's ring with the cross_device_ops "multi_worker", found others)",
                     "/training/collective/library");
  }
  if (!ring && training.collective.library != CollectiveLibrary::nccl) {
    throw InputError(
        "expected GPUs, and NCCL or TensorFlow's ring, with the strategy mirrored, found another library",
        "/training/collective/library");
  }
}

class MirroredIteration {
 public:
  MirroredIteration(const MirroredSpec& spec, const Workload& work, PlanTable& plans)
      : spec_(spec),
        work_(work),
        gpus_(plans.layout().ranks()),
        b_(work, plans),
        gradients_(reversed_gradients(work.model, bytes_per_element(work.training.gradients))) {}

  Program with_nccl() {
    const std::int64_t packs = spec_.num_packs.value_or(1);
    return packs == 0 ? in_packs(std::vector<std::size_t>(gradients_.size(), 1)) : in_equal_packs(packs);
  }

  Program with_workers() {
    std::vector<Bytes> sizes;
    for (const Gradient& gradient : gradients_) {
      sizes.push_back(gradient.bytes);
    }
    return in_packs(packs_by_size(sizes, spec_.bytes_per_pack.value_or(Bytes(0))));
  }

  // A GPU sums what is its own behind its backward pass, whose kernels have been launched by then. Channels: of each
  // gradient to who sums it, then of each sum to all others. Families: each GPU, then for each all others.
  Program with_copies(std::uint32_t rank) {
    const auto count = static_cast<std::uint32_t>(gradients_.size());
    const auto summed_by = [&](std::uint32_t g) {
      const bool spread = spec_.cross_device_ops == CrossDeviceOps::copy_to_devices;
      return spread ? (count - 1 - g) % gpus_ : kSummingGpu;
    };
    b_.passes([&](std::uint32_t layer) {
      for (std::uint32_t g = 0; g < count; ++g) {
        if (gradients_[g].layer == layer && summed_by(g) != rank) {
          b_.send(g, summed_by(g), gradients_[g].bytes, purpose(g), "gradient " + std::to_string(g));
        }
      }
    });
    for (std::uint32_t g = 0; g < count; ++g) {
      if (summed_by(g) == rank) {
        const Bytes size = gradients_[g].bytes;
        b_.gate(g, gpus_ - 1, "gradients " + std::to_string(g));
        b_.copy((gpus_ + 1) * size, 1, g, "add " + std::to_string(g));
        b_.send(count + g, gpus_ + rank, size, purpose(g), "sum " + std::to_string(g));
      }
    }
    for (std::uint32_t g = 0; g < count; ++g) {
      if (summed_by(g) != rank) {
        b_.gate(count + g, 1, "sum " + std::to_string(g));
      }
    }
    return update();
  }

  // The GPUs are two halves, and pack i belongs to two GPUs, one in each: i, counted round, which is the main
  // one, and the one that is half of the GPUs further. Each sums its half's; the main one adds the other's, and
  // sends the sum to its own half and to the other, which sends it to its. Sums stand behind the backward pass,
  // all of one kind before those that build on them. Channels: of each pack what is summed in a half, between
  // halves, and of sums. Families: each GPU; for each all others; for each the others of its half.
  Program with_halves(std::uint32_t rank) {
    const std::uint32_t half = gpus_ / 2;
    const std::vector<Bytes> packs = packs_of_halves();
    const auto count = static_cast<std::uint32_t>(packs.size());
    const auto main = [&](std::uint32_t i) { return i % gpus_; };
    const auto other = [&](std::uint32_t i) { return (i + half) % gpus_; };
    const auto in_my_half = [&](std::uint32_t gpu) { return gpu / half == rank / half; };
    const auto mine = [&](std::uint32_t i) { return in_my_half(main(i)) ? main(i) : other(i); };
    const auto add = [&](std::uint32_t i, std::int64_t summands) {
      b_.copy((summands + 1) * packs[i], 1, i, "add " + std::to_string(i));
    };
    const auto to_my_half = [&](std::uint32_t i) {
      if (half > 1) {
        b_.send(2 * count + i, 2 * gpus_ + rank, packs[i], purpose(i), "sum " + std::to_string(i));
      }
    };
    std::vector<std::uint32_t> order;  // in which packs exist
    const auto send_up = [&](std::uint32_t i) {
      order.push_back(i);
      if (mine(i) != rank) {
        b_.send(i, mine(i), packs[i], purpose(i), "pack " + std::to_string(i));
      }
    };
    const bool joined = apart_or_joined(count, send_up);
    for (const std::uint32_t i : order) {
      if (mine(i) == rank && half > 1) {
        b_.gate(i, half - 1, "packs " + std::to_string(i));
        add(i, half);
      }
      if (other(i) == rank) {
        b_.send(count + i, main(i), packs[i], purpose(i), "sum of a half " + std::to_string(i));
      }
    }
    for (const std::uint32_t i : order) {
      if (main(i) == rank) {
        b_.gate(count + i, 1, "sum of a half " + std::to_string(i));
        add(i, 2);
        b_.send(2 * count + i, other(i), packs[i], purpose(i), "sum " + std::to_string(i));
        to_my_half(i);
      }
    }
    for (const std::uint32_t i : order) {
      if (other(i) == rank) {
        b_.gate(2 * count + i, 1, "sum " + std::to_string(i));
        to_my_half(i);
      }
    }
    for (const std::uint32_t i : order) {
      if (mine(i) != rank) {
        b_.gate(2 * count + i, 1, "sum " + std::to_string(i));
      }
    }
    if (joined) {
      copy_all(count > 1, gradients_.size() > 1, "join", "split");
    }
    return update();
  }

 private:
  std::vector<Bytes> packs_of_halves() const {
    std::vector<Bytes> packs;
    if (const std::int64_t count = spec_.num_packs.value_or(1); count > 0) {
      for (const std::int64_t elements : equal_packs(parameter_count(work_.model), count)) {
        packs.push_back(bytes(elements));
      }
    } else {
      for (std::size_t g = gradients_.size(); g-- > 0;) {
        packs.push_back(gradients_[g].bytes);
      }
    }
    return packs;
  }

  // All passes of a step; there(i) when pack i exists: each gradient, the last of the list first, or, joined and
  // cut after all passes, equal packs. True: these.
  template <class F>
  bool apart_or_joined(std::uint32_t count, const F& there) {
    if (spec_.num_packs.value_or(1) > 0) {
      b_.passes([](std::uint32_t) {});
      copy_all(gradients_.size() > 1, count > 1, "concatenate", "cut");
      for (std::uint32_t i = 0; i < count; ++i) {
        there(i);
      }
      return true;
    }
    std::uint32_t next = 0;
    b_.passes([&](std::uint32_t layer) {
      for (; next < count && gradients_[next].layer == layer; ++next) {
        there(count - 1 - next);
      }
    });
    return false;
  }

  // Of all gradients, one copy after the other.
  void copy_all(bool first, bool second, const char* what, const char* then) {
    const Bytes all = bytes(parameter_count(work_.model));
    if (first) {
      copy(all, kNoIndex, what);
    }
    if (second) {
      copy(all, kNoIndex, then);
    }
  }

  static Purpose purpose(std::uint32_t bucket) { return {.phase = Phase::exchange, .bucket = bucket}; }
  Bytes bytes(std::int64_t elements) const {
    return Bytes(elements * bytes_per_element(work_.training.gradients));
  }

  Program update() {
    b_.optimizer(parameter_count(work_.model), work_.training.gradients);
    return b_.finish();
  }

  // Reads and writes them once.
  void copy(Bytes size, std::uint32_t pack, const char* label) { b_.copy(2 * size, 1, pack, label); }

  std::uint32_t all_reduce(Bytes size, std::uint32_t pack) {
    return b_.collective({CollectiveKind::all_reduce, size}, purpose(pack),
                         "all_reduce pack " + std::to_string(pack));
  }

  // Consecutive gradients, each pack from its last gradient on; what is one tensor is not copied.
  Program in_packs(const std::vector<std::size_t>& packs) {
    struct Reduced {
      std::uint32_t collective = 0;
      Bytes size;
      bool joined = false;
    };
    std::vector<Reduced> reduced;
    std::size_t next = 0, in_pack = 0;
    Bytes held;
    b_.passes([&](std::uint32_t layer) {
      for (; next < gradients_.size() && gradients_[next].layer == layer; ++next) {
        const auto pack = static_cast<std::uint32_t>(reduced.size());
        held = held + gradients_[next].bytes;
        if (++in_pack == packs[pack]) {
          if (in_pack > 1) {
            copy(held, pack, "concatenate");
          }
          reduced.push_back({all_reduce(held, pack), held, in_pack > 1});
          held = {};
          in_pack = 0;
        }
      }
    });
    for (std::uint32_t pack = 0; pack < reduced.size(); ++pack) {
      b_.wait(reduced[pack].collective);
      if (reduced[pack].joined) {
        copy(reduced[pack].size, pack, "split");
      }
    }
    return update();
  }

  // All gradients joined, once the last one exists; cut, where there are several packs, and joined again.
  Program in_equal_packs(std::int64_t count) {
    b_.passes([](std::uint32_t) {});
    const std::vector<std::int64_t> packs = equal_packs(parameter_count(work_.model), count);
    const bool joined = gradients_.size() > 1, cut = packs.size() > 1;
    copy_all(joined, cut, "concatenate", "cut");
    std::vector<std::uint32_t> collectives;
    for (const std::int64_t pack : packs) {
      collectives.push_back(all_reduce(bytes(pack), static_cast<std::uint32_t>(collectives.size())));
    }
    for (const std::uint32_t collective : collectives) {
      b_.wait(collective);
    }
    copy_all(cut, joined, "join", "split");
    return update();
  }

  const MirroredSpec& spec_;
  const Workload& work_;
  std::uint32_t gpus_;
  ProgramBuilder b_;
  // Variables are listed in the order of the layers; gradients exist in the reverse.
  std::vector<Gradient> gradients_;
};

Role replica(const char* name, const Program& program) { return {name, {{program, program}}}; }

void add_copies(const MirroredSpec& spec, const MixedWork& mixed, PlanTable& plans, TrainingJob& job) {
  const std::uint32_t gpus = plans.layout().ranks();
  std::vector<Family> others, of_half;
  for (std::uint32_t r = 0; r < gpus; ++r) {
    MirroredIteration iteration(spec, mixed.works[mixed.of(r)], plans);
    const bool halves = spec.cross_device_ops == CrossDeviceOps::hierarchical_copy;
    job.roles.push_back(replica("replica", halves ? iteration.with_halves(r) : iteration.with_copies(r)));
    job.members.push_back({r, {}});
    const std::vector<std::uint32_t> one_group(gpus, 0);
    job.families.push_back({{{r}}, one_group});
    others.push_back({{{}}, one_group});
    of_half.push_back({{{}}, one_group});
    for (std::uint32_t to = 0; to < gpus; ++to) {
      if (to != r) {
        others.back().groups.front().push_back(to);
      }
      if (to != r && 2 * to / gpus == 2 * r / gpus) {
        of_half.back().groups.front().push_back(to);
      }
    }
  }
  std::ranges::move(others, std::back_inserter(job.families));
  std::ranges::move(of_half, std::back_inserter(job.families));
}

}  // namespace

std::vector<std::size_t> packs_by_size(std::span<const Bytes> sizes, Bytes bytes_per_pack) {
  std::vector<std::size_t> packs;
  Bytes held;
  for (const Bytes size : sizes) {
    if (packs.empty() || (bytes_per_pack.value > 0 && held > bytes_per_pack)) {
      packs.push_back(0);
      held = {};
    }
    ++packs.back();
    held = held + size;
  }
  return packs;
}

std::vector<std::int64_t> equal_packs(std::int64_t elements, std::int64_t packs) {
  const std::int64_t each = elements / packs;
  std::vector<std::int64_t> all(each > 0 ? static_cast<std::size_t>(packs - 1) : 0, each);
  all.push_back(elements - each * static_cast<std::int64_t>(all.size()));
  return all;
}

void add_mirrored_programs(const MirroredSpec& spec, const MixedWork& mixed, PlanTable& plans,
                           TrainingJob& job) {
  check(spec, mixed.works.front().training, plans.layout());
  job.roles.clear();
  if (copies_gradients(spec)) {
    add_copies(spec, mixed, plans, job);
    return;
  }
  if (spec.cross_device_ops == CrossDeviceOps::nccl_then_ring) {
    add_ring_of_nodes(mixed, plans, job);
    return;
  }
  for (const Workload& work : mixed.works) {
    MirroredIteration iteration(spec, work, plans);
    const bool workers = spec.cross_device_ops == CrossDeviceOps::multi_worker;
    job.roles.push_back(replica("rank", workers ? iteration.with_workers() : iteration.with_nccl()));
  }
  for (const std::uint32_t work : mixed.of_rank) {
    job.members.push_back({work, {}});
  }
  job.families = plans.families();
}

}  // namespace paceline
