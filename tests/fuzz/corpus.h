// The inputs that fuzzing starts from, and those that once found something.
#pragma once

#include <string>
#include <vector>

namespace paceline {

struct CorpusFile {
  std::string path, content;
};

// The files that tests/fuzz/seeds lists for a target.
std::vector<CorpusFile> corpus_of(const std::string& target);

}  // namespace paceline
