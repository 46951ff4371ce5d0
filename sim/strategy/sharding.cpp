#include "sim/strategy/sharding.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/text.h"

namespace paceline {
namespace {

constexpr const char* kUnitsPlace = "/training/fsdp/units";

bool has_parameters(const Model& model, const FsdpUnit& unit) {
  return std::any_of(model.layers.begin() + unit.first, model.layers.begin() + unit.end(),
                     [](const Layer& layer) { return !layer.parameters.empty(); });
}

// "layers.7" of "layers.7.wq"; empty: no part is a number.
std::string_view block_of(std::string_view name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (!part.empty() && std::ranges::all_of(part, is_digit)) {
      return name.substr(0, end);
    }
    begin = end + 1;
  }
  return {};
}

std::vector<FsdpUnit> blocks(const Model& model) {
  std::vector<FsdpUnit> units;
  for (std::uint32_t l = 0; l < model.layers.size(); ++l) {
    const std::string_view block = block_of(model.layers[l].name);
    if (!units.empty() && units.back().end() == l && units.back().name == block) {
      ++units.back().count;
    } else if (!block.empty()) {
      units.push_back({std::string(block), l, 1});
    }
  }
  std::erase_if(units, [&](const FsdpUnit& unit) { return !has_parameters(model, unit); });
  return units;
}

bool in_blocks(const Model& model, const FsdpUnit& unit) {
  return std::any_of(model.layers.begin() + unit.first, model.layers.begin() + unit.end(),
                     [](const Layer& layer) { return !block_of(layer.name).empty(); });
}

std::vector<FsdpUnit> of_layers(const std::vector<std::int64_t>& counts, const Model& model) {
  const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (all != static_cast<std::int64_t>(model.layers.size())) {
    throw InputError("expected counts that add up to the " + std::to_string(model.layers.size()) +
                         " layers of " + model.name + ", found " + std::to_string(all),
                     kUnitsPlace);
  }
  std::vector<FsdpUnit> units;
  std::uint32_t first = 0;
  for (const std::int64_t count : counts) {
    units.push_back({model.layers[first].name, first, static_cast<std::uint32_t>(count)});
    if (!has_parameters(model, units.back())) {
      throw InputError("expected a parameter in each unit, found none in the " + std::to_string(count) +
                           " layers from " + model.layers[first].name + " on",
                       kUnitsPlace);
    }
    first = units.back().end();
  }
  return units;
}

// What is left without parameters belongs to the unit before.
std::vector<FsdpUnit> of_parameters(std::int64_t parameters, const Model& model) {
  std::vector<FsdpUnit> units;
  std::int64_t held = 0;
  for (std::uint32_t l = 0; l < model.layers.size(); ++l) {
    if (units.empty() || held >= parameters) {
      units.push_back({model.layers[l].name, l, 0});
      held = 0;
    }
    ++units.back().count;
    const std::vector<std::int64_t>& tensors = model.layers[l].parameters;
    held = std::accumulate(tensors.begin(), tensors.end(), held);
  }
  if (units.size() > 1 && held == 0) {
    units[units.size() - 2].count += units.back().count;
    units.pop_back();
  }
  return units;
}

}  // namespace

std::vector<FsdpUnit> units_of(const FsdpUnits& spec, const Model& model) {
  return !spec.layers.empty()  ? of_layers(spec.layers, model)
         : spec.parameters > 0 ? of_parameters(spec.parameters, model)
                               : blocks(model);
}

std::vector<FsdpUnit> recomputed_units(const TrainingSpec& training, const Model& model) {
  if (!recomputes(training)) {
    return {};
  }
  std::vector<FsdpUnit> units = units_of(fully_shards(training) ? training.fsdp.units : FsdpUnits{}, model);
  if (!blocks(model).empty()) {
    std::erase_if(units, [&](const FsdpUnit& unit) { return !in_blocks(model, unit); });
  }
  const auto every = static_cast<std::size_t>(training.recompute_every);
  std::vector<FsdpUnit> recomputed;
  for (std::size_t i = every; i <= units.size(); i += every) {
    recomputed.push_back(units[i - 1]);
  }
  return recomputed;
}

std::vector<std::uint32_t> recomputed_layers(const TrainingSpec& training, const Model& model,
                                             const FsdpUnit& unit) {
  const bool whole = training.activation_checkpointing == ActivationCheckpointing::full,
             of_blocks = in_blocks(model, unit);
  std::uint32_t first = unit.first;  // of its first block, which may begin before the unit
  while (first > 0 && !block_of(model.layers[first].name).empty() &&
         block_of(model.layers[first - 1].name) == block_of(model.layers[first].name)) {
    --first;
  }
  std::vector<std::uint32_t> again;
  std::string_view block;
  int products = 0;  // of the block, without a bias
  for (std::uint32_t l = first; l < unit.end(); ++l) {
    const Layer& layer = model.layers[l];
    if (const std::string_view of_layer = block_of(layer.name); of_layer != block) {
      block = of_layer;
      products = 0;
    }
    const bool counted = layer.kind == LayerKind::linear && layer.parameters.size() < 2 &&
                         training.precision != Precision::fp8;
    products += counted ? 1 : 0;
    const bool kept = counted ? products % 2 == 1 : layer.forward_macs > 0;
    if (l >= unit.first && !(of_blocks && block.empty()) && (whole || !kept)) {
      again.push_back(l);
    }
  }
  return again;
}

bool recomputes_products(const TrainingSpec& training, const Model& model) {
  return std::ranges::any_of(recomputed_units(training, model), [&](const FsdpUnit& unit) {
    return std::ranges::any_of(recomputed_layers(training, model, unit),
                               [&](std::uint32_t l) { return model.layers[l].forward_macs > 0; });
  });
}

void require_alike_on_nodes(std::int64_t ranks, const RankLayout& job, const std::string& place) {
  const std::int64_t gpus = job.gpus_per_node;
  if (gpus % ranks != 0 && ranks % gpus != 0) {
    throw InputError("expected groups that divide the " + std::to_string(gpus) +
                         " GPUs of a node, or of whole nodes, found " + std::to_string(ranks) + " ranks",
                     place);
  }
}

std::uint32_t shard_ranks(const ShardGroup& group, const RankLayout& job) {
  const std::int64_t ranks = group.node ? job.gpus_per_node : group.ranks == 0 ? job.ranks() : group.ranks;
  if (ranks < 2) {
    throw InputError("expected nodes of 2 or more GPUs to shard in, found nodes of one",
                     "/training/fsdp/shard_group");
  }
  if (job.ranks() % ranks != 0) {
    throw InputError("expected a shard group that divides the " + std::to_string(job.ranks()) +
                         " ranks, found " + std::to_string(ranks),
                     "/training/fsdp/shard_group");
  }
  require_alike_on_nodes(ranks, job, "/training/fsdp/shard_group");
  return static_cast<std::uint32_t>(ranks);
}

std::int64_t shard_elements(const Model& model, std::uint32_t first, std::uint32_t count,
                            std::uint32_t ranks) {
  std::int64_t elements = 0;
  for (std::uint32_t l = first; l < first + count; ++l) {
    for (const std::int64_t tensor : model.layers[l].parameters) {
      elements += (tensor + ranks - 1) / ranks;
    }
  }
  return elements;
}

Precision gathered_format(const FsdpSpec& fsdp, Precision kernels) {
  return fsdp.param_precision.value_or(kept_in(kernels));
}

std::int64_t gathered_bytes(Precision format, const Layer& layer) {
  const bool product = layer.kind == LayerKind::linear && !block_of(layer.name).empty();
  return bytes_per_element(product ? format : kept_in(format));
}

SimTime cast_time(const GpuCosts& costs, std::int64_t elements, Precision from, Precision to) {
  const Bytes traffic(elements * (bytes_per_element(from) + bytes_per_element(to)));
  return same_format(from, to) ? SimTime{} : to_sim_time(memory_time(costs, traffic));
}

}  // namespace paceline
