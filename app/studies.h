// `paceline sweep` and `paceline plot`.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace paceline {

struct PlotOptions {
  std::vector<std::string> sources;
  std::string out;
  std::optional<std::string> kind;
};

class StudyCommands {
 public:
  void add_to(CLI::App&);
  bool parsed() const { return sweep_->parsed() || plot_->parsed(); }
  int run() const;  // the exit status

 private:
  void add_sweep(CLI::App&);
  void add_plot(CLI::App&);

  CLI::App* sweep_ = nullptr;
  CLI::App* plot_ = nullptr;
  std::string study_, out_, jobs_;
  PlotOptions plot_options_;
};

}  // namespace paceline
