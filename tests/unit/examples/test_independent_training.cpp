// The example models against the same training written by hand: plain double-precision loops and
// xtensor expressions, which know nothing of Keel's ops, gradients or optimizers.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <keel/keel.h>
#include <xtensor/xmath.hpp>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>

#include "models/classifier.h"
#include "support/scale.h"

TEST_SUITE_BEGIN("unit");

namespace {

using Matrix = xt::xtensor<double, 2>;
using Row = xt::xtensor<double, 1>;

constexpr int64_t kSteps = 100;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c = xt::zeros<double>({a.shape(0), b.shape(1)});
  const size_t columns = b.shape(1);
  for (size_t i = 0; i < a.shape(0); ++i) {
    double* out = c.data() + i * columns;
    for (size_t k = 0; k < a.shape(1); ++k) {
      const double factor = a(i, k);
      if (factor == 0) continue;
      const double* row = b.data() + k * columns;
      for (size_t j = 0; j < columns; ++j) out[j] += factor * row[j];
    }
  }
  return c;
}

Matrix transposed(const Matrix& a) { return xt::transpose(a); }

struct Layer {
  Matrix w;
  Row b;
};

// Layers with ReLU between them, mean cross entropy, plain gradient descent.
class PlainNetwork {
 public:
  explicit PlainNetwork(std::vector<Layer> layers) : layers_(std::move(layers)) {}

  // One step; the loss before it.
  double step(const Matrix& images, const std::vector<size_t>& labels, double rate) {
    std::vector<Matrix> inputs = {images};
    for (size_t l = 0; l < layers_.size(); ++l) {
      Matrix z = product(inputs.back(), layers_[l].w) + xt::view(layers_[l].b, xt::newaxis());
      if (l + 1 < layers_.size()) z = xt::maximum(z, 0.0);
      inputs.push_back(z);
    }
    Matrix gradient;
    const double loss = cross_entropy(inputs.back(), labels, gradient);
    for (size_t l = layers_.size(); l-- > 0;) {
      const Matrix dw = product(transposed(inputs[l]), gradient);
      const Row db = xt::sum(gradient, {0});
      if (l > 0) {
        const Matrix back = product(gradient, transposed(layers_[l].w));
        gradient = xt::where(inputs[l] > 0.0, back, 0.0);
      }
      layers_[l].w -= rate * dw;
      layers_[l].b -= rate * db;
    }
    return loss;
  }

 private:
  static double cross_entropy(const Matrix& logits, const std::vector<size_t>& labels,
                              Matrix& gradient) {
    const double count = static_cast<double>(labels.size());
    // Reductions are evaluated first: lazy ones broadcast wrongly in xtensor 0.24.
    const Matrix largest = xt::amax(logits, {1}, xt::keep_dims);
    const Matrix shifted = logits - largest;
    const Matrix total = xt::sum(xt::exp(shifted), {1}, xt::keep_dims);
    const Matrix log_p = shifted - xt::log(total);
    gradient = xt::exp(log_p) / count;
    double loss = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      loss -= log_p(i, labels[i]) / count;
      gradient(i, labels[i]) -= 1 / count;
    }
    return loss;
  }

  std::vector<Layer> layers_;
};

std::vector<double> values_of(const keel::Session& session, const std::string& name) {
  const keel::Tensor tensor = session.read(session.graph().find_state(name));
  const auto values = tensor.data<float>();
  return {values.begin(), values.end()};
}

// The layers' initial values: `prefixes` and widths as in the model.
PlainNetwork network_of(const keel::Session& session, const std::vector<std::string>& prefixes,
                        const std::vector<size_t>& widths) {
  std::vector<Layer> layers;
  for (size_t l = 0; l < prefixes.size(); ++l) {
    const std::vector<double> w = values_of(session, prefixes[l] + "w");
    const std::vector<double> b = values_of(session, prefixes[l] + "b");
    REQUIRE(w.size() == widths[l] * widths[l + 1]);
    REQUIRE(b.size() == widths[l + 1]);
    Layer layer{Matrix::from_shape({widths[l], widths[l + 1]}), Row::from_shape({widths[l + 1]})};
    std::copy(w.begin(), w.end(), layer.w.begin());
    std::copy(b.begin(), b.end(), layer.b.begin());
    layers.push_back(std::move(layer));
  }
  return PlainNetwork(std::move(layers));
}

// Batch `index` of a set whose images come in order, again from the front after the last.
double plain_step(PlainNetwork& network, const keel::LabelledImages& set, int64_t index,
                  int64_t batch, double rate) {
  const auto pixels = set.images.data<uint8_t>();
  const auto classes = set.labels.data<uint8_t>();
  Matrix images = Matrix::from_shape({static_cast<size_t>(batch), 784});
  std::vector<size_t> labels;
  for (int64_t i = 0; i < batch; ++i) {
    const auto item = static_cast<size_t>((index * batch + i) % set.count());
    labels.push_back(classes[item]);
    for (size_t k = 0; k < 784; ++k) {
      images(static_cast<size_t>(i), k) = pixels[item * 784 + k] / 255.0;
    }
  }
  return network.step(images, labels, rate);
}

struct Case {
  std::string model;
  std::vector<std::string> prefixes;
  std::vector<size_t> widths;
  int64_t batch = 0;
  double rate = 0;
};

const Case kSoftmax = {"softmax", {""}, {784, 10}, 50, 0.5};
const Case kMlp = {"mlp", {"hidden1/", "hidden2/", "logits/"}, {784, 512, 512, 10}, 16, 0.1};

// Trains on the backend, sunk, in launches of 30 steps, and beside it by hand.
void check_losses(const Case& c, const std::string& backend, int64_t steps = kSteps) {
  CAPTURE(backend);
  const auto digits =
      keel::make_digits({.seed = 11, .train_count = 20 * c.batch, .test_count = 1}).train;
  keel::Graph graph;
  const auto model = keel_examples::find_model(c.model).build(graph);
  const keel::Update update = keel::sgd(c.rate).minimize(model.loss);
  keel::Session session(graph, keel::device(backend + ":0"), {.seed = 4, .loop_size = 30});
  PlainNetwork network = network_of(session, c.prefixes, c.widths);

  const auto feeder = keel::feed(keel::Dataset::from_images(digits).batch(c.batch).repeat(),
                                 session.spec({model.image, model.label}));
  keel::Trainer trainer(session, {.update = update, .fetches = {model.loss}, .source = feeder});
  std::vector<double> losses;
  keel::TrainOptions options{.steps = steps};
  options.on_step = [&](int64_t, std::span<const double> m) { losses.push_back(m[0]); };
  trainer.fit(options);

  REQUIRE(losses.size() == static_cast<size_t>(steps));
  double first = 0;
  double last = 0;
  for (int64_t i = 0; i < steps; ++i) {
    CAPTURE(i);
    last = plain_step(network, digits, i, c.batch, c.rate);
    if (i == 0) first = last;
    CHECK(losses[static_cast<size_t>(i)] == doctest::Approx(last).epsilon(1e-4).scale(0));
  }
  CHECK(last < 0.8 * first);  // it was a training, not a standstill
}

}  // namespace

TEST_CASE("independent training: softmax on ref") { check_losses(kSoftmax, "ref"); }
TEST_CASE("independent training: softmax on cpu") { check_losses(kSoftmax, "cpu"); }
TEST_CASE("independent training: softmax on npu") { check_losses(kSoftmax, "npu"); }

// One step of the mlp on ref takes as long as fifty on another backend.
TEST_CASE("independent training: mlp on ref") {
  check_losses(kMlp, "ref", keel_test::long_scale() ? kSteps : 40);
}
TEST_CASE("independent training: mlp on cpu") { check_losses(kMlp, "cpu"); }
TEST_CASE("independent training: mlp on npu") { check_losses(kMlp, "npu"); }
