#include "sim/strategy/data_parallel.h"

#include <numeric>
#include <string>
#include <utility>

#include "core/error.h"
#include "sim/strategy/buffers.h"
#include "sim/strategy/ddp.h"

namespace paceline {
namespace {

constexpr std::uint32_t kRoot = 0;  // the GPU that has the model, and the outputs

// A GPU's program, and when the process has issued each of its operations, from the iteration's beginning.
struct GpuProgram {
  ProgramBuilder builder;
  std::vector<SimTime> issued;

  // All that was added since the last call.
  void issue(SimTime at) { issued.resize(builder.program().ops.size(), at); }
  SimTime last() const { return issued.empty() ? SimTime{} : issued.back(); }
  Program finish() {
    Program program = builder.finish();
    SimTime before;
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      program.ops[i].host_cost = issued[i] - std::exchange(before, issued[i]);
    }
    return program;
  }
};

std::vector<Bytes> tensor_sizes(const Model& model, Precision precision) {
  std::vector<Bytes> sizes;
  for (const Layer& layer : model.layers) {
    for (const std::int64_t elements : layer.parameters) {
      sizes.emplace_back(elements * bytes_per_element(precision));
    }
  }
  return sizes;
}

// One iteration, stage by stage: nothing of a stage begins on a GPU before the stage before has ended there, and copies
// take turns on the first GPU's stream. The process issues; `now_` is its main thread's time.
class DataParallelIteration {
 public:
  DataParallelIteration(const Workload& work, PlanTable& plans)
      : work_(work),
        training_(work.training),
        gpus_(plans.layout().ranks()),
        launch_(to_sim_time(training_.host.kernel_launch)),
        collective_launch_(to_sim_time(training_.host.collective_launch)),
        nccl_(training_.data_parallel.transfers == DataParallelTransfers::nccl) {
    for (std::uint32_t r = 0; r < gpus_; ++r) {
      of_.push_back({ProgramBuilder(work, plans), {}});
    }
  }

  std::vector<Program> build() {
    for (int micro = 0; micro < training_.accumulation; ++micro) {
      take_batch();
      scatter_inputs();
      replicate();
      forward();
      gather_outputs();
      backward();
      reduce_gradients(micro);
    }
    root().builder.optimizer(parameter_count(work_.model), training_.gradients);
    issue_kernels(root());
    together();
    std::vector<Program> programs;
    for (GpuProgram& gpu : of_) {
      programs.push_back(gpu.finish());
    }
    return programs;
  }

 private:
  GpuProgram& root() { return of_[kRoot]; }

  // The main thread issues what was added to a GPU, at what it costs by itself, or so many times.
  void issue_kernels(GpuProgram& gpu, std::int64_t times = 1) {
    const std::vector<Op>& ops = gpu.builder.program().ops;
    for (std::size_t i = gpu.issued.size(); i < ops.size(); ++i) {
      now_ += times * ops[i].host_cost;
      gpu.issued.push_back(now_);
    }
  }

  // No GPU's next operation is issued before the main thread has come here.
  void together() {
    for (GpuProgram& gpu : of_) {
      if (gpu.last() < now_) {
        gpu.builder.mark("host");
        gpu.issue(now_);
      }
    }
  }

  void take_batch() {
    if (!training_.input) {
      return;
    }
    together();
    for (GpuProgram& gpu : of_) {
      gpu.builder.take_batch();
      gpu.issue(now_);
    }
  }

  // From the host's memory, all at once: each on a stream of its GPU.
  void scatter_inputs() {
    const Bytes each(work_.model.input_bytes.value * training_.batch_per_gpu);
    if (each.value == 0) {
      return;
    }
    const std::uint32_t channel = channels_++;
    for (std::uint32_t r = 0; r < gpus_; ++r) {
      now_ += launch_;
      of_[r].builder.send(channel, r, each, {.phase = Phase::forward}, "scatter inputs", gpus_);
      of_[r].builder.gate(channel, 1, "inputs");
      of_[r].issue(now_);
    }
  }

  // A copy to each other GPU, or from each, on the first GPU's stream: the next begins there when the one before has
  // ended. What tells streams of two GPUs about each other takes the link's latency.
  void copies_out(Bytes bytes, const Purpose& purpose, const std::string& label) {
    for (std::uint32_t r = 1; r < gpus_; ++r) {
      const std::uint32_t channel = channels_++;
      now_ += launch_;
      root().builder.send(channel, r, bytes, purpose, label);
      root().builder.gate(channel, 1, label);
      root().issue(now_);
      of_[r].builder.gate(channel, 1, label);
      of_[r].builder.send(channel, kRoot, Bytes(0), purpose, "copied");
      of_[r].issue(now_);
    }
  }
  template <class F>  // after(): with what has come
  void copies_in(Bytes bytes, const Purpose& purpose, const std::string& label, const F& after) {
    for (std::uint32_t r = 1; r < gpus_; ++r) {
      const std::uint32_t channel = channels_++;
      now_ += launch_;
      root().builder.send(channel, r, Bytes(0), purpose, "ready");
      root().builder.gate(channel, 1, label);
      root().issue(now_);
      of_[r].builder.gate(channel, 1, label);
      of_[r].builder.send(channel, kRoot, bytes, purpose, label);
      of_[r].issue(now_);
      after();
    }
  }

  // Of the compute streams, one after the other issued by one thread.
  void on_all(CollectiveKind kind, Bytes bytes, const Purpose& purpose, const std::string& label) {
    for (GpuProgram& gpu : of_) {
      now_ += collective_launch_;
      gpu.builder.wait(gpu.builder.collective({kind, bytes, kAllRanks, kRoot}, purpose, label));
      gpu.issue(now_);
    }
  }

  // Joins several tensors for one transfer: reads and writes them once.
  void flatten(GpuProgram& gpu, Bytes bytes, std::size_t tensors, const Purpose& purpose) {
    if (tensors > 1) {
      gpu.builder.move(2 * bytes, purpose, "flatten");
      issue_kernels(gpu);
    }
  }

  void broadcast(Bytes bytes, std::size_t tensors, Payload what, const std::string& label) {
    const Purpose purpose{.phase = Phase::forward, .payload = what};
    flatten(root(), bytes, tensors, {.phase = Phase::forward});
    if (nccl_) {
      on_all(CollectiveKind::broadcast, bytes, purpose, label);
    } else {
      copies_out(bytes, purpose, label);
    }
  }

  void replicate() {
    const std::vector<Bytes> sizes = tensor_sizes(work_.model, kept_in(training_.precision));
    for (const std::vector<std::size_t>& chunk :
         assign_buckets(sizes, kDataParallelChunk, kDataParallelChunk)) {
      Bytes bytes;
      for (const std::size_t tensor : chunk) {
        bytes = bytes + sizes[tensor];
      }
      broadcast(bytes, chunk.size(), Payload::parameters, "broadcast parameters");
    }
    for (const Buffers& each : buffers_of(work_.model)) {
      broadcast(each.bytes, 2, each.what, "broadcast buffers");
    }
  }

  // A Python thread for each GPU. Launch k of GPU r is issued at (k n + r + 1) c: the interpreter's lock goes round.
  void forward() {
    const SimTime began = now_;
    std::int64_t launches = 0;
    for (std::uint32_t l = 0; l < work_.model.layers.size(); ++l) {
      launches += work_.layers[l].forward_launches;
      for (std::uint32_t r = 0; r < gpus_; ++r) {
        of_[r].builder.forward(l);
        const std::int64_t turns = launches == 0 ? 0 : (launches - 1) * gpus_ + r + 1;
        of_[r].issue(began + turns * launch_);
      }
    }
    now_ += launches * gpus_ * launch_;
  }

  // Outputs come to the first GPU, whose loss reads them and writes their gradients, which go back.
  void gather_outputs() {
    const Bytes each = gathered_outputs(work_.model, training_);
    const Purpose out{.phase = Phase::forward}, back{.phase = Phase::backward};
    root().builder.move(2 * each, out, "gather own outputs");
    issue_kernels(root());
    copies_in(each, out, "gather outputs", [] {});
    root().builder.move(std::int64_t{2} * gpus_ * each, out, "loss");
    issue_kernels(root());
    copies_out(each, back, "scatter gradients of outputs");
  }

  // A thread of autograd's for each GPU, which nothing holds up but the interpreter's lock where forward runs again:
  // that is Python's, as in forward().
  void backward() {
    const SimTime began = now_;
    for (GpuProgram& gpu : of_) {
      now_ = began;
      for (auto l = static_cast<std::uint32_t>(work_.model.layers.size()); l-- > 0;) {
        gpu.builder.recompute(l);
        issue_kernels(gpu, gpus_);
        gpu.builder.backward_kernels(l);
        issue_kernels(gpu);
      }
    }
  }

  // When autograd has all of them, to the first GPU; there they add to those of the passes before.
  void reduce_gradients(int micro) {
    const std::vector<Bytes> sizes = tensor_sizes(work_.model, training_.gradients);
    std::size_t first = 0;
    std::uint32_t bucket = 0;
    for (const std::size_t tensors : reduced_chunks(sizes, kDataParallelChunk)) {
      const Bytes bytes =
          std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(first),
                          sizes.begin() + static_cast<std::ptrdiff_t>(first + tensors), Bytes(0));
      const Purpose purpose{.phase = Phase::exchange, .bucket = bucket};
      for (GpuProgram& gpu : of_) {
        flatten(gpu, bytes, tensors, purpose);
      }
      if (nccl_) {
        on_all(CollectiveKind::reduce, bytes, purpose, "reduce gradients " + std::to_string(bucket));
      } else {
        copies_in(bytes, purpose, "gradients " + std::to_string(bucket), [&] {
          root().builder.move(3 * bytes, purpose, "add");
          issue_kernels(root());
        });
      }
      first += tensors;
      ++bucket;
    }
    for (std::uint32_t l = 0; micro > 0 && l < work_.model.layers.size(); ++l) {
      root().builder.accumulate(l);
    }
    issue_kernels(root());
  }

  const Workload& work_;
  const TrainingSpec& training_;
  std::uint32_t gpus_;
  SimTime launch_, collective_launch_;
  bool nccl_;
  std::vector<GpuProgram> of_;
  SimTime now_;
  std::uint32_t channels_ = 0;
};

}  // namespace

std::vector<std::size_t> reduced_chunks(std::span<const Bytes> sizes, Bytes limit) {
  std::vector<std::size_t> chunks;
  Bytes held;
  for (const Bytes size : sizes) {
    if (chunks.empty() || (held.value > 0 && held + size > limit)) {
      chunks.push_back(0);
      held = {};
    }
    ++chunks.back();
    held = held + size;
  }
  return chunks;
}

Bytes gathered_outputs(const Model& model, const TrainingSpec& training) {
  return Bytes(model.layers.back().output_elements * training.batch_per_gpu *
               bytes_per_element(kept_in(training.precision)));
}

void add_data_parallel_programs(const Workload& work, PlanTable& plans, TrainingJob& job) {
  const RankLayout& layout = plans.layout();
  if (layout.nodes > 1) {
    throw InputError(
        "expected one node with the strategy data_parallel, whose GPUs are one process's, found " +
            std::to_string(layout.nodes) + "; \"ddp\" has a process for each GPU",
        "/training/strategy");
  }
  if (work.training.collective.library != CollectiveLibrary::nccl) {
    throw InputError("expected GPUs, and NCCL, with the strategy data_parallel, found another library",
                     "/training/collective/library");
  }
  const std::uint32_t gpus = layout.ranks();
  std::vector<Program> programs = DataParallelIteration(work, plans).build();
  job.roles.clear();
  for (std::uint32_t r = 0; r < gpus; ++r) {
    job.roles.push_back({"GPU " + std::to_string(r), {{programs[r], programs[r]}}});
    job.members.push_back({r, {}});
    job.families.push_back({{{r}}, std::vector<std::uint32_t>(gpus, 0)});
  }
  if (work.model.input_bytes.value > 0) {
    job.members.push_back({kRoot, {}});  // the host's memory
  }
  job.one_process = true;
  if (job.input) {  // one loader, for all GPUs
    job.input->batch_time = to_sim_time(
        Seconds(static_cast<double>(work.training.batch_per_gpu) * gpus / work.training.input->rate.value));
  }
}

}  // namespace paceline
