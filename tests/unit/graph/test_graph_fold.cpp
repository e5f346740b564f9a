#include <cmath>
#include <rapidcheck.h>
#include <string>

#include <doctest/doctest.h>

#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/verify.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/conv.h"
#include "keel/ops/gather.h"
#include "keel/ops/matmul.h"
#include "keel/ops/slice.h"

#include "support/random_graph.h"

TEST_SUITE_BEGIN("graph");

namespace {

using keel::Graph;
using keel::Shape;
using keel::Tensor;
using keel::Value;
using keel::Values;
using keel_test::count_op;

// The ops of the folded graph in order, sources left out.
std::string folded_ops(Graph& g, const Value& output) {
  g.set_outputs({output});
  const auto folded = keel::fold(g);
  keel::verify(*folded);
  std::string ops;
  for (const keel::Node& node : folded->nodes()) {
    if (!node.has(keel::kSource)) ops += (ops.empty() ? "" : " ") + node.op_name();
  }
  return ops;
}

Value scalar(Graph& g, keel::DType dtype, double value) {
  return g.constant(Tensor::full(dtype, Shape{}, value));
}

}  // namespace

TEST_CASE("fold evaluates what is known") {
  Graph g;
  const Value a = g.constant(Tensor::of<float>(Shape{3}, {1, 2, 3}));
  const Value b = keel::sum(a * a + 1.0f);
  g.set_outputs({b, a});
  const auto folded = keel::fold(g);
  CHECK(folded->size() == 2);
  CHECK(keel_test::evaluate(*folded)[0].item<float>() == 17.0f);
  CHECK(g.size() > 2);
}

TEST_CASE("fold keeps names and order of inputs that nothing reads") {
  Graph g;
  g.input("unused", keel::f32, {});
  const Value x = g.input("x", keel::f32, {});
  g.input("last", keel::i32, {2});
  keel::exp(x);
  g.set_outputs({x});
  const auto folded = keel::fold(g);
  CHECK(folded->size() == 3);
  REQUIRE(folded->inputs().size() == 3);
  CHECK(name_of(folded->inputs()[0].node()) == "unused");
  CHECK(name_of(folded->inputs()[2].node()) == "last");
}

TEST_CASE("fold leaves results above 1 MiB to the run") {
  Graph g;
  const int64_t limit = (1 << 20) / 4;
  const Value fits = keel::neg(g.constant(Tensor(keel::f32, Shape{limit})));
  CHECK(folded_ops(g, fits).empty());
  const Value large = keel::neg(g.constant(Tensor(keel::f32, Shape{limit + 1})));
  CHECK(folded_ops(g, large) == "neg");
  // Weights of another layout are turned once.
  const Value turned = keel::transpose(g.constant(Tensor(keel::f32, Shape{limit + 1, 1})));
  CHECK(folded_ops(g, turned).empty());
}

TEST_CASE("fold does not evaluate iota or write out a broadcast constant") {
  Graph g;
  CHECK(folded_ops(g, keel::neg(keel::iota(g, keel::f32, Shape{4}))) == "iota neg");
  CHECK(folded_ops(g, keel::broadcast_to(scalar(g, keel::f32, 2), Shape{8})) == "broadcast_to");
}

TEST_CASE("fold writes a broadcast constant out where only others than element-wise ops read it") {
  Graph g;
  const Value x = g.input("x", keel::f32, {3, 4});
  const auto wide = [&](const Shape& shape) {
    return keel::broadcast_to(scalar(g, keel::f32, 0.5), shape);
  };
  CHECK(folded_ops(g, keel::matmul(x, wide({4, 2}))) == "matmul");
  const keel::Node& node = g.outputs()[0].node();
  const auto folded = keel::fold(g);
  const keel::Node& copy = folded->outputs()[0].node();
  REQUIRE(copy.input(1).node().op_name() == "constant");
  CHECK(keel::bit_equal(copy.input(1).node().as<keel::ConstantAttributes>().value,
                        Tensor::full(keel::f32, {4, 2}, 0.5)));
  CHECK(copy.type() == node.type());

  const Value shared = wide({3, 4});
  const Value product = keel::matmul(shared, x, {.transpose_b = true});
  CHECK(folded_ops(g, product + keel::sum(x * shared)) == "broadcast_to matmul mul sum add");
  const Value large = wide({4, (1 << 16) + 1});
  CHECK(folded_ops(g, keel::matmul(x, large)) == "broadcast_to matmul");
}

TEST_CASE("fold does not write out what a variable of a loop begins with") {
  Graph g;
  const Value captured = keel::broadcast_to(scalar(g, keel::f32, 2), {4, 4});
  const Value last = keel::while_loop(
      {keel::broadcast_to(scalar(g, keel::f32, -0.0), {3, 4})},
      [](const Values& v) { return keel::less(v[0].graph().iteration(), 2); },
      [&](const Values& v) { return Values{keel::matmul(v[0], captured)}; }, {.trip_count = 2})[0];
  CHECK(folded_ops(g, last) == "broadcast_to while_loop");
}

TEST_CASE("fold gives what a select of a known predicate chooses") {
  for (const bool first : {false, true}) {
    Graph g;
    const Value predicate = g.constant(Tensor::full(keel::boolean, {}, first ? 1 : 0));
    const Value x = g.input("x", keel::f32, {2, 3}), row = g.input("row", keel::f32, {3});
    const auto chosen = [&](const Value& a, const Value& b) {
      return first ? keel::select(predicate, a, b) : keel::select(predicate, b, a);
    };
    CHECK(folded_ops(g, chosen(x, row)).empty());
    CHECK(folded_ops(g, chosen(row, x)) == "broadcast_to");
    CHECK(folded_ops(g, chosen(scalar(g, keel::f32, 5), x)) == "broadcast_to");
    // Selecting may store the largest f16 number in the place of an infinite one.
    const Value h = g.input("h", keel::f16, {2, 3});
    CHECK(folded_ops(g, chosen(h, scalar(g, keel::f16, 1))) == "select");
    CHECK(folded_ops(g, chosen(scalar(g, keel::f16, INFINITY), h)) == "select");
    CHECK(folded_ops(g, chosen(scalar(g, keel::f16, 1), h)) == "broadcast_to");
  }
}

TEST_CASE("fold merges broadcasts that keep dimensions of each other") {
  Graph g;
  const Value x = g.input("x", keel::f32, {3, 1});
  CHECK(folded_ops(g, keel::broadcast_to(keel::broadcast_to(x, {3, 4}), {2, -1, -1})) ==
        "broadcast_to");
  CHECK(g.outputs()[0].shape() == Shape{2, 3, 4});
}

TEST_CASE("fold drops neutral operands that change no bit") {
  for (const keel::DType dtype : {keel::f32, keel::bf16, keel::i32}) {
    Graph g;
    const Value x = g.input("x", dtype, {2, 3});
    const Value one = scalar(g, dtype, 1);
    const Value zero = scalar(g, dtype, 0);
    CHECK(folded_ops(g, x * one).empty());
    CHECK(folded_ops(g, one * x).empty());
    CHECK(folded_ops(g, x / one).empty());
    CHECK(folded_ops(g, x - zero).empty());
    CHECK(folded_ops(g, one / x) == "div");
    CHECK(folded_ops(g, zero - x) == "sub");
    CHECK(folded_ops(g, x * scalar(g, dtype, 2)) == "mul");
    CHECK(folded_ops(g, x + zero) == (keel::is_float(dtype) ? "add" : ""));
  }
}

TEST_CASE("fold leaves f16 arithmetic that may saturate to the device") {
  Graph g;
  const Value x = g.input("x", keel::f16, {2, 3});
  CHECK(folded_ops(g, x * scalar(g, keel::f16, 1)) == "mul");
  CHECK(folded_ops(g, x - scalar(g, keel::f16, 0)) == "sub");
  const Value endless = g.constant(Tensor::full(keel::f16, Shape{2, 3}, INFINITY));
  CHECK(folded_ops(g, endless + scalar(g, keel::f16, 1)) == "add");
  CHECK(folded_ops(g, keel::neg(endless)) == "neg");
  CHECK(folded_ops(g, keel::sum(endless)) == "sum");
  // What is moved stays as it is.
  CHECK(folded_ops(g, keel::transpose(endless)).empty());
  CHECK(folded_ops(g, keel::reshape(endless, Shape{6})).empty());
  CHECK(folded_ops(g, scalar(g, keel::f16, 1) / endless).empty());
}

TEST_CASE("fold tells the zeros apart") {
  Graph g;
  const Value x = g.input("x", keel::f32, {2});
  const Value minus_zero = scalar(g, keel::f32, -0.0);
  CHECK(folded_ops(g, x + minus_zero).empty());
  CHECK(folded_ops(g, minus_zero + x).empty());
  CHECK(folded_ops(g, x - minus_zero) == "sub");
}

TEST_CASE("fold keeps a neutral operand that enlarges the shape") {
  Graph g;
  const Value x = g.input("x", keel::f32, {3});
  CHECK(folded_ops(g, x * g.constant(Tensor::full(keel::f32, Shape{2, 3}, 1))) == "mul");
  CHECK(folded_ops(g, x * g.constant(Tensor::full(keel::f32, Shape{3}, 1))).empty());
  CHECK(folded_ops(g, x * g.constant(Tensor::of<float>(Shape{3}, {1, 1, 2}))) == "mul");
  const Value empty = g.input("e", keel::f32, {0});
  CHECK(folded_ops(g, empty * g.constant(Tensor(keel::f32, Shape{0}))) == "mul");
}

TEST_CASE("fold merges reshapes and transposes") {
  Graph g;
  const Value x = g.input("x", keel::f32, {2, 3, 4});
  using keel::reshape;
  using keel::transpose;
  CHECK(folded_ops(g, reshape(x, Shape{2, 3, 4})).empty());
  CHECK(folded_ops(g, reshape(reshape(x, Shape{-1}), Shape{2, 3, 4})).empty());
  CHECK(folded_ops(g, reshape(reshape(x, Shape{6, 4}), Shape{4, -1})) == "reshape");
  CHECK(folded_ops(g, reshape(keel::expand_dims(x, {0}), Shape{24})) == "reshape");
  CHECK(folded_ops(g, keel::squeeze(keel::expand_dims(x, {1}), {1})).empty());
  CHECK(folded_ops(g, transpose(transpose(x))).empty());
  CHECK(folded_ops(g, transpose(transpose(x, {1, 2, 0}), {2, 0, 1})).empty());
  CHECK(folded_ops(g, transpose(transpose(x, {1, 2, 0}), {1, 2, 0})) == "transpose");
  CHECK(folded_ops(g, transpose(reshape(x, Shape{6, 4}))) == "reshape transpose");
}

TEST_CASE("a merged transpose moves the same elements") {
  Graph g;
  const Value x = g.input("x", keel::f32, {2, 3, 4});
  g.set_outputs({keel::transpose(keel::transpose(x, {1, 2, 0}), {0, 2, 1})});
  Tensor data(keel::f32, Shape{2, 3, 4});
  for (int64_t i = 0; i < 24; ++i) data.set(i, static_cast<double>(i));
  const auto folded = keel::fold(g);
  CHECK(count_op(*folded, "transpose") == 1);
  // [i, j, k] of the result is [j, i, k] of x: axes (1, 2, 0) and then (0, 2, 1) give (1, 0, 2).
  const Tensor out = keel_test::evaluate(*folded, {{"x", data}})[0];
  REQUIRE(out.shape() == Shape{3, 2, 4});
  CHECK(out.at(0 * 8 + 1 * 4 + 2) == 1 * 12 + 0 * 4 + 2);
  CHECK(out.at(2 * 8 + 0 * 4 + 3) == 0 * 12 + 2 * 4 + 3);
}

TEST_CASE("fold drops casts and broadcasts to what a value is") {
  Graph g;
  const Value x = g.input("x", keel::f32, {3, 4});
  const keel::OpDef& cast = g.ops().at("cast");
  const auto attributes = keel::cast(g.input("d", keel::f64, {}), keel::f32).node().attributes();
  CHECK(folded_ops(g, g.add(cast, {x}, attributes, {}).output()).empty());
  CHECK(folded_ops(g, keel::cast(x, keel::f64)) == "cast");
  CHECK(folded_ops(g, keel::broadcast_to(x, Shape{3, 4})).empty());
  CHECK(folded_ops(g, keel::stop_gradient(x)).empty());
}

TEST_CASE("fold lets element-wise ops broadcast by themselves") {
  Graph g;
  const Value x = g.input("x", keel::f32, {3, 4});
  const Value row = g.input("row", keel::f32, {4});
  const Value wide = keel::broadcast_to(row, Shape{3, 4});
  CHECK(folded_ops(g, x + wide) == "add");
  CHECK(folded_ops(g, wide * wide) == "broadcast_to mul");
  CHECK(folded_ops(g, keel::neg(wide)) == "broadcast_to neg");
  CHECK(folded_ops(g, keel::sum(wide)) == "broadcast_to sum");
}

TEST_CASE("fold leaves unknown shapes alone") {
  Graph g;
  const Value x = g.input("x", keel::f32, {-1, 4});
  CHECK(folded_ops(g, keel::broadcast_to(x, Shape{-1, 4})) == "broadcast_to");
  CHECK(folded_ops(g, x * scalar(g, keel::f32, 1)) == "mul");
}

TEST_CASE("fold works inside bodies") {
  Graph g;
  const Value x = g.input("x", keel::f32, {});
  const Values out = keel::while_loop(
      {x}, [](const Values& v) { return keel::less(v[0], 100); },
      [](const Values& v) {
        Graph& body = v[0].graph();
        const Value two = scalar(body, keel::f32, 1) + scalar(body, keel::f32, 1);
        return Values{v[0] * two * scalar(body, keel::f32, 1)};
      });
  g.set_outputs(out);
  const auto folded = keel::fold(g);
  keel::verify(*folded);
  const keel::Node& loop = folded->outputs()[0].node();
  CHECK(count_op(*loop.bodies()[1], "mul") == 1);
  CHECK(count_op(*loop.bodies()[1], "add") == 1);  // the loop's own count
  CHECK(count_op(*loop.bodies()[1], "constant") == 2);
  CHECK(keel_test::evaluate(*folded, {{"x", Tensor::scalar(3.0f)}})[0].item<float>() == 192.0f);
}

TEST_CASE("fold changes no bit of random graphs") {
  CHECK(rc::check("fold", [](uint64_t seed) {
    const auto random = keel_test::random_graph(seed, 60);
    const auto folded = keel::fold(*random.graph);
    keel::verify(*folded);
    RC_ASSERT(folded->size() <= random.graph->size());
    RC_ASSERT(keel_test::all_bit_equal(keel_test::evaluate(*random.graph, random.feeds),
                                       keel_test::evaluate(*folded, random.feeds)));
  }));
}

TEST_CASE("fold leaves products of constants to the device that would take it long") {
  const auto product = [](int64_t rows, int64_t inner, int64_t columns) {
    Graph g;
    const Value a = g.constant(Tensor::full(keel::f32, {rows, inner}, 0.5));
    const Value b = g.constant(Tensor::full(keel::f32, {inner, columns}, 2));
    return folded_ops(g, keel::matmul(a, b));
  };
  CHECK(product(200, 200, 200).empty());  // 8e6 multiply-adds
  CHECK(product(220, 220, 220) == "matmul");
  CHECK(product(512, 8192, 512) == "matmul");
  CHECK(product(1, 1 << 20, 4).empty());
  Graph g;
  const Value x = g.constant(Tensor::full(keel::f32, {8, 64, 64, 32}, 1));
  const auto convolved = [&](int64_t channels) {
    const Value w = g.constant(Tensor::full(keel::f32, {3, 3, 32, channels}, 1));
    return keel::conv2d(keel::slice(x, {0, 0, 0}, {1, channels, channels}), w);
  };
  CHECK(folded_ops(g, convolved(4)).empty());
  CHECK(folded_ops(g, convolved(64)) == "conv2d");
}

TEST_SUITE_END();
