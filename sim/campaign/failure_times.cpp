#include "sim/campaign/failure_times.h"

#include <cmath>
#include <string_view>
#include <tuple>

#include "core/portable_math.h"
#include "core/random.h"

namespace paceline {
namespace {

// FNV-1a, so that a kind's draws don't depend on the others.
std::uint32_t address_of(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return hash;
}

// The gamma function, by Lanczos' approximation with g = 7 and nine terms (relative error below 1e-13 here).
// Requires: 1 <= x <= 30.
double portable_gamma(double x) {
  constexpr double kTerms[] = {676.5203681218851,     -1259.1392167224028,  771.32342877765313,
                               -176.61502916214059,   12.507343278686905,   -0.13857109526572012,
                               9.9843695780195716e-6, 1.5056327351493116e-7};
  constexpr double kRootOfTwoPi = 2.5066282746310005, kG = 7;
  double sum = 0.99999999999980993;
  for (int i = 0; i < 8; ++i) {
    sum += kTerms[i] / (x + i);
  }
  const double t = x + kG - 0.5;
  return kRootOfTwoPi * portable_exp((x - 0.5) * portable_log(t) - t) * sum;
}

}  // namespace

// Ties: in the order of kinds and parts.
bool FailureTimes::Later::operator()(const Entry& a, const Entry& b) const {
  const auto key = [](const Entry& e) { return std::tuple(e.failure.at, e.failure.kind, e.failure.part); };
  return key(a) > key(b);
}

FailureTimes::FailureTimes(const CampaignSpec& spec)
    : spec_(spec), outages_(static_cast<std::size_t>(spec.nodes)) {
  for (const FailureKind& kind : spec.failures) {
    addresses_.push_back(address_of(kind.name));
    scales_.push_back(static_cast<double>(kind.mtbf.ps) / portable_gamma(1 + 1 / kind.shape));
  }
  for (const PassingState& state : spec.passing) {
    addresses_.push_back(address_of(state.name));
    scales_.push_back(static_cast<double>(state.every.ps));
  }
  std::vector<double> drawn;
  for (std::uint32_t kind = 0; kind < scales_.size(); ++kind) {
    constexpr double kOfAge = 1e-9, kOfDraw = 1e-12;  // more than all is rounded by that is computed from u
    const double lasts = scales_[kind] > 0 ? static_cast<double>(spec.length.ps) / scales_[kind] : 0;
    beyond_.push_back(std::exp(-std::pow(lasts * (1 + kOfAge), shape_of(kind))) * (1 - kOfDraw));
    const bool fails = kind < spec.failures.size();
    const std::uint32_t parts = parts_of(spec, fails ? spec.failures[kind].of : FailingPart::node);
    drawn.resize(scales_[kind] > 0 ? parts : 0);
    fine_uniforms({spec.seed, Stream::failure, 0}, addresses_[kind], drawn);
    for (std::uint32_t part = 0; part < drawn.size(); ++part) {
      add(drawn[part], kind, part, 0, {});
    }
  }
}

double FailureTimes::shape_of(std::uint32_t kind) const {
  return kind < spec_.failures.size() ? spec_.failures[kind].shape : 1;
}

void FailureTimes::add(double u, std::uint32_t kind, std::uint32_t part, std::uint32_t count,
                       CampaignTime from) {
  if (u < beyond_[kind]) {  // as most do: what follows takes long
    return;
  }
  const double shape = shape_of(kind);
  const double exponential = -portable_log(u);
  const double age =
      scales_[kind] * (shape == 1 ? exponential : portable_exp(portable_log(exponential) / shape));
  if (age < static_cast<double>((spec_.length - from).ps)) {
    Entry entry{{from + CampaignTime(static_cast<PicosecondSum>(age)), kind, part, count}, {}};
    if (const auto node = node_of(entry.failure)) {
      entry.outage = outages_[*node].before;
    }
    queue_.push(entry);
  }
}

void FailureTimes::renew(const PartFailure& failure, CampaignTime at) {
  if (scales_[failure.kind] > 0) {
    const std::uint32_t count = failure.count + 1;
    add(fine_uniform({spec_.seed, Stream::failure, count}, Rank(failure.part), addresses_[failure.kind]),
        failure.kind, failure.part, count, at);
  }
}

std::optional<std::uint32_t> FailureTimes::node_of(const PartFailure& failure) const {
  if (failure.kind >= spec_.failures.size()) {
    return failure.part;
  }
  switch (spec_.failures[failure.kind].of) {
    case FailingPart::gpu:
      return failure.part / static_cast<std::uint32_t>(spec_.gpus_per_node);
    case FailingPart::nic:
      return failure.part / static_cast<std::uint32_t>(spec_.nics_per_node);
    case FailingPart::node:
      return failure.part;
    case FailingPart::leaf_switch:
    case FailingPart::software:
      break;
  }
  return std::nullopt;
}

const PartFailure* FailureTimes::next() {
  while (!queue_.empty()) {
    const auto node = node_of(queue_.top().failure);
    if (!node) {
      return &queue_.top().failure;
    }
    Outage& outage = outages_[*node];
    Entry entry = queue_.top();
    if (entry.outage < outage.before) {  // put off by outages that have ended
      queue_.pop();
      entry.failure.at += outage.before - entry.outage;
      entry.outage = outage.before;
      queue_.push(entry);
    } else if (outage.since) {
      queue_.pop();
      outage.held.push_back(entry);
    } else {
      return &queue_.top().failure;
    }
  }
  return nullptr;
}

void FailureTimes::node_leaves(std::uint32_t node, CampaignTime at) { outages_[node].since = at; }

void FailureTimes::node_returns(std::uint32_t node, CampaignTime at) {
  Outage& outage = outages_[node];
  outage.before += at - *outage.since;
  outage.since.reset();
  for (const Entry& entry : outage.held) {  // next() puts them off
    queue_.push(entry);
  }
  outage.held.clear();
}

}  // namespace paceline
