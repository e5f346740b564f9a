// Models that PyTorch wrote, imported and trained: ONNX's pytorch-converted backend tests, from
// Debian's libonnx-testdata, drawn towards outputs half as large. Gradients by differences.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/graph.h"
#include "keel/ops/exchange/onnx/import.h"
#include "keel/ops/exchange/onnx/read_model.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/onnx_test_data.h"

namespace keel {
namespace {

const std::string kNetData = keel_test::kOnnxTestData + "/pytorch-converted";
constexpr const char* kNets[] = {"test_Conv2d", "test_Conv2d_groups", "test_ConvTranspose2d",
                                 "test_Linear", "test_PReLU_2d_multiparam"};
constexpr int kSteps = 50;

bool lacks_test_data() {
  const bool missing = !keel_test::has_onnx_test_data();
  if (missing) MESSAGE("keel test skipped: the package libonnx-testdata is not installed");
  return missing;
}

// An imported net with the loss of its one output.
struct Net {
  onnx::ImportedModel model;
  Tensor image, target;
  Value loss;

  explicit Net(const std::string& name) : model(onnx::load(kNetData + "/" + name + "/model.onnx")) {
    const std::string set = kNetData + "/" + name + "/test_data_set_0/";
    image = onnx::read_tensor_file(set + "input_0.pb", f32);
    target = onnx::read_tensor_file(set + "output_0.pb", f32);
    for (float& number : target.data<float>()) number /= 2;
    loss = mean_squared_error(model.outputs.at(0).second, model.graph->constant(target));
  }
  Feeds feeds() const { return {{model.inputs.at(0).second, image}}; }
};

std::vector<double> losses_of(const std::string& name, const std::string& backend) {
  const Net net(name);
  const Update update = sgd(0.1).minimize(net.loss);
  Session session(*net.model.graph, device(backend));
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step)
    losses.push_back(session.run(update, {net.loss}, net.feeds()).at(0).at(0));
  return losses;
}

// The loss is of second degree in each parameter, so that central differences are exact but for
// rounding.
void check_gradient(const std::string& name) {
  const Net net(name);
  const Values states = net.model.graph->states();
  const Values gradients = keel::gradients(net.loss, states);
  Session session(*net.model.graph, device("ref"));
  const std::vector<Tensor> exact = session.run(gradients, net.feeds());
  const Tensor weights = session.read(states.at(0));
  const auto loss_with = [&](int64_t i, double change) {
    Tensor moved = weights.cast(f32);
    moved.set(i, weights.at(i) + change);
    session.write(states[0], moved);
    return session.run(net.loss, net.feeds()).at(0);
  };
  const int64_t last = weights.num_elements() - 1;
  constexpr double kStep = 0.125;
  for (const int64_t i : {int64_t{0}, last / 2, last}) {
    CAPTURE(i);
    const double difference = (loss_with(i, kStep) - loss_with(i, -kStep)) / (2 * kStep);
    CHECK(difference != 0);
    CHECK(exact[0].at(i) == doctest::Approx(difference).epsilon(1e-3));
  }
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("imported nets of PyTorch train on every backend") {
  if (lacks_test_data()) return;
  for (const char* name : kNets) {
    for (const char* backend : {"npu", "cpu"}) {
      CAPTURE(name);
      CAPTURE(backend);
      const std::vector<double> losses = losses_of(name, backend);
      // Steps this short go down the slope of a loss of second degree, each of them.
      CHECK(std::is_sorted(losses.rbegin(), losses.rend(), std::less_equal<>()));
      CHECK(losses.back() < losses.front() * 0.95);
    }
  }
}

TEST_CASE("gradients of imported nets of PyTorch are those that differences have") {
  if (lacks_test_data()) return;
  for (const char* name : kNets) {
    CAPTURE(name);
    check_gradient(name);
  }
}

TEST_SUITE_END();

}  // namespace keel
