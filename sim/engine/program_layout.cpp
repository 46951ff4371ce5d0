#include "sim/engine/program_layout.h"

#include <map>
#include <utility>

namespace paceline {
namespace {

ProgramLayout lay_out(const Program& program, std::span<const CollectivePlan> plans) {
  ProgramLayout layout{&program, 0, {}, std::vector<std::vector<std::uint32_t>>(program.ops.size()), {}};
  layout.collectives.resize(program.collectives.size());
  for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (runs_on_compute_stream(op)) {
      layout.last_stream_op = i;
    } else if (runs_beside_compute_stream(op)) {
      layout.beside.resize(std::max<std::size_t>(layout.beside.size(), op.stream));
      layout.beside[op.stream - 1].push_back(i);
    } else if (op.kind == OpKind::collective) {
      const std::uint32_t plan = program.collectives[op.index];
      layout.collectives[op.index] = {i, plan, op.queue, plans[plan].family, 0, 0};
      if (op.after == After::op) {
        layout.followers[op.after_op].push_back(op.index);
      }
    }
  }
  return layout;
}

}  // namespace

std::optional<std::uint32_t> predecessor(const Program& program, std::uint32_t at) {
  const Op& op = program.ops[at];
  if (op.after == After::op) {
    return op.after_op;
  }
  for (std::uint32_t i = at; runs_beside_compute_stream(op) && i-- > 0;) {
    const Op& earlier = program.ops[i];
    if (runs_beside_compute_stream(earlier) && earlier.stream == op.stream && only_with(op, earlier)) {
      return i;
    }
  }
  return std::nullopt;
}

JobLayout::JobLayout(const TrainingJob& job) : role_of_graph(job.communicator.graphs.size()) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> row_of;  // family, number in the family
  for (std::uint32_t r = static_cast<std::uint32_t>(job.roles.size()); r-- > 0;) {
    for (const Thread& thread : job.roles[r].threads) {
      for (const Program* program : {&thread.warm_up, &thread.steady}) {
        for (const std::uint32_t plan : program->collectives) {
          if (job.plans[plan].graph < role_of_graph.size()) {
            role_of_graph[job.plans[plan].graph] = r;
          }
        }
      }
    }
  }
  const Groups groups(job);
  for (std::uint32_t r = 0; r < job.roles.size(); ++r) {
    std::vector<ThreadLayout>& threads = roles.emplace_back();
    for (const Thread& thread : job.roles[r].threads) {
      ThreadLayout& layout = threads.emplace_back();
      layout.programs = {lay_out(thread.warm_up, job.plans), lay_out(thread.steady, job.plans)};
      for (const ProgramLayout& program : layout.programs) {
        layout.streams_beside =
            std::max(layout.streams_beside, static_cast<std::uint32_t>(program.beside.size()));
      }
      for (ProgramLayout& program : layout.programs) {
        program.beside.resize(layout.streams_beside);
        std::map<std::uint32_t, std::uint32_t> met;  // of each family
        for (std::uint32_t k = 0; k < program.collectives.size(); ++k) {
          CollectiveLayout& collective = program.collectives[k];
          layout.queues = std::max(layout.queues, collective.queue + 1);
          const auto [at, added] = row_of.try_emplace({collective.family, met[collective.family]++},
                                                      static_cast<std::uint32_t>(rows.size()));
          if (added) {
            rows.push_back({collective.family, records, kNoIndex, false, 0});
            records += groups.count(collective.family);
          }
          collective.row = at->second;
          collective.first_record = rows[at->second].first_record;
          if (&program == &layout.programs[1]) {
            rows[at->second].steady = true;
            if (r == 0 && threads.size() == 1) {
              rows[at->second].of_main = k;
            }
          }
        }
      }
    }
  }
  for (CollectiveRow& row : rows) {
    row.first_steady = steady_records;
    steady_records += row.steady ? groups.count(row.family) : 0;
  }
}

}  // namespace paceline
