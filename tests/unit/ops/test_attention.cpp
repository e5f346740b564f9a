// attention: plain double loops for its output and gradients, and rows that may look at nothing.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "gradients_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

struct Sizes {
  int64_t batch = 2, queries = 3, keys = 5, features = 4, outputs = 2;
};

// Output and gradients of sum(output * upstream), written out.
struct Plain {
  Doubles output, dq, dk, dv;
};
Plain plain_attention(const Sizes& n, const Tensor& q, const Tensor& k, const Tensor& v,
                      const Tensor& upstream, const std::function<bool(int64_t, int64_t)>& sees) {
  Plain r{Doubles(static_cast<size_t>(n.batch * n.queries * n.outputs), 0),
          Doubles(static_cast<size_t>(q.num_elements()), 0),
          Doubles(static_cast<size_t>(k.num_elements()), 0),
          Doubles(static_cast<size_t>(v.num_elements()), 0)};
  const double scale = 1 / std::sqrt(static_cast<double>(n.features));
  for (int64_t b = 0; b < n.batch; ++b) {
    for (int64_t i = 0; i < n.queries; ++i) {
      const int64_t at_q = (b * n.queries + i) * n.features, at_o = (b * n.queries + i) * n.outputs;
      Doubles weight(static_cast<size_t>(n.keys), 0), slope(static_cast<size_t>(n.keys), 0);
      double total = 0, along = 0;
      for (int64_t j = 0; j < n.keys; ++j) {
        double score = 0;
        for (int64_t f = 0; f < n.features; ++f) {
          score += q.at(at_q + f) * k.at((b * n.keys + j) * n.features + f);
        }
        if (sees(i, j)) weight[static_cast<size_t>(j)] = std::exp(score * scale);
        total += weight[static_cast<size_t>(j)];
      }
      for (int64_t j = 0; j < n.keys; ++j) {
        double& p = weight[static_cast<size_t>(j)];
        p = total == 0 ? 0 : p / total;
        for (int64_t o = 0; o < n.outputs; ++o) {
          const int64_t at_v = (b * n.keys + j) * n.outputs + o;
          r.output[static_cast<size_t>(at_o + o)] += p * v.at(at_v);
          r.dv[static_cast<size_t>(at_v)] += p * upstream.at(at_o + o);
          slope[static_cast<size_t>(j)] += v.at(at_v) * upstream.at(at_o + o);
        }
        along += p * slope[static_cast<size_t>(j)];
      }
      for (int64_t j = 0; j < n.keys; ++j) {
        const double d = weight[static_cast<size_t>(j)] * (slope[static_cast<size_t>(j)] - along);
        for (int64_t f = 0; f < n.features; ++f) {
          const int64_t at_k = (b * n.keys + j) * n.features + f;
          r.dq[static_cast<size_t>(at_q + f)] += d * scale * k.at(at_k);
          r.dk[static_cast<size_t>(at_k)] += d * scale * q.at(at_q + f);
        }
      }
    }
  }
  return r;
}

void check_attention(const Sizes& n, const AttentionOptions& given, const Tensor* mask,
                     const std::function<bool(int64_t, int64_t)>& sees) {
  const Tensor q = waves({n.batch, n.queries, n.features}, 0),
               k = waves({n.batch, n.keys, n.features}, 1),
               v = waves({n.batch, n.keys, n.outputs}, 2),
               upstream = waves({n.batch, n.queries, n.outputs}, 3);
  const Plain expected = plain_attention(n, q, k, v, upstream, sees);
  for (const std::string& backend : backend_names()) {
    for (const DType dtype : {f64, f32}) {
      if (dtype == f64 && backend == "npu") continue;  // which has none
      CAPTURE(backend);
      Graph g;
      const Value a = g.input("q", dtype, q.shape()), b = g.input("k", dtype, k.shape()),
                  c = g.input("v", dtype, v.shape());
      AttentionOptions options = given;
      if (mask != nullptr) options.mask = g.constant(*mask);
      const Value out = attention(a, b, c, options);
      Values fetches = gradients(sum(out * g.constant(upstream.cast(dtype))), {a, b, c});
      fetches.push_back(out);
      Session session(g, device(backend));
      const auto got =
          session.run(fetches, {{a, q.cast(dtype)}, {b, k.cast(dtype)}, {c, v.cast(dtype)}});
      const double tolerance = dtype == f64 ? 1e-13 : 2e-6;
      check_close(elements(got[3]), expected.output, tolerance);
      check_close(elements(got[0]), expected.dq, tolerance);
      check_close(elements(got[1]), expected.dk, tolerance);
      check_close(elements(got[2]), expected.dv, tolerance);
    }
  }
}

TEST_CASE("attention and its gradients are those of plain loops") {
  check_attention({}, {}, nullptr, [](int64_t, int64_t) { return true; });
}

TEST_CASE("causal attention looks back from the last query") {
  check_attention({.queries = 4, .keys = 4}, {.causal = true}, nullptr,
                  [](int64_t i, int64_t j) { return j <= i; });
  check_attention({.queries = 2, .keys = 5}, {.causal = true}, nullptr,
                  [](int64_t i, int64_t j) { return j <= i + 3; });
  // More queries than keys: the first may look at nothing.
  check_attention({.queries = 5, .keys = 2}, {.causal = true}, nullptr,
                  [](int64_t i, int64_t j) { return j <= i - 3; });
}

TEST_CASE("a mask excludes keys and a query without any gives zeros") {
  Tensor mask(boolean, {3, 5});
  const auto sees = [](int64_t i, int64_t j) { return i != 1 && (i + j) % 2 == 0; };
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 5; ++j) mask.set(i * 5 + j, sees(i, j) ? 1 : 0);
  }
  check_attention({}, {}, &mask, sees);
  check_attention({}, {.causal = true}, &mask,
                  [&](int64_t i, int64_t j) { return sees(i, j) && j <= i + 2; });
}

TEST_CASE("what a mask excludes may be anything") {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Value q = g.input("q", f32, {1, 1}), k = g.input("k", f32, {4, 1});
    const Value v = g.constant(Tensor::of<float>({4, 1}, {1, 2, 4, 8}));
    const Value mask = g.constant(Tensor::of<bool>({1, 4}, {true, false, false, true}));
    const Value out = attention(q, k, v, {.mask = mask});
    Session session(g, device(backend));
    const Feeds feeds{{q, Tensor::of<float>({1, 1}, {1})},
                      {k, Tensor::of<float>({4, 1}, {0, kNaN, INFINITY, 0})}};
    CHECK(elements(session.run(out, feeds)) == Doubles{4.5});
    // Scores near both ends of f32 stay what they are.
    const Feeds far{{q, Tensor::of<float>({1, 1}, {1})},
                    {k, Tensor::of<float>({4, 1}, {-3e38f, 3e38f, 0, -3e38f})}};
    CHECK(elements(session.run(out, far)) == Doubles{4.5});
  }
}

TEST_CASE("attention over heads with an unknown batch and halves") {
  const Tensor q = waves({2, 3, 4, 8}, 0), k = waves({2, 3, 4, 8}, 1), v = waves({2, 3, 4, 8}, 2);
  Graph reference;
  const Doubles expected = elements(attention(reference.constant(q), reference.constant(k),
                                              reference.constant(v), {.causal = true}));
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    for (const DType dtype : {f16, bf16, f32}) {
      Graph g;
      const Shape shape{-1, 3, 4, 8};
      const Value a = g.input("q", dtype, shape), b = g.input("k", dtype, shape),
                  c = g.input("v", dtype, shape);
      const Value out = attention(a, b, c, {.causal = true});
      CHECK(out.type() == Type{dtype, shape});
      Session session(g, device(backend));
      const auto got =
          session.run(out, {{a, q.cast(dtype)}, {b, k.cast(dtype)}, {c, v.cast(dtype)}});
      check_close(elements(got), expected, dtype == f32 ? 2e-6 : dtype == f16 ? 4e-3 : 3e-2);
    }
  }
}

TEST_CASE("attention at its corners") {
  Graph g;
  const Value q = g.constant(Tensor(f32, {2, 4})), none = g.constant(Tensor(f32, {0, 4}));
  CHECK(elements(attention(q, none, none)) == Doubles(8, 0));
  CHECK(elements(attention(none, q, q)).empty());
  const auto message = [](auto&& f) { return error_of(f); };
  const Value narrow = g.constant(Tensor(f32, {2, 3}));
  CHECK(contains(message([&] { attention(q, narrow, q); }), "4 features"));
  CHECK(contains(message([&] { attention(q, q, none); }), "one for each key"));
  CHECK(contains(message([&] { attention(q, q, g.constant(Tensor(f16, {2, 4}))); }), "cast"));
  CHECK(contains(message([&] { attention(q, q, q, {.mask = q}); }), "bool"));
  CHECK(contains(message([&] {
                   attention(q, q, q, {.mask = g.constant(Tensor(boolean, {3, 2}))});
                 }),
                 "[2, 2]"));
  CHECK(contains(message([&] {
                   attention(q, q, q, {.mask = g.constant(Tensor(boolean, {3, 2, 2}))});
                 }),
                 "mask"));
  const Value any = g.input("any", f32, {-1, 4});
  CHECK(contains(message([&] { attention(any, any, any, {.causal = true}); }), "known"));
  CHECK(contains(message([&] { attention(any, any, any, {.causal = true}); }), __FILE__));
  CHECK(contains(message([&] { attention(q, q, q, {.scale = INFINITY}); }), "scale"));
}

}  // namespace

TEST_SUITE_END();
