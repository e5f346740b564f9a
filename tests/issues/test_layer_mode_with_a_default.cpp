// A layer called with a value and a mode was no layer for Sequential, and one whose mode had a
// default was called as in training whatever the mode was.
#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;

struct WithMode : Module {
  explicit WithMode(const Scope& s) : Module(s) {}
  Value operator()(Value x, Mode mode) const {
    return mode == Mode::kTraining ? x * 2.0f : x * 3.0f;
  }
};
struct WithDefault : Module {
  explicit WithDefault(const Scope& s) : Module(s) {}
  Value operator()(Value x, Mode mode = Mode::kTraining) const {
    return mode == Mode::kTraining ? x * 5.0f : x * 7.0f;
  }
};
struct WithLine : Module {
  explicit WithLine(const Scope& s) : Module(s) {}
  Value operator()(Operand x, Mode mode = Mode::kTraining, CallSite site = {}) const {
    return mul(x, mode == Mode::kTraining ? 11.0 : 13.0, site);
  }
};
static_assert(LayerFunction<WithMode>);
static_assert(!LayerFunction<int>);

}  // namespace

TEST_CASE("Sequential passes the mode on to a layer without a call site") {
  Graph graph;
  const Value x = graph.input("x", f32, {});
  Sequential net(Scope(graph) / "net");
  net.add<WithMode>().add<WithDefault>().add<WithLine>().add(
      [](Value v, Mode mode) { return mode == Mode::kTraining ? v * 17.0f : v * 19.0f; });
  const Value trained = net(x, Mode::kTraining);
  const Value evaluated = net(x, Mode::kEvaluation);
  Session session(graph, device("ref"));
  const auto results = session.run(Values{trained, evaluated}, {{x, Tensor::scalar(1.0f)}});
  CHECK(results[0].item<float>() == 2.0f * 5 * 11 * 17);
  CHECK(results[1].item<float>() == 3.0f * 7 * 13 * 19);
}

TEST_SUITE_END();
