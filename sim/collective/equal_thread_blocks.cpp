#include "sim/collective/equal_thread_blocks.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "core/fingerprint.h"

namespace paceline {
namespace {

// Ports that are used in the same steps form a group: among them the order doesn't matter.
std::vector<std::uint32_t> port_groups(const Script& script, Ports Step::*ports) {
  std::vector<std::vector<std::size_t>> steps_of_port;
  for (std::size_t s = 0; s < script.steps.size(); ++s) {
    const Ports& used = script.steps[s].*ports;
    steps_of_port.resize(std::max<std::size_t>(steps_of_port.size(), std::size_t{used.first} + used.count));
    for (std::size_t p = used.first; p < std::size_t{used.first} + used.count; ++p) {
      steps_of_port[p].push_back(s);
    }
  }
  std::map<std::vector<std::size_t>, std::uint32_t> known;
  std::vector<std::uint32_t> groups;
  for (const std::vector<std::size_t>& steps : steps_of_port) {
    groups.push_back(known.try_emplace(steps, static_cast<std::uint32_t>(known.size())).first->second);
  }
  return groups;
}

struct Side {  // a FIFO's end
  std::uint32_t thread_block = 0, group = 0;
};

class Partition {
 public:
  Partition(const CollectiveGraph& whole, Begin begin) : class_of(whole.thread_blocks.size()), graph_(whole) {
    for (std::size_t w = 0; begin == Begin::by_rank && w < class_of.size(); ++w) {
      class_of[w] = whole.thread_blocks[w].rank;
    }
    for (const Script& script : whole.scripts) {
      in_groups.push_back(port_groups(script, &Step::receive));
      out_groups.push_back(port_groups(script, &Step::send));
    }
    sender.resize(whole.fifos.size());
    receiver.resize(whole.fifos.size());
    for (std::uint32_t w = 0; w < whole.thread_blocks.size(); ++w) {
      const ThreadBlock& thread_block = whole.thread_blocks[w];
      for (std::uint32_t p = thread_block.first_in; p < in_end(w); ++p) {
        receiver[whole.in[p]] = {w, in_groups[thread_block.script][p - thread_block.first_in]};
      }
      for (std::uint32_t p = thread_block.first_out; p < out_end(w); ++p) {
        sender[whole.out[p]] = {w, out_groups[thread_block.script][p - thread_block.first_out]};
      }
    }
    for (std::uint32_t w = 0; w < whole.thread_blocks.size(); ++w) {
      add_ports_of(w);
    }
  }

  // False: not within kMostRounds, where a chain or a ring with one slow link tells its places apart one by
  // one.
  bool refine() {
    constexpr int kMostRounds = 200;
    signature_.resize(class_of.size());
    std::size_t before = 0;
    int rounds = 0;
    do {
      if (++rounds > kMostRounds) {
        return false;
      }
      before = classes;
      std::size_t port = 0;
      for (std::uint32_t w = 0; w < signature_.size(); ++w) {
        signature_[w] = sign(w, port);
      }
      number();
    } while (classes != before);
    return true;
  }

  std::uint32_t in_end(std::uint32_t w) const {
    return w + 1 < graph_.thread_blocks.size() ? graph_.thread_blocks[w + 1].first_in
                                               : static_cast<std::uint32_t>(graph_.in.size());
  }
  std::uint32_t out_end(std::uint32_t w) const {
    return w + 1 < graph_.thread_blocks.size() ? graph_.thread_blocks[w + 1].first_out
                                               : static_cast<std::uint32_t>(graph_.out.size());
  }

  std::vector<std::uint32_t> class_of;
  std::size_t classes = 0;
  std::vector<std::vector<std::uint32_t>> in_groups, out_groups;  // by script, by port
  std::vector<Side> sender, receiver;                             // by FIFO

 private:
  // What a port is, whatever the classes, and who is at its other end.
  struct Port {
    std::uint64_t hash = 0;
    std::uint32_t peer = 0;
  };

  void add_ports_of(std::uint32_t w) {
    const ThreadBlock& thread_block = graph_.thread_blocks[w];
    const auto add = [&](std::uint64_t direction, std::uint32_t group, std::uint32_t fifo, const Side& peer) {
      const std::uint64_t hash = mix64(direction + 2 * std::uint64_t{group} + 1);
      ports_.push_back(
          {mix64(hash + (std::uint64_t{graph_.fifos[fifo].hop} << 32) + peer.group), peer.thread_block});
    };
    for (std::uint32_t p = thread_block.first_in; p < in_end(w); ++p) {
      add(0, in_groups[thread_block.script][p - thread_block.first_in], graph_.in[p], sender[graph_.in[p]]);
    }
    for (std::uint32_t p = thread_block.first_out; p < out_end(w); ++p) {
      add(1, out_groups[thread_block.script][p - thread_block.first_out], graph_.out[p],
          receiver[graph_.out[p]]);
    }
  }

  // A hash of 64 bits; among a million thread blocks two that differ are taken for equal with a chance of
  // 1e-7. `port`: the first of w, then of the next.
  std::uint64_t sign(std::uint32_t w, std::size_t& port) const {
    const ThreadBlock& thread_block = graph_.thread_blocks[w];
    const std::size_t end =
        port + (in_end(w) - thread_block.first_in) + (out_end(w) - thread_block.first_out);
    std::uint64_t sum = 0;  // their order within a group doesn't matter
    for (; port < end; ++port) {
      sum += mix64(ports_[port].hash + class_of[ports_[port].peer]);
    }
    return mix64(mix64((std::uint64_t{thread_block.script} << 32) + class_of[w] + 1) + mix64(sum));
  }

  void number() {
    std::unordered_map<std::uint64_t, std::uint32_t> known;
    for (std::size_t w = 0; w < signature_.size(); ++w) {
      class_of[w] = known.try_emplace(signature_[w], static_cast<std::uint32_t>(known.size())).first->second;
    }
    classes = known.size();
  }

  const CollectiveGraph& graph_;
  std::vector<Port> ports_;  // of all thread blocks, in before out
  std::vector<std::uint64_t> signature_;
};

// One thread block of each class. Of a group's ports that lead to equal thread blocks one is kept: they have
// equal times.
class Quotient {
 public:
  Quotient(const CollectiveGraph& whole, const Partition& partition)
      : whole_(whole), partition_(partition), first_(partition.classes, ThreadBlock::kSwitch) {
    for (std::uint32_t w = 0; w < whole.thread_blocks.size(); ++w) {
      std::uint32_t& stands = first_[partition.class_of[w]];
      stands = std::min(stands, w);
    }
  }

  CollectiveGraph make() {
    made_.channels = whole_.channels;
    made_.ranks = whole_.ranks;
    made_.hops = whole_.hops;
    std::vector<std::vector<bool>> kept_out;
    for (std::uint32_t c = 0; c < first_.size(); ++c) {
      made_.thread_blocks.push_back(whole_.thread_blocks[first_[c]]);
      made_.thread_blocks.back().first_out = static_cast<std::uint32_t>(made_.out.size());
      kept_out.push_back(add_outs(c));
    }
    for (std::uint32_t c = 0; c < first_.size(); ++c) {
      ThreadBlock& thread_block = made_.thread_blocks[c];
      thread_block.first_in = static_cast<std::uint32_t>(made_.in.size());
      const std::vector<bool> kept_in = add_ins(c);
      thread_block.script = script(thread_block.script, kept_in, kept_out[c]);
    }
    return std::move(made_);
  }

 private:
  // Sender's class and group, hop, receiver's class and group.
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;

  Key key(std::uint32_t fifo) const {
    const Side &from = partition_.sender[fifo], &to = partition_.receiver[fifo];
    return {partition_.class_of[from.thread_block], from.group, whole_.fifos[fifo].hop,
            partition_.class_of[to.thread_block], to.group};
  }

  std::vector<bool> add_outs(std::uint32_t c) {
    std::vector<bool> kept;
    for (std::uint32_t p = whole_.thread_blocks[first_[c]].first_out; p < partition_.out_end(first_[c]);
         ++p) {
      const auto [at, added] =
          fifo_.try_emplace(key(whole_.out[p]), static_cast<std::uint32_t>(made_.fifos.size()));
      kept.push_back(added);
      if (added) {
        Fifo fifo = whole_.fifos[whole_.out[p]];
        fifo.from = c;
        fifo.to = partition_.class_of[fifo.to];
        made_.out.push_back(at->second);
        made_.fifos.push_back(fifo);
      }
    }
    return kept;
  }

  std::vector<bool> add_ins(std::uint32_t c) {
    std::vector<bool> kept;
    for (std::uint32_t p = whole_.thread_blocks[first_[c]].first_in; p < partition_.in_end(first_[c]); ++p) {
      const std::uint32_t fifo = fifo_.at(key(whole_.in[p]));
      const bool added = std::find(made_.in.begin() + made_.thread_blocks[c].first_in, made_.in.end(),
                                   fifo) == made_.in.end();
      kept.push_back(added);
      if (added) {
        made_.in.push_back(fifo);
      }
    }
    return kept;
  }

  static Ports among_kept(const Ports& ports, const std::vector<bool>& kept) {
    const auto count = [&](std::size_t from, std::size_t to) {
      return static_cast<std::uint16_t>(std::count(kept.begin() + static_cast<std::ptrdiff_t>(from),
                                                   kept.begin() + static_cast<std::ptrdiff_t>(to), true));
    };
    return {count(0, ports.first), count(ports.first, std::size_t{ports.first} + ports.count)};
  }

  std::uint32_t script(std::uint32_t old, const std::vector<bool>& kept_in,
                       const std::vector<bool>& kept_out) {
    const auto [at, added] =
        scripts_.try_emplace({old, kept_in, kept_out}, static_cast<std::uint32_t>(made_.scripts.size()));
    if (added) {
      Script script = whole_.scripts[old];
      for (Step& step : script.steps) {
        step.receive = among_kept(step.receive, kept_in);
        step.send = among_kept(step.send, kept_out);
      }
      made_.scripts.push_back(std::move(script));
    }
    return at->second;
  }

  const CollectiveGraph& whole_;
  const Partition& partition_;
  std::vector<std::uint32_t> first_;  // the thread block that stands for a class
  CollectiveGraph made_;
  std::map<Key, std::uint32_t> fifo_;
  std::map<std::tuple<std::uint32_t, std::vector<bool>, std::vector<bool>>, std::uint32_t> scripts_;
};

}  // namespace

EqualThreadBlocks find_equal_thread_blocks(const CollectiveGraph& whole, Begin begin) {
  Partition partition(whole, begin);
  if (!partition.refine() && begin == Begin::together) {
    return find_equal_thread_blocks(whole, Begin::by_rank);  // finer, and enough
  }
  EqualThreadBlocks found;
  found.graph = Quotient(whole, partition).make();
  found.class_of = std::move(partition.class_of);
  return found;
}

}  // namespace paceline
