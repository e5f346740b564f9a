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

TEST_CASE("GraphDef edges: parts that are not there are refused by name") {
  const Given x = fed(floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  const auto taken = [&](int64_t index, int64_t stride) {
    return error_of([&] {
      run("StridedSlice", {x, held(ints({index})), held(ints({index + 1})), held(ints({stride}))},
          {{"shrink_axis_mask", "i: 1"}});
    });
  };
  CHECK(contains(taken(2, 1), "its slice takes element 2 of an axis of 2"));
  CHECK(contains(taken(-3, 1), "its slice takes element -3 of an axis of 2"));
  CHECK(contains(taken(2, 1), "StridedSlice"));
  CHECK(contains(taken(1, -1), "negative stride"));
  CHECK(taken(-2, 1).empty());
  // A new axis in front of the one that is taken from.
  check(run("StridedSlice", {x, held(ints({0, 1})), held(ints({0, 2})), held(ints({1, 1}))},
            {{"new_axis_mask", "i: 1"}, {"shrink_axis_mask", "i: 2"}})[0],
        {1, 3}, {4, 5, 6});
  const auto cut = [&](const std::vector<int64_t>& sizes) {
    return error_of([&] {
      run("SplitV", {x, held(ints(sizes)), held(number(1))}, {{"num_split", "i: 2"}}, 2);
    });
  };
  CHECK(contains(cut({-1, -1}), "more than one of its sizes open"));
  CHECK(contains(cut({-2, 1}), "one of its sizes is -2"));
  CHECK(contains(cut({5, -1}), "more than its axis of 3"));
  const std::string open = error_of([] {
    const std::string text =
        placeholder_text("x", f32, {-1, 4}) + const_text("sizes", ints({2, -1})) +
        const_text("axis", number(0)) +
        node_text("y", "SplitV", {"x", "sizes", "axis"}, {{"num_split", "i: 2"}});
    graphdef::import_graph(graphdef::parse_graph_def(text, "g.pbtxt", graphdef::FileKind::kGraph),
                           {.outputs = {"y"}});
  });
  CHECK_MESSAGE(contains(open, "the size of its axis 0 is not known before the run; --inputs"),
                open);
  CHECK(contains(error_of([&] { run("Pad", {x, held(ints({1, 1, 1, 1}))}); }), "are no [n, 2]"));
}

TEST_CASE("GraphDef edges: a constant of more bytes than can be counted is refused by its node") {
  const std::string error = error_of([&] {
    graphdef::import_graph(
        graphdef::parse_graph_def(
            node_text("huge", "Const", {},
                      {{"dtype", "type: DT_FLOAT"},
                       {"value",
                        "tensor { dtype: DT_FLOAT tensor_shape { dim { size: 4611686018427387904 } "
                        "dim { size: 4 } } float_val: 1 }"}}),
            "g.pbtxt", graphdef::FileKind::kGraph),
        {.outputs = {"huge"}});
  });
  CHECK(contains(error, "g.pbtxt"));
  CHECK(contains(error, "huge"));
  CHECK(contains(error, "64 bits"));
}

TEST_CASE("GraphDef edges: means of integers and sums by ids of two axes and stitched floats") {
  const Given whole = fed(Tensor::of<int64_t>({2, 2}, {3, 4, -3, -4}).cast(i32));
  check(run("Mean", {whole, held(ints({1}))})[0], {2}, {3, -3});
  const Given ids = fed(Tensor::of<int64_t>({2, 2}, {1, 0, -1, 1}).cast(i32));
  check(run("UnsortedSegmentSum",
            {fed(floats({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})), ids, held(number(2))})[0],
        {2, 2}, {3, 4, 8, 10});
  check_row("UnsortedSegmentSum", {fed(floats({2, 2}, {1, 2, 3, 4})), ids, held(number(2))},
            {2, 5});
  check(run("DynamicStitch",
            {held(ints({1})), held(ints({0})), held(row({1.5})), held(row({2.5}))})[0],
        {2}, {2.5, 1.5});
}

TEST_CASE("GraphDef edges: empty statistics of a norm in training are no weights") {
  const std::string text =
      placeholder_text("x", f32, {2, 1, 1, 2}) + const_text("scale", row({2, 3})) +
      const_text("offset", row({5, 7})) + const_text("none", row({})) +
      node_text("y", "FusedBatchNorm", {"x", "scale", "offset", "none", "none"},
                {{"is_training", "b: true"}});
  const auto model = graphdef::import_graph(
      graphdef::parse_graph_def(text, "g.pbtxt", graphdef::FileKind::kGraph), {.outputs = {"y"}});
  CHECK(model.weights_of_constants == std::vector<std::string>{"scale", "offset"});
}

// An array of two elements, given to a node of arrays and joined again.
std::vector<double> joined(const std::string& op, const Tensor& x, const Tensor& places) {
  const std::string dtype = "type: " + type_text(x.dtype());
  const auto model = graphdef::import_graph(
      graphdef::parse_graph_def(
          placeholder_text("x", x.dtype(), x.shape()) + const_text("size", number(2)) +
              const_text("places", places) +
              node_text("a", "TensorArrayV3", {"size"}, {{"dtype", dtype}}) +
              node_text("f", op,
                        {"a", op == "TensorArraySplitV3" ? "x" : "places",
                         op == "TensorArraySplitV3" ? "places" : "x", "a:1"}) +
              const_text("i", number(1)) +
              node_text("y", "TensorArrayReadV3", {"a", "i", "f"}, {{"dtype", dtype}}),
          "g.pbtxt", graphdef::FileKind::kGraph),
      {.outputs = {"y"}});
  Session session(*model.graph, device("ref"));
  const Tensor y = session.run({model.output("y")}, {{model.input("x"), x}})[0];
  std::vector<double> values;
  for (int64_t i = 0; i < y.num_elements(); ++i) values.push_back(y.at(i));
  return values;
}

TEST_CASE("GraphDef edges: arrays of truth values and arrays that a value is split into") {
  const Tensor truth = Tensor::of<int64_t>({2, 2}, {1, 0, 0, 1}).cast(boolean);
  CHECK(joined("TensorArrayScatterV3", truth, ints({1, 0})) == std::vector<double>{1, 0});
  const Tensor x = floats({4, 1}, {1, 2, 3, 4});
  CHECK(joined("TensorArraySplitV3", x, ints({2, 2})) == std::vector<double>{3, 4});
  const auto refused = [](const std::string& op, const Tensor& value,
                          const std::vector<int64_t>& places) {
    return error_of([&] { joined(op, value, ints(places)); });
  };
  CHECK(contains(refused("TensorArraySplitV3", x, {1, 3}), "not all the same"));
  CHECK(contains(refused("TensorArraySplitV3", x, {3, 3}), "do not sum"));
  CHECK(contains(refused("TensorArrayScatterV3", truth, {1, 1}), "written already"));
}

TEST_CASE("GraphDef edges: a second write to a place that is known is refused") {
  const auto write = [](const Tensor& x, int32_t first, int32_t then) {
    const std::string dtype = "type: " + type_text(x.dtype());
    return error_of([&] {
      graphdef::import_graph(
          graphdef::parse_graph_def(
              placeholder_text("x", x.dtype(), x.shape()) + const_text("size", number(2)) +
                  const_text("i", number(first)) + const_text("k", number(then)) +
                  node_text("a", "TensorArrayV3", {"size"}, {{"dtype", dtype}}) +
                  node_text("f", "TensorArrayWriteV3", {"a", "i", "x", "a:1"}) +
                  node_text("g", "Identity", {"f"}) +
                  node_text("h", "TensorArrayWriteV3", {"a", "k", "x", "g"}) +
                  node_text("y", "TensorArrayReadV3", {"a", "i", "h"}, {{"dtype", dtype}}),
              "g.pbtxt", graphdef::FileKind::kGraph),
          {.outputs = {"y"}});
    });
  };
  for (const Tensor& x : {row({1, 2}), row({1, 2}).cast(boolean)}) {
    CHECK(write(x, 0, 1).empty());
    CHECK(contains(write(x, 1, 1), "place 1 of its array, which is written already"));
  }
}

// A loop variable [2, 0] that grows is no array that waits for the shape of its elements.
TEST_CASE("GraphDef edges: a matrix without columns is no array") {
  const std::string text =
      const_text("zero", number(0)) + const_text("three", number(3)) +
      placeholder_text("m", f32, {2, 0}) +
      node_text("t/e", "Enter", {"zero"}, {{"frame_name", "s: 'l'"}}) +
      node_text("m/e", "Enter", {"m"}, {{"frame_name", "s: 'l'"}}) +
      node_text("n", "Enter", {"three"}, {{"frame_name", "s: 'l'"}, {"is_constant", "b: true"}}) +
      node_text("t/m", "Merge", {"t/e", "t/n"}) + node_text("m/m", "Merge", {"m/e", "m/n"}) +
      node_text("more", "Less", {"t/m", "n"}) + node_text("on", "LoopCond", {"more"}) +
      node_text("t/s", "Switch", {"t/m", "on"}) + node_text("m/s", "Switch", {"m/m", "on"}) +
      node_text("t", "Identity", {"t/s:1"}) + node_text("mi", "Identity", {"m/s:1"}) +
      node_text("one", "Const", {"^t"}, {{"value", tensor_text(number(1))}}) +
      node_text("column", "Const", {"^t"}, {{"value", tensor_text(floats({2, 1}, {1, 2}))}}) +
      node_text("axis", "Const", {"^t"}, {{"value", tensor_text(number(1))}}) +
      node_text("t/a", "Add", {"t", "one"}) +
      node_text("m/a", "ConcatV2", {"mi", "column", "axis"}) +
      node_text("t/n", "NextIteration", {"t/a"}) + node_text("m/n", "NextIteration", {"m/a"}) +
      node_text("y", "Exit", {"m/s"});
  const std::string error = error_of([&] {
    graphdef::import_graph(graphdef::parse_graph_def(text, "g.pbtxt", graphdef::FileKind::kGraph),
                           {.outputs = {"y"}});
  });
  CHECK(contains(error, "[2, 0]"));
}

}  // namespace
}  // namespace keel

TEST_SUITE_END();
