// The example models, trained for a few steps and exported: ONNX Runtime and OpenCV see the same
// digits in the same images.
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
#include "support/opencv_dnn.h"

TEST_SUITE_BEGIN("unit");

namespace keel {
namespace {

constexpr int64_t kTrainedSteps = 12;
constexpr int64_t kExportedBatch = 50;

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

// A model after a few steps, and what it sees in images of the test.
struct Trained {
  LabelledSplits digits;
  Graph graph;
  keel_examples::Classifier model;
  std::map<std::string, Tensor> states;
  std::vector<size_t> seen;

  Trained(const std::string& name, int64_t test_count)
      : digits(
            make_digits({.train_count = kTrainedSteps * kExportedBatch, .test_count = test_count})),
        model(keel_examples::find_model(name).build(graph)) {
    const Update update = adam(1e-3).minimize(model.loss);
    Session session(graph, device("cpu:0"), {.seed = 5});
    for (int64_t i = 0; i < kTrainedSteps; ++i) {
      session.run(
          update, {model.loss},
          {{model.image, rows_of(digits.train.images, i * kExportedBatch, kExportedBatch)},
           {model.label, rows_of(digits.train.labels, i * kExportedBatch, kExportedBatch)}});
    }
    for (const Value& state : graph.states()) states[name_of(state.node())] = session.read(state);
    for (int64_t first = 0; first < test_count; first += kExportedBatch) {
      const Tensor logits = session.run(
          model.logits, {{model.image, rows_of(digits.test.images, first, kExportedBatch)}});
      const auto part = predictions(logits);
      seen.insert(seen.end(), part.begin(), part.end());
    }
  }
  void save(const std::string& path, int64_t batch) const {
    onnx::save(graph, states, {model.logits}, path, {.names = {"logits"}, .batch = batch});
  }
};

void check_in_onnx_runtime(const std::string& name) {
  if (const std::string missing = keel_test::OnnxRuntime::missing(); !missing.empty()) {
    MESSAGE("keel test skipped: no ONNX Runtime: " << missing);
    return;
  }
  constexpr int64_t kTestCount = 10000;
  const Trained trained(name, kTestCount);
  keel_test::OnnxRuntime runtime;
  // The size of the batch is the run's: one image, and all of them.
  for (const int64_t count : {int64_t{1}, kTestCount}) {
    trained.save(runtime.next_model(), 0);
    runtime.add(
        {{name_of(trained.model.image.node()), rows_of(trained.digits.test.images, 0, count)}},
        {"logits"});
  }
  const auto results = runtime.run();
  for (const auto& result : results) REQUIRE_MESSAGE(result.error.empty(), result.error);
  CHECK(results[0].outputs.at(0).shape() == Shape{1, 10});
  CHECK(predictions(results[1].outputs.at(0)) == trained.seen);
}

void check_in_opencv(const std::string& name) {
  if (!keel_test::has_opencv()) {
    MESSAGE("keel test skipped: no python3-opencv");
    return;
  }
  const Trained trained(name, 1000);
  const keel_test::TempFolder files;
  trained.save(files.file("model.onnx"), kExportedBatch);
  const Tensor& images = trained.digits.test.images;
  const std::string bytes = files.write(
      "images", std::string(static_cast<const char*>(images.raw()), images.num_bytes()));
  CHECK(keel_test::opencv_classes(files.file("model.onnx"), bytes, kExportedBatch, 784) ==
        trained.seen);
}

}  // namespace

TEST_CASE("an exported mlp sees in ONNX Runtime what it sees here") {
  check_in_onnx_runtime("mlp");
}
TEST_CASE("an exported lenet sees in ONNX Runtime what it sees here") {
  check_in_onnx_runtime("lenet");
}
TEST_CASE("an exported resnet sees in ONNX Runtime what it sees here") {
  check_in_onnx_runtime("resnet");
}
TEST_CASE("an exported transformer sees in ONNX Runtime what it sees here") {
  check_in_onnx_runtime("transformer");
}
TEST_CASE("an exported mlp sees in OpenCV what it sees here") { check_in_opencv("mlp"); }
TEST_CASE("an exported lenet sees in OpenCV what it sees here") { check_in_opencv("lenet"); }

}  // namespace keel

TEST_SUITE_END();
