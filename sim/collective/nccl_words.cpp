#include "sim/collective/nccl_words.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/minor_version.h"
#include "core/names.h"
#include "core/text.h"
#include "core/unknown_name.h"

namespace paceline {
namespace {

// NCCL's words (src/init.cc, ncclAlgoStr, ncclProtoStr, ncclFuncStr); compared without case.
constexpr std::array<Named<Algorithm>, kNcclAlgorithms> kAlgorithmWords{
    {{"Tree", Algorithm::tree},
     {"Ring", Algorithm::ring},
     {"CollNetDirect", Algorithm::collnet_direct},
     {"CollNetChain", Algorithm::collnet_chain},
     {"NVLS", Algorithm::nvls},
     {"NVLSTree", Algorithm::nvls_tree},
     {"PAT", Algorithm::pat}}};
constexpr auto kProtocolWords =
    names<Protocol>({{"LL", Protocol::ll}, {"LL128", Protocol::ll128}, {"Simple", Protocol::simple}});
constexpr std::array<Named<CollectiveKind>, 5> kFunctionWords{
    {{"AllReduce", CollectiveKind::all_reduce},
     {"AllGather", CollectiveKind::all_gather},
     {"ReduceScatter", CollectiveKind::reduce_scatter},
     {"Broadcast", CollectiveKind::broadcast},
     {"Reduce", CollectiveKind::reduce}}};

// Without case and underscores: "NVLSTree" is also nvls_tree.
bool same_word(std::string_view a, std::string_view b) {
  const auto plain = [](std::string_view word) {
    std::string letters;
    for (const char c : word) {
      letters += c == '_' ? "" : std::string(1, to_lower(c));
    }
    return letters;
  };
  return plain(a) == plain(b);
}

auto meaning(const std::string& what, std::string_view word, const auto& words) {
  std::vector<std::string> known;
  for (const auto& [name, value] : words) {
    if (same_word(name, word)) {
      return value;
    }
    known.emplace_back(name);
  }
  throw InputError(unknown_name(what, word, known));
}

// As strtok does: no empty words.
std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(at), text.size());
    if (end > 0) {
      words.push_back(text.substr(0, end));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

template <class Words>
struct Vocabulary {
  std::string variable, what;
  const Words& words;
};
template <class Words>
Vocabulary(std::string, std::string, const Words&) -> Vocabulary<Words>;

// "a,b" or "^a,b" on the flags of `on`.
template <class Words, std::size_t N>
void set_flags(std::string_view list, const Vocabulary<Words>& known, std::array<bool, N>& on) {
  const bool without = list.starts_with('^');
  on.fill(without);
  for (const std::string_view word : split(list.substr(without ? 1 : 0), ',')) {
    on[static_cast<std::size_t>(meaning(known.what, word, known.words))] = !without;
  }
}

// Whether the setting says anything about the collective.
template <class Words, std::size_t N>
bool read_setting(const std::string& text, const Vocabulary<Words>& known, CollectiveKind kind,
                  std::array<bool, N>& on) {
  bool says = false;
  const std::vector<std::string_view> entries = split(text, ';');
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::vector<std::string_view> parts = split(entries[i], ':');
    if (parts.size() > 2 || (parts.size() < 2 && i > 0)) {
      throw InputError(known.variable + " \"" + text + "\": each entry but the first must be FUNCTION:LIST");
    }
    std::array<bool, N> flags{};
    set_flags(parts.empty() ? std::string_view() : parts.back(), known, flags);
    const bool mine = parts.size() < 2 || kind == meaning("function", parts[0], kFunctionWords);
    on = mine ? flags : on;
    says = says || mine;
  }
  return says;
}

}  // namespace

NcclVersion nccl_version(const std::string& text) {
  const std::optional<int> minor = minor_version(text, 2);
  if (!minor || *minor < kOldestNccl || *minor > kNewestNccl) {
    throw InputError("unknown NCCL version \"" + text + "\"; known: " + to_string(NcclVersion{kOldestNccl}) +
                     " to " + to_string(NcclVersion{kNewestNccl}) + ", as in \"2.22\" or \"2.22.3\"");
  }
  return {*minor};
}

std::string to_string(NcclVersion version) { return "2." + std::to_string(version.minor); }

std::string nearest_nccl(std::string_view version) {
  return to_string(NcclVersion{std::clamp(leading_minor(version), kOldestNccl, kNewestNccl)});
}

TunerOverrides tuner_overrides(const std::string& algo, const std::string& proto, CollectiveKind kind) {
  TunerOverrides made;
  read_setting(algo, Vocabulary{"NCCL_ALGO", "algorithm", kAlgorithmWords}, kind, made.algorithm);
  made.protocol_forced =
      read_setting(proto, Vocabulary{"NCCL_PROTO", "protocol", kProtocolWords}, kind, made.protocol);
  return made;
}

void require_choice(const CollectiveSpec& spec, const ChoicePlaces& places) {
  const auto at = [](const std::string& place, auto&& check) {
    try {
      check();
    } catch (const InputError& error) {
      throw error.at(place);
    }
  };
  for (const auto& [place, value] :
       {std::pair{places.algorithm, spec.algorithm}, {places.protocol, spec.protocol}}) {
    if (spec.library != CollectiveLibrary::nccl && !value.empty()) {
      constexpr std::size_t kShown = 60;
      throw InputError("expected none with the library " + std::string(name_of(spec.library)) +
                           ", which has one, found \"" + value.substr(0, kShown) + "\"",
                       place);
    }
  }
  at(places.nccl, [&] { static_cast<void>(nccl_version(spec.nccl)); });
  const std::string algorithm = spec.algorithm == kHierarchical ? "" : spec.algorithm;
  at(places.algorithm,
     [&] { static_cast<void>(tuner_overrides(algorithm, "", CollectiveKind::all_reduce)); });
  at(places.protocol,
     [&] { static_cast<void>(tuner_overrides("", spec.protocol, CollectiveKind::all_reduce)); });
}

}  // namespace paceline
