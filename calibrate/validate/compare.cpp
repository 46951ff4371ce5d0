#include "calibrate/validate/compare.h"

#include "core/error.h"
#include "core/parallel.h"

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
  std::vector<ComparedCase> cases(set.collective.size() + set.training.size() + set.steps.size());
  const auto compare_all = [&](const auto& of_kind) {
    for_each_on_threads(of_kind.size(), all_cores(),
                        [&](std::size_t i) { cases[i] = compared(of_kind[i], set); });
  };
  switch (set.kind) {
    case SetKind::collective:
      compare_all(set.collective);
      break;
    case SetKind::training:
      compare_all(set.training);
      break;
    case SetKind::steps:
      compare_all(set.steps);
      break;
  }
  return cases;
}

}  // namespace paceline
