// Graphs of 100,000 nodes in the shapes that invite a walk for each node: import of them takes
// seconds where it is linear and hours where it is not.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/ops/exchange/graphdef/import.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("graphdef");

namespace keel {
namespace {

using graphdef::AttrValue;
using graphdef::DataType;

constexpr int kNodes = 100000;

class Building {
 public:
  Building() { graph_.source = "large"; }
  void add(const std::string& name, const std::string& op, std::vector<std::string> inputs) {
    graphdef::NodeDef node;
    node.name = name;
    node.op = op;
    node.inputs = std::move(inputs);
    graph_.nodes.push_back(std::move(node));
  }
  void constant(const std::string& name, const std::vector<int64_t>& shape) {
    auto tensor = std::make_shared<graphdef::TensorProto>();
    tensor->type = DataType::kFloat;
    tensor->shape = shape;
    tensor->floats = {0.5f};
    add(name, "Const", {});
    graph_.nodes.back().attributes["value"] = {.kind = AttrValue::Kind::kTensor,
                                               .tensors = {std::move(tensor)}};
  }
  void placeholder(const std::string& name, DataType type, const std::vector<int64_t>& shape) {
    add(name, "Placeholder", {});
    graph_.nodes.back().attributes["dtype"] = {.kind = AttrValue::Kind::kType,
                                               .ints = {static_cast<int64_t>(type)}};
    graph_.nodes.back().attributes["shape"] = {.kind = AttrValue::Kind::kShape, .shapes = {shape}};
  }
  graphdef::ImportedModel import(const std::string& output) const {
    return graphdef::import_graph(graph_, {.outputs = {output}});
  }

 private:
  graphdef::GraphDef graph_;
};

std::string name(const char* stem, int i) { return stem + std::to_string(i); }

TEST_CASE("GraphDef import of 100000 nodes: weights behind a long chain of identities") {
  Building graph;
  graph.placeholder("x", DataType::kFloat, {2, 2});
  graph.constant("i0", {2, 2});
  constexpr int kEach = kNodes / 2;
  for (int i = 1; i < kEach; ++i) graph.add(name("i", i), "Identity", {name("i", i - 1)});
  graph.add("m0", "Identity", {"x"});
  for (int i = 1; i < kEach; ++i)
    graph.add(name("m", i), "MatMul", {name("m", i - 1), name("i", kEach - 1)});
  const auto model = graph.import(name("m", kEach - 1));
  CHECK(model.needed_nodes == kNodes + 1);
  CHECK(model.weights_of_constants == std::vector<std::string>{"i0"});
}

TEST_CASE("GraphDef import of 100000 nodes: as many assignments with a read behind each") {
  Building graph;
  graph.constant("one", {});
  constexpr int kEach = kNodes / 5;
  for (int i = 0; i < kEach; ++i) {
    const std::string before = i == 0 ? "one" : name("s", i - 1);
    graph.add(name("v", i), "VariableV2", {});
    graph.add(name("v", i) + "/Assign", "Assign", {name("v", i), "one"});
    graph.add(name("a", i), "AssignAdd", {name("v", i), "one", "^" + before});
    graph.add(name("r", i), "Identity", {name("v", i), "^" + name("a", i)});
    graph.add(name("s", i), "Add", {name("r", i), before});
  }
  const auto model = graph.import(name("s", kEach - 1));
  CHECK(model.update.assignments.size() == kEach);
}

TEST_CASE("GraphDef import of 100000 nodes: conditionals one behind the other") {
  Building graph;
  graph.placeholder("x", DataType::kFloat, {2});
  graph.placeholder("p", DataType::kBool, {});
  constexpr int kEach = kNodes / 4;
  for (int i = 0; i < kEach; ++i) {
    graph.add(name("s", i), "Switch", {i == 0 ? "x" : name("m", i - 1), "p"});
    graph.add(name("t", i), "Neg", {name("s", i) + ":1"});
    graph.add(name("f", i), "Abs", {name("s", i)});
    graph.add(name("m", i), "Merge", {name("f", i), name("t", i)});
  }
  CHECK(graph.import(name("m", kEach - 1)).conditionals == kEach);
}

TEST_CASE("GraphDef import of 80000 nodes: turns of no loop behind as many assignments") {
  Building graph;
  graph.constant("one", {});
  constexpr int kEach = kNodes / 5;
  for (int i = 0; i < kEach; ++i) {
    const std::string before = i == 0 ? "one" : name("a", i - 1);
    graph.add(name("v", i), "VariableV2", {});
    graph.add(name("v", i) + "/Assign", "Assign", {name("v", i), "one"});
    graph.add(name("a", i), "AssignAdd", {name("v", i), "one", "^" + before});
  }
  for (int i = kEach; i-- > 1;) graph.add(name("n", i), "NextIteration", {name("n", i - 1)});
  graph.add("n0", "NextIteration", {name("a", kEach - 1)});
  const std::string error = keel_test::error_of([&] { graph.import(name("n", kEach - 1)); });
  CHECK(keel_test::contains(error, "NextIteration"));
}

}  // namespace
}  // namespace keel

TEST_SUITE_END();
