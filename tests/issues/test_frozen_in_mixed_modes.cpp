// Under a mixed mode ops that follow their operands took a constant for a number that f16 has, and
// not a state: what was added to a product in f32 with states was added in f16 once frozen.
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/base/random.h"
#include "keel/graph/graph.h"
#include "keel/ops/ops.h"

TEST_SUITE_BEGIN("graph");

namespace {

using namespace keel;

Tensor drawn(const Shape& shape, uint64_t key) {
  Tensor t(f32, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, normal(key, static_cast<uint64_t>(i)));
  return t;
}

Tensor answered(Graph& g, const Value& x, const Value& y, const std::string& where,
                const std::string& mode, const std::map<std::string, Tensor>& weights) {
  SessionOptions options;
  options.precision = Precision::named(mode);
  Session session(g, device(where), options);
  for (const auto& [name, weight] : weights) {
    if (g.find_state(name).valid()) session.write(g.find_state(name), weight);
  }
  return session.run(y, {{x, drawn({4, 16}, 3)}});
}

}  // namespace

TEST_CASE("frozen graphs have the bits of those with states under mixed modes too") {
  for (const char* where : {"ref", "cpu", "npu"}) {
    for (const char* mode : {"mixed_float16", "mixed_bfloat16"}) {
      for (const bool in_body : {false, true}) {
        CAPTURE(std::string(where));
        CAPTURE(std::string(mode));
        CAPTURE(in_body);
        Graph g;
        const Value x = g.input("x", f32, {4, 16});
        const Value w = g.state("w", zeros({16, 16})), b = g.state("b", zeros({16}));
        const auto layer = [&](const Values& v) { return Values{matmul(v[0], w) + b}; };
        const auto always = [](const Values& v) {
          return v[0].graph().constant(Tensor::full(boolean, {}, 1));
        };
        const Value y =
            in_body ? while_loop({x}, always, layer, {.trip_count = 2})[0] : layer({x})[0];
        const std::map<std::string, Tensor> weights{{"w", drawn({16, 16}, 1)},
                                                    {"b", drawn({16}, 2)}};
        const Tensor expected = answered(g, x, y, where, mode, weights);
        const auto frozen = freeze(g, weights, {{"y", y}});
        CHECK(
            bit_equal(answered(*frozen, frozen->inputs()[0], frozen->outputs()[0], where, mode, {}),
                      expected));
        const auto parsed = parse_graph(print_graph(*frozen));
        CHECK(
            bit_equal(answered(*parsed, parsed->inputs()[0], parsed->outputs()[0], where, mode, {}),
                      expected));
      }
    }
  }
}

TEST_SUITE_END();
