// A binary heap of ids by key, the lowest first, in which an id can be moved or dropped: it knows each
// one's place. Of equal keys any may be first, so that many of them cost nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

template <class Key>
class PlacedHeap {
 public:
  struct Entry {
    Key key;
    std::uint32_t id;  // small: there is a table of all
    friend bool operator<(const Entry& a, const Entry& b) { return a.key < b.key; }
  };

  void reserve(std::size_t ids) {
    entries_.reserve(ids);
    place_.reserve(ids);
  }
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  const Entry& top() const { return entries_.front(); }
  bool holds(std::uint32_t id) const { return id < place_.size() && place_[id] != kNowhere; }
  const Key& key(std::uint32_t id) const { return entries_[place_[id]].key; }  // requires: holds(id)

  // Puts an id that isn't there, moves one that is.
  void set(std::uint32_t id, const Key& key) {
    if (id >= place_.size()) {
      place_.resize(id + 1, kNowhere);
    }
    std::size_t hole = place_[id];
    if (hole == kNowhere) {
      hole = entries_.size();
      entries_.push_back({key, id});
    }
    fill(hole, {key, id});
  }
  // Nothing when it isn't there.
  void drop(std::uint32_t id) {
    if (!holds(id)) {
      return;
    }
    const std::size_t hole = place_[id];
    place_[id] = kNowhere;
    const Entry last = entries_.back();
    entries_.pop_back();
    if (hole < entries_.size()) {
      fill(hole, last);
    }
  }
  void clear() {
    entries_.clear();
    place_.clear();
  }

 private:
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};

  // Puts the entry where it belongs on the way up or down from the hole.
  void fill(std::size_t hole, const Entry& entry) {
    for (; hole > 0 && entry < entries_[(hole - 1) / 2]; hole = (hole - 1) / 2) {
      put(hole, entries_[(hole - 1) / 2]);
    }
    for (std::size_t child = 2 * hole + 1; child < entries_.size(); child = 2 * hole + 1) {
      if (child + 1 < entries_.size() && entries_[child + 1] < entries_[child]) {
        ++child;
      }
      if (!(entries_[child] < entry)) {
        break;
      }
      put(hole, entries_[child]);
      hole = child;
    }
    put(hole, entry);
  }
  void put(std::size_t place, const Entry& entry) {
    entries_[place] = entry;
    place_[entry.id] = static_cast<std::uint32_t>(place);
  }

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> place_;  // by id
};

}  // namespace paceline
