#include <string>
#include <vector>

#include "scenarios/readable.h"
#include "scenarios/tables.h"
#include "sim/strategy/compression.h"

namespace paceline {
namespace {

constexpr std::int64_t kSide = 1024, kElements = kSide * kSide;
constexpr std::uint32_t kRanks = 8;

std::string in_elements(Bytes bytes) {
  return fixed(static_cast<double>(bytes.value) / static_cast<double>(kElements), 3) + " m";
}

void add_kernels(const std::vector<HookKernels>& all, std::string& scheme, std::vector<Cells>& rows) {
  for (const HookKernels& kernels : all) {
    rows.push_back({scheme, kernels.what, std::to_string(kernels.launches), in_elements(kernels.traffic)});
    scheme.clear();
  }
}

void add_scheme(CompressionKind kind, std::vector<Cells>& rows) {
  CompressionSpec spec;
  spec.kind = kind;
  std::string scheme(name_of(kind));
  for (const HookPart& part : hook_of(spec, {{kElements, kSide}}, 4, kRanks)) {
    add_kernels(part.kernels, scheme, rows);
    if (part.reads_back || part.synchronize) {
      rows.push_back(
          {"", part.synchronize ? "(the host waits for the GPU)" : "(the host waits for it)", "", ""});
    }
    add_kernels(part.at_last, scheme, rows);
    for (const HookPart::Exchange& each : part.exchanges) {
      rows.push_back({"",
                      "-> " + std::string(name_of(each.kind)) + (each.what.empty() ? "" : " of ") + each.what,
                      "", in_elements(each.bytes)});
    }
  }
}

}  // namespace

std::string compression_table() {
  std::vector<Cells> rows{{"scheme", "kernels", "launches", "bytes"}};
  for (const auto& [name, kind] : kNames<CompressionKind>) {
    if (kind != CompressionKind::none) {
      add_scheme(kind, rows);
    }
  }
  return "What DDP's communication hooks compute and send (\"training\": {\"compression\": ...}), for a "
         "bucket of m = 1024 x 1024 fp32\ngradients and " +
         std::to_string(kRanks) +
         " ranks. Kernels before the first -> run on the compute stream, those behind one on another stream "
         "of the\n"
         "GPU. An all_gather's bytes are those of each rank. top_k: share 0.01; powersgd: rank 1.\n\n" +
         aligned(rows, 2);
}

}  // namespace paceline
