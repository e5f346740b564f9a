// Rules of the import of TensorFlow graphs at their edges: attributes that change nothing,
// positions between two elements, indices out of range, numbers that are not finite. Worked out by
// hand.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/error_of.h"
#include "unit/ops/graphdef/op_runs_for_tests.h"

TEST_SUITE_BEGIN("graphdef");

namespace keel {
namespace {

using namespace keel_test;

TEST_CASE("GraphDef edges: attributes that change nothing are passed over") {
  const Given x = fed(row({1, 2}));
  check_row("PreventGradient", {x}, {1, 2}, {{"message", "s: 'no second derivative'"}});
  check_row("StopGradient", {x}, {1, 2}, {{"_class", "list { s: 'loc:@w' }"}});
  check_row("CheckNumerics", {x}, {1, 2}, {{"message", "s: 'not finite'"}});
  const NodeAttributes by_rows{{"batch_dims", "i: 0"}, {"validate_indices", "b: true"}};
  check_row("Gather", {x, fed(ints({1}))}, {2}, by_rows);
  CHECK(contains(error_of([&] {
                   run("Gather", {x, fed(ints({1}))}, {{"batch_dims", "i: 1"}});
                 }),
                 "its batch_dims are not 0"));
  check(run("Reshape", {x, held(ints({2, 1}))}, {{"Tshape", "type: DT_INT32"}})[0], {2, 1}, {1, 2});
  check(run("Conv2D", {fed(floats({1, 1, 1, 1}, {3})), fed(floats({1, 1, 1, 1}, {5}))},
            {{"strides", "list { i: 1 i: 1 i: 1 i: 1 }"},
             {"padding", "s: 'SAME'"},
             {"data_format", "s: 'NHWC'"},
             {"dilations", "list { i: 1 i: 1 i: 1 i: 1 }"},
             {"explicit_paddings", "list { }"},
             {"use_cudnn_on_gpu", "b: true"}})[0],
        {1, 1, 1, 1}, {15});
}

TEST_CASE("GraphDef edges: a variable with all the attributes that TensorFlow writes") {
  const auto model = graphdef::import_graph(
      graphdef::parse_graph_def(
          node_text("w", "VarHandleOp", {},
                    {{"dtype", "type: DT_FLOAT"},
                     {"shape", "shape { dim { size: 3 } }"},
                     {"container", "s: 'c'"},
                     {"shared_name", "s: 'w'"},
                     {"debug_name", "s: 'w'"},
                     {"allowed_devices", "list { s: 'CPU' }"}}) +
              const_text("first", row({5, 6, 7})) +
              node_text("w/Assign", "AssignVariableOp", {"w", "first"},
                        {{"dtype", "type: DT_FLOAT"}, {"validate_shape", "b: false"}}) +
              const_text("i", ints({2, 0})) +
              node_text("y", "ResourceGather", {"w", "i"},
                        {{"batch_dims", "i: 0"}, {"validate_indices", "b: true"}}),
          "g.pbtxt", graphdef::FileKind::kGraph),
      {.outputs = {"y"}});
  Session session(*model.graph, device("ref"));
  check(session.run({model.output("y")}, {})[0], {2}, {7, 5});
}

// (20 + 0.5) * (2 / 41) is 0.99999994 in f32, though 1 in numbers without rounding.
TEST_CASE("GraphDef edges: the nearest element of a position that f32 rounds down") {
  const NodeAttributes half{{"half_pixel_centers", "b: true"}};
  const Tensor made = run("ResizeNearestNeighbor",
                          {fed(floats({1, 1, 2, 1}, {3, 8})), held(ints({1, 41}))}, half)[0];
  CHECK(made.at(20) == 3);
  CHECK(made.at(21) == 8);
  const Tensor slope = run("ResizeNearestNeighborGrad",
                           {fed(Tensor::full(f32, {1, 1, 41, 1}, 1)), held(ints({1, 2}))}, half)[0];
  check(slope, {1, 1, 2, 1}, {21, 20});
}

TEST_CASE("GraphDef edges: rows put at places out of range are an error of the run") {
  const auto model = graphdef::import_graph(
      graphdef::parse_graph_def(
          variable_text("w", row({1, 2, 3})) + placeholder_text("i", i32, {2}) +
              const_text("rows", row({10, 20})) +
              node_text("y", "ScatterUpdate", {"w", "i", "rows"}, {{"use_locking", "b: true"}}),
          "g.pbtxt", graphdef::FileKind::kGraph),
      {.outputs = {"y"}});
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    Session session(*model.graph, device(backend));
    const auto put = [&](const std::vector<int64_t>& places) {
      return session.run({model.output("y")}, {{model.input("i"), ints(places)}})[0];
    };
    check(put({2, 0}), {3}, {20, 2, 10});
    check(put({1, 1}), {3}, {1, 20, 3});
    CHECK(contains(error_of([&] { put({0, 3}); }), "3"));
    CHECK(contains(error_of([&] { put({-1, 0}); }), "-1"));
  }
}

TEST_CASE("GraphDef edges: nothing is in the top of scores that are not finite") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Given scores = fed(floats({6, 2}, {5, std::nan(""),  //
                                           5, infinity,      //
                                           5, -infinity,     //
                                           5, 1, 5, 1, 5, 1}));
  const Given targets = fed(ints({0, 0, 0, 0, 2, -1}));
  check_row("InTopK", {scores, targets}, {0, 0, 0, 1, 0, 0}, {{"k", "i: 2"}});
  check_row("InTopKV2", {scores, targets, held(number(1))}, {0, 0, 0, 1, 0, 0});
}

}  // namespace
}  // namespace keel

TEST_SUITE_END();
