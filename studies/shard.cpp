#include "studies/shard.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "scenarios/json.h"
#include "scenarios/readable.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

// "3/16", with any mark in place of the slash.
std::optional<SweepShard> two_numbers(std::string_view text, char mark) {
  SweepShard shard;
  const char* const end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, shard.index);
  if (index.ec != std::errc() || index.ptr == end || *index.ptr != mark) {
    return std::nullopt;
  }
  const auto count = std::from_chars(index.ptr + 1, end, shard.count);
  return count.ec == std::errc() && count.ptr == end ? std::optional(shard) : std::nullopt;
}

constexpr std::string_view kBefore = "results.", kAfter = ".jsonl";

}  // namespace

SweepShard shard_named(const std::string& text) {
  const std::optional<SweepShard> shard = two_numbers(text, '/');
  if (!shard) {
    throw InputError("expected a shard such as 3/16, found " + in_quotes(text), "--shard");
  }
  if (shard->count < 1 || shard->count > kMostShards) {
    throw InputError(
        "expected 1 to " + std::to_string(kMostShards) + " shards, found " + std::to_string(shard->count),
        "--shard");
  }
  if (shard->index >= shard->count) {
    throw InputError("expected a shard from 0 to " + std::to_string(shard->count - 1) + ", found " +
                         std::to_string(shard->index),
                     "--shard");
  }
  return *shard;
}

std::string file_of(const SweepShard& shard) {
  return std::string(kBefore) + std::to_string(shard.index) + '-' + std::to_string(shard.count) +
         std::string(kAfter);
}

std::vector<ShardFile> shard_files(const std::string& folder, std::uint32_t count) {
  std::vector<ShardFile> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kBefore) && name.ends_with(kAfter) && name.size() > kBefore.size() + kAfter.size()) {
      const std::string_view between =
          std::string_view(name).substr(kBefore.size(), name.size() - kBefore.size() - kAfter.size());
      if (const std::optional<SweepShard> shard = two_numbers(between, '-');
          shard && file_of(*shard) == name) {
        files.push_back({name, *shard});
      }
    }
  }
  std::ranges::sort(files, {}, [](const ShardFile& file) { return file.shard.index; });
  for (const ShardFile& file : files) {
    const std::uint32_t wanted = count == 0 ? files.front().shard.count : count;
    if (file.shard.count != wanted) {
      throw InputError("expected " + plural(wanted, "shard") + ", found one of " +
                           std::to_string(file.shard.count) +
                           ": join those first (the same sweep without --shard), or delete them",
                       {}, (fs::path(folder) / file.name).string());
    }
  }
  return files;
}

bool holds(const SweepShard& shard, std::string_view key) {
  std::uint64_t rest = 0;
  for (const char digit : key) {
    rest =
        (rest * 16 + static_cast<std::uint64_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10)) % shard.count;
  }
  return rest == shard.index;
}

}  // namespace paceline
