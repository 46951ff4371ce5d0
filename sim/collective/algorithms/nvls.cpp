// NVLink SHARP: the node's switch adds what the GPUs push and copies what a head sends to all of them. The
// heads are joined over the network by its own reducing switch, or by a tree.
//
// Per node: push thread blocks -> adding switch -> heads (up) -> ... -> heads (down) -> copying switch ->
// pull thread blocks. all_gather has no first half, reduce_scatter no second. Everything moves in single
// blocks, in order. A GPU tells the heads of its blocks when it has pushed a block for each of them, and pulls when
// each has handed on one (src/device/prims_simple.h, ScatterGatherOp): a word goes with the last of them to the first
// step that needs them.
#include <algorithm>

#include "sim/collective/algorithms/graph_builder.h"

namespace paceline {

namespace {

class NvlsBuilder {
 public:
  NvlsBuilder(const GraphRequest& request, bool tree_between_nodes)
      : request_(request),
        tree_(tree_between_nodes),
        adds_(request.kind != CollectiveKind::all_gather),
        copies_(request.kind != CollectiveKind::reduce_scatter),
        nodes_(request.layout.nodes),
        gpus_(request.layout.gpus_per_node),
        blocks_(adds_ && copies_ ? gpus_ : request.layout.ranks()),
        heads_(request.found, &ChannelGraphs::nvls, request.layout, !(adds_ && copies_)),
        builder_(request.channels, request.layout.ranks()),
        up_(std::size_t{nodes_} * heads_.count()),
        down_(std::size_t{nodes_} * heads_.count()),
        places_(nodes_) {}

  CollectiveGraph build() {
    const std::size_t ranks = std::size_t{request_.channels} * request_.layout.ranks();
    const std::size_t switches = std::size_t{request_.channels} * (2 * nodes_ + gpus_);
    builder_.reserve(4 * ranks + switches, 8 * ranks);
    add_scripts();
    for (std::uint32_t c = 0; c < request_.channels; ++c) {
      add_heads(c);
      for (std::uint32_t node = 0; node < nodes_; ++node) {
        if (adds_) {
          add_adding_switch(c, node);
        }
        if (copies_) {
          add_copying_switch(c, node);
        }
      }
    }
    return builder_.finish();
  }

 private:
  void add_scripts() {
    constexpr Ports kWithWord{0, 2};
    const Ports data = ports(0, gpus_), with_words = ports(0, 2 * std::size_t{gpus_});
    std::vector<Step> push, pull, add, copy;
    for (std::uint32_t first = 0; first < blocks_; first += heads_.count()) {  // a block for each head
      const std::uint32_t last = std::min(first + heads_.count(), blocks_) - 1, others = last - first;
      if (others > 0) {
        push.push_back({.times = others, .send = kFirst, .own = true, .block = first, .stride = 1});
      }
      push.push_back({.send = kWithWord, .own = true, .block = last});
      for (std::uint32_t block = first; block <= last; ++block) {
        const Ports head = ports(block - first, 1);
        add.push_back({.receive = block == first ? with_words : data, .send = head, .block = block});
        copy.push_back({.receive = head, .send = block == last ? with_words : data, .block = block});
      }
      pull.push_back({.receive = kWithWord, .keep = true, .block = first});
      if (others > 0) {
        pull.push_back({.times = others, .receive = kFirst, .keep = true, .block = first + 1, .stride = 1});
      }
    }
    push_ = builder_.add_script(blocks_, push);
    pull_ = builder_.add_script(blocks_, pull);
    adding_ = builder_.add_script(blocks_, add);
    copying_ = builder_.add_script(blocks_, copy);
  }

  std::uint32_t rank(std::uint32_t node, std::uint32_t gpu) const { return node * gpus_ + gpu; }
  std::uint32_t head_rank(std::uint32_t node, std::uint32_t head) const {
    return rank(node, heads_.on(node).gpu(head));
  }
  // up_ and down_ of a head: the thread blocks that the adding switch sends to and the copying one receives
  // from.
  std::uint32_t index(std::uint32_t node, std::uint32_t head) const { return node * heads_.count() + head; }

  // A head's thread block that hands on each of its blocks.
  std::uint32_t add_head(std::uint32_t c, std::uint32_t node, std::uint32_t head, Step step, std::size_t ins,
                         std::size_t outs) {
    step.times = heads_.on(node).blocks_of(head, blocks_);
    step.stride = heads_.count();
    return builder_.add_thread_block(head_rank(node, head), c, builder_.add_script(blocks_, {step}), ins,
                                     outs, head);
  }

  void add_heads(std::uint32_t c) {
    for (std::uint32_t node = 0; node < nodes_ && tree_; ++node) {
      places_[node] = double_binary_tree(static_cast<int>(nodes_), static_cast<int>(node),
                                         static_cast<int>(c % 2));  // NVLS alternates channel by channel
    }
    for (std::uint32_t head = 0; head < heads_.count(); ++head) {
      if (tree_) {
        add_tree(c, head);
      } else if (nodes_ > 1) {
        add_fabric(c, head);
      } else {
        up_[head] = down_[head] =
            add_head(c, 0, head,
                     {.receive = ports(0, adds_), .send = ports(0, copies_), .own = !adds_, .keep = !copies_},
                     adds_, copies_);
      }
    }
  }

  void add_fabric(std::uint32_t c, std::uint32_t head) {
    const std::uint32_t script = builder_.add_script(
        blocks_, fabric_steps(request_.kind, nodes_, heads_.on(0).blocks_of(head, blocks_), heads_.count()));
    const std::uint32_t fabric =
        builder_.add_thread_block(ThreadBlock::kSwitch, c, script, nodes_, nodes_, head);
    for (std::uint32_t node = 0; node < nodes_; ++node) {
      const int nic = heads_.on(node).nic(head, c);
      const std::uint32_t at = index(node, head);
      up_[at] = adds_ ? add_head(c, node, head, {.receive = kFirst, .send = kFirst}, 1, 1)
                      : add_own(c, node, head, {.send = kFirst, .own = true});
      down_[at] = copies_ ? add_head(c, node, head, {.receive = kFirst, .send = kFirst}, 1, 1)
                          : add_own(c, node, head, {.receive = kFirst, .keep = true});
      builder_.connect({up_[at], 0}, {fabric, node}, Wire::gpu_to_fabric, {nic, -1});
      builder_.connect({fabric, node}, {down_[at], 0}, Wire::fabric_to_gpu, {-1, nic});
    }
  }

  // A head's thread block for its rank's own block alone, at the network's end of an all_gather or
  // reduce_scatter.
  std::uint32_t add_own(std::uint32_t c, std::uint32_t node, std::uint32_t head, const Step& step) {
    return builder_.add_thread_block(head_rank(node, head), c, builder_.add_script(blocks_, {step}),
                                     step.receive.count, step.send.count, index(node, head));
  }

  static std::uint32_t children(const TreePlace& place) {
    return (place.down[0] >= 0 ? 1U : 0U) + (place.down[1] >= 0 ? 1U : 0U);
  }

  void add_tree(std::uint32_t c, std::uint32_t head) {
    for (std::uint32_t node = 0; node < nodes_; ++node) {
      const Ports below = ports(0, 1 + children(places_[node]));  // the switch, then other nodes
      const std::uint32_t at = index(node, head);
      if (places_[node].up < 0) {
        up_[at] = down_[at] =
            add_head(c, node, head, {.receive = below, .send = below}, below.count, below.count);
      } else {
        up_[at] = add_head(c, node, head, {.receive = below, .send = kFirst}, below.count, 1);
        down_[at] = add_head(c, node, head, {.receive = kFirst, .send = below}, 1, below.count);
      }
    }
    for (std::uint32_t node = 0; node < nodes_; ++node) {
      const int nic = heads_.on(node).nic(head, c);
      std::uint32_t port = 1;
      for (const int below : places_[node].down) {
        if (below >= 0) {
          const auto lower = static_cast<std::uint32_t>(below);
          const std::uint32_t child = index(lower, head), at = index(node, head);
          const int nic_below = heads_.on(lower).nic(head, c);
          builder_.connect({up_[child], 0}, {up_[at], port}, Wire::gpu_to_gpu, {nic_below, nic});
          builder_.connect({down_[at], port}, {down_[child], 0}, Wire::gpu_to_gpu, {nic, nic_below});
          ++port;
        }
      }
    }
  }

  void add_adding_switch(std::uint32_t c, std::uint32_t node) {
    const std::uint32_t adding =
        builder_.add_thread_block(ThreadBlock::kSwitch, c, adding_, 2 * std::size_t{gpus_}, heads_.count());
    for (std::uint32_t gpu = 0; gpu < gpus_; ++gpu) {
      const std::uint32_t push = builder_.add_thread_block(rank(node, gpu), c, push_, 0, 2);
      builder_.connect({push, 0}, {adding, gpu}, Wire::gpu_to_nvswitch);
      builder_.connect({push, 1}, {adding, gpus_ + gpu}, Wire::word);
    }
    for (std::uint32_t head = 0; head < heads_.count(); ++head) {
      builder_.connect({adding, head}, {up_[index(node, head)], 0}, Wire::nvswitch_to_gpu);
    }
  }

  void add_copying_switch(std::uint32_t c, std::uint32_t node) {
    const std::uint32_t copying =
        builder_.add_thread_block(ThreadBlock::kSwitch, c, copying_, heads_.count(), 2 * std::size_t{gpus_});
    for (std::uint32_t head = 0; head < heads_.count(); ++head) {
      builder_.connect({down_[index(node, head)], 0}, {copying, head}, Wire::gpu_to_nvswitch);
    }
    for (std::uint32_t gpu = 0; gpu < gpus_; ++gpu) {
      const std::uint32_t pull = builder_.add_thread_block(rank(node, gpu), c, pull_, 2, 0);
      builder_.connect({copying, gpu}, {pull, 0}, Wire::nvswitch_to_gpu);
      builder_.connect({copying, gpus_ + gpu}, {pull, 1}, Wire::word);
    }
  }

  const GraphRequest& request_;
  bool tree_, adds_, copies_;
  std::uint32_t nodes_, gpus_, blocks_;
  HeadsOfNodes heads_;
  GraphBuilder builder_;
  std::uint32_t push_ = 0, pull_ = 0, adding_ = 0, copying_ = 0;  // scripts
  std::vector<std::uint32_t> up_, down_;                          // of the channel at hand
  std::vector<TreePlace> places_;
};

}  // namespace

CollectiveGraph nvls_graph(const GraphRequest& request, bool tree_between_nodes) {
  return NvlsBuilder(request, tree_between_nodes).build();
}

}  // namespace paceline
