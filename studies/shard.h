// A part of a study's points, for machines that share nothing but a folder: batch systems' job arrays.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

struct SweepShard {
  std::uint32_t index = 0, count = 1;  // the index-th of count, from 0
  friend bool operator==(const SweepShard&, const SweepShard&) = default;
};

inline constexpr std::uint32_t kMostShards = 10'000;

// "3/16". Throws InputError (place --shard) for anything else, and for no or too many shards.
SweepShard shard_named(const std::string& text);

// "results.3-16.jsonl", and its shard.
std::string file_of(const SweepShard&);
struct ShardFile {
  std::string name;
  SweepShard shard;
};
// Those of a folder, by index. Throws InputError where they are of different counts, or none of `count`, unless
// that is 0.
std::vector<ShardFile> shard_files(const std::string& folder, std::uint32_t count = 0);

// Whether a key belongs to the shard: as a number, it is the index modulo the count. `key`: hexadecimal digits.
bool holds(const SweepShard&, std::string_view key);

}  // namespace paceline
