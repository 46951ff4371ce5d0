// What a scenario says of days of training: what fails, how it is noticed, how the job comes up again, how it is saved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/names.h"
#include "core/units.h"
#include "sim/campaign/campaign_spec.h"

namespace paceline {

// How a failure is noticed.
enum class NoticedBy : std::uint8_t { exit, keep_alive, timeout };
template <>
inline constexpr auto kNames<NoticedBy> = names<NoticedBy>(
    {{"exit", NoticedBy::exit}, {"keep_alive", NoticedBy::keep_alive}, {"timeout", NoticedBy::timeout}});

// Of times between failures of one part. weibull: its shape; 1: exponential.
struct LifeDistribution {
  double weibull = 1;
};

struct FailureSpec {
  FailingPart of = FailingPart::node;
  std::string name;  // empty: as the part
  LongSeconds mtbf;  // of one part; 0: the trace alone says when
  LifeDistribution distribution;
  std::optional<FailureTakes>
      takes;  // left out: a switch its leaf, software a process, all others their node
  std::optional<NoticedBy> noticed_by;  // left out: a process by its exit, a node by keep-alives
  LongSeconds repair;
};

// A line of a trace.
struct FailureEvent {
  LongSeconds time;
  std::string what;  // a failure's name
  std::int64_t which = 0;
  std::size_t line = 0;  // of the trace; 0: the scenario itself says it
};

struct SlowNodes {
  LongSeconds every, lasts;
  double factor = 1;
};
struct LinkFlaps {
  LongSeconds every, lasts;
  double bandwidth_factor = 1;
};

// torchrun's and NCCL's.
struct DetectionSpec {
  LongSeconds monitor_interval{0.1};    // torchrun --monitor-interval
  LongSeconds keep_alive{5};            // of c10d's rendezvous
  int keep_alives = 3;                  // missed ones after which a node is gone
  LongSeconds collective_timeout{600};  // NCCL's in PyTorch
  LongSeconds watchdog{0.1};            // between two looks of ProcessGroupNCCL's watchdog
};

struct RestartSpec {
  std::optional<std::int64_t> max_restarts;
  LongSeconds stop{0};
  LongSeconds rendezvous{1};  // who waits in c10d's rendezvous looks once a second
  LongSeconds last_call{30};  // of a rendezvous that fewer nodes may complete
  LongSeconds join_timeout{600};
  LongSeconds resubmit{0};
  LongSeconds start{30};            // processes, Python and its imports: 10 to 60 s
  LongSeconds initialisation{3.5};  // of NCCL, at 24 ranks
  LongSeconds replacement{0};       // until a spare node is ready
  std::optional<LongSeconds> load;
};

enum class CheckpointKind : std::uint8_t { sync, async, in_memory, two_level };
template <>
inline constexpr auto kNames<CheckpointKind> =
    names<CheckpointKind>({{"sync", CheckpointKind::sync},
                           {"async", CheckpointKind::async},
                           {"in_memory", CheckpointKind::in_memory},
                           {"two_level", CheckpointKind::two_level}});

// A time, a number of steps, or a rule.
struct CheckpointInterval {
  IntervalRule rule = IntervalRule::daly;
  LongSeconds time;
  std::int64_t steps = 0;
};

struct CheckpointSpec {
  CheckpointKind kind = CheckpointKind::sync;
  CheckpointInterval interval;
  Bytes bytes;                       // of all of it; 0: parameters and optimizer state
  BytesPerSecond gpu_bandwidth;      // a GPU's to its host; 0: the node's PCIe links
  BytesPerSecond node_bandwidth;     // a node's to storage and to its peer; 0: all its NICs
  BytesPerSecond storage_bandwidth;  // of all nodes together; 0: nobody said
  std::optional<LongSeconds> stall, upload;
  int storage_every = 1;
};

struct ElasticSpec {
  int min_nodes = 1;
  bool keep_batch = false;
};

struct FaultsSpec {
  LongSeconds length;                           // 0: until the work is done
  std::int64_t steps = 0, samples = 0;          // the work; 0: until the length is over
  std::optional<LongSeconds> step, first_step;  // instead of simulating
  int seeds = 1;
  double goal = 0.9;  // of goodput, for which intervals are told
  int spares = 0;
  std::optional<ElasticSpec> elastic;
  std::vector<FailureSpec> failures;
  std::string trace;  // a file, read into events
  std::vector<FailureEvent> events;
  std::vector<SlowNodes> slow_nodes;
  std::vector<LinkFlaps> link_flaps;
  DetectionSpec detection;
  RestartSpec restart;
  CheckpointSpec checkpoint;
};

inline constexpr LongSeconds kLongestCampaign{10 * 31557600.0};  // ten years

inline std::string name_of(const FailureSpec& f) {
  return f.name.empty() ? std::string(name_of(f.of)) : f.name;
}
inline FailureTakes taken_by(const FailureSpec& f) {
  return f.takes.value_or(f.of == FailingPart::leaf_switch ? FailureTakes::leaf
                          : f.of == FailingPart::software  ? FailureTakes::process
                                                           : FailureTakes::node);
}
inline NoticedBy noticed_by(const FailureSpec& f) {
  return f.noticed_by.value_or(taken_by(f) == FailureTakes::process ? NoticedBy::exit
                                                                    : NoticedBy::keep_alive);
}

}  // namespace paceline
