// A product that read a weight reshaped, or a state's next value, took the copy that is packed for
// another use: wrong results, or NaN.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/fusion.h"

namespace keel {
namespace {

Tensor noise(const Shape& shape, uint32_t seed) {
  Tensor t(f32, shape);
  for (float& x : t.data<float>()) {
    x = static_cast<float>((seed = seed * 1664525 + 1013904223) >> 8) * 0x1p-23f - 1.0f;
  }
  return t;
}

enum class Reads { kReshaped, kNextReshaped, kNextTransposed };

// Losses of three steps in which a second product reads the weight in that way.
std::vector<float> losses(Reads reads, bool fuse) {
  Graph g;
  const Value x = g.input("x", f32, {64, 64});
  const Value x2 = g.input("x2", f32, {64, 32});
  const Value w = g.state("w", from_tensor(noise({64, 64}, 1)));
  const Value y = matmul(x, w);
  Value loss = mean(y * y);
  Update update;
  if (reads == Reads::kReshaped) {
    const Value z = matmul(x2, reshape(w, {32, 128}));
    loss = loss + mean(z * z);
    update = sgd(0.5).minimize(loss);
  } else {
    update = sgd(0.5).minimize(loss);
    Value next;
    for (const Assignment& a : update.assignments) {
      if (a.state == w) next = a.next;
    }
    const Value view = reshape(next, {32, 128});
    const Value z = reads == Reads::kNextReshaped
                        ? matmul(x2, view)
                        : matmul(reshape(x, {32, 128}), view, {.transpose_b = true});
    loss = mean(z * z);
  }
  Session session(g, device("npu:0"),
                  {.disabled_passes = keel_test::fusion(fuse), .precision = "mixed_bf16"});
  std::vector<float> results;
  for (int step = 0; step < 3; ++step) {
    const Feeds feeds{{x, noise({64, 64}, 7)}, {x2, noise({64, 32}, 9)}};
    results.push_back(session.run(update, {loss}, feeds)[0].item<float>());
  }
  return results;
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("a weight that is read in another shape is not read from its packed copy") {
  for (const Reads reads : {Reads::kReshaped, Reads::kNextReshaped, Reads::kNextTransposed}) {
    CAPTURE(static_cast<int>(reads));
    CHECK(losses(reads, true) == losses(reads, false));
  }
}

TEST_SUITE_END();

}  // namespace keel
