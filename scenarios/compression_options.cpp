// Compression: the name of a scheme, or that with its options.
#include <string>

#include "scenarios/reader.h"
#include "scenarios/schema_writer.h"
#include "scenarios/writer.h"

namespace paceline {
namespace {

struct CompressionOptions : CompressionSpec {};
template <class V>
void describe(V& v, CompressionOptions& s) {
  v.key("kind", s.kind, any(),
        "PyTorch's hooks: fp16, bf16: cast; quantize_tensor, quantize_channel: 8 bits, by all-gather; "
        "powersgd: low-rank matrices. Others': qsgd: 8 bits and a scale for each 128; sign: one bit; top_k: "
        "the largest.",
        required());
  const auto of = [&](CompressionKind kind) {
    return s.kind == kind || v.lists_all() ? Need{}
                                           : absent("the kind is " + std::string(name_of(s.kind)) +
                                                    ": it is an option of " + std::string(name_of(kind)));
  };
  const Need top_k = of(CompressionKind::top_k), powersgd = of(CompressionKind::powersgd);
  v.key("share", s.share, above(0, 1), "Of top_k: how much of a bucket's elements is sent.", top_k);
  v.key("rank", s.rank, between(1, 10'000),
        "Of powersgd: columns of the matrices that stand for a gradient (matrix_approximation_rank).",
        powersgd);
  v.key("start", s.start, between(0, 1'000'000'000),
        "Of powersgd: the step from which on it compresses (start_powerSGD_iter); the steady steps are those "
        "after it.",
        powersgd);
  v.key("min_rate", s.min_rate, above(0, 1e6),
        "Of powersgd: by how much a matrix must become smaller to be compressed (min_compression_rate).",
        powersgd);
  v.key("error_feedback", s.error_feedback, any(),
        "Of powersgd: what compression leaves out is added to the next step's gradients. qsgd, sign and "
        "top_k always do so.",
        powersgd);
  v.key(
      "synchronize", s.synchronize, any(),
      "Of powersgd: the host waits for the whole GPU at the end of each bucket, as PyTorch's does; false: it "
      "doesn't, to see what that costs.",
      powersgd);
  v.key("wrapper", s.wrapper, any(), "Round powersgd: fp16_compress_wrapper or bf16_compress_wrapper.",
        powersgd);
}

}  // namespace

void read(const Json& json, CompressionSpec& compression, const Limits& limits, const Spot& spot) {
  CompressionOptions given;
  if (json.as<Json::Object>() != nullptr) {
    read_object(json, given, spot);
  } else {
    read(json, given.kind, limits, spot);
  }
  compression = given;
}

Json write(const CompressionSpec& compression) { return write(CompressionOptions{compression}); }

Json::Object schema_of(Type<CompressionSpec>, const Limits& limits) {
  return one_of({titled("by name", schema_of(Type<CompressionKind>{}, limits)),
                 titled("with its options", schema_of(Type<CompressionOptions>{}, any()))});
}

}  // namespace paceline
