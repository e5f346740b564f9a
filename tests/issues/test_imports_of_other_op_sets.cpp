// An import took files of op sets later than its rules without a word, and refused a Pad
// that copies elements and yet names the value of a padding by constants, with a wrong reason.
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

TEST_SUITE_END();

}  // namespace keel
