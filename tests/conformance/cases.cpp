#include "conformance/cases.h"

#include <algorithm>
#include <cstdlib>
#include <rapidcheck.h>
#include <sstream>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/core/base/random.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/ops.h"

namespace keel::conformance {
namespace {

std::string problem_of(const OpDef& op, uint64_t seed, DType dtype, int size,
                       const Property& property) {
  try {
    const Case c = make_case(op, seed, dtype, size);
    return c.graph == nullptr ? "" : property(c);
  } catch (const Error& error) {
    return std::string("throws: ") + error.what();
  }
}

}  // namespace

SampleSource Case::source(uint64_t purpose) const {
  return SampleSource(fold_key(seed, purpose), f64, size);
}

Case make_case(const OpDef& op, uint64_t seed, DType dtype, int size) {
  Case c;
  c.seed = seed;
  c.dtype = dtype;
  c.size = size;
  SampleSource source(seed, dtype, size);
  c.sample = op.sample(source);
  if (c.sample.build == nullptr) return c;
  c.graph = std::make_unique<Graph>(*op.table);
  for (size_t i = 0; i < c.sample.inputs.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    const Tensor& tensor = c.sample.inputs[i];
    c.inputs.push_back(c.graph->input(name, tensor.dtype(), tensor.shape()));
    c.tensors[name] = tensor;
  }
  c.outputs = c.sample.build(*c.graph, c.inputs);
  return c;
}

std::unique_ptr<Graph> specialise_case(const Case& c, const Values& fetches) {
  SpecialiseRequest request{
      .graph = c.graph.get(), .fetches = fetches, .update = {}, .input_types = {}};
  for (const auto& [name, tensor] : c.tensors) request.input_types[name] = tensor.type();
  return specialise(request);
}

std::vector<size_t> differentiable_inputs(const Case& c) {
  const std::vector<bool>& marked = c.sample.differentiable;
  std::vector<size_t> result;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (is_float(c.inputs[i].dtype()) && (marked.empty() || marked.at(i))) result.push_back(i);
  }
  return result;
}

Value weighted_sum(const Case& c) {
  SampleSource source = c.source(1);
  Value total;
  for (const Value& output : c.outputs) {
    if (!is_float(output.dtype())) continue;
    const Tensor weights = source.values(output.dtype(), output.shape(), -2, 2);
    const Value part = sum(mul(output, c.graph->constant(weights)));
    total = total.valid() ? add(total, cast(part, total.dtype())) : part;
  }
  return total;
}

int cases_for_each_op() {
  const char* scale = std::getenv("KEEL_TEST_SCALE");
  return scale != nullptr && std::string(scale) == "long" ? 1000 : 50;
}

std::string check_cases(const OpDef& op, DType dtype, int count, const Property& property) {
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  // The same cases in every run, unless RapidCheck is told otherwise.
  if (std::getenv("RC_PARAMS") == nullptr) {
    params.seed = fold_key(static_cast<uint64_t>(dtype), op.name);
  }
  params.maxSuccess = count;
  std::string smallest;  // shrinking goes on from failures only, so the last one is the smallest
  const auto result = rc::detail::checkTestable(
      [&] {
        const auto any_seed = rc::gen::inRange<uint64_t>(0, uint64_t{1} << 40);
        const uint64_t seed = *rc::gen::noShrink(rc::gen::resize(100, any_seed));
        const int size = *rc::gen::inRange(0, 101);
        const std::string problem = problem_of(op, seed, dtype, size, property);
        if (!problem.empty()) {
          smallest = op.name + " " + name_of(dtype) + ", make_case(op, " + std::to_string(seed) +
                     ", keel::" + name_of(dtype) + ", " + std::to_string(size) + "): " + problem;
        }
        RC_ASSERT(problem.empty());
      },
      rc::detail::TestMetadata{op.name, ""}, params);
  if (result.template is<rc::detail::SuccessResult>()) return "";
  if (!smallest.empty()) return smallest;
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  return text.str();
}

std::vector<DType> sampled_dtypes(const OpDef& op) {
  const auto drawn = [&](uint64_t seed, DType dtype) {
    try {
      return make_case(op, seed, dtype, 20).graph != nullptr;
    } catch (const Error&) {
      return false;  // inference refuses the dtype
    }
  };
  std::vector<DType> dtypes;
  for (const DType dtype : kDTypes) {
    if (drawn(1, dtype) || drawn(2, dtype)) dtypes.push_back(dtype);
  }
  return dtypes;
}

std::string check_all_dtypes(const OpDef& op, const Property& property) {
  const std::vector<DType> dtypes = sampled_dtypes(op);
  if (dtypes.empty()) return op.name + ": no dtype has samples";
  const int share = cases_for_each_op() / static_cast<int>(dtypes.size()) + 1;
  std::string problems;
  for (const DType dtype : dtypes) {
    const std::string problem = check_cases(op, dtype, std::max(share, 10), property);
    if (!problem.empty()) problems += problem + "\n";
  }
  return problems;
}

std::vector<const OpDef*> computing_ops() {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : builtin_ops().all()) {
    if (!op->has(kSource | kControl | kEffect)) ops.push_back(op);
  }
  return ops;
}

}  // namespace keel::conformance
