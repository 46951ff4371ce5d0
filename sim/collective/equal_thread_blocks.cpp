#include "sim/collective/equal_thread_blocks.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>

#include "core/fingerprint.h"
#include "sim/collective/channels.h"

namespace paceline {
namespace {

// Ports that are used in the same steps form a group: among them the order doesn't matter.
std::vector<std::uint32_t> port_groups(const Script& script, Ports Step::* ports) {
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

constexpr std::uint32_t kUsual = EqualBegins::kUsual;

}  // namespace

// The classes of a graph's thread blocks.
class ThreadBlockClasses {
 public:
  struct Side {  // a FIFO's end
    std::uint32_t thread_block = 0, group = 0;
  };

  ThreadBlockClasses(const CollectiveGraph& whole, Begin begin)
      : class_of(whole.thread_blocks.size()),
        graph_(whole),
        ends_(std::make_shared<const Ends>(ends_of(whole))),
        round_of_(class_of.size()) {
    for (std::size_t w = 0; begin == Begin::by_rank && w < class_of.size(); ++w) {
      class_of[w] = whole.thread_blocks[w].holds();
    }
    split_by_script();
  }

  // False: not within kMostRounds, where a chain or a ring with one slow link tells its places apart one by
  // one; or not with `most` classes.
  bool refine(std::size_t most) {
    constexpr int kMostRounds = 200;
    for (int rounds = 0; !changed_.empty(); ++rounds) {
      if (rounds == kMostRounds || sizes_.size() > most) {
        return false;
      }
      sign_those_beside_changed();
      split();
    }
    return true;
  }

  // Thread blocks that begin otherwise than others are classes of their own, by when; kUsual begin together.
  void split_by_begin(std::span<const std::uint32_t> begins) {
    for (std::uint32_t w = 0; w < begins.size(); ++w) {
      if (begins[w] != kUsual) {
        signed_.push_back({class_of[w], w, begins[w]});
      }
    }
    split();
  }

  // Classes in the order of their first thread blocks.
  void number() {
    std::vector<std::uint32_t> number(sizes_.size(), kUsual);
    std::uint32_t next = 0;
    for (std::uint32_t& c : class_of) {
      number[c] = number[c] == kUsual ? next++ : number[c];
      c = number[c];
    }
  }

  std::size_t classes() const { return sizes_.size(); }
  const Side& sender(std::uint32_t fifo) const { return ends_->sender[fifo]; }
  const Side& receiver(std::uint32_t fifo) const { return ends_->receiver[fifo]; }

  std::vector<std::uint32_t> class_of;

 private:
  // What a port is, whatever the classes, and who is at its other end.
  struct Port {
    std::uint64_t hash = 0;
    std::uint32_t peer = 0;
  };
  struct Signed {  // a thread block that may have to leave its class
    std::uint32_t of = 0, thread_block = 0;
    std::uint64_t signature = 0;
    friend auto operator<=>(const Signed&, const Signed&) = default;
  };

  struct Ends {                          // of FIFOs, whatever the classes
    std::vector<Side> sender, receiver;  // by FIFO
    std::vector<Port> ports;             // of all thread blocks, in before out
  };

  static Ends ends_of(const CollectiveGraph& whole) {
    std::vector<std::vector<std::uint32_t>> in_groups, out_groups;  // by script, by port
    for (const Script& script : whole.scripts) {
      in_groups.push_back(port_groups(script, &Step::receive));
      out_groups.push_back(port_groups(script, &Step::send));
    }
    Ends ends;
    ends.sender.resize(whole.fifos.size());
    ends.receiver.resize(whole.fifos.size());
    for (std::uint32_t w = 0; w < whole.thread_blocks.size(); ++w) {
      const ThreadBlock& thread_block = whole.thread_blocks[w];
      for (std::uint32_t p = thread_block.first_in; p < in_end(whole, w); ++p) {
        ends.receiver[whole.in[p]] = {w, in_groups[thread_block.script][p - thread_block.first_in]};
      }
      for (std::uint32_t p = thread_block.first_out; p < out_end(whole, w); ++p) {
        ends.sender[whole.out[p]] = {w, out_groups[thread_block.script][p - thread_block.first_out]};
      }
    }
    const auto add = [&](std::uint64_t direction, std::uint32_t fifo, const Side& own, const Side& peer) {
      const std::uint64_t hash = mix64(direction + 2 * std::uint64_t{own.group} + 1);
      ends.ports.push_back(
          {mix64(hash + (std::uint64_t{whole.fifos[fifo].hop} << 32) + peer.group), peer.thread_block});
    };
    for (std::uint32_t w = 0; w < whole.thread_blocks.size(); ++w) {
      for (std::uint32_t p = whole.thread_blocks[w].first_in; p < in_end(whole, w); ++p) {
        add(0, whole.in[p], ends.receiver[whole.in[p]], ends.sender[whole.in[p]]);
      }
      for (std::uint32_t p = whole.thread_blocks[w].first_out; p < out_end(whole, w); ++p) {
        add(1, whole.out[p], ends.sender[whole.out[p]], ends.receiver[whole.out[p]]);
      }
    }
    return ends;
  }

  std::span<const Port> ports_of(std::uint32_t w) const {
    const std::size_t first =
        std::size_t{graph_.thread_blocks[w].first_in} + graph_.thread_blocks[w].first_out;
    return std::span(ends_->ports)
        .subspan(first, std::size_t{in_end(graph_, w)} + out_end(graph_, w) - first);
  }

  // All thread blocks may differ in what is beside them.
  void split_by_script() {
    std::unordered_map<std::uint64_t, std::uint32_t> known;
    for (std::uint32_t w = 0; w < class_of.size(); ++w) {
      const std::uint64_t key = (std::uint64_t{graph_.thread_blocks[w].script} << 32) + class_of[w];
      class_of[w] = known.try_emplace(key, static_cast<std::uint32_t>(known.size())).first->second;
      changed_.push_back(w);
    }
    sizes_.resize(known.size());
    for (const std::uint32_t c : class_of) {
      ++sizes_[c];
    }
  }

  // By a hash of 64 bits; among a million thread blocks two that differ are taken for equal with a chance of
  // 1e-7.
  void sign_those_beside_changed() {
    ++round_;
    const auto sign = [&](std::uint32_t w) {
      if (round_of_[w] != round_) {
        round_of_[w] = round_;
        std::uint64_t sum = 0;  // their order within a group doesn't matter
        for (const Port& port : ports_of(w)) {
          sum += mix64(port.hash + class_of[port.peer]);
        }
        signed_.push_back({class_of[w], w, sum});
      }
    };
    for (const std::uint32_t w : changed_) {
      for (const Port& port : ports_of(w)) {
        sign(port.peer);
      }
    }
  }

  // Of each class those that were signed leave it, together where their signatures are equal; where all were, the
  // largest of these groups stays. Those that were not signed have equal ports as before, and other ones.
  void split() {
    std::ranges::sort(signed_, {},
                      [](const Signed& s) { return std::tuple(s.of, s.signature, s.thread_block); });
    changed_.clear();
    for (auto first = signed_.begin(); first != signed_.end();) {
      const std::uint32_t of = first->of;
      const auto last = std::find_if(first, signed_.end(), [&](const Signed& s) { return s.of != of; });
      const auto end_of = [&](auto group) {
        return std::find_if(group, last, [&](const Signed& s) { return s.signature != group->signature; });
      };
      auto stays = last;
      if (static_cast<std::size_t>(last - first) == sizes_[of]) {
        std::ptrdiff_t largest = 0;
        for (auto group = first; group != last; group = end_of(group)) {
          if (const std::ptrdiff_t size = end_of(group) - group; size > largest) {
            largest = size;
            stays = group;
          }
        }
      }
      for (auto group = first; group != last;) {
        const auto end = end_of(group);
        if (group != stays) {
          const auto made = static_cast<std::uint32_t>(sizes_.size());
          sizes_[of] -= static_cast<std::size_t>(end - group);
          sizes_.push_back(static_cast<std::size_t>(end - group));
          for (auto each = group; each != end; ++each) {
            class_of[each->thread_block] = made;
            changed_.push_back(each->thread_block);
          }
        }
        group = end;
      }
      first = last;
    }
    signed_.clear();
  }

  const CollectiveGraph& graph_;
  std::shared_ptr<const Ends> ends_;    // of copies too
  std::vector<std::size_t> sizes_;      // of classes
  std::vector<std::uint32_t> changed_;  // thread blocks that got another class
  std::vector<Signed> signed_;
  std::vector<std::uint32_t> round_of_;  // when a thread block was signed
  std::uint32_t round_ = 0;
};

namespace {

// One thread block of each class. Of a group's ports that lead to equal thread blocks one is kept: they have
// equal times.
class Quotient {
 public:
  Quotient(const CollectiveGraph& whole, const ThreadBlockClasses& partition)
      : whole_(whole), partition_(partition), first_(partition.classes(), ThreadBlock::kSwitch) {
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
    const ThreadBlockClasses::Side &from = partition_.sender(fifo), &to = partition_.receiver(fifo);
    return {partition_.class_of[from.thread_block], from.group, whole_.fifos[fifo].hop,
            partition_.class_of[to.thread_block], to.group};
  }

  std::vector<bool> add_outs(std::uint32_t c) {
    std::vector<bool> kept;
    for (std::uint32_t p = whole_.thread_blocks[first_[c]].first_out; p < out_end(whole_, first_[c]); ++p) {
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
    for (std::uint32_t p = whole_.thread_blocks[first_[c]].first_in; p < in_end(whole_, first_[c]); ++p) {
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
  const ThreadBlockClasses& partition_;
  std::vector<std::uint32_t> first_;  // the thread block that stands for a class
  CollectiveGraph made_;
  std::map<Key, std::uint32_t> fifo_;
  std::map<std::tuple<std::uint32_t, std::vector<bool>, std::vector<bool>>, std::uint32_t> scripts_;
};

EqualThreadBlocks quotient(const CollectiveGraph& whole, ThreadBlockClasses partition) {
  partition.number();
  EqualThreadBlocks found;
  found.graph = Quotient(whole, partition).make();
  found.class_of = std::move(partition.class_of);
  return found;
}

}  // namespace

EqualThreadBlocks find_equal_thread_blocks(const CollectiveGraph& whole, Begin begin) {
  if (begin == Begin::by_rank) {
    ThreadBlockClasses partition(whole, begin);
    partition.refine(whole.thread_blocks.size());
    return quotient(whole, std::move(partition));
  }
  // Channels that are the same have equal classes: those of one stand for all.
  EqualThreadBlocks merged = merge_channels(whole, Ranks::any);
  ThreadBlockClasses partition(merged.graph, begin);
  if (!partition.refine(merged.graph.thread_blocks.size())) {
    return find_equal_thread_blocks(whole, Begin::by_rank);  // finer, and enough
  }
  EqualThreadBlocks found = quotient(merged.graph, std::move(partition));
  for (std::uint32_t& c : merged.class_of) {
    c = found.class_of[c];
  }
  found.class_of = std::move(merged.class_of);
  return found;
}

EqualThreadBlocks find_equal_channels(const CollectiveGraph& whole) {
  return whole.shared.empty() && channels_of(whole).empty() ? find_equal_thread_blocks(whole, Begin::by_rank)
                                                            : merge_channels(whole, Ranks::same);
}

EqualBegins::EqualBegins(const CollectiveGraph& whole) : graph_(whole) {}
EqualBegins::~EqualBegins() = default;

std::shared_ptr<const EqualThreadBlocks> EqualBegins::find(std::span<const std::uint32_t> begins,
                                                           std::size_t most) const {
  {
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find_if(found_, [&](const Found& found) {
      return found.most == most && std::ranges::equal(found.begins, begins);
    });
    if (at != found_.end()) {
      found_.splice(found_.begin(), found_, at);
      return at->classes;
    }
  }
  std::call_once(once_, [&] {
    auto made = std::make_unique<ThreadBlockClasses>(graph_, Begin::together);
    together_ = made->refine(graph_.thread_blocks.size()) ? std::move(made) : nullptr;
  });
  if (together_ == nullptr || together_->classes() > most) {
    return nullptr;
  }
  ThreadBlockClasses classes = *together_;
  classes.split_by_begin(begins);
  const bool few = classes.refine(most) && classes.classes() <= most;
  auto found =
      few ? std::make_shared<const EqualThreadBlocks>(quotient(graph_, std::move(classes))) : nullptr;
  const std::lock_guard lock(mutex_);
  found_.push_front({{begins.begin(), begins.end()}, most, found});
  found_.resize(std::min(found_.size(), kKept));
  return found;
}

}  // namespace paceline
