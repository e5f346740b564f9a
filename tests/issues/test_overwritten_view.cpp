// A fused task wrote an output in place of an argument while another argument, a view of the same
// memory, was still to be read: fetches, gradients, next values of states and loop variables were
// wrong with default options.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/fusion.h"

namespace keel {
namespace {

struct Where {
  std::string device;
  bool fuse;
};
const std::vector<Where> kEverywhere = {
    {"ref", false}, {"cpu", false}, {"cpu", true}, {"npu", false}, {"npu", true}};

// A value of 16s with memory of its own, [1, width], of an input of 4s.
Value sixteens(const Value& x) {
  const Value row = transpose(x, {1, 0}) * 4.0f;
  return max(concat({row, row}, 0), {0}, true);
}

Tensor fours(int64_t width) { return Tensor::full(f32, {width, 1}, 4); }

bool all_are(const Tensor& t, double expected) {
  for (int64_t i = 0; i < t.shape().num_elements(); ++i) {
    if (t.at(i) != expected) return false;
  }
  return true;
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("an output does not overwrite an argument whose view its cluster still reads") {
  for (const Where& where : kEverywhere) {
    for (const int64_t width : {1, 3, 784, 5000}) {
      for (const bool overwrites_view : {false, true}) {
        CAPTURE(where.device);
        CAPTURE(where.fuse);
        CAPTURE(width);
        CAPTURE(overwrites_view);
        Graph g;
        const Value x = g.input("x", f32, {width, 1});
        const Value y = sixteens(x);
        const Value row = squeeze(y, {0});
        const Value n = overwrites_view ? -row : -y;
        const Value m = maximum(n, overwrites_view ? y : row);
        Session session(g, device(where.device),
                        {.disabled_passes = keel_test::fusion(where.fuse)});
        const auto out = session.run({sum(n), m}, {{x, fours(width)}});
        CHECK(all_are(out[0], -16.0 * static_cast<double>(width)));
        CHECK(all_are(out[1], 16));
      }
    }
  }
}

TEST_CASE("the gradient of a value times its own view is right") {
  for (const Where& where : kEverywhere) {
    CAPTURE(where.device);
    CAPTURE(where.fuse);
    Graph g;
    const Value x = g.input("x", f32, {});
    const Value s = square(exp(x));           // exp(2x)
    const Value p = expand_dims(s, {0}) * s;  // exp(4x)
    const Values ds = {gradients(sum(p * p), {x})[0], gradients(sum(sqrt(p + 0.25f)), {x})[0]};
    Session session(g, device(where.device), {.disabled_passes = keel_test::fusion(where.fuse)});
    const auto out = session.run(ds, {{x, Tensor::scalar(0.25f)}});
    const double first = 8 * std::exp(2.0);
    const double second = 2 * std::exp(1.0) / std::sqrt(std::exp(1.0) + 0.25);
    CHECK(std::fabs(out[0].at(0) - first) < 1e-4 * first);
    CHECK(std::fabs(out[1].at(0) - second) < 1e-4 * second);
  }
}

TEST_CASE("a state is not overwritten while its view is still read") {
  for (const Where& where : kEverywhere) {
    CAPTURE(where.device);
    CAPTURE(where.fuse);
    Graph g;
    const Value w = g.state("w", constant({1, 8}, 2.0));
    const Value next = w * 0.5f;
    Session session(g, device(where.device), {.disabled_passes = keel_test::fusion(where.fuse)});
    const auto out = session.run(Update{{{w, next}}}, {next + squeeze(w, {0})});
    CHECK(all_are(out[0], 3));
    CHECK(all_are(session.read(w), 1));
    const Value view = squeeze(w, {0});
    const Value other = expand_dims(view * 0.5f, {0});
    CHECK(all_are(session.run(Update{{{w, other}}}, {other + w})[0], 1.5));
    CHECK(all_are(session.read(w), 0.5));
  }
}

TEST_CASE("a loop variable is not overwritten while its view is still read") {
  for (const Where& where : kEverywhere) {
    CAPTURE(where.device);
    CAPTURE(where.fuse);
    Graph g;
    const Value x = g.input("x", f32, {1, 8});
    const Values results = while_loop(
        {x, g.constant(Tensor(f32, {1, 8}))},
        [](const Values& v) { return less(sum(v[0]), -1.0f); },
        [](const Values& v) {
          const Value next = v[0] * 0.5f;
          return Values{next, next + squeeze(v[0], {0})};
        },
        {.trip_count = 2});
    Session session(g, device(where.device), {.disabled_passes = keel_test::fusion(where.fuse)});
    const auto out = session.run(results, {{x, Tensor::full(f32, {1, 8}, 8)}});
    CHECK(all_are(out[0], 2));
    CHECK(all_are(out[1], 6));
  }
}

TEST_CASE("what follows a product or a reduction does not overwrite a value whose view it reads") {
  for (const Where& where : kEverywhere) {
    CAPTURE(where.device);
    CAPTURE(where.fuse);
    Graph g;
    const Value x = g.input("x", f32, {64, 1});
    const Value a = g.input("a", f32, {1, 32});
    const Value b = g.input("b", f32, {32, 64});
    Values fetches;
    for (const bool product : {false, true}) {
      const Value y = sixteens(x);
      const Value total = product ? matmul(a, b) : sum(b, {0}, true);  // 32
      const Value n = total - y * 3.0f;                                // -16
      fetches.push_back(sum(n));
      fetches.push_back(maximum(n, squeeze(y, {0})));
    }
    Session session(g, device(where.device), {.disabled_passes = keel_test::fusion(where.fuse)});
    const auto out = session.run(
        fetches,
        {{x, fours(64)}, {a, Tensor::full(f32, {1, 32}, 1)}, {b, Tensor::full(f32, {32, 64}, 1)}});
    for (size_t i = 0; i < out.size(); ++i) {
      CAPTURE(i);
      CHECK(all_are(out[i], i % 2 == 0 ? -16.0 * 64 : 16.0));
    }
  }
}

TEST_SUITE_END();

}  // namespace keel
