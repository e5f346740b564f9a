// Reductions over rows and columns of a tile.
#include "keel/backends/common/vector/reductions.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/vector/reductions.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/vector/host_isa.h"
#include "keel/backends/common/vector/loaders-inl.h"
#include "keel/backends/common/vector/reduce_lanes-inl.h"
#include "keel/core/base/half.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace {

// ------------------------------------------------------------------------------ floats

template <class Op, class Loader>
void float_rows(const ReduceCall& call) {
  const Loader loader;
  const auto* src = static_cast<const typename Loader::Element*>(call.src);
  auto* dst = static_cast<typename Loader::Lane*>(call.dst);
  for (size_t r = 0; r < call.rows; ++r) {
    dst[r] = reduce_run<Op>(loader, src + r * call.stride, call.cols);
  }
}

// One vector of columns, each lane by itself.
template <class Op, class T>
struct ColumnSums {
  using Tag = hn::ScalableTag<T>;
  using Lanes = hn::Vec<Tag>;

  HWY_INLINE ColumnSums() : sum(hn::Zero(Tag())), met(sum) {}
  HWY_INLINE void begin(Lanes first) {
    sum = first;
    met = MetLanes<Op, T>(first);
  }
  HWY_INLINE void add(Lanes v) {
    sum = Op::of(sum, v);
    met.add(v);
  }
  HWY_INLINE Lanes result() const { return met.corrected(sum); }

  Lanes sum;
  MetLanes<Op, T> met;
};

// kVectors neighbouring vectors of columns over all rows.
template <class Op, size_t kVectors, class Loader>
HWY_INLINE void column_vectors(const Loader& loader, const ReduceCall& call, size_t column,
                               typename Loader::Lane* dst) {
  using Sums = ColumnSums<Op, typename Loader::Lane>;
  const typename Sums::Tag d;
  const auto* src = static_cast<const typename Loader::Element*>(call.src) + column;
  Sums sums[kVectors];
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
  using T = typename Loader::Lane;
  using Sums = ColumnSums<Op, T>;
  const typename Sums::Tag d;
  const Loader loader;
  auto* dst = static_cast<T*>(call.dst);
  const size_t lanes = hn::Lanes(d);
  size_t c = 0;
  for (; c + 4 * lanes <= call.cols; c += 4 * lanes) {
    column_vectors<Op, 4>(loader, call, c, dst + c);
  }
  for (; c + 2 * lanes <= call.cols; c += 2 * lanes) {
    column_vectors<Op, 2>(loader, call, c, dst + c);
  }
  for (; c + lanes <= call.cols; c += lanes) column_vectors<Op, 1>(loader, call, c, dst + c);
  if (c == call.cols) return;
  const size_t count = call.cols - c;
  const auto* src = static_cast<const typename Loader::Element*>(call.src) + c;
  HWY_ALIGN T rest[hn::MaxLanes(typename Sums::Tag())] = {};
  std::memcpy(rest, dst + c, count * sizeof(T));
  Sums sum;
  sum.begin(hn::Load(d, rest));
  for (size_t r = 0; r < call.rows; ++r, src += call.stride) {
    sum.add(load_part(loader, d, src, count));
  }
  hn::Store(sum.result(), d, rest);
  std::memcpy(dst + c, rest, count * sizeof(T));
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

struct Entry {
  const char* op;
  DType dtype;
  ReduceInstruction rows, columns;
};

#define KEEL_FLOAT_REDUCTION(name, dtype, Op, Loader) \
  { name, dtype, &float_rows<Op, Loader>, &float_columns<Op, Loader> }
#define KEEL_INTEGER_REDUCTION(name, dtype, Op, T) \
  { name, dtype, &integer_rows<Op, T>, &integer_columns<Op, T> }
#define KEEL_REDUCTIONS(name, FloatOp, IntegerOp)                           \
  KEEL_FLOAT_REDUCTION(name, f64, FloatOp, DoubleLoader),                   \
      KEEL_FLOAT_REDUCTION(name, f32, FloatOp, FloatLoader),                \
      KEEL_FLOAT_REDUCTION(name, f16, FloatOp, HalfLoader<HalfCodec>),      \
      KEEL_FLOAT_REDUCTION(name, bf16, FloatOp, HalfLoader<BFloat16Codec>), \
      KEEL_INTEGER_REDUCTION(name, i64, IntegerOp, int64_t),                \
      KEEL_INTEGER_REDUCTION(name, i32, IntegerOp, int32_t),                \
      KEEL_INTEGER_REDUCTION(name, u8, IntegerOp, uint8_t),                 \
      KEEL_INTEGER_REDUCTION(name, boolean, IntegerOp, uint8_t)

constexpr Entry kEntries[] = {
    KEEL_REDUCTIONS("sum", SumLanes, IntegerSum),
    KEEL_REDUCTIONS("prod", ProdLanes, IntegerProd),
    KEEL_REDUCTIONS("max", MaxLanesOp, IntegerMax),
    KEEL_REDUCTIONS("min", MinLanesOp, IntegerMin),
};

const Entry* find_entry(std::string_view op, DType dtype) {
  for (const Entry& entry : kEntries) {
    if (entry.dtype == dtype && op == entry.op) return &entry;
  }
  return nullptr;
}

}  // namespace

ReduceInstructions find_reduction_here(std::string_view op, DType dtype) {
  const Entry* entry = find_entry(op, dtype);
  const Entry* merge = find_entry(op, accumulator_of(dtype));
  if (entry == nullptr || merge == nullptr) return {};
  return {entry->rows, entry->columns, merge->columns, nullptr};
}

// Four accumulator vectors, see RunSums.
size_t run_width_here(DType accumulator) {
  if (accumulator == f64) return 4 * hn::Lanes(hn::ScalableTag<double>());
  return accumulator == f32 ? 4 * hn::Lanes(hn::ScalableTag<float>()) : 1;
}

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::vector {
namespace {

// The vector library knows reductions by the names of the ops, like its instructions.
template <class T>
T identity_of(std::string_view op) {
  using Limits = std::numeric_limits<T>;
  if (op == "sum") return T{0};
  if (op == "prod") return T{1};
  if (op == "max") return Limits::has_infinity ? -Limits::infinity() : Limits::min();
  return Limits::has_infinity ? Limits::infinity() : Limits::max();
}

void write_identity(std::string_view op, DType dtype, void* accumulator) {
  visit_dtype(accumulator_of(dtype), [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T>) *static_cast<T*>(accumulator) = identity_of<T>(op);
  });
}

}  // namespace

HWY_EXPORT(find_reduction_here);
HWY_EXPORT(run_width_here);

ReduceInstructions find_reduction(std::string_view op, DType dtype) {
  host_isa();
  ReduceInstructions found = HWY_DYNAMIC_DISPATCH(find_reduction_here)(op, dtype);
  if (found.complete()) found.identity = write_identity;
  return found;
}

size_t reduce_run_width(DType dtype) {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(run_width_here)(accumulator_of(dtype));
}

}  // namespace keel::vector
#endif
