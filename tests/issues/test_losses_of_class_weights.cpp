// With class weights as targets softmax_cross_entropy was computed in the 16 bits of its operands,
// step by step, and with either kind it refused a batch that is not known beside one of 1.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("cross entropy of class weights is rounded once in 16 bits") {
  const double total = std::exp(5.0) + 2, rest = 1 / total;
  for (const char* backend : {"ref", "cpu", "npu"}) {
    for (const DType dtype : {bf16, f16}) {
      CAPTURE(std::string(backend));
      CAPTURE(std::string(name_of(dtype)));
      Graph g;
      const Value logits = g.input("logits", dtype, {1, 3}), weights = g.input("w", dtype, {1, 3});
      const Value loss = softmax_cross_entropy(logits, weights);
      const Values slopes = gradients(sum(loss), {logits, weights});
      Session session(g, device(backend));
      const auto of = [&](const std::vector<float>& x) {
        return Tensor::of<float>({1, 3}, x).cast(dtype);
      };
      const auto out = session.run({loss, slopes[0], slopes[1]},
                                   {{logits, of({5, 0, 0})}, {weights, of({1, 0, 0})}});
      const double ulp = dtype == bf16 ? 1.0 / 128 : 1.0 / 1024;
      const auto check = [&](double got, double expected) {
        CHECK(std::fabs(got - expected) <= ulp * std::fabs(expected));
      };
      check(out[0].at(0), -std::log(1 - 2 * rest));
      check(out[1].at(0), -2 * rest);
      check(out[1].at(1), rest);
      check(out[2].at(0), -std::log(1 - 2 * rest));
      check(out[2].at(1), -std::log(rest));
    }
    // The difference of these logits is no number of f16, and the loss is one.
    Graph g;
    const Value logits = g.input("logits", f16, {1, 2}), weights = g.input("w", f16, {1, 2});
    Session session(g, device(backend));
    const Tensor loss = session.run(softmax_cross_entropy(logits, weights),
                                    {{logits, Tensor::of<float>({1, 2}, {40000, -40000}).cast(f16)},
                                     {weights, Tensor::of<float>({1, 2}, {0.9f, 0.1f}).cast(f16)}});
    CHECK(loss.at(0) == doctest::Approx(8000).epsilon(1e-3));
  }
}

TEST_CASE("cross entropy takes a batch that is not known beside a known one") {
  const auto rows_of = [](int64_t logits, int64_t targets, bool ids) {
    Graph g;
    const Value x = g.input("x", f32, {logits, 10});
    const Value t = ids ? g.input("t", u8, {targets}) : g.input("t", f32, {targets, 10});
    const Value loss = softmax_cross_entropy(x, t);
    return loss.shape()[0];
  };
  for (const bool ids : {true, false}) {
    for (const int64_t rows : {1, 5}) {
      CHECK(rows_of(-1, rows, ids) == rows);
      CHECK(rows_of(rows, -1, ids) == rows);
    }
    CHECK(rows_of(-1, -1, ids) == -1);
    CHECK_THROWS_WITH_AS(rows_of(1, 5, ids), doctest::Contains("targets"), Error);
    CHECK_THROWS_WITH_AS(rows_of(5, 1, ids), doctest::Contains("targets"), Error);
  }
}

TEST_SUITE_END();

}  // namespace keel
