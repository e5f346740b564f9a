// Chains: several instructions over contiguous elements in one pass. A value is handed on from step
// to step in the processor's registers, where instructions one after the other would store it and
// load it again. Each step computes what the instruction of its op does, so the bits are those of
// the instructions. The vector library (vector/chain.cpp) runs them, which neither allocates nor
// throws and may happen on any number of threads at once.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_CHAIN_H
#define KEEL_BACKENDS_COMMON_VECTOR_CHAIN_H

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"

namespace keel::vector {

// Each step makes the next v of v, the value that is handed on, and of its operands a, b, c and d.
enum class ChainOp : uint8_t {
  kLoad,          // a
  kStore,         // v, which is written to `dst` besides
  kAdd,           // v + a
  kSubtract,      // v - a
  kSubtractFrom,  // a - v
  kMultiply,      // v * a
  kDivide,        // v / a
  kDivideInto,    // a / v
  kMaximum,       // of v and a
  kMinimum,
  // These seven read v alone.
  kNegate,
  kAbsolute,
  kSquare,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kRelu,
  kSelectEqual,  // a == b ? c : d
  kSelectNotEqual,
  kSelectLess,  // a < b ? c : d
  kSelectLessEqual,
  kSelectGreater,
  kSelectGreaterEqual,
};

// The most elements that a chain reads together, and that a vector of it has.
inline constexpr size_t kChainGroup = 256;
inline constexpr size_t kMostChainLanes = 16;

// Its members have no initial values, as a kernel makes many of these for each tile.
struct ChainOperand {
  static constexpr size_t kNeverRepeats = std::numeric_limits<size_t>::max();

  const void* at;  // null: v
  bool scalar;     // one element, used for all
  // Elements after which the operand begins again. REQUIRES at least kChainGroup of them, with the
  // first kChainGroup stored once more behind the last. 0: `at` is the room for a
  // group that a store before it filled (ChainStep::for_group).
  size_t period;
  // The place of the next element in the period, or in the run of the element at `at`.
  size_t offset;
  // Elements of the chain, one after the other, for each of which the same element of the operand
  // is read: 1, or at least kMostChainLanes. An operand with longer runs has no period.
  size_t run;
  // Bytes from what is read to what is asked for meanwhile, which a later group or the next row
  // reads; 0: nothing is asked for.
  size_t ahead;
};

// Members that its op does not read need no value.
struct ChainStep {
  ChainOp op;
  bool streams;    // of a store: VectorCall::streams
  bool for_group;  // of a store: dst is room for one group, which the next one overwrites
  void* dst;
  ChainOperand operands[4];
};

// Runs the steps over n elements; moves the operands on behind them. REQUIRES what a VectorCall
// does of all that is read and written, and that no step reads v before one has made it.
using ChainInstruction = void (*)(std::span<ChainStep> steps, size_t n);

// Returns what runs chains of the dtype, f32 or f64, for the host ISA in use; null for any other.
KEEL_API ChainInstruction find_chain(DType dtype);

// The steps that an element-wise op of one or two operands may be.
struct ChainOps {
  ChainOp of_first;   // where v is the first operand
  ChainOp of_second;  // where v is the second of two
};
KEEL_API std::optional<ChainOps> find_chain_ops(std::string_view op);

// Returns the step that selects by a comparison of that name.
KEEL_API std::optional<ChainOp> find_chain_select(std::string_view comparison);

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_CHAIN_H
