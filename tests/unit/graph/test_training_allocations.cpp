// A sunk training step allocates nothing: real models, real feeding, every backend whose kernels
// promise it.
#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/data/data.h"
#include "keel/graph/graph.h"
#include "keel/ops/ops.h"

#include "counted_allocations.h"
#include "models/classifier.h"
#include "unit/graph/loop_allocations_for_tests.h"

namespace keel {
namespace {

using testing::allocations_of;

void check_model(const keel_examples::Model& model, const std::string& backend, int64_t batch) {
  CAPTURE(model.name);
  CAPTURE(backend);
  Graph g;
  const auto classifier = model.build(g);
  const Update update = adam(0.001).minimize(classifier.loss);
  Session session(g, device(backend));
  // One epoch is longer than the test: an epoch's shuffle allocates its permutation.
  const Dataset data =
      Dataset::from_tensors({{"image", Tensor(u8, {20000, 784})}, {"label", Tensor(u8, {20000})}})
          .shuffle(1)
          .batch(batch);
  const auto feeder = feed(data, session.spec({classifier.image, classifier.label}), {.depth = 4});
  Loop loop = session.sink({.update = update, .fetches = {classifier.loss}, .source = feeder});
  loop.run(20);
  const int64_t few = allocations_of(loop, 5);
  CHECK(allocations_of(loop, 100) == few);
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("training a model allocates nothing per step") {
  if (!testing::can_count_allocations()) {
    MESSAGE("keel test skipped: a sanitizer owns the allocator");
    return;
  }
  for (const std::string backend : {"cpu", "npu"}) {
    check_model(keel_examples::find_model("softmax"), backend, 100);
    check_model(keel_examples::find_model("mlp"), backend, 20);
  }
}

TEST_SUITE_END();

}  // namespace keel
