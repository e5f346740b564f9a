// A layer that was called with a value of another graph was refused in the name of an op inside it,
// which found its own weight to be the foreign one. cross_entropy of a number blamed the dtype of
// the ids, and a shard beyond the last one the number of shards.
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "keel/data/pipeline/dataset.h"
#include "keel/graph/control/control_flow.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;

void check_layer_refused(const std::string& layer, const std::function<void()>& call) {
  const std::string error = error_of(call);
  CHECK_MESSAGE(contains(error, layer + ": expected a value of the graph that the layer was made "
                                        "in, got input 'x' of another graph, made at "),
                error);
  CHECK_MESSAGE(contains(error, "test_layers_of_other_graphs.cpp"), error);
}

}  // namespace

TEST_CASE("layers refuse values of other graphs in their own name") {
  Graph g;
  const Scope net = Scope(g) / "net";
  const auto of_another = [](DType dtype, const Shape& shape) {
    static Graph graphs[16];
    static size_t next = 0;
    return graphs[next++].input("x", dtype, shape);
  };
  const Value rows = of_another(f32, {4, 3});
  const Value sequence = of_another(f32, {2, 5, 8});
  const Value image = of_another(f32, {1, 8, 8, 4});
  const Value ids = of_another(i64, {4});
  check_layer_refused("dense net.d: x", [&] { Dense(net / "d", 3, 2)(rows); });
  check_layer_refused("layer norm net.ln: x", [&] { LayerNorm(net / "ln", 3)(rows); });
  check_layer_refused("rms norm net.rms: x", [&] { RmsNorm(net / "rms", 3)(rows); });
  check_layer_refused("batch norm net.bn: x",
                      [&] { BatchNorm(net / "bn", 3)(rows, Mode::kTraining); });
  check_layer_refused("group norm net.gn: x", [&] { GroupNorm(net / "gn", 2, 4)(image); });
  check_layer_refused("conv2d net.c: x", [&] { Conv2d(net / "c", 4, 2, {3})(image); });
  check_layer_refused("conv1d net.c1: x", [&] { Conv1d(net / "c1", 8, 2, 3)(sequence); });
  check_layer_refused("embedding net.e: ids", [&] { Embedding(net / "e", 10, 4)(ids); });
  check_layer_refused("attention net.a: x", [&] { MultiHeadAttention(net / "a", 8, 2)(sequence); });
  check_layer_refused("lstm net.l: x", [&] { Lstm(net / "l", 8, 4)(sequence); });
  check_layer_refused("gru net.g: x", [&] { Gru(net / "g", 8, 4)(sequence); });
  // A body is no other graph.
  const Dense dense(net / "body", 3, 3);
  const Value x = g.input("x", f32, {4, 3});
  CHECK_NOTHROW(cond(
      g.input("p", boolean, {}), {Operand(x)}, [&](const Values& v) { return Values{dense(v[0])}; },
      [](const Values& v) { return v; }));
}

TEST_CASE("cross entropy of a number says so") {
  Graph g;
  const Value ids = g.input("ids", i64, {4});
  const std::string error = error_of([&] { cross_entropy(1.0f, ids); });
  CHECK_MESSAGE(contains(error, "cross_entropy: logits: expected a Value, got a number"), error);
}

TEST_CASE("a shard that is not among the shards is told of as an index") {
  const Dataset data = Dataset::from_tensors({{"x", Tensor::full(f32, {5}, 0)}});
  for (const int64_t index : {int64_t{2}, int64_t{-1}, INT64_MAX}) {
    const std::string error = error_of([&] { data.shard(2, index); });
    CHECK_MESSAGE(
        contains(error, "shard: index: expected 0 to 1, of 2 shards, got " + std::to_string(index)),
        error);
  }
  CHECK(contains(error_of([&] { data.shard(0, 0); }), "shard: shards: expected at least 1, got 0"));
}

TEST_SUITE_END();
