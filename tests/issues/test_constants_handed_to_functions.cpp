// Axes, shapes and sizes that a TensorFlow graph hands to its functions, branches and loops were no
// constants in there, and the import asked to bind what was nowhere to be bound.
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"

#include "support/error_of.h"
#include "support/imported_models.h"
#include "unit/ops/graphdef/op_runs_for_tests.h"

namespace keel {
namespace {

using namespace keel_test;

// f(a, axis) = the sums of a along axis; g(a, axis) the same of -a.
const std::string kSums = R"(
  function { signature { name: "f" input_arg { name: "a" } input_arg { name: "axis" } output_arg { name: "r" } }
    node_def { name: "s" op: "Sum" input: "a" input: "axis" } ret { key: "r" value: "s:output:0" } }
  function { signature { name: "g" input_arg { name: "a" } input_arg { name: "axis" } output_arg { name: "r" } }
    node_def { name: "n" op: "Neg" input: "a" }
    node_def { name: "s" op: "Sum" input: "n:y:0" input: "axis" } ret { key: "r" value: "s:output:0" } }
)";

std::string library(const std::string& functions) { return "library {" + functions + "}"; }

}  // namespace

TEST_SUITE_BEGIN("graphdef");

TEST_CASE("a constant that is handed to a function is one in it") {
  const auto model = imported_graph_def(
      placeholder_text("x", f32, {2, 3}) + const_text("axis", ints({1})) +
      node_text("y", "PartitionedCall", {"x", "axis"}, {{"f", "func { name: 'outer' }"}}) +
      library(kSums + R"(
    function { signature { name: "outer" input_arg { name: "a" } input_arg { name: "axis" } output_arg { name: "r" } }
      node_def { name: "c" op: "PartitionedCall" input: "a" input: "axis" attr { key: "f" value { func { name: "f" } } } }
      ret { key: "r" value: "c:output:0" } })"));
  Session session(*model.graph, device("ref"));
  check(
      session.run({model.output("y")}, {{model.input("x"), floats({2, 3}, {1, 2, 3, 4, 5, 6})}})[0],
      {2}, {6, 15});
}

TEST_CASE("a constant that is handed to branches is one in both") {
  for (const bool both : {false, true}) {
    const auto model = graphdef::import_graph(
        graphdef::parse_graph_def(placeholder_text("x", f32, {2, 3}) +
                                      placeholder_text("p", boolean, {}) +
                                      const_text("axis", ints({0})) +
                                      node_text("y", "StatelessIf", {"p", "x", "axis"},
                                                {{"then_branch", "func { name: 'f' }"},
                                                 {"else_branch", "func { name: 'g' }"}}) +
                                      library(kSums),
                                  "g.pbtxt", graphdef::FileKind::kGraph),
        {.outputs = {"y"}, .both_branches = both});
    for (const std::string& backend : backend_names()) {
      CAPTURE(backend);
      Session session(*model.graph, device(backend));
      const auto run = [&](double taken) {
        return session.run({model.output("y")},
                           {{model.input("x"), floats({2, 3}, {1, 2, 3, 4, 5, 6})},
                            {model.input("p"), Tensor::full(boolean, {}, taken)}})[0];
      };
      check(run(1), {3}, {5, 7, 9});
      check(run(0), {3}, {-5, -7, -9});
    }
  }
}

TEST_CASE("a branch that is handed another constant gives another shape") {
  const auto branch = [](const char* name, const char* axis) {
    return node_text(
        name, "StatelessIf", {"p", "x", axis},
        {{"then_branch", "func { name: 'f' }"}, {"else_branch", "func { name: 'g' }"}});
  };
  const auto model = imported_graph_def(
      placeholder_text("x", f32, {2, 3}) + placeholder_text("p", boolean, {}) +
      const_text("rows", ints({0})) + const_text("columns", ints({1})) + branch("of_rows", "rows") +
      branch("of_columns", "columns") + const_text("zero", number(0)) +
      node_text("y", "ConcatV2", {"of_rows", "of_columns", "zero"}) + library(kSums));
  Session session(*model.graph, device("ref"));
  check(session.run({model.output("y")}, {{model.input("x"), floats({2, 3}, {1, 2, 3, 4, 5, 6})},
                                          {model.input("p"), Tensor::full(boolean, {}, 1)}})[0],
        {5}, {5, 7, 9, 6, 15});
}

// i, v, axis and shape go around the loop; the last two come back as they are.
TEST_CASE("a constant that a loop hands on unchanged is one in its body") {
  const std::string functions = R"(
    function { signature { name: "small" input_arg { name: "i" } input_arg { name: "v" } input_arg { name: "axis" } input_arg { name: "shape" } output_arg { name: "r" } }
      node_def { name: "three" op: "Const" attr { key: "value" value { tensor { dtype: DT_INT32 int_val: 3 tensor_shape { } } } } }
      node_def { name: "s" op: "Less" input: "i" input: "three:output:0" } ret { key: "r" value: "s:z:0" } }
    function { signature { name: "next" input_arg { name: "i" } input_arg { name: "v" } input_arg { name: "axis" } input_arg { name: "shape" }
        output_arg { name: "o" } output_arg { name: "p" } output_arg { name: "q" } output_arg { name: "r" } }
      node_def { name: "one" op: "Const" attr { key: "value" value { tensor { dtype: DT_INT32 int_val: 1 tensor_shape { } } } } }
      node_def { name: "j" op: "AddV2" input: "i" input: "one:output:0" }
      node_def { name: "s" op: "Sum" input: "v" input: "axis" }
      node_def { name: "b" op: "BroadcastTo" input: "s:output:0" input: "shape" }
      node_def { name: "same" op: "Identity" input: "shape" }
      ret { key: "o" value: "j:z:0" } ret { key: "p" value: "b:output:0" } ret { key: "q" value: "axis" } ret { key: "r" value: "same:output:0" } })";
  const std::string loop =
      node_text("loop", "StatelessWhile", {"zero", "x", "axis", "shape"},
                {{"cond", "func { name: 'small' }"}, {"body", "func { name: 'next' }"}});
  const std::string given = placeholder_text("x", f32, {2, 3}) + const_text("zero", number(0)) +
                            const_text("axis", ints({0})) + const_text("shape", ints({2, 3}));
  const auto model = imported_graph_def(given + loop + node_text("y", "Identity", {"loop:1"}) +
                                        library(functions));
  const auto handed = imported_graph_def(given + loop + node_text("y", "Identity", {"loop:3"}) +
                                         library(functions));
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Session session(*model.graph, device(backend));
    // The first turn sums two rows; the other two double what it gave.
    check(session.run({model.output("y")},
                      {{model.input("x"), floats({2, 3}, {1, 2, 3, 4, 5, 6})}})[0],
          {2, 3}, {20, 28, 36, 20, 28, 36});
    Session other(*handed.graph, device(backend));
    const Tensor shape = other.run({handed.output("y")}, {})[0];
    CHECK(shape.at(0) == 2);
    CHECK(shape.at(1) == 3);
  }
}

TEST_CASE("a loop whose body changes nothing ends where its condition is false at once") {
  const std::string functions = R"(
    function { signature { name: "never" input_arg { name: "v" } output_arg { name: "r" } }
      node_def { name: "no" op: "Const" attr { key: "value" value { tensor { dtype: DT_BOOL bool_val: false tensor_shape { } } } } }
      ret { key: "r" value: "no:output:0" } }
    function { signature { name: "same" input_arg { name: "v" } output_arg { name: "r" } }
      ret { key: "r" value: "v" } })";
  const auto model = imported_graph_def(
      placeholder_text("x", f32, {2}) +
      node_text("y", "StatelessWhile", {"x"},
                {{"cond", "func { name: 'never' }"}, {"body", "func { name: 'same' }"}}) +
      library(functions));
  Session session(*model.graph, device("ref"));
  check(session.run({model.output("y")}, {{model.input("x"), row({4, 9})}})[0], {2}, {4, 9});
}

TEST_CASE("what a loop changes is no constant in it") {
  const std::string functions = R"(
    function { signature { name: "small" input_arg { name: "i" } input_arg { name: "v" } output_arg { name: "r" } }
      node_def { name: "one" op: "Const" attr { key: "value" value { tensor { dtype: DT_INT32 int_val: 1 tensor_shape { } } } } }
      node_def { name: "s" op: "Less" input: "i" input: "one:output:0" } ret { key: "r" value: "s:z:0" } }
    function { signature { name: "next" input_arg { name: "i" } input_arg { name: "v" } output_arg { name: "o" } output_arg { name: "p" } }
      node_def { name: "one" op: "Const" attr { key: "value" value { tensor { dtype: DT_INT32 int_val: 1 tensor_shape { } } } } }
      node_def { name: "j" op: "AddV2" input: "i" input: "one:output:0" }
      node_def { name: "s" op: "Sum" input: "v" input: "i" attr { key: "keep_dims" value { b: true } } }
      ret { key: "o" value: "j:z:0" } ret { key: "p" value: "s:output:0" } })";
  const std::string refused = error_of([&] {
    imported_graph_def(
        placeholder_text("x", f32, {1, 1}) + const_text("zero", number(0)) +
        node_text("loop", "StatelessWhile", {"zero", "x"},
                  {{"cond", "func { name: 'small' }"}, {"body", "func { name: 'next' }"}}) +
        node_text("y", "Identity", {"loop:1"}) + library(functions));
  });
  CHECK(contains(refused, "not known before the run"));
}

TEST_SUITE_END();

}  // namespace keel
