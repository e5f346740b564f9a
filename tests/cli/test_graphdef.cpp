// `keel import` of TensorFlow graphs and what is done with them; real ones where KEEL_GRAPHDEF_DIR
// says where they lie.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <keel/core/tensor/npy.h>
#include <keel/data/data.h>

#include "cli/tool.h"
#include "support/error_of.h"
#include "support/graph_def_text.h"
#include "support/sanitizer.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The real graphs and MNIST.
bool has_real_data() {
  for (const char* name : {"KEEL_GRAPHDEF_DIR", "KEEL_MNIST_DIR"}) {
    if (!variable(name).empty()) continue;
    MESSAGE("keel test skipped: " << std::string(name) << " is not set");
    return false;
  }
  return true;
}

void check_done(const ToolResult& result) { REQUIRE_MESSAGE(result.exit_code == 0, result.err); }

// Says what `keel import` printed.
std::string imported(const std::string& graph, const std::string& out, const Words& flags = {}) {
  Words words{"import", graph, "--out", out};
  words.insert(words.end(), flags.begin(), flags.end());
  const ToolResult result = run_tool(words);
  check_done(result);
  return result.out;
}

// The first images of MNIST's test set as [count, 784] in 0 .. 1.
keel::Tensor first_images(int64_t count) {
  const auto mnist = keel::load_mnist(variable("KEEL_MNIST_DIR"));
  keel::Tensor images(keel::f32, {count, 784});
  const keel::Tensor& all = mnist.test.images;
  for (int64_t i = 0; i < images.num_elements(); ++i) images.set(i, all.at(i) / 255.0);
  return images;
}

void check_expected(const std::string& graph, const std::string& key) {
  if (!has_real_data()) return;
  const std::string folder = variable("KEEL_GRAPHDEF_DIR");
  const json expected = read_json(folder + "/expected.json").at(key);
  const auto count = expected.at("shape").at(0).get<int64_t>();
  const TempFolder temp;
  keel::write_npy(temp.file("x.npy"), first_images(count));
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    const std::string out = temp.file(std::string("out_") + backend);
    std::filesystem::create_directory(out);
    check_done(run_tool({"run", folder + "/" + graph, "--input", "X=" + temp.file("x.npy"),
                         "--output-dir", out, "--backend", backend}));
    const keel::Tensor output = keel::read_npy(out + "/output.npy");
    const json& data = expected.at("data");
    REQUIRE(output.num_elements() == static_cast<int64_t>(data.size()));
    double largest = 0;
    for (int64_t i = 0; i < output.num_elements(); ++i)
      largest = std::max(largest,
                         std::fabs(output.at(i) - data.at(static_cast<size_t>(i)).get<double>()));
    CHECK(largest < 2e-5);
  }
}

const keel::Tensor kEye = keel::Tensor::of<float>({2, 2}, {1, 2, 3, 4});

std::string conditional() {
  return placeholder_text("x", keel::f32, {-1, 2}) + placeholder_text("p", keel::boolean, {}) +
         const_text("w", kEye) + node_text("sx", "Switch", {"x", "p"}) +
         node_text("sw", "Switch", {"w", "p"}) + node_text("product", "MatMul", {"sx:1", "sw:1"}) +
         node_text("sum", "Add", {"sx", "sw"}) +
         node_text("y", "Merge", {"sum", "product"}, {{"N", "i: 2"}});
}

}  // namespace

TEST_CASE("TensorFlow graphs: the outputs of a frozen classifier are those of other programs") {
  check_expected("fc-layers.pb", "fc");
}

TEST_CASE("TensorFlow graphs: the outputs of a frozen autoencoder are those of other programs") {
  check_expected("ae0.pb", "ae0");
}

TEST_CASE("TensorFlow graphs: a frozen classifier is measured and trained further") {
  if (!has_real_data()) return;
  const std::string graph = variable("KEEL_GRAPHDEF_DIR") + "/fc-layers.pb";
  const std::string data = variable("KEEL_MNIST_DIR");
  const TempFolder temp;
  const std::string model = temp.file("fc.keel"), save = temp.file("tuned");
  const std::string text = imported(graph, model);
  CHECK(contains(text, "input X f32[?, 784]"));
  CHECK(contains(text, "output output f32[?, 10]"));
  CHECK(contains(text, "6 states"));
  CHECK(contains(text, "24 of 24 nodes of the file are needed"));
  CHECK(contains(text, "weights, constants in the file: dense/kernel, dense/bias,"));
  const ToolResult measured =
      run_tool({"eval", "--model", graph, "--data", data, "--json", temp.file("eval")});
  check_done(measured);
  CHECK(read_json(temp.file("eval")).at("accuracy").get<double>() == doctest::Approx(0.9548));
  if (keel_test::kSanitized) return;
  check_done(run_tool({"train", "--quiet", "--model", model, "--data", data, "--steps", "300",
                       "--save", save, "--summary", temp.file("summary")}));
  CHECK(read_json(temp.file("summary")).at("test_accuracy").get<double>() > 0.96);
}

TEST_CASE("TensorFlow graphs: a conditional of version 1 gives what its README says") {
  if (!has_real_data()) return;
  const TempFolder temp;
  const std::string graph = variable("KEEL_GRAPHDEF_DIR") + "/control_flow_v1.pbtxt";
  const std::string model = temp.file("c.keel");
  imported(graph, model, {"--outputs", "cond/Merge", "--control-flow", "v2"});
  keel::write_npy(temp.file("x.npy"), keel::Tensor::of<float>({2, 2}, {1, 0, 2, 10}));
  for (const bool condition : {true, false}) {
    keel::write_npy(temp.file("p.npy"), keel::Tensor::scalar<bool>(condition));
    const std::string out = temp.file(condition ? "true" : "false");
    std::filesystem::create_directory(out);
    check_done(run_tool({"run", model, "--input", "Placeholder=" + temp.file("x.npy"), "--input",
                         "Placeholder_1=" + temp.file("p.npy"), "--output-dir", out}));
    const keel::Tensor y = keel::read_npy(out + "/cond_Merge.npy");
    const std::vector<double> expected = condition ? std::vector<double>{0.1, 0.2, 3.2, 4.4}
                                                   : std::vector<double>{1.1, 0.2, 2.3, 10.4};
    for (int64_t i = 0; i < 4; ++i)
      CHECK(y.at(i) == doctest::Approx(expected[static_cast<size_t>(i)]).epsilon(1e-6));
  }
}

TEST_CASE("TensorFlow graphs: version 1 control flow under unknown shapes is refused in words") {
  const TempFolder temp;
  const std::string graph = temp.write("c.pbtxt", conditional());
  const std::string out = temp.file("c.keel");
  const ToolResult refused = run_tool({"import", graph, "--out", out});
  CHECK(refused.exit_code == 1);
  CHECK(contains(refused.err,
                 "node sx(Switch) is v1 control operator, which is not supported, "
                 "please convert to v2 control operator"));
  CHECK(contains(refused.err, "--control-flow v2"));
  CHECK_FALSE(std::filesystem::exists(out));
  // With fixed shapes it converts by itself, and with the environment's switch.
  CHECK(contains(imported(graph, out, {"--inputs", "x:[2,2]"}), "input x f32[2, 2]"));
  CHECK(contains(imported(graph, out, {"--control-flow", "v2"}), "output y f32[2, 2]"));
  CHECK(run_tool({"import", graph, "--out", out}, {{"ENABLE_FORCE_V2_CONTROL", "1"}}).exit_code ==
        0);
  CHECK(run_tool({"import", graph, "--out", out}, {{"ENABLE_FORCE_V2_CONTROL", "0"}}).exit_code ==
        1);
}

TEST_CASE("TensorFlow graphs: twenty conditionals need less memory than before") {
  std::string text = placeholder_text("x0", keel::f32, {64, 64});
  for (int i = 0; i < 20; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    text += placeholder_text("p" + n, keel::boolean, {}) +
            node_text("s" + n, "Switch", {"x" + n, "p" + n}) +
            node_text("a" + n, "MatMul", {"s" + n, "s" + n}) +
            node_text("b" + n, "MatMul", {"s" + n + ":1", "a" + n + "x"}) +
            node_text("a" + n + "x", "MatMul", {"s" + n + ":1", "s" + n + ":1"}) +
            node_text("x" + next, "Merge", {"a" + n, "b" + n}, {{"N", "i: 2"}});
  }
  const TempFolder temp;
  const std::string out = imported(temp.write("g.pbtxt", text), temp.file("g.keel"));
  CHECK(contains(out, "control flow of version 1: 20 conditionals and 0 loops"));
  // Two products in one branch, one in the other, and the choice: of 16 KiB each.
  CHECK(contains(
      out, "peak memory of its values: " + std::to_string(20 * 4 * 64 * 64 * 4) + " bytes before"));
  const size_t at = out.find("where each has its own, ");
  REQUIRE(at != std::string::npos);
  const long planned = std::stol(out.substr(at + 24));
  CHECK(planned > 0);
  CHECK(planned < 10 * 64 * 64 * 4);
}

TEST_CASE("TensorFlow graphs: inputs are given with shapes in both forms") {
  const TempFolder temp;
  const std::string graph = temp.write("g.pb", placeholder_text("a", keel::f32, {-1, 2}) +
                                                   placeholder_text("b", keel::f32, {-1, 2}) +
                                                   node_text("y", "Add", {"a", "b"}));
  const std::string out = temp.file("g.keel");
  const std::string text = imported(graph, out, {"--inputs", "b:[4,2],a:4x2"});
  CHECK(contains(text, "input b f32[4, 2]\ninput a f32[4, 2]\n"));
  for (const std::string bad : {"b:[4,2", "b:]4[", "b:4x", "b:-2x2", ":[1]", "b:four"}) {
    CAPTURE(bad);
    const ToolResult refused = run_tool({"import", graph, "--out", out, "--inputs", bad});
    CHECK(refused.exit_code == 2);
    CHECK(contains(refused.err, "--inputs: expected NAME:SHAPE"));
  }
  const ToolResult unknown = run_tool({"import", graph, "--out", out, "--inputs", "c"});
  CHECK(unknown.exit_code == 2);
  CHECK(contains(unknown.err, "inputs and outputs of it may be: a, b, y"));
}

TEST_CASE("TensorFlow graphs: a training graph keeps its update in the file") {
  const TempFolder temp;
  const std::string graph =
      temp.write("train.pbtxt", placeholder_text("x", keel::f32, {2}) +
                                    variable_text("w", keel::Tensor::of<float>({2}, {1, 2})) +
                                    node_text("g", "Mul", {"w/read", "x"}) +
                                    const_text("rate", keel::Tensor::scalar<float>(0.5f)) +
                                    node_text("train", "ApplyGradientDescent", {"w", "rate", "g"}));
  const std::string out = temp.file("t.keel");
  CHECK(contains(imported(graph, out, {"--outputs", "g,train"}), "1 states, 1 of them updated"));
  CHECK(contains(read_text(out), "updates ("));
  const ToolResult refused = run_tool({"import", graph, "--out", out});
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.err, "--outputs: the graph has variables"));
}

TEST_CASE("TensorFlow graphs: own updates give way to those of an optimizer") {
  const TempFolder temp;
  const std::string graph =
      temp.write("train.pbtxt", placeholder_text("x", keel::f32, {2}) +
                                    variable_text("w", keel::Tensor::of<float>({2}, {1, 2})) +
                                    node_text("wx", "Mul", {"w/read", "x"}) +
                                    const_text("axis", keel::Tensor::of<int32_t>({1}, {0})) +
                                    node_text("loss", "Sum", {"wx", "axis"}) +
                                    const_text("rate", keel::Tensor::scalar<float>(0.5f)) +
                                    node_text("train", "ApplyGradientDescent", {"w", "rate", "x"}));
  const std::string out = temp.file("t.keel");
  // The two moments of adam and the weights.
  CHECK(contains(imported(graph, out, {"--outputs", "loss,train", "--optimizer", "adam"}),
                 "3 states, 3 of them updated"));
  CHECK(contains(read_text(out), "w/adam_m"));
  const ToolResult none = run_tool({"import", graph, "--outputs", "wx,train", "--optimizer", "sgd",
                                    "--out", temp.file("n.keel")});
  CHECK(none.exit_code == 2);
  CHECK(contains(none.err, "one output that is a single float, the loss, got 0 of them"));
  CHECK_FALSE(std::filesystem::exists(temp.file("n.keel")));
  CHECK(run_tool({"import", graph, "--outputs", "loss", "--lr", "1", "--out", out}).exit_code == 2);
}

TEST_CASE("TensorFlow graphs: flags that go with the other format are refused") {
  const TempFolder temp;
  const std::string model = temp.write("m.onnx", "x"), out = temp.file("m.keel");
  const ToolResult refused = run_tool({"import", model, "--inputs", "x", "--out", out});
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.err, "goes with a TensorFlow graph"));
  const std::string damaged = temp.write("g.pb", "node { name: 'x'");
  CHECK(run_tool({"import", damaged, "--out", out}).exit_code == 1);
  CHECK(run_tool({"import", temp.file("none.pb"), "--out", out}).exit_code == 1);
}

TEST_CASE("TensorFlow graphs: names of outputs that are empty or given twice are refused") {
  const TempFolder temp;
  const std::string graph = temp.write("g.pbtxt", conditional()), out = temp.file("g.keel");
  const auto refused = [&](const std::string& outputs) {
    const ToolResult result = run_tool({"import", graph, "--outputs", outputs, "--out", out});
    CHECK(result.exit_code == 2);
    CHECK_FALSE(std::filesystem::exists(out));
    return result.err;
  };
  CHECK(contains(refused("y,y"), "--outputs: names y twice"));
  CHECK(contains(refused(","), "empty name"));
  CHECK(contains(refused("y,"), "empty name"));
  const ToolResult done = run_tool({"import", temp.write("m.keel", "x"), "--out", out});
  CHECK(done.exit_code == 2);
  CHECK(contains(done.err, "is imported already"));
}

TEST_SUITE_END();
