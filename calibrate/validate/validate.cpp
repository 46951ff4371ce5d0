#include "calibrate/validate/validate.h"

#include <algorithm>
#include <set>
#include <vector>

#include "calibrate/validate/compare.h"
#include "calibrate/validate/reports.h"
#include "core/error.h"

namespace paceline {

ValidationResult run_validation(std::span<const std::string> paths, ValidationForm form,
                                const FitProgress& progress) {
  if (paths.empty()) {
    throw InputError("expected validation sets or folders of them, such as scenarios/validation, found none");
  }
  std::vector<ComparedSet> sets;
  std::set<std::string> known;
  for (const std::string& path : paths) {
    for (const std::string& file : validation_files(path)) {
      if (known.insert(file).second) {
        sets.push_back({load_validation_set(file), {}, {}});
      }
    }
  }
  // All are read before the first one runs: a slip in the last file costs no time.
  bool holds = true;
  std::size_t done = 0;
  for (ComparedSet& one : sets) {
    if (progress) {
      progress("sets, now " + one.set.file, done++, sets.size());
    }
    one.cases = compare(one.set);
    one.checks = check(one.set, one.cases);
    holds = holds && std::ranges::all_of(one.checks, &Check::holds);
  }
  switch (form) {
    case ValidationForm::markdown:
      return {holds, validation_markdown(sets)};
    case ValidationForm::json:
      return {holds, validation_json(sets)};
    case ValidationForm::table:
      break;
  }
  return {holds, validation_table(sets)};
}

}  // namespace paceline
