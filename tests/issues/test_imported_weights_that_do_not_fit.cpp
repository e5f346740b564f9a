// An import added weights by broadcasting and cut recurrent ones to size, so that a weight of a
// wrong shape changed the results, or their shape, where ONNX's own runtimes refuse the model.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"

#include "support/error_of.h"
#include "support/onnx_op.h"

namespace keel {
namespace {

using namespace keel_test;

std::string names_attribute(const std::string& name, const std::vector<std::string>& texts) {
  std::string bytes = bytes_field(1, name);
  for (const std::string& text : texts) bytes += bytes_field(9, text);
  return bytes + number_field(20, 8);
}

// Returns an op on ones: the first operand is fed, the others are held by the file.
OnnxOp on_ones(const std::string& op, const std::vector<Shape>& shapes,
               const std::vector<std::string>& attributes = {}) {
  OnnxOp one{.op = op, .operands = {}, .attributes = attributes};
  for (size_t i = 0; i < shapes.size(); ++i)
    one.operands.push_back({"x" + std::to_string(i), Tensor::full(f32, shapes[i], 1), i > 0});
  return one;
}

void check_weight_refused(const OnnxOp& op, const std::string& reason) {
  const std::string error = error_of([&] { op.import(); });
  CHECK_MESSAGE(contains(error, reason), op.op << ": " << error);
}

// A recurrent op of 2 units on sequences of 3 steps, 1 item and 4 features, with weights of these
// rows, and perhaps biases.
OnnxOp recurrent(const std::string& op, int64_t rows, int64_t biases = 0,
                 const std::vector<std::string>& attributes = {onnx_int("hidden_size", 2)}) {
  std::vector<Shape> shapes{{3, 1, 4}, {1, rows, 4}, {1, rows, 2}};
  if (biases > 0) shapes.push_back({1, biases});
  return on_ones(op, shapes, attributes);
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("recurrent weights of other shapes than their gates have are refused") {
  for (const auto& kind : {std::pair("RNN", 1), std::pair("GRU", 3), std::pair("LSTM", 4)}) {
    const std::string op = kind.first;
    const int64_t gates = kind.second;
    CAPTURE(op);
    CHECK(recurrent(op, 2 * gates, 4 * gates).run().shape() == Shape{3, 1, 1, 2});
    for (const int64_t rows : {2 * gates - 1, 2 * gates + 1, 4 * gates}) {
      const std::string due = "where it takes [1, " + std::to_string(2 * gates) + ", 4]";
      check_weight_refused(recurrent(op, rows), due);
    }
    check_weight_refused(recurrent(op, 2 * gates, 4 * gates + 4),
                         "its biases are [1, " + std::to_string(4 * gates + 4) + "]");
    check_weight_refused(recurrent(op, 2 * gates, 0, {onnx_int("hidden_size", 5)}),
                         "its hidden_size is 5, and its recurrent weights are of 2 units");
  }
  check_weight_refused(on_ones("LSTM", {{3, 1, 4}, {3, 8, 4}, {3, 8, 2}}),
                       "where it takes [1, 8, 4]");
  OnnxOp states = recurrent("GRU", 6, 12);
  states.operands.push_back({});
  states.operands.push_back({"h", Tensor::full(f32, {1, 1, 1}, 1), true});
  check_weight_refused(states, "its initial states are [1, 1, 1], where it takes [1, 1, 2]");
  OnnxOp lengths = recurrent("GRU", 6, 12);
  lengths.operands.push_back({"n", onnx_int64({2}, {1, 2})});
  check_weight_refused(lengths, "its lengths of sequences are [2], where it takes [1]");
}

TEST_CASE("activations of a recurrent op are all named or none") {
  const auto named = [](const std::string& op, int64_t rows,
                        const std::vector<std::string>& names) {
    return recurrent(op, rows, 0, {names_attribute("activations", names)});
  };
  CHECK(named("GRU", 6, {"Tanh", "Relu"}).run().shape() == Shape{3, 1, 1, 2});
  check_weight_refused(named("GRU", 6, {"Tanh"}), "it names 1 activations, where it takes 2");
  check_weight_refused(named("LSTM", 8, {"Tanh", "Tanh", "Tanh", "Relu"}),
                       "it names 4 activations, where it takes 3");
  // ONNX's default of an RNN is two names, whatever its direction.
  CHECK(bit_equal(named("RNN", 2, {"Tanh", "Tanh"}).run(), recurrent("RNN", 2).run()));
  CHECK(bit_equal(named("RNN", 2, {"Relu", "Tanh"}).run(), named("RNN", 2, {"Relu"}).run()));
  check_weight_refused(named("RNN", 2, {"Tanh", "Tanh", "Tanh"}),
                       "it names 3 activations, where it takes 1");
}

TEST_CASE("parameters of norms that do not fit their channels are refused") {
  const Shape wrong{3}, channels{2};
  CHECK(on_ones("InstanceNormalization", {{1, 2, 4}, {2}, {2}}).run().shape() == Shape{1, 2, 4});
  check_weight_refused(on_ones("InstanceNormalization", {{1, 1, 4}, {3}, {3}}),
                       "its scale is [3], where it takes [1]");
  check_weight_refused(on_ones("InstanceNormalization", {{1, 2, 4}, {2}, {1}}),
                       "its bias is [1], where it takes [2]");
  check_weight_refused(on_ones("BatchNormalization", {{1, 2, 4}, {2}, {2}, {1}, {2}}),
                       "its mean is [1], where it takes [2]");
  CHECK(on_ones("LayerNormalization", {{2, 3, 4}, {3, 1}}).run().shape() == Shape{2, 3, 4});
  check_weight_refused(on_ones("LayerNormalization", {{2, 1, 4}, {3, 4}}),
                       "its scale is [3, 4], which does not broadcast to [2, 1, 4]");
  check_weight_refused(on_ones("LayerNormalization", {{4}, {4}, {3, 4}}),
                       "its bias is [3, 4], which does not broadcast to [4]");
}

TEST_CASE("what is added to products and convolutions has their shape") {
  CHECK(on_ones("Gemm", {{1, 3}, {3, 4}, {4}}).run().shape() == Shape{1, 4});
  check_weight_refused(on_ones("Gemm", {{1, 3}, {3, 4}, {5, 4}}),
                       "its C is [5, 4], which does not broadcast to [1, 4]");
  CHECK(on_ones("Conv", {{1, 2, 3, 3}, {4, 2, 1, 1}, {4}}).run().shape() == Shape{1, 4, 3, 3});
  for (const int64_t size : {1, 3}) {
    const std::string reason = "its bias is [" + std::to_string(size) + "], where it takes [4]";
    check_weight_refused(on_ones("Conv", {{1, 2, 3, 3}, {4, 2, 1, 1}, {size}}), reason);
    check_weight_refused(on_ones("ConvTranspose", {{1, 2, 3, 3}, {2, 4, 1, 1}, {size}}), reason);
  }
}

// Expected: the shapes that ONNX Runtime 1.30 gives.
TEST_CASE("a slope of more dimensions than its input gives its own to the result") {
  CHECK(on_ones("PRelu", {{3, 1}, {1, 4}}).run().shape() == Shape{3, 4});
  CHECK(on_ones("PRelu", {{3}, {1, 1, 1}}).run().shape() == Shape{1, 1, 3});
  CHECK(on_ones("PRelu", {{}, {1}}).run().shape() == Shape{1});
}

// A result of 5 x 5 lost 7 rows and columns at its end, and kept 3 x 3.
TEST_CASE("pads that take off more than a transposed convolution gives are refused") {
  const auto padded = [](const std::vector<int64_t>& pads) {
    return on_ones("ConvTranspose", {{1, 1, 3, 3}, {1, 1, 3, 3}}, {onnx_ints("pads", pads)});
  };
  CHECK(padded({0, 0, 4, 4}).run().shape() == Shape{1, 1, 1, 1});
  check_weight_refused(padded({0, 0, 7, 7}), "its pads 0 and 7 take off more than the 5 elements");
}

TEST_CASE("targets and weights of a loss that do not fit its scores are refused") {
  const auto loss = [](const std::vector<int64_t>& targets, const Shape& weights) {
    return OnnxOp{.op = "NegativeLogLikelihoodLoss",
                  .operands = {{"x", Tensor::full(f32, {3, 5}, -1)},
                               {"t", onnx_int64({static_cast<int64_t>(targets.size())}, targets)},
                               {"w", Tensor::full(f32, weights, 1), true}}};
  };
  CHECK(loss({1, 2, 3}, {5}).run().at(0) == 1);
  check_weight_refused(loss({1, 2, 3}, {1}), "its weights are [1], where it takes [5]");
  check_weight_refused(loss({1}, {5}), "its targets are [1], where it takes [3]");
}

TEST_CASE("a scale of quantization that does not fit its axis is refused") {
  const auto quantized = [](int64_t scales) {
    return on_ones("QuantizeLinear", {{2, 1, 4}, {scales}});
  };
  CHECK(quantized(1).run().shape() == Shape{2, 1, 4});
  check_weight_refused(quantized(3), "its scale is [3], where it takes [1]");
}

// Some files have the bounds as lists of one number, which gave a scalar an axis.
TEST_CASE("a bound of a clip leaves the shape as it is") {
  CHECK(on_ones("Clip", {{}, {1}, {1}}).run().shape() == Shape{});
  CHECK(on_ones("Clip", {{2, 3}, {}, {1}}).run().shape() == Shape{2, 3});
  check_weight_refused(on_ones("Clip", {{1}, {3}}),
                       "its bound is [3], which does not broadcast to [1]");
}

TEST_SUITE_END();

}  // namespace keel
