// The event queue: 24-byte events in the order (time, sequence), which is total. A 4-ary heap, and beside it lines for
// events of kinds that come in order of time for the most part, as they take equally long: no heap is touched for
// those.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
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
  // Thread; collective_start, collective_end: queue; move_end: thread block; arrival, transfer: FIFO; sent,
  // message: its id; served: member; background: rank; agreed: none.
  std::uint32_t subject = 0;
};
static_assert(sizeof(Event) == 24);

class Timeline {
 public:
  // No allocation happens while at most `capacity` events are pending.
  explicit Timeline(std::size_t capacity) {
    heap_.reserve(capacity);
    for (Line& line : lines_) {
      line.events.resize(std::bit_floor(std::clamp<std::size_t>(capacity, 1, kLongestLine)));
    }
  }

  bool empty() const { return heap_.empty() && first_line_ == kNone; }
  // All pending events, in order.
  std::span<const Event> in_order() {
    for (Line& line : lines_) {
      for (; line.count > 0; line.pop()) {
        heap_.push_back(line.front());
      }
    }
    first_line_ = kNone;
    std::sort(heap_.begin(), heap_.end(), before);  // which is a heap, too
    return heap_;
  }
  SimTime next() const { return line_is_next() ? front_.time : heap_.front().time; }  // Requires: !empty()

  // Events pushed earlier come first among those of one time. Returns the event's sequence number.
  std::uint64_t push(SimTime time, EventKind kind, std::uint32_t subject) {
    const Event event{time, sequence_++, kind, subject};
    if (comes_in_line(kind) && queue_up(event)) {
      return event.sequence;
    }
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
    assert(!empty());
    if (line_is_next()) {
      const Event next = front_;
      lines_[first_line_].pop();
      find_first_line();
      return next;
    }
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) {
      sink(last);
    }
    return first;
  }

 private:
  static constexpr std::size_t kArity = 4, kLines = 4, kNone = kLines, kLongestLine = 1 << 14;

  struct Line {                 // a ring
    std::vector<Event> events;  // a power of two of them
    std::size_t first = 0, count = 0;

    const Event& front() const { return events[first]; }
    SimTime last() const { return events[(first + count - 1) & (events.size() - 1)].time; }
    void push(const Event& event) { events[(first + count++) & (events.size() - 1)] = event; }
    void pop() {
      first = (first + 1) & (events.size() - 1);
      --count;
    }
  };

  static bool comes_in_line(EventKind kind) {
    return kind == EventKind::message || kind == EventKind::served || kind == EventKind::host_done;
  }

  // At the end of the line whose last is the latest that isn't later. False: there is none, or it is full.
  bool queue_up(const Event& event) {
    Line* best = nullptr;
    SimTime latest{-1};  // of an empty line
    for (Line& line : lines_) {
      const SimTime last = line.count > 0 ? line.last() : SimTime{-1};
      if (last <= event.time && (best == nullptr || last > latest)) {
        best = &line;
        latest = last;
      }
    }
    if (best == nullptr || best->count == best->events.size()) {
      return false;
    }
    best->push(event);
    if (best->count == 1 && (first_line_ == kNone || before(event, front_))) {
      first_line_ = static_cast<std::size_t>(best - lines_.data());
      front_ = event;
    }
    return true;
  }

  void find_first_line() {
    first_line_ = kNone;
    for (std::size_t i = 0; i < kLines; ++i) {
      if (lines_[i].count > 0 && (first_line_ == kNone || before(lines_[i].front(), front_))) {
        first_line_ = i;
        front_ = lines_[i].front();
      }
    }
  }

  bool line_is_next() const {
    return first_line_ != kNone && (heap_.empty() || before(front_, heap_.front()));
  }

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
  std::array<Line, kLines> lines_;
  std::size_t first_line_ = kNone;  // whose first event comes before those of the others
  Event front_;                     // which that is
  std::uint64_t sequence_ = 0;
};

}  // namespace paceline
