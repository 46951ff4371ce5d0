// Every way in takes what fuzzing starts from, whole and damaged, and what fuzzing found.
#include "corpus.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "targets.h"

using namespace paceline;

namespace {

std::string damaged(const std::string& text, std::minstd_rand& random) {
  std::string made = text;
  for (int i = 0; i < 3 && !made.empty(); ++i) {
    const std::size_t at = random() % made.size();
    switch (random() % 4) {
      case 0:
        made[at] = static_cast<char>(random());
        break;
      case 1:
        made.erase(at, 1 + random() % 20);
        break;
      case 2:
        made.insert(at, made.substr(random() % made.size(), random() % 40));
        break;
      default:
        made.resize(at);
    }
  }
  return made;
}

}  // namespace

TEST_CASE("every way in takes its corpus, whole and damaged") {
  // Of each target so many inputs, over its files in turn; predictions and replays take longer.
  constexpr std::size_t kDamaged = 60, kSlow = 15, kLargest = 30'000;
  for (const FuzzTarget& target : fuzz_targets()) {
    const std::vector<CorpusFile> files = corpus_of(std::string(target.name));
    INFO(target.name);
    REQUIRE_FALSE(files.empty());
    const bool slow = target.name == "predict" || target.name == "replay";
    std::minstd_rand random(7);
    std::size_t left = slow ? kSlow : kDamaged;
    for (const CorpusFile& file : files) {
      if (file.content.size() <= kLargest) {
        INFO(file.path);
        run_target(target, file.content);
      }
    }
    for (std::size_t i = 0; left > 0; ++i, --left) {
      run_target(target, damaged(files[i % files.size()].content.substr(0, kLargest), random));
    }
  }
}

TEST_CASE("a target is known by its name") {
  CHECK(fuzz_target("csv") != nullptr);
  CHECK(fuzz_target("cvs") == nullptr);
}
