// The event queue: a 4-ary heap of 24-byte events in the order (time, sequence), which is total.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include "core/time.h"

namespace paceline {

enum class EventKind : std::uint32_t {
  host_done,
  batch_ready,
  kernel_end,
  collective_start,
  collective_end,
  move_end,
  arrival,
  transfer,
  sent,
  message,
  served,
  background,
  agreed
};

struct Event {
  SimTime time;
  std::uint64_t sequence = 0;
  EventKind kind = EventKind::host_done;
  // Thread; collective_start, collective_end: queue; move_end: thread block; arrival, transfer: FIFO; sent, message: its id;
  // served: member; background: rank; agreed: none.
  std::uint32_t subject = 0;
};
static_assert(sizeof(Event) == 24);

class Timeline {
 public:
  // No allocation happens while at most `capacity` events are pending.
  explicit Timeline(std::size_t capacity) { heap_.reserve(capacity); }

  bool empty() const { return heap_.empty(); }
  // All pending events, in order.
  std::span<const Event> in_order() {
    std::sort(heap_.begin(), heap_.end(), before);  // which is a heap, too
    return heap_;
  }
  SimTime next() const { return heap_.front().time; }  // Requires: !empty()

  // Events pushed earlier come first among those of one time. Returns the event's sequence number.
  std::uint64_t push(SimTime time, EventKind kind, std::uint32_t subject) {
    const Event event{time, sequence_++, kind, subject};
    std::size_t hole = heap_.size();
    heap_.push_back(event);
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / kArity;
      if (!before(event, heap_[parent])) {
        break;
      }
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = event;
    return event.sequence;
  }

  // Requires: !empty()
  Event pop() {
    assert(!heap_.empty());
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) {
      sink(last);
    }
    return first;
  }

 private:
  static constexpr std::size_t kArity = 4;

  static bool before(const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.sequence < b.sequence;
  }

  // Puts `event` where the root was.
  void sink(const Event& event) {
    std::size_t hole = 0;
    const std::size_t size = heap_.size();
    for (std::size_t child = 1; child < size; child = kArity * hole + 1) {
      std::size_t least = child;
      const std::size_t end = child + kArity < size ? child + kArity : size;
      for (std::size_t other = child + 1; other < end; ++other) {
        least = before(heap_[other], heap_[least]) ? other : least;
      }
      if (!before(heap_[least], event)) {
        break;
      }
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = event;
  }

  std::vector<Event> heap_;
  std::uint64_t sequence_ = 0;
};

}  // namespace paceline
