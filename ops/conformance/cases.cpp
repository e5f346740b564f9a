#include "keel/ops/conformance/cases.h"

#include <algorithm>
#include <exception>
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
  } catch (const std::exception& error) {
    return std::string("throws: ") + error.what();
  } catch (...) {
    return "throws something that is no exception";  // a backend of others may throw anything
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

std::string check_cases(const OpDef& op, DType dtype, int count, const Property& property) {
  constexpr int kLargest = 100;
  constexpr int kSeedBits = 40;
  const uint64_t key = fold_key(static_cast<uint64_t>(dtype), op.name);
  for (int i = 0; i < count; ++i) {
    const uint64_t seed = fold_key(key, static_cast<uint64_t>(i)) >> (64 - kSeedBits);
    const int drawn = count == 1 ? kLargest : i * kLargest / (count - 1);
    std::string problem = problem_of(op, seed, dtype, drawn, property);
    if (problem.empty()) continue;
    int size = drawn;
    for (int smaller = 0; smaller < drawn; ++smaller) {
      std::string smallest = problem_of(op, seed, dtype, smaller, property);
      if (smallest.empty()) continue;
      size = smaller;
      problem = std::move(smallest);
      break;
    }
    return op.name + " " + name_of(dtype) + ", make_case(op, " + std::to_string(seed) +
           ", keel::" + name_of(dtype) + ", " + std::to_string(size) + "): " + problem;
  }
  return "";
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

int cases_for_each_dtype(int count, size_t dtypes) {
  constexpr int kFewest = 10;
  return std::max(kFewest, count / std::max(1, static_cast<int>(dtypes)) + 1);
}

std::string check_all_dtypes(const OpDef& op, int count, const Property& property) {
  const std::vector<DType> dtypes = sampled_dtypes(op);
  if (dtypes.empty()) return op.name + ": no dtype has samples";
  const int share = cases_for_each_dtype(count, dtypes.size());
  std::string problems;
  for (const DType dtype : dtypes) {
    const std::string problem = check_cases(op, dtype, share, property);
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
