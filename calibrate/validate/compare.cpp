#include "calibrate/validate/compare.h"

#include "calibrate/validate/parallel.h"
#include "core/error.h"

namespace paceline {
namespace {

ComparedCase compared(const auto& from, const ValidationSet& set) {
  try {
    return compare(from);
  } catch (const InputError& error) {
    throw error.file().empty() ? InputError(error.message(), "case " + from.name, set.file) : error;
  }
}

}  // namespace

std::vector<ComparedCase> compare(const ValidationSet& set) {
  const std::size_t collectives = set.collective.size();
  std::vector<ComparedCase> cases(collectives + set.training.size());
  for_each_in_parallel(cases.size(), [&](std::size_t i) {
    cases[i] =
        i < collectives ? compared(set.collective[i], set) : compared(set.training[i - collectives], set);
  });
  return cases;
}

}  // namespace paceline
