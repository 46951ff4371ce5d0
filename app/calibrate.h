// paceline calibrate: measure, import, fit, compare, diagnose, replay.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace paceline {

class CalibrateCommands {
 public:
  void add_to(CLI::App&);
  bool parsed() const { return calibrate_->parsed(); }
  void run() const;  // the subcommand that was given

 private:
  void add_measure();
  void add_import();
  void add_fit();
  void add_settings(CLI::App*);
  void add_judging();
  void add_replay();
  void add_defaults();
  void add_pairs();

  CLI::App* calibrate_ = nullptr;
  CLI::App* measure_ = nullptr;
  CLI::App* import_ = nullptr;
  CLI::App* fit_ = nullptr;
  CLI::App* compare_ = nullptr;
  CLI::App* diagnose_ = nullptr;
  CLI::App* replay_ = nullptr;
  CLI::App* defaults_ = nullptr;
  CLI::App* pairs_ = nullptr;
  std::vector<std::string> files_, fit_files_, settings_;
  std::optional<std::string> csv_, layers_, nccl_, scenario_of_rows_, steps_, measured_, profile_, tables_,
      nodes_, gpus_per_node_;
  std::string algorithm_, protocol_, cluster_, library_ = "nccl", overlap_ = "stated", profile_out_,
                                               scenario_, launcher_, with_, index_;
  bool json_ = false, allow_other_machine_ = false;
};

}  // namespace paceline
