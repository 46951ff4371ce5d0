// nccl-tests -J (src/util.cu, writeDeviceReport and what follows it).
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/import/nccl_row.h"
#include "calibrate/import/readers.h"
#include "core/error.h"
#include "scenarios/json_stream.h"

namespace paceline {
namespace {

std::int64_t whole_of(const Json* json, std::int64_t otherwise) {
  double value = 0;
  constexpr double kMost = 9e18;
  return read_number(json, value) && value >= -kMost && value <= kMost ? static_cast<std::int64_t>(value)
                                                                       : otherwise;
}

std::string text_of(const Json* json) {
  const auto* text = json != nullptr ? json->as<std::string>() : nullptr;
  return text != nullptr ? *text : std::string();
}

class JsonReader {
 public:
  JsonReader(InputFile& file, Findings& findings) : file_(file), findings_(findings) {}

  void read() {
    const JsonStreamEnd end =
        read_json_stream({.read = [&](char* to, std::size_t most) { return file_.read(to, most); },
                          .wanted = [](std::string_view, std::string_view) { return true; },
                          .value = [&](const std::string& member, const Json& value,
                                       std::int64_t line) { member_ends(member, value, line); }});
    if (!end.trouble.empty()) {
      findings_.remark("ends", end.line, "the file " + end.trouble + ": read up to here");
    }
    table_.environment.complete(on_command_);
    table_.hosts = hosts_of(run_);
    finish_table(table_, file_.name(), findings_);
  }

 private:
  struct Device {
    int rank = 0, group = 0;
    std::string host;
  };

  void member_ends(const std::string& member, const Json& value, std::int64_t line) {
    if (member == "results") {
      read_result(value, line);
    } else if (member == "devices") {
      read_device(value);
    } else if (member == "nccl_version") {
      table_.nccl = version_of(value);
    } else if (member == "args") {
      read_argument(text_of(&value));
    } else if (member == "env") {
      read_environment(value);
    } else if (member == "collective" || member == "test") {
      table_.program = text_of(&value);
    } else if (member == "config") {
      read_config(value);
    }
  }

  void read_config(const Json& value) {
    table_.program = table_.program.empty() ? text_of(value.find("collective")) : table_.program;
    table_.grouped = whole_of(value.find("aggregated_iterations"), 1);
    table_.graphs = whole_of(value.find("graph"), 0);
    table_.blocking = text_of(value.find("blocking_collectives")) == "true";
    constexpr std::int64_t kMostGpus = 1024, kMostRanks = 1 << 16;
    const std::int64_t gpus = whole_of(value.find("ngpus"), 0), threads = whole_of(value.find("nthreads"), 1);
    table_.gpus_per_process = gpus > 0 && gpus <= kMostGpus ? static_cast<int>(gpus) : 0;
    const Json* const listed = value.find("devices");
    const auto* const devices = listed != nullptr ? listed->as<Json::Array>() : nullptr;
    if (devices == nullptr) {
      return;
    }
    std::vector<Device> first;
    for (const Json& device : *devices) {
      if (const std::optional<Device> each = read_device(device)) {
        first.push_back(*each);
      }
    }
    if (gpus > 0 && threads > 0 && gpus <= kMostGpus && threads <= kMostGpus &&
        gpus * threads * static_cast<std::int64_t>(first.size()) <= kMostRanks) {
      add_others(first, static_cast<int>(gpus * threads));
    }
  }

  // Of each process the first rank alone is listed, as a rule.
  void add_others(const std::vector<Device>& first, int in_process) {
    const bool of_all = std::ranges::any_of(first, [&](const Device& each) {
      const auto next = run_.ranks.upper_bound(each.rank);
      return next != run_.ranks.end() && next->first < each.rank + in_process;
    });
    for (Device each : of_all ? std::vector<Device>() : first) {
      for (int more = 1; more < in_process; ++more) {
        ++each.rank;
        add(each);
      }
    }
  }

  static std::string version_of(const Json& value) {
    const auto* code = value.as<std::int64_t>();
    if (code != nullptr) {
      return nccl_version_of_code(*code);
    }
    const std::string text = text_of(&value);
    std::int64_t as_code = 0;
    return read_whole(text, as_code) ? nccl_version_of_code(as_code) : nccl_version_in(text);
  }

  void read_argument(const std::string& text) {
    if (const std::string program = nccl_program_in(text); !program.empty()) {
      table_.program = program;
    }
    on_command_.read(text);
  }

  void read_environment(const Json& value) {
    const auto* object = value.as<Json::Object>();
    if (object == nullptr) {  // "NAME=VALUE", without a shell's quotes
      const std::string text = text_of(&value);
      const std::size_t equals = text.find('=');
      if (equals != std::string::npos && text.find_first_of(" \t\r\n") == std::string::npos) {
        table_.environment.set(text.substr(0, equals), text.substr(equals + 1));
      } else {
        table_.environment.read(text);
      }
      return;
    }
    for (const JsonMember& each : *object) {
      const auto* number = each.value.as<std::int64_t>();
      table_.environment.set(each.key, number != nullptr ? std::to_string(*number) : text_of(&each.value));
    }
  }

  std::optional<Device> read_device(const Json& value) {
    const std::int64_t rank = whole_of(value.find("rank"), static_cast<std::int64_t>(run_.ranks.size()));
    constexpr std::int64_t kMost = 1 << 20;
    if (rank < 0 || rank >= kMost) {
      return std::nullopt;
    }
    add_gpu(text_of(value.find("device_info")), run_);
    const std::int64_t group = whole_of(value.find("group"), 0);
    Device device{static_cast<int>(rank), group > 0 && group <= INT32_MAX ? static_cast<int>(group) : 0, {}};
    for (const char* const key : {"hostname", "host", "node"}) {
      device.host = device.host.empty() ? text_of(value.find(key)) : device.host;
    }
    add(device);
    return device;
  }

  void add(const Device& device) {
    run_.ranks[device.rank] = device.group;
    if (!device.host.empty()) {
      run_.hosts[device.host].insert(device.rank);
    }
  }

  void read_result(const Json& value, std::int64_t line) {
    NcclRow row;
    row.line = line;
    row.size = whole_of(value.find("size"), -1);
    row.count = whole_of(value.find("count"), 0);
    row.redop = text_of(value.find("redop"));
    row.root = whole_of(value.find("root"), -1);
    row.has_root = value.find("root") != nullptr;
    if (row.size == 0) {
      findings_.remark("rows of 0 bytes", line, "a result of 0 bytes: left out");
      return;
    }
    if (full_) {
      return;
    }
    bool good = row.size > 0;
    bool any = false;
    for (const char* const name : {"out_of_place", "in_place"}) {
      const Json* const half = value.find(name);
      if (half != nullptr && half->as<Json::Object>() != nullptr) {
        good = good && read_half(*half, row);
        any = true;
      }
    }
    if (!good || !any) {
      findings_.remark(
          "results without a time", line,
          "a result whose size, time and bandwidths are not there or don't fit each other: left out");
      return;
    }
    full_ = !findings_.row();
    if (!full_) {
      table_.rows.push_back(std::move(row));
    }
  }

  bool read_half(const Json& json, NcclRow& row) {
    const Json* time = json.find("time");
    if (time == nullptr && json.find("cpu_time") != nullptr) {
      table_.layout.cpu_time = true;
      time = json.find("cpu_time");
    }
    NcclHalf half;
    double us = 0;
    if (!read_number(time, us) || !read_number(json.find("alg_bw"), half.algorithm_bandwidth.value) ||
        !read_number(json.find("bus_bw"), half.bus_bandwidth.value)) {
      return false;
    }
    // How they were rounded isn't told: as in the text, two decimals, or to float's six or seven digits.
    constexpr double kTwoDecimals = 0.005, kDigits = 1e-5;
    half.time = Seconds(us * 1e-6);
    read_microseconds(number_text(us), half.time);
    half.time_half_digit = half.time.value * kDigits;
    for (Printed* const each : {&half.algorithm_bandwidth, &half.bus_bandwidth}) {
      each->half_digit = kTwoDecimals + each->value * kDigits;
    }
    row.wrong_values = row.wrong_values || whole_of(json.find("nwrong"), 0) > 0;
    return add_half(half, row);
  }

  InputFile& file_;
  Findings& findings_;
  NcclTable table_;
  NcclRun run_;  // its ranks and hosts
  NcclEnvironment on_command_;
  bool full_ = false;
};

}  // namespace

void read_nccl_json(InputFile& file, Findings& findings) { JsonReader(file, findings).read(); }

}  // namespace paceline
