#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "keel/backends/common/vector_chain.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/vector/chain.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/vector/float_ops-inl.h"
#include "keel/backends/common/vector/host_isa.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace {

struct SecondOp {
  template <class V>
  HWY_INLINE V operator()(V, V b) const {
    return b;
  }
};

template <class Op>
struct Swapped {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return Op()(b, a);
  }
};

// Returns where the next `count` elements of an operand lie, and moves on behind them.
template <class T>
HWY_INLINE const T* take(ChainOperand& operand, size_t count) {
  if (operand.period == 0) return static_cast<const T*>(operand.at);
  const T* from = static_cast<const T*>(operand.at) + operand.offset;
  const size_t next = operand.offset + count;
  operand.offset = next >= operand.period ? next - operand.period : next;
  return from;
}

// Returns a vector of the next `count` elements of an operand each of which stands for a run, and
// moves on behind them. What lies behind the last one that is needed is not read.
template <class T>
HWY_INLINE hn::Vec<hn::ScalableTag<T>> take_of_runs(ChainOperand& operand, size_t count) {
  const hn::ScalableTag<T> d;
  const T* at = static_cast<const T*>(operand.at);
  const size_t rest = operand.run - operand.offset;
  auto v = hn::Set(d, *at);
  operand.offset += count;
  if (count > rest) v = hn::IfThenElse(hn::FirstN(d, rest), v, hn::Set(d, at[1]));
  if (count >= rest) {
    operand.at = at + 1;
    operand.offset = count - rest;
  }
  return v;
}

// kVectors vectors of elements on their way through the steps. Of the last vector of a chain only
// `count` lanes are elements; they alone are read and written, and kPart is set.
template <class T, size_t kVectors, bool kPart>
class Group {
 public:
  // A row of `spread` has room for an operand of kVectors vectors.
  HWY_INLINE Group(size_t at, size_t count, T (*spread)[kChainGroup])
      : at_(at), count_(count), spread_(spread) {
    each([&](size_t i) HWY_ATTR { v_[i] = hn::Zero(Tag()); });
  }

  HWY_INLINE void run(std::span<ChainStep> steps) {
    for (ChainStep& step : steps) run(step);
  }

 private:
  using Tag = hn::ScalableTag<T>;
  using V = hn::Vec<Tag>;
  static constexpr size_t kMostLanes = hn::MaxLanes(Tag());
  static_assert(kMostLanes <= kMostChainLanes);

  template <class F>
  static HWY_INLINE void each(const F& f) {
#pragma GCC unroll 16
    for (size_t i = 0; i < kVectors; ++i) f(i);
  }

  HWY_INLINE void run(ChainStep& step) {
    switch (step.op) {
      case ChainOp::kLoad:
        return with_operand(SecondOp(), step);
      case ChainOp::kStore:
        return store(step);
      case ChainOp::kAdd:
        return with_operand(AddOp(), step);
      case ChainOp::kSubtract:
        return with_operand(SubOp(), step);
      case ChainOp::kSubtractFrom:
        return with_operand(Swapped<SubOp>(), step);
      case ChainOp::kMultiply:
        return with_operand(MulOp(), step);
      case ChainOp::kDivide:
        return with_operand(DivOp(), step);
      case ChainOp::kDivideInto:
        return with_operand(Swapped<DivOp>(), step);
      case ChainOp::kMaximum:
        return with_operand(MaximumOp(), step);
      case ChainOp::kMinimum:
        return with_operand(MinimumOp(), step);
      case ChainOp::kNegate:
        return alone(NegOp());
      case ChainOp::kAbsolute:
        return alone(AbsOp());
      case ChainOp::kSquare:
        return alone(SquareOp());
      case ChainOp::kSqrt:
        return alone(SqrtOp());
      case ChainOp::kRsqrt:
        return alone(RsqrtOp());
      case ChainOp::kReciprocal:
        return alone(ReciprocalOp());
      case ChainOp::kRelu:
        return alone(ReluOp());
      case ChainOp::kSelectEqual:
      case ChainOp::kSelectNotEqual:
      case ChainOp::kSelectLess:
      case ChainOp::kSelectLessEqual:
      case ChainOp::kSelectGreater:
      case ChainOp::kSelectGreaterEqual:
        return select(step);
    }
  }

  HWY_INLINE V load(const T* from) const {
    if constexpr (!kPart) return hn::LoadU(Tag(), from);
    HWY_ALIGN T lanes[kMostLanes] = {};
    std::memcpy(lanes, from, count_ * sizeof(T));
    return hn::Load(Tag(), lanes);
  }

  // Asks for as many bytes as a group reads of an operand.
  static HWY_INLINE void ask_for(const char* at) {
    constexpr size_t kLine = 64;
    const size_t bytes = kVectors * hn::Lanes(Tag()) * sizeof(T);
    for (size_t b = 0; b < bytes; b += kLine) __builtin_prefetch(at + b);
  }

  template <class Op>
  HWY_INLINE void alone(const Op& op) {
    each([&](size_t i) HWY_ATTR { v_[i] = op(v_[i]); });
  }

  template <class Op>
  HWY_INLINE void with_operand(const Op& op, ChainStep& step) {
    ChainOperand& operand = step.operands[0];
    const size_t lanes = hn::Lanes(Tag());
    if (operand.at == nullptr) {
      each([&](size_t i) HWY_ATTR { v_[i] = op(v_[i], v_[i]); });
    } else if (operand.scalar) {
      const V all = hn::Set(Tag(), *static_cast<const T*>(operand.at));
      each([&](size_t i) HWY_ATTR { v_[i] = op(v_[i], all); });
    } else {
      const T* from = elements_of(operand, spread_[0]);
      each([&](size_t i) HWY_ATTR { v_[i] = op(v_[i], load(from + i * lanes)); });
    }
  }

  // Returns where the next elements of an operand lie that is neither one scalar nor the vectors on
  // their way, and moves on behind them; runs are spread over `to` first.
  HWY_INLINE const T* elements_of(ChainOperand& operand, T* to) const {
    const size_t lanes = hn::Lanes(Tag());
    if (operand.run > 1) {
      for (size_t i = 0; i < kVectors; ++i)
        hn::Store(take_of_runs<T>(operand, count_ / kVectors), Tag(), to + i * lanes);
      return to;
    }
    const T* from = take<T>(operand, kVectors * lanes);
    if (operand.ahead != 0) ask_for(reinterpret_cast<const char*>(from) + operand.ahead);
    return from;
  }

  // The four operands as vectors in memory: what is not stored like that is spread there first.
  HWY_INLINE void select(ChainStep& step) {
    const Tag d;
    const size_t lanes = hn::Lanes(d);
    const T* from[4] = {};
    size_t pitch[4] = {};
    for (size_t s = 0; s < 4; ++s) {
      ChainOperand& operand = step.operands[s];
      pitch[s] = operand.scalar ? 0 : lanes;
      from[s] = spread_[s];
      if (operand.at == nullptr) {
        each([&](size_t i) HWY_ATTR { hn::Store(v_[i], d, spread_[s] + i * lanes); });
      } else if (operand.scalar) {
        hn::Store(hn::Set(d, *static_cast<const T*>(operand.at)), d, spread_[s]);
      } else {
        from[s] = elements_of(operand, spread_[s]);
      }
    }
    switch (step.op) {
      case ChainOp::kSelectEqual:
        return choose<EqualOp>(from, pitch);
      case ChainOp::kSelectNotEqual:
        return choose<NotEqualOp>(from, pitch);
      case ChainOp::kSelectLess:
        return choose<LessOp>(from, pitch);
      case ChainOp::kSelectLessEqual:
        return choose<LessEqualOp>(from, pitch);
      case ChainOp::kSelectGreater:
        return choose<GreaterOp>(from, pitch);
      default:
        return choose<GreaterEqualOp>(from, pitch);
    }
  }

  template <class Comparison>
  HWY_INLINE void choose(const T* const (&from)[4], const size_t (&pitch)[4]) {
    each([&](size_t i) HWY_ATTR {
      const auto holds =
          Comparison::test(load(from[0] + i * pitch[0]), load(from[1] + i * pitch[1]));
      v_[i] = hn::IfThenElse(holds, load(from[2] + i * pitch[2]), load(from[3] + i * pitch[3]));
    });
  }

  HWY_INLINE void store(const ChainStep& step) const {
    const Tag d;
    const size_t lanes = hn::Lanes(d);
    T* to = static_cast<T*>(step.dst) + (step.for_group ? 0 : at_);
    if constexpr (kPart) {
      HWY_ALIGN T last[kMostLanes];
      hn::Store(v_[0], d, last);
      std::memcpy(to, last, count_ * sizeof(T));
    } else if (step.streams && reinterpret_cast<uintptr_t>(to) % (lanes * sizeof(T)) == 0) {
      each([&](size_t i) HWY_ATTR { hn::Stream(v_[i], d, to + i * lanes); });
    } else {
      each([&](size_t i) HWY_ATTR { hn::StoreU(v_[i], d, to + i * lanes); });
    }
  }

  size_t at_, count_;
  T (*spread_)[kChainGroup];
  V v_[kVectors];
};

// As many vectors as leave half of the processor's registers to the operands, and a few for what is
// left of a row: a short one has nothing but that, as one of the 48 or 64 columns of a tile on
// `cpu`.
#if HWY_TARGET <= HWY_AVX3
constexpr size_t kVectors = 16, kFewVectors = 4;
#else
constexpr size_t kVectors = 8, kFewVectors = 4;
#endif

template <class T>
void run_chain(std::span<ChainStep> steps, size_t n) {
  const size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  static_assert(kVectors * hn::MaxLanes(hn::ScalableTag<T>()) <= kChainGroup);
  HWY_ALIGN T spread[4][kChainGroup];
  size_t i = 0;
  for (; i + kVectors * lanes <= n; i += kVectors * lanes) {
    Group<T, kVectors, false>(i, kVectors * lanes, spread).run(steps);
  }
  for (; i + kFewVectors * lanes <= n; i += kFewVectors * lanes) {
    Group<T, kFewVectors, false>(i, kFewVectors * lanes, spread).run(steps);
  }
  for (; i + lanes <= n; i += lanes) Group<T, 1, false>(i, lanes, spread).run(steps);
  if (i < n) Group<T, 1, true>(i, n - i, spread).run(steps);
}

}  // namespace

ChainInstruction chain_of(DType dtype) {
  if (dtype == f32) return &run_chain<float>;
  return dtype == f64 ? &run_chain<double> : nullptr;
}

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::vector {

HWY_EXPORT(chain_of);

ChainInstruction find_chain(DType dtype) {
  host_isa();  // makes the choice, if nobody has
  return HWY_DYNAMIC_DISPATCH(chain_of)(dtype);
}

std::optional<ChainOps> find_chain_ops(std::string_view op) {
  struct Entry {
    const char* op;
    ChainOps ops;
  };
  static constexpr Entry kEntries[] = {
      {"add", {ChainOp::kAdd, ChainOp::kAdd}},
      {"sub", {ChainOp::kSubtract, ChainOp::kSubtractFrom}},
      {"mul", {ChainOp::kMultiply, ChainOp::kMultiply}},
      {"div", {ChainOp::kDivide, ChainOp::kDivideInto}},
      {"maximum", {ChainOp::kMaximum, ChainOp::kMaximum}},
      {"minimum", {ChainOp::kMinimum, ChainOp::kMinimum}},
      {"neg", {ChainOp::kNegate, ChainOp::kNegate}},
      {"abs", {ChainOp::kAbsolute, ChainOp::kAbsolute}},
      {"square", {ChainOp::kSquare, ChainOp::kSquare}},
      {"sqrt", {ChainOp::kSqrt, ChainOp::kSqrt}},
      {"rsqrt", {ChainOp::kRsqrt, ChainOp::kRsqrt}},
      {"reciprocal", {ChainOp::kReciprocal, ChainOp::kReciprocal}},
      {"relu", {ChainOp::kRelu, ChainOp::kRelu}},
  };
  const auto* const it = std::find_if(std::begin(kEntries), std::end(kEntries),
                                      [&](const Entry& entry) { return op == entry.op; });
  return it == std::end(kEntries) ? std::nullopt : std::optional(it->ops);
}

std::optional<ChainOp> find_chain_select(std::string_view comparison) {
  if (comparison == "equal") return ChainOp::kSelectEqual;
  if (comparison == "not_equal") return ChainOp::kSelectNotEqual;
  if (comparison == "less") return ChainOp::kSelectLess;
  if (comparison == "less_equal") return ChainOp::kSelectLessEqual;
  if (comparison == "greater") return ChainOp::kSelectGreater;
  if (comparison == "greater_equal") return ChainOp::kSelectGreaterEqual;
  return std::nullopt;
}

}  // namespace keel::vector
#endif
