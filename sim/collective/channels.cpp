#include "sim/collective/channels.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "core/fingerprint.h"

namespace paceline {

std::vector<Channel> channels_of(const CollectiveGraph& graph) {
  std::vector<Channel> channels;
  for (std::uint32_t w = 0; w < graph.thread_blocks.size(); ++w) {
    const ThreadBlock& thread_block = graph.thread_blocks[w];
    if (w == 0 || thread_block.channel != graph.thread_blocks[w - 1].channel) {
      channels.push_back({.first = w, .in = thread_block.first_in, .out = thread_block.first_out});
    }
    channels.back().last = w + 1;
  }
  std::uint32_t fifo = 0;
  for (std::size_t c = 0; c < channels.size(); ++c) {
    Channel& channel = channels[c];
    const bool last = c + 1 == channels.size();
    channel.in_end = last ? static_cast<std::uint32_t>(graph.in.size()) : channels[c + 1].in;
    channel.out_end = last ? static_cast<std::uint32_t>(graph.out.size()) : channels[c + 1].out;
    channel.fifo = fifo;
    channel.fifos = channel.in_end - channel.in;
    fifo += channel.fifos;
    const auto outside = [&](std::uint32_t f) { return f < channel.fifo || f >= fifo; };
    if (std::any_of(graph.in.begin() + channel.in, graph.in.begin() + channel.in_end, outside) ||
        std::any_of(graph.out.begin() + channel.out, graph.out.begin() + channel.out_end, outside)) {
      return {};
    }
  }
  return channels;
}

bool same_channel(const CollectiveGraph& graph, const Channel& a, const Channel& b, Ranks ranks) {
  const auto same_thread_block = [&](const ThreadBlock& x, const ThreadBlock& y) {
    return (ranks == Ranks::any || x.rank == y.rank) && x.script == y.script &&
           x.first_in - a.in == y.first_in - b.in && x.first_out - a.out == y.first_out - b.out;
  };
  const auto same_fifo = [&](std::uint32_t f, std::uint32_t g) {
    return f - a.fifo == g - b.fifo && graph.fifos[f].hop == graph.fifos[g].hop;
  };
  return std::equal(graph.thread_blocks.begin() + a.first, graph.thread_blocks.begin() + a.last,
                    graph.thread_blocks.begin() + b.first, graph.thread_blocks.begin() + b.last,
                    same_thread_block) &&
         std::equal(graph.in.begin() + a.in, graph.in.begin() + a.in_end, graph.in.begin() + b.in,
                    graph.in.begin() + b.in_end, same_fifo) &&
         std::equal(graph.out.begin() + a.out, graph.out.begin() + a.out_end, graph.out.begin() + b.out,
                    graph.out.begin() + b.out_end, same_fifo);
}

namespace {

// Appends a channel; returns the number of its first thread block.
std::uint32_t append(const CollectiveGraph& whole, const Channel& channel, CollectiveGraph& made) {
  const auto first = static_cast<std::uint32_t>(made.thread_blocks.size());
  const auto fifo = static_cast<std::uint32_t>(made.fifos.size());
  const auto in = static_cast<std::uint32_t>(made.in.size()),
             out = static_cast<std::uint32_t>(made.out.size());
  for (std::uint32_t w = channel.first; w < channel.last; ++w) {
    ThreadBlock thread_block = whole.thread_blocks[w];
    thread_block.first_in += in - channel.in;
    thread_block.first_out += out - channel.out;
    made.thread_blocks.push_back(thread_block);
  }
  for (std::uint32_t p = channel.in; p < channel.in_end; ++p) {
    made.in.push_back(whole.in[p] - channel.fifo + fifo);
  }
  for (std::uint32_t p = channel.out; p < channel.out_end; ++p) {
    made.out.push_back(whole.out[p] - channel.fifo + fifo);
  }
  for (std::uint32_t f = channel.fifo; f < channel.fifo + channel.fifos; ++f) {
    Fifo moved = whole.fifos[f];
    moved.from += first - channel.first;
    moved.to += first - channel.first;
    made.fifos.push_back(moved);
  }
  return first;
}

// The links that a graph's FIFOs share with others.
class Shares {
 public:
  explicit Shares(const CollectiveGraph& graph) : graph_(graph) {
    number_.resize(graph.shared.empty() ? 0 : graph.fifos.size(), kNone);
    for (std::uint32_t i = 0; i < graph.shared.size(); ++i) {
      number_[graph.shared[i].fifo] = i;
    }
  }
  const SharedFifo* of(std::uint32_t fifo) const {
    return number_.empty() || number_[fifo] == kNone ? nullptr : &graph_.shared[number_[fifo]];
  }
  // Whether the transfers of two channels are the same to everybody else. On a socket they come one after the other.
  bool same(const Channel& a, const Channel& b) const {
    for (std::uint32_t f = 0; !number_.empty() && f < a.fifos; ++f) {
      const SharedFifo *const x = of(a.fifo + f), *const y = of(b.fifo + f);
      if ((x == nullptr) != (y == nullptr) ||
          (x != nullptr && (x->links != y->links || x->socket != SharedFifo::kNoSocket ||
                            y->socket != SharedFifo::kNoSocket))) {
        return false;
      }
    }
    return true;
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffU;

  const CollectiveGraph& graph_;
  std::vector<std::uint32_t> number_;  // in graph.shared, by FIFO; empty: none is
};

// Equal for channels that are the same.
std::uint64_t hash_of(const CollectiveGraph& graph, const Channel& channel, Ranks ranks) {
  std::uint64_t hash = 0;
  for (std::uint32_t w = channel.first; w < channel.last; ++w) {
    const std::uint64_t rank = ranks == Ranks::same ? graph.thread_blocks[w].rank : 0;
    hash = mix64(hash ^ graph.thread_blocks[w].script ^ (rank << 32));
  }
  for (std::uint32_t p = channel.in; p < channel.in_end; ++p) {
    hash = mix64(hash ^ graph.fifos[graph.in[p]].hop ^ (std::uint64_t{graph.in[p] - channel.fifo} << 32));
  }
  return hash;
}

}  // namespace

EqualThreadBlocks merge_channels(const CollectiveGraph& whole, Ranks ranks) {
  const std::vector<Channel> channels = channels_of(whole);
  EqualThreadBlocks found;
  if (channels.empty()) {
    found = {whole, std::vector<std::uint32_t>(whole.thread_blocks.size())};
    std::iota(found.class_of.begin(), found.class_of.end(), 0U);
    return found;
  }
  const Shares shares(whole);
  found.graph.channels = whole.channels;
  found.graph.ranks = whole.ranks;
  found.graph.hops = whole.hops;
  found.graph.scripts = whole.scripts;
  found.class_of.resize(whole.thread_blocks.size());
  struct Kept {
    const Channel* channel;
    std::uint32_t first, fifo;
    std::uint32_t alike = 0;
  };
  std::vector<Kept> kept;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> of_hash;  // in kept
  for (const Channel& channel : channels) {
    std::vector<std::size_t>& candidates = of_hash[hash_of(whole, channel, ranks)];
    const auto same = std::ranges::find_if(candidates, [&](std::size_t k) {
      return same_channel(whole, *kept[k].channel, channel, ranks) && shares.same(*kept[k].channel, channel);
    });
    const std::size_t stands = same == candidates.end() ? kept.size() : *same;
    if (stands == kept.size()) {
      candidates.push_back(stands);
      const auto fifo = static_cast<std::uint32_t>(found.graph.fifos.size());
      kept.push_back({&channel, append(whole, channel, found.graph), fifo});
    }
    ++kept[stands].alike;
    for (std::uint32_t w = channel.first; w < channel.last; ++w) {
      found.class_of[w] = kept[stands].first + (w - channel.first);
    }
  }
  for (const Kept& one : kept) {
    for (std::uint32_t f = 0; f < one.channel->fifos; ++f) {
      if (const SharedFifo* const shared = shares.of(one.channel->fifo + f)) {
        found.graph.shared.push_back({one.fifo + f, shared->links, shared->socket, one.alike});
      }
    }
  }
  return found;
}

}  // namespace paceline
