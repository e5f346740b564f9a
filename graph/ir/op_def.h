// OpDef: everything that defines an op, in one object, filled in by
// ops/<family>.cpp: attributes, type inference, reference, gradient, optional
// decomposition, traits, error bound, samples. Immutable after registration;
// any thread.
#ifndef KEEL_GRAPH_IR_OP_DEF_H
#define KEEL_GRAPH_IR_OP_DEF_H

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/value.h"

namespace keel {

class OpTable;
struct OpDef;
struct Sample;
class SampleSource;

// Traits are what passes, placers and cost models may know of an op; nothing else about it
// is known outside ops/ and the backends.
enum Trait : uint32_t {
  kElementwise = 1u << 0,  // output element i depends on element i of inputs
                           // broadcast to the output's shape
  kReduction = 1u << 1,    // combines elements along axes
  kProduct = 1u << 2,      // matrix product or convolution
  kView = 1u << 3,         // output 0 is the bytes of input 0 under another shape
  kMovement = 1u << 4,     // moves elements without changing them
  kEffect = 1u << 5,       // not pure: ordered by tokens, which Graph::add threads through; never
                           // merged, moved or dropped
  kRandom = 1u << 6,       // takes a key; pure in it
  kSource = 1u << 7,       // input, state, constant: no computation
  kControl = 1u << 8,      // has bodies
  kNoFold = 1u << 9,       // never evaluated at compile time (sources of large
                           // constants such as iota)
  kRowWise = 1u << 10,     // row i of each output depends on row i of the inputs alone, a row
                           // being what lies along the last axis of input 0
  kGather = 1u << 11,      // takes the slices of input 0 that input 1 names, along its `axis`
  kConversion = 1u << 12,  // gives the elements of input 0 in another dtype
  kBroadcast = 1u << 13,   // repeats input 0 as element-wise ops do by themselves
  kCommutes = 1u << 14,    // its two inputs may change places
  kCheap = 1u << 15,       // an instruction or two for each element: computing it again costs less
                           // than reading it from memory
  kAddsTo = 1u << 16,      // op(x, ...) is x + op(0, ...), but for the order of sums
};

// The ops that the IR, control flow and the runtime are themselves made of. What else an op is, its
// traits say.
enum class OpRole : uint8_t {
  kNone,
  kInput,
  kState,
  kConstant,
  kToken,  // the token before the first effect of a graph
  kFused,
  kWhile,
  kCond,
  kGradient,
  kStopGradient,
  kDequeue,
  kStepEnd,
  kSunkLoop,
  kFloatStatus,  // tells whether computing its inputs overflowed
  kAdd,          // counts the turns of loops
  kSelect,       // gives input 1 where input 0 holds, else input 2
};

// How mixed precision treats an op whose class nobody changed: computed in the low dtype, never, or
// where its operands are low already.
enum class MixClass : uint8_t { kGray, kWhite, kBlack };

// |got - reference| <= ulps * ulp(reference) + k * eps(dtype) * scale, where
// scale is sum|a||b| for products and sum|x| for reductions (k counts as in k *
// eps * sum). Both 0: bit-equal.
struct ErrorBound {
  double ulps = 0;
  double k = 0;
};

class KEEL_API InferContext {
 public:
  InferContext(const OpDef& op_def, std::span<const Type> input_types, const Attributes& attrs,
               std::span<const std::shared_ptr<Graph>> body_graphs, CallSite call_site)
      : op(op_def), inputs(input_types), attributes(attrs), bodies(body_graphs), site(call_site) {}

  const OpDef& op;
  std::span<const Type> inputs;
  const Attributes& attributes;
  std::span<const std::shared_ptr<Graph>> bodies;
  CallSite site;

  template <class S>
  const S& as() const {
    return attributes.as<S>();
  }
  // Returns the declared name of input i ("a", "b"), or "input 3".
  std::string input_name(size_t i) const;
  [[noreturn]] void fail(const std::string& argument, const std::string& expected,
                         const std::string& got, const std::string& fix = "") const;
  // Throws unless all inputs have one dtype; the message names `cast`.
  void require_same_dtype() const;
  void require_rank(size_t input, size_t at_least, size_t at_most) const;
  void require(size_t input, bool ok,
               const std::string& expected) const;  // dtype or shape of one input
};

// Reference evaluation: naive loops, in double rounded once to the output
// dtype; integers and bool in their own type. Outputs are allocated by the
// caller with the inferred types; they never overlap the inputs.
struct ReferenceContext {
  const OpDef& op;
  const Attributes& attributes;
  std::span<const Tensor> inputs;
  std::span<Tensor> outputs;

  template <class S>
  const S& as() const {
    return attributes.as<S>();
  }
};

// A gradient or decomposition is built from this. All types are concrete; new
// nodes carry `site`.
struct BuildContext {
  const OpDef& op;
  const Attributes& attributes;
  std::span<const Value> inputs;
  std::span<const Value> outputs;           // of the node itself; empty in decompositions
  std::span<const Value> output_gradients;  // invalid where nothing flows back;
                                            // empty in decompositions
  std::span<const std::shared_ptr<Graph>> bodies;
  Graph& graph;
  CallSite site;
  // Says for each input whether its gradient is asked for. Ops that would compute it in a loop look
  // here; what others give unasked is dropped. Empty in decompositions.
  std::vector<bool> wanted;

  template <class S>
  const S& as() const {
    return attributes.as<S>();
  }
};

// An input of indices that kernels look at: they throw Error for one outside [0, limit).
struct CheckedIndices {
  size_t input = 0;
  std::function<int64_t(const Node&)> limit;  // of a specialised node; -1 where it checks nothing
};

struct OpDef {
  std::string name;
  std::string summary;                   // one line for the op reference
  std::vector<std::string> input_names;  // also the arity, unless `variadic`
  bool variadic = false;                 // any number >= input_names.size() of inputs; the last
                                         // name repeats
  size_t optional_inputs = 0;            // how many of the last names may be left out
  size_t bodies = 0;
  const AttributesSchema* attributes = nullptr;

  std::function<std::vector<Type>(const InferContext&)> infer;
  std::function<void(const ReferenceContext&)>
      reference;  // empty only for sources, control and effects
  // One Value for each input, invalid where no gradient flows. Empty: not
  // differentiable.
  std::function<Values(const BuildContext&)> gradient;
  // One Value for each output, made of simpler ops. Empty: a primitive.
  std::function<Values(const BuildContext&)> decompose;
  std::string not_differentiable;  // why, and what to do instead; for the error
                                   // where `gradient` is empty

  uint32_t traits = 0;
  OpRole role = OpRole::kNone;
  MixClass mix_class = MixClass::kGray;
  std::optional<double> neutral;  // what as the second operand leaves the first one's bits
  std::optional<CheckedIndices> checked_indices;
  ErrorBound bound;
  // Draws one random test case; see sample.h. Empty only for sources, control
  // and effects.
  std::function<Sample(SampleSource&)> sample;

  const OpTable* table = nullptr;  // set at registration

  bool has(uint32_t trait) const noexcept { return (traits & trait) != 0; }
};

}  // namespace keel

#endif  // KEEL_GRAPH_IR_OP_DEF_H
