#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "core/version.h"
#include "scenarios/gpu_memory.h"
#include "scenarios/readable.h"
#include "scenarios/result_json.h"
#include "scenarios/run_table.h"
#include "scenarios/writer.h"
#include "studies/compare.h"

namespace paceline {
namespace {

std::string gigabytes(double bytes) { return fixed(bytes * 1e-9, 2) + " GB"; }

// Without compression, and all else as this one has it; where there is none, the first of this strategy.
struct Uncompressed {
  const ComparedStrategy* entry = nullptr;
  bool alike = false;
};
Uncompressed uncompressed(const std::vector<ComparedStrategy>& all, const ComparedStrategy& compressed) {
  const auto otherwise = [](const ComparedStrategy& each) {
    Scenario plain = each.prediction.scenario;
    plain.training.compression = {};
    return to_line(scenario_json(plain));
  };
  const std::string wanted = otherwise(compressed);
  Uncompressed found;
  for (const ComparedStrategy& other : all) {
    const TrainingSpec &t = other.prediction.scenario.training,
                       &training = compressed.prediction.scenario.training;
    const bool plain = t.strategy == training.strategy && t.compression.kind == CompressionKind::none &&
                       (t.strategy != StrategyKind::zero || t.zero.stage == training.zero.stage);
    const bool alike = plain && otherwise(other) == wanted;
    if (plain && (found.entry == nullptr || (alike && !found.alike))) {
      found = {&other, alike};
    }
  }
  return found;
}

// "ddp:compression=powersgd saves 61.00 ms of network and costs 74.00 ms by kernels and overlap."
std::string price_of_compression(const std::vector<ComparedStrategy>& all) {
  std::string text;
  for (const ComparedStrategy& each : all) {
    const Uncompressed plain = uncompressed(all, each);
    if (plain.entry == nullptr || !each.prediction.report.compression) {
      continue;
    }
    const Report &with = each.prediction.report, &without = plain.entry->prediction.report;
    const Seconds saved = without.exchange - with.exchange;
    const Seconds cost = with.step.mean - without.step.mean + saved;
    const auto amount = [](Seconds s) { return readable_time(s.value < 0 ? Seconds(-s.value) : s); };
    text += each.choice.name + (saved.value < 0 ? " adds " : " saves ") + amount(saved) + " of network and " +
            (cost.value < 0 ? "gains " : "costs ") + amount(cost) + " by kernels and overlap" +
            (plain.alike ? "" : ", against " + plain.entry->choice.name + ", whose other options differ") +
            ".\n";
  }
  return text;
}

// Whether columns and remarks of some strategies alone are shown.
struct Shown {
  bool servers = false, compression = false, averaging = false;
};

Shown shown_of(const std::vector<ComparedStrategy>& all) {
  Shown shown;
  for (const ComparedStrategy& each : all) {
    const Prediction& p = each.prediction;
    shown.servers = shown.servers || p.report.servers;
    shown.compression = shown.compression || p.report.compression;
    shown.averaging = shown.averaging || p.scenario.training.strategy == StrategyKind::local_sgd;
  }
  return shown;
}

struct TextColumn {
  const char* head;
  bool shown;
  std::function<std::string(const ComparedStrategy&)> cell;
};

// The text of what a report may have.
template <class Value, class Text>
std::string or_dash(const std::optional<Value>& value, const Text& text) {
  return value ? text(*value) : "-";
}

std::vector<TextColumn> columns_of(bool of_scenarios, const Shown& shown) {
  using Row = ComparedStrategy;
  const auto of_report = [](const auto& text) {
    return [text](const Row& row) { return text(row.prediction.report); };
  };
  const auto of_servers = [](const auto& text) {
    return [text](const Row& row) { return or_dash(row.prediction.report.servers, text); };
  };
  const auto of_hooks = [](const auto& text) {
    return [text](const Row& row) { return or_dash(row.prediction.report.compression, text); };
  };
  const auto of_step = [](const Row& row) {
    const Report& report = row.prediction.report;
    return or_dash(report.compression, [&](const CompressionReport& hooks) {
      return fixed(100 * (hooks.kernels / report.step.mean), 1) + " %";
    });
  };
  return {{of_scenarios ? "scenario" : "strategy", true, [](const Row& row) { return row.choice.name; }},
          {"step", true, of_report([](const Report& r) { return readable_time(r.step.mean); })},
          {"samples/s", true, of_report([](const Report& r) { return readable_count(r.throughput); })},
          {"of a GPU", of_scenarios,
           [](const Row& row) {
             return readable_count(row.prediction.report.throughput /
                                   static_cast<double>(row.prediction.job.ranks()));
           }},
          {"exposed", true,
           of_report([](const Report& r) { return readable_time(r.breakdown.exposed_communication); })},
          {"NVLink", true, [](const Row& row) { return gigabytes(row.sent.nvlink + row.sent.pcie); }},
          {"NIC", true, [](const Row& row) { return gigabytes(row.sent.network); }},
          {"memory", true,
           [](const Row& row) {
             return gigabytes(static_cast<double>(memory_of(row.prediction.scenario).total().value));
           }},
          {"stale", shown.servers,
           of_servers([](const ServersReport& servers) { return fixed(servers.mean_staleness, 1); })},
          {"95 %", shown.servers,
           of_servers([](const ServersReport& servers) { return std::to_string(servers.staleness_p95); })},
          {"dropped", shown.servers, of_servers([](const ServersReport& servers) {
             return fixed(100 * servers.dropped_share, 1) + " %";
           })},
          {"into server", shown.servers, of_servers([](const ServersReport& servers) {
             return gigabytes(static_cast<double>(servers.hottest_server_in.value));
           })},
          {"sends", shown.compression, of_hooks([](const CompressionReport& hooks) {
             return hooks.ratio < 1 ? fixed(1 / hooks.ratio, 1) + " x" : "1/" + fixed(hooks.ratio, 1);
           })},
          {"hooks", shown.compression,
           of_hooks([](const CompressionReport& hooks) { return readable_time(hooks.kernels); })},
          {"of step", shown.compression, of_step},
          {"", true, [](const Row& row) { return std::string(fits(row.prediction) ? "" : "does not fit"); }}};
}

// Heads, then a row for each.
std::vector<Cells> table_of(const Comparison& comparison, const Shown& shown) {
  std::vector<TextColumn> columns = columns_of(comparison.of_scenarios, shown);
  std::erase_if(columns, [](const TextColumn& column) { return !column.shown; });
  std::vector<Cells> rows(1);
  for (const TextColumn& column : columns) {
    rows.front().emplace_back(column.head);
  }
  for (const ComparedStrategy& each : comparison.strategies) {
    Cells& row = rows.emplace_back();
    for (const TextColumn& column : columns) {
      row.push_back(column.cell(each));
    }
  }
  return rows;
}

std::string lines_of_too_large(const std::vector<ComparedStrategy>& all) {
  std::string text;
  for (const auto& [choice, p, sent] : all) {
    if (!fits(p)) {
      text += "does not fit: " + choice.name + ", " +
              memory_text(memory_of(p.scenario), memory_of_gpu(p.scenario)) + '\n';
    }
  }
  return text;
}

// Of each scenario; strategies are of one.
std::string headlines_of(const Comparison& comparison) {
  const std::vector<ComparedStrategy>& all = comparison.strategies;
  if (!comparison.of_scenarios) {
    return headline(all.front().prediction);
  }
  std::string text;
  for (const ComparedStrategy& each : all) {
    text += each.choice.name + ": " + headline(each.prediction);
  }
  return text;
}

// What the table's heads mean, and what it doesn't tell.
std::string legend_of(const Shown& shown) {
  std::string text =
      "exposed: communication that no kernel hides, mean of all GPUs; NVLink, NIC: what a GPU sends a step\n"
      "by the algorithms that are taken, of which NVLS sends less than rings\n";
  if (shown.servers) {
    text +=
        "stale: updates between the parameters that a gradient was computed from and its own, "
        "mean and 95 %;\n"
        "samples/s: of gradients that were not dropped; into server: what all workers send the one that is "
        "sent most, a step\n";
  }
  if (shown.compression) {
    text +=
        "sends: of a ring all-reduce of all gradients; hooks: kernels of communication hooks, a step\n"
        "compression changes what is learned, too; this is about time\n";
  }
  if (shown.averaging) {
    text += "local SGD changes what is learned: this is about time alone\n";
  }
  return text;
}

Json::Object row_json(const ComparedStrategy& each, bool of_scenarios) {
  Json::Object edits;
  for (const Edit& edit : each.choice.edits) {
    edits.push_back({edit.key, edit.value});
  }
  Json::Object object = of_scenarios
                            ? Json::Object{{"scenario", each.choice.name}}
                            : Json::Object{{"strategy", each.choice.name}, {"edits", std::move(edits)}};
  for (JsonMember& member : result_summary(each.prediction)) {
    object.push_back(std::move(member));
  }
  return object;
}

}  // namespace

std::string comparison_text(const Comparison& comparison) {
  const std::vector<ComparedStrategy>& all = comparison.strategies;
  const Shown shown = shown_of(all);
  const bool plain = all.front().prediction.job.ranks() == 1 && !shown.servers && !comparison.of_scenarios;
  return lines_of_too_large(all) + headlines_of(comparison) +
         (plain ? "on one GPU every strategy is plain training: nothing is sharded\n" : "") + '\n' +
         aligned(table_of(comparison, shown), 1) + '\n' + legend_of(shown) + '\n' + comparison.verdict +
         '\n' + price_of_compression(all);
}

std::string comparison_json(const Comparison& comparison) {
  Json::Array rows, remarks;
  for (const ComparedStrategy& each : comparison.strategies) {
    rows.emplace_back(row_json(each, comparison.of_scenarios));
  }
  for (const std::string& remark : comparison.remarks) {
    remarks.emplace_back(remark);
  }
  return to_text(Json(Json::Object{{"paceline", kVersion},
                                   {"model_version", kModelVersion},
                                   {comparison.of_scenarios ? "scenarios" : "strategies", std::move(rows)},
                                   {"verdict", comparison.verdict},
                                   {"remarks", std::move(remarks)}}));
}

}  // namespace paceline
