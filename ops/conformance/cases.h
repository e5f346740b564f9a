// Random cases of an op, drawn from its own sample function: small ones first, the same in every
// run; where one fails, a smaller size of it that fails too is looked for. Every case can be
// repeated from its seed, dtype and size. Pure functions; any thread.
#ifndef KEEL_OPS_CONFORMANCE_CASES_H
#define KEEL_OPS_CONFORMANCE_CASES_H

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/conformance/evaluate.h"

namespace keel::conformance {

// A sample with the graph it builds: inputs named x0, x1 ... with the sample's own types.
struct Case {
  uint64_t seed = 0;
  DType dtype = f64;
  int size = 0;
  Sample sample;
  std::unique_ptr<Graph> graph;
  Values inputs;
  Values outputs;
  NamedTensors tensors;

  // Returns a few random numbers of its own, for weights and for elements to probe.
  SampleSource source(uint64_t purpose) const;
};

// The case is not drawn (its graph is null) where the op has no sample of this dtype.
Case make_case(const OpDef& op, uint64_t seed, DType dtype, int size);

// Returns the graph with concrete types that computes `fetches` of the case's graph, gradients
// expanded.
std::unique_ptr<Graph> specialise_case(const Case& c, const Values& fetches);

// Inputs of the case that may be differentiated, by position.
std::vector<size_t> differentiable_inputs(const Case& c);

// sum over float outputs of sum(output * fixed random weights): a scalar to differentiate. Invalid
// where no output is a float.
Value weighted_sum(const Case& c);

// Says what is wrong with a case; empty where nothing is.
using Property = std::function<std::string(const Case&)>;

// Runs `property` on `count` random cases of one dtype; the first failure, at its smallest size,
// with what repeats it, or nothing. Exceptions are failures.
std::string check_cases(const OpDef& op, DType dtype, int count, const Property& property);

// Returns the cases of each dtype where `dtypes` of them share `count`: at least ten.
int cases_for_each_dtype(int count, size_t dtypes);
// check_cases over all dtypes that the op has samples of, which share `count`. Failures are joined.
std::string check_all_dtypes(const OpDef& op, int count, const Property& property);

// Dtypes that the op has samples of: drawn, and accepted by its inference.
std::vector<DType> sampled_dtypes(const OpDef& op);

// Built-in ops that compute something: all but sources, control and effects.
KEEL_API std::vector<const OpDef*> computing_ops();

}  // namespace keel::conformance

#endif  // KEEL_OPS_CONFORMANCE_CASES_H
