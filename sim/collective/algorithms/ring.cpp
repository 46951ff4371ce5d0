// Rings over all ranks. A rank's shift is its place in the channel's ring; blocks are numbered by place.
#include <array>
#include <cassert>

#include "sim/collective/algorithms/graph_builder.h"

namespace paceline {

namespace {

// The channel whose order a node takes: on odd nodes the two of a pair swap, so that a ring leaves a node by
// the NIC by which it enters the next (src/graph/connect.cc, ncclTopoPostset).
const NodeChannel& channel_on(const ChannelGraph& ring, std::uint32_t channel, std::uint32_t node) {
  const auto size = static_cast<std::uint32_t>(ring.channels.size());
  const bool swap = ring.cross_nic == 2 && size % 2 == 0 && node % 2 == 1;
  return ring.channels[swap ? (channel % size) ^ 1U : channel % size];
}

std::vector<Step> ring_steps(CollectiveKind kind, std::uint32_t n) {
  const Step send{.send = kFirst, .own = true, .block = n - 1};
  const Step reduce{
      .times = n - 2, .receive = kFirst, .send = kFirst, .own = true, .block = n - 2, .stride = -1};
  const Step pass{
      .times = n - 2, .receive = kFirst, .send = kFirst, .keep = true, .block = n - 1, .stride = -1};
  switch (kind) {
    case CollectiveKind::all_reduce:
      return {send,
              reduce,
              {.receive = kFirst, .send = kFirst, .own = true, .keep = true},
              pass,
              {.receive = kFirst, .keep = true, .block = 1}};
    case CollectiveKind::reduce_scatter:
      return {send, reduce, {.receive = kFirst, .own = true, .keep = true}};
    default:
      assert(kind == CollectiveKind::all_gather);
      return {
          {.send = kFirst, .own = true, .keep = true}, pass, {.receive = kFirst, .keep = true, .block = 1}};
  }
}

// What a rank of a chain does: its first, one between, its last. The root of a broadcast is the first, of a
// reduction the last.
std::array<Step, 3> chain_steps(CollectiveKind kind) {
  const bool reduce = kind == CollectiveKind::reduce;
  return {Step{.send = kFirst, .own = true, .keep = !reduce},
          Step{.receive = kFirst, .send = kFirst, .own = reduce, .keep = !reduce},
          Step{.receive = kFirst, .own = reduce, .keep = true}};
}

class RingBuilder {
 public:
  explicit RingBuilder(const GraphRequest& request)
      : request_(request), n_(request.layout.ranks()), builder_(request.channels, n_) {
    builder_.reserve(std::size_t{request.channels} * n_, std::size_t{request.channels} * n_);
  }

  CollectiveGraph ring() {
    const std::uint32_t script = builder_.add_script(n_, ring_steps(request_.kind, n_));
    for (std::uint32_t c = 0; c < request_.channels; ++c) {
      for (std::uint32_t place = 0; place < n_; ++place) {
        builder_.add_thread_block(rank_at(c, place), c, script, 1, 1, place);
      }
      for (std::uint32_t place = 0; place < n_; ++place) {
        connect_next(c, place);
      }
    }
    return builder_.finish();
  }

  CollectiveGraph chain() {
    std::array<std::uint32_t, 3> script{};
    for (std::size_t role = 0; role < 3; ++role) {
      script[role] = builder_.add_script(1, {chain_steps(request_.kind)[role]});
    }
    for (std::uint32_t c = 0; c < request_.channels; ++c) {
      const std::uint32_t first = first_of_chain(c);
      for (std::uint32_t place = 0; place < n_; ++place) {
        const std::uint32_t turn = (place + n_ - first) % n_;
        const bool begins = turn == 0, ends = turn == n_ - 1;
        builder_.add_thread_block(rank_at(c, place), c,
                                  script[begins ? 0
                                         : ends ? 2
                                                : 1],
                                  begins ? 0 : 1, ends ? 0 : 1);
      }
      for (std::uint32_t turn = 0; turn + 1 < n_; ++turn) {
        connect_next(c, (first + turn) % n_);
      }
    }
    return builder_.finish();
  }

 private:
  std::uint32_t rank_at(std::uint32_t c, std::uint32_t place) const {
    const std::uint32_t gpus = request_.layout.gpus_per_node, node = place / gpus;
    const NodeChannel& order = channel_on(request_.found.on(node).ring, c, node);
    assert(order.gpus.size() == gpus);
    return node * gpus + static_cast<std::uint32_t>(order.gpus[place % gpus]);
  }

  std::uint32_t first_of_chain(std::uint32_t c) const {
    std::uint32_t place = 0;
    while (rank_at(c, place) != request_.root) {
      ++place;
    }
    return request_.kind == CollectiveKind::broadcast ? place : (place + 1) % n_;
  }

  void connect_next(std::uint32_t c, std::uint32_t place) {
    const std::uint32_t gpus = request_.layout.gpus_per_node, next = (place + 1) % n_;
    Nics nics;
    if (request_.layout.nodes > 1 && next % gpus == 0) {
      const NodeChannel& from = channel_on(request_.found.on(place / gpus).ring, c, place / gpus);
      const NodeChannel& to = channel_on(request_.found.on(next / gpus).ring, c, next / gpus);
      nics = {nic_of(from, from.gpus.back()), nic_of(to, to.gpus.front())};
    }
    builder_.connect({c * n_ + place, 0}, {c * n_ + next, 0}, Wire::gpu_to_gpu, nics);
  }

  const GraphRequest& request_;
  std::uint32_t n_;
  GraphBuilder builder_;
};

}  // namespace

CollectiveGraph ring_graph(const GraphRequest& request) {
  return has_root(request.kind) ? RingBuilder(request).chain() : RingBuilder(request).ring();
}

}  // namespace paceline
