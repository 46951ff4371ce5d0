// `paceline sweep`.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace paceline {

class StudyCommands {
 public:
  void add_to(CLI::App&);
  bool parsed() const { return sweep_->parsed(); }
  int run() const;  // the exit status

 private:
  CLI::App* sweep_ = nullptr;
  std::string study_, out_, jobs_;
  std::optional<std::string> shard_, dask_;
};

}  // namespace paceline
