#include "app/options.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <thread>

#include "core/error.h"
#include "core/option_text.h"
#include "core/parallel.h"
#include "core/text.h"
#include "scenarios/files.h"
#include "scenarios/json.h"
#include "scenarios/scenario.h"
#include "studies/edit.h"
#include "topology/topology.h"

namespace paceline {

int thread_count(const std::string& text, const char* option) {
  constexpr std::uint64_t kMostThreads = 1024;
  return text.empty() ? all_cores() : static_cast<int>(whole_number(text, 1, kMostThreads, option));
}

void remark(const std::string& text) { std::cerr << "paceline: " << printable(text) << '\n'; }

Profile profile_in(const std::string& path, bool any_machine) {
  Profile profile = load_profile(path);
  profile.any_machine = any_machine;
  if (const std::string text = remark_on(profile); !text.empty()) {
    remark(path + ": " + text);
  }
  return profile;
}

std::string collective_settings(const std::vector<std::string>& settings) {
  Json json(Json::Object{});
  for (const std::string& setting : settings) {
    const std::size_t end = setting.find('=');
    if (end == std::string::npos) {
      throw InputError("expected KEY=VALUE such as max_channels=8, found " + in_quotes(setting), "--set");
    }
    set_at(json, '/' + setting.substr(0, end), value_of_text(setting.substr(end + 1)), ".");
  }
  return settings.empty() ? "" : to_line(json);
}

void print(const std::string& text) { std::cout << printable(text) << std::flush; }

bool can_print() { return std::cout.good(); }

void require_printed() {
  pollfd output{STDOUT_FILENO, 0, 0};
  const bool left = ::poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
  if (!std::cout.flush() && !left) {
    throw InputError("can't be written", {}, "the standard output");
  }
}

void ignore_broken_pipes() { std::signal(SIGPIPE, SIG_IGN); }
void heed_broken_pipes() { std::signal(SIGPIPE, SIG_DFL); }

std::filesystem::path program_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

std::string examples_folder() {
  const std::string here = "scenarios";
  const std::filesystem::path installed = program_folder().parent_path() / "share/paceline/scenarios";
  std::error_code error;
  return !std::filesystem::exists(here, error) && std::filesystem::exists(installed, error)
             ? installed.string()
             : here;
}

std::string measuring_program() {
  const std::filesystem::path here = program_folder();
  std::vector<std::string> names{"paceline-measure-mpi"};
  if (std::filesystem::exists("/dev/nvidiactl")) {
    names.insert(names.begin(), "paceline-measure-nccl");
  }
  for (const std::string& name : names) {
    for (const std::filesystem::path& path : {here / name, here / "calibrate" / "measure" / name}) {
      if (std::filesystem::exists(path)) {
        return path.string();
      }
    }
  }
  throw InputError("expected " + names.front() + " beside " + here.string() +
                   "/paceline, found none: install the package paceline-measure, or MPI (Debian: "
                   "libopenmpi-dev openmpi-bin) or CUDA with NCCL, and build again");
}

GivenFile read_given(const std::string& path) {
  std::error_code error;
  if (path.starts_with("scenarios/") && !std::filesystem::exists(path, error)) {
    const std::string example = examples_folder() + path.substr(path.find('/'));
    if (std::filesystem::exists(example, error)) {
      throw InputError("there is none here; did you mean " + example + "?", {}, path);
    }
  }
  for (const std::vector<std::string>& names : {node_preset_names(), cluster_names(), model_names()}) {
    if (std::ranges::find(names, path) != names.end() && !std::filesystem::exists(path, error)) {
      throw InputError(
          "expected the file of a scenario, found a name that stands in one: `paceline presets " + path +
              "` prints what it is",
          {}, path);
    }
  }
  return path == kStandard ? GivenFile{"standard input", read_file(path_to_read(path))}
                           : GivenFile{path, read_file(path)};
}

std::string path_to_read(const std::string& path) { return path == kStandard ? "/dev/stdin" : path; }

void require_place(const std::string& path) {
  if (path != kStandard) {
    require_writable(path);
  }
}

void write_given(const std::string& path, const std::string& content) {
  if (path == kStandard) {
    std::cout << content << std::flush;
  } else {
    write_file(path, content);
  }
}

}  // namespace paceline
