#include "scenarios/other_words.h"

#include <algorithm>
#include <string>

namespace paceline {
namespace {

constexpr std::string_view kOfOneGpu = "It counts samples of one GPU in one pass.",
                           kGlobalBatch =
                               R"(It follows from "batch_per_gpu", "accumulation" and the number of GPUs.)",
                           kSequence = R"(A model has it: {"preset": NAME, "sequence": TOKENS}.)",
                           kGpuCount = R"(It follows from "nodes" and "gpus_per_node".)",
                           kDataParallel = "Only data parallelism is simulated.",
                           kNoMatter = "No step's time depends on it.";

constexpr OtherWord kKeys[] = {
    {"batch_size", "batch_per_gpu", kOfOneGpu},
    {"micro_batch", "batch_per_gpu", kOfOneGpu},
    {"micro_batch_size", "batch_per_gpu", kOfOneGpu},
    {"train_micro_batch_size_per_gpu", "batch_per_gpu", kOfOneGpu},
    {"per_device_train_batch_size", "batch_per_gpu", kOfOneGpu},
    {"local_batch_size", "batch_per_gpu", kOfOneGpu},
    {"global_batch", "", kGlobalBatch},
    {"global_batch_size", "", kGlobalBatch},
    {"train_batch_size", "", kGlobalBatch},
    {"seq_len", "", kSequence},
    {"seq_length", "", kSequence},
    {"sequence_length", "", kSequence},
    {"max_seq_len", "", kSequence},
    {"max_seq_length", "", kSequence},
    {"block_size", "", kSequence},
    {"context_length", "", kSequence},
    {"num_layers", "layers", ""},
    {"num_hidden_layers", "layers", ""},
    {"n_layer", "layers", ""},
    {"hidden_size", "hidden", ""},
    {"n_embd", "hidden", ""},
    {"d_model", "hidden", ""},
    {"num_attention_heads", "heads", ""},
    {"num_heads", "heads", ""},
    {"n_head", "heads", ""},
    {"num_key_value_heads", "key_value_heads", ""},
    {"num_query_groups", "key_value_heads", ""},
    {"intermediate_size", "feed_forward", ""},
    {"ffn_hidden_size", "feed_forward", ""},
    {"vocab_size", "vocabulary", ""},
    {"tie_word_embeddings", "tied_embeddings", ""},
    {"require_backward_grad_sync", "no_sync", "It is false where every pass reduces."},
    {"gradient_accumulation", "accumulation", ""},
    {"gradient_accumulation_steps", "accumulation", ""},
    {"grad_accum", "accumulation", ""},
    {"accumulate_grad_batches", "accumulation", ""},
    {"dtype", "precision", ""},
    {"torch_dtype", "precision", ""},
    {"param_dtype", "param_precision", ""},
    {"reduce_dtype", "reduce_precision", ""},
    {"amp", "precision", ""},
    {"mixed_precision", "precision", ""},
    {"gradient_checkpointing", "activation_checkpointing", ""},
    {"recompute", "activation_checkpointing", ""},
    {"world_size", "", kGpuCount},
    {"nproc_per_node", "gpus_per_node", ""},
    {"tensor_parallel", "", kDataParallel},
    {"tensor_parallel_size", "", kDataParallel},
    {"tensor_model_parallel_size", "", kDataParallel},
    {"pipeline_parallel", "", kDataParallel},
    {"pipeline_parallel_size", "", kDataParallel},
    {"pipeline_model_parallel_size", "", kDataParallel},
    {"context_parallel", "", kDataParallel},
    {"expert_parallel", "", kDataParallel},
    {"sequence_parallel", "", kDataParallel},
    {"lr", "", kNoMatter},
    {"learning_rate", "", kNoMatter},
    {"weight_decay", "", kNoMatter},
    {"sharding_strategy", "reshard_after_forward",
     R"(SHARD_GRAD_OP is false; "shard_group" is HYBRID_SHARD's.)"},
    {"nccl_algo", "algorithm", ""},
    {"nccl_proto", "protocol", ""},
    {"nccl_max_nchannels", "max_channels", ""},
    {"nccl_max_ctas", "max_channels", ""},
    {"nccl_min_nchannels", "min_channels", ""},
    {"nccl_min_ctas", "min_channels", ""},
    {"nccl_cross_nic", "cross_nic", ""},
    {"nccl_pxn_disable", "pxn", "It is false where NCCL's is 1."},
    {"nccl_nvls_enable", "nvls", "It is false where NCCL's is 0."},
    {"nccl_p2p_level", "p2p_level", "A node has it."},
    {"nccl_p2p_disable", "p2p_level", R"(A node has it; "loc" is NCCL's 1.)"},
    {"nccl_net_gdr_level", "gpu_direct", "A node has it."},
    {"nccl_buffsize", "buffer", ""},
    {"nccl_socket_nthreads", "socket_threads", ""},
    {"nccl_nsocks_perthread", "sockets_per_thread", ""},
};

constexpr OtherWord kValues[] = {
    {"bfloat16", "bf16", ""},
    {"float16", "fp16", ""},
    {"half", "fp16", ""},
    {"float32", "fp32", ""},
    {"float", "fp32", ""},
    {"float8", "fp8", ""},
    {"selective", "selective_op",
     R"(By layers (torchtitan) it is "full" with "recompute_every", of attention alone (Megatron) it is "none".)"},
    {"op", "selective_op", ""},
    {"nvl", "loc", "Without NVLink they are one; with NVLink it is said by nothing less than \"pxb\"."},
    {"hsdp", "fsdp", R"(Its "shard_group" in "fsdp" is "node".)"},
    {"hybrid_shard", "fsdp", R"(Its "shard_group" in "fsdp" is "node".)"},
    {"fsdp2", "fsdp", ""},
    {"full_shard", "fsdp", ""},
    {"zero1", "zero", R"(Its "stage" in "zero" is 1.)"},
    {"zero2", "zero", R"(Its "stage" in "zero" is 2.)"},
    {"zero3", "zero", R"(Its "stage" in "zero" is 3.)"},
    {"deepspeed", "zero", R"(Its "stage" in "zero" is 1, 2 or 3.)"},
};

}  // namespace

std::span<const OtherWord> other_keys() { return kKeys; }
std::span<const OtherWord> other_values() { return kValues; }

const OtherWord* find_other(std::span<const OtherWord> words, std::string_view word) {
  std::string plain(word);
  for (char& c : plain) {
    c = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  const auto found = std::ranges::find(words, plain, &OtherWord::word);
  return found == words.end() ? nullptr : &*found;
}

}  // namespace paceline
