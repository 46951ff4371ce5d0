// As PlacedHeap, for ids most of which come in the order of their keys: those wait in a line, where each costs no more
// than to be written and read, and only what comes out of order is in a heap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/network/placed_heap.h"

namespace paceline {

template <class Key>
class PlacedQueue {
 public:
  using Entry = typename PlacedHeap<Key>::Entry;

  void reserve(std::size_t ids) {
    heap_.reserve(ids);
    place_.reserve(ids);
  }
  bool empty() const { return first_ == end_ && heap_.empty(); }
  const Entry& top() const { return line_is_first() ? at(first_) : heap_.top(); }  // requires: !empty()

  // Puts an id that isn't there, moves one that is.
  void set(std::uint32_t id, const Key& key) {
    drop(id);
    if (first_ != end_ && key < at(end_ - 1).key) {
      heap_.set(id, key);
      return;
    }
    if (end_ - first_ == line_.size()) {
      grow();
    }
    if (id >= place_.size()) {
      place_.resize(id + 1, kNowhere);
    }
    place_[id] = end_;
    at(end_++) = {key, id};
  }
  // Nothing when it isn't there.
  void drop(std::uint32_t id) {
    if (id >= place_.size() || place_[id] == kNowhere) {
      heap_.drop(id);
      return;
    }
    at(place_[id]).id = kGone;
    place_[id] = kNowhere;
    while (first_ != end_ && at(first_).id == kGone) {
      ++first_;
    }
    while (first_ != end_ && at(end_ - 1).id == kGone) {
      --end_;
    }
  }
  void clear() {
    heap_.clear();
    place_.clear();
    first_ = end_ = 0;
  }

 private:
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
  static constexpr std::uint32_t kGone = ~std::uint32_t{0};

  Entry& at(std::uint64_t turn) { return line_[turn & (line_.size() - 1)]; }
  const Entry& at(std::uint64_t turn) const { return line_[turn & (line_.size() - 1)]; }
  bool line_is_first() const { return first_ != end_ && (heap_.empty() || at(first_) < heap_.top()); }

  void grow() {
    std::vector<Entry> larger(std::max<std::size_t>(16, 2 * line_.size()));
    for (std::uint64_t turn = first_; turn != end_; ++turn) {
      larger[turn & (larger.size() - 1)] = at(turn);
    }
    line_ = std::move(larger);
  }

  PlacedHeap<Key> heap_;
  std::vector<Entry> line_;            // a ring, of a power of two
  std::uint64_t first_ = 0, end_ = 0;  // turns; those at both ends aren't gone
  std::vector<std::uint64_t> place_;   // by id: its turn in the line
};

}  // namespace paceline
