// The example models, trained for a few steps and exported: ONNX Runtime sees the same digits in
// the same images.
#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <keel/keel.h>

#include "keel/ops/exchange/onnx/export.h"

#include "models/classifier.h"
#include "support/onnx_runtime.h"

TEST_SUITE_BEGIN("unit");

namespace keel {
namespace {

constexpr int64_t kSteps = 12;
constexpr int64_t kBatch = 50;

Tensor rows_of(const Tensor& tensor, int64_t first, int64_t count) {
  Shape shape = tensor.shape();
  const size_t row = tensor.num_bytes() / static_cast<size_t>(shape[0]);
  Tensor rows(tensor.dtype(), shape.with_dim(0, count));
  std::memcpy(rows.raw(), static_cast<const char*>(tensor.raw()) + static_cast<size_t>(first) * row,
              rows.num_bytes());
  return rows;
}

std::vector<size_t> predictions(const Tensor& logits) {
  const auto rows = logits.data<float>();
  const auto classes = static_cast<size_t>(logits.shape()[1]);
  std::vector<size_t> found;
  for (size_t i = 0; i < rows.size(); i += classes) {
    const auto row = rows.subspan(i, classes);
    found.push_back(static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin()));
  }
  return found;
}

void check_model(const std::string& name, int64_t test_count) {
  if (const std::string missing = keel_test::OnnxRuntime::missing(); !missing.empty()) {
    MESSAGE("keel test skipped: no ONNX Runtime: " << missing);
    return;
  }
  const LabelledSplits digits =
      make_digits({.train_count = kSteps * kBatch, .test_count = test_count});
  Graph graph;
  const auto model = keel_examples::find_model(name).build(graph);
  const Update update = adam(1e-3).minimize(model.loss);
  Session session(graph, device("cpu:0"), {.seed = 5});
  for (int64_t i = 0; i < kSteps; ++i) {
    session.run(update, {model.loss},
                {{model.image, rows_of(digits.train.images, i * kBatch, kBatch)},
                 {model.label, rows_of(digits.train.labels, i * kBatch, kBatch)}});
  }
  std::map<std::string, Tensor> states;
  for (const Value& state : graph.states()) states[name_of(state.node())] = session.read(state);
  keel_test::OnnxRuntime runtime;
  // The size of the batch is the run's: one image, and all of them.
  for (const int64_t count : {int64_t{1}, test_count}) {
    onnx::save(graph, states, {model.logits}, runtime.next_model(), {.names = {"logits"}});
    runtime.add({{name_of(model.image.node()), rows_of(digits.test.images, 0, count)}}, {"logits"});
  }
  const auto results = runtime.run();
  for (const auto& result : results) REQUIRE_MESSAGE(result.error.empty(), result.error);
  CHECK(results[0].outputs.at(0).shape() == Shape{1, 10});
  std::vector<size_t> expected;
  for (int64_t first = 0; first < test_count; first += kBatch) {
    const Tensor logits =
        session.run(model.logits, {{model.image, rows_of(digits.test.images, first, kBatch)}});
    const auto part = predictions(logits);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  CHECK(predictions(results[1].outputs.at(0)) == expected);
}

}  // namespace

TEST_CASE("an exported mlp sees in ONNX Runtime what it sees here") { check_model("mlp", 10000); }
TEST_CASE("an exported lenet sees in ONNX Runtime what it sees here") {
  check_model("lenet", 10000);
}
TEST_CASE("an exported resnet sees in ONNX Runtime what it sees here") {
  check_model("resnet", 10000);
}
TEST_CASE("an exported transformer sees in ONNX Runtime what it sees here") {
  check_model("transformer", 10000);
}

}  // namespace keel

TEST_SUITE_END();
