// Arrays of tensors: a recurrent net over time as tf.nn.dynamic_rnn writes it, with control flow of
// version 1, against the same net in plain C++.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/error_of.h"
#include "unit/ops/graphdef/op_runs_for_tests.h"
#include "unit/ops/graphdef/text_import_for_tests.h"

TEST_SUITE_BEGIN("graphdef");

namespace keel {
namespace {

using namespace keel_test;

constexpr int kSteps = 4, kBatch = 2, kUnits = 2;

std::string enter(const std::string& name, const std::string& input, bool constant) {
  return node_text(
      name, "Enter", {input},
      {{"frame_name", "s: 'time'"}, {"is_constant", constant ? "b: true" : "b: false"}});
}

// A loop variable with its first value; `next` is another node.
std::string variable(const std::string& name, const std::string& first, const std::string& next) {
  return enter(name + "/e", first, false) +
         node_text(name + "/m", "Merge", {name + "/e", name + "/n"}) +
         node_text(name + "/s", "Switch", {name + "/m", "goes_on"}) +
         node_text(name, "Identity", {name + "/s:1"}) +
         node_text(name + "/n", "NextIteration", {next}) +
         node_text(name + "/x", "Exit", {name + "/s"});
}

// h = tanh([x, h] w), for x [steps, batch, units]; the result is all h. `element_shape` is what the
// array of results says of its elements.
std::string recurrent(const std::string& element_shape, const std::string& size = "steps") {
  const NodeAttributes array{{"dtype", "type: DT_FLOAT"},
                             {"element_shape", element_shape},
                             {"dynamic_size", "b: false"},
                             {"clear_after_read", "b: true"},
                             {"tensor_array_name", "s: 'a'"}};
  return placeholder_text("x", f32, {kSteps, kBatch, kUnits}) + placeholder_text("n", i32, {}) +
         const_text("w", Tensor::of<float>({4, 2}, {0.5f, -1, 0.25f, 0.75f, 1, 0.5f, -0.5f, 1})) +
         const_text("h0", Tensor::full(f32, {kBatch, kUnits}, 0.125)) +
         const_text("zero", Tensor::scalar<int32_t>(0)) +
         const_text("steps", Tensor::scalar<int32_t>(kSteps)) +
         const_text("one", Tensor::scalar<int32_t>(1)) +
         node_text("every", "Range", {"zero", "steps", "one"}) +
         node_text("given", "TensorArrayV3", {"steps"}, array) +
         node_text("given/all", "TensorArrayScatterV3", {"given", "every", "x", "given:1"}) +
         node_text("made", "TensorArrayV3", {size}, array) + enter("given/h", "given", true) +
         enter("given/f", "given/all", true) + enter("made/h", "made", true) +
         enter("limit", "steps", true) + enter("w/c", "w", true) + variable("t", "zero", "t/next") +
         variable("h", "h0", "h/next") + variable("f", "made:1", "f/next") +
         node_text("more", "Less", {"t/m", "limit"}) + node_text("goes_on", "LoopCond", {"more"}) +
         const_text("by", Tensor::scalar<int32_t>(1)) +
         const_text("axis", Tensor::scalar<int32_t>(1)) + node_text("t/next", "Add", {"t", "by"}) +
         node_text("x/t", "TensorArrayReadV3", {"given/h", "t", "given/f"},
                   {{"dtype", "type: DT_FLOAT"}}) +
         node_text("both", "ConcatV2", {"x/t", "h", "axis"}) +
         node_text("product", "MatMul", {"both", "w/c"}) +
         node_text("h/next", "Tanh", {"product"}) +
         node_text("f/next", "TensorArrayWriteV3", {"made/h", "t", "h/next", "f"}) +
         node_text("size", "TensorArraySizeV3", {"made", "f/x"}) +
         node_text("places", "Range", {"zero", "size", "one"}) +
         node_text(
             "y", "TensorArrayGatherV3", {"made", "places", "f/x"},
             {{"dtype", "type: DT_FLOAT"}, {"element_shape", "shape { unknown_rank: true }"}});
}

// The constants of the loop's body are in its frame by a control edge, as in TensorFlow.
std::string in_frame(std::string text) {
  for (const char* name : {"by", "axis"}) {
    const std::string start = std::string("node { name: \"") + name + "\" op: \"Const\"";
    text.replace(text.find(start), start.size(), start + " input: \"^t\"");
  }
  return text;
}

const double kWeights[4][2] = {{0.5, -1}, {0.25, 0.75}, {1, 0.5}, {-0.5, 1}};

TEST_CASE("GraphDef tensor arrays: a recurrent net over time on all backends") {
  Floats numbers;
  for (int i = 0; i < kSteps * kBatch * kUnits; ++i) numbers.push_back(std::sin(i));
  const Tensor x = floats({kSteps, kBatch, kUnits}, numbers);
  Floats expected;
  for (int t = 0; t < kSteps; ++t)
    for (int b = 0; b < kBatch; ++b)
      for (int u = 0; u < kUnits; ++u) {
        double sum = 0;
        for (int k = 0; k < kUnits; ++k) {
          const auto before = static_cast<size_t>(((t - 1) * kBatch + b) * kUnits + k);
          sum += x.at((t * kBatch + b) * kUnits + k) * kWeights[k][u];
          sum += (t == 0 ? 0.125 : expected[before]) * kWeights[kUnits + k][u];
        }
        expected.push_back(std::tanh(sum));
      }
  // The shape of the elements is said, in part, or not at all.
  for (const char* shape :
       {"shape { dim { size: 2 } dim { size: 2 } }", "shape { dim { size: -1 } dim { size: 2 } }",
        "shape { unknown_rank: true }"}) {
    const auto model = import_text(in_frame(recurrent(shape)), {.outputs = {"y"}});
    CHECK(model.loops == 1);
    CHECK(model.weights_of_constants == std::vector<std::string>{"w"});
    for (const char* backend : {"ref", "cpu", "npu"}) {
      Session session(*model.graph, device(backend));
      check(session.run({model.output("y")}, {{model.input("x"), x}})[0], {kSteps, kBatch, kUnits},
            expected);
    }
  }
}

TEST_CASE("GraphDef tensor arrays: sizes that are not known or grow are refused by name") {
  const std::string shape = "shape { unknown_rank: true }";
  const std::string open = import_refusal(in_frame(recurrent(shape, "n")), {.outputs = {"y"}});
  CHECK(contains(open, "TensorArrayV3: the size is not known before the run"));
  CHECK(contains(open, "made"));
  const auto one = [&](const std::string& size, const std::string& grows) {
    return import_refusal(
        const_text("size", Tensor::scalar<int32_t>(std::stoi(size))) +
            node_text("a", "TensorArrayV3", {"size"},
                      {{"dtype", "type: DT_FLOAT"}, {"dynamic_size", "b: " + grows}}) +
            node_text("y", "TensorArrayReadV3", {"a", "size", "a:1"}),
        {.outputs = {"y"}});
  };
  CHECK(contains(one("3", "true"), "its size grows"));
  CHECK(contains(one("2000000000", "false"), "not from 0 to 2^24"));
  CHECK(contains(one("-1", "false"), "not from 0 to 2^24"));
  CHECK(contains(one("3", "false"), "nothing was written to"));
}

TEST_CASE("GraphDef tensor arrays: a place out of range is an error of the run") {
  const auto model = import_text(
      placeholder_text("i", i32, {}) + placeholder_text("x", f32, {2}) +
          const_text("size", Tensor::scalar<int32_t>(3)) +
          node_text("a", "TensorArrayV3", {"size"}, {{"dtype", "type: DT_FLOAT"}}) +
          node_text("f", "TensorArrayWriteV3", {"a", "i", "x", "a:1"}) +
          node_text("y", "TensorArrayConcatV3", {"a", "f"}, {{"dtype", "type: DT_FLOAT"}}),
      {.outputs = {"y"}});
  Session session(*model.graph, device("ref"));
  const auto run_at = [&](int32_t i) {
    return session.run({model.output("y")}, {{model.input("i"), Tensor::scalar<int32_t>(i)},
                                             {model.input("x"), row({7, 8})}})[0];
  };
  check(run_at(1), {6}, {0, 0, 7, 8, 0, 0});
  CHECK(contains(error_of([&] { run_at(3); }), "3"));
}

}  // namespace
}  // namespace keel

TEST_SUITE_END();
