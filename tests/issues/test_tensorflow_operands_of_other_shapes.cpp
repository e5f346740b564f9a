// An import of TensorFlow graphs read operands of other shapes than TensorFlow takes as if they had
// the right ones, since it looked at their ranks or counts alone, or left the shapes to Keel's own
// ops, which broadcast; and it refused scalars and lists of one number where TensorFlow takes them.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"

#include "support/error_of.h"
#include "support/imported_models.h"
#include "unit/ops/graphdef/op_runs_for_tests.h"

namespace keel {
namespace {

using namespace keel_test;

Given ones_to_feed(const Shape& shape) { return fed(Tensor::full(f32, shape, 1)); }

// 0, 1, 2, ... of that shape.
Given counted_up(const Shape& shape) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < shape.num_elements(); ++i) values.push_back(i);
  return held(Tensor::of<int64_t>(shape, values).cast(i32));
}

Shape shape_given_by(const std::string& op, const std::vector<Given>& operands,
                     const NodeAttributes& attributes = {}) {
  return run(op, operands, attributes)[0].shape();
}

void check_shapes_refused(const std::string& op, const std::vector<Given>& operands,
                          const std::string& reason) {
  const std::string error = error_of([&] { run(op, operands); });
  CHECK_MESSAGE(contains(error, reason), op << ": " << error);
}

// Scatters to rows 2 and 0 of a variable [3, 2] of ones; returns what it is then.
Tensor variable_after(const std::string& op, const Tensor& rows) {
  const bool resource = op.starts_with("Resource");
  const auto model = imported_graph_def(
      node_text("w", resource ? "VarHandleOp" : "VariableV2", {}, {{"dtype", "type: DT_FLOAT"}}) +
      const_text("first", Tensor::full(f32, {3, 2}, 1)) +
      node_text("w/Assign", resource ? "AssignVariableOp" : "Assign", {"w", "first"}) +
      const_text("places", ints({2, 0})) + const_text("rows", rows) +
      node_text("y", op, {"w", "places", "rows"}));
  Session session(*model.graph, device("ref"));
  session.run(model.update, {}, {});
  return session.read(model.graph->find_state("w"));
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("data that TensorFlow stitches begin with the shape of their indices") {
  const Given places = counted_up({2, 3});
  CHECK(shape_given_by("DynamicStitch", {places, ones_to_feed({2, 3, 5})}) == Shape{6, 5});
  for (const std::string op : {"DynamicStitch", "ParallelDynamicStitch"}) {
    check_shapes_refused(
        op, {places, ones_to_feed({3, 2, 5})},
        "its data are [3, 2, 5], where it takes [2, 3] and the dimensions of a row");
    check_shapes_refused(op, {places, ones_to_feed({6})},
                         "its data are [6], where it takes [2, 3]");
    // Integers that the graph holds, of which the counts alone were compared.
    check_shapes_refused(op, {places, counted_up({3, 2})},
                         "its data are [3, 2], where it takes [2, 3]");
    check_shapes_refused(op, {counted_up({3}), counted_up({3, 1})}, "it stitches rows");
  }
  check(run("DynamicStitch", {places, counted_up({2, 3})})[0], {6}, {0, 1, 2, 3, 4, 5});
}

TEST_CASE("a scalar is scattered to all rows of a TensorFlow variable") {
  const Tensor five = Tensor::scalar<float>(5), rows = floats({2, 2}, {1, 2, 3, 4});
  for (const std::string form : {"", "Resource"}) {
    CAPTURE(form);
    check(variable_after(form + "ScatterAdd", five), {3, 2}, {6, 6, 1, 1, 6, 6});
    check(variable_after(form + "ScatterSub", five), {3, 2}, {-4, -4, 1, 1, -4, -4});
    check(variable_after(form + "ScatterUpdate", five), {3, 2}, {5, 5, 1, 1, 5, 5});
    check(variable_after(form + "ScatterAdd", rows), {3, 2}, {4, 5, 1, 1, 2, 3});
    check(variable_after(form + "ScatterSub", rows), {3, 2}, {-2, -3, 1, 1, 0, -1});
    for (const std::string op : {"ScatterAdd", "ScatterSub"})
      for (const Shape& shape : {Shape{1}, Shape{2}, Shape{4, 1}}) {
        const std::string error =
            error_of([&] { variable_after(form + op, Tensor::full(f32, shape, 1)); });
        CHECK_MESSAGE(contains(error, "where it takes [2, 2]"), error);
      }
  }
}

TEST_CASE("a TensorFlow Fill of no axes takes a list of one number") {
  const Given no_axes = held(ints({}));
  CHECK(shape_given_by("Fill", {no_axes, ones_to_feed({})}) == Shape{});
  check(run("Fill", {no_axes, fed(row({7}))})[0], {}, {7});
  check(run("Fill", {held(ints({2})), fed(row({7}))})[0], {2}, {7, 7});
}

TEST_CASE("TensorFlow multiplies matrices and equal batches of them") {
  check_shapes_refused("MatMul", {ones_to_feed({2, 3, 4}), ones_to_feed({4, 5})},
                       "its operand 0 is [2, 3, 4] of 3 dimensions, where it takes 2");
  check_shapes_refused("MatMul", {ones_to_feed({3, 4}), ones_to_feed({4})},
                       "its operand 1 is [4] of 1 dimensions, where it takes 2");
  const Given batch = ones_to_feed({2, 3, 4});
  CHECK(shape_given_by("BatchMatMul", {batch, ones_to_feed({2, 4, 5})}) == Shape{2, 3, 5});
  CHECK(shape_given_by("BatchMatMul", {batch, ones_to_feed({2, 5, 4})}, {{"adj_y", "b: true"}}) ==
        Shape{2, 3, 5});
  CHECK(shape_given_by("BatchMatMul", {ones_to_feed({3, 4}), ones_to_feed({4, 5})}) == Shape{3, 5});
  check_shapes_refused("BatchMatMul", {batch, ones_to_feed({1, 4, 5})},
                       "its operand 1 is [1, 4, 5], where it takes [2, 4, 5]");
  check_shapes_refused("BatchMatMul", {batch, ones_to_feed({4, 5})},
                       "its operand 1 is [4, 5], where it takes [2, 4, 5]");
  for (const char* op : {"BatchMatMulV2", "BatchMatMulV3"}) {
    CHECK(shape_given_by(op, {batch, ones_to_feed({1, 4, 5})}) == Shape{2, 3, 5});
    CHECK(shape_given_by(op, {batch, ones_to_feed({4, 5})}) == Shape{2, 3, 5});
    check_shapes_refused(op, {batch, ones_to_feed({4})}, "its operand 1 is [4] of 1 dimensions");
  }
  CHECK(shape_given_by("BiasAddGrad", {ones_to_feed({2, 3})}) == Shape{3});
  for (const Shape& shape : {Shape{}, Shape{3}})
    check_shapes_refused("BiasAddGrad", {ones_to_feed(shape)},
                         "dimensions, where it takes 2 or more");
}

TEST_CASE("edges of TensorFlow blocks are pairs") {
  const auto edges = [](const Shape& shape) { return held(Tensor::full(i32, shape, 0)); };
  const Given blocks = held(ints({2, 2, 2}));
  const std::string space = "SpaceToBatchND", batch = "BatchToSpaceND";
  CHECK(shape_given_by(space, {ones_to_feed({1, 2, 2, 2}), blocks, edges({3, 2})}) ==
        Shape{8, 1, 1, 1});
  for (const Shape& shape : {Shape{2, 3}, Shape{6}, Shape{3, 2, 1}}) {
    const std::string reason = "is " + to_string(shape) + ", where it takes [n, 2]";
    check_shapes_refused(space, {ones_to_feed({1, 2, 2, 2}), blocks, edges(shape)}, reason);
    check_shapes_refused(batch, {ones_to_feed({8, 1, 1, 1}), blocks, edges(shape)}, reason);
  }
}

TEST_SUITE_END();

}  // namespace keel
