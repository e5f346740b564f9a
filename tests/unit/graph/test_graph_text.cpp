#include <bit>
#include <cstdint>
#include <limits>
#include <rapidcheck.h>
#include <span>
#include <string>

#include <doctest/doctest.h>

#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/ir/verify.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"
#include "support/random_graph.h"

TEST_SUITE_BEGIN("graph");

namespace {

using keel::Error;
using keel::Graph;
using keel::parse_graph;
using keel::print_graph;
using keel::Shape;
using keel::Tensor;
using keel::Value;
using keel_test::contains;

std::string parse_error(const std::string& text) {
  try {
    parse_graph(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Same nodes, types, attributes, bodies, sites and results, compared without the printer.
bool same_graph(const Graph& a, const Graph& b) {
  const auto ids = [](std::span<const Value> values) {
    std::vector<std::pair<uint32_t, uint32_t>> out;
    for (const Value& v : values) out.emplace_back(v.node_id(), v.output());
    return out;
  };
  const auto assignments = [&](const Graph& g) {
    keel::Values all;
    for (const auto& u : g.updates()) all.insert(all.end(), {u.state, u.next});
    for (const auto& u : g.attached_updates()) all.insert(all.end(), {u.output, u.state, u.next});
    return ids(all);
  };
  if (a.size() != b.size() || ids(a.inputs()) != ids(b.inputs()) ||
      ids(a.states()) != ids(b.states()) || ids(a.outputs()) != ids(b.outputs()) ||
      assignments(a) != assignments(b)) {
    return false;
  }
  for (uint32_t id = 0; id < a.size(); ++id) {
    const keel::Node& x = a.node(id);
    const keel::Node& y = b.node(id);
    if (&x.op() != &y.op() || ids(x.inputs()) != ids(y.inputs()) || x.types() != y.types() ||
        !(x.attributes() == y.attributes()) || x.bodies().size() != y.bodies().size() ||
        keel::to_string(x.site()) != keel::to_string(y.site())) {
      return false;
    }
    for (size_t i = 0; i < x.bodies().size(); ++i) {
      if (!same_graph(*x.bodies()[i], *y.bodies()[i])) return false;
    }
  }
  return true;
}

bool round_trips(const Graph& graph) {
  const std::string text = print_graph(graph);
  const auto parsed = parse_graph(text);
  return same_graph(graph, *parsed) && print_graph(*parsed) == text;
}

const std::string kTwoLines =
    "graph {\n"
    "  %0 = input() {name=\"x\", type=[f32[?, 2]]} : f32[?, 2]\n";

}  // namespace

TEST_CASE("a graph prints as readable SSA") {
  Graph g;
  const Value image = g.input("image", keel::u8, {-1, 784}, {"model.cpp", 12});
  const Value w = g.state("w", {.type = {keel::f32, Shape{2}}, .a = 0.5}, {}, {"model.cpp", 13});
  const Value two = g.constant(Tensor::of<float>(Shape{2}, {1.5f, -0.0f}), {});
  const Value sum = keel::add(w, two, {"my \"file\".cpp", 14});
  g.set_outputs({image, sum});
  g.add_update(w, sum);
  g.attach_update(sum, w, two);
  CHECK(print_graph(g) ==
        "graph {\n"
        "  %0 = input() {name=\"image\", type=[u8[?, 784]]} : u8[?, 784] @ \"model.cpp\":12\n"
        "  %1 = state() {name=\"w\", type=[f32[2]], a=0.5} : f32[2] @ \"model.cpp\":13\n"
        "  %2 = constant() {value=f32[2](1.5, -0)} : f32[2]\n"
        "  %3 = add(%1, %2) : f32[2] @ \"my \\\"file\\\".cpp\":14\n"
        "  outputs (%0, %3)\n"
        "  updates (%1 <- %3)\n"
        "  attached (%3: %1 <- %2)\n"
        "}\n");
  CHECK(round_trips(g));
  CHECK_FALSE(contains(print_graph(g, {.sites = false}), "@"));
}

TEST_CASE("constants of every dtype keep their bits") {
  Graph g;
  keel::Values outputs;
  const auto add = [&](const Tensor& t) { outputs.push_back(g.constant(t)); };
  const double denormal = 5e-324;
  const auto f = std::numeric_limits<float>::infinity();
  add(Tensor::of<double>(Shape{6}, {0.1, -0.0, denormal, 1e308, -HUGE_VAL,
                                    std::bit_cast<double>(uint64_t{0xfff8000000000001})}));
  add(Tensor::of<float>(Shape{2, 3}, {0.1f, 3e-45f, f, -f, std::bit_cast<float>(0x7fc00000u),
                                      std::bit_cast<float>(0xffc12345u)}));
  std::vector<keel::Half> halves;
  std::vector<keel::BFloat16> bfloats;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    halves.push_back(keel::Half::from_bits(static_cast<uint16_t>(bits)));
    bfloats.push_back(keel::BFloat16::from_bits(static_cast<uint16_t>(bits)));
  }
  add(Tensor::of(Shape{65536}, halves));
  add(Tensor::of(Shape{65536}, bfloats));
  add(Tensor::of<int64_t>(Shape{2}, {INT64_MIN, INT64_MAX}));
  add(Tensor::of<int32_t>(Shape{2}, {INT32_MIN, INT32_MAX}));
  add(Tensor::of<uint8_t>(Shape{1, 2}, {0, 255}));
  add(Tensor::of<bool>(Shape{2}, {true, false}));
  add(Tensor(keel::f32, Shape{0, 3}));
  add(Tensor::scalar<int64_t>(7));
  g.set_outputs(outputs);
  CHECK(round_trips(g));
}

TEST_CASE("names and files with any character round trip") {
  Graph g;
  std::string name;
  for (int c = 0x20; c < 0x7f; ++c) name += static_cast<char>(c);
  std::string file;
  for (int c = 1; c < 256; ++c) file += static_cast<char>(c);
  g.input(name + "\xc3\xa4 \xf0\x9f\x98\x80", keel::f32, {}, {file.c_str(), 3});
  CHECK(round_trips(g));
}

TEST_CASE("control flow round trips with its bodies") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4});
  const Value flag = g.input("flag", keel::boolean, {});
  const keel::Values looped = keel::while_loop(
      {x}, [&](const keel::Values& v) { return keel::less(keel::sum(v[0]), keel::sum(x)); },
      [&](const keel::Values& v) {
        return keel::cond(
            flag, {v[0]}, [&](const keel::Values& u) { return keel::Values{u[0] * x}; },
            [](const keel::Values& u) { return keel::Values{u[0] + 1}; });
      },
      {.max_trips = 9});
  g.set_outputs(looped);
  const std::string text = print_graph(g);
  CHECK(contains(text, "max_trips=9"));
  CHECK(contains(text, "\n    graph {\n"));
  CHECK(round_trips(g));
}

TEST_CASE("an order of inputs that differs from their nodes is kept") {
  Graph g;
  const Value a = g.input("a", keel::f32, {});
  const Value b = g.input("b", keel::f32, {2});
  g.order_inputs({b, a});
  CHECK(contains(print_graph(g), "inputs (%1, %0)"));
  CHECK(round_trips(g));
  CHECK_THROWS_AS(g.order_inputs({a, a}), Error);
  CHECK_THROWS_AS(g.order_inputs({a}), Error);
}

TEST_CASE("a constant printed in part does not parse") {
  Graph g;
  g.constant(Tensor(keel::f32, Shape{100}));
  const std::string text = print_graph(g, {.max_tensor_elements = 3});
  CHECK(contains(text, "f32[100](0, 0, 0, ...)"));
  CHECK(contains(parse_error(text), "without a limit"));
  CHECK(contains(parse_error(print_graph(g, {.max_tensor_elements = 0})), "graph text: 2:"));
}

TEST_CASE("samples of every op round trip") {
  for (const keel::OpDef* op : keel::builtin_ops().all()) {
    if (op->sample == nullptr) continue;
    CAPTURE(op->name);
    int drawn = 0;
    const auto round_trip = [&](uint64_t seed) {
      for (const keel::DType dtype : {keel::f32, keel::i64, keel::boolean}) {
        keel::SampleSource source(seed, dtype, 20);
        const keel::Sample sample = op->sample(source);
        if (sample.build == nullptr) continue;  // the op does not claim this dtype
        ++drawn;
        Graph g;
        keel::Values inputs;
        for (const Tensor& t : sample.inputs) {
          inputs.push_back(g.input("i" + std::to_string(inputs.size()), t.dtype(), t.shape()));
        }
        g.set_outputs(sample.build(g, inputs));
        RC_ASSERT(round_trips(g));
      }
    };
    CHECK(rc::check("round trip of " + op->name, round_trip));
    CHECK(drawn > 0);
  }
}

TEST_CASE("random graphs round trip") {
  CHECK(rc::check("round trip", [](uint64_t seed) {
    const auto random = keel_test::random_graph(seed, 60);
    keel::verify(*random.graph);
    RC_ASSERT(round_trips(*random.graph));
  }));
}

TEST_CASE("errors in graph text name line and column") {
  CHECK(contains(parse_error(""), "graph text: 1:1: expected 'graph', got the end of the text"));
  CHECK(contains(parse_error("graph {\n  %0 = nonsense() : f32[]\n}"), "graph text: 2:8"));
  CHECK(
      contains(parse_error(kTwoLines + "  %1 = ad(%0, %0) : f32[?, 2]\n}"), "did you mean 'add'"));
  CHECK(contains(parse_error(kTwoLines + "  %1 = add(%0, %7) : f32[?, 2]\n}"), "graph text: 3:16"));
  CHECK(
      contains(parse_error(kTwoLines + "  %1 = add(%0, %0.1) : f32[?, 2]\n}"), "graph text: 3:16"));
  CHECK(contains(parse_error(kTwoLines + "  %0 = neg(%0) : f32[?, 2]\n}"),
                 "3:3: expected a new node"));
  CHECK(
      contains(parse_error(kTwoLines + "  %1.1 = neg(%0) : f32[?, 2]\n}"), "expected a new node"));
  CHECK(contains(parse_error(kTwoLines + "  %1 = neg(%0) : f32[2, 2]\n}"), "expected f32[?, 2]"));
  CHECK(contains(parse_error(kTwoLines + "  %1 = neg(%0) : f32[?, 2], f32[]\n}"), "types"));
  CHECK(contains(parse_error(kTwoLines + "  %1 = neg(%0, %0) : f32[?, 2]\n}"), "number of inputs"));
  CHECK(contains(parse_error(kTwoLines + "  %1 = neg(%0) {a=1} : f32[?, 2]\n}"), "no attributes"));
  CHECK(contains(parse_error(kTwoLines + "  %1 = neg(%0) : f33[?, 2]\n}"), "graph text: 3:18"));
  CHECK(
      contains(parse_error(kTwoLines + "  outputs (%0"), "expected ')', got the end of the text"));
  CHECK(contains(parse_error(kTwoLines + "}}"), "expected the end of the text, got '}'"));
  CHECK(contains(parse_error(kTwoLines + "  outputs (%0)\n  inputs (%0)\n}"), "in this order"));
  CHECK(contains(parse_error(kTwoLines + "  inputs (%0, %0)\n}"), "each of its 1 inputs once"));
  CHECK(contains(parse_error(kTwoLines + "  %1 = neg(%0) : f32[?, 2] @ \"a\":0\n}"),
                 "a line number"));
  CHECK(contains(parse_error(kTwoLines + "  %1 = neg(%0) [ graph { } ] : f32[?, 2]\n}"), "bodies"));
}

TEST_CASE("outputs in graph text that are none are errors of the text") {
  const std::string error = parse_error(
      "graph {\n  %0 = input() {name = \"x\", type = [f32[2]]} : f32[2]\n  %1 = token() : "
      "token[]\n  outputs(%1) }");
  CAPTURE(error);
  CHECK(contains(error, "graph text: 4:3: "));
  CHECK(contains(error, "output 0: expected a value with elements, got a token"));
  CHECK(!contains(error, ".cpp"));
}

TEST_CASE("wrong attributes in graph text are errors") {
  const auto input = [](const std::string& attributes) {
    return parse_error("graph {\n  %0 = input() {" + attributes + "} : f32[]\n}");
  };
  CHECK(input("name=\"x\", type=[f32[]]") == "no error");
  CHECK(contains(input("name=\"x\", name=\"x\", type=[f32[]]"), "each attribute once"));
  CHECK(contains(input("name=\"x\", typ=[f32[]]"), "one of name type"));
  CHECK(contains(input("name=x, type=[f32[]]"), "a string in quotes"));
  CHECK(contains(input("name=\"x"), "a closing quote"));
  CHECK(contains(input("name=\"\\q\""), "after the backslash"));
  CHECK(contains(input("name=\"x\", type=[f32[-2]]"), "a dimension of at least 0"));
  CHECK(contains(input("name=\"x\", type=[f32[1,1,1,1,1,1,1,1,1]]"), "at most 8 dimensions"));
  CHECK(contains(input("name=\"x\", type=[f32[99999999999999999999]]"), "a dimension or ?"));
  CHECK(contains(input("name=\"x\", type=[]"), "one type"));
  CHECK(contains(input("type=[f32[]]"), "a name"));
  const auto constant = [](const std::string& value) {
    return parse_error("graph {\n  %0 = constant() {value=" + value + "} : i32[2]\n}");
  };
  CHECK(constant("i32[2](1, 2)") == "no error");
  CHECK(contains(constant("i32[2](1)"), "expected ','"));
  CHECK(contains(constant("i32[2](1, 2, 3)"), "expected ')'"));
  CHECK(contains(constant("i32[2](1, 2.5)"), "an integer that fits"));
  CHECK(contains(constant("i32[2](1, 3000000000)"), "an integer that fits"));
  CHECK(contains(constant("u8[2](1, 256)"), "from 0 to 255"));
  CHECK(contains(constant("bool[1](1)"), "true or false"));
  CHECK(contains(constant("f32[1](1e99)"), "a number"));
  CHECK(contains(constant("f32[1](nan(0x1ffffffff))"), "the bits of a NaN"));
  CHECK(contains(constant("f32[?](1)"), "known dimensions"));
  CHECK(contains(constant("token[](1)"), "graph text: 2"));
  CHECK(contains(constant("none"), "an empty Tensor"));
}

TEST_CASE("hostile sizes in graph text allocate nothing") {
  const auto constant = [](const std::string& shape) {
    return parse_error("graph {\n  %0 = constant() {value=f64" + shape + "(1)} : f64" + shape +
                       "\n}");
  };
  CHECK(contains(constant("[4000000000000]"), "the text can hold"));
  CHECK(contains(constant("[4000000000, 4000000000, 4000000000]"), "does not fit in 64 bits"));
}

TEST_CASE("deep nesting in graph text is an error") {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "graph { %0 = sunk_loop() [ ";
  CHECK(contains(parse_error(text), "nested at most 72 deep"));
}

TEST_CASE("updates in graph text are checked") {
  const std::string states =
      "graph {\n"
      "  %0 = state() {name=\"w\", type=[f32[2]]} : f32[2]\n"
      "  %1 = constant() {value=f32[](1)} : f32[]\n";
  CHECK(parse_error(states + "updates (%0 <- %0) }") == "no error");
  CHECK(contains(parse_error(states + "updates (%0 <- %1) }"), "expected f32[2], got f32[]"));
  CHECK(contains(parse_error(states + "updates (%1 <- %1) }"), "expected a state"));
  CHECK(contains(parse_error(states + "updates (%0 <- %0, %0 <- %0) }"), "one next value"));
  CHECK(contains(parse_error(states + "  %2 = state() {name=\"w\", type=[f32[2]]} : f32[2] }"),
                 "a name that no other state has"));
  CHECK(contains(parse_error(kTwoLines + "%1 = input() {name=\"x\", type=[f32[]]} : f32[] }"),
                 "a name that no other input has"));
}

TEST_CASE("no cut or changed byte of a graph text crashes the parser") {
  const std::string text = print_graph(*keel_test::random_graph(7, 30).graph);
  for (size_t cut = 0; cut < text.size() - 2; ++cut) {
    CHECK(parse_error(text.substr(0, cut)) != "no error");
  }
  CHECK(rc::check("changed bytes", [&](uint64_t seed) {
    keel::SampleSource source(seed, keel::f32, 1);
    std::string changed = text;
    for (int64_t i = source.integer(1, 4); i > 0; --i) {
      const auto at = static_cast<size_t>(source.integer(0, static_cast<int64_t>(text.size()) - 1));
      changed[at] = static_cast<char>(source.integer(0, 255));
    }
    parse_error(changed);
  }));
}

TEST_CASE("DOT has a box for each node and a cluster for each body") {
  Graph g;
  const Value x = g.input("a \"name\"", keel::f32, {4});
  g.set_outputs(keel::while_loop(
      {x}, [](const keel::Values& v) { return keel::less(keel::sum(v[0]), 10); },
      [](const keel::Values& v) { return keel::Values{v[0] + 1}; }));
  const std::string dot = keel::to_dot(g);
  CHECK(contains(dot, "digraph keel {"));
  CHECK(contains(dot, "n0 [label=\"%0 input a \\\"name\\\" f32[4]\""));
  CHECK(contains(dot, "subgraph cluster_"));
  CHECK(contains(dot, "while_loop body 1"));
  CHECK(contains(dot, "[style=dashed]"));
  CHECK(std::count(dot.begin(), dot.end(), '{') == std::count(dot.begin(), dot.end(), '}'));
}

TEST_CASE("text: escapes line ends and what a printed text left out") {
  Graph g;
  const Value x = g.input("x", keel::f32, {1, 4, 4, 1});
  const Value w = g.input("w", keel::f32, {2, 2, 1, 1});
  g.set_outputs({keel::conv2d(x, w, {.padding = "same"}) * 2.5f});
  const std::string text = print_graph(g);
  const std::string name = "\"same\"";
  REQUIRE(contains(text, name));
  const auto with = [&](const std::string& quoted) {
    std::string changed = text;
    return changed.replace(changed.find(name), name.size(), quoted);
  };
  CHECK(same_graph(*parse_graph(with("\"s\\x61me\"")), g));
  CHECK(same_graph(*parse_graph(with("\"sa\\x6de\"")), g));
  for (const char* wrong : {"\"s\\xG1me\"", "\"s\\xg1me\"", "\"s\\x6", "\"s\\", "\"s\\q\""})
    CHECK_MESSAGE(contains(parse_error(with(wrong)), "after the backslash"), wrong);
  const std::string cut = text.substr(0, text.find(name));
  CHECK(contains(parse_error(cut + "\"s\\"), "after the backslash"));
  CHECK(contains(parse_error(cut + "\"s\\x6"), "after the backslash"));

  std::string lines = text;
  for (size_t at = 0; (at = lines.find('\n', at)) != std::string::npos; at += 2)
    lines.replace(at, 1, "\r\n");
  CHECK(same_graph(*parse_graph(lines), g));

  const auto number = [&](const std::string& digits) {
    std::string changed = text;
    const size_t at = changed.find("2.5");
    REQUIRE(at != std::string::npos);
    return changed.replace(at, 3, digits);
  };
  CHECK(same_graph(*parse_graph(number("25e-1")), g));
  CHECK(contains(parse_error(number("2-5")), "expected ')', got '-5'"));
  CHECK(contains(parse_error(number("...")), "all elements of the constant"));
}

TEST_SUITE_END();
