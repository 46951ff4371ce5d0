// Is everything the same under locales with a decimal comma, and one whose i has no dot? Built here from the
// system's definitions (Debian: locales).
#include <catch2/catch.hpp>
#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "calibrate/fit/collective_fit.h"
#include "calibrate/fit/fit_files.h"
#include "calibrate/import/import.h"
#include "calibrate/replay/replay.h"
#include "scenarios/collective_options.h"
#include "scenarios/predict.h"
#include "scenarios/profile.h"
#include "scenarios/result_json.h"
#include "scenarios/run_table.h"
#include "studies/explain.h"
#include "studies/sweep.h"
#include "tests/files.h"
#include "tests/studies/small_study.h"

namespace paceline {
namespace {

// The process' locale, while it lives.
class LocaleOf {
 public:
  LocaleOf(const TemporaryFolder& folder, const std::string& language, const std::string& charmap) {
    const std::string name = language + "." + charmap;
    const std::string build =
        "localedef -f " + charmap + " -i " + language + " '" + folder.file(name) + "' 2>&1";
    INFO(build << ": install the package locales");
    REQUIRE(std::system((build + " >/dev/null").c_str()) == 0);
    ::setenv("LOCPATH", folder.file("").c_str(), 1);
    REQUIRE(std::setlocale(LC_ALL, name.c_str()) != nullptr);
  }
  LocaleOf(const LocaleOf&) = delete;
  LocaleOf& operator=(const LocaleOf&) = delete;
  ~LocaleOf() { std::setlocale(LC_ALL, "C"); }
};

using Outputs = std::vector<std::pair<std::string, std::string>>;

// Every text and number that goes in or out.
Outputs outputs() {
  Outputs all;
  const TemporaryFolder folder;
  const std::string axes =
      R"([{"key": "/training/host/kernel_launch", "from": "1.5 us", "to": "4.5 us", "step": "1.5 us"},
      {"key": "/training/ddp/bucket_cap", "from": "1.5 MiB", "to": "6.2 MiB", "factor": 1.5}])";
  const std::string host =
      R"({"cluster": "dgx-a100", "model": "resnet18", "training": {"batch_per_gpu": 8, "host": {}},
      "run": {"iterations": 1}})";
  const Study study = parse_study("{\"scenario\": " + host + ", \"axes\": " + axes + "}", "s.json");
  sweep(study, {folder.file("out"), 2, {}});
  for (const std::string& line : sorted_lines(folder.file("out/results.jsonl"))) {
    all.push_back({"sweep", line});
  }
  all.push_back({"sweep table", sweep_table(study, folder.file("out"))});
  const Prediction prediction = predict(parse_scenario(kSmall, "s.json"));
  Machines machines;
  const Explanation why = explain(prediction, 2, machines);
  all.push_back({"run", terminal_table(prediction) + terminal_footer(prediction) + result_json(prediction)});
  all.push_back(
      {"explain", collectives_text(prediction) + path_text(prediction, why.path) + levers_text(why)});
  const std::string two_gpus = R"({"cluster": {"node": "dgx-a100", "gpus_per_node": 2}, "model": "resnet18",
      "training": {"batch_per_gpu": 8, "ddp": {"broadcast_buffers": false}}, "run": {"iterations": 1}})";
  all.push_back({"steps", steps_csv(predict(parse_scenario(two_gpus, "s.json")).job)});
  CollectiveOptions options;
  options.kind = "all_reduce";
  options.cluster = "dgx-h100";
  options.first = "1M";
  options.last = "2M";
  options.algorithm = "RING";
  options.protocol = "SIMPLE";
  options.explain = true;
  const CollectiveTestResult collective =
      run_collective_test(collective_test(options, cluster_of(options), {}));
  all.push_back({"collective", nccl_tests_table(collective, {})});
  std::string rows = "collective,size_bytes,time_us,ranks,nodes,nccl,algo\n";
  for (const int kib : {1, 64, 4096, 65536}) {
    rows += "all_reduce," + std::to_string(kib * 1024) + "," + std::to_string(10 + kib / 100) +
            ".5,8,1,2.20,Ring\n";
  }
  const std::string csv = folder.write("m.csv", rows);
  std::ostringstream page, copied;
  Profile profile = fit_files({.files = {csv},
                               .cluster = "dgx-a100",
                               .library = "nccl",
                               .overlap = "stated",
                               .nccl = {},
                               .scenario = {}},
                              page);
  profile.sources.clear();  // the folder's name
  std::string text = page.str();
  for (std::size_t at = text.find(csv); at != std::string::npos; at = text.find(csv)) {
    text.erase(at, csv.size());
  }
  all.push_back({"fit", text + to_json(profile)});
  all.push_back({"profile", to_json(parse_profile(to_json(profile), "p.json"))});
  MeasuredData measured = import_files(std::vector<std::string>{csv});
  write_csv(measured, copied);
  all.push_back({"import", copied.str().substr(0, copied.str().find(folder.file("")))});
  all.push_back({"number", to_line(parse_json("[0.1, 1.5e-3, 123456.789, 1e22]"))});
  return all;
}

TEST_CASE("no locale changes what is read or written", "[release]") {
  const Outputs plain = outputs();
  CHECK(plain.size() > 12);
  const TemporaryFolder locales;
  for (const auto& [language, charmap] : std::vector<std::pair<std::string, std::string>>{
           {"de_DE", "UTF-8"}, {"tr_TR", "ISO-8859-9"}, {"ps_AF", "UTF-8"}}) {
    CAPTURE(language, charmap);
    const LocaleOf locale(locales, language, charmap);
    REQUIRE(std::string(std::localeconv()->decimal_point) != ".");
    const Outputs found = outputs();
    REQUIRE(found.size() == plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      CAPTURE(plain[i].first);
      CHECK(found[i].second == plain[i].second);
    }
  }
}

}  // namespace
}  // namespace paceline
