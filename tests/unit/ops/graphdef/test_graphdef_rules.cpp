// Each rule of the import of TensorFlow graphs, on values worked out by hand from TensorFlow's
// documentation of the op.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/exchange/graphdef/file/read_graph_def.h"
#include "keel/ops/exchange/graphdef/import.h"

#include "support/error_of.h"
#include "support/graph_def_text.h"
#include "unit/ops/graphdef/op_runs_for_tests.h"

TEST_SUITE_BEGIN("graphdef");

namespace keel {
namespace {

using namespace keel_test;

TEST_CASE("GraphDef rules: arithmetic and comparisons") {
  const Given a = fed(row({7, -7, 1})), b = fed(row({2, 2, 4}));
  check_row("AddV2", {a, b}, {9, -5, 5});
  check_row("Sub", {a, b}, {5, -9, -3});
  check_row("Mul", {a, b}, {14, -14, 4});
  check_row("RealDiv", {a, b}, {3.5, -3.5, 0.25});
  check_row("FloorDiv", {a, b}, {3, -4, 0});
  check_row("FloorMod", {a, b}, {1, 1, 1});
  check_row("TruncateMod", {a, b}, {1, -1, 1});
  check_row("TruncateDiv", {a, b}, {3, -3, 0});
  check_row("Maximum", {a, b}, {7, 2, 4});
  check_row("Minimum", {a, b}, {2, -7, 1});
  check_row("SquaredDifference", {a, b}, {25, 81, 9});
  check_row("Greater", {a, b}, {1, 0, 0});
  check_row("LessEqual", {a, b}, {0, 1, 1});
  check_row("AddN", {a, b, a}, {16, -12, 6}, {{"N", "i: 3"}});
  check_row("DivNoNan", {a, fed(row({0, 2, 0}))}, {0, -3.5, 0});
  check_row("Xlogy", {fed(row({0, 2})), fed(row({0, std::exp(1.0)}))}, {0, 2});
  check_row("Xdivy", {fed(row({0, 2})), fed(row({0, 4}))}, {0, 0.5});
  const Given whole = fed(ints({7, -7, 6})), by = fed(ints({2, 2, -4}));
  check_row("FloorDiv", {whole, by}, {3, -4, -2});
  check_row("FloorMod", {whole, by}, {1, 1, -2});
  check_row("TruncateDiv", {whole, by}, {3, -3, -1});
  check_row("TruncateMod", {whole, by}, {1, -1, 2});
  check_row("Div", {whole, by}, {3, -3, -1});
}

TEST_CASE("GraphDef rules: functions of one number") {
  const Given x = fed(row({-2, 0, 3}));
  check_row("Relu6", {fed(row({-1, 3, 9}))}, {0, 3, 6});
  check_row("Elu", {x}, {std::expm1(-2.0), 0, 3});
  check_row(
      "Selu", {x},
      {1.0507009873554805 * 1.6732632423543772 * std::expm1(-2.0), 0, 3 * 1.0507009873554805});
  check_row("LeakyRelu", {x}, {-0.5, 0, 3}, {{"alpha", "f: 0.25"}});
  check_row("Softplus", {x},
            {std::log1p(std::exp(-2.0)), std::log(2.0), std::log1p(std::exp(3.0))});
  check_row("Softsign", {x}, {-2.0 / 3, 0, 0.75});
  check_row("Rsqrt", {fed(row({4, 0.25}))}, {0.5, 2});
  check_row("Inv", {fed(row({4, -0.5}))}, {0.25, -2});
  check_row("Tan", {fed(row({0.5}))}, {std::tan(0.5)});
  check_row("Rint", {fed(row({0.5, 1.5, -2.5}))}, {0, 2, -2});
  check_row("ClipByValue", {x, held(Tensor::scalar<float>(-1)), held(Tensor::scalar<float>(2))},
            {-1, 0, 2});
  const double infinity = std::numeric_limits<double>::infinity();
  const Given odd = fed(row({std::nan(""), infinity, -infinity, 1}));
  check_row("IsNan", {odd}, {1, 0, 0, 0});
  check_row("IsInf", {odd}, {0, 1, 1, 0});
  check_row("IsFinite", {odd}, {0, 0, 0, 1});
  check_row("ZerosLike", {odd}, {0, 0, 0, 0});
  check_row("Cast", {fed(row({1.75, -2.5}))}, {1, -2}, {{"DstT", "type: DT_INT32"}});
}

TEST_CASE("GraphDef rules: gradients of functions") {
  const Given dy = fed(row({10, 10, 10})), x = fed(row({-2, 0, 3}));
  check_row("ReluGrad", {dy, x}, {0, 0, 10});
  check_row("Relu6Grad", {dy, fed(row({-1, 5, 7}))}, {0, 10, 0});
  check_row("LeakyReluGrad", {dy, x}, {2.5, 2.5, 10}, {{"alpha", "f: 0.25"}});
  check_row("EluGrad", {dy, fed(row({-0.5, 0, 3}))}, {5, 10, 10});
  check_row("SigmoidGrad", {fed(row({0.25, 0.5, 1})), dy}, {1.875, 2.5, 0});
  check_row("TanhGrad", {fed(row({0.5, 0, -1})), dy}, {7.5, 10, 0});
  check_row("SoftplusGrad", {dy, fed(row({0, 0, 0}))}, {5, 5, 5});
  check_row("SoftsignGrad", {dy, fed(row({1, -1, 0}))}, {2.5, 2.5, 10});
  check_row("SqrtGrad", {fed(row({2, 5, 1})), dy}, {2.5, 1, 5});
  check_row("RsqrtGrad", {fed(row({2, 1, 0.5})), dy}, {-40, -5, -0.625});
  check_row("ReciprocalGrad", {fed(row({2, 1, 0.5})), dy}, {-40, -10, -2.5});
  check_row("BiasAddGrad", {fed(floats({2, 2}, {1, 2, 3, 4}))}, {4, 6});
  check_row("BiasAddGrad", {fed(floats({1, 2, 2, 1}, {1, 2, 3, 4}))}, {3, 7},
            {{"data_format", "s: 'NCHW'"}});
}

TEST_CASE("GraphDef rules: rows by index and bands and turned sequences") {
  const Given whole = held(ints({2, 0})), more = held(ints({1, 2}));
  check(run("DynamicStitch",
            {whole, more, fed(floats({2, 2}, {1, 2, 3, 4})), fed(floats({2, 2}, {5, 6, 7, 8}))})[0],
        {3, 2}, {3, 4, 5, 6, 7, 8});
  CHECK(contains(error_of([&] {
                   run("DynamicStitch", {held(ints({2})), fed(floats({1, 2}, {1, 2}))});
                 }),
                 "rows that are in no piece"));
  const Tensor places = Tensor::of<int64_t>({3, 1}, {1, 3, 1}).cast(i32);
  check_row("ScatterNd", {held(places), fed(row({5, 6, 7})), held(ints({4}))}, {0, 12, 0, 6});
  const Tensor pairs = Tensor::of<int64_t>({2, 2}, {0, 1, 1, 0}).cast(i32);
  check(run("ScatterNd", {held(pairs), fed(row({5, 6})), held(ints({2, 2}))})[0], {2, 2},
        {0, 5, 6, 0});
  check(run("ReverseSequence", {fed(floats({2, 3}, {1, 2, 3, 4, 5, 6})), fed(ints({2, 3}))},
            {{"seq_dim", "i: 1"}, {"batch_dim", "i: 0"}})[0],
        {2, 3}, {2, 1, 3, 6, 5, 4});
  const Given square = fed(floats({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}));
  const auto band = [&](int32_t lower, int32_t upper) {
    return run("MatrixBandPart", {square, held(number(lower)), held(number(upper))})[0];
  };
  check(band(-1, 0), {3, 3}, {1, 0, 0, 4, 5, 0, 7, 8, 9});
  check(band(1, 1), {3, 3}, {1, 2, 0, 4, 5, 6, 0, 8, 9});
  check(band(0, -1), {3, 3}, {1, 2, 3, 0, 5, 6, 0, 0, 9});
  check_row("Roll", {fed(row({1, 2, 3, 4})), held(number(1)), held(number(0))}, {4, 1, 2, 3});
  check_row("BroadcastArgs", {held(ints({4, 1, 3})), held(ints({5, 1}))}, {4, 5, 3});
  check_row("MulNoNan", {fed(row({std::nan(""), 3})), fed(row({0, 2}))}, {0, 6});
  check_row("SeluGrad", {fed(row({10, 10})), fed(row({-1, 2}))},
            {10 * (1.0507009873554805 * 1.6732632423543772 - 1), 10.507009873554805});
}

TEST_CASE("GraphDef rules: products") {
  const Given a = fed(floats({2, 2}, {1, 2, 3, 4})), b = fed(floats({2, 2}, {5, 6, 7, 8}));
  check(run("MatMul", {a, b})[0], {2, 2}, {19, 22, 43, 50});
  check(run("MatMul", {a, b}, {{"transpose_a", "b: true"}})[0], {2, 2}, {26, 30, 38, 44});
  check(run("MatMul", {a, b}, {{"transpose_b", "b: true"}})[0], {2, 2}, {17, 23, 39, 53});
  const Given batch = fed(floats({2, 1, 2}, {1, 2, 3, 4}));
  check(run("BatchMatMulV2", {batch, batch}, {{"adj_y", "b: true"}})[0], {2, 1, 1}, {5, 25});
  check(run("Einsum", {a, b}, {{"equation", "s: 'ij,kj->ik'"}})[0], {2, 2}, {17, 23, 39, 53});
}

TEST_CASE("GraphDef rules: reductions and scans") {
  const Given x = fed(floats({2, 3}, {1, 5, 2, 4, 3, 6}));
  const auto over = [](int32_t axis) { return held(ints({axis})); };
  check(run("Sum", {x, over(0)})[0], {3}, {5, 8, 8});
  check(run("Mean", {x, over(-1)}, {{"keep_dims", "b: true"}})[0], {2, 1}, {8.0 / 3, 13.0 / 3});
  check(run("Max", {x, held(ints({0, 1}))})[0], {}, {6});
  check(run("Sum", {x, held(ints({}))})[0], {2, 3}, {1, 5, 2, 4, 3, 6});
  check(run("Prod", {x, held(number(1))})[0], {2}, {10, 72});
  check(run("EuclideanNorm", {fed(row({3, 4})), over(0)})[0], {}, {5});
  check(run("L2Loss", {fed(row({3, 4}))})[0], {}, {12.5});
  check(run("ArgMax", {x, held(number(1))})[0], {2}, {1, 2});
  check(run("ArgMin", {x, held(number(0))}, {{"output_type", "type: DT_INT32"}})[0], {3},
        {0, 1, 0});
  const Given truth = fed(Tensor::of<int64_t>({2, 2}, {1, 0, 1, 1}).cast(boolean));
  check(run("All", {truth, over(1)})[0], {2}, {0, 1});
  check(run("Any", {truth, over(1)})[0], {2}, {1, 1});
  check_row("Cumsum", {fed(row({1, 2, 3})), held(number(0))}, {0, 1, 3},
            {{"exclusive", "b: true"}});
  check_row("Cumprod", {fed(row({1, 2, 3})), held(number(0))}, {6, 6, 3}, {{"reverse", "b: true"}});
}

TEST_CASE("GraphDef rules: shapes") {
  const Given x = fed(floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  check_row("Shape", {x}, {2, 3});
  check(run("Size", {x})[0], {}, {6});
  check(run("Rank", {x})[0], {}, {2});
  check(run("Reshape", {x, held(ints({3, -1}))})[0], {3, 2}, {1, 2, 3, 4, 5, 6});
  check(run("Transpose", {x, held(ints({1, 0}))})[0], {3, 2}, {1, 4, 2, 5, 3, 6});
  check(run("ExpandDims", {x, held(number(-1))})[0], {2, 3, 1}, {1, 2, 3, 4, 5, 6});
  check(run("Squeeze", {fed(floats({1, 2, 1}, {1, 2}))}, {{"squeeze_dims", "list { i: 0 }"}})[0],
        {2, 1}, {1, 2});
  check(run("Squeeze", {fed(floats({1, 2, 1}, {1, 2}))}, {{"squeeze_dims", "list { }"}})[0], {2},
        {1, 2});
  check(run("Tile", {x, held(ints({1, 2}))})[0], {2, 6}, {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  check(run("BroadcastTo", {fed(row({1, 2})), held(ints({2, 2}))})[0], {2, 2}, {1, 2, 1, 2});
  check(run("ReverseV2", {x, held(ints({1}))})[0], {2, 3}, {3, 2, 1, 6, 5, 4});
  check(run("Fill", {held(ints({2})), held(Tensor::scalar<float>(7))})[0], {2}, {7, 7});
  check_row("Range", {held(number(2)), held(number(9)), held(number(3))}, {2, 5, 8});
  check_row("LinSpace",
            {held(Tensor::scalar<float>(1)), held(Tensor::scalar<float>(2)), held(number(3))},
            {1, 1.5, 2});
}

TEST_CASE("GraphDef rules: arithmetic of known shapes") {
  check_row("InvertPermutation", {held(ints({2, 0, 1}))}, {1, 2, 0});
  const auto axes =
      run("BroadcastGradientArgs", {held(ints({2, 1, 4})), held(ints({3, 1}))}, {}, 2);
  check(axes[0], {1}, {1});
  check(axes[1], {2}, {0, 2});
  const auto offsets =
      run("ConcatOffset", {held(number(1)), held(ints({2, 3})), held(ints({2, 5}))}, {}, 2);
  check(offsets[0], {2}, {0, 0});
  check(offsets[1], {2}, {0, 3});
  check_row("DynamicStitch",
            {held(ints({0, 1, 2})), held(ints({1})), held(ints({4, 5, 6})), held(ints({1}))},
            {4, 1, 6});
}

TEST_CASE("GraphDef rules: parts") {
  const Given x = fed(floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  check(run("Pack", {fed(row({1, 2})), fed(row({3, 4}))}, {{"axis", "i: 1"}})[0], {2, 2},
        {1, 3, 2, 4});
  const auto rows = run("Unpack", {x}, {{"num", "i: 2"}, {"axis", "i: 0"}}, 2);
  check(rows[1], {3}, {4, 5, 6});
  check(run("ConcatV2", {x, x, held(number(0))}, {{"N", "i: 2"}})[0], {4, 3},
        {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6});
  check(run("Concat", {held(number(1)), x, fed(floats({2, 1}, {8, 9}))})[0], {2, 4},
        {1, 2, 3, 8, 4, 5, 6, 9});
  check(run("Split", {held(number(1)), x}, {{"num_split", "i: 3"}}, 3)[2], {2, 1}, {3, 6});
  check(run("SplitV", {x, held(ints({1, -1})), held(number(1))}, {{"num_split", "i: 2"}}, 2)[1],
        {2, 2}, {2, 3, 5, 6});
  check(run("Slice", {x, held(ints({0, 1})), held(ints({-1, 2}))})[0], {2, 2}, {2, 3, 5, 6});
  check(run("PadV2", {x, held(Tensor::of<int32_t>({2, 2}, {0, 0, 1, 0})),
                      held(Tensor::scalar<float>(9))})[0],
        {2, 4}, {9, 1, 2, 3, 9, 4, 5, 6});
  check(run("MirrorPad", {fed(row({1, 2, 3})), held(Tensor::of<int32_t>({1, 2}, {2, 1}))},
            {{"mode", "s: 'REFLECT'"}})[0],
        {6}, {3, 2, 1, 2, 3, 2});
  check(run("MirrorPad", {fed(row({1, 2, 3})), held(Tensor::of<int32_t>({1, 2}, {2, 1}))},
            {{"mode", "s: 'SYMMETRIC'"}})[0],
        {6}, {2, 1, 1, 2, 3, 3});
}

TEST_CASE("GraphDef rules: strided slices with each mask") {
  const Given x = fed(floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  const auto slice = [&](std::vector<int64_t> begin, std::vector<int64_t> end,
                         std::vector<int64_t> strides, const NodeAttributes& masks) {
    return run("StridedSlice", {x, held(ints(begin)), held(ints(end)), held(ints(strides))},
               masks)[0];
  };
  check(slice({0, 1}, {1, 3}, {1, 1}, {}), {1, 2}, {2, 3});
  check(slice({1}, {2}, {1}, {{"shrink_axis_mask", "i: 1"}}), {3}, {4, 5, 6});
  check(slice({-1}, {0}, {1}, {{"shrink_axis_mask", "i: 1"}}), {3}, {4, 5, 6});
  check(slice({0, 0}, {0, 0}, {1, -1}, {{"begin_mask", "i: 3"}, {"end_mask", "i: 3"}}), {2, 3},
        {3, 2, 1, 6, 5, 4});
  check(slice({0, 2}, {0, 3}, {1, 1}, {{"ellipsis_mask", "i: 1"}, {"shrink_axis_mask", "i: 2"}}),
        {2}, {3, 6});
  check(slice({0, 0, 1}, {0, 0, 2}, {1, 1, 1},
              {{"new_axis_mask", "i: 1"}, {"begin_mask", "i: 2"}, {"end_mask", "i: 2"}}),
        {1, 2, 1}, {2, 5});
}

TEST_CASE("GraphDef rules: by index") {
  const Given x = fed(floats({3, 2}, {1, 2, 3, 4, 5, 6}));
  check(run("Gather", {x, fed(ints({2, 0}))})[0], {2, 2}, {5, 6, 1, 2});
  check(run("GatherV2", {x, fed(ints({1})), held(number(1))})[0], {3, 1}, {2, 4, 6});
  check(run("GatherNd", {x, held(Tensor::of<int32_t>({2, 2}, {0, 1, 2, 0}))})[0], {2}, {2, 5});
  check(run("UnsortedSegmentSum", {x, fed(ints({1, -1, 1})), held(number(2))})[0], {2, 2},
        {0, 0, 6, 8});
  check(run("OneHot", {fed(ints({1, -1})), held(number(3)), held(Tensor::scalar<float>(5)),
                       held(Tensor::scalar<float>(0))})[0],
        {2, 3}, {0, 5, 0, 0, 0, 0});
  check(run("OneHot",
            {fed(ints({1, 0})), held(number(2)), held(Tensor::scalar<float>(1)),
             held(Tensor::scalar<float>(-1))},
            {{"axis", "i: 0"}})[0],
        {2, 2}, {-1, 1, 1, -1});
  const auto top =
      run("TopKV2", {fed(row({1, 9, 5})), held(number(2))}, {{"sorted", "b: true"}}, 2);
  check(top[0], {2}, {9, 5});
  check(top[1], {2}, {1, 2});
  const Given condition = fed(Tensor::of<int64_t>({3}, {1, 0, 1}).cast(boolean));
  check(run("Select", {condition, x, fed(floats({3, 2}, {0, 0, 0, 0, 0, 0}))})[0], {3, 2},
        {1, 2, 0, 0, 5, 6});
}

TEST_CASE("GraphDef rules: losses and what comes along with them") {
  const Given logits = fed(floats({2, 3}, {0, 0, 0, 1, 0, 0}));
  const double e = std::exp(1.0), sum = e + 2;
  const auto sparse =
      run("SparseSoftmaxCrossEntropyWithLogits", {logits, fed(ints({2, 0}))}, {}, 2);
  check(sparse[0], {2}, {std::log(3.0), std::log(sum) - 1});
  check(sparse[1], {2, 3}, {1.0 / 3, 1.0 / 3, 1.0 / 3 - 1, e / sum - 1, 1 / sum, 1 / sum});
  const auto dense = run("SoftmaxCrossEntropyWithLogits",
                         {logits, fed(floats({2, 3}, {0, 0, 1, 0.5, 0.5, 0}))}, {}, 2);
  check(dense[0], {2}, {std::log(3.0), std::log(sum) - 0.5});
  check(dense[1], {2, 3}, {1.0 / 3, 1.0 / 3, 1.0 / 3 - 1, e / sum - 0.5, 1 / sum - 0.5, 1 / sum});
  check(run("Softmax", {logits})[0], {2, 3},
        {1.0 / 3, 1.0 / 3, 1.0 / 3, e / sum, 1 / sum, 1 / sum});
  const Given scores = fed(floats({3, 3}, {1, 2, 3, 3, 2, 1, 1, 1, 1}));
  check(run("InTopK", {scores, fed(ints({1, 2, 2}))}, {{"k", "i: 2"}})[0], {3}, {1, 0, 1});
  check(run("InTopKV2", {scores, fed(ints({2, 0, 0})), held(number(1))})[0], {3}, {1, 1, 1});
}

// Images of one channel, so that NHWC and NCHW hold their elements in one order.
TEST_CASE("GraphDef rules: convolutions in both layouts and their gradients") {
  const Floats image{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Given filter = fed(floats({2, 2, 1, 1}, {1, 2, 3, 4}));
  const Floats valid{37, 47, 67, 77};
  const NodeAttributes plain{{"strides", "list { i: 1 i: 1 i: 1 i: 1 }"},
                             {"padding", "s: 'VALID'"}};
  check(run("Conv2D", {fed(floats({1, 3, 3, 1}, image)), filter}, plain)[0], {1, 2, 2, 1}, valid);
  NodeAttributes channels_first = plain;
  channels_first.push_back({"data_format", "s: 'NCHW'"});
  check(run("Conv2D", {fed(floats({1, 1, 3, 3}, image)), filter}, channels_first)[0], {1, 1, 2, 2},
        valid);
  const NodeAttributes same{{"strides", "list { i: 1 i: 2 i: 2 i: 1 }"}, {"padding", "s: 'SAME'"}};
  check(run("Conv2D", {fed(floats({1, 3, 3, 1}, image)), filter}, same)[0], {1, 2, 2, 1},
        {37, 3 + 3 * 6, 7 + 2 * 8, 9});
  const NodeAttributes given{
      {"strides", "list { i: 1 i: 1 i: 1 i: 1 }"},
      {"padding", "s: 'EXPLICIT'"},
      {"explicit_paddings", "list { i: 0 i: 0 i: 1 i: 0 i: 0 i: 0 i: 0 i: 0 }"}};
  check(run("Conv2D", {fed(floats({1, 3, 3, 1}, image)), filter}, given)[0], {1, 3, 2, 1},
        {11, 18, 37, 47, 67, 77});
  const Given slope = fed(floats({1, 2, 2, 1}, {1, 0, 0, 1}));
  check(run("Conv2DBackpropInput", {held(ints({1, 3, 3, 1})), filter, slope}, plain)[0],
        {1, 3, 3, 1}, {1, 2, 0, 3, 5, 2, 0, 3, 4});
  check(run("Conv2DBackpropFilter",
            {fed(floats({1, 3, 3, 1}, image)), held(ints({2, 2, 1, 1})), slope}, plain)[0],
        {2, 2, 1, 1}, {6, 8, 12, 14});
  // Two channels, each with a filter of one element and two results.
  const Given pixels = fed(floats({1, 1, 1, 2}, {3, 5}));
  check(run("DepthwiseConv2dNative", {pixels, fed(floats({1, 1, 2, 2}, {1, 10, 2, 20}))}, plain)[0],
        {1, 1, 1, 4}, {3, 30, 10, 100});
  check(run("DepthwiseConv2dNativeBackpropFilter",
            {pixels, held(ints({1, 1, 2, 2})), fed(floats({1, 1, 1, 4}, {1, 2, 3, 4}))}, plain)[0],
        {1, 1, 2, 2}, {3, 6, 15, 20});
  check(run("DepthwiseConv2dNativeBackpropInput",
            {held(ints({1, 1, 1, 2})), fed(floats({1, 1, 2, 2}, {1, 10, 2, 20})),
             fed(floats({1, 1, 1, 4}, {1, 2, 3, 4}))},
            plain)[0],
        {1, 1, 1, 2}, {21, 86});
}

TEST_CASE("GraphDef rules: pooling with its gradients and resizing") {
  const Given image = fed(floats({1, 2, 3, 1}, {1, 5, 2, 4, 3, 6}));
  const NodeAttributes windows{{"ksize", "list { i: 1 i: 2 i: 2 i: 1 }"},
                               {"strides", "list { i: 1 i: 1 i: 1 i: 1 }"},
                               {"padding", "s: 'VALID'"}};
  check(run("MaxPool", {image}, windows)[0], {1, 1, 2, 1}, {5, 6});
  check(run("AvgPool", {image}, windows)[0], {1, 1, 2, 1}, {3.25, 4});
  const Given best = fed(floats({1, 1, 2, 1}, {5, 6})), slope = fed(floats({1, 1, 2, 1}, {10, 20}));
  check(run("MaxPoolGrad", {image, best, slope}, windows)[0], {1, 2, 3, 1}, {0, 10, 0, 0, 0, 20});
  check(run("AvgPoolGrad", {held(ints({1, 2, 3, 1})), slope}, windows)[0], {1, 2, 3, 1},
        {2.5, 7.5, 5, 2.5, 7.5, 5});
  NodeAttributes same = windows;
  same[2].second = "s: 'SAME'";
  check(run("AvgPool", {image}, same)[0], {1, 2, 3, 1}, {3.25, 4, 4, 3.5, 4.5, 6});
  check(run("ResizeNearestNeighbor", {fed(floats({1, 1, 2, 1}, {1, 2})), held(ints({2, 4}))})[0],
        {1, 2, 4, 1}, {1, 1, 2, 2, 1, 1, 2, 2});
  check(run("ResizeBilinear", {fed(floats({1, 1, 2, 1}, {0, 4})), held(ints({1, 4}))},
            {{"half_pixel_centers", "b: true"}})[0],
        {1, 1, 4, 1}, {0, 1, 3, 4});
}

TEST_CASE("GraphDef rules: batch norm in training and evaluation and its gradient") {
  const Given x = fed(floats({2, 1, 1, 2}, {1, 10, 3, 10})), scale = fed(row({2, 3}));
  const Given offset = fed(row({5, 7})), none = held(row({}));
  const double root = std::sqrt(1 + 0.001);
  const auto training = run("FusedBatchNorm", {x, scale, offset, none, none},
                            {{"epsilon", "f: 0.001"}, {"is_training", "b: true"}}, 3);
  check(training[0], {2, 1, 1, 2}, {5 - 2 / root, 7, 5 + 2 / root, 7});
  check(training[1], {2}, {2, 10});
  check(training[2], {2}, {2, 0});  // over n - 1
  const Given mean = fed(row({1, 8})), variance = fed(row({0.249, 3.999}));
  const auto evaluation = run("FusedBatchNormV3", {x, scale, offset, mean, variance},
                              {{"epsilon", "f: 0.001"}, {"is_training", "b: false"}});
  check(evaluation[0], {2, 1, 1, 2}, {5, 10, 13, 10});
  // Of y = scale (x - mean) / root + offset with the batch's own statistics: the slope of a sum of
  // the first element alone.
  const Given slope = fed(floats({2, 1, 1, 2}, {1, 1, 0, 0}));
  const auto gradient = run("FusedBatchNormGrad", {slope, x, scale, mean, variance},
                            {{"epsilon", "f: 0.001"}, {"is_training", "b: true"}}, 3);
  const double normal = -1 / root;
  const double d_first = 2 / root * (1 - 0.5 - normal * (normal / 2));
  const double d_second = 2 / root * (0 - 0.5 + normal * (normal / 2));
  const double d_other = 3 / std::sqrt(0.001) * 0.5;
  check(gradient[0], {2, 1, 1, 2}, {d_first, d_other, d_second, -d_other});
  check(gradient[1], {2}, {normal, 0});
  check(gradient[2], {2}, {1, 1});
}

TEST_CASE("GraphDef rules: numbers in a range are counted in their own dtype") {
  const auto one = [](float x) { return held(Tensor::scalar<float>(x)); };
  // In double 0.3f / 0.1f is above 3; TensorFlow divides in f32.
  CHECK(run("Range", {one(0), one(0.3f), one(0.1f)})[0].num_elements() == 3);
  check_row("Range", {held(number(5)), held(number(0)), held(number(-2))}, {5, 3, 1});
  CHECK(run("Range", {held(number(5)), held(number(5)), held(number(1))})[0].num_elements() == 0);
  CHECK(contains(error_of([&] {
                   run("Range", {held(number(0)), held(number(1)), held(number(0))});
                 }),
                 "step is 0"));
  CHECK(contains(error_of([&] { run("Range", {one(0), one(1e30f), one(1)}); }), "2^24"));
}

TEST_CASE("GraphDef rules: the place of the smallest integer") {
  const Tensor bytes = Tensor::of<int64_t>({2}, {0, 1}).cast(u8);
  check(run("ArgMin", {fed(bytes), held(number(0))})[0], {}, {0});
  const int64_t lowest = std::numeric_limits<int32_t>::min();
  check(run("ArgMin", {fed(ints({0, lowest})), held(number(0))})[0], {}, {1});
}

TEST_CASE("GraphDef rules: the gradient that comes with targets that do not sum to one") {
  const auto dense = run("SoftmaxCrossEntropyWithLogits",
                         {fed(floats({1, 2}, {0, 0})), fed(floats({1, 2}, {2, 0}))}, {}, 2);
  check(dense[0], {1}, {2 * std::log(2.0)});
  check(dense[1], {1, 2}, {-1.5, 0.5});
}

TEST_CASE("GraphDef rules: gradients of convolutions in groups") {
  const NodeAttributes plain{{"strides", "list { i: 1 i: 1 i: 1 i: 1 }"},
                             {"padding", "s: 'VALID'"}};
  const Given filter = fed(floats({1, 1, 1, 2}, {10, 100})),
              slope = fed(floats({1, 1, 1, 2}, {3, 5}));
  check(run("Conv2DBackpropInput", {held(ints({1, 1, 1, 2})), filter, slope}, plain)[0],
        {1, 1, 1, 2}, {30, 500});
  check(run("Conv2DBackpropFilter",
            {fed(floats({1, 1, 1, 2}, {7, 11})), held(ints({1, 1, 1, 2})), slope}, plain)[0],
        {1, 1, 1, 2}, {21, 55});
}

TEST_CASE("GraphDef rules: a score that is no number is in no top") {
  const Given scores = fed(floats({1, 2}, {std::nan(""), 1}));
  check(run("InTopK", {scores, fed(ints({0}))}, {{"k", "i: 1"}})[0], {1}, {0});
}

TEST_CASE("GraphDef rules: slices that reach out of their operand are refused") {
  const Given x = fed(row({1, 2, 3, 4}));
  const auto refused = [&](int64_t begin, int64_t size) {
    return contains(error_of([&] {
                      run("Slice", {x, held(ints({begin})), held(ints({size}))});
                    }),
                    "reach out");
  };
  CHECK(refused(-1, 1));
  CHECK(refused(3, 5));
  CHECK(refused(5, 0));
  CHECK(refused(0, -2));
  CHECK_FALSE(refused(4, 0));
  CHECK(contains(error_of([&] {
                   run("StridedSlice",
                       {fed(floats({2, 2}, {1, 2, 3, 4})), held(ints({0, 0})), held(ints({1, 1})),
                        held(ints({1, 1}))},
                       {{"ellipsis_mask", "i: 3"}});
                 }),
                 "more than one ellipsis"));
}

TEST_CASE("GraphDef rules: lists of types and shapes that repeat what operands say") {
  const NodeAttributes types{{"T", "list { type: DT_FLOAT }"}};
  check_row("IdentityN", {fed(row({1, 2}))}, {1, 2}, types);
  check_row("EnsureShape", {fed(row({1, 2}))}, {1, 2}, {{"shape", "shape { dim { size: 2 } }"}});
  const Tensor bytes = Tensor::of<int64_t>({1, 1, 2, 1}, {0, 4}).cast(u8);
  check(run("ResizeBilinear", {fed(bytes), held(ints({1, 4}))},
            {{"half_pixel_centers", "b: true"}})[0],
        {1, 1, 4, 1}, {0, 1, 3, 4});
}

TEST_CASE("GraphDef rules: local response normalisation") {
  const Given x = fed(floats({1, 1, 1, 3}, {1, 2, 3}));
  const auto y =
      run("LRN", {x},
          {{"depth_radius", "i: 1"}, {"bias", "f: 2"}, {"alpha", "f: 0.5"}, {"beta", "f: 1"}});
  check(y[0], {1, 1, 1, 3}, {1 / (2 + 2.5), 2 / (2 + 7.0), 3 / (2 + 6.5)});
}

}  // namespace
}  // namespace keel

TEST_SUITE_END();
