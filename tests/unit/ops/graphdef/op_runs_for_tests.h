// Runs an op of a TensorFlow graph on operands that are fed or held by the graph, and compares what
// it gives.
#ifndef KEEL_TESTS_UNIT_OPS_GRAPHDEF_OP_RUNS_FOR_TESTS_H
#define KEEL_TESTS_UNIT_OPS_GRAPHDEF_OP_RUNS_FOR_TESTS_H

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/exchange/graphdef/file/read_graph_def.h"
#include "keel/ops/exchange/graphdef/import.h"

#include "support/graph_def_text.h"

namespace keel_test {

using namespace keel;

using Floats = std::vector<double>;

inline Tensor floats(const Shape& shape, const Floats& values) {
  return Tensor::of<double>(shape, values).cast(f32);
}
inline Tensor row(const Floats& values) {
  return floats({static_cast<int64_t>(values.size())}, values);
}
inline Tensor ints(const std::vector<int64_t>& values) {
  return Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values).cast(i32);
}
inline Tensor number(int32_t value) { return Tensor::scalar<int32_t>(value); }

// An operand that the graph is fed with, or one that it holds.
struct Given {
  Tensor value;
  bool constant = false;
};
inline Given fed(Tensor value) { return {std::move(value), false}; }
inline Given held(Tensor value) { return {std::move(value), true}; }

// The first `count` results of an op.
inline std::vector<Tensor> run(const std::string& op, const std::vector<Given>& operands,
                               const NodeAttributes& attributes = {}, size_t count = 1) {
  std::string text;
  std::vector<std::string> names;
  for (const Given& operand : operands) {
    names.push_back("x" + std::to_string(names.size()));
    text += operand.constant
                ? const_text(names.back(), operand.value)
                : placeholder_text(names.back(), operand.value.dtype(), operand.value.shape());
  }
  text += node_text("y", op, names, attributes);
  graphdef::ImportOptions options;
  for (size_t i = 0; i < count; ++i) options.outputs.push_back("y:" + std::to_string(i));
  const auto model = graphdef::import_graph(
      graphdef::parse_graph_def(text, "g.pbtxt", graphdef::FileKind::kGraph), options);
  Session session(*model.graph, device("ref"));
  Feeds feeds;
  for (const auto& input : model.inputs)
    feeds.push_back({input.second, operands.at(std::stoul(input.first.substr(1))).value});
  Values fetches;
  for (const auto& output : model.outputs) fetches.push_back(output.second);
  return session.run(fetches, feeds);
}

inline void check(const Tensor& got, const Shape& shape, const Floats& expected) {
  CHECK(got.shape() == shape);
  REQUIRE(got.num_elements() == static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(got.at(static_cast<int64_t>(i)) == doctest::Approx(expected[i]).epsilon(1e-5));
  }
}

inline void check_row(const std::string& op, const std::vector<Given>& operands,
                      const Floats& expected, const NodeAttributes& attributes = {}) {
  CAPTURE(op);
  check(run(op, operands, attributes)[0], {static_cast<int64_t>(expected.size())}, expected);
}

}  // namespace keel_test

#endif  // KEEL_TESTS_UNIT_OPS_GRAPHDEF_OP_RUNS_FOR_TESTS_H
