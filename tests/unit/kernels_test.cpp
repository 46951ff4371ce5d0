#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>

#include "core/error.h"
#include "kernels/cost_model.h"

namespace paceline {
namespace {

// 1 TFLOP/s in fp32, 2 in fp16, 1 GB/s: round numbers to compute with.
GpuCosts toy_costs(Precision precision) {
  GpuSpec gpu{.name = "toy", .memory_bandwidth = BytesPerSecond(1e9), .memory = Bytes(1 << 30)};
  gpu.peak[static_cast<std::size_t>(Precision::fp32)] = FlopsPerSecond(1e12);
  gpu.peak[static_cast<std::size_t>(Precision::fp16)] = FlopsPerSecond(2e12);
  const RooflineSpec roofline{
      .compute_efficiency = 0.5, .half_work = Seconds(1e-3), .memory_efficiency = 0.8, .norm_passes = 5};
  return {std::move(gpu), roofline, precision};
}

std::string message_of(const auto& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.message();
  }
  return "nothing thrown";
}

std::string place_of(const TransformerSpec& spec) {
  try {
    transformer(spec);
  } catch (const InputError& error) {
    return error.place();
  }
  return "nothing thrown";
}

Model of(Layer layer) { return {.name = "one", .input = "", .layers = {std::move(layer)}}; }

constexpr TransformerSpec kLlama2{.layers = 32,
                                  .hidden = 4096,
                                  .heads = 32,
                                  .feed_forward = 11008,
                                  .gated_feed_forward = true,
                                  .fused_qkv = false,
                                  .bias = false,
                                  .vocabulary = 32000,
                                  .sequence = 4096,
                                  .learned_positions = false,
                                  .tied_embeddings = false};

constexpr TransformerSpec kLlama3{.layers = 32,
                                  .hidden = 4096,
                                  .heads = 32,
                                  .key_value_heads = 8,
                                  .feed_forward = 14336,
                                  .gated_feed_forward = true,
                                  .fused_qkv = false,
                                  .bias = false,
                                  .vocabulary = 128256,
                                  .sequence = 8192,
                                  .learned_positions = false,
                                  .tied_embeddings = false};

}  // namespace

TEST_CASE("a kernel takes the longer of its compute time and its memory time") {
  const GpuCosts costs = toy_costs(Precision::fp32);
  // (1e9 / 1e12 + 1e-3) / 0.5 = 4 ms against 1e6 / 0.8e9 = 1.25 ms and 8e6 / 0.8e9 = 10 ms.
  CHECK(kernel_time(costs, Flops(1e9), Bytes(1'000'000)).value == Approx(4e-3).epsilon(1e-12));
  CHECK(kernel_time(costs, Flops(1e9), Bytes(8'000'000)).value == Approx(10e-3).epsilon(1e-12));
}

TEST_CASE("a kernel as long as half_work at peak reaches half of the compute efficiency") {
  const GpuCosts costs = toy_costs(Precision::fp32);
  const Flops work(1e12 * 1e-3);
  const double reached = work.value / kernel_time(costs, work, Bytes(0)).value;
  CHECK(reached == Approx(0.5 * 0.5 * 1e12));
  const Flops huge(1e18);
  CHECK(huge.value / kernel_time(costs, huge, Bytes(0)).value == Approx(0.5 * 1e12).epsilon(1e-6));
}

TEST_CASE("a kernel without work costs its memory traffic only") {
  const GpuCosts costs = toy_costs(Precision::fp32);
  CHECK(kernel_time(costs, Flops(0), Bytes(800'000)).value == Approx(1e-3));
  CHECK(memory_time(costs, Bytes(800'000)).value == Approx(1e-3));
  CHECK(kernel_time(costs, Flops(0), Bytes(0)).value == 0);
}

TEST_CASE("products reach what is known of their GPU unless the roofline says otherwise") {
  GpuCosts costs = toy_costs(Precision::fp16);
  costs.roofline.half_work = Seconds();
  const auto reached = [&](Flops work) {
    return work.value / kernel_time(costs, work, Bytes{}).value / 2e12;
  };
  CHECK(reached(Flops(1e12)) == Approx(0.5));
  costs.roofline.compute_efficiency.reset();
  CHECK(reached(Flops(1e12)) == Approx(0.77));
  costs.gpu.product_efficiency[static_cast<std::size_t>(Precision::fp16)] = 0.6;
  CHECK(reached(Flops(1e12)) == Approx(0.6));
  CHECK(product_efficiency(gpu_preset("H100"), Precision::bf16) == 0.77);
  CHECK(product_efficiency(gpu_preset("H100"), Precision::fp8) == 0.68);
  CHECK(product_efficiency(gpu_preset("K80"), Precision::fp32) == 0.9);   // not known
  CHECK(product_efficiency(gpu_preset("L40S"), Precision::fp8) == 0.68);  // likewise
}

TEST_CASE("products reach by default a little less than the best published bf16 matmuls") {
  // stas00/ml-engineering, compute/accelerator/README.md: GPU, M x N x K, reached TFLOP/s.
  const auto [name, m, n, k, best] =
      GENERATE(table<const char*, double, double, double, double>({{"A100-80GB", 1024, 10240, 5120, 271.2},
                                                                   {"H100", 2048, 2048, 13312, 794.5},
                                                                   {"B200", 1792, 16128, 3072, 1745.0}}));
  const GpuCosts costs{gpu_preset(name), {}, Precision::bf16};
  const Flops work(2 * m * n * k);
  const Bytes traffic(static_cast<std::int64_t>(2 * (m * k + k * n + m * n)));
  const double reached = work.value / kernel_time(costs, work, traffic).value / (best * 1e12);
  CHECK(reached > 0.75);
  CHECK(reached < 0.95);
}

TEST_CASE("a precision that the GPU lacks is an input error that names those it has") {
  CHECK(message_of([] { require_precision(gpu_preset("V100-16GB"), Precision::bf16); }) ==
        "V100-16GB has no bf16; it has: fp32, fp16");
  CHECK(message_of([] { require_precision(gpu_preset("A100-80GB"), Precision::fp8); }) ==
        "A100-80GB has no fp8; it has: fp32, tf32, fp16, bf16");
  CHECK_NOTHROW(require_precision(gpu_preset("H100"), Precision::fp8));
  CHECK_THROWS_AS(layer_times(toy_costs(Precision::tf32), Model{}, 1), InputError);
}

TEST_CASE("an unknown GPU preset is an input error that suggests the nearest name") {
  const std::string message = message_of([] { gpu_preset("H10O"); });
  CHECK_THAT(message, Catch::Contains("\"H100\"") && Catch::Contains("A100-40GB"));
}

TEST_CASE("every GPU preset is complete and faster than its predecessor in the list") {
  FlopsPerSecond fp16;
  for (const std::string& name : gpu_preset_names()) {
    const GpuSpec gpu = gpu_preset(name);
    CHECK(gpu.name == name);
    CHECK(gpu.peak[static_cast<std::size_t>(Precision::fp32)].value > 1e12);
    CHECK(gpu.peak[static_cast<std::size_t>(Precision::fp16)] >= fp16);
    fp16 = gpu.peak[static_cast<std::size_t>(Precision::fp16)];
    CHECK(std::ranges::all_of(gpu.product_efficiency, [](double share) { return share >= 0 && share <= 1; }));
    CHECK(gpu.memory_bandwidth.value > 0.2e12);
    CHECK(gpu.memory >= Bytes(std::int64_t{12} << 30));
  }
}

TEST_CASE("a linear layer moves parameters, input and output and runs backward as two kernels") {
  const Layer first{"first", LayerKind::embedding, {}, 0, 1000};
  const Layer linear{"linear", LayerKind::linear, {200'000, 200}, 1, 200};
  const Model model{.name = "two", .input = "", .layers = {first, linear}};
  const LayerTime time = layer_times(toy_costs(Precision::fp32), model, 10'000)[1];
  // 4 bytes x (200'200 + 10'000 x (1000 + 200)) = 48'800'800 bytes at 0.8 GB/s; compute is 2 ms.
  CHECK(time.forward.value == Approx(48'800'800 / 0.8e9));
  CHECK(time.backward.value == Approx(2 * time.forward.value));
  CHECK(time.forward_launches == 1);
  CHECK(time.backward_launches == 2);
}

TEST_CASE("norm, attention and embedding layers move what the header says") {
  const GpuCosts costs = toy_costs(Precision::fp16);
  const auto one = [&](LayerKind kind, std::vector<std::int64_t> parameters) {
    return layer_times(costs, of({"layer", kind, std::move(parameters), 0, 400}), 1000)[0];
  };
  const double output = 400 * 1000 * 2 / 0.8e9;  // one pass over it, in seconds
  CHECK(one(LayerKind::norm, {400, 400}).forward.value == Approx(20 * output));
  CHECK(one(LayerKind::norm, {400, 400}).backward.value == Approx(40 * output));
  CHECK(one(LayerKind::batch_norm, {400, 400}).forward.value == Approx(5 * output));
  CHECK(one(LayerKind::batch_norm, {400, 400}).backward.value == Approx(10 * output));
  CHECK(one(LayerKind::attention, {}).forward.value == Approx(16 * output));
  CHECK(one(LayerKind::attention, {}).forward_launches == 2);
  CHECK(one(LayerKind::attention, {}).backward_launches == 1);
  CHECK(one(LayerKind::embedding, {4'000'000}).forward.value == Approx(2 * output));
  CHECK(one(LayerKind::embedding, {4'000'000}).backward.value == Approx(2 * output + 8e6 / 0.8e9));
}

TEST_CASE("a norm behind a convolution is a batch norm, frozen or not") {
  const Model model{
      .name = "two",
      .input = "",
      .layers = {{"conv", LayerKind::conv, {1}, 1, 400}, {"norm", LayerKind::norm, {400}, 0, 400}}};
  CHECK(layer_times(toy_costs(Precision::fp32), model, 1000)[1].forward.value ==
        Approx(5 * 400 * 1000 * 4 / 0.8e9));
}

TEST_CASE(
    "convolutions with tensor cores have an efficiency of their own, attention takes more than products") {
  const double products = GENERATE(0.4, 0.8, 1.0);
  const auto seconds = [&](LayerKind kind, Precision precision) {
    GpuCosts costs = toy_costs(precision);
    costs.roofline.compute_efficiency = products;
    costs.gpu.peak[static_cast<std::size_t>(Precision::fp16)] = FlopsPerSecond(8e12);
    return layer_times(costs, of({"layer", kind, {}, 1'000'000, 1}), 1000)[0].forward.value;
  };
  for (const Precision precision : {Precision::fp16, Precision::fp32}) {
    const double product = seconds(LayerKind::linear, precision);
    const double reached = std::min(products, precision == Precision::fp16 ? 0.585 : 0.9);
    CHECK(seconds(LayerKind::conv, precision) == Approx(product * products / reached));
    const double passes = 16.0 * 1000 * static_cast<double>(bytes_per_element(precision)) / 0.8e9;
    CHECK(seconds(LayerKind::attention, precision) == Approx(product + passes));
  }
}

TEST_CASE("with fp8 norms and attention run in 16 bits, products don't") {
  const auto seconds = [](Layer layer, Precision precision) {
    return layer_times({gpu_preset("H100"), {}, precision}, of(std::move(layer)), 64)[0].backward.value;
  };
  const Layer norm{"norm", LayerKind::norm, {1024}, 0, 1 << 20};
  const Layer attention{"attention", LayerKind::attention, {}, std::int64_t{1} << 31, 1 << 20};
  const Layer product{"product", LayerKind::linear, {1 << 20}, std::int64_t{1} << 36, 1 << 20};
  CHECK(seconds(norm, Precision::fp8) == seconds(norm, Precision::bf16));
  CHECK(seconds(attention, Precision::fp8) == seconds(attention, Precision::bf16));
  CHECK(seconds(product, Precision::fp8) < 0.6 * seconds(product, Precision::bf16));
}

// scenarios/validation/h200/operators.csv: torch.compile pads the two products of the backward pass.
TEST_CASE("a product in 16 bits is slower where a size is no multiple of 8 (compiled, forward alone)") {
  const bool backward = GENERATE(false, true);
  const KernelMode kernels = GENERATE(KernelMode::compiled, KernelMode::eager);
  const bool padded = backward && kernels == KernelMode::compiled;
  const auto slower = [&](std::int64_t out, std::int64_t in, bool tied, Precision precision) {
    const std::int64_t tokens = 1024;
    const auto seconds = [&](std::int64_t rows, std::int64_t columns) {
      Model model = of({"output", LayerKind::linear, {}, tokens * rows * columns, tokens * rows});
      model.tokens = tokens;
      if (!tied) {
        model.layers[0].parameters = {rows * columns};
      }
      GpuCosts costs{gpu_preset("H100"), {}, precision};
      costs.roofline.half_work = Seconds();
      costs.roofline.kernels = kernels;
      const LayerTime time = layer_times(costs, model, 64)[0];
      return (backward ? time.backward : time.forward).value;
    };
    const double aligned =
        static_cast<double>(out * in) / static_cast<double>((out + 7) / 8 * 8 * ((in + 7) / 8 * 8));
    return seconds(out, in) / (seconds((out + 7) / 8 * 8, (in + 7) / 8 * 8) * aligned);
  };
  for (const bool tied : {false, true}) {
    CAPTURE(tied);
    CHECK(slower(50'257, 768, tied, Precision::fp16) == Approx(padded ? 1 : 6).epsilon(0.01));
    CHECK(slower(30'522, 768, tied, Precision::fp16) == Approx(padded ? 1 : 3).epsilon(0.01));
    CHECK(slower(768, 30'522, tied, Precision::fp16) == Approx(padded ? 1 : 3).epsilon(0.01));
    CHECK(slower(30'522, 768, tied, Precision::bf16) == Approx(padded ? 1 : 3).epsilon(0.01));
    CHECK(slower(50'257, 768, tied, Precision::fp32) == Approx(1).epsilon(0.01));
  }
  // What a kernel pays beside its work is no longer.
  const auto at_once = [](std::int64_t rows) {
    const Layer layer{"nsp", LayerKind::linear, {rows * 1024}, rows * 1024, rows};
    return layer_times({gpu_preset("H100"), {}, Precision::bf16}, of(layer), 1)[0].forward.value;
  };
  CHECK(at_once(2) == Approx(at_once(8)).epsilon(1e-3));
}

// docs/model.md: two more passes over a convolution's input and output, each a kernel; three norm passes as in fp32, but
// not of a frozen one.
TEST_CASE("channels_first transposes what tensor cores convolve, and norms as slowly as fp32") {
  const Layer first{"conv1", LayerKind::conv, {1000}, 1'000'000, 4'000'000};
  const Layer norm{"bn", LayerKind::batch_norm, {64, 64}, 0, 4'000'000};
  const Layer second{"conv2", LayerKind::conv, {3000}, 1'000'000, 1'000'000};
  const Layer output{"fc", LayerKind::linear, {1000}, 1000, 1000};
  Model model = of(first);
  const Layer frozen{"frozen", LayerKind::norm, {64, 64}, 0, 1'000'000};
  model.layers.insert(model.layers.end(), {norm, second, frozen, output});
  const auto [precision, bytes, tensor_cores] = GENERATE(table<Precision, double, bool>(
      {{Precision::fp16, 2, true}, {Precision::tf32, 4, true}, {Precision::fp32, 4, false}}));
  GpuCosts costs = toy_costs(precision);
  costs.roofline.memory_start = Seconds(1e-5);
  for (const Precision of_tensor_cores : {Precision::fp16, Precision::tf32}) {
    costs.gpu.peak[static_cast<std::size_t>(of_tensor_cores)] = FlopsPerSecond(1e13);
  }
  const std::vector<LayerTime> last = layer_times(costs, model, 8);
  costs.roofline.memory_format = MemoryFormat::channels_first;
  const std::vector<LayerTime> now = layer_times(costs, model, 8);
  const double moved[] = {2 * 4e6 * bytes, 3 * 4e6 * (4 - bytes), 2 * 5e6 * bytes, 0, 0};
  const double starts[] = {1, 0, 2, 0, 0};
  double sum = 0, of_last = 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    CAPTURE(i, name_of(precision));
    const double longer = tensor_cores ? 8 * moved[i] / 0.8e9 + 1e-5 * starts[i] : 0;
    CHECK((now[i].forward - last[i].forward).value == Approx(longer).margin(1e-12));
    CHECK((now[i].backward - last[i].backward).value == Approx(2 * longer).margin(1e-12));
    sum += (now[i].forward + now[i].backward).value;
    of_last += (last[i].forward + last[i].backward).value;
  }
  CHECK(channels_first_slowdown(costs, model, 8) == Approx(sum / of_last));
}

// docs/model.md: 45 passes around a layer norm rather than 20; around a batch norm 9 rather than 5 in bf16, where it
// isn't cuDNN's.
TEST_CASE("eager kernels move norms' outputs more often, unless the passes are stated") {
  Model model = of({"conv", LayerKind::conv, {1000}, 1000, 4'000'000});
  model.layers.push_back({"bn", LayerKind::batch_norm, {64, 64}, 0, 4'000'000});
  model.layers.push_back({"fc", LayerKind::linear, {1000}, 1000, 1'000'000});
  model.layers.push_back({"ln", LayerKind::norm, {64, 64}, 0, 1'000'000});
  model.layers.push_back({"conv2", LayerKind::conv, {1000}, 1000, 4'000'000});
  model.layers.push_back({"frozen", LayerKind::norm, {64, 64}, 0, 4'000'000});
  const auto [precision, bytes, batch_norm] =
      GENERATE(table<Precision, double, double>({{Precision::bf16, 2, 9},
                                                 {Precision::fp8, 2, 9},
                                                 {Precision::fp16, 2, 5},
                                                 {Precision::tf32, 4, 5},
                                                 {Precision::fp32, 4, 5}}));
  GpuCosts costs{gpu_preset("H100"), {}, precision};
  const double element = bytes;
  const auto norms = [&] {
    const std::vector<LayerTime> times = layer_times(costs, model, 8);
    const auto passes = [&](std::size_t layer) {
      return times[layer].forward / memory_time(costs, Bytes(8 * model.layers[layer].output_elements)) /
             element;
    };
    CHECK(passes(5) == Approx(costs.roofline.norm_passes.value_or(5)));  // frozen
    return std::pair(passes(1), passes(3));
  };
  CHECK(norms().first == Approx(5));
  CHECK(norms().second == Approx(20));
  const double compiled = layer_times(costs, model, 8)[3].backward.value;
  costs.roofline.kernels = KernelMode::eager;
  CAPTURE(name_of(precision));
  CHECK(norms().first == Approx(batch_norm));
  CHECK(norms().second == Approx(45));
  CHECK(layer_times(costs, model, 8)[3].backward.value == Approx(compiled * 45 / 20));
  const auto sum = [&] {
    double all = 0;
    for (const LayerTime& time : layer_times(costs, model, 8)) {
      all += (time.forward + time.backward).value;
    }
    return all;
  };
  const double eager = sum();
  costs.roofline.kernels = KernelMode::compiled;
  CHECK(eager_slowdown(costs, model, 8) == Approx(eager / sum()));
  costs.roofline.norm_passes = 2;
  costs.roofline.layer_norm_passes = 3;
  for (const KernelMode kernels : {KernelMode::compiled, KernelMode::eager}) {
    costs.roofline.kernels = kernels;
    CHECK(norms().first == Approx(2));
    CHECK(norms().second == Approx(3));
  }
}

TEST_CASE("what misaligned products take longer is what padding them saves, bound by memory or not") {
  const GpuCosts costs{gpu_preset("A100-80GB"), {}, Precision::bf16};
  const std::int64_t hidden = GENERATE(64, 768);
  const Model odd = transformer({.layers = 2, .hidden = hidden, .heads = 4, .vocabulary = 50'257});
  Model padded = odd;
  padded.layers.back().forward_macs = odd.layers.back().forward_macs / 50'257 * 50'264;
  padded.layers.back().output_elements = odd.layers.back().output_elements / 50'257 * 50'264;
  const auto seconds = [&](const Model& model) {
    const LayerTime last = layer_times(costs, model, 16).back();
    return (last.forward + last.backward).value;
  };
  CHECK(misaligned_time(costs, odd, 16).value == Approx(seconds(odd) - seconds(padded)).epsilon(1e-3));
  CHECK(misaligned_time(costs, padded, 16).value == 0);
  CHECK(misaligned_time({costs.gpu, {}, Precision::tf32}, odd, 16).value == 0);
}

TEST_CASE("a layer of several matrices, or one used at a part of the tokens, counts as padded") {
  const GpuCosts costs{gpu_preset("A100-80GB"), {}, Precision::bf16};
  Model several = of({"adaptive", LayerKind::linear, {1536, 3, 267'735}, 192 * 20'003 * 512, 192 * 20'003});
  several.tokens = 192;
  Model part = of({"decoder", LayerKind::linear, {}, 76 * 30'522 * std::int64_t{1024}, 76 * 30'522});
  part.tokens = 512;
  CHECK(misaligned_time(costs, several, 16).value == 0);
  CHECK(misaligned_time(costs, part, 16).value == 0);
}

TEST_CASE("fp16 without tensor cores takes nothing off convolutions") {
  const auto seconds = [](LayerKind kind) {
    const Layer layer{"layer", kind, {}, std::int64_t{1} << 30, 1};
    return layer_times({gpu_preset("P100"), {}, Precision::fp16}, of(layer), 64)[0].forward.value;
  };
  CHECK(seconds(LayerKind::conv) == seconds(LayerKind::linear));
}

TEST_CASE("layer times grow linearly with the batch, but for half_work, parameters and launches") {
  GpuCosts costs{gpu_preset("V100-16GB"), {}, Precision::fp16};
  const Model model = transformer({.layers = 2, .sequence = 128});
  const auto at = [&](std::int64_t batch) { return layer_times(costs, model, batch); };
  const auto four = at(4), eight = at(8);
  REQUIRE(four.size() == model.layers.size());
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    INFO(model.layers[i].name);
    CHECK(four[i].forward < eight[i].forward);
    CHECK(eight[i].forward.value <= 2 * four[i].forward.value * (1 + 1e-12));
    CHECK(eight[i].forward_launches == four[i].forward_launches);
  }
  costs.roofline.half_work = Seconds(0);
  const auto big = layer_times(costs, model, 1 << 10), twice = layer_times(costs, model, 1 << 11);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    INFO(model.layers[i].name);
    CHECK(twice[i].forward.value == Approx(2 * big[i].forward.value).epsilon(0.01));
  }
}

TEST_CASE("a transformer by its dimensions has the published numbers of parameters and MACs") {
  const Model gpt2 = transformer({});
  CHECK(parameter_count(gpt2) == 124'439'808);  // Hugging Face gpt2
  CHECK(forward_macs(gpt2) == 145'824'153'600);
  CHECK(parameter_tensors(gpt2) == 148);

  const Model llama2 = transformer(kLlama2);
  CHECK(parameter_count(llama2) == 6'738'415'616);  // Llama 2 7B
  CHECK(forward_macs(llama2) == 31'460'635'443'200);
  CHECK(parameter_tensors(llama2) == 291);

  const Model llama3 = transformer(kLlama3);
  CHECK(parameter_count(llama3) == 8'030'261'248);  // Llama 3 8B
  CHECK(forward_macs(llama3) == 79'070'347'919'360);
  CHECK(parameter_tensors(llama3) == 291);
}

TEST_CASE("impossible transformer dimensions are input errors at the field") {
  CHECK(place_of({.layers = 0}) == "/layers");
  CHECK(place_of({.heads = 7}) == "/heads");
  CHECK(place_of({.heads = 12, .key_value_heads = 5}) == "/key_value_heads");
  CHECK(place_of({.feed_forward = -1}) == "/feed_forward");
}

}  // namespace paceline
