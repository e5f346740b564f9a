// What read a product before its softmax did, in the graph's order, made the model fail to compile.
#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/fusion.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("a product may be read by others before its rows go through a softmax") {
  for (const char* where : {"npu:0", "cpu:0"}) {
    CAPTURE(where);
    std::vector<Tensor> results[2];
    for (const bool fuse : {false, true}) {
      Graph g;
      const Value x = g.input("x", f32, {32, 20});
      const Value label = g.input("label", i32, {32});
      const Value w = g.state("w", glorot_uniform({20, 10}));
      const Value logits = matmul(x, w);
      const Value predicted = argmax(logits, 1);
      const Value penalty = mean(logits * logits);
      const Value loss = mean(softmax_cross_entropy(logits, label)) + penalty * 0.1f;
      const Update update = sgd(0.1).minimize(loss);
      Session session(g, device(where), {.disabled_passes = keel_test::fusion(fuse)});
      Tensor images(f32, {32, 20}), labels(i32, {32});
      for (int64_t i = 0; i < 640; ++i) images.set(i, static_cast<double>(i * 37 % 101) / 50 - 1);
      for (int64_t i = 0; i < 32; ++i) labels.set(i, static_cast<double>(i % 10));
      results[fuse] = session.run(update, {loss, predicted}, {{x, images}, {label, labels}});
      results[fuse].push_back(session.read(w));
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      CHECK(bit_equal(results[0][i], results[1][i]));
    }
  }
}

TEST_SUITE_END();

}  // namespace keel
