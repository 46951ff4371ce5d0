// `paceline plot` and `paceline report`, and sweeps on workers: what the Python package does.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline {

// As `python -m paceline` with these words, in place of this program. Throws InputError where no interpreter has the
// package.
[[noreturn]] void become_package(const std::vector<std::string>& words);

struct PlotOptions {
  std::vector<std::string> sources;
  std::string out;
  std::optional<std::string> kind;
};

struct ReportOptions {
  std::string source;
  std::optional<std::string> out, profile, ranks;
  std::optional<std::string> serve;  // the port; empty: ours
  std::optional<std::int64_t> step, slices;
  bool allow_other_machine = false, no_explain = false;
};

class PythonCommands {
 public:
  void add_to(CLI::App&);
  bool parsed() const { return plot_->parsed() || report_->parsed(); }
  [[noreturn]] void run() const;  // as the package, in place of this program

 private:
  void add_plot(CLI::App&);
  void add_report(CLI::App&);

  CLI::App* plot_ = nullptr;
  CLI::App* report_ = nullptr;
  PlotOptions plot_options_;
  ReportOptions report_options_;
};

}  // namespace paceline
