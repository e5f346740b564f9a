// Reductions over rows and columns of a tile.
#include "keel/backends/npu/isa/vector_reduce.h"

#include <algorithm>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/npu/isa/vector_reduce.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/npu/isa/cube_load-inl.h"
#include "keel/backends/npu/isa/host_isa.h"
#include "keel/backends/npu/isa/reduce_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::npu::HWY_NAMESPACE {
namespace {

using Tag = hn::ScalableTag<float>;
using Lanes = hn::Vec<Tag>;

// ------------------------------------------------------------------------------ floats

template <class Op, class Loader>
void float_rows(const ReduceCall& call) {
  const Loader loader(nullptr);
  const auto* src = static_cast<const typename Loader::Element*>(call.src);
  auto* dst = static_cast<float*>(call.dst);
  for (size_t r = 0; r < call.rows; ++r) {
    dst[r] = reduce_run<Op>(loader, src + r * call.stride, call.cols);
  }
}

// One vector of columns, each lane by itself.
template <class Op>
struct ColumnSums {
  HWY_INLINE ColumnSums() : sum(hn::Zero(Tag())), met(sum) {}
  HWY_INLINE void begin(Lanes first) {
    sum = first;
    met = MetLanes<Op>(first);
  }
  HWY_INLINE void add(Lanes v) {
    sum = Op::of(sum, v);
    met.add(v);
  }
  HWY_INLINE Lanes result() const { return met.corrected(sum); }

  Lanes sum;
  MetLanes<Op> met;
};

// kVectors neighbouring vectors of columns over all rows.
template <class Op, size_t kVectors, class Loader>
HWY_INLINE void column_strip(const Loader& loader, const ReduceCall& call, size_t column,
                             float* dst) {
  const Tag d;
  const auto* src = static_cast<const typename Loader::Element*>(call.src) + column;
  ColumnSums<Op> sums[kVectors];
#pragma GCC unroll 4
  for (size_t v = 0; v < kVectors; ++v) sums[v].begin(hn::LoadU(d, dst + v * hn::Lanes(d)));
  for (size_t r = 0; r < call.rows; ++r, src += call.stride) {
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) sums[v].add(loader.load(d, src + v * hn::Lanes(d)));
  }
#pragma GCC unroll 4
  for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v].result(), d, dst + v * hn::Lanes(d));
}

template <class Op, class Loader>
void float_columns(const ReduceCall& call) {
  const Tag d;
  const Loader loader(nullptr);
  auto* dst = static_cast<float*>(call.dst);
  const size_t lanes = hn::Lanes(d);
  size_t c = 0;
  for (; c + 4 * lanes <= call.cols; c += 4 * lanes) {
    column_strip<Op, 4>(loader, call, c, dst + c);
  }
  for (; c + lanes <= call.cols; c += lanes) column_strip<Op, 1>(loader, call, c, dst + c);
  if (c == call.cols) return;
  const size_t count = call.cols - c;
  const auto* src = static_cast<const typename Loader::Element*>(call.src) + c;
  HWY_ALIGN float rest[hn::MaxLanes(Tag())] = {};
  std::memcpy(rest, dst + c, count * sizeof(float));
  ColumnSums<Op> sum;
  sum.begin(hn::Load(d, rest));
  for (size_t r = 0; r < call.rows; ++r, src += call.stride) {
    sum.add(load_part(loader, d, src, count));
  }
  hn::Store(sum.result(), d, rest);
  std::memcpy(dst + c, rest, count * sizeof(float));
}

// ------------------------------------------------------------------------------ integers

struct IntegerSum {
  static constexpr int64_t kIdentity = 0;
  static HWY_INLINE int64_t of(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};
struct IntegerProd {
  static constexpr int64_t kIdentity = 1;
  static HWY_INLINE int64_t of(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};
struct IntegerMax {
  static constexpr int64_t kIdentity = INT64_MIN;
  static HWY_INLINE int64_t of(int64_t a, int64_t b) { return a > b ? a : b; }
};
struct IntegerMin {
  static constexpr int64_t kIdentity = INT64_MAX;
  static HWY_INLINE int64_t of(int64_t a, int64_t b) { return a < b ? a : b; }
};

template <class Op, class T>
void integer_rows(const ReduceCall& call) {
  const auto* src = static_cast<const T*>(call.src);
  auto* dst = static_cast<int64_t*>(call.dst);
  for (size_t r = 0; r < call.rows; ++r) {
    int64_t result = Op::kIdentity;
    for (size_t c = 0; c < call.cols; ++c) result = Op::of(result, src[r * call.stride + c]);
    dst[r] = result;
  }
}

template <class Op, class T>
void integer_columns(const ReduceCall& call) {
  const auto* src = static_cast<const T*>(call.src);
  auto* dst = static_cast<int64_t*>(call.dst);
  for (size_t r = 0; r < call.rows; ++r) {
    for (size_t c = 0; c < call.cols; ++c) dst[c] = Op::of(dst[c], src[r * call.stride + c]);
  }
}

struct Row {
  const char* op;
  DType dtype;
  ReduceInstruction rows, columns;
};

#define KEEL_REDUCTIONS(name, FloatOp, IntegerOp)                                            \
  {name, f32, &float_rows<FloatOp, FloatLoader>, &float_columns<FloatOp, FloatLoader>},      \
      {name, f16, &float_rows<FloatOp, HalfLoader<HalfCodec>>,                               \
       &float_columns<FloatOp, HalfLoader<HalfCodec>>},                                      \
      {name, bf16, &float_rows<FloatOp, HalfLoader<BFloat16Codec>>,                          \
       &float_columns<FloatOp, HalfLoader<BFloat16Codec>>},                                  \
      {name, i64, &integer_rows<IntegerOp, int64_t>, &integer_columns<IntegerOp, int64_t>},  \
      {name, i32, &integer_rows<IntegerOp, int32_t>, &integer_columns<IntegerOp, int32_t>},  \
      {name, u8, &integer_rows<IntegerOp, uint8_t>, &integer_columns<IntegerOp, uint8_t>}, { \
    name, boolean, &integer_rows<IntegerOp, uint8_t>, &integer_columns<IntegerOp, uint8_t>   \
  }

constexpr Row kRows[] = {
    KEEL_REDUCTIONS("sum", SumLanes, IntegerSum),
    KEEL_REDUCTIONS("prod", ProdLanes, IntegerProd),
    KEEL_REDUCTIONS("max", MaxLanesOp, IntegerMax),
    KEEL_REDUCTIONS("min", MinLanesOp, IntegerMin),
};

const Row* find_row(std::string_view op, DType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype && op == row.op) return &row;
  }
  return nullptr;
}

}  // namespace

ReduceInstruction find_rows_here(std::string_view op, DType dtype) {
  const Row* row = find_row(op, dtype);
  return row == nullptr ? nullptr : row->rows;
}
ReduceInstruction find_columns_here(std::string_view op, DType dtype) {
  const Row* row = find_row(op, dtype);
  return row == nullptr ? nullptr : row->columns;
}

// Four accumulator vectors, see RunSums.
size_t run_width_here() { return 4 * hn::Lanes(Tag()); }

}  // namespace keel::npu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::npu {

HWY_EXPORT(find_rows_here);
HWY_EXPORT(find_columns_here);
HWY_EXPORT(run_width_here);

ReduceInstruction find_reduce_rows(std::string_view op, DType dtype) {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(find_rows_here)(op, dtype);
}

ReduceInstruction find_reduce_columns(std::string_view op, DType dtype) {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(find_columns_here)(op, dtype);
}

size_t reduce_run_width(DType dtype) {
  host_isa();
  return accumulator_of(dtype) == f32 ? HWY_DYNAMIC_DISPATCH(run_width_here)() : 1;
}

void reduce_identity(std::string_view op, DType dtype, void* accumulator) {
  const int64_t integer = op == "sum"    ? 0
                          : op == "prod" ? 1
                          : op == "max"  ? std::numeric_limits<int64_t>::min()
                                         : std::numeric_limits<int64_t>::max();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float real = op == "sum"    ? 0.0f
                     : op == "prod" ? 1.0f
                     : op == "max"  ? -kInfinity
                                    : kInfinity;
  if (accumulator_of(dtype) == f32) {
    std::memcpy(accumulator, &real, sizeof(real));
  } else {
    std::memcpy(accumulator, &integer, sizeof(integer));
  }
}

}  // namespace keel::npu
#endif
