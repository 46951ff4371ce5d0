// Reduction by the network's switches (SHARP): a chain in each node to its head, or every GPU a head.
#include <cassert>
#include <map>

#include "sim/collective/algorithms/graph_builder.h"

namespace paceline {

CollectiveGraph collnet_chain_graph(const GraphRequest& request) {
  const std::uint32_t nodes = request.layout.nodes, gpus = request.layout.gpus_per_node;
  GraphBuilder builder(request.channels, request.layout.ranks());
  const std::size_t thread_blocks = request.channels * (2 * std::size_t{request.layout.ranks()} + 1);
  builder.reserve(thread_blocks, thread_blocks);
  const std::uint32_t up_last = builder.add_script(1, {{.send = kFirst, .own = true}});
  const std::uint32_t up = builder.add_script(1, {{.receive = kFirst, .send = kFirst, .own = true}});
  const std::uint32_t down = builder.add_script(1, {{.receive = kFirst, .send = kFirst, .keep = true}});
  const std::uint32_t down_last = builder.add_script(1, {{.receive = kFirst, .keep = true}});
  const std::uint32_t add = builder.add_script(1, fabric_steps(request.kind, nodes, 1, 0));
  for (std::uint32_t c = 0; c < request.channels; ++c) {
    const std::uint32_t fabric = builder.add_thread_block(ThreadBlock::kSwitch, c, add, nodes, nodes);
    for (std::uint32_t node = 0; node < nodes; ++node) {
      const NodeChannel& order = node_channel(request.found.on(node).collnet_chain, c);
      assert(order.gpus.size() == gpus);
      Port above{fabric, node}, source{fabric, node};
      for (std::uint32_t i = 0; i < gpus; ++i) {
        const std::uint32_t rank = node * gpus + static_cast<std::uint32_t>(order.gpus[i]);
        const bool last = i + 1 == gpus;
        const std::uint32_t sums = builder.add_thread_block(rank, c, last ? up_last : up, last ? 0 : 1, 1);
        const std::uint32_t gets =
            builder.add_thread_block(rank, c, last ? down_last : down, 1, last ? 0 : 1);
        const int nic = i == 0 ? order.nic_in : -1;
        builder.connect({sums, 0}, above, i == 0 ? Wire::gpu_to_fabric : Wire::gpu_to_gpu, {nic, -1});
        builder.connect(source, {gets, 0}, i == 0 ? Wire::fabric_to_gpu : Wire::gpu_to_gpu, {-1, nic});
        above = {sums, 0};
        source = {gets, 0};
      }
    }
  }
  return builder.finish();
}

namespace {

// Per rank: `scatter` sends each block to its head in the node, a head's `up` adds them and sends to the
// network's switch, its `down` receives from there and sends to the node, `gather` keeps what other heads
// send. all_gather has no scatter (a head's up sends its own), reduce_scatter no gather (its down keeps its
// own).
class DirectBuilder {
 public:
  explicit DirectBuilder(const GraphRequest& request)
      : request_(request),
        scatters_(request.kind != CollectiveKind::all_gather),
        gathers_(request.kind != CollectiveKind::reduce_scatter),
        nodes_(request.layout.nodes),
        gpus_(request.layout.gpus_per_node),
        blocks_(scatters_ && gathers_ ? gpus_ : request.layout.ranks()),
        heads_(request.found, &ChannelGraphs::collnet_direct, request.layout, !(scatters_ && gathers_)),
        builder_(request.channels, request.layout.ranks()),
        fabric_(heads_.count()),
        up_(heads_.count()),
        down_(heads_.count()) {}

  CollectiveGraph build() {
    const std::size_t ranks = request_.layout.ranks();
    builder_.reserve(request_.channels * (4 * ranks + gpus_), 2 * ranks * request_.channels * gpus_);
    for (std::uint32_t node = 0; node < (request_.found.alike() ? 1 : nodes_); ++node) {
      const auto [peers, added] = peers_.try_emplace(&heads_.on(node));
      for (std::uint32_t gpu = 0; added && gpu < gpus_; ++gpu) {
        const Heads& heads = heads_.on(node);
        peers->second.scatter.push_back(builder_.add_script(blocks_, peer_steps(heads, gpu, true)));
        peers->second.gather.push_back(builder_.add_script(blocks_, peer_steps(heads, gpu, false)));
      }
    }
    for (std::uint32_t c = 0; c < request_.channels; ++c) {
      for (std::uint32_t head = 0; head < heads_.count(); ++head) {
        const std::uint32_t script = builder_.add_script(
            blocks_,
            fabric_steps(request_.kind, nodes_, heads_.on(0).blocks_of(head, blocks_), heads_.count()));
        fabric_[head] = builder_.add_thread_block(ThreadBlock::kSwitch, c, script, nodes_, nodes_, head);
      }
      for (std::uint32_t node = 0; node < nodes_; ++node) {
        add_heads(c, node);
        add_peers(c, node);
      }
    }
    return builder_.finish();
  }

 private:
  // The heads that a GPU sends to and receives from, beginning after itself, so that not all send to one.
  static std::vector<std::uint32_t> other_heads(const Heads& heads, std::uint32_t gpu) {
    std::vector<std::uint32_t> others;
    for (std::uint32_t i = 1; i <= heads.count(); ++i) {
      const std::uint32_t head = (gpu + i) % heads.count();
      if (head != heads.of_gpu(gpu)) {
        others.push_back(head);
      }
    }
    return others;
  }

  std::vector<Step> peer_steps(const Heads& heads, std::uint32_t gpu, bool scatter) const {
    const std::vector<std::uint32_t> others = other_heads(heads, gpu);
    std::vector<Step> steps;
    for (std::uint32_t first = 0; first < blocks_; first += heads_.count()) {
      for (std::size_t i = 0; i < others.size(); ++i) {
        if (first + others[i] < blocks_) {
          const Ports port = ports(i, 1);
          steps.push_back({.receive = scatter ? Ports{} : port,
                           .send = scatter ? port : Ports{},
                           .own = scatter,
                           .keep = !scatter,
                           .block = first + others[i]});
        }
      }
    }
    return steps;
  }

  // Of a head: which port is another GPU's.
  static std::uint32_t port_of(const Heads& heads, std::uint32_t head, std::uint32_t gpu) {
    return gpu < heads.gpu(head) ? gpu : gpu - 1;
  }

  // A head's thread block for all its blocks, or for its rank's own alone.
  std::uint32_t add_head(std::uint32_t c, std::uint32_t node, std::uint32_t head, Step step, bool all) {
    std::int64_t shift = node * heads_.count() + head;
    if (all) {
      step.times = heads_.on(node).blocks_of(head, blocks_);
      step.stride = heads_.count();
      shift = head;
    }
    return builder_.add_thread_block(node * gpus_ + heads_.on(node).gpu(head), c,
                                     builder_.add_script(blocks_, {step}), step.receive.count,
                                     step.send.count, shift);
  }

  void add_heads(std::uint32_t c, std::uint32_t node) {
    for (std::uint32_t head = 0; head < heads_.count(); ++head) {
      const Ports peers = ports(0, gpus_ - 1);
      up_[head] = add_head(c, node, head,
                           {.receive = scatters_ ? peers : Ports{}, .send = kFirst, .own = true}, scatters_);
      down_[head] = add_head(c, node, head,
                             {.receive = kFirst, .send = gathers_ ? peers : Ports{}, .keep = true}, gathers_);
      const int nic = heads_.on(node).nic(head, c);
      builder_.connect({up_[head], 0}, {fabric_[head], node}, Wire::gpu_to_fabric, {nic, -1});
      builder_.connect({fabric_[head], node}, {down_[head], 0}, Wire::fabric_to_gpu, {-1, nic});
    }
  }

  void add_peers(std::uint32_t c, std::uint32_t node) {
    const Heads& heads = heads_.on(node);
    const Peers& peers = peers_.at(&heads);
    for (std::uint32_t gpu = 0; gpu < gpus_; ++gpu) {
      const std::vector<std::uint32_t> others = other_heads(heads, gpu);
      const std::uint32_t rank = node * gpus_ + gpu, count = static_cast<std::uint32_t>(others.size());
      if (scatters_ && count > 0) {
        const std::uint32_t scatter = builder_.add_thread_block(rank, c, peers.scatter[gpu], 0, count);
        for (std::uint32_t i = 0; i < count; ++i) {
          builder_.connect({scatter, i}, {up_[others[i]], port_of(heads, others[i], gpu)});
        }
      }
      if (gathers_ && count > 0) {
        const std::uint32_t gather = builder_.add_thread_block(rank, c, peers.gather[gpu], count, 0);
        for (std::uint32_t i = 0; i < count; ++i) {
          builder_.connect({down_[others[i]], port_of(heads, others[i], gpu)}, {gather, i});
        }
      }
    }
  }

  const GraphRequest& request_;
  bool scatters_, gathers_;
  std::uint32_t nodes_, gpus_, blocks_;
  HeadsOfNodes heads_;
  GraphBuilder builder_;
  struct Peers {
    std::vector<std::uint32_t> scatter, gather;  // scripts by GPU
  };
  std::map<const Heads*, Peers> peers_;            // of nodes that are alike
  std::vector<std::uint32_t> fabric_, up_, down_;  // by head, of the channel and node at hand
};

}  // namespace

CollectiveGraph collnet_direct_graph(const GraphRequest& request) { return DirectBuilder(request).build(); }

}  // namespace paceline
