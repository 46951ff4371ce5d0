#include "corpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace paceline {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void add(const fs::path& path, std::vector<CorpusFile>& files) {
  if (fs::is_regular_file(path)) {
    files.push_back({path.string(), content_of(path)});
  } else if (fs::is_directory(path)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      const std::string ending = entry.path().extension().string();
      if (entry.is_regular_file() && ending != ".cpp" && ending != ".h" && ending != ".expect" &&
          ending != ".md") {
        files.push_back({entry.path().string(), content_of(entry.path())});
      }
    }
  }
}

}  // namespace

std::vector<CorpusFile> corpus_of(const std::string& target) {
  const fs::path root = PACELINE_SOURCE_DIR;
  std::vector<CorpusFile> files;
  std::ifstream seeds(root / "tests/fuzz/seeds");
  for (std::string line; std::getline(seeds, line);) {
    std::istringstream words(line);
    std::string of, path;
    if (words >> of >> path && of == target) {
      add(root / path, files);
    }
  }
  std::ranges::sort(files, {}, &CorpusFile::path);
  return files;
}

}  // namespace paceline
