// Does set_at change what it should, and nothing else?
#include "studies/edit.h"

#include <catch2/catch.hpp>
#include <string>

#include "scenarios/scenario.h"
#include "tests/error_of.h"
#include "tests/files.h"

namespace paceline {
namespace {

std::string after(const std::string& text, const std::string& pointer, const Json& value,
                  const std::string& folder = {}) {
  Json scenario = parse_json(text);
  set_at(scenario, pointer, value, folder);
  return to_line(scenario);
}

std::string refusal(const std::string& text, const std::string& pointer) {
  return error_of([&] { after(text, pointer, 1); });
}

TEST_CASE("a value is set where the pointer says") {
  CHECK(after(R"({"a": 1, "b": 2})", "/a", "x") == R"({"a": "x", "b": 2})");
  CHECK(after(R"({})", "/a/b/c", 3) == R"({"a": {"b": {"c": 3}}})");
  CHECK(after(R"({"a": [1, 2]})", "/a/1", 3) == R"({"a": [1, 3]})");
  CHECK(after(R"({"a": [1, 2]})", "/a/-", 3) == R"({"a": [1, 2, 3]})");
  CHECK(after(R"({"a": [{"b": 1}]})", "/a/0/b", 3) == R"({"a": [{"b": 3}]})");
  CHECK(after(R"({})", "/a/-/b", 3) == R"({"a": [{"b": 3}]})");
  CHECK(after(R"({"x/y": {"~": 1}})", "/x~1y/~0", 3) == R"({"x/y": {"~": 3}})");
  CHECK(after(R"({"a": 1})", "", Json::Object{{"b", 2}}) == R"({"b": 2})");
  CHECK(after(R"({"": 1})", "/", 2) == R"({"": 2})");
  CHECK(after(R"({"a": {"b": 1, "c": 2}})", "/a/b", Json()) == R"({"a": {"c": 2}})");  // left out
  CHECK(after(R"({"a": 1})", "/b/c", Json()) == R"({"a": 1})");
}

TEST_CASE("what a pointer can't reach is an input error with the pointer") {
  CHECK(refusal("{}", "a") == R"(a: expected a JSON pointer such as "/training/batch_per_gpu", found "a")");
  CHECK(refusal("{}", "/a~2") == R"(/a~2: expected ~0 or ~1 after ~ in a JSON pointer, found "/a~2")");
  CHECK(refusal("{}", "/a~") == R"(/a~: expected ~0 or ~1 after ~ in a JSON pointer, found "/a~")");
  CHECK(refusal(R"({"a": [1]})", "/a/1") ==
        R"(/a/1: expected an index below 1, or "-" for one more, at /a, found "1")");
  CHECK(refusal(R"({"a": [1, 2]})", "/a/01") ==
        R"(/a/01: expected an index below 2, or "-" for one more, at /a, found "01")");
  CHECK(refusal(R"({"a": 5})", "/a/b") == "/a/b: expected an object or an array at /a, found 5");
  CHECK(refusal(R"({"a": "t"})", "/a/b/c") == R"(/a/b/c: expected an object or an array at /a, found "t")");
  CHECK(refusal("3", "/a") == "/a: expected an object or an array at the top, found 3");
}

TEST_CASE("names on the way are written out") {
  CHECK(after(R"({"cluster": "dgx-h100"})", "/cluster/nodes", 4) ==
        R"({"cluster": {"node": "dgx-h100", "nodes": 4}})");
  CHECK(after(R"({"cluster": "dgx-h100"})", "/cluster/node/nics", 4) ==
        R"({"cluster": {"node": {"preset": "dgx-h100", "nics": 4}}})");
  CHECK(
      after(R"({"cluster": "h100-512"})", "/cluster/nodes", 2) ==
      R"({"cluster": {"node": "dgx-h100", "nodes": 2, "fabric": {"kind": "rail_optimized", "nodes_per_leaf": 32}}})");
  CHECK(after(R"({"cluster": {"gpu": "H100"}})", "/cluster/gpu/name", "x").find("preset") !=
        std::string::npos);
  const std::string runs =
      R"({"cluster": {"gpus": [{"nodes": 2, "node": "dgx-a100"}, {"nodes": 1, "node": "dgx-h100"}]}})";
  CHECK(after(runs, "/cluster/gpus/1/node/nics", 4)
            .find(R"({"nodes": 1, "node": {"preset": "dgx-h100", "nics": 4}})") != std::string::npos);
  CHECK(after(runs, "/cluster/gpus/1/gpu/name", "x").find(R"("gpu": {"preset": "H100", "name": "x"})") !=
        std::string::npos);
  CHECK(refusal(runs, "/cluster/node/nics") ==
        "/cluster/node/nics: expected /cluster/gpus/0/node, ...: each run of nodes says its own");
  CHECK(refusal(runs, "/cluster/gpu/name") ==
        "/cluster/gpu/name: expected /cluster/gpus/0/gpu, ...: each run of nodes says its own");
  CHECK(after(R"({"model": "resnet18"})", "/training/batch_per_gpu", 4) ==
        R"({"model": "resnet18", "training": {"batch_per_gpu": 4}})");
  const Json model = parse_json(after(R"({"model": "resnet18"})", "/model/layers/0/forward_macs", 7));
  REQUIRE(value_at(model, "/model/layers/0/forward_macs") != nullptr);
  CHECK(to_line(*value_at(model, "/model/layers/0/forward_macs")) == "7");
  CHECK(value_at(model, "/model/layers")->as<Json::Array>()->size() ==
        builtin_model("resnet18").layers.size());
  CHECK(after(R"({"model": "bert_large"})", "/model/sequence", 512) ==
        R"({"model": {"preset": "bert_large", "sequence": 512}})");
  CHECK(after(R"({"model": {"preset": "bert_large", "sequence": 512}})", "/model/sequence", 256) ==
        R"({"model": {"preset": "bert_large", "sequence": 256}})");
  const Json long_model =
      parse_json(after(R"({"model": {"preset": "bert_large", "sequence": 512}})", "/model/name", "long"));
  CHECK(to_line(*value_at(long_model, "/model/layers/0/output_elements")) == std::to_string(512 * 1024));
  CHECK(refusal(R"({"model": "bert_large"})", "/model/tokens") ==
        "/model/tokens: expected /model/sequence, which changes the layers' work as well");
  // The whole value: nothing is written out first.
  CHECK(after(R"({"cluster": "dgx-h100"})", "/cluster", "dgx-a100") == R"({"cluster": "dgx-a100"})");
}

TEST_CASE("null leaves out what a named file says") {
  const TemporaryFolder folder;
  folder.write("cluster.json", R"({"node": "dgx-a100", "nodes": 2, "gpus_per_node": 4})");
  CHECK(after(R"({"cluster": "cluster.json"})", "/cluster/gpus_per_node", Json(), folder.path().string()) ==
        R"({"cluster": {"node": "dgx-a100", "nodes": 2}})");
}

TEST_CASE("files on the way are written out, and files that they name still found") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("c/d"));
  folder.write("c/plain.json", R"({"$schema": "x", "node": "dgx-a100", "nccl_graph": "d/graph.xml"})");
  folder.write("c/scenario.json", R"({"cluster": "d/inner.json", "model": "resnet18"})");
  folder.write("c/d/inner.json", R"({"node": {"nccl_topology": "topo.xml"}})");
  folder.write("c/result.json", R"({"fingerprint": "0", "scenario": {"cluster": {"node": "dgx-a100"}}})");
  folder.write("m.json", R"({"name": "m", "layers": []})");
  const std::string here = folder.file("");
  CHECK(after(R"({"cluster": "c/plain.json"})", "/cluster/nodes", 2, here) ==
        R"({"cluster": {"node": "dgx-a100", "nccl_graph": "c/d/graph.xml", "nodes": 2}})");
  CHECK(after(R"({"cluster": "c/scenario.json"})", "/cluster/nodes", 2, here) ==
        R"({"cluster": {"node": {"nccl_topology": "c/d/topo.xml"}, "nodes": 2}})");
  CHECK(after(R"({"cluster": "c/result.json"})", "/cluster/nodes", 2, here) ==
        R"({"cluster": {"node": "dgx-a100", "nodes": 2}})");
  CHECK(after(R"({"model": {"file": "m.json"}})", "/model/name", "n", here) ==
        R"({"model": {"name": "n", "layers": []}})");
  CHECK(after(R"({"model": {"file": "m.json"}})", "/model/sequence", 64, here) ==
        R"({"model": {"file": "m.json", "sequence": 64}})");
  CHECK(after(R"({"model": {"file": "m.json"}})", "/model/file", "n.json", here) ==
        R"({"model": {"file": "n.json"}})");
  CHECK(refusal(R"({"cluster": "/none/c.json"})", "/cluster/nodes") ==
        "/cluster/nodes: /none/c.json: can't be read: No such file or directory");
}

TEST_CASE("a name means to an edit what it means to the reader") {
  CHECK_THAT(refusal(R"({"cluster": "dgx-h10"})", "/cluster/nodes"),
             Catch::StartsWith(R"(/cluster/nodes: unknown cluster "dgx-h10"; did you mean "dgx-h100"?)"));
  CHECK_THAT(refusal(R"({"model": "resnet81"})", "/model/name"),
             Catch::StartsWith(R"(/model/name: unknown model "resnet81"; did you mean "resnet18"?)"));
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("c/d"));
  folder.write("c/d/plain.json", R"({"$schema": "x", "node": "dgx-a100", "nodes": 2})");
  folder.write("c/scenario.json", R"({"cluster": "d/plain.json", "model": "resnet18"})");
  folder.write("c/result.json", R"({"fingerprint": "0", "scenario": {"cluster": "scenario.json"}})");
  folder.write("m.json", R"({"$schema": "x", "name": "m", "layers": [
      {"name": "l", "parameters": [10], "forward_macs": 1, "output_elements": 1}]})");
  for (const char* cluster : {"dgx-h100", "a100-4x8", "c/d/plain.json", "c/scenario.json", "c/result.json"}) {
    for (const char* model : {R"("resnet50")", R"({"file": "m.json"})"}) {
      INFO(cluster << ' ' << model);
      Json scenario = parse_json(R"({"cluster": ")" + std::string(cluster) + R"(", "model": )" + model +
                                 R"(, "training": {"batch_per_gpu": 4}})");
      const std::string file = folder.file("s.json");
      const Scenario read = parse_scenario(to_line(scenario), file);
      set_at(scenario, "/cluster/nodes", read.cluster.nodes, folder.file(""));
      set_at(scenario, "/model/name", read.model.name, folder.file(""));
      CHECK(scenario.find("cluster")->as<Json::Object>() != nullptr);
      CHECK(scenario.find("model")->find("file") == nullptr);
      CHECK(to_json(parse_scenario(to_line(scenario), file)) == to_json(read));
    }
  }
}

TEST_CASE("a result gives its scenario") {
  CHECK(after(R"({"fingerprint": "0", "gpus": 8, "scenario": {"run": {"seed": 1}}})", "/run/seed", 2) ==
        R"({"run": {"seed": 2}})");
}

TEST_CASE("what an edit writes out means the same") {
  Json scenario =
      parse_json(R"({"cluster": "h100-512", "model": "resnet18", "training": {"batch_per_gpu": 4}})");
  const std::string before = to_json(parse_scenario(to_line(scenario), "s.json"));
  set_at(scenario, "/cluster/node/nics", 8, {});
  set_at(scenario, "/model/layers/0/name", "conv1", {});
  CHECK(to_json(parse_scenario(to_line(scenario), "s.json")) == before);
}

TEST_CASE("the node's GPU can be changed where the cluster doesn't name it") {
  const auto bandwidth = [](const std::string& cluster) {
    Json scenario = parse_json(R"({"cluster": )" + cluster +
                               R"(, "model": "resnet18", "training": {"batch_per_gpu": 4}})");
    set_at(scenario, "/cluster/gpu/memory_bandwidth", "4 TB/s", {});
    const Scenario read = parse_scenario(to_line(scenario), "s.json");
    return read.gpu.name + " " + std::to_string(read.gpu.memory_bandwidth.value);
  };
  CHECK(bandwidth(R"({"node": "dgx-a100"})") == "A100-80GB 4000000000000.000000");
  CHECK(bandwidth(R"("dgx-a100")") == "A100-80GB 4000000000000.000000");
  CHECK(bandwidth(R"({"node": {"preset": "dgx-h100"}})") == "H100 4000000000000.000000");
}

TEST_CASE("the difference of two values is the edits between them") {
  const auto edits = [](const std::string& before, const std::string& after) {
    std::string text;
    Json written = parse_json(before);
    for (const Edit& edit : difference(parse_json(before), parse_json(after))) {
      text += edit.key + '=' + to_line(edit.value) + ' ';
      set_at(written, edit.key, edit.value, {});
    }
    CHECK(to_line(written) == to_line(parse_json(after)));
    return text;
  };
  CHECK(edits(R"({"a": 1, "b": {"c": 2}})", R"({"a": 1, "b": {"c": 2}})").empty());
  CHECK(edits(R"({"a": 1, "b": {"c": 2, "d": 3}})", R"({"a": 1, "b": {"c": 4, "d": 3}})") == "/b/c=4 ");
  CHECK(edits(R"({"a": [{"b": 1}, {"b": 2}]})", R"({"a": [{"b": 1}, {"b": 3}]})") == "/a/1/b=3 ");
  CHECK(edits(R"({"a": [1, 2]})", R"({"a": [2]})") == "/a=[2] ");
  CHECK(edits(R"({"a": {"k": "lognormal", "cv": 0.1}})", R"({"a": {"k": "none"}})") ==
        R"(/a={"k": "none"} )");
  CHECK(edits(R"({"a": {}})", R"({"a": {"b": [1]}})") == "/a/b=[1] ");
  CHECK(edits(R"({"a": true})", R"({"a": 1})") == "/a=1 ");
  // What lists nothing isn't written: a list that is gone is an empty one.
  CHECK(to_line(difference(parse_json(R"({"a": [1]})"), parse_json("{}"))[0].value) == "[]");
}

TEST_CASE("value_at finds what is there") {
  const Json written = parse_json(R"({"a": [{"b": 1}], "c/d": 2})");
  CHECK(to_line(*value_at(written, "/a/0/b")) == "1");
  CHECK(to_line(*value_at(written, "/c~1d")) == "2");
  CHECK(value_at(written, "") == &written);
  for (const char* none : {"/b", "/a/1", "/a/-", "/a/0/b/c", "/a/x"}) {
    CHECK(value_at(written, none) == nullptr);
  }
}

}  // namespace
}  // namespace paceline
