// Every op on every backend and dtype that it claims, forward and gradient, against the references.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/passes/passes.h"
#include "keel/graph/runtime/session.h"

#include "conformance/cases.h"
#include "conformance/tolerance.h"

TEST_SUITE_BEGIN("conformance");

namespace keel::conformance {
namespace {

// Whether the backend runs the fetches, itself or by decompositions.
bool claims(Backend& backend, const Case& c, const Values& fetches) {
  const auto graph = specialise_case(c, fetches);
  try {
    decompose(*graph, [&](const Node& node) { return backend.supports(node); });
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<Tensor> run_on(Backend& backend, const Case& c, const Values& fetches) {
  Session session(*c.graph, Device(&backend, 0));
  SpecialiseRequest request{
      .graph = c.graph.get(), .fetches = fetches, .update = {}, .input_types = {}};
  Feeds feeds;
  for (const Value& input : reached_inputs(request)) {
    feeds.emplace_back(input, c.tensors.at(name_of(input.node())));
  }
  return session.run(fetches, feeds);
}

std::string check_forward(Backend& backend, const Case& c) {
  const auto graph = specialise_case(c, c.outputs);
  const Evaluation expected(*graph, c.tensors);
  return compare_outputs(run_on(backend, c, c.outputs), *graph, expected);
}

// A gradient is many ops: its error is bounded by the largest number on the way, not element by
// element.
std::string check_gradient(Backend& backend, const Case& c) {
  const Value loss = weighted_sum(c);
  Values xs;
  for (const size_t i : differentiable_inputs(c)) xs.push_back(c.inputs[i]);
  if (!loss.valid() || xs.empty()) return "";
  const Values fetches = gradients(loss, xs);
  if (!claims(backend, c, fetches)) return "";
  const auto graph = specialise_case(c, fetches);
  const Evaluation expected(*graph, c.tensors);
  const std::vector<Tensor> got = run_on(backend, c, fetches);
  for (size_t i = 0; i < got.size(); ++i) {
    const Tensor& reference = expected(graph->outputs()[i]);
    const Tensor scale = Tensor::full(f64, reference.shape(), expected.largest());
    const std::string difference = compare(got[i], reference, {.ulps = 32, .k = 16}, scale);
    if (!difference.empty()) {
      return "gradient of " + name_of(c.inputs[differentiable_inputs(c)[i]].node()) + " " +
             difference;
    }
  }
  return "";
}

// Samples of one op and dtype, at least one of which the backend must run for the pair to count.
bool claims_dtype(Backend& backend, const OpDef& op, DType dtype) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const Case c = make_case(op, seed, dtype, 20);
    if (c.graph != nullptr && claims(backend, c, c.outputs)) return true;
  }
  return false;
}

void check_backend(const std::string& name) {
  Backend& backend = keel::backend(name);
  std::set<std::string> missing;
  for (const OpDef* op : computing_ops()) {
    std::vector<DType> claimed;
    for (const DType dtype : sampled_dtypes(*op)) {
      if (claims_dtype(backend, *op, dtype))
        claimed.push_back(dtype);
      else if (dtype == f32)
        missing.insert(op->name);
    }
    const int share = cases_for_each_op() / std::max(1, static_cast<int>(claimed.size())) + 1;
    for (const DType dtype : claimed) {
      const std::string problem =
          check_cases(*op, dtype, std::max(share, 10), [&](const Case& c) -> std::string {
            if (!claims(backend, c, c.outputs)) return "";
            const std::string difference = check_forward(backend, c);
            return difference.empty() ? check_gradient(backend, c) : difference;
          });
      CHECK_MESSAGE(problem.empty(), name, ": ", problem);
    }
  }
  for (const std::string& op : missing) CHECK_MESSAGE(false, name, " does not run ", op, " in f32");
}

}  // namespace

// One case each, so that they run and fail apart.
TEST_CASE("ref agrees with the references") { check_backend("ref"); }
TEST_CASE("cpu agrees with the references") { check_backend("cpu"); }
TEST_CASE("npu agrees with the references") { check_backend("npu"); }

TEST_CASE("every built-in backend has its case here") {
  for (const BackendFactory& factory : builtin_backends()) {
    const std::string name = factory.name;
    CHECK_MESSAGE((name == "ref" || name == "cpu" || name == "npu"), name);
  }
}

}  // namespace keel::conformance

TEST_SUITE_END();
