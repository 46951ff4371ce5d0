#include <algorithm>
#include <array>

#include "calibrate/validate/reports.h"
#include "core/text.h"

namespace paceline {
namespace {

// Microseconds of a collective, samples/s of a training run.
std::string value_text(const ComparedRow& row, double value) {
  const double shown = row.bytes > 0 ? value * 1e6 : value;
  return formatted(shown < 100 ? "%.2f" : "%.1f", shown);
}

std::string row_text(const ComparedRow& row) {
  std::string text = formatted("  %12s  %5d GPUs  %14s  %14s  %14s to %-14s  %+7.1f %%",
                               row.bytes > 0 ? size_text(row.bytes).c_str() : "", row.ranks,
                               value_text(row, row.measured).c_str(), value_text(row, row.predicted).c_str(),
                               value_text(row, row.low).c_str(), value_text(row, row.high).c_str(),
                               100 * (row.predicted / row.measured - 1));
  for (const std::optional<double>& simpler : {row.interpolated, row.on_line, row.scaled}) {
    text += simpler ? formatted("  %+7.1f %%", 100 * (*simpler / row.measured - 1)) : "";
  }
  if (!row.inside()) {
    text += "  outside";
  }
  return text + (row.excluded.empty() ? "" : "  not counted: " + row.excluded) + '\n';
}

std::string rows_text(const ComparedCase& one) {
  std::string text = one.name + "\n  fitted: " + (one.fitted.empty() ? "nothing" : joined(one.fitted, ", ")) +
                     "\n  source: " + one.source + '\n';
  if (!one.excluded.empty()) {
    text += "  not counted: " + one.excluded + '\n';
  }
  const bool training = !one.rows.empty() && one.rows.front().bytes == 0;
  const bool lines =
      std::ranges::any_of(one.rows, [](const ComparedRow& r) { return r.interpolated.has_value(); });
  text += formatted("  %12s  %10s  %14s  %14s  %32s  %9s%s\n", training ? "" : "size", "",
                    training ? "measured 1/s" : "measured us", training ? "predicted 1/s" : "predicted us",
                    "90 % interval", "error",
                    lines      ? "  interpolated"
                    : training ? "  log-log line  perfect scaling"
                               : "");
  for (const ComparedRow& row : one.rows) {
    text += row_text(row);
  }
  return text;
}

// What a cell says: a figure, or nothing.
std::string cell(Figure which, const std::optional<double>& value) {
  return value ? figure_text(which, *value) : "";
}

std::vector<std::string> figure_cells(const std::vector<Figure>& figures, const auto& of,
                                      const Tolerance& tolerance) {
  std::vector<std::string> cells;
  for (const Figure which : figures) {
    const std::optional<double> value = figure(which, of);
    const std::optional<double>& limit = tolerance[static_cast<std::size_t>(which)];
    cells.push_back(cell(which, value) + (value && limit && *value > *limit ? " !" : ""));
  }
  const Coverage inside = coverage(of);
  cells.push_back(std::to_string(inside.inside) + "/" + std::to_string(inside.rows));
  return cells;
}

constexpr auto kHeaders = names<Figure>({{"mean", Figure::mean},
                                         {"bias", Figure::bias},
                                         {"perfect scaling", Figure::perfect_scaling},
                                         {"log-log line", Figure::log_log},
                                         {"< 1 MiB", Figure::below_1mib},
                                         {">= 1 MiB", Figure::from_1mib},
                                         {">= 16 MiB", Figure::from_16mib},
                                         {">= 256 MiB", Figure::from_256mib},
                                         {"worst", Figure::worst},
                                         {"/ interpolation", Figure::to_interpolation},
                                         {"/ perfect scaling", Figure::to_perfect_scaling}});

std::vector<std::string> header_cells(const std::vector<Figure>& figures) {
  std::vector<std::string> cells;
  for (const Figure which : figures) {
    cells.emplace_back(kHeaders[which]);
  }
  cells.emplace_back("inside");
  return cells;
}

// Of a case, also of one that is published apart. What is above a tolerance is marked, be the tolerance that
// of each case or that of all.
std::vector<std::string> cells_of(const ValidationSet& set, const std::vector<Figure>& figures,
                                  const ComparedCase& one) {
  Tolerance tolerance = set.of_each;
  for (std::size_t i = 0; i < tolerance.size(); ++i) {
    tolerance[i] = tolerance[i] ? tolerance[i] : set.tolerance[i];
  }
  return figure_cells(figures, std::span<const ComparedRow>(one.rows), tolerance);
}

std::string summary(const ComparedSet& one) {
  const std::vector<Figure> figures = figures_of(one);
  const auto text_line = [](const std::string& name, const std::vector<std::string>& cells) {
    std::string text = formatted("  %-44s", name.c_str());
    for (const std::string& each : cells) {
      text += formatted("  %15s", each.c_str());
    }
    return text + '\n';
  };
  std::string text = text_line("", header_cells(figures));
  for (const ComparedCase& each : one.cases) {
    text += text_line(each.name + (each.excluded.empty() ? "" : " *"), cells_of(one.set, figures, each));
  }
  text += text_line("all that count",
                    figure_cells(figures, std::span<const ComparedCase>(one.cases), one.set.tolerance));
  for (const Check& each : one.checks) {
    if (each.verdict != Verdict::holds || each.case_name.empty()) {
      text += "  " + verdict_text(each) + '\n';
    }
  }
  return text;
}

std::string markdown_row(const std::string& name, const std::vector<std::string>& cells) {
  std::string text = "| " + name + " |";
  for (const std::string& each : cells) {
    text += ' ' + each + " |";
  }
  return text + '\n';
}

std::string markdown_of(const ComparedSet& one) {
  const std::vector<Figure> figures = figures_of(one);
  std::vector<std::string> headers = header_cells(figures);
  headers.insert(headers.begin(), "rows");
  std::string text =
      "### `" + one.set.file + "`\n\n" + one.set.description + "\n\n" + markdown_row("case", headers) + '|';
  for (std::size_t i = 0; i <= headers.size(); ++i) {
    text += "---|";
  }
  text += '\n';
  std::string apart;
  for (const ComparedCase& each : one.cases) {
    std::vector<std::string> cells = cells_of(one.set, figures, each);
    cells.insert(cells.begin(), std::to_string(coverage(std::span<const ComparedRow>(each.rows)).rows));
    text += markdown_row(each.name + (each.excluded.empty() ? "" : " *"), cells);
    if (!each.excluded.empty()) {
      apart += "- " + each.name + ": " + each.excluded + '\n';
    }
    for (const ComparedRow& row : each.rows) {
      if (!row.excluded.empty()) {
        apart += "- " + row.table + ", " + size_text(row.bytes) + ": measured " +
                 value_text(row, row.measured) + ", predicted " + value_text(row, row.predicted) + ": " +
                 row.excluded + '\n';
      }
    }
  }
  std::vector<std::string> all =
      figure_cells(figures, std::span<const ComparedCase>(one.cases), one.set.tolerance);
  all.insert(all.begin(), std::to_string(coverage(std::span<const ComparedCase>(one.cases)).rows));
  text += markdown_row("**all that count**", all) + '\n';
  if (!apart.empty()) {
    text += "Not counted (*):\n\n" + apart + '\n';
  }
  for (const Check& each : one.checks) {
    if (each.verdict != Verdict::holds || each.case_name.empty()) {
      text += "- " + verdict_text(each) + '\n';
    }
  }
  return text + '\n';
}

Coverage all_coverage(std::span<const ComparedSet> sets) {
  Coverage all;
  for (const ComparedSet& each : sets) {
    const Coverage of_set = coverage(std::span<const ComparedCase>(each.cases));
    all.rows += of_set.rows;
    all.inside += of_set.inside;
  }
  return all;
}

}  // namespace

std::string size_text(std::int64_t bytes) {
  std::string unit = " B";
  for (const char* larger : {" KiB", " MiB", " GiB"}) {
    if (bytes < 1024 || bytes % 1024 != 0) {
      break;
    }
    bytes /= 1024;
    unit = larger;
  }
  return std::to_string(bytes) + unit;
}

std::string percent_text(double ratio) {
  return formatted(100 * ratio < 9.95 ? "%.1f %%" : "%.0f %%", 100 * ratio);
}

std::string figure_text(Figure which, double value) {
  const bool ratio = which == Figure::to_interpolation || which == Figure::to_perfect_scaling;
  return ratio ? formatted("%.2f", value)
               : (which == Figure::bias && value > 0 ? "+" : "") + percent_text(value);
}

std::string coverage_text(const Coverage& all) {
  return std::to_string(all.inside) + " of " + std::to_string(all.rows) + " held-out measurements" +
         (all.rows == 0 ? ""
                        : formatted(" (%.1f %%)",
                                    100 * static_cast<double>(all.inside) / static_cast<double>(all.rows))) +
         " lie in their 90 % interval";
}

std::string verdict_text(const Check& check) {
  const std::string what = (check.case_name.empty() ? std::string() : check.case_name + ": ") +
                           std::string(name_of(check.which)) + ' ' + figure_text(check.which, check.value) +
                           ", tolerance " + figure_text(check.which, check.limit);
  switch (check.verdict) {
    case Verdict::holds:
      return what + ": holds";
    case Verdict::known_gap:
      return what + ": known gap: " + check.why;
    case Verdict::gap_grew:
      return what + ": BROKEN: the known gap was " + figure_text(check.which, check.known);
    case Verdict::gap_closed:
      return what + ": the known gap has closed: take it out of known_gaps";
    case Verdict::broken:
      break;
  }
  return what + ": BROKEN";
}

std::vector<Figure> figures_of(const ComparedSet& one) {
  std::vector<Figure> figures;
  for (const Named<Figure>& named : kNames<Figure>) {
    const Figure which = named.value;
    const bool has_any = std::ranges::any_of(one.cases, [&](const ComparedCase& each) {
      return figure(which, std::span<const ComparedRow>(each.rows)).has_value();
    });
    if (has_any) {
      figures.push_back(which);
    }
  }
  return figures;
}

std::string validation_table(std::span<const ComparedSet> sets) {
  std::string text;
  for (const ComparedSet& each : sets) {
    text += each.set.file + ": " + each.set.description + "\n\n";
    for (const ComparedCase& one : each.cases) {
      text += rows_text(one) + '\n';
    }
    text += summary(each) + '\n';
  }
  return text + coverage_text(all_coverage(sets)) + '\n';
}

std::string validation_markdown(std::span<const ComparedSet> sets) {
  std::string text;
  for (const ComparedSet& each : sets) {
    text += markdown_of(each);
  }
  return text + coverage_text(all_coverage(sets)) + ".\n";
}

}  // namespace paceline
