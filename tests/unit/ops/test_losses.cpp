// Losses: closed forms, numbers where the usual formulas lose all digits, gradients by differences.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "gradients_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

// Relative: a loss may be tiny and right. Where 0 is expected nothing else will do.
Value doubles(Graph& g, const Shape& shape, const Doubles& numbers) {
  Tensor t(f64, shape);
  for (size_t i = 0; i < numbers.size(); ++i) t.set(static_cast<int64_t>(i), numbers[i]);
  return g.constant(t);
}

TEST_CASE("losses of elements are their closed forms") {
  Graph g;
  const Value prediction = doubles(g, {4}, {1, 2, -3, 0.5});
  const Value target = doubles(g, {4}, {0, 2, 1, 0});
  check_close(elements(mean_absolute_error(prediction, target)), {(1 + 0 + 4 + 0.5) / 4});
  check_close(elements(huber(prediction, target)), {0.5, 0, 3.5, 0.125});
  check_close(elements(huber(prediction, target, 0.5)), {0.375, 0, 1.875, 0.125});
  check_close(elements(huber_loss(prediction, target)), {4.125 / 4});
  const Value labels = doubles(g, {4}, {1, -1, -1, 1});
  CHECK(elements(hinge(prediction, labels)) == Doubles{0, 3, 0, 0.5});
  CHECK(elements(hinge_loss(prediction, labels)) == Doubles{3.5 / 4});
}

TEST_CASE("binary cross entropy keeps its digits at both ends") {
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Value logits = g.input("logits", f32, {-1}), targets = g.input("targets", f32, {-1});
    const Tensor x = Tensor::of<float>({6}, {30, -30, 30, -30, 0, 200});
    const Tensor t = Tensor::of<float>({6}, {1, 0, 0, 1, 0.25, 1});
    Session session(g, device(backend));
    const Feeds feeds{{logits, x}, {targets, t}};
    const Value loss = sigmoid_cross_entropy(logits, targets);
    // log(1 + exp(-30)), which 30 - 30 would make 0; then 30 more; log 2; and exp(-200).
    const Doubles got = elements(session.run(loss, feeds));
    const double small = std::log1p(std::exp(-30.0));
    check_close(got, {small, small, 30 + small, 30 + small, std::log(2.0), 0}, 1e-5);
    // sigmoid(x) - target.
    const double e = 1 / (1 + std::exp(30.0));
    const Doubles slope = elements(session.run(gradients(sum(loss), {logits})[0], feeds));
    check_close(slope, {-e, e, 1 - e, e - 1, 0.25, 0}, 1e-5);
    check_close(elements(session.run(binary_cross_entropy(logits, targets), feeds)),
                {(4 * small + 60 + std::log(2.0)) / 6}, 1e-6);
  }
}

TEST_CASE("negative log likelihood takes the class of each row") {
  Graph g;
  const Value log_p = doubles(g, {2, 3}, {-1, -2, -INFINITY, -4, -5, -6});
  const Value ids = g.constant(Tensor::of<uint8_t>({2}, {1, 0}));
  CHECK(elements(negative_log_likelihood(log_p, ids)) == Doubles{2, 4});
  CHECK(elements(nll_loss(log_p, ids)) == Doubles{3});
  CHECK(elements(gradients(nll_loss(log_p, ids), {log_p})[0]) == Doubles{0, -0.5, 0, -0.5, 0, 0});
  const Value wrong = g.constant(Tensor::of<int64_t>({2}, {1, 3}));
  CHECK(contains(error_of([&] { evaluate(nll_loss(log_p, wrong)); }), "3"));
}

TEST_CASE("top-k accuracy counts rows whose class is among the largest logits") {
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Value logits = g.input("logits", f32, {-1, 4}), ids = g.input("ids", u8, {-1});
    const Values outputs = {top_k_hits(logits, ids, 1),     top_k_hits(logits, ids, 2),
                            top_k_hits(logits, ids, 4),     top_k_accuracy(logits, ids, 2),
                            top_k_accuracy(logits, ids, 1), accuracy(logits, ids)};
    Session session(g, device(backend));
    // The two largest are at 3 and 1, of four equal ones at 0 and 1, in a row of NaN nowhere, then
    // at 1 and 0.
    const Tensor scores = Tensor::of<float>(
        {4, 4}, {0, 3, 1, 5, 2, 2, 2, 2, 1, 0, 4, NAN, -1, 7, -INFINITY, -INFINITY});
    const auto got =
        session.run(outputs, {{logits, scores}, {ids, Tensor::of<uint8_t>({4}, {1, 2, 3, 0})}});
    CHECK(elements(got[0]) == Doubles{0, 0, 0, 0});
    CHECK(elements(got[1]) == Doubles{1, 0, 0, 1});
    CHECK(elements(got[2]) == Doubles{1, 1, 0, 1});
    CHECK(elements(got[3]) == Doubles{0.5});
    CHECK(elements(got[4]) == Doubles{0});
    CHECK(elements(got[5]) == Doubles{0});
    CHECK_THROWS_AS(session.run({outputs[0]}, {{logits, scores}, {ids, Tensor(u8, {3})}}), Error);
  }
  Graph g;
  const Value logits = g.input("logits", f32, {2, 4}), ids = g.input("ids", u8, {2});
  CHECK(contains(error_of([&] { top_k_accuracy(logits, ids, 5); }), "k: expected at least 1"));
  CHECK(contains(error_of([&] { top_k_accuracy(logits, ids, 0); }), __FILE__));
  CHECK(contains(error_of([&] { top_k_hits(logits, logits, 1); }), "ids: expected integers"));
  CHECK(contains(error_of([&] { top_k_hits(logits, g.input("few", u8, {3}), 1); }), "[2]"));
  CHECK(contains(error_of([&] { top_k_hits(ids, ids, 1); }), "[batch, classes]"));
}

TEST_CASE("kl divergence counts nothing for classes of probability 0") {
  Graph g;
  const Value q =
      doubles(g, {2, 2}, {std::log(0.5), std::log(0.5), std::log(0.25), std::log(0.75)});
  const Value p = doubles(g, {2, 2}, {0, 1, 0.5, 0.5});
  const double second = 0.5 * std::log(2.0) + 0.5 * std::log(2.0 / 3);
  check_close(elements(kl_divergence(q, p)), {std::log(2.0), second});
  check_close(elements(kl_divergence_loss(q, p)), {(std::log(2.0) + second) / 2});
  check_close(elements(kl_divergence(p * 0.0, p)), {0, std::log(0.5)});
}

TEST_CASE("gradients of losses agree with differences and backends with ref") {
  const auto wave = [](const Shape& shape, double phase, DType dtype) {
    Tensor t(dtype, shape);
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      t.set(i, 0.5 + 0.45 * std::sin(2.3 * static_cast<double>(i) + phase));
    }
    return t;
  };
  const Loss losses[] = {
      [](Graph&, const Values& x) { return mean_absolute_error(x[0], x[1]); },
      [](Graph&, const Values& x) { return huber_loss(x[0], x[1], 0.25); },
      [](Graph&, const Values& x) { return binary_cross_entropy(x[0] * 4.0, x[1]); },
      [](Graph&, const Values& x) { return hinge_loss(x[0], x[1] * 2.0 - 1.0); },
      [](Graph&, const Values& x) { return kl_divergence_loss(log_softmax(x[0]), x[1]); },
      [](Graph& g, const Values& x) {
        return nll_loss(log_softmax(x[0]), g.constant(Tensor::of<int32_t>({3}, {2, 0, 1}))) +
               sum(x[1]);
      }};
  for (const Loss& loss : losses) {
    check_differences(loss, {wave({3, 4}, 0, f64), wave({3, 4}, 1, f64)});
    check_backends(loss, {wave({3, 4}, 0, f32), wave({3, 4}, 1, f32)});
  }
}

TEST_CASE("the divergence passes no gradient where a target of 0 meets a probability of 0") {
  Graph g;
  const Value q = g.constant(Tensor::of<float>({1, 2}, {-INFINITY, 0}));
  const Value p = g.constant(Tensor::of<float>({1, 2}, {0, 1}));
  const Values slopes = gradients(sum(kl_divergence(q, p)), {q, p});
  CHECK(elements(slopes[0]) == Doubles{0, -1});
  CHECK(elements(slopes[1]) == Doubles{0, 1});
}

TEST_CASE("losses refuse what they would have to broadcast") {
  Graph g;
  const Value x = g.constant(Tensor(f32, {2, 3})), y = g.constant(Tensor(f32, {2, 1}));
  const Value ids = g.constant(Tensor(i64, {2}));
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { mean_absolute_error(x, y); }, [&] { huber(x, y); }, [&] { hinge(x, y); },
           [&] { sigmoid_cross_entropy(x, y); }, [&] { kl_divergence(x, y); }}) {
    const std::string text = error_of(call);
    CHECK(contains(text, "shape [2, 3]"));
    CHECK(contains(text, "[2, 1]"));
    CHECK(contains(text, __FILE__));
  }
  CHECK(contains(error_of([&] { huber(x, x, 0); }), "delta"));
  CHECK(contains(error_of([&] { nll_loss(x, g.constant(Tensor(i64, {3}))); }), "class ids"));
  CHECK(contains(error_of([&] { nll_loss(x, y); }), "integer"));
  CHECK(contains(error_of([&] { nll_loss(ids, ids); }), "float"));
  CHECK(elements(sigmoid_cross_entropy(x, 0)).size() == 6);
}

}  // namespace

TEST_SUITE_END();
