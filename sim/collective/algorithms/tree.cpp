// A chain in each node and NCCL's double binary tree over the nodes (src/graph/trees.cc, connect.cc).
#include <algorithm>
#include <cassert>

#include "sim/collective/algorithms/graph_builder.h"

namespace paceline {

namespace {

// A node at its lowest set bit b hangs below the one without b and with 2b, or, where that one does not
// exist, without 2b. 0 is the root.
TreePlace binary_tree(int nodes, int node) {
  TreePlace place;
  if (node == 0) {
    int child = 1;
    while (2 * child < nodes) {
      child *= 2;
    }
    place.down[1] = nodes > 1 ? child : -1;
    return place;
  }
  const int bit = node & -node;
  const int above = (node ^ bit) | (2 * bit);
  place.up = above < nodes ? above : node ^ bit;
  if (bit > 1) {
    place.down[0] = node - bit / 2;
    for (int step = bit / 2; step > 0 && place.down[1] == -1; step /= 2) {
      place.down[1] = node + step < nodes ? node + step : -1;
    }
  }
  return place;
}

class TreeBuilder {
 public:
  explicit TreeBuilder(const GraphRequest& request)
      : request_(request),
        gpus_(request.layout.gpus_per_node),
        n_(request.layout.ranks()),
        builder_(request.channels, n_),
        up_(n_),
        down_(n_),
        places_(request.layout.nodes) {
    const std::size_t pairs = 2 * std::size_t{request.channels} * n_;
    builder_.reserve(pairs, pairs);
  }

  CollectiveGraph build() {
    for (std::uint32_t c = 0; c < request_.channels; ++c) {
      const auto size = static_cast<std::uint32_t>(request_.found.first().tree.channels.size());
      for (std::uint32_t node = 0; node < request_.layout.nodes; ++node) {
        places_[node] = double_binary_tree(static_cast<int>(request_.layout.nodes), static_cast<int>(node),
                                           static_cast<int>(c / size % 2));
      }
      for (std::uint32_t at = 0; at < n_; ++at) {
        add_thread_blocks(c, at);
      }
      for (std::uint32_t at = 0; at < n_; ++at) {
        connect_children(c, at);
      }
    }
    return builder_.finish();
  }

 private:
  // `at`: node * gpus + place in the node's chain.
  struct Children {
    std::uint32_t count = 0, at[3] = {};
    void add(std::uint32_t child) { at[count++] = child; }
  };

  // Which GPU of the chain a node's first and second child hang below.
  std::uint32_t place_of_child(std::uint32_t node, int which) const {
    const GraphPattern pattern = request_.found.on(node).tree.pattern;
    const bool second =
        pattern == GraphPattern::split_tree || (pattern == GraphPattern::balanced_tree && which == 0);
    return second && gpus_ > 1 ? 1 : 0;
  }

  Children children(std::uint32_t at) const {
    Children found;
    if (at % gpus_ + 1 < gpus_) {
      found.add(at + 1);
    }
    for (int which = 0; which < 2; ++which) {
      const int node = places_[at / gpus_].down[which];
      if (node >= 0 && at % gpus_ == place_of_child(at / gpus_, which)) {
        found.add(static_cast<std::uint32_t>(node) * gpus_);
      }
    }
    return found;
  }

  const NodeChannel& order_on(std::uint32_t c, std::uint32_t node) const {
    return node_channel(request_.found.on(node).tree, c);
  }

  void add_thread_blocks(std::uint32_t c, std::uint32_t at) {
    const NodeChannel& order = order_on(c, at / gpus_);
    assert(order.gpus.size() == gpus_);
    const std::uint32_t rank = at / gpus_ * gpus_ + static_cast<std::uint32_t>(order.gpus[at % gpus_]);
    const std::uint32_t count = children(at).count;
    const Ports below = ports(0, count);
    if (at % gpus_ == 0 && places_[at / gpus_].up < 0) {
      const Step turn{.receive = below, .send = below, .own = true, .keep = true};
      up_[at] = down_[at] = builder_.add_thread_block(rank, c, builder_.add_script(1, {turn}), count, count);
      return;
    }
    const Step up{.receive = below, .send = kFirst, .own = true};
    const Step down{.receive = kFirst, .send = below, .keep = true};
    up_[at] = builder_.add_thread_block(rank, c, builder_.add_script(1, {up}), count, 1);
    down_[at] = builder_.add_thread_block(rank, c, builder_.add_script(1, {down}), 1, count);
  }

  void connect_children(std::uint32_t c, std::uint32_t at) {
    const NodeChannel& order = order_on(c, at / gpus_);
    const Children below = children(at);
    for (std::uint32_t i = 0; i < below.count; ++i) {
      const std::uint32_t child = below.at[i];
      const bool leaves = child / gpus_ != at / gpus_;
      const int nic = leaves ? nic_of(order, order.gpus[at % gpus_]) : -1;
      const NodeChannel& there = order_on(c, child / gpus_);
      const int nic_below = leaves ? nic_of(there, there.gpus[child % gpus_]) : -1;
      builder_.connect({up_[child], 0}, {up_[at], i}, Wire::gpu_to_gpu, {nic_below, nic});
      builder_.connect({down_[at], i}, {down_[child], 0}, Wire::gpu_to_gpu, {nic, nic_below});
    }
  }

  const GraphRequest& request_;
  std::uint32_t gpus_, n_;
  GraphBuilder builder_;
  std::vector<std::uint32_t> up_, down_;  // thread blocks by `at`, of the channel at hand
  std::vector<TreePlace> places_;
};

}  // namespace

TreePlace double_binary_tree(int nodes, int node, int tree) {
  assert(0 <= node && node < nodes && (tree == 0 || tree == 1));
  if (tree == 0) {
    return binary_tree(nodes, node);
  }
  const bool shift = nodes % 2 == 1;
  const auto there = [&](int k) { return shift ? (k + nodes - 1) % nodes : nodes - 1 - k; };
  const auto back = [&](int k) { return k < 0 ? -1 : shift ? (k + 1) % nodes : nodes - 1 - k; };
  const TreePlace place = binary_tree(nodes, there(node));
  return {back(place.up), {back(place.down[0]), back(place.down[1])}};
}

CollectiveGraph tree_graph(const GraphRequest& request) { return TreeBuilder(request).build(); }

}  // namespace paceline
