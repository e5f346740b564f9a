// Values that an import computes: initial values of large variables were refused with an advice
// that could not be followed, and small files took gigabytes for their constants.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/read_budget.h"
#include "keel/ops/exchange/graphdef/file/read_graph_def.h"
#include "keel/ops/exchange/graphdef/import.h"
#include "keel/ops/exchange/onnx/import.h"

#include "support/error_of.h"
#include "support/graph_def_text.h"
#include "support/onnx_bytes.h"

namespace keel {
namespace {

using namespace keel_test;

class BudgetScope {
 public:
  explicit BudgetScope(uint64_t bytes) { set_read_budget(bytes); }
  ~BudgetScope() { set_read_budget(before_); }
  BudgetScope(const BudgetScope&) = delete;
  BudgetScope& operator=(const BudgetScope&) = delete;

 private:
  uint64_t before_ = read_budget();
};

// y = x w of w [512, 1024], 2 MiB, whose initial value is `initial`, a node of what `text` says.
graphdef::ImportedModel layer(const std::string& text) {
  const std::string graph =
      placeholder_text("x", f32, {8, 512}) +
      const_text("dims", Tensor::of<int32_t>({2}, {512, 1024})) + text +
      node_text("w", "VariableV2", {},
                {{"dtype", "type: DT_FLOAT"}, {"shape", shape_text({512, 1024})}}) +
      node_text("w/Assign", "Assign", {"w", "initial"}) + node_text("w/read", "Identity", {"w"}) +
      node_text("y", "MatMul", {"x", "w/read"});
  return graphdef::import_graph(
      graphdef::parse_graph_def(graph, "g.pbtxt", graphdef::FileKind::kGraph), {.outputs = {"y"}});
}

// As tf.glorot_uniform_initializer writes it.
const std::string kUniform = node_text("drawn", "RandomUniform", {"dims"},
                                       {{"T", "type: DT_INT32"}, {"dtype", "type: DT_FLOAT"}}) +
                             const_text("scale", Tensor::scalar<float>(0.5f)) +
                             const_text("low", Tensor::scalar<float>(-0.25f)) +
                             node_text("scaled", "Mul", {"drawn", "scale"}) +
                             node_text("initial", "Add", {"scaled", "low"});

const Tensor& weights_of(const graphdef::ImportedModel& model) { return model.weights.at("w"); }

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("a TensorFlow variable of more than a MiB has its initial value") {
  const graphdef::ImportedModel uniform = layer(kUniform);
  CHECK(weights_of(uniform).type() == Type{f32, {512, 1024}});
  const auto numbers = weights_of(uniform).data<float>();
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  // Of half a million numbers some lie within a thousandth of each end.
  CHECK(std::fabs(*low + 0.25f) < 0.001f);
  CHECK(std::fabs(*high - 0.25f) < 0.001f);
  CHECK(*low >= -0.25f);
  CHECK(*high <= 0.25f);
  const graphdef::ImportedModel filled = layer(const_text("seven", Tensor::scalar<float>(7)) +
                                               node_text("initial", "Fill", {"dims", "seven"}));
  CHECK(bit_equal(weights_of(filled), Tensor::full(f32, {512, 1024}, 7)));
}

TEST_CASE("initial values of TensorFlow variables are bounded by the read budget together") {
  const BudgetScope budget(uint64_t{5} << 20);
  const std::string error = error_of([] { layer(kUniform); });
  CHECK_MESSAGE(contains(error, "5 MiB"), error);
  CHECK_MESSAGE(contains(error, "KEEL_READ_BUDGET_MIB, or --read-budget"), error);
}

TEST_CASE("a TensorFlow variable without an initial value asks for none to be bound") {
  const std::string error = error_of([] { layer(placeholder_text("initial", f32, {512, 1024})); });
  CHECK_MESSAGE(contains(error, "give the graph an initial value of it"), error);
  CHECK_MESSAGE(!contains(error, "bind it"), error);
}

TEST_CASE("ranges of an import are bounded by the read budget together") {
  // Each has 2^18 numbers, 2 MiB.
  const auto import_ranges = [](size_t count) {
    OnnxGraph graph{.initializers = {onnx_integers("zero", {}, {0}), onnx_integers("one", {}, {1}),
                                     onnx_integers("limit", {}, {1 << 18})}};
    for (size_t i = 0; i < count; ++i) {
      const std::string name = "r" + std::to_string(i);
      graph.nodes.push_back(onnx_node("Range", {"zero", "limit", "one"}, {name}));
      graph.outputs = {onnx_value(name, 7, {1 << 18})};
    }
    return error_of(
        [&] { onnx::import_model(onnx::parse_model(onnx_model(graph), "m.onnx"), {}); });
  };
  const auto import_ranges_of_tensorflow = [](size_t count) {
    std::string text = const_text("zero", Tensor::scalar<int64_t>(0)) +
                       const_text("one", Tensor::scalar<int64_t>(1)) +
                       const_text("limit", Tensor::scalar<int64_t>(1 << 18));
    graphdef::ImportOptions options;
    for (size_t i = 0; i < count; ++i) {
      options.outputs.push_back("r" + std::to_string(i));
      text += node_text(options.outputs.back(), "Range", {"zero", "limit", "one"});
    }
    return error_of([&] {
      graphdef::import_graph(graphdef::parse_graph_def(text, "g.pbtxt", graphdef::FileKind::kGraph),
                             options);
    });
  };
  const BudgetScope budget(uint64_t{5} << 20);
  CHECK(import_ranges(2).empty());
  CHECK(import_ranges_of_tensorflow(2).empty());
  for (const std::string& error : {import_ranges(3), import_ranges_of_tensorflow(3)}) {
    CHECK_MESSAGE(contains(error, "Range"), error);
    CHECK_MESSAGE(contains(error, "[r2]"), error);
    CHECK_MESSAGE(contains(error, "5 MiB"), error);
  }
}

TEST_SUITE_END();

}  // namespace keel
