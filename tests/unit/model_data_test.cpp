// The files under scenarios/models against published totals. They are read here without the scenarios room,
// so that an error in either shows.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/model.h"
#include "tests/files.h"

namespace paceline {
namespace {

const std::filesystem::path kModels = kSource / "scenarios" / "models";

const std::map<std::string, LayerKind> kKinds{
    {"conv", LayerKind::conv},           {"linear", LayerKind::linear},
    {"norm", LayerKind::norm},           {"batch_norm", LayerKind::batch_norm},
    {"attention", LayerKind::attention}, {"embedding", LayerKind::embedding}};

Model of_dimensions(const nlohmann::json& json) {
  TransformerSpec spec;
  const std::map<std::string, std::int64_t*> numbers{
      {"layers", &spec.layers},         {"hidden", &spec.hidden},
      {"heads", &spec.heads},           {"key_value_heads", &spec.key_value_heads},
      {"head_dim", &spec.head_dim},     {"feed_forward", &spec.feed_forward},
      {"vocabulary", &spec.vocabulary}, {"sequence", &spec.sequence}};
  const std::map<std::string, bool*> facts{{"gated_feed_forward", &spec.gated_feed_forward},
                                           {"fused_qkv", &spec.fused_qkv},
                                           {"bias", &spec.bias},
                                           {"qkv_bias", &spec.qkv_bias},
                                           {"qk_norm", &spec.qk_norm},
                                           {"learned_positions", &spec.learned_positions},
                                           {"tied_embeddings", &spec.tied_embeddings}};
  for (const auto& [key, value] : json.at("transformer").items()) {
    if (value.is_boolean()) {
      *facts.at(key) = value;
    } else {
      *numbers.at(key) = value;
    }
  }
  Model model = transformer(spec);
  model.name = json.at("name");
  return model;
}

Model read(const std::string& name) {
  std::ifstream file(kModels / (name + ".json"));
  REQUIRE(file);
  const auto json = nlohmann::json::parse(file);
  if (json.contains("transformer")) {
    return of_dimensions(json);
  }
  Model model{.name = json.at("name"),
              .input = json.at("input"),
              .layers = {},
              .tokens = json.value("tokens", 0),
              .most_tokens = json.value("most_tokens", 0)};
  for (const auto& layer : json.at("layers")) {
    CHECK(layer.size() == 5);
    model.layers.push_back({layer.at("name"), kKinds.at(layer.at("kind")), layer.at("parameters"),
                            layer.at("forward_macs"), layer.at("output_elements")});
  }
  return model;
}

// macs: what the architecture computes to; published: 0 where none is. Parameter counts are published, exact.
struct Totals {
  const char* model;
  std::int64_t parameters, macs;
  double published_gmacs;
  std::size_t tensors;
};

// torchvision: its weights' metadata (num_params, _ops in three decimals), tensors from named_parameters(). Detectors:
// torchvision's mask_rcnn, MLPerf's references of SSD and RetinaNet, counted by building them with torch. BERT, GPT-2:
// Hugging Face BertForPreTraining, gpt2 and gpt2-xl. Llama, Mistral, Qwen: their makers' releases. GPT-3: Brown et al.
// 2020, 174,600 M in table D.1. Transformer-XL: NVIDIA's DeepLearningExamples. Inception's MACs exclude AuxLogits.
constexpr Totals kTotals[] = {
    {"resnet18", 11'689'512, 1'814'073'344, 1.814, 62},
    {"resnet50", 25'557'032, 4'089'184'256, 4.089, 161},
    {"resnet152", 60'192'808, 11'513'626'624, 11.514, 467},
    {"resnext50_32x4d", 25'028'904, 4'230'479'872, 4.23, 161},
    {"resnext101_32x8d", 88'791'336, 16'414'015'488, 16.414, 314},
    {"ssd_resnet34", 19'972'534, 15'862'078'720, 0, 131},
    {"retinanet_resnext50", 37'060'652, 201'208'394'752, 0, 89},
    {"mask_rcnn_resnet50_fpn", 44'401'393, 238'678'759'680, 0, 95},
    {"alexnet", 61'100'840, 714'188'480, 0.714, 16},
    {"resnet101", 44'549'160, 7'801'405'440, 7.801, 314},
    {"vgg16", 138'357'544, 15'470'264'320, 15.47, 32},
    {"inception_v3", 27'161'264, 5'713'216'096, 5.713, 292},
    {"vit_l_16", 304'326'632, 61'554'712'576, 61.555, 296},
    {"bert_base", 110'106'428, 14'250'149'376, 0, 206},
    {"bert_large", 336'226'108, 43'595'859'968, 0, 398},
    {"bert_large_mlperf", 336'226'108, 169'959'811'072, 0, 398},
    {"gpt2_xl", 1'557'611'200, 1'753'351'782'400, 0, 580},
    {"llama3_1_8b", 8'030'261'248, 79'070'347'919'360, 0, 291},
    {"transformer_xl_base", 191'950'298, 15'857'614'848, 0, 182},
    {"gpt2_small", 124'439'808, 145'824'153'600, 0, 148},
    {"llama2_7b", 6'738'415'616, 31'460'635'443'200, 0, 291},
    {"llama3_2_1b", 1'235'814'400, 14'521'284'427'776, 0, 146},
    {"llama3_8b", 8'030'261'248, 79'070'347'919'360, 0, 291},
    {"gpt2_medium", 354'823'168, 413'475'536'896, 0, 292},
    {"gpt2_large", 774'030'080, 887'285'350'400, 0, 436},
    {"gpt3_175b", 174'604'259'328, 367'402'130'866'176, 0, 1156},
    {"codellama_34b", 33'743'970'304, 759'659'455'578'112, 0, 435},
    {"llama2_13b", 13'015'864'320, 59'512'140'595'200, 0, 363},
    {"llama2_70b", 68'976'648'192, 303'439'439'462'400, 0, 723},
    {"llama3_70b", 70'553'706'496, 657'318'974'849'024, 0, 723},
    {"llama3_1_70b", 70'553'706'496, 657'318'974'849'024, 0, 723},
    {"llama3_1_405b", 405'853'388'800, 3'584'579'705'241'600, 0, 1137},
    {"llama3_2_3b", 3'212'749'824, 37'862'284'197'888, 0, 254},
    {"mistral_7b", 7'241'732'096, 33'522'219'745'280, 0, 291},
    {"qwen2_5_7b", 7'615'616'512, 32'327'145'095'168, 0, 339},
    {"qwen2_5_14b", 14'770'033'664, 65'551'938'355'200, 0, 579},
    {"qwen2_5_32b", 32'763'876'352, 142'002'356'224'000, 0, 771},
    {"qwen2_5_72b", 72'706'203'648, 314'683'663'843'328, 0, 963},
    {"qwen3_8b", 8'190'735'360, 35'946'728'783'872, 0, 399},
    {"qwen3_32b", 32'762'123'264, 148'596'741'636'096, 0, 707},
};

// PyTorch DDP's buckets in elements: tensors in reverse, each bucket closed once it has reached its limit.
std::vector<std::int64_t> ddp_buckets(const Model& model, std::int64_t first_mib, std::int64_t cap_mib) {
  std::vector<std::int64_t> tensors;
  for (const Layer& layer : model.layers) {
    tensors.insert(tensors.end(), layer.parameters.begin(), layer.parameters.end());
  }
  std::vector<std::int64_t> buckets;
  std::int64_t open = 0;
  for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
    open += *tensor;
    const std::int64_t limit = (buckets.empty() ? first_mib : cap_mib) << 20;
    if (4 * open >= limit) {
      buckets.push_back(open);
      open = 0;
    }
  }
  if (open > 0) {
    buckets.push_back(open);
  }
  return buckets;
}

// Names differ (each framework has its own), numbers must not.
void check_same_layers(const Model& a, const Model& b) {
  REQUIRE(a.layers.size() == b.layers.size());
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    INFO(a.layers[i].name << " and " << b.layers[i].name);
    CHECK(a.layers[i].kind == b.layers[i].kind);
    CHECK(a.layers[i].parameters == b.layers[i].parameters);
    CHECK(a.layers[i].forward_macs == b.layers[i].forward_macs);
    CHECK(a.layers[i].output_elements == b.layers[i].output_elements);
  }
}

}  // namespace

TEST_CASE("every model file has the published number of parameters, MACs and tensors") {
  for (const Totals& totals : kTotals) {
    INFO(totals.model);
    const Model model = read(totals.model);
    CHECK(model.name == totals.model);
    CHECK_FALSE(model.input.empty());
    CHECK(parameter_count(model) == totals.parameters);
    CHECK(forward_macs(model) == totals.macs);
    CHECK(parameter_tensors(model) == totals.tensors);
    if (totals.published_gmacs > 0) {
      CHECK(static_cast<double>(forward_macs(model)) ==
            Approx(totals.published_gmacs * 1e9).margin(0.5e6).epsilon(0));
    }
  }
}

TEST_CASE("every file under scenarios/models is one whose totals are checked") {
  std::set<std::string> known, found;
  for (const Totals& totals : kTotals) {
    known.insert(totals.model);
  }
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) {
    if (entry.path().extension() == ".json") {
      found.insert(entry.path().stem().string());
    }
  }
  CHECK(found == known);
}

const std::set<std::string> kTied{"gpt2_small", "gpt2_medium", "gpt2_large", "gpt2_xl",
                                  "gpt3_175b",  "llama3_2_1b", "llama3_2_3b"};

TEST_CASE("layers of a model file are named once, write something and hold whole tensors") {
  // BERT's MLM decoder is its word embedding; its bias is added as it multiplies.
  for (const Totals& totals : kTotals) {
    std::set<std::string> names;
    for (const Layer& layer : read(totals.model).layers) {
      INFO(totals.model << " " << layer.name);
      CHECK(names.insert(layer.name).second);
      CHECK((layer.output_elements > 0) == (layer.name != "mlm.bias"));
      CHECK(layer.forward_macs >= 0);
      const std::string model = totals.model;
      const bool tied = ((layer.name == "lm_head" || layer.name == "output") && kTied.contains(model)) ||
                        layer.name == "mlm.decoder";
      const bool frozen =
          layer.name.ends_with(".bn") && layer.kind == LayerKind::norm;  // a detector's batch norm
      const bool attention = layer.kind == LayerKind::attention && model != "transformer_xl_base";
      CHECK(layer.parameters.empty() == (attention || tied || frozen));
      for (const std::int64_t elements : layer.parameters) {
        CHECK(elements > 0);
      }
    }
  }
}

TEST_CASE("registration order gives the bucket sizes that PyTorch DDP reports") {
  using Sizes = std::vector<std::int64_t>;
  CHECK(ddp_buckets(read("resnet50"), 1, 25) == Sizes{2'049'000, 7'875'584, 6'563'840, 6'637'568, 2'431'040});
  const Model resnet18 = read("resnet18");
  CHECK(ddp_buckets(resnet18, 1, 25) == Sizes{2'052'000 / 4, 28'852'224 / 4, 15'853'824 / 4});
  CHECK(ddp_buckets(resnet18, 1, 35) == Sizes{2'052'000 / 4, 38'297'600 / 4, 6'408'448 / 4});
}

TEST_CASE("ViT registers its class token before its first convolution") {
  const Model vit = read("vit_l_16");
  CHECK(vit.layers[0].name == "class_token");
  CHECK(vit.layers[1].parameters == std::vector<std::int64_t>{786'432, 1024});
}

TEST_CASE("tensors stand where PyTorch registers them, also where they run elsewhere") {
  const Model llama = read("llama2_7b"), bert = read("bert_base");
  CHECK(llama.layers[1].name == "layers.0.q_proj");
  CHECK(llama.layers[9].name == "layers.0.input_norm");
  CHECK(llama.layers[10].name == "layers.0.post_norm");
  const std::size_t head = bert.layers.size() - 5;
  CHECK(bert.layers[head].parameters == std::vector<std::int64_t>{30'522});
  CHECK(bert.layers[head + 1].name == "mlm.transform");
}

TEST_CASE("the transformer generator makes the layers of the model files") {
  check_same_layers(transformer({}), read("gpt2_small"));
  check_same_layers(transformer({.layers = 48, .hidden = 1600, .heads = 25}), read("gpt2_xl"));
  TransformerSpec llama{.layers = 32,
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
  check_same_layers(transformer(llama), read("llama2_7b"));
  llama.key_value_heads = 8;
  llama.feed_forward = 14336;
  llama.vocabulary = 128256;
  llama.sequence = 8192;
  check_same_layers(transformer(llama), read("llama3_8b"));
  check_same_layers(transformer(llama), read("llama3_1_8b"));
  llama.layers = 16;
  llama.hidden = 2048;
  llama.feed_forward = 8192;
  llama.tied_embeddings = true;
  check_same_layers(transformer(llama), read("llama3_2_1b"));
}

TEST_CASE("models of tokens say for how many their work holds") {
  for (const Totals& totals : kTotals) {
    INFO(totals.model);
    const Model model = read(totals.model);
    const std::string what = std::to_string(model.tokens) + " tokens";
    CHECK((model.tokens > 0) == (model.input.find("image") == std::string::npos));
    CHECK((model.tokens == 0 || model.input == what || model.input.starts_with(what + ", ")));
    CHECK((model.most_tokens == 0 || model.most_tokens >= model.tokens));
  }
}

TEST_CASE("a model at another sequence length is what it is made of at that length") {
  TransformerSpec llama{.layers = 3, .hidden = 96, .heads = 6, .key_value_heads = 2, .sequence = 50};
  llama.learned_positions = false;
  const Model model = transformer(llama);
  for (const std::int64_t tokens : {1, 37, 50, 8192}) {
    llama.sequence = tokens;
    const Model expected = transformer(llama), made = at_sequence(model, tokens);
    check_same_layers(made, expected);
    CHECK(made.tokens == tokens);
    CHECK(made.input == expected.input);
  }
}

TEST_CASE("BERT at 512 tokens: attention 16 times, one token of a sample as before, all else 4 times") {
  const Model at_128 = read("bert_large"), at_512 = at_sequence(at_128, 512);
  CHECK(at_512.input == "512 tokens, pretraining heads (MLM and NSP)");
  CHECK(parameter_count(at_512) == parameter_count(at_128));
  constexpr std::int64_t kAttention = 24LL * 2 * 128 * 128 * 1024, kOneToken = 1024 * 1024 + 2 * 1024;
  CHECK(forward_macs(at_512) ==
        4 * (forward_macs(at_128) - kAttention - kOneToken) + 16 * kAttention + kOneToken);
  for (std::size_t l = 0; l < at_512.layers.size(); ++l) {
    const Layer &before = at_128.layers[l], &after = at_512.layers[l];
    INFO(after.name);
    CHECK(after.parameters == before.parameters);
    const bool one_token = after.name == "pooler" || after.name == "nsp";
    CHECK(after.output_elements == (one_token ? 1 : 4) * before.output_elements);
  }
  check_same_layers(at_sequence(at_512, 128), at_128);
}

TEST_CASE("BERT as MLPerf trains it reads 512 tokens, and its MLM head 76 of them") {
  Model at_512 = at_sequence(read("bert_large"), 512);
  for (Layer& layer : at_512.layers) {
    if (layer.name.starts_with("mlm.")) {
      layer.forward_macs = layer.forward_macs / 512 * 76;
      layer.output_elements = layer.output_elements / 512 * 76;
    }
  }
  check_same_layers(read("bert_large_mlperf"), at_512);
}

TEST_CASE("a length that a model has no positions for, or no tokens, is refused") {
  CHECK_THROWS_WITH(
      at_sequence(read("bert_large"), 513),
      "expected at most 512, up to which bert_large has positions, or sees all tokens, found 513");
  CHECK_THROWS_WITH(at_sequence(read("vit_l_16"), 64),
                    "vit_l_16 has no sequence: one of its samples is 224x224 image, 197 tokens");
  CHECK(at_sequence(read("llama3_8b"), 131'072).tokens == 131'072);
  Model heavy{.name = "heavy",
              .input = "",
              .layers = {{.name = "l", .parameters = {}, .forward_macs = 1'000'000'000'000}},
              .tokens = 1};
  CHECK_THROWS_WITH(at_sequence(heavy, 2'000'000),
                    "expected a shorter sequence, whose work can be counted, found 2000000");
}

}  // namespace paceline
