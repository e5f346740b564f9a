// attention: plain double loops for its output and gradients, within blocks and across their
// bounds; rows that may look at nothing, numbers that are none, second gradients, and that neither
// schedule nor fusion changes a bit.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/options.h"

#include "gradients_for_tests.h"
#include "support/fusion.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

struct AttentionSizes {
  int64_t batch = 2, queries = 3, keys = 5, features = 4, outputs = 2;
};

// Output and gradients of sum(output * upstream), written out.
struct PlainAttention {
  Doubles output, dq, dk, dv;
};
PlainAttention plain_attention(const AttentionSizes& n, const Tensor& q, const Tensor& k,
                               const Tensor& v, const Tensor& upstream,
                               const std::function<bool(int64_t, int64_t)>& sees) {
  PlainAttention r{Doubles(static_cast<size_t>(n.batch * n.queries * n.outputs), 0),
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

void check_attention(const AttentionSizes& n, const AttentionOptions& given, const Tensor* mask,
                     const std::function<bool(int64_t, int64_t)>& sees) {
  const Tensor q = waves({n.batch, n.queries, n.features}, 0),
               k = waves({n.batch, n.keys, n.features}, 1),
               v = waves({n.batch, n.keys, n.outputs}, 2),
               upstream = waves({n.batch, n.queries, n.outputs}, 3);
  const PlainAttention expected = plain_attention(n, q, k, v, upstream, sees);
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
      // Gradients of keys and values are sums over the queries.
      const double terms = static_cast<double>(std::max<int64_t>(8, n.queries));
      const double tolerance = dtype == f64 ? 1e-14 * terms : 2.5e-7 * terms;
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
  // Lengths may be unknown, features only beside a scale.
  const Value any = g.input("any", f32, {-1, 4}), rows = g.input("rows", f32, {3, -1});
  CHECK(attention(any, any, any, {.causal = true}).type() == any.type());
  CHECK(attention(rows, rows, rows, {.scale = 1}).type() == rows.type());
  CHECK(contains(message([&] { attention(rows, rows, rows); }), "known number of features"));
  CHECK(contains(message([&] { attention(rows, rows, rows); }), __FILE__));
  CHECK(contains(message([&] { attention(q, q, q, {.scale = INFINITY}); }), "scale"));
}

// ---- more than a block

TEST_CASE("attention across the bounds of blocks") {
  const auto everything = [](int64_t, int64_t) { return true; };
  check_attention({.batch = 1, .queries = 65, .keys = 130, .features = 20, .outputs = 33}, {},
                  nullptr, everything);
  check_attention({.batch = 1, .queries = 64, .keys = 64, .features = 7, .outputs = 16},
                  {.causal = true}, nullptr, [](int64_t i, int64_t j) { return j <= i; });
  check_attention({.batch = 2, .queries = 70, .keys = 131, .features = 3, .outputs = 1},
                  {.causal = true}, nullptr, [](int64_t i, int64_t j) { return j <= i + 61; });
  check_attention({.batch = 1, .queries = 140, .keys = 66, .features = 5, .outputs = 9},
                  {.causal = true}, nullptr, [](int64_t i, int64_t j) { return j <= i - 74; });
}

TEST_CASE("masks across the bounds of blocks") {
  const AttentionSizes n{.batch = 2, .queries = 67, .keys = 133, .features = 6, .outputs = 5};
  const auto sees = [](int64_t i, int64_t j) { return i != 66 && (i * 7 + j * 3) % 11 < 5; };
  Tensor whole(boolean, {n.queries, n.keys});
  for (int64_t i = 0; i < n.queries; ++i) {
    for (int64_t j = 0; j < n.keys; ++j) whole.set(i * n.keys + j, sees(i, j) ? 1 : 0);
  }
  check_attention(n, {}, &whole, sees);
  check_attention(n, {.causal = true}, &whole,
                  [&](int64_t i, int64_t j) { return sees(i, j) && j <= i + 66; });
  // One mask for all queries, and one for all keys.
  Tensor keys(boolean, {1, n.keys}), queries(boolean, {n.queries, 1});
  for (int64_t j = 0; j < n.keys; ++j) keys.set(j, j % 3 == 1 ? 1 : 0);
  for (int64_t i = 0; i < n.queries; ++i) queries.set(i, i % 2 == 1 ? 1 : 0);
  check_attention(n, {}, &keys, [](int64_t, int64_t j) { return j % 3 == 1; });
  check_attention(n, {}, &queries, [](int64_t i, int64_t) { return i % 2 == 1; });
}

// A head of so many keys is cut in parts, whose gradients for the queries are added up.
TEST_CASE("long keys of few heads") {
  check_attention({.batch = 1, .queries = 3, .keys = 1300, .features = 4, .outputs = 3},
                  {.causal = true}, nullptr, [](int64_t i, int64_t j) { return j <= i + 1297; });
}

TEST_CASE("heads may share keys and values") {
  const Tensor q = waves({2, 3, 4, 5}, 0), k = waves({3, 6, 5}, 1), v = waves({2, 1, 6, 2}, 2);
  const Tensor upstream = waves({2, 3, 4, 2}, 3);
  const auto results = [&](DType dtype, const std::string& backend, bool copies) {
    Graph g;
    const Value a = g.input("q", dtype, q.shape()), b = g.input("k", dtype, k.shape()),
                c = g.input("v", dtype, v.shape());
    const Value out = copies ? attention(a, broadcast_to(b, {2, 3, 6, 5}),
                                         broadcast_to(c, {2, 3, 6, 2}), {.causal = true})
                             : attention(a, b, c, {.causal = true});
    Values fetches = gradients(sum(out * g.constant(upstream.cast(dtype))), {a, b, c});
    fetches.push_back(out);
    Session session(g, device(backend));
    Rows rows;
    const Feeds feeds{{a, q.cast(dtype)}, {b, k.cast(dtype)}, {c, v.cast(dtype)}};
    for (const Tensor& t : session.run(fetches, feeds)) rows.push_back(elements(t));
    return rows;
  };
  const Rows expected = results(f64, "ref", true);
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    const Rows got = results(f32, backend, false);
    for (size_t i = 0; i < got.size(); ++i) check_close(got[i], expected[i], 2e-6);
  }
}

// ---- numbers that are none

TEST_CASE("no gradient passes what a mask excludes") {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Value q = g.input("q", f32, {2, 1}), k = g.input("k", f32, {4, 1}),
                v = g.input("v", f32, {4, 1});
    const Value mask = g.constant(
        Tensor::of<bool>({2, 4}, {true, false, false, true, false, false, false, false}));
    const Value out = attention(q, k, v, {.mask = mask});
    Session session(g, device(backend));
    const auto got = session.run(gradients(sum(out), {q, k, v}),
                                 {{q, Tensor::of<float>({2, 1}, {0, 0})},
                                  {k, Tensor::of<float>({4, 1}, {1, kNaN, INFINITY, 3})},
                                  {v, Tensor::of<float>({4, 1}, {2, 5, 7, 4})}});
    // Weights of one half each: the slopes of the scores are -0.5 and 0.5.
    CHECK(elements(got[1]) == Doubles{0, 0, 0, 0});
    CHECK(elements(got[2]) == Doubles{0.5, 0, 0, 0.5});
  }
}

TEST_CASE("what a query looks at spreads where it is no number") {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Value q = g.input("q", f32, {2, 1}), k = g.input("k", f32, {3, 1});
    const Value v = g.constant(Tensor::of<float>({3, 1}, {1, 2, 4}));
    const Value out = attention(q, k, v, {.causal = true});
    Session session(g, device(backend));
    const auto results = [&](float key) {
      return elements(session.run(out, {{q, Tensor::of<float>({2, 1}, {1, 1})},
                                        {k, Tensor::of<float>({3, 1}, {0, 0, key})}}));
    };
    for (const float key : {kNaN, INFINITY}) {
      CHECK(results(key)[0] == 1.5);
      CHECK(std::isnan(results(key)[1]));
    }
    // The weight of -infinity is 0.
    CHECK(results(-INFINITY) == Doubles{1.5, 1.5});
  }
}

TEST_CASE("scores that tie far from zero share the gradient") {
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Value q = g.input("q", f32, {1, 1}), k = g.input("k", f32, {2, 1}),
                v = g.input("v", f32, {2, 1});
    Session session(g, device(backend));
    const auto got = session.run(gradients(sum(attention(q, k, v)), {v}),
                                 {{q, Tensor::of<float>({1, 1}, {1})},
                                  {k, Tensor::of<float>({2, 1}, {1e9f, 1e9f})},
                                  {v, Tensor::of<float>({2, 1}, {1, 2})}});
    CHECK(elements(got[0]) == Doubles{0.5, 0.5});
  }
}

// ---- second gradients

// A scalar of all first gradients, and so of the op that computes them.
Value gradient_loss(Graph& g, const Values& x, const AttentionOptions& options) {
  const Value out = attention(x[0], x[1], x[2], options);
  const Values first = gradients(sum(square(out)), {x[0], x[1], x[2]});
  const Value weights = g.constant(waves(first[0].shape(), 7, x[0].dtype()));
  return sum(first[0] * weights) + sum(square(first[1])) + sum(sin(first[2]));
}

TEST_CASE("second gradients of attention") {
  Tensor mask(boolean, {3, 4});
  for (int64_t i = 0; i < 12; ++i) mask.set(i, i % 4 == 1 || i / 4 == 1 ? 0 : 1);
  const Points points{waves({2, 3, 2}, 0), waves({2, 4, 2}, 1), waves({2, 4, 3}, 2)};
  const Loss masked = [&](Graph& g, const Values& x) {
    return gradient_loss(g, x, {.mask = g.constant(mask)});
  };
  const Loss causal = [](Graph& g, const Values& x) {
    return gradient_loss(g, x, {.causal = true});
  };
  for (const Loss& loss : {masked, causal}) {
    check_differences(loss, points);
    Points narrow;
    for (const Tensor& p : points) narrow.push_back(p.cast(f32));
    check_backends(loss, narrow, 2e-4);
  }
}

// ---- schedules

struct Run {
  int threads = 1;
  bool fuse = true;
  std::shared_ptr<const DeviceOptions> device_options = {};
};

// Some steps of training a layer of attention, in launches of so many steps; the states.
std::vector<Tensor> trained_attention(const std::string& backend, const Run& how,
                                      int64_t loop_size) {
  Graph g;
  const Value x = g.constant(waves({2, 2, 70, 12}, 0, f32));
  const Value w = g.state("w", normal({12, 12}, 0, 0.5));
  const Value u = g.state("u", normal({12, 12}, 0, 0.5));
  const Value seen = attention(matmul(x, w), matmul(x, u), x, {.causal = true});
  const Update update = sgd(0.05).minimize(mean(square(seen - 0.25f)));
  Session session(g, device(backend),
                  {.disabled_passes = keel_test::fusion(how.fuse),
                   .precision = "fp32",
                   .threads = how.threads,
                   .device_options = how.device_options});
  auto loop = session.sink({.update = update});
  for (int64_t step = 0; step < 6; step += loop_size) loop.run(loop_size);
  return {session.read(w), session.read(u)};
}

TEST_CASE("no bit of attention depends on threads or fusion or loop size or blocks or preset") {
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    const auto expected = trained_attention(backend, {}, 1);
    const auto check = [&](const Run& how, int64_t loop_size) {
      const auto got = trained_attention(backend, how, loop_size);
      for (size_t i = 0; i < got.size(); ++i) CHECK(bit_equal(got[i], expected[i]));
    };
    check({}, 6);
    check({.threads = 2}, 3);
    check({.fuse = false}, 2);
    if (backend != "npu") continue;
    check({.threads = 2, .device_options = npu::options("ascend910", {.cap = 3})}, 1);
    check({.device_options = npu::options("ascend310")}, 1);
  }
}

TEST_CASE("memory of attention does not grow with queries times keys") {
  const auto scratch = [](const std::string& backend, int64_t length) {
    Graph g;
    const auto state = [&](const char* name) { return g.state(name, ones({16, length, 8})); };
    const Value out = attention(state("q"), state("k"), state("v"), {.causal = true});
    Session session(g, device(backend));
    const auto loop = session.sink({.update = sgd(0.1).minimize(mean(square(out)))});
    return loop.program().info().scratch_bytes;
  };
  for (const char* backend : {"cpu", "npu"}) {
    CAPTURE(backend);
    const size_t shorter = scratch(backend, 256), longer = scratch(backend, 1024);
    CHECK(longer < 4 * shorter + 1024);
    // The scores alone would be this much.
    CHECK(longer < size_t{16} * 1024 * 1024 * sizeof(float) / 4);
  }
}

// ---- precision

TEST_CASE("attention in 16-bit modes keeps its sums in f32") {
  const Tensor x = waves({2, 20, 8}, 0, f32);
  const auto run = [&](const std::string& mode) {
    Graph g;
    const Value q = g.constant(x), w = g.state("w", ones({8}));
    const Value loss = sum(square(attention(q * w, q, q * w, {.causal = true})));
    Session session(g, device("npu"), {.precision = mode});
    const auto loop = session.sink({.update = sgd(1).minimize(loss)});
    int low = 0;
    for (const PrecisionDecision& d : loop.compile_report().precision.decisions) {
      if (contains(d.name, "attention") && contains(d.rule, "products: low (f32 sums)")) ++low;
    }
    CHECK(low == (mode == "fp32" ? 0 : 2));
    return elements(session.run(gradients(loss, {w}), {})[0]);
  };
  const Doubles expected = run("fp32");
  check_close(run("mixed_bf16"), expected, 0.3);
  check_close(run("mixed_fp16"), expected, 0.03);
}

}  // namespace

TEST_SUITE_END();
