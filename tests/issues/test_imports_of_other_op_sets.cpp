// An import took files of op sets later than its rules without a word, read ids and factors of
// older ones by rules that came later, read an op whose set a file does not name as one of the
// first set, also in a file that lost its end, and took op sets below the first. It refused what
// says the default of an attribute that came later, or names the value of a padding by constants
// where it copies elements.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"

#include "support/error_of.h"
#include "support/onnx_op.h"

namespace keel {
namespace {

using namespace keel_test;

OnnxOp relu(int64_t opset) {
  return {.op = "Relu", .operands = {{"x", Tensor::of<float>({2}, {-1, 1})}}, .opset = opset};
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("models of op sets later than the rules are refused") {
  for (const int64_t opset : {1, 6, 24}) {
    CAPTURE(opset);
    CHECK(elements_of(relu(opset).run()) == std::vector<double>{0, 1});
  }
  for (const int64_t opset : {25, 99}) {
    const std::string text = error_of([&] { relu(opset).run(); });
    CHECK_MESSAGE(contains(text, "its op set is " + std::to_string(opset) +
                                     ", and Keel reads those up to 24"),
                  text);
  }
}

// A Softmax without an axis means all axes from 1 on in the first op set, and the last one now.
TEST_CASE("models of op sets before the first one are refused") {
  for (const int64_t opset : {0, -1}) {
    const std::string text = error_of([&] { relu(opset).run(); });
    CHECK_MESSAGE(contains(text, "op set " + std::to_string(opset) + ", where the first one is 1"),
                  text);
  }
}

TEST_CASE("an op whose set the file does not name is refused") {
  const OnnxGraph graph{.nodes = {onnx_node("Softmax", {"x"}, {"y"})},
                        .inputs = {onnx_value("x", 1, {2, 3, 4})},
                        .outputs = {onnx_value("y", 1, {2, 3, 4})}};
  const auto head_of = [&](int64_t ir_version) {
    return number_field(1, ir_version) + bytes_field(7, graph.bytes());
  };
  const std::string head = head_of(8);
  const std::string other = bytes_field(8, bytes_field(1, "com.x") + number_field(2, 1));
  const auto import = [](const std::string& bytes) {
    onnx::import_model(onnx::parse_model(bytes, "m.onnx"), {});
  };
  for (const std::string& bytes : {head + other, head, head_of(3)}) {
    const std::string error = error_of([&] { import(bytes); });
    CHECK_MESSAGE(contains(error, "1 x Softmax: the file names no version of its op set [y]"),
                  error);
  }
  import(head + other + bytes_field(8, number_field(2, 13)));
  for (const int64_t ir_version : {1, 2}) import(head_of(ir_version));
}

TEST_CASE("a pad that copies elements does not mind the value of a constant one") {
  const auto text_attribute = [](const std::string& name, const std::string& value) {
    return bytes_field(1, name) + bytes_field(4, value) + number_field(20, 3);
  };
  const auto padded = [&](const std::string& mode) {
    return elements_of(OnnxOp{.op = "Pad",
                              .operands = {{"x", Tensor::of<float>({3}, {1, 2, 3})},
                                           {"pads", onnx_int64({2}, {2, 1}), true},
                                           {"value", Tensor::of<float>({}, {7}), true}},
                              .attributes = {text_attribute("mode", mode)},
                              .opset = 19}
                           .run());
  };
  using Elements = std::vector<double>;
  CHECK(padded("constant") == Elements{7, 7, 1, 2, 3, 7});
  CHECK(padded("reflect") == Elements{3, 2, 1, 2, 3, 2});
  CHECK(padded("edge") == Elements{1, 1, 1, 2, 3, 3});
  CHECK(padded("wrap") == Elements{2, 3, 1, 2, 3, 1});
}

TEST_CASE("ids below 0 of a one-hot count from the end since op set 11") {
  const auto hot = [](int64_t opset) {
    return elements_of(OnnxOp{.op = "OneHot",
                              .operands = {{"ids", onnx_int64({3}, {0, -1, 2})},
                                           {"depth", onnx_int64({1}, {3}), true},
                                           {"values", Tensor::of<float>({2}, {0, 1}), true}},
                              .opset = opset}
                           .run());
  };
  using Elements = std::vector<double>;
  for (const int64_t opset : {9, 10}) CHECK(hot(opset) == Elements{1, 0, 0, 0, 0, 0, 0, 0, 1});
  for (const int64_t opset : {11, 17}) CHECK(hot(opset) == Elements{1, 0, 0, 0, 0, 1, 0, 0, 1});
}

// ONNX's own tests of op set 10: test_resize_downsample_nearest and test_resize_upsample_nearest.
TEST_CASE("a resize of op set 10 takes the elements that the tests of ONNX expect") {
  const auto resized = [](const Tensor& x, const std::vector<float>& scales, int64_t opset) {
    std::vector<OnnxOperand> operands{{"x", x}};
    if (opset > 10) operands.push_back({"", {}});
    operands.push_back({"scales", Tensor::of<float>({4}, scales), true});
    return elements_of(OnnxOp{.op = "Resize", .operands = operands, .opset = opset}.run());
  };
  using Elements = std::vector<double>;
  const Tensor rows = Tensor::of<float>({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(resized(rows, {1, 1, 0.6f, 0.6f}, 10) == Elements{1, 3});
  const Tensor square = Tensor::of<float>({1, 1, 2, 2}, {1, 2, 3, 4});
  CHECK(resized(square, {1, 1, 2, 3}, 10) ==
        Elements{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4});
  // By half pixels: elements 1/3 and 2 of the row, rounded to the nearest.
  CHECK(resized(rows, {1, 1, 0.6f, 0.6f}, 11) == Elements{1, 3});
}

TEST_CASE("a scale and bias of one number hold for all of a normalized axis") {
  const auto normalized = [](const Tensor& scale, const Tensor& bias) {
    return elements_of(OnnxOp{.op = "LayerNormalization",
                              .operands = {{"x", Tensor::of<float>({2, 3}, {1, 2, 3, 4, 4, 10})},
                                           {"scale", scale, true},
                                           {"bias", bias, true}}}
                           .run());
  };
  const Tensor two = Tensor::of<float>({1}, {2}), ten = Tensor::of<float>({1}, {10});
  const Tensor all_two = Tensor::full(f32, {3}, 2), all_ten = Tensor::full(f32, {3}, 10);
  // Means 2 and 6, variances 2/3 and 8, and an epsilon of 1e-5.
  const double a = 2 / std::sqrt(2.0 / 3 + 1e-5), b = 2 / std::sqrt(8 + 1e-5);
  const std::vector<double> expected{10 - a, 10, 10 + a, 10 - 2 * b, 10 - 2 * b, 10 + 4 * b};
  for (const auto& got : {normalized(two, ten), normalized(all_two, ten), normalized(two, all_ten),
                          normalized(all_two, all_ten)}) {
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]));
  }
}

TEST_CASE("quantization takes the defaults of attributes that came with later op sets") {
  const auto of = [](const std::string& op, const Tensor& x, const std::string& attribute,
                     int64_t value) {
    return OnnxOp{.op = op,
                  .operands = {{"x", x}, {"scale", Tensor::scalar<float>(2), true}},
                  .attributes = {onnx_int(attribute, value)},
                  .opset = attribute == "block_size" || op == "QuantizeLinear" ? 21 : 23};
  };
  using Elements = std::vector<double>;
  const Tensor x = Tensor::of<float>({2}, {6, 8}), bytes = Tensor::of<int32_t>({2}, {3, 4});
  for (const char* attribute : {"block_size", "output_dtype"}) {
    CAPTURE(attribute);
    CHECK(elements_of(of("QuantizeLinear", x, attribute, 0).run()) == Elements{3, 4});
    CHECK(elements_of(of("DequantizeLinear", bytes, attribute, 0).run()) == Elements{6, 8});
    // 3 is INT8 of ONNX.
    const std::string error = error_of([&] { of("QuantizeLinear", x, attribute, 3).run(); });
    CHECK_MESSAGE(contains(error, std::string("its ") + attribute + " is 3"), error);
  }
}

TEST_CASE("quantization takes the names of the dtypes that its results have anyway") {
  const auto of = [](const std::string& op, const Tensor& x, int64_t dtype) {
    return elements_of(OnnxOp{.op = op,
                              .operands = {{"x", x}, {"scale", Tensor::scalar<float>(2), true}},
                              .attributes = {onnx_int("output_dtype", dtype)},
                              .opset = 23}
                           .run());
  };
  using Elements = std::vector<double>;
  // UINT8 and FLOAT of ONNX.
  CHECK(of("QuantizeLinear", Tensor::of<float>({2}, {6, 8}), 2) == Elements{3, 4});
  CHECK(of("DequantizeLinear", Tensor::of<int32_t>({2}, {3, 4}), 1) == Elements{6, 8});
}

TEST_SUITE_END();

}  // namespace keel
