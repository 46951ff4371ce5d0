#include "scenarios/other_words.h"

#include <algorithm>
#include <string>
#include <utility>

namespace paceline {
namespace {

constexpr std::string_view kBatch = R"(It is "batch_per_gpu" here: samples of one GPU in one pass.)",
                           kGlobalBatch =
                               R"(It follows from "batch_per_gpu", "accumulation" and the number of GPUs.)",
                           kSequence = R"(The model has it: "model": {"preset": NAME, "sequence": TOKENS}.)",
                           kAccumulation = R"(It is "accumulation" here.)",
                           kPrecision = R"(It is "precision" here.)",
                           kRanks = R"(It follows from "nodes" and "gpus_per_node" of "cluster".)",
                           kDataParallel = "Only data parallelism is simulated.",
                           kNoMatter = "No step's time depends on it.",
                           kCheckpointing = R"(It is "activation_checkpointing": "full" here.)",
                           kHybrid = R"(It is "fsdp" with "fsdp": {"shard_group": "node"}.)",
                           kSteps = R"(It is "run": {"iterations": N} here.)";

constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {"batch_size", kBatch},
    {"micro_batch", kBatch},
    {"micro_batch_size", kBatch},
    {"train_micro_batch_size_per_gpu", kBatch},
    {"per_device_train_batch_size", kBatch},
    {"local_batch_size", kBatch},
    {"global_batch", kGlobalBatch},
    {"global_batch_size", kGlobalBatch},
    {"train_batch_size", kGlobalBatch},
    {"seq_len", kSequence},
    {"seq_length", kSequence},
    {"sequence_length", kSequence},
    {"max_seq_len", kSequence},
    {"max_seq_length", kSequence},
    {"block_size", kSequence},
    {"context_length", kSequence},
    {"gradient_accumulation", kAccumulation},
    {"gradient_accumulation_steps", kAccumulation},
    {"grad_accum", kAccumulation},
    {"accumulate_grad_batches", kAccumulation},
    {"dtype", kPrecision},
    {"torch_dtype", kPrecision},
    {"param_dtype", kPrecision},
    {"amp", kPrecision},
    {"mixed_precision", kPrecision},
    {"gradient_checkpointing", kCheckpointing},
    {"recompute", kCheckpointing},
    {"world_size", kRanks},
    {"num_gpus", kRanks},
    {"ngpus", kRanks},
    {"nproc_per_node", kRanks},
    {"tensor_parallel", kDataParallel},
    {"tensor_parallel_size", kDataParallel},
    {"tensor_model_parallel_size", kDataParallel},
    {"pipeline_parallel", kDataParallel},
    {"pipeline_parallel_size", kDataParallel},
    {"pipeline_model_parallel_size", kDataParallel},
    {"context_parallel", kDataParallel},
    {"expert_parallel", kDataParallel},
    {"sequence_parallel", kDataParallel},
    {"lr", kNoMatter},
    {"learning_rate", kNoMatter},
    {"weight_decay", kNoMatter},
    {"momentum", kNoMatter},
    {"max_steps", kSteps},
    {"num_steps", kSteps},
    {"max_iters", kSteps},
    {"sharding_strategy",
     R"(Of "fsdp" it is "reshard_after_forward" (SHARD_GRAD_OP: false) and "shard_group" (HYBRID_SHARD: "node").)"},
    {"nccl_algo", R"(It is "algorithm" here.)"},
    {"nccl_proto", R"(It is "protocol" here.)"},
    {"nccl_max_nchannels", R"(It is "max_channels" here.)"},
    {"nccl_max_ctas", R"(It is "max_channels" here.)"},
    {"nccl_min_nchannels", R"(It is "min_channels" here.)"},
    {"nccl_min_ctas", R"(It is "min_channels" here.)"},
    {"nccl_cross_nic", R"(It is "cross_nic" here.)"},
    {"nccl_pxn_disable", R"(It is "pxn": false here.)"},
    {"nccl_nvls_enable", R"(It is "nvls": false here where it is 0.)"},
    {"nccl_buffsize", R"(It is "buffer" here.)"},
    {"nccl_socket_nthreads", R"(It is "socket_threads" here.)"},
    {"nccl_nsocks_perthread", R"(It is "sockets_per_thread" here.)"},
    {"bfloat16", R"(It is "bf16" here.)"},
    {"float16", R"(It is "fp16" here.)"},
    {"half", R"(It is "fp16" here.)"},
    {"float32", R"(It is "fp32" here.)"},
    {"float", R"(It is "fp32" here.)"},
    {"single", R"(It is "fp32" here.)"},
    {"float8", R"(It is "fp8" here.)"},
    {"hsdp", kHybrid},
    {"hybrid_shard", kHybrid},
    {"fsdp2", R"(It is "fsdp" here.)"},
    {"full_shard", R"(It is "fsdp" here.)"},
    {"zero1", R"(It is "zero" with "zero": {"stage": 1}.)"},
    {"zero2", R"(It is "zero" with "zero": {"stage": 2}.)"},
    {"zero3", R"(It is "zero" with "zero": {"stage": 3}.)"},
    {"deepspeed", R"(It is "zero" with "zero": {"stage": 1}, 2 or 3.)"},
};

}  // namespace

std::string_view other_word(std::string_view word) {
  std::string plain(word);
  for (char& c : plain) {
    c = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  const auto found = std::ranges::find(kWords, plain, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kWords) ? std::string_view() : found->second;
}

std::vector<std::string_view> other_words() {
  std::vector<std::string_view> words;
  for (const auto& [word, sentence] : kWords) {
    words.push_back(word);
  }
  return words;
}

}  // namespace paceline
