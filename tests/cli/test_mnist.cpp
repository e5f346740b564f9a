// On real MNIST: only where KEEL_MNIST_DIR says where it lies.
#include <cstdlib>

#include <doctest/doctest.h>

#include "cli/tool.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

bool long_scale() {
  const char* scale = std::getenv("KEEL_TEST_SCALE");
  return scale != nullptr && std::string(scale) == "long";
}

bool has_mnist() {
  const char* folder = std::getenv("KEEL_MNIST_DIR");
  if (folder != nullptr && *folder != '\0') return true;
  MESSAGE("keel test skipped: KEEL_MNIST_DIR is not set");
  return false;
}

json train(const Words& words) {
  const TempFolder temp;
  const std::string folder = std::getenv("KEEL_MNIST_DIR");
  Words all = {"train", "--quiet", "--data", folder, "--summary", temp.file("summary")};
  all.insert(all.end(), words.begin(), words.end());
  CAPTURE(join(all));
  const ToolResult result = run_tool(all);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  const json summary = read_json(temp.file("summary"));
  CHECK(summary.at("data").get<std::string>().find(folder) != std::string::npos);
  MESSAGE(summary.at("backend").get<std::string>()
          << " " << summary.at("model").get<std::string>() << ": " << summary.at("steps")
          << " steps, test accuracy " << summary.at("test_accuracy"));
  return summary;
}

void check_softmax(const char* backend) {
  const json summary = train({"--model", "softmax", "--epochs", "10", "--lr", "0.5", "--batch",
                              "100", "--backend", backend});
  CHECK(summary.at("steps") == 6000);
  CHECK(summary.at("epochs") == 10);
  CHECK(summary.at("test_accuracy") >= 0.92);
}

}  // namespace

TEST_CASE("mnist: softmax on cpu reaches 0.92 in ten epochs") {
  if (!has_mnist()) return;
  check_softmax("cpu");
}

TEST_CASE("mnist: softmax on npu reaches 0.92 in ten epochs") {
  if (!has_mnist()) return;
  check_softmax("npu");
}

TEST_CASE("mnist: softmax on ref is as good as on npu after the same few steps") {
  if (!has_mnist()) return;
  const char* steps = long_scale() ? "1200" : "200";
  const json ref = train({"--steps", steps, "--backend", "ref"});
  const json npu = train({"--steps", steps, "--backend", "npu"});
  const double accuracy = ref.at("test_accuracy");
  CHECK(accuracy >= 0.85);
  CHECK(accuracy == doctest::Approx(npu.at("test_accuracy").get<double>()).epsilon(0.005));
}

TEST_CASE("mnist: mlp with adam on npu reaches 0.98 within ten epochs") {
  if (!has_mnist()) return;
  // The long scale trains to the end; a short one shows that it is on its way.
  const Words words = {"--model", "mlp", "--optimizer", "adam", "--backend", "npu", "--epochs"};
  Words all = words;
  all.push_back(long_scale() ? "10" : "2");
  const json summary = train(all);
  CHECK(summary.at("test_accuracy") >= (long_scale() ? 0.98 : 0.965));
}
