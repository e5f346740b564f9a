// On real MNIST: only where KEEL_MNIST_DIR says where it lies.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <doctest/doctest.h>

#include "cli/tool.h"
#include "support/sanitizer.h"
#include "support/scale.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

std::string mnist_folder() {
  const char* folder = std::getenv("KEEL_MNIST_DIR");
  return folder == nullptr ? "" : folder;
}

bool has_mnist() {
  if (mnist_folder().empty()) {
    MESSAGE("keel test skipped: KEEL_MNIST_DIR is not set");
    return false;
  }
  if (kSanitized) {
    MESSAGE("keel test skipped: whole trainings take too long under a sanitizer");
    return false;
  }
  return true;
}

json train_on_mnist(const Words& words) {
  const TempFolder temp;
  const std::string folder = mnist_folder();
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
  const json summary = train_on_mnist({"--model", "softmax", "--epochs", "10", "--lr", "0.5",
                                       "--batch", "100", "--backend", backend});
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

TEST_CASE("mnist: mixed precision reaches what f32 does within 0.003") {
  if (!has_mnist()) return;
  for (const char* backend : {"cpu", "npu"}) {
    const auto accuracy = [&](const char* precision) -> double {
      return train_on_mnist({"--epochs", "3", "--backend", backend, "--precision", precision})
          .at("test_accuracy");
    };
    const double full = accuracy("fp32");
    CHECK(full >= 0.91);
    for (const char* precision : {"mixed_bf16", "mixed_fp16"}) {
      CAPTURE(precision);
      CHECK(std::fabs(accuracy(precision) - full) <= 0.003);
    }
  }
}

TEST_CASE("mnist: every mode for trainings reaches what f32 does within 0.003") {
  if (!has_mnist()) return;
  // The long scale trains one epoch more, has lenet as well, half a minute for each mode, and the
  // modes that give the bits of others.
  const char* epochs = long_scale() ? "2" : "1";
  Words models = {"mlp"};
  Words modes = {"allow_fp32_to_fp16", "allow_mix_precision_fp16", "allow_mix_precision_bf16"};
  if (long_scale()) {
    models.push_back("lenet");
    modes.insert(modes.end(), {"force_fp32", "must_keep_origin_dtype", "allow_fp32_to_bf16"});
  }
  for (const std::string& model : models) {
    CAPTURE(model);
    const auto accuracy = [&](const Words& precision) -> double {
      Words words = {"--model", model, "--epochs", epochs};
      words.insert(words.end(), precision.begin(), precision.end());
      return train_on_mnist(words).at("test_accuracy");
    };
    const double full = accuracy({"--precision", "fp32"});
    CHECK(full >= (long_scale() ? 0.96 : 0.94));
    for (const std::string& mode : modes) {
      CAPTURE(mode);
      CHECK(accuracy({"--precision-mode", mode}) >= full - 0.003);
    }
  }
}

TEST_CASE("mnist: softmax on ref is as good as on npu after the same few steps") {
  if (!has_mnist()) return;
  const char* steps = long_scale() ? "1200" : "200";
  const json ref = train_on_mnist({"--steps", steps, "--backend", "ref"});
  const json npu = train_on_mnist({"--steps", steps, "--backend", "npu"});
  const double accuracy = ref.at("test_accuracy");
  CHECK(accuracy >= 0.85);
  CHECK(accuracy == doctest::Approx(npu.at("test_accuracy").get<double>()).epsilon(0.005));
}

TEST_CASE("mnist: mlp with adam on npu reaches 0.98 within ten epochs") {
  if (!has_mnist()) return;
  // The long scale trains to the end, a short one shows that the model is on its way.
  const char* epochs = long_scale() ? "10" : "2";
  const ToolResult result =
      run_tool({"train", "--data", mnist_folder(), "--model", "mlp", "--optimizer", "adam",
                "--backend", "npu", "--epochs", epochs});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  double best = 0;
  const std::string label = "test accuracy ";
  for (const std::string& line : lines_of(result.out)) {
    const size_t at = line.rfind(label);
    if (line.rfind("epoch ", 0) == 0)
      best = std::max(best, std::stod(line.substr(at + label.size())));
  }
  MESSAGE("best test accuracy " << best);
  CHECK(best >= (long_scale() ? 0.98 : 0.97));
}
