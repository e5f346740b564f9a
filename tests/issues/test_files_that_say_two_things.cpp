// ONNX files that say two things of one name were read: the last one was taken in silence, or the
// first.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/ops/exchange/onnx/import.h"

#include "support/error_of.h"
#include "support/onnx_bytes.h"

namespace keel {
namespace {

using namespace keel_test;

OnnxGraph product(const std::vector<std::string>& initializers) {
  return {.nodes = {onnx_node("Mul", {"x", "w"}, {"y"})},
          .initializers = initializers,
          .inputs = {onnx_value("x", 1, {2})},
          .outputs = {onnx_value("y", 1, {2})}};
}

std::string error_in(const std::string& bytes) {
  return error_of([&] { onnx::import_model(onnx::parse_model(bytes, "m.onnx"), {}); });
}

void check_bytes_refused(const std::string& bytes, const std::string& place,
                         const std::string& reason) {
  const std::string error = error_in(bytes);
  CHECK_MESSAGE(contains(error, "m.onnx: " + place), error);
  CHECK_MESSAGE(contains(error, reason), error);
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("two initializers of one name are refused") {
  const std::string one = onnx_floats("w", {2}, {3, 4}), two = onnx_floats("w", {2}, {5, 6});
  CHECK(error_in(onnx_model(product({one}))).empty());
  check_bytes_refused(onnx_model(product({one, two})), "graph", "two of its initializers are 'w'");
}

TEST_CASE("two versions of one op set are refused") {
  const std::string model = onnx_model(product({onnx_floats("w", {2}, {3, 4})}), 17);
  const auto opset = [](const std::string& domain, int64_t version) {
    return bytes_field(8, bytes_field(1, domain) + number_field(2, version));
  };
  CHECK(error_in(model + opset("", 17) + opset("ai.onnx.ml", 2)).empty());
  check_bytes_refused(model + opset("", 9), "opset_import", "versions 17 and 9");
  check_bytes_refused(model + opset("ai.onnx", 9), "opset_import", "versions 17 and 9");
}

TEST_CASE("two attributes of one name are refused") {
  const auto leaky = [](const std::vector<std::string>& attributes) {
    return onnx_model({.nodes = {onnx_node("LeakyRelu", {"x"}, {"y"}, attributes)},
                       .inputs = {onnx_value("x", 1, {2})},
                       .outputs = {onnx_value("y", 1, {2})}});
  };
  const std::string first = onnx_float("alpha", 0.1f), second = onnx_float("alpha", 0.9f);
  CHECK(error_in(leaky({first})).empty());
  check_bytes_refused(leaky({first, second}), "graph.node[0]", "two of its attributes are 'alpha'");
}

TEST_CASE("a tensor with its data in two places is refused") {
  const std::string raw = bytes_field(9, raw_bytes<float>({7, 8}));
  const std::string floats = bytes_field(4, raw_bytes<float>({1, 2}));
  CHECK(error_in(onnx_model(product({onnx_tensor("w", 1, {2}, raw)}))).empty());
  CHECK(error_in(onnx_model(product({onnx_tensor("w", 1, {2}, floats)}))).empty());
  const std::string elsewhere = number_field(14, 1);  // data_location: EXTERNAL
  for (const std::string& both : {floats + raw, raw + elsewhere}) {
    check_bytes_refused(onnx_model(product({onnx_tensor("w", 1, {2}, both)})),
                        "graph.initializer[0]", "two places");
  }
}

TEST_SUITE_END();

}  // namespace keel
