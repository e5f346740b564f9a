// What every op definition must have, and what its samples must be.
#include <set>

#include <doctest/doctest.h>

#include "keel/graph/ir/text.h"
#include "keel/graph/ir/verify.h"
#include "keel/ops/conformance/cases.h"

#include "conformance/scale.h"

TEST_SUITE_BEGIN("conformance");

namespace keel::conformance {

TEST_CASE("every op has all its mandatory parts") {
  for (const OpDef* op : builtin_ops().all()) {
    CAPTURE(op->name);
    CHECK_FALSE(op->name.empty());
    CHECK_FALSE(op->summary.empty());
    CHECK(op->infer != nullptr);
    CHECK(op->table == &builtin_ops());
    CHECK(op->bound.ulps >= 0);
    CHECK(op->bound.k >= 0);
    CHECK(op->optional_inputs <= op->input_names.size());
    std::set<std::string> names(op->input_names.begin(), op->input_names.end());
    CHECK(names.size() == op->input_names.size());
    if (op->has(kSource | kControl | kEffect)) continue;
    CHECK(op->reference != nullptr);
    CHECK(op->sample != nullptr);
    const bool says_why_not = !op->not_differentiable.empty();
    CHECK((op->gradient != nullptr) != says_why_not);
  }
}

TEST_CASE("every op has samples in f32 or in bool or integers") {
  for (const OpDef* op : computing_ops()) {
    CAPTURE(op->name);
    const std::vector<DType> dtypes = sampled_dtypes(*op);
    CHECK_FALSE(dtypes.empty());
  }
}

// Small, large, empty and single-element cases all occur.
TEST_CASE("samples cover the sizes that matter") {
  for (const OpDef* op : computing_ops()) {
    CAPTURE(op->name);
    const std::vector<DType> dtypes = sampled_dtypes(*op);
    if (dtypes.empty()) continue;
    std::set<std::string> types;
    bool only_scalars = true;  // of whatever size, such as fold_key
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const Case c = make_case(*op, seed, dtypes[0], static_cast<int>(seed % 101));
      std::string key;
      Values values = c.inputs;
      values.insert(values.end(), c.outputs.begin(), c.outputs.end());
      for (const Value& value : values) {
        key += to_string(value.type());
        only_scalars = only_scalars && value.shape().rank() == 0;
      }
      types.insert(key);
      CHECK(c.sample.differentiable.size() <= c.sample.inputs.size());
    }
    CHECK((types.size() >= 10 || only_scalars));
  }
}

std::string inference_agrees(const Case& c) {
  // With any of its dimensions unknown, inference must accept the inputs and not contradict the
  // concrete types; and it must be as sure where everything is known.
  SampleSource source = c.source(2);
  Graph graph(c.graph->ops());
  Values inputs;
  for (size_t i = 0; i < c.sample.inputs.size(); ++i) {
    Shape shape = c.sample.inputs[i].shape();
    for (size_t axis = 0; axis < shape.rank(); ++axis) {
      if (source.integer(0, 2) == 0) shape = shape.with_dim(axis, kUnknownDim);
    }
    inputs.push_back(graph.input("x" + std::to_string(i), c.sample.inputs[i].dtype(), shape));
  }
  const Values outputs = c.sample.build(graph, inputs);
  if (outputs.size() != c.outputs.size())
    return "another number of outputs with unknown dimensions";
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].dtype() != c.outputs[i].dtype() ||
        !matches(outputs[i].shape(), c.outputs[i].shape())) {
      return "inferred " + to_string(outputs[i].type()) + " with unknown dimensions, " +
             to_string(c.outputs[i].type()) + " without";
    }
  }
  return "";
}

TEST_CASE("inference with unknown dimensions agrees with concrete types") {
  for (const OpDef* op : computing_ops()) {
    const std::string problem = check_all_dtypes(*op, cases_for_each_op(), inference_agrees);
    CHECK_MESSAGE(problem.empty(), problem);
  }
}

std::string round_trip(const Graph& graph) {
  verify(graph);
  const std::string text = print_graph(graph);
  const std::unique_ptr<Graph> parsed = parse_graph(text, graph.ops());
  verify(*parsed);
  const std::string again = print_graph(*parsed);
  return again == text ? "" : "printed, parsed and printed again:\n" + text + "\nbecame\n" + again;
}

TEST_CASE("every op prints and parses") {
  for (const OpDef* op : computing_ops()) {
    const std::string problem =
        check_all_dtypes(*op, cases_for_each_op(), [](const Case& c) -> std::string {
          c.graph->set_outputs(c.outputs);
          const std::string built = round_trip(*c.graph);
          return built.empty() ? round_trip(*specialise_case(c, c.outputs)) : built;
        });
    CHECK_MESSAGE(problem.empty(), problem);
  }
}

}  // namespace keel::conformance

TEST_SUITE_END();
