// An import of TensorFlow graphs broadcast operands that TensorFlow takes in one shape alone, so
// that the result had another one, and reshaped updates of other rows than the indices name.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/exchange/graphdef/file/read_graph_def.h"
#include "keel/ops/exchange/graphdef/import.h"

#include "support/error_of.h"
#include "unit/ops/graphdef/op_runs_for_tests.h"

namespace keel {
namespace {

using namespace keel_test;

const NodeAttributes kFirst{{"data_format", "s: 'NCHW'"}};
const NodeAttributes kEvaluation{{"is_training", "b: false"}};

Given fed_ones(const Shape& shape) { return fed(Tensor::full(f32, shape, 1)); }
Given conditions(const Shape& shape) { return fed(Tensor::full(boolean, shape, 1)); }

Shape shape_of(const std::string& op, const std::vector<Given>& operands,
               const NodeAttributes& attributes = {}) {
  return run(op, operands, attributes)[0].shape();
}

void check_operands_refused(const std::string& op, const std::vector<Given>& operands,
                            const std::string& reason, const NodeAttributes& attributes = {}) {
  const std::string error = error_of([&] { run(op, operands, attributes); });
  CHECK_MESSAGE(contains(error, reason), op << ": " << error);
}

// Puts rows into a variable [3, 2] of ones; returns what it is then.
Tensor updated(const std::string& op, const Tensor& rows) {
  const std::string variable =
      op == "ScatterUpdate" ? node_text("w", "VariableV2", {}, {{"dtype", "type: DT_FLOAT"}})
                            : node_text("w", "VarHandleOp", {}, {{"dtype", "type: DT_FLOAT"}});
  const std::string text =
      variable + const_text("first", Tensor::full(f32, {3, 2}, 1)) +
      node_text("w/Assign", op == "ScatterUpdate" ? "Assign" : "AssignVariableOp", {"w", "first"}) +
      const_text("places", ints({2, 0})) + const_text("rows", rows) +
      node_text("y", op, {"w", "places", "rows"});
  const auto model = graphdef::import_graph(
      graphdef::parse_graph_def(text, "g.pbtxt", graphdef::FileKind::kGraph), {.outputs = {"y"}});
  Session session(*model.graph, device("ref"));
  session.run(model.update, {}, {});
  return session.read(model.graph->find_state("w"));
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("a TensorFlow bias is one number for each channel") {
  for (const char* op : {"BiasAdd", "BiasAddV1"}) {
    CHECK(shape_of(op, {fed_ones({2, 3}), fed_ones({3})}) == Shape{2, 3});
    check_operands_refused(op, {fed_ones({2, 1}), fed_ones({3})},
                           "its bias is [3], where it takes [1]");
    check_operands_refused(op, {fed_ones({2, 3}), fed_ones({4, 2, 3})}, "its bias is [4, 2, 3]");
    check_operands_refused(op, {fed_ones({2, 3}), fed_ones({1})},
                           "its bias is [1], where it takes [3]");
    check_operands_refused(op, {fed_ones({2, 3}), fed_ones({1, 3})},
                           "its bias is [1, 3], where it takes [3]");
    check_operands_refused(op, {fed_ones({2, 3}), fed_ones({})},
                           "its bias is [], where it takes [3]");
    check_operands_refused(op, {fed_ones({}), fed_ones({1})}, "its operand is [] of 0 dimensions");
  }
  CHECK(shape_of("BiasAdd", {fed_ones({1, 4, 2, 2}), fed_ones({4})}, kFirst) == Shape{1, 4, 2, 2});
  check_operands_refused("BiasAdd", {fed_ones({1, 1, 2, 2}), fed_ones({3})},
                         "its bias is [3], where it takes [1]", kFirst);
}

TEST_CASE("TensorFlow sums and choices take values of one shape") {
  for (const char* op : {"AddN", "AccumulateNV2"}) {
    CHECK(shape_of(op, {fed_ones({2, 1}), fed_ones({2, 1}), fed_ones({2, 1})}) == Shape{2, 1});
    check_operands_refused(op, {fed_ones({2, 1}), fed_ones({2, 1}), fed_ones({1, 3})},
                           "its operand 2 is [1, 3], where it takes [2, 1]");
  }
  // tf.accumulate_n says the shape, for which the node was refused.
  CHECK(shape_of("AccumulateNV2", {fed_ones({2}), fed_ones({2})},
                 {{"shape", "shape { dim { size: 2 } }"}}) == Shape{2});
  for (const Shape& shape : {Shape{}, Shape{2}, Shape{2, 3}})
    CHECK(shape_of("Select", {conditions(shape), fed_ones({2, 3}), fed_ones({2, 3})}) ==
          Shape{2, 3});
  check_operands_refused("Select", {conditions({2}), fed_ones({2, 1}), fed_ones({1, 3})},
                         "its operand 2 is [1, 3], where it takes [2, 1]");
  for (const Shape& shape : {Shape{1}, Shape{1, 3}, Shape{1, 2, 3}})
    check_operands_refused("Select", {conditions(shape), fed_ones({2, 3}), fed_ones({2, 3})},
                           "its condition is");
  // The newer op broadcasts.
  CHECK(shape_of("SelectV2", {conditions({2, 1}), fed_ones({1, 3}), fed_ones({})}) == Shape{2, 3});
}

TEST_CASE("a slope has the shape of what it is the slope of in a TensorFlow graph") {
  for (const char* op :
       {"ReluGrad", "Relu6Grad", "LeakyReluGrad", "EluGrad", "SeluGrad", "SigmoidGrad", "TanhGrad",
        "SoftplusGrad", "SoftsignGrad", "SqrtGrad", "RsqrtGrad", "InvGrad", "ReciprocalGrad"}) {
    CHECK(shape_of(op, {fed_ones({2, 3}), fed_ones({2, 3})}) == Shape{2, 3});
    check_operands_refused(op, {fed_ones({2, 3}), fed_ones({1, 3})}, "its operand 1 is [1, 3]");
    check_operands_refused(op, {fed_ones({2, 1}), fed_ones({1, 3})}, "its operand 1 is [1, 3]");
  }
}

TEST_CASE("gradients of TensorFlow batch norms have a number for each channel") {
  const auto gradient = [](const Shape& dy, const Shape& scale, const Shape& mean) {
    return std::vector<Given>{fed_ones(dy), fed_ones({1, 1, 2, 3}), fed_ones(scale), fed_ones(mean),
                              fed_ones({3})};
  };
  const std::string op = "FusedBatchNormGrad";
  CHECK(shape_of(op, gradient({1, 1, 2, 3}, {3}, {3})) == Shape{1, 1, 2, 3});
  CHECK(shape_of(op, gradient({1, 1, 2, 3}, {3}, {3}), kEvaluation) == Shape{1, 1, 2, 3});
  check_operands_refused(op, gradient({1, 1, 2, 3}, {1}, {3}),
                         "its scale is [1], where it takes [3]");
  check_operands_refused(op, gradient({1, 1, 2, 1}, {3}, {3}), "its slope is [1, 1, 2, 1]");
  check_operands_refused(op, gradient({1, 1, 2, 3}, {3}, {1}),
                         "its mean is [1], where it takes [3]", kEvaluation);
}

TEST_CASE("numbers that TensorFlow takes alone are no lists") {
  const Given x = fed_ones({2, 1}), one = fed_ones({});
  CHECK(shape_of("ClipByValue", {x, one, fed_ones({2, 1})}) == Shape{2, 1});
  check_operands_refused("ClipByValue", {x, one, fed_ones({1, 3})}, "its bound is [1, 3]");
  check_operands_refused("ClipByValue", {x, fed_ones({3}), one},
                         "its bound is [3], where it takes [2, 1]");
  const Given ids = fed(ints({0, 1})), depth = held(number(3));
  CHECK(shape_of("OneHot", {ids, depth, one, one}) == Shape{2, 3});
  check_operands_refused("OneHot", {ids, depth, fed_ones({3}), one},
                         "its on_value is [3], where it takes []");
  check_operands_refused("OneHot", {ids, depth, one, fed_ones({4, 1, 1})},
                         "its off_value is [4, 1, 1]");
  const Given dims = held(ints({3, 2}));
  CHECK(shape_of("Fill", {dims, one}) == Shape{3, 2});
  CHECK(shape_of("Fill", {dims, fed_ones({1})}) == Shape{3, 2});
  check_operands_refused("Fill", {dims, fed_ones({2})}, "its value is [2]");
  check_operands_refused("InTopK", {fed_ones({1, 3}), fed(ints({0, 1}))}, "its targets are [2]",
                         {{"k", "i: 1"}});
}

// They were reshaped.
TEST_CASE("TensorFlow updates are of the rows that the indices name") {
  const Given places = held(ints({2, 0})), dims = held(ints({4, 2}));
  const Given rows = held(Tensor::of<int64_t>({2, 1}, {3, 1}).cast(i32));
  CHECK(shape_of("ScatterNd", {rows, fed_ones({2, 2}), dims}) == Shape{4, 2});
  check_operands_refused("ScatterNd", {rows, fed_ones({4, 1}), dims},
                         "its updates are [4, 1], where it takes [2, 2]");
  check_operands_refused("ScatterNd", {rows, fed_ones({4}), dims},
                         "its updates are [4], where it takes [2, 2]");
  for (const std::string op : {"ScatterUpdate", "ResourceScatterUpdate"}) {
    CAPTURE(op);
    check(updated(op, floats({2, 2}, {5, 6, 7, 8})), {3, 2}, {7, 8, 1, 1, 5, 6});
    // A scalar stands for all of them.
    check(updated(op, Tensor::scalar<float>(5)), {3, 2}, {5, 5, 1, 1, 5, 5});
    for (const Shape& shape : {Shape{4}, Shape{4, 1}, Shape{1, 2, 2}}) {
      const std::string error = error_of([&] { updated(op, Tensor::full(f32, shape, 1)); });
      CHECK_MESSAGE(contains(error, "where it takes [2, 2]"), error);
    }
  }
}

TEST_SUITE_END();

}  // namespace keel
