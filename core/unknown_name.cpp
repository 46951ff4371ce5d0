#include "core/unknown_name.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/text.h"

namespace paceline {
namespace {

bool is_sign(char c) { return static_cast<unsigned char>(c) < 0x80 && !is_letter(c) && !is_digit(c); }

std::string without_signs(std::string text) {
  std::erase_if(text, is_sign);
  return text;
}

// Insertions, deletions, substitutions and exchanges of neighbours that turn a into b; cost O(|a| |b|).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({row[j] + 1, above[j + 1] + 1, above[j] + (a[i] == b[j] ? 0 : 1)});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j]) {
        row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
      }
    }
    before = std::exchange(above, row);
  }
  return above.back();
}

// Whether the shorter stands in the longer as a whole word: "A100" in "A100-80GB", "nodes" in "num_nodes".
bool shares_words(std::string_view a, std::string_view b) {
  constexpr std::size_t kShortestWord = 3;
  const std::string_view part = a.size() < b.size() ? a : b, whole = a.size() < b.size() ? b : a;
  const auto ends_at = [whole](std::size_t i) { return i == whole.size() || is_sign(whole[i]); };
  for (std::size_t at = whole.find(part); at != std::string_view::npos; at = whole.find(part, at + 1)) {
    if (part.size() >= kShortestWord && (at == 0 || ends_at(at - 1)) && ends_at(at + part.size())) {
      return true;
    }
  }
  return false;
}

// "llama" and "llama3_8b".
bool shares_beginning(std::string_view a, std::string_view b) {
  constexpr std::size_t kShortestBeginning = 4;
  return std::min(a.size(), b.size()) >= kShortestBeginning && (a.starts_with(b) || b.starts_with(a));
}

// "gpt2", the letters of "GPT-2", and "gpt2_small".
bool begins_with_word(std::string_view other, std::string_view letters) {
  constexpr std::size_t kShortestWord = 3;
  std::size_t met = 0, at = 0;
  for (; at < other.size() && met < letters.size() && (is_sign(other[at]) || other[at] == letters[met]);
       ++at) {
    met += is_sign(other[at]) ? 0 : 1;
  }
  return letters.size() >= kShortestWord && met == letters.size() && at < other.size() && is_sign(other[at]);
}

// A word with a digit: "p5.48xlarge" and "aws-p5".
bool has_first_word_of(std::string_view other, std::string_view name) {
  const auto end = std::ranges::find_if(name, is_sign);
  const std::string_view word = name.substr(0, static_cast<std::size_t>(end - name.begin()));
  for (std::size_t at = 0; std::ranges::any_of(word, is_digit) && at <= other.size();) {
    const std::size_t length = std::min(other.find_first_of("-_. ", at), other.size()) - at;
    if (other.substr(at, length) == word) {
      return true;
    }
    at += length + 1;
  }
  return false;
}

// Those at the least distance so far.
struct Nearest {
  std::size_t distance;
  std::vector<std::string> names;
  void offer(const std::string& name, std::size_t at) {
    if (at < distance) {
      names.clear();
      distance = at;
    }
    if (at == distance) {
      names.push_back(name);
    }
  }
};

}  // namespace

std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> known) {
  constexpr std::size_t kLongestComparedName = 100, kMost = 3, kFew = 9;
  if (name.size() > kLongestComparedName) {
    return {};
  }
  const std::string lower = in_lower_case(name);
  std::vector<std::string> with_its_words, with_its_beginning, begun;
  Nearest nearest{kLongestComparedName, {}}, nearest_with_its_words = nearest;
  for (const std::string& candidate : known) {
    const std::string other = in_lower_case(candidate);
    const std::string letters = without_signs(lower), other_letters = without_signs(other);
    const std::size_t distance = edit_distance(letters, other_letters);
    const std::size_t longer = std::max(letters.size(), other_letters.size());
    const std::size_t allowed = longer < 3 ? 0 : std::max<std::size_t>(1, longer / 3);
    if (distance <= allowed) {
      nearest.offer(candidate, distance);
    }
    if (shares_words(lower, other)) {
      with_its_words.push_back(candidate);
      nearest_with_its_words.offer(candidate, distance);
    }
    if (begins_with_word(other, letters)) {
      begun.push_back(candidate);
    }
    if (shares_beginning(letters, other_letters) || has_first_word_of(other, lower)) {
      with_its_beginning.push_back(candidate);
    }
  }
  const bool all_begun = begun.size() > 1 && begun.size() >= with_its_words.size();
  if (nearest.distance > 0 && all_begun && begun.size() <= kMost + 1) {
    return begun;
  }
  if (with_its_words.size() > kMost && with_its_words.size() <= kFew) {
    with_its_words = nearest_with_its_words.names;
  }
  if (nearest.distance > 0 && !with_its_words.empty() && with_its_words.size() <= kMost) {
    return with_its_words;
  }
  nearest.names = nearest.names.empty() ? with_its_beginning : nearest.names;
  nearest.names.resize(std::min(nearest.names.size(), kMost));
  return nearest.names;
}

std::string quoted_list(std::span<const std::string> names, std::string_view last_word) {
  std::vector<std::string> quoted;
  std::ranges::transform(names, std::back_inserter(quoted),
                         [](const std::string& name) { return '"' + name + '"'; });
  return joined(quoted, ", ", ' ' + std::string(last_word) + ' ');
}

std::string unknown_name(std::string_view what, std::string_view name, std::span<const std::string> known,
                         std::string_view elsewhere) {
  constexpr std::size_t kShownLength = 60, kMostListed = 100;
  std::string text = "unknown " + std::string(what) + " \"" + std::string(name.substr(0, kShownLength)) +
                     (name.size() > kShownLength ? "...\"" : "\"");
  if (const std::vector<std::string> nearest = nearest_names(name, known); !nearest.empty()) {
    text += "; did you mean " + quoted_list(nearest, "or") + "?";
  } else {
    text += '.';
  }
  text += elsewhere.empty() ? "" : " " + std::string(elsewhere);
  if (known.size() > kMostListed) {
    return text;
  }
  return text + " Known: " + joined(known, ", ");
}

}  // namespace paceline
