// Messages that said the wrong thing, or did not name the user's line.
#include <functional>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/base/environment.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

std::string at(int line) { return std::string(__FILE__) + ":" + std::to_string(line); }

// The message of `use`, on line `used`, is `words` and that line.
void check_message(int used, const std::string& words, const std::function<void()>& use) {
  CHECK(error_of(use) == words + " (" + at(used) + ")");
}

Value none_of(const Values&) { return {}; }

}  // namespace

TEST_SUITE_BEGIN("messages");

TEST_CASE("an op without operands says so with the user's line") {
  const std::string no_operands = "expected at least one Value among the operands, got no operands";
  check_message(__LINE__, "concat: expected at least one value, got none", [] { concat({}); });
  check_message(__LINE__ + 1, "while_loop: " + no_operands,
                [] { while_loop({}, none_of, [](const Values& v) { return v; }); });
  const std::string numbers =
      "add: expected at least one Value among the operands, got numbers only; compute it in C++, "
      "or "
      "make one a graph constant";
  check_message(__LINE__, numbers, [] { add(1, 2); });
}

TEST_CASE("an empty value is called one") {
  const std::string empty =
      "expected a Value, got an empty Value; give it one first: an input, a state, or the result "
      "of "
      "an op";
  check_message(__LINE__, "add: a: " + empty, [] { Value() + 1.0f; });
  check_message(__LINE__, "minimize: loss: " + empty, [] { sgd(0.1).minimize(Value()); });
  check_message(__LINE__, "dense: x: " + empty, [] { dense(Value(), 3); });
}

TEST_CASE("item of several elements expects one") {
  check_message(__LINE__ + 3,
                "tensor item: expected a tensor of one element, got 2 in f32[2]; use at(index) or "
                "data<T>() for one of several",
                [] { Tensor(f32, {2}).item<float>(); });
}

TEST_CASE("the constructors of tensors name the user's line and what to do") {
  const std::string open =
      "tensor: shape: expected known dimensions, got [?]; give each dimension a number; only "
      "inputs "
      "of a graph may leave one open";
  check_message(__LINE__, open, [] { Tensor(f32, {-1}); });
  check_message(__LINE__, open, [] { Tensor::full(f32, {-1}, 1); });
  const std::string few = "tensor: values: expected 4 for f32[2, 2], got 3";
  check_message(__LINE__, few, [] { Tensor::of<float>({2, 2}, {1, 2, 3}); });
  const std::string type =
      "tensor: element type: expected f32, got f64; ask for the tensor's own dtype, or cast it "
      "first";
  check_message(__LINE__, type, [] { Tensor::scalar(1.0f).item<double>(); });
  check_message(__LINE__, type, [] { Tensor(f32, {2}).data<double>(); });
}

TEST_CASE("an empty tensor makes no state") {
  const std::string empty =
      "from_tensor: value: expected a tensor, got an empty Tensor; give it a dtype and a shape "
      "first";
  check_message(__LINE__, empty, [] { from_tensor(Tensor()); });
  Graph g;
  const Initializer hand_made{.kind = "value", .type = {f32, {}}};
  const std::string state = "state: value: expected f32[], got an empty Tensor";
  check_message(__LINE__, state, [&] { g.state("w", hand_made); });
  const Initializer unknown{.kind = "ortho", .type = {f32, {}}};
  const std::string kind =
      "initializer: kind: expected constant, normal, trunc_normal, uniform, orthogonal or value, "
      "got 'ortho'";
  check_message(__LINE__, kind, [&] { g.state("w", unknown); });
  const std::string dtype = "initializer: dtype: expected a float dtype for normal, got i32";
  check_message(__LINE__, dtype, [&] { g.state("w", normal({2}, 0, 1, i32)); });
  CHECK(g.size() == 0);
}

TEST_CASE("a fetch that does not exist says what there is") {
  Graph g;
  const Value x = g.input("x", f32, {2});
  const Value y = x * 2;
  Session session(g, device("cpu"));
  const Feeds feeds{{x, Tensor(f32, {2})}};
  const std::string outputs =
      "value: expected one of the 1 outputs of mul, got output 7, made at " + at(__LINE__ - 4) +
      "; count them from 0";
  const Value seventh(&g, y.node_id(), 7);
  const std::string error = error_of([&] { session.run({seventh}, feeds); });
  CHECK(error == outputs + " (" + at(__LINE__ - 1) + ")");
  const std::string nodes =
      "value: expected one of the graph's 5 nodes, got node 99; take values "
      "from where they were made";
  check_message(__LINE__, nodes, [&] { session.run({Value(&g, 99, 0)}, feeds); });
}

TEST_CASE("reading and writing a state name the user's line") {
  Graph g;
  Graph h;
  const Value w = g.state("w", zeros({2}));
  const Value other = h.state("w", zeros({2}));
  const int made = __LINE__ - 1;
  Session session(g, device("cpu"));
  const std::string type = "write: state 'w': expected f32[2], got f32[3]";
  check_message(__LINE__, type, [&] { session.write(w, Tensor(f32, {3})); });
  const std::string foreign =
      ": state: expected a value of the session's graph, got state 'w' of another graph, made at " +
      at(made) + "; take it from the graph that is run";
  check_message(__LINE__, "read" + foreign, [&] { session.read(other); });
  check_message(__LINE__, "write" + foreign, [&] { session.write(other, Tensor(f32, {2})); });
  const Value next = w + 1;
  const std::string op =
      "read: state: expected a state of the session's graph, got the result of add, "
      "made at " +
      at(__LINE__ - 4) + "; fetch it with run()";
  check_message(__LINE__, op, [&] { session.read(next); });
}

TEST_CASE("what a session is made of names the user's line") {
  Graph g;
  const auto none = [&] { Session(g, device("cpu"), {.cached_programs = 0}); };
  CHECK(contains(error_of(none), "(" + at(__LINE__ - 1) + ")"));
  const auto wrong = [&] { Session(g, device("cpu"), {.precision = "fp8"}); };
  CHECK(contains(error_of(wrong), "(" + at(__LINE__ - 1) + ")"));
  Session session(g, device("cpu"));
  CHECK(contains(error_of([&] { session.load("/no/such/file"); }), "(" + at(__LINE__) + ")"));
  CHECK(contains(error_of([&] { session.save("/no/such/file"); }), "(" + at(__LINE__) + ")"));
  CHECK(contains(error_of([&] { session.set_loop_size(0); }), "(" + at(__LINE__) + ")"));
}

TEST_CASE("a loop report names the value and the line and what to do") {
  Graph g;
  const Value w = g.state("w", zeros({2}));
  const Value loss = sum(w);
  Session session(g, device("cpu"));
  const LoopReport report =
      session.sink({.update = Update{{{w, w + 1}}}, .fetches = {loss, w}}).run(3);
  const Value other = loss * 2;
  const std::string missing = "loop report: the result of mul, made at " + at(__LINE__ - 1) +
                              ": expected one of the loop's 2 fetches, got another value; name it "
                              "among the fetches of sink()";
  check_message(__LINE__, missing, [&] { report[other]; });
  check_message(__LINE__, missing, [&] { report.tensor(other); });
  const std::string rank = "loop report: state 'w', made at " + at(__LINE__ - 11) +
                           ": expected a fetch of rank 0, got f32[2]; use tensor(), which has its "
                           "value of the last step";
  check_message(__LINE__, rank, [&] { report[w]; });
}

TEST_CASE("a device that is not there is no other one misspelt") {
  const auto words = [](const std::string& got) {
    return "device: backend: expected one of cpu, npu, ref, got '" + got + "'";
  };
  check_message(__LINE__, words("gpu"), [] { device("gpu:0"); });
  check_message(__LINE__, words("npuu") + "; did you mean 'npu'?", [] { device("npuu"); });
  const std::string number = "device: name: expected a device number from 0 to 0, got 'cpu:7'";
  check_message(__LINE__, number, [] { device("cpu:7"); });
}

TEST_CASE("a name as near to two choices as to each other suggests none") {
  CHECK(nearest("gpu", {"cpu", "npu", "ref"}).empty());
  CHECK(nearest("bat", {"cat", "hat"}).empty());
  CHECK(nearest("bat", {"cat", "hat", "bath"}) == "bath");  // few mistype the first letter
  CHECK(nearest("cpuu", {"npu", "cpu"}) == "cpu");
  CHECK(nearest("npu", {"cpu", "npu"}) == "npu");
}

TEST_CASE("two threads on one session are told of each other") {
  Graph g;
  const Value w = g.state("w", zeros({}));
  Session session(g, device("cpu"));
  Loop loop = session.sink({.update = Update{{{w, w + 1}}}, .fetches = {w}});
  std::string other;
  std::string own;
  const auto on_step = [&](int64_t, std::span<const double>) {
    if (other.empty()) {
      std::thread([&] { other = error_of([&] { session.read(w); }); }).join();
      own = error_of([&] { session.read(w); });
    }
    return LoopControl::kContinue;
  };
  loop.run(2, {.on_step = on_step});
  CHECK(contains(other,
                 "Session::read: another thread is in Loop::run, and a session serves one "
                 "thread at a time; give each thread a session of its own"));
  CHECK(contains(own,
                 "Session::read: a loop of this session is running: it is in Loop::run, which "
                 "called this function; use the Trainer's hooks"));
  CHECK(contains(own, at(__LINE__ - 11)));
  CHECK(session.read(w).item<float>() == 2);
}

// The axes of a text are counted from the front; -1 was refused as no axis "from -2 to 1".
TEST_CASE("a text whose axis is negative hears which axes there are") {
  const std::string text = R"(graph {
    %0 = input() {name="x", type=[f32[3, 4]]} : f32[3, 4]
    %1 = sum(%0) {axes=[-1]} : f32[3]
    outputs (%1)
  })";
  CHECK(contains(error_of([&] { parse_graph(text); }),
                 "axes: expected an axis from 0 to 1, counted from the front, got -1"));
}

TEST_SUITE_END();

}  // namespace keel
