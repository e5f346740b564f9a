// Layers that failed in the name of functions and reshapes which the user had not written.
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "keel/graph/control/control_flow.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;

// A loop of two turns whose body is `layer`.
template <class F>
Values looped(Value x, F layer) {
  return while_loop(
      {Operand(x)},
      [](const Values& v) { return v[0].graph().constant(Tensor::full(boolean, {}, 1)); },
      [&](const Values& v) { return Values{layer(v[0])}; }, {.trip_count = 2});
}

}  // namespace

TEST_CASE("batch norm that trains in a body of control flow says so and knows a way out") {
  Graph g;
  const Value x = g.input("x", f32, {4, 3});
  const BatchNorm norm(Scope(g) / "net" / "norm", 3);
  const std::string error =
      error_of([&] { looped(x, [&](Value v) { return norm(v, Mode::kTraining); }); });
  CHECK(contains(error, "batch norm net.norm: x"));
  CHECK(contains(error, "inside a body of control flow"));
  CHECK(contains(error, "Mode::kEvaluation"));
  CHECK(contains(error, "test_layers_name_what_they_refuse.cpp"));
  CHECK(!contains(error, "attach_update"));
  const Value predicate = g.input("p", boolean, {});
  const auto train = [&](const Values& v) { return Values{norm(v[0], Mode::kTraining)}; };
  CHECK(contains(error_of([&] { cond(predicate, {Operand(x)}, train, train); }),
                 "batch norm net.norm"));
  CHECK_NOTHROW(looped(x, [&](Value v) { return norm(v, Mode::kEvaluation); }));
  CHECK_NOTHROW(norm(x, Mode::kTraining));
  const Value state = g.state("m", zeros({4, 3}), {.trainable = false});
  CHECK(contains(error_of([&] {
                   looped(x, [&](Value v) {
                     attach_running_mean(v, state, v, 0.5);
                     return v;
                   });
                 }),
                 "running mean: output"));
}

TEST_CASE("attention over no time is refused in the name of the layer") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 0, 8});
  const MultiHeadAttention layer(Scope(g) / "mix", 8, 2);
  const std::string error = error_of([&] { layer(x); });
  CHECK(contains(error, "attention mix: x"));
  CHECK(contains(error, "a known time of at least 1"));
  CHECK(!contains(error, "reshape"));
}

TEST_CASE("recurrent layers describe the sequence that they were given") {
  Graph g;
  const Value x = g.input("x", f32, {2, -1, 3}), nothing = g.input("nothing", f32, {-1, 0, 3});
  const Lstm lstm_layer(Scope(g) / "forward", 3, 4);
  const Gru gru_layer(Scope(g) / "back", 3, 4);
  const std::string error = error_of([&] { lstm_layer(x); });
  CHECK(contains(error,
                 "lstm forward: x: expected shape [batch, time, features] with a known time (axis "
                 "1), got f32[2, ?, 3]"));
  CHECK(contains(error, "test_layers_name_what_they_refuse.cpp"));
  CHECK(contains(error_of([&] { gru_layer(x); }), "gru back: x: expected shape [batch, time"));
  for (const std::string& empty :
       {error_of([&] { lstm_layer(nothing); }), error_of([&] { gru_layer(nothing); })}) {
    CHECK(contains(empty, "a known batch (axis 0) beside a time of 0, got f32[?, 0, 3]"));
  }
}

TEST_CASE("layers that hand on to a function refuse by their own path") {
  Graph g;
  const Scope net = Scope(g) / "net";
  const Value open = g.input("open", f32, {-1, -1, 8}), whole = g.input("whole", i32, {2, 8});
  const Value real = g.input("real", f32, {2}), image = g.input("image", f32, {2, 3, 3, 4});
  const GroupNorm norm(net / "norm", 2, 8);
  const Dropout drop(net / "drop", 0.5);
  const Embedding words(net / "words", 10, 4);
  const Conv2d conv(net / "conv", 4, 4, {5}, {.padding = "valid"});
  const Conv1d line(net / "line", 8, 4, 9, {.padding = "valid"});
  const MaxPool2d pool(net / "pool", {5});
  for (const auto& refused : {
           std::pair{"group norm net.norm: x: expected a known number of channels",
                     error_of([&] { norm(open); })},
           {"dropout net.drop: x: expected a Value of a float dtype, got i32[2, 8]",
            error_of([&] { drop(whole, Mode::kTraining); })},
           {"embedding net.words: ids: expected an integer dtype, got f32",
            error_of([&] { words(real); })},
           {"conv2d net.conv: x: expected height of at least 5", error_of([&] { conv(image); })},
           {"conv1d net.line, as a conv2d of one row: x: expected width of at least 9",
            error_of([&] {
              line(g.input("short", f32, {2, 3, 8}));
            })},
           {"max pool net.pool: x: expected height of at least 5", error_of([&] { pool(image); })},
       }) {
    const std::string& error = refused.second;
    CHECK_MESSAGE(contains(error, refused.first), error);
    CHECK_MESSAGE(contains(error, "test_layers_name_what_they_refuse.cpp"), error);
  }
}

TEST_SUITE_END();
