#include "corpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/files.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

void add(const fs::path& path, std::vector<CorpusFile>& files) {
  if (fs::is_regular_file(path)) {
    files.push_back({path.string(), text_of(path)});
  } else if (fs::is_directory(path)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      const std::string ending = entry.path().extension().string();
      if (entry.is_regular_file() && ending != ".cpp" && ending != ".h" && ending != ".expect" &&
          ending != ".md") {
        files.push_back({entry.path().string(), text_of(entry.path())});
      }
    }
  }
}

}  // namespace

std::vector<CorpusFile> corpus_of(const std::string& target) {
  std::vector<CorpusFile> files;
  std::ifstream seeds(kSource / "tests/fuzz/seeds");
  for (std::string line; std::getline(seeds, line);) {
    std::istringstream words(line);
    std::string of, path;
    if (words >> of >> path && of == target) {
      add(kSource / path, files);
    }
  }
  std::ranges::sort(files, {}, &CorpusFile::path);
  return files;
}

}  // namespace paceline
