#include "targets.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "agreement.h"
#include "calibrate/fit/collective_fit.h"
#include "calibrate/import/import.h"
#include "calibrate/import/readers.h"
#include "calibrate/replay/replay.h"
#include "calibrate/validate/validation_set.h"
#include "core/error.h"
#include "scenarios/json.h"
#include "scenarios/machines.h"
#include "scenarios/profile.h"
#include "studies/edit.h"
#include "studies/evaluate.h"
#include "topology/nccl_xml.h"

namespace paceline {
namespace {

constexpr const char* kNoFile = "no-folder/input.json";

void require(bool holds, const char* property) {
  if (!holds) {
    std::fprintf(stderr, "property violated: %s\n", property);
    std::abort();
  }
}

// Inputs that name devices would be read for ever.
bool names_a_device(const std::string& input) {
  return input.find("/dev") != std::string::npos || input.find("/proc") != std::string::npos;
}

// A file without a place on disk.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& content) : fd_(::memfd_create("input", MFD_CLOEXEC)) {
    require(::write(fd_, content.data(), content.size()) == static_cast<ssize_t>(content.size()),
            "the test's own file is written");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

void scenario(const std::string& input) {
  const std::string once = to_json(parse_scenario(input, kNoFile));
  require(to_json(parse_scenario(once, kNoFile)) == once, "an effective scenario is read as it was written");
}

void predict_scenario(const std::string& input) {
  constexpr int kIterations = 3;
  Json json = parse_json(input);
  if (parse_scenario(input, kNoFile).run.iterations > kIterations) {
    set_at(json, "/run/iterations", kIterations, {});
  }
  const std::string text = to_line(json);
  if (!is_small(parse_scenario(text, kNoFile))) {
    return;
  }
  const std::string difference = disagreement(text, kNoFile);
  require(difference.empty(), difference.c_str());
}

void replay(const std::string& input) {
  const Scenario read = parse_scenario(input, kNoFile);
  if (read.cluster.nodes <= 4) {
    Machines machines;
    static_cast<void>(steps_csv(machines.build(read).job));
  }
}

void study(const std::string& input) {
  constexpr std::size_t kTried = 6;
  const Study read = parse_study(input, kNoFile);
  for (std::size_t i = 0; i < std::min(kTried, read.points.size()); ++i) {
    const StudyPoint point = read.points[i * read.points.size() / std::min(kTried, read.points.size())];
    const std::string axes = to_line(Json(point.axes));
    require(to_line(parse_json(axes)) == axes, "a point is read as it was written");
    static_cast<void>(read_point(read, point));
  }
}

void profile(const std::string& input) {
  const Profile read = parse_profile(input, kNoFile);
  const std::string once = to_json(read);
  require(to_json(parse_profile(once, kNoFile)) == once, "a profile is read as it was written");
  const Scenario base = parse_scenario(
      R"({"cluster": "dgx-a100", "model": "resnet18", "training": {"batch_per_gpu": 8}})", kNoFile);
  static_cast<void>(to_json(with_profile(base, read)));
}

void validation_set(const std::string& input) {
  const MemoryFile file(input);
  static_cast<void>(load_validation_set(file.path()));
}

void cluster(const std::string& input) {
  const MemoryFile file(input);
  const ClusterSpec spec = load_cluster(file.path());
  if (spec.nodes <= 4) {
    static_cast<void>(build_checked_topology(spec));
  }
}

void topology_xml(const std::string& input) {
  ClusterSpec spec;
  spec.node = read_nccl_topology(input, "input.xml");
  spec.nodes = 2;
  spec.gpus_per_node = spec.node.gpus;
  static_cast<void>(build_checked_topology(spec));
}

void graph_xml(const std::string& input) { static_cast<void>(read_nccl_graphs(input, "input.xml")); }

void require_same(const MeasuredData& a, const MeasuredData& b) {
  require(a.collectives.size() == b.collectives.size(), "a CSV has the rows it was written from");
  for (std::size_t i = 0; i < a.collectives.size(); ++i) {
    const CollectiveMeasurement &x = a.collectives[i], &y = b.collectives[i];
    require(x.bytes == y.bytes && x.time.value == y.time.value && x.ranks == y.ranks && x.kind == y.kind,
            "a row is read as it was written");
  }
}

template <void (*Read)(InputFile&, Findings&)>
void measurements(const std::string& input) {
  const MemoryFile file(input);
  MeasuredData data;
  InputFile in(file.path());
  Findings findings(file.path(), data);
  Read(in, findings);
  findings.end();
  static_cast<void>(import_summary(data));
  if (!data.collectives.empty()) {
    std::ostringstream csv;
    write_csv(data, csv);
    const MemoryFile written(csv.str());
    MeasuredData again;
    InputFile from(written.path());
    Findings remarks(written.path(), again);
    read_csv(from, remarks);
    require_same(data, again);
  }
}

void any_measurements(const std::string& input) {
  const MemoryFile file(input);
  static_cast<void>(import_summary(import_file(file.path())));
}

constexpr std::array kTargets{FuzzTarget{"scenario", scenario},
                              FuzzTarget{"predict", predict_scenario},
                              FuzzTarget{"replay", replay},
                              FuzzTarget{"study", study},
                              FuzzTarget{"profile", profile},
                              FuzzTarget{"validation_set", validation_set},
                              FuzzTarget{"cluster", cluster},
                              FuzzTarget{"topology_xml", topology_xml},
                              FuzzTarget{"graph_xml", graph_xml},
                              FuzzTarget{"nccl_text", measurements<read_nccl_text>},
                              FuzzTarget{"nccl_json", measurements<read_nccl_json>},
                              FuzzTarget{"csv", measurements<read_csv>},
                              FuzzTarget{"trace", measurements<read_trace>},
                              FuzzTarget{"import", any_measurements}};

}  // namespace

std::span<const FuzzTarget> fuzz_targets() { return kTargets; }

const FuzzTarget* fuzz_target(std::string_view name) {
  const auto found = std::ranges::find(kTargets, name, &FuzzTarget::name);
  return found == kTargets.end() ? nullptr : &*found;
}

void run_target(const FuzzTarget& target, const std::string& input) {
  if (names_a_device(input)) {
    return;
  }
  try {
    target.run(input);
  } catch (const InputError&) {  // the answer to a wrong input
  }
}

}  // namespace paceline
