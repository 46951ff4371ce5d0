// `paceline run`, `paceline explain` and `paceline compare`.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/trace.h"
#include "scenarios/run_overrides.h"

namespace paceline {

struct RunOptions {
  std::string scenario;
  std::vector<std::string> scenarios;  // of compare
  RunOverrides overrides;
  std::optional<std::string> out, profile, events;
  TraceOptions trace;
  std::vector<std::string> settings;  // "/run/seed=2"
  std::string jobs;
  bool quiet = false, no_explain = false, require_fit = false, allow_other_machine = false;
  std::string strategies;
  bool json = false;
};

class RunCommands {
 public:
  void add_to(CLI::App&);
  bool parsed() const { return run_->parsed() || explain_->parsed() || compare_->parsed(); }
  void run();

 private:
  void add_scenario(CLI::App*);
  void add_common(CLI::App*);

  CLI::App* run_ = nullptr;
  CLI::App* explain_ = nullptr;
  CLI::App* compare_ = nullptr;
  RunOptions options_;
};

}  // namespace paceline
