#include "keel/ops/matmul.h"

#include <array>

#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/infer_rules.h"
#include "keel/ops/reduce.h"
#include "keel/ops/reference_loops.h"
#include "keel/ops/scalar_rules.h"
#include "keel/ops/shape.h"
#include "keel/ops/sums/part_sums.h"

namespace keel {
namespace {

Shape batch_of(const Shape& shape) { return Shape(shape.dims().first(shape.rank() - 2)); }

// Rows and columns as the product sees them.
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

Matrix matrix_of(const Shape& shape, bool transposed) {
  const int64_t outer = shape[shape.rank() - 2];
  const int64_t inner = shape[shape.rank() - 1];
  return transposed ? Matrix{inner, outer, 1, inner} : Matrix{outer, inner, inner, 1};
}

std::vector<Type> infer_matmul(const InferContext& ctx) {
  ctx.require_same_dtype();
  require_dtypes(ctx, 0, kNumbers);
  ctx.require_rank(0, 2, Shape::kMaxRank);
  ctx.require_rank(1, 2, Shape::kMaxRank);
  const auto& options = ctx.as<MatmulAttributes>();
  const DType dtype = ctx.inputs[0].dtype;
  if (options.wide) {
    ctx.require(0, dtype == f16 || dtype == bf16, "f16 or bf16 for a wide product");
  }
  const Shape &a = ctx.inputs[0].shape, &b = ctx.inputs[1].shape;
  const Matrix left = matrix_of(a, options.transpose_a);
  const Matrix right = matrix_of(b, options.transpose_b);
  if (left.columns >= 0 && right.rows >= 0 && left.columns != right.rows) {
    const std::string k = std::to_string(left.columns);
    ctx.fail("b",
             options.transpose_b ? "shape [..., ?, " + k + "] (transposed)"
                                 : "shape [..., " + k + ", ?]",
             to_string(b),
             "a is " + to_string(a) + (options.transpose_a ? " (transposed)" : "") +
                 ": its inner dimension must equal b's; check the shapes and transpose flags");
  }
  if (options.parts != 1) {
    const bool along_k = options.transpose_a && !options.transpose_b;
    ctx.require(0, along_k && a.rank() == 2, "a matrix [k, m] to transpose, for a sum over parts");
    ctx.require(1, b.rank() == 2, "a matrix [k, n], for a sum over parts");
    require_parts(ctx, options.parts, options.wide ? f32 : dtype);
  }
  // Such a sum is one part of several, whoever has the others.
  if (options.rows_alone && options.transpose_a) require_part_sums(ctx, options.wide ? f32 : dtype);
  const auto batch = broadcast(batch_of(a), batch_of(b));
  if (!batch) {
    ctx.fail("b", "leading dimensions that broadcast with " + to_string(batch_of(a)),
             to_string(batch_of(b)), "leading dimensions must be equal or 1");
  }
  Shape shape = *batch;
  shape.push_back(left.rows);
  shape.push_back(right.columns);
  return {{options.wide ? f32 : dtype, shape}};
}

template <class T, class R>
void multiply(const T* a, const Matrix& left, const T* b, const Matrix& right, R* out) {
  for (int64_t i = 0; i < left.rows; ++i) {
    for (int64_t j = 0; j < right.columns; ++j) {
      Computed<T> total{0};
      for (int64_t k = 0; k < left.columns; ++k) {
        const auto x = load(a, i * left.row_stride + k * left.column_stride);
        const auto y = load(b, k * right.row_stride + j * right.column_stride);
        total = scalar::add(total, scalar::mul(x, y));
      }
      store(out, i * right.columns + j, total);
    }
  }
}

void reference_of_product(const ReferenceContext& ctx) {
  const auto& options = ctx.as<MatmulAttributes>();
  const Shape &a = ctx.inputs[0].shape(), &b = ctx.inputs[1].shape();
  const Matrix left = matrix_of(a, options.transpose_a);
  const Matrix right = matrix_of(b, options.transpose_b);
  const int64_t left_size = left.rows * left.columns;
  const int64_t right_size = right.rows * right.columns;
  visit_dtype(ctx.inputs[0].dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) {
      const T* x = ctx.inputs[0].data<T>().data();
      const T* y = ctx.inputs[1].data<T>().data();
      const auto multiply_all = [&](auto* out) {
        for_each_broadcast<2>(batch_of(ctx.outputs[0].shape()), {batch_of(a), batch_of(b)},
                              [&](int64_t i, const auto& from) {
                                multiply(x + from[0] * left_size, left, y + from[1] * right_size,
                                         right, out + i * left.rows * right.columns);
                              });
      };
      if constexpr (!std::is_same_v<T, float>) {
        if (options.wide) return multiply_all(ctx.outputs[0].data<float>().data());
      }
      multiply_all(ctx.outputs[0].data<T>().data());
    }
  });
}

void reference_matmul(const ReferenceContext& ctx) {
  reference_of_parts(ctx, ctx.as<MatmulAttributes>().parts, reference_of_product);
}

// With C = A B: dA = G B^T and dB = A^T G, written for the stored (perhaps transposed) operands.
// Where the product is wide, both are wide as well, and G is rounded to the operands' dtype.
Values matmul_gradient(const BuildContext& ctx) {
  const MatmulAttributes own = ctx.as<MatmulAttributes>();
  const bool ta = own.transpose_a, tb = own.transpose_b;
  const CallSite site = ctx.site;
  const Value &a = ctx.inputs[0], &b = ctx.inputs[1];
  const Value g =
      own.wide ? cast(ctx.output_gradients[0], a.dtype(), site) : ctx.output_gradients[0];
  const auto product = [&](const Value& left, bool transpose_left, const Value& right,
                           bool transpose_right, const Value& operand) {
    const Value whole = matmul(
        left, right,
        {.transpose_a = transpose_left, .transpose_b = transpose_right, .wide = own.wide}, site);
    const Value summed = sum_to_shape(whole, operand.shape(), site);
    return own.wide ? cast(summed, operand.dtype(), site) : summed;
  };
  // One matrix that meets a whole batch has a gradient that is one product over all of its rows.
  const bool shared = b.shape().rank() == 2 && a.shape().rank() > 2 && !ta;
  const auto rows_of = [&](const Value& v) {
    if (!shared) return v;
    int64_t rows = 1;
    for (const int64_t dim : v.shape().dims().first(v.shape().rank() - 1)) rows *= dim;
    return reshape(v, {rows, v.shape().back()}, site);
  };
  return {ta ? product(b, tb, g, true, a) : product(g, false, b, !tb, a),
          tb ? product(rows_of(g), true, rows_of(a), ta, b)
             : product(rows_of(a), !ta, rows_of(g), false, b)};
}

Shape with_matrix(Shape batch, int64_t rows, int64_t columns, bool transposed) {
  batch.push_back(transposed ? columns : rows);
  batch.push_back(transposed ? rows : columns);
  return batch;
}

// Long sums of numbers of one sign, the worst for rounding errors.
Sample sample_long_matmul(SampleSource& source, MatmulAttributes options) {
  // More rows and columns take other kernels; f64 is what gradients are checked in, slowly.
  const bool wide_matrices = source.dtype() != f64 && source.coin();
  const auto side = [&] { return wide_matrices ? source.integer(17, 20) : source.integer(1, 3); };
  const int64_t m = side(), n = side(), k = source.pick<int64_t>({1000, 1024, 1025, 3000, 10000});
  const Shape a = with_matrix({}, m, k, options.transpose_a);
  const Shape b = with_matrix({}, k, n, options.transpose_b);
  return {.inputs = {source.values(a, 0, 2), source.values(b, 0, 1)},
          .build = [options](Graph&, const Values& v) -> Values {
            return {emit("matmul", {v[0], v[1]}, Attributes::of(options), v[0].node().site())};
          }};
}

Sample sample_matmul(SampleSource& source) {
  if (!is_number(source.dtype())) return {};
  MatmulAttributes options{.transpose_a = source.coin(), .transpose_b = source.coin()};
  options.wide = size_of(source.dtype()) == 2 && source.coin();
  if (source.size() > 50 && source.integer(0, 2) == 0) return sample_long_matmul(source, options);
  Shape batch_a;
  if (source.integer(0, 2) == 0) batch_a = source.shape(0, 2);
  Shape batch_b = source.broadcastable_to(batch_a);
  if (source.coin()) std::swap(batch_a, batch_b);
  const int64_t m = source.dim(), k = source.dim(), n = source.dim();
  return {.inputs = {source.values(with_matrix(batch_a, m, k, options.transpose_a)),
                     source.values(with_matrix(batch_b, k, n, options.transpose_b))},
          .build = [options](Graph&, const Values& v) -> Values {
            return {emit("matmul", {v[0], v[1]}, Attributes::of(options), v[0].node().site())};
          }};
}

bool is_vector(const Operand& operand) {
  return !operand.is_literal() && operand.value().shape().rank() == 1;
}

// Returns the inner dimension of an operand as the user gave it; -1 where it is not known, or where
// inference will say what is wrong with it.
int64_t inner_dim(const Operand& operand, bool last) {
  if (operand.is_literal() || operand.value().shape().rank() == 0) return kUnknownDim;
  const Shape& shape = operand.value().shape();
  return shape[shape.rank() - (last || shape.rank() == 1 ? 1 : 2)];
}

// Throws Error, in terms of the shapes that the user sees, where one of the operands is a vector
// and the two do not fit.
void require_vectors_fit(const Operand& a, const Operand& b, const MatmulAttributes& options,
                         CallSite site) {
  const auto fail = [site](const char* argument, const std::string& expected,
                           const Operand& operand, const char* fix) {
    throw Error({.op = "matmul",
                 .argument = argument,
                 .expected = expected,
                 .got = to_string(operand.value().shape()),
                 .fix = fix,
                 .site = site});
  };
  const char* no_flag = "a vector has no transpose: leave the flag out";
  if (is_vector(a) && options.transpose_a) fail("a", "a matrix to transpose", a, no_flag);
  if (is_vector(b) && options.transpose_b) fail("b", "a matrix to transpose", b, no_flag);
  const int64_t left = inner_dim(a, !options.transpose_a);
  const int64_t right = inner_dim(b, options.transpose_b);
  if (left < 0 || right < 0 || left == right) return;
  fail("b",
       "an inner dimension of " + std::to_string(left) + ", that of a, which is " +
           to_string(a.value().shape()),
       b, "check the shapes and transpose flags");
}

}  // namespace

void register_matmul(OpTable& table) {
  table.add({.name = "matmul",
             .summary = "the product of matrices, batched over leading dimensions",
             .input_names = {"a", "b"},
             .attributes = &attributes_schema<MatmulAttributes>(),
             .infer = infer_matmul,
             .reference = reference_matmul,
             .gradient = matmul_gradient,
             .traits = kProduct,
             .mix_class = MixClass::kWhite,
             .bound = {.ulps = 1},  // and product_bound.h
             .sample = sample_matmul});
}

Value matmul(Operand a, Operand b, MatmulAttributes options, CallSite site) {
  const bool row = is_vector(a), column = is_vector(b);
  if (!row && !column) return emit("matmul", {a, b}, Attributes::of(options), site);
  const CallSite line = site.known() ? site : a.site();
  require_vectors_fit(a, b, options, line);
  const Operand left = row ? Operand(expand_dims(a, {0}, line), line) : a;
  const Operand right = column ? Operand(expand_dims(b, {1}, line), line) : b;
  const Value product = emit("matmul", {left, right}, Attributes::of(options), line);
  std::vector<int64_t> axes;
  if (row) axes.push_back(-2);
  if (column) axes.push_back(-1);
  return squeeze(product, axes, line);
}

}  // namespace keel
