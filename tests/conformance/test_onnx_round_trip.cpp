// The backend tests of the ONNX project, imported, exported again, and run by ONNX Runtime: the
// results that the project has for them.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/ops/exchange/onnx/export.h"

#include "cli/onnx/backend_case.h"
#include "support/onnx_runtime.h"
#include "support/onnx_test_data.h"

TEST_SUITE_BEGIN("conformance");

namespace keel_test {
namespace {

namespace fs = std::filesystem;
namespace onnx = keel::onnx;

struct Asked {
  std::string name;
  std::vector<std::string> outputs;
  keel_cli::OnnxTensors expected;
};

// Neither JavaScript nor most kernels of the runtime know 16-bit floats.
bool has_half(const keel_cli::OnnxTensors& tensors) {
  for (const auto& entry : tensors) {
    if (entry.second.dtype() == keel::f16 || entry.second.dtype() == keel::bf16) return true;
  }
  return false;
}

struct Counts {
  size_t refused = 0, halves = 0, lacking = 0;
};

void ask_one(const std::string& name, const keel_cli::BackendCase& given, OnnxRuntime& runtime,
             std::vector<Asked>& asked, Counts& counts) {
  if (has_half(given.inputs) || has_half(given.expected)) {
    ++counts.halves;
    return;
  }
  Asked one{.name = name, .outputs = {}, .expected = given.expected};
  std::vector<std::string> bound;
  const onnx::ImportedModel imported = keel_cli::import_case(given, bound);
  std::vector<std::pair<std::string, keel::Tensor>> inputs;
  for (const auto& input : imported.inputs)
    inputs.emplace_back(input.first, given.inputs.at(input.first));
  keel::Values fetches;
  for (const auto& output : imported.outputs) {
    one.outputs.push_back(output.first);
    fetches.push_back(output.second);
  }
  onnx::save(*imported.graph, imported.weights, fetches, runtime.next_model(),
             {.names = one.outputs});
  runtime.add(inputs, one.outputs);
  asked.push_back(std::move(one));
}

// Exports what an import made of one case, and adds it to what the runtime is asked for: once for
// each of its data sets.
void ask(const fs::path& folder, OnnxRuntime& runtime, std::vector<Asked>& asked, Counts& counts) {
  const std::string name = fs::relative(folder, kOnnxTestData).string();
  try {
    const onnx::ModelProto model = onnx::read_model((folder / "model.onnx").string());
    keel_cli::require_importable(model);
    for (const fs::path& set : keel_cli::data_sets_of(folder))
      ask_one(name, keel_cli::read_backend_case(model, set), runtime, asked, counts);
  } catch (const keel_cli::Refused&) {
    ++counts.refused;
  } catch (const keel::Error& error) {
    FAIL_CHECK(name, ": ", error.what());
  }
}

std::string compare(const Asked& one, const OnnxResult& result) {
  if (!result.error.empty()) return result.error;
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    const std::string wrong =
        keel_cli::difference(one.outputs[i], result.outputs[i], one.expected.at(one.outputs[i]));
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

TEST_CASE("imported models that are exported again give the same results in ONNX Runtime") {
  const std::string missing = OnnxRuntime::missing();
  if (!missing.empty() || !has_onnx_test_data()) {
    MESSAGE("keel test skipped: no ONNX Runtime or no libonnx-testdata: " << missing);
    return;
  }
  OnnxRuntime runtime;
  std::vector<Asked> asked;
  Counts counts;
  for (const fs::path& folder : keel_cli::backend_cases_below(kOnnxTestData)) {
    if (fs::relative(folder, kOnnxTestData) != kContradictoryOnnxTest)
      ask(folder, runtime, asked, counts);
  }
  const std::vector<OnnxResult> results = runtime.run();
  REQUIRE(results.size() == asked.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    if (results[i].error.find("Could not find an implementation") != std::string::npos) {
      ++counts.lacking;
      MESSAGE(asked[i].name << ": " << results[i].error);
      continue;
    }
    const std::string problem = compare(asked[i], results[i]);
    CHECK_MESSAGE(problem.empty(), asked[i].name, ": ", problem);
  }
  CHECK(asked.size() >= 800);
  CHECK(counts.lacking == 0);
  MESSAGE(asked.size() << " cases; left out: " << counts.refused << " refused, " << counts.halves
                       << " of 16-bit floats, " << counts.lacking
                       << " for which the runtime has no kernel");
}

}  // namespace keel_test

TEST_SUITE_END();
