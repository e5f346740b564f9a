// matmul: products by hand, flags, batches, and operands that do not fit.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

// [[1 2 3] [4 5 6]] times [[7 8] [9 10] [11 12]].
const Doubles kProduct{58, 64, 139, 154};

TEST_CASE("matmul multiplies under every combination of flags") {
  Graph g;
  const Value a = g.constant(Tensor::of<double>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const Value b = g.constant(Tensor::of<double>({3, 2}, {7, 8, 9, 10, 11, 12}));
  const Value at = g.constant(Tensor::of<double>({3, 2}, {1, 4, 2, 5, 3, 6}));
  const Value bt = g.constant(Tensor::of<double>({2, 3}, {7, 9, 11, 8, 10, 12}));
  CHECK(elements(matmul(a, b)) == kProduct);
  CHECK(elements(matmul(at, b, {.transpose_a = true})) == kProduct);
  CHECK(elements(matmul(a, bt, {.transpose_b = true})) == kProduct);
  CHECK(elements(matmul(at, bt, {.transpose_a = true, .transpose_b = true})) == kProduct);
}

TEST_CASE("matmul gradients by hand under every combination of flags") {
  Graph g;
  const Value a = g.constant(Tensor::of<double>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const Value b = g.constant(Tensor::of<double>({3, 2}, {7, 8, 9, 10, 11, 12}));
  const Value at = g.constant(Tensor::of<double>({3, 2}, {1, 4, 2, 5, 3, 6}));
  const Value bt = g.constant(Tensor::of<double>({2, 3}, {7, 9, 11, 8, 10, 12}));
  // With a gradient of ones: rows of dA are the row sums of B, columns of dB the column sums of A.
  const Doubles to_a{15, 19, 23, 15, 19, 23}, to_b{5, 5, 7, 7, 9, 9};
  const Doubles to_at{15, 15, 19, 19, 23, 23}, to_bt{5, 7, 9, 5, 7, 9};
  const auto check = [](Value left, Value right, MatmulAttributes options, const Doubles& first,
                        const Doubles& second) {
    const Values grads = gradients(sum(matmul(left, right, options)), {left, right});
    CHECK(elements(grads[0]) == first);
    CHECK(elements(grads[1]) == second);
  };
  check(a, b, {}, to_a, to_b);
  check(at, b, {.transpose_a = true}, to_at, to_b);
  check(a, bt, {.transpose_b = true}, to_a, to_bt);
  check(at, bt, {.transpose_a = true, .transpose_b = true}, to_at, to_bt);
}

TEST_CASE("matmul broadcasts leading dimensions and sums their gradients") {
  Graph g;
  const Value a = g.constant(counting({2, 1, 1, 2}, f64));
  const Value b = g.constant(counting({3, 2, 1}, f64));
  const Value y = matmul(a, b);
  CHECK(y.shape() == Shape{2, 3, 1, 1});
  CHECK(elements(y) == Doubles{1, 3, 5, 3, 13, 23});
  const Values grads = gradients(sum(y), {a, b});
  CHECK(elements(grads[0]) == Doubles{6, 9, 6, 9});
  CHECK(elements(grads[1]) == Doubles{2, 4, 2, 4, 2, 4});
}

TEST_CASE("matmul over an empty inner dimension is zero") {
  Graph g;
  const Value y = matmul(g.constant(Tensor(f32, {2, 0})), g.constant(Tensor(f32, {0, 3})));
  CHECK(elements(y) == Doubles{0, 0, 0, 0, 0, 0});
}

TEST_CASE("integer products wrap in their own dtype") {
  Graph g;
  const Value a = g.constant(Tensor::of<uint8_t>({1, 2}, {200, 100}));
  const Value b = g.constant(Tensor::of<uint8_t>({2, 1}, {2, 1}));
  CHECK(elements(matmul(a, b)) == Doubles{244});
}

TEST_CASE("half products are accumulated wide") {
  Graph g;
  const Value a = g.constant(Tensor::full(f16, {1, 4096}, 1));
  const Value b = g.constant(Tensor::full(f16, {4096, 1}, 1));
  CHECK(elements(matmul(a, b)) == Doubles{4096});
}

TEST_CASE("a wide product gives the sums as accumulated") {
  Graph g;
  for (const DType low : {f16, bf16}) {
    // Neither dtype holds 2049.
    const Value a = g.constant(Tensor::full(low, {1, 2049}, 1));
    const Value b = g.constant(Tensor::full(low, {2049, 1}, 1));
    const Value wide = matmul(a, b, {.wide = true});
    CHECK(wide.dtype() == f32);
    CHECK(elements(wide) == Doubles{2049});
    CHECK(elements(matmul(a, b)) == Doubles{2048});
  }
}

TEST_CASE("gradients of a wide product have its operands dtype and round the upstream gradient") {
  Graph g;
  const Value a = g.constant(Tensor::of<double>({1, 2}, {3, 5}));
  const Value b = g.constant(Tensor::of<double>({2, 1}, {7, 11}));
  for (const DType low : {f16, bf16}) {
    const Value x = cast(a, low), y = cast(b, low);
    // An upstream gradient of 1 + 2^-12 is 1 in either dtype.
    const Value loss = sum(matmul(x, y, {.wide = true}) * (1.0f + 1.0f / 4096));
    const Values grads = gradients(loss, {x, y});
    CHECK(grads[0].dtype() == low);
    CHECK(grads[1].dtype() == low);
    CHECK(elements(grads[0]) == Doubles{7, 11});
    CHECK(elements(grads[1]) == Doubles{3, 5});
  }
}

TEST_CASE("only f16 and bf16 products can be wide") {
  Graph g;
  for (const DType dtype : {f64, f32, i32}) {
    const Value a = g.constant(Tensor(dtype, {2, 2}));
    const std::string text = error_of([&] { matmul(a, a, {.wide = true}); });
    CHECK(contains(text, "f16 or bf16 for a wide product"));
    CHECK(contains(text, name_of(dtype)));
  }
}

TEST_CASE("matmul keeps unknown dimensions") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 784});
  CHECK(matmul(x, g.constant(Tensor(f32, {784, 10}))).shape() == Shape{-1, 10});
  CHECK(matmul(x, x, {.transpose_a = true}).shape() == Shape{784, 784});
}

TEST_CASE("matmul of vectors as NumPy defines it") {
  Graph g;
  const Value a = g.constant(Tensor::of<double>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const Value v = g.constant(Tensor::of<double>({3}, {1, 10, 100}));
  const Value w = g.constant(Tensor::of<double>({2}, {7, 8}));
  CHECK(matmul(v, v).shape() == Shape{});
  CHECK(elements(matmul(v, v)) == Doubles{10101});
  CHECK(matmul(a, v).shape() == Shape{2});
  CHECK(elements(matmul(a, v)) == Doubles{321, 654});
  CHECK(elements(matmul(w, a)) == Doubles{39, 54, 69});
  CHECK(elements(matmul(a, w, {.transpose_a = true})) == Doubles{39, 54, 69});
  const Value batch = g.constant(counting({2, 2, 3}, f64));
  CHECK(matmul(batch, v).shape() == Shape{2, 2});
  CHECK(elements(matmul(w, batch)) == Doubles{24, 39, 54, 114, 129, 144});
  const Value x = g.input("x", f64, {-1, 3});
  CHECK(matmul(x, v).shape() == Shape{-1});
  const Values grads = gradients(matmul(matmul(w, a), v), {w, a, v});
  CHECK(elements(grads[0]) == Doubles{321, 654});
  CHECK(elements(grads[1]) == Doubles{7, 70, 700, 8, 80, 800});
  CHECK(elements(grads[2]) == Doubles{39, 54, 69});
  const int line = __LINE__ + 1;
  const std::string text = error_of([&] { matmul(a, w); });
  CHECK(contains(text, "an inner dimension of 3, that of a, which is [2, 3], got [2]"));
  CHECK(contains(text, "test_ops_matmul.cpp:" + std::to_string(line)));
  CHECK(contains(error_of([&] { matmul(v, w); }), "got [2]"));
  CHECK(contains(error_of([&] { matmul(w, a, {.transpose_a = true}); }), "no transpose"));
  CHECK(contains(error_of([&] { matmul(w, g.constant(counting({2}))); }), "cast"));
}

TEST_CASE("matmul names what does not fit") {
  Graph g;
  const Value a = g.constant(Tensor(f32, {2, 3}));
  const std::string text = error_of([&] { matmul(a, a); });
  CHECK(contains(text, "matmul: b: expected shape [..., 3, ?], got [2, 3]"));
  CHECK(contains(text, "test_ops_matmul.cpp:" + std::to_string(__LINE__ - 2)));
  CHECK(contains(error_of([&] { matmul(a, g.constant(Tensor(f64, {3, 2}))); }), "cast"));
  CHECK(contains(error_of([&] { matmul(a, 2); }), "rank"));
  const Value left = g.constant(Tensor(f32, {2, 4, 3}));
  const Value right = g.constant(Tensor(f32, {5, 3, 4}));
  CHECK(contains(error_of([&] { matmul(left, right); }), "leading dimensions"));
  const Value flags = g.constant(Tensor(boolean, {2, 2}));
  CHECK(contains(error_of([&] { matmul(flags, flags); }), "a number dtype"));
}

}  // namespace

TEST_SUITE_END();
