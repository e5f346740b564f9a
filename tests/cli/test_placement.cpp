// --placement and --all-placements as users type them, and a model with a part in f64, which npu
// lacks, trained, profiled, judged and printed.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <keel/core/tensor/npy.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/error_of.h"
#include "support/onnx_bytes.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("cli");

namespace {

using keel_test::contains;
using namespace keel_test;

// scores = tanh(flatten(x) w + b), the tanh in f64.
std::string wide_model() {
  std::vector<float> weights(kPixels * 10);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = 0.05f * std::sin(static_cast<float>(i));
  return onnx_model({.nodes = {onnx_node("Flatten", {"x"}, {"flat"}),
                               onnx_node("MatMul", {"flat", "w"}, {"product"}),
                               onnx_node("Add", {"product", "b"}, {"sums"}),
                               onnx_node("Cast", {"sums"}, {"wide"}, {onnx_int("to", 11)}),
                               onnx_node("Tanh", {"wide"}, {"bent"}),
                               onnx_node("Cast", {"bent"}, {"scores"}, {onnx_int("to", 1)})},
                     .initializers = {onnx_floats("w", {kPixels, 10}, weights),
                                      onnx_floats("b", {10}, std::vector<float>(10, 0.0f))},
                     .inputs = {onnx_value("x", 1, {-1, 1, 28, 28})},
                     .outputs = {onnx_value("scores", 1, {-1, 10})}});
}

struct WideFiles {
  DataFolder data{60, 20};
  std::string model = data.file("wide.onnx");

  WideFiles() { data.write("wide.onnx", wide_model()); }

  ToolResult train(const Words& more) const {
    Words words = {"train",   "--quiet", "--model", model,  "--data", data.path(),
                   "--batch", "20",      "--steps", "20",   "--lr",   "0.5",
                   "--seed",  "1",       "--save",  saved()};
    words.insert(words.end(), more.begin(), more.end());
    return run_tool(words);
  }
  std::string saved() const { return data.file("saved"); }
};

}  // namespace

TEST_CASE("placement: graph --compiled names the policy and each node with its rule") {
  const Words words = {"graph", "--compiled", "--batch", "8", "--placement", "mixed"};
  const ToolResult host_alone = run_tool(words);
  CAPTURE(host_alone.err);
  CHECK(host_alone.exit_code == 0);
  CHECK(contains(host_alone.out, "placement: policy mixed, "));
  CHECK(contains(host_alone.out, "0 on the host; 0 copies to the host"));
  CHECK_FALSE(contains(host_alone.out, "device by device kernel"));
  Words all = words;
  all.push_back("--all-placements");
  const ToolResult every = run_tool(all);
  CHECK(every.exit_code == 0);
  CHECK(contains(every.out, ": device by device kernel, "));
  CHECK(contains(every.out, ": device by part of the launch, "));
}

TEST_CASE("placement: what was typed wrongly is refused with code 2") {
  for (const Words& words :
       {Words{"train", "--placement", "half"}, Words{"eval", "--placement"},
        Words{"graph", "--placement", "mixed"}, Words{"graph", "--all-placements"}}) {
    CAPTURE(join(words));
    const ToolResult result = run_tool(words);
    CHECK(result.exit_code == 2);
    CHECK(contains(result.err, "placement"));
  }
}

TEST_CASE("placement: a training keeps its policy and says it in the summary") {
  const TempFolder folder;
  const Words words = {"train", "--steps", "4", "--batch", "50", "--quiet", "--backend", "npu"};
  Words first = words;
  first.insert(first.end(), {"--placement", "mixed", "--save", folder.file("a"), "--summary",
                             folder.file("s.json")});
  REQUIRE(run_tool(first).exit_code == 0);
  CHECK(read_json(folder.file("s.json"))["placement"] == "mixed");
  Words other = words;
  other.insert(other.end(), {"--placement", "full", "--resume", folder.file("a")});
  const ToolResult refused = run_tool(other);
  CHECK(refused.exit_code != 0);
  CHECK(contains(refused.err, "--placement"));
  CHECK(contains(refused.err, "mixed"));
  CHECK(run_tool({"eval", "--load", folder.file("a"), "--placement", "full"}).exit_code == 0);
}

TEST_CASE("placement: under full all that npu lacks of a model is one error") {
  const WideFiles files;
  const ToolResult refused = files.train({"--backend", "npu"});
  CAPTURE(refused.err);
  CHECK(refused.exit_code == 1);
  CHECK(lines_of(refused.err).size() == 1);
  CHECK(contains(refused.err, "the NPU does not compute in f64"));
  CHECK(contains(refused.err, "tanh f64[20, 10]"));
  CHECK(contains(refused.err, "gradient/mul f64[20, 10]"));
  // The tanh and three of its gradient; the casts are the precision mode's.
  CHECK(contains(refused.err, "cannot run 4 nodes"));
  CHECK(contains(refused.err, "or the placement policy mixed"));
}

TEST_CASE("placement: a model with a part that npu lacks trains under mixed in a sunk loop") {
  const WideFiles files;
  const std::string summary = files.data.file("summary.json"), profile = files.data.file("profile");
  const auto trained = [&](const Words& more) {
    Words words = {"--backend", "npu", "--placement", "mixed", "--summary", summary};
    words.insert(words.end(), more.begin(), more.end());
    const ToolResult result = files.train(words);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    return read_json(summary);
  };
  const auto sunk = trained({"--loop-size", "10", "--profile", profile});
  CHECK(sunk.at("placement") == "mixed");
  CHECK(sunk.at("loop_kind") == "device");
  CHECK(sunk.at("host_tasks") >= 4);
  // The same bits step by step.
  CHECK(trained({"--loop-size", "1"}).at("state_sha256") == sunk.at("state_sha256"));
  const std::string tasks = read_text(profile + "/op_summary.csv");
  CHECK(contains(tasks, ",tanh,tanh,static,AI_CPU,"));
  CHECK(contains(tasks, ",D2H,transfer,static,MEMCPY,"));
  CHECK(contains(tasks, ",H2D,transfer,static,MEMCPY,"));
  CHECK(contains(tasks, ",gradient/D2H,transfer,static,MEMCPY,"));
  CHECK(contains(read_text(profile + "/timeline.json"), "\"H2D\""));

  const Words eval = {"eval", "--load", files.saved(), "--data", files.data.path()};
  // The file says the policy.
  CHECK(run_tool(eval).exit_code == 0);
  Words full = eval;
  full.insert(full.end(), {"--placement", "full"});
  const ToolResult refused = run_tool(full);
  CHECK(refused.exit_code == 1);
  CHECK(contains(refused.err, "does not compute in f64"));

  const ToolResult graph = run_tool(
      {"graph", "--model", files.model, "--compiled", "--batch", "20", "--placement", "mixed"});
  CAPTURE(graph.out);
  CHECK(graph.exit_code == 0);
  CHECK(contains(graph.out, "loop: device (sunk with "));
  CHECK(
      contains(graph.out, "tanh: AI_CPU by policy mixed because the NPU does not compute in f64"));
  // The sums there, the scores back; with the gradient of the scores there and of the sums back.
  CHECK(contains(graph.out, "2 copies to the host (1600 bytes) and 2 back (1600 bytes)"));
}

TEST_CASE("placement: mixed trains and is judged where the host feeds each step") {
  const WideFiles files;
  const std::string summary = files.data.file("summary.json");
  const auto trained = [&](const char* data_sink) {
    const ToolResult result =
        files.train({"--backend", "npu", "--placement", "mixed", "--data-sink", data_sink,
                     "--loop-size", "1", "--summary", summary});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    return read_json(summary);
  };
  const auto sunk = trained("on"), fed = trained("off");
  CHECK(fed.at("loop_kind") == "host");
  CHECK(fed.at("state_sha256") == sunk.at("state_sha256"));
  CHECK(fed.at("test_accuracy") == sunk.at("test_accuracy"));
}

TEST_CASE("placement: run gives what cpu does for a part that npu lacks") {
  const TempFolder folder;
  const std::string model =
      folder.write("wide.onnx", onnx_model({.nodes = {onnx_node("Tanh", {"x"}, {"y"})},
                                            .initializers = {},
                                            .inputs = {onnx_value("x", 11, {40})},
                                            .outputs = {onnx_value("y", 11, {40})}}));
  keel::Tensor x(keel::f64, {40});
  for (int64_t i = 0; i < 40; ++i) x.set(i, static_cast<double>(i) / 7 - 2.5);
  keel::write_npy(folder.file("x.npy"), x);
  const auto run = [&](const Words& more) {
    Words words = {"run",          model,        "--input", "x=" + folder.file("x.npy"),
                   "--output-dir", folder.path()};
    words.insert(words.end(), more.begin(), more.end());
    return run_tool(words);
  };
  const ToolResult refused = run({"--backend", "npu"});
  CHECK(refused.exit_code == 1);
  CHECK(contains(refused.err, "does not compute in f64"));
  REQUIRE(run({"--backend", "cpu"}).exit_code == 0);
  const std::string expected = read_text(folder.file("y.npy"));
  const ToolResult mixed = run({"--backend", "npu", "--placement", "mixed"});
  REQUIRE_MESSAGE(mixed.exit_code == 0, mixed.err);
  CHECK(read_text(folder.file("y.npy")) == expected);
  CHECK(run({"--placement", "both"}).exit_code == 2);
}

TEST_CASE("placement: a graph with a table is a file that runs on every backend") {
  const TempFolder folder;
  const std::string text =
      "graph {\n"
      "  %0 = input() {name=\"x\", type=[i32[4]]} : i32[4]\n"
      "  %1 = table_lookup(%0) {table=\"squares\", keys=i64[3](1, 4, 9), values=i64[3](1, 2, 3), "
      "default_value=7} : i64[4]\n"
      "  outputs (%1)\n"
      "}\n";
  const std::string model = folder.write("table.keel", text);
  keel::write_npy(folder.file("x.npy"), keel::Tensor::of<int32_t>({4}, {4, 5, 9, -1}));
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    const ToolResult result = run_tool({"run", model, "--input", "x=" + folder.file("x.npy"),
                                        "--output-dir", folder.path(), "--backend", backend});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    const keel::Tensor found = keel::read_npy(folder.file("output_0.npy"));
    const std::vector<double> expected = {2, 7, 3, 7};
    for (int64_t i = 0; i < 4; ++i) CHECK(found.at(i) == expected[static_cast<size_t>(i)]);
  }
  folder.write("table.keel", [&] {
    std::string damaged = text;
    return damaged.replace(damaged.find("1, 4, 9"), 7, "4, 1, 9");
  }());
  const ToolResult refused = run_tool({"run", model, "--input", "x=" + folder.file("x.npy")});
  CHECK(refused.exit_code == 1);
  CHECK(contains(refused.err, "ascending"));
}

TEST_SUITE_END();
