// From a graph to a task list: where buffers go, what is written in place, and what that must not
// break.
#include <rapidcheck.h>

#include <doctest/doctest.h>

#include "keel/backends/common/broadcast.h"
#include "keel/backends/common/kernel.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/fused_body.h"
#include "keel/graph/passes/memory_plan.h"
#include "keel/graph/passes/passes.h"

#include "ops_for_tests.h"
#include "support/fusion.h"

namespace keel {
namespace {

using testing::contains;
using testing::elements;
using testing::error_of;

Tensor row(std::initializer_list<float> values) {
  return Tensor::of<float>({static_cast<int64_t>(values.size())}, values);
}

Initializer starts_at(const Tensor& value) {
  Initializer init;
  init.kind = "value";
  init.type = value.type();
  init.value = value;
  return init;
}

// Says the same of every node, and counts how often it is asked about fused ones.
class CountingLibrary final : public KernelLibrary {
 public:
  explicit CountingLibrary(Support answer) : answer_(std::move(answer)) {}
  Support supports(const Node& node) const override {
    if (is_fused_node(node)) ++asked_;
    return is_fused_node(node) ? answer_ : Support{true, ""};
  }
  KernelPlan plan(const Node&, const StateLayouts&) const override { return {}; }
  KernelPlan plan_copy(size_t) const override { return {}; }
  int64_t control_ns(TaskKind) const override { return 0; }
  int asked() const noexcept { return asked_; }

 private:
  Support answer_;
  mutable int asked_ = 0;
};

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("memory plan places no two living buffers over each other") {
  CHECK(rc::check("memory plan", [] {
    const auto count = *rc::gen::inRange<size_t>(1, 60);
    std::vector<LifeSpan> spans(count);
    for (LifeSpan& s : spans) {
      s.first = *rc::gen::inRange<int64_t>(0, 100);
      s.last = s.first + *rc::gen::inRange<int64_t>(0, 40);
      s.bytes = *rc::gen::inRange<size_t>(0, 5000);
    }
    const MemoryPlan plan = plan_memory(spans);
    size_t end = 0;
    for (size_t i = 0; i < count; ++i) {
      RC_ASSERT(plan.offsets[i] % Buffer::kAlignment == 0);
      end = std::max(end, plan.offsets[i] + spans[i].bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool together = spans[i].first <= spans[j].last && spans[j].first <= spans[i].last;
        const bool overlap = plan.offsets[i] < plan.offsets[j] + spans[j].bytes &&
                             plan.offsets[j] < plan.offsets[i] + spans[i].bytes;
        RC_ASSERT(!(together && overlap));
      }
    }
    RC_ASSERT(end <= plan.arena_bytes);
    RC_ASSERT(plan.lower_bound <= plan.arena_bytes);
  }));
}

TEST_CASE("memory plan reuses what is dead") {
  // A chain of equal buffers, each alive with its neighbour only, needs room for two.
  std::vector<LifeSpan> spans;
  for (int64_t i = 0; i < 100; ++i) spans.push_back({i, i + 1, 640});
  const MemoryPlan plan = plan_memory(spans);
  CHECK(plan.arena_bytes == 1280);
  CHECK(plan.lower_bound == 1280);
}

TEST_CASE("what fused tasks compute goes straight to the output that fetches it") {
  for (const char* where : {"npu:0", "cpu:0"}) {
    Graph g;
    const Value x = g.input("x", f32, {3, 3});
    const Values fetches{exp(x * 2.0f), relu(matmul(x, x)), sum(x) / 9.0f};
    Session session(g, device(where));
    const Feeds feeds{{x, Tensor::full(f32, {3, 3}, 1.0)}};
    const std::string tasks = session.describe({}, fetches, feeds);
    CAPTURE(tasks);
    CHECK(contains(tasks, "mul + exp"));
    CHECK(contains(tasks, "matmul + relu"));
    CHECK(contains(tasks, "sum + div"));
    CHECK_FALSE(contains(tasks, "copy"));
    const std::vector<Tensor> results = session.run(fetches, feeds);
    CHECK(results[1].at(8) == 3);
    CHECK(results[2].at(0) == 1);
  }
}

TEST_CASE("updates of a step take effect together") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Graph g;
    const Value a = g.state("a", starts_at(row({1, 2})));
    const Value b = g.state("b", starts_at(row({10, 20})));
    const Value c = g.state("c", starts_at(row({100, 200})));
    // a and b swap, c takes the old sum; the fetches see the values before the step.
    const Update update{{{a, b}, {b, a}, {c, a + b}}};
    Session session(g, device(name));
    const auto out = session.run(update, {a, b, a + c});
    CHECK(elements(out[0]) == std::vector<double>{1, 2});
    CHECK(elements(out[1]) == std::vector<double>{10, 20});
    CHECK(elements(out[2]) == std::vector<double>{101, 202});
    CHECK(elements(session.read(a)) == std::vector<double>{10, 20});
    CHECK(elements(session.read(b)) == std::vector<double>{1, 2});
    CHECK(elements(session.read(c)) == std::vector<double>{11, 22});
    session.run(update, {});
    CHECK(elements(session.read(a)) == std::vector<double>{1, 2});
    CHECK(elements(session.read(c)) == std::vector<double>{11, 22});
  }
}

TEST_CASE("a state that is read after its next value is made keeps its old value till the end") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Graph g;
    const Value w = g.state("w", starts_at(row({1, 2, 3})));
    const Value next = w + 1.0f;
    const Value later = w * next;  // reads both
    Session session(g, device(name));
    const auto out = session.run(Update{{{w, next}}}, {later, next, w});
    CHECK(elements(out[0]) == std::vector<double>{2, 6, 12});
    CHECK(elements(out[1]) == std::vector<double>{2, 3, 4});
    CHECK(elements(out[2]) == std::vector<double>{1, 2, 3});
    CHECK(elements(session.read(w)) == std::vector<double>{2, 3, 4});
  }
}

TEST_CASE("fetches of inputs constants and the same value twice are copies") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Graph g;
    const Value x = g.input("x", f32, {2});
    const Value k = g.constant(row({7, 8}));
    const Value y = reshape(x + k, {2, 1});
    Session session(g, device(name));
    const auto out = session.run({x, k, y, y, reshape(y, {2})}, {{x, row({1, 2})}});
    CHECK(elements(out[0]) == std::vector<double>{1, 2});
    CHECK(elements(out[1]) == std::vector<double>{7, 8});
    CHECK(out[2].shape() == Shape{2, 1});
    CHECK(elements(out[3]) == std::vector<double>{8, 10});
    CHECK(elements(out[4]) == std::vector<double>{8, 10});
  }
}

TEST_CASE("fusion changes no bit") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Graph g;
    const Value x = g.input("x", f32, {37, 53});
    const Value bias = g.input("bias", f32, {53});
    const Value column = g.input("column", f32, {37, 1});
    Value y = tanh(x + bias) * column;
    y = select(less(y, 0.1f), exp(y), sqrt(abs(y)) - 2.0f) / (column + 3.0f);
    const Feeds feeds = {{x, testing::counting({37, 53}).reshaped({37, 53})},
                         {bias, testing::counting({53})},
                         {column, testing::counting({37, 1})}};
    Session fused(g, device(name));
    Session plain(g, device(name), {.disabled_passes = keel_test::fusion(false)});
    CHECK(bit_equal(fused.run({y}, feeds)[0], plain.run({y}, feeds)[0]));
  }
}

TEST_CASE("large element-wise results are the same in place and in new memory") {
  constexpr int64_t kCount = (int64_t{5} << 19) + 37;  // above what is stored past the caches
  Tensor start(f32, {kCount}), slope(f32, {kCount});
  for (int64_t i = 0; i < kCount; ++i) {
    start.data<float>()[static_cast<size_t>(i)] = static_cast<float>(i % 1013) * 0.37f - 100.0f;
    slope.data<float>()[static_cast<size_t>(i)] = static_cast<float>(i % 7) - 3.1f;
  }
  for (const char* name : {"npu:0", "cpu:0"}) {
    CAPTURE(std::string(name));
    Graph g;
    const Value w = g.state("w", starts_at(start));
    const Value x = g.input("x", f32, {kCount});
    const Value next = w - x * 0.25f;
    Update update;
    update.assignments.push_back({w, next});
    Session session(g, device(name));
    const Tensor fetched = session.run({next, w * x + w}, {{x, slope}})[0];
    const Tensor merged = session.run({w * x - 1.5f}, {{x, slope}})[0];
    session.run(update, {}, {{x, slope}});
    const Tensor stored = session.read(w);
    size_t wrong = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      const float a = start.data<float>()[static_cast<size_t>(i)],
                  b = slope.data<float>()[static_cast<size_t>(i)];
      const volatile float step = b * 0.25f, product = a * b;
      wrong += fetched.data<float>()[static_cast<size_t>(i)] != a - step ||
               stored.data<float>()[static_cast<size_t>(i)] != a - step;
      wrong += merged.data<float>()[static_cast<size_t>(i)] != product - 1.5f;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a compile error lists every op that the backend cannot run") {
  Graph g;
  const Value x = g.input("x", f64, {2});
  const Value y = exp(x);
  const Value z = tanh(y);
  Session session(g, device("npu"));
  const std::string text = error_of([&] { session.run({z}, {{x, Tensor(f64, {2})}}); });
  CHECK(contains(text, "2 nodes"));
  CHECK(contains(text, "exp f64[2]"));
  CHECK(contains(text, "tanh f64[2]"));
  CHECK(contains(text, "test_lowering.cpp:"));
}

TEST_CASE("fused nodes of a loop that share a body are one question to the library") {
  const auto body_of = [](float factor) {
    auto body = std::make_shared<Graph>();
    body->set_outputs({exp(body->input("v0", f32, {4})) * factor});
    return body;
  };
  const std::shared_ptr<Graph> twice = body_of(2), thrice = body_of(3);
  Graph g;
  const Value x = g.input("x", f32, {4});
  const auto fused = [](const Value& v, const std::shared_ptr<Graph>& body) {
    return v.graph().add("fused", {v}, {}, CallSite::here(), {body}).output();
  };
  const auto always = [](const Values& v) {
    return v[0].graph().constant(Tensor::full(boolean, {}, 1));
  };
  const auto turn = [&](const Values& v) {
    return Values{fused(fused(fused(v[0], twice), twice), thrice)};
  };
  const Values loop = while_loop({x}, always, turn, {.trip_count = 2});

  const CountingLibrary takes({true, ""});
  CHECK(supports_in_task_list(takes, loop[0].node()).supported);
  CHECK(takes.asked() == 2);  // one for each body

  const CountingLibrary declines({false, "it is a test"});
  const Support support = supports_in_task_list(declines, loop[0].node());
  CHECK_FALSE(support.supported);
  CHECK(contains(support.reason, "it is a test"));
}

TEST_CASE("broadcast reader gives any range of the broadcast") {
  CHECK(rc::check("broadcast reader", [] {
    const auto rank = *rc::gen::inRange<size_t>(1, 5);
    std::vector<int64_t> to;
    std::vector<int64_t> from;
    for (size_t i = 0; i < rank; ++i) {
      to.push_back(*rc::gen::inRange<int64_t>(1, 5));
      from.push_back(*rc::gen::arbitrary<bool>() ? to.back() : 1);
    }
    const auto drop = *rc::gen::inRange<size_t>(0, rank);
    const Shape large(to);
    const Shape small(
        std::vector<int64_t>(from.begin() + static_cast<std::ptrdiff_t>(drop), from.end()));
    const Tensor source = testing::counting(small, i32);
    const int64_t total = large.num_elements();
    const auto begin = *rc::gen::inRange<int64_t>(0, total);
    const auto count = *rc::gen::inRange<int64_t>(0, total - begin + 1);
    std::vector<int32_t> got(static_cast<size_t>(count));
    BroadcastReader(small, large, 4).read(source.raw(), got.data(), begin, count);
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = begin + i;
      int64_t at = 0;
      int64_t stride = 1;
      for (size_t axis = rank; axis-- > 0;) {
        const int64_t index = rest % to[axis];
        rest /= to[axis];
        if (axis < drop) continue;
        if (from[axis] != 1) at += index * stride;
        stride *= from[axis];
      }
      RC_ASSERT(got[static_cast<size_t>(i)] == at);
    }
  }));
}

TEST_SUITE_END();

}  // namespace keel
