// Which PyTorch's rules hold, where they differ between versions.
#pragma once

#include <compare>
#include <string>

namespace paceline {

// 1.13, and 2.0 to 2.15.
struct PyTorchVersion {
  int major = 2, minor = 15;
  friend auto operator<=>(const PyTorchVersion&, const PyTorchVersion&) = default;
};
inline constexpr PyTorchVersion kOldestPyTorch{1, 13}, kNewestPyTorch{2, 15};

// From here on a bucket_cap_mb that is given is the first bucket's cap too (torch/nn/parallel/distributed.py).
inline constexpr PyTorchVersion kCapIsFirstBucketToo{2, 4};

// From here on there is fully_shard as public API (torch.distributed.fsdp).
inline constexpr PyTorchVersion kFullyShard{2, 6};

// "2.4", "2.4.1", or as torch.__version__ has it, "2.4.1+cu124" or "1.13.0a0"; throws InputError with what is known.
PyTorchVersion pytorch_version(const std::string& text);
std::string to_string(PyTorchVersion);  // "2.4"

// The NCCL that its packages on PyPI bring ("2.21"), or that is linked into them (1.13): their requirements, and the
// matrix in PyTorch's RELEASE.md; 2.15: the main branch since pull request 187526 (June 2026).
std::string nccl_of(PyTorchVersion);

}  // namespace paceline
