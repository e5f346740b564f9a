#include "cli/onnx/backend_tests.h"

#include <algorithm>
#include <filesystem>

#include <keel/keel.h>

#include "cli/onnx/backend_case.h"

namespace keel_cli {
namespace {

namespace fs = std::filesystem;
namespace onnx = keel::onnx;

bool computes_something(const keel::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const keel::Node& node) {
    return !node.has(keel::kSource) && !node.has(keel::kView);
  });
}

// A device says what it lacks, such as f64, when the graph is compiled, before anything runs.
void require_device_can(const keel::Session& session, const keel::Values& fetches,
                        const keel::Feeds& feeds) {
  try {
    session.describe({}, fetches, feeds);
  } catch (const keel::Error& error) {
    if (error.info().op != "compile") throw;
    throw Refused{error.what()};
  }
}

// Returns what is wrong; empty where nothing is.
std::string run_set(const BackendCase& one, const keel::Device& device, OnnxScore& score) {
  const onnx::ImportedModel imported = import_case(one, score.bound);
  score.computed_at_import = !computes_something(*imported.graph);
  keel::Session session(*imported.graph, device);
  keel::Feeds feeds;
  for (const auto& entry : imported.inputs) {
    const auto tensor = one.inputs.find(entry.first);
    if (tensor == one.inputs.end()) return "the data set lacks the input " + entry.first;
    feeds.emplace_back(entry.second, tensor->second);
  }
  keel::Values fetches;
  for (const auto& entry : imported.outputs) fetches.push_back(entry.second);
  require_device_can(session, fetches, feeds);
  const std::vector<keel::Tensor> results = session.run(fetches, feeds);
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string& name = imported.outputs[i].first;
    const auto tensor = one.expected.find(name);
    if (tensor == one.expected.end()) return "the data set lacks the output " + name;
    std::string wrong = difference(name, results[i], tensor->second);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::vector<fs::path> cases_but(const std::string& folder, const std::vector<std::string>& except) {
  std::vector<fs::path> cases = backend_cases_below(folder);
  for (const std::string& name : except) std::erase(cases, fs::path(folder) / name);
  return cases;
}

OnnxScore run_case(const fs::path& folder, const fs::path& base, const keel::Device& device) {
  OnnxScore score{.name = fs::relative(folder, base).string()};
  try {
    const onnx::ModelProto model = onnx::read_model((folder / "model.onnx").string());
    const std::vector<fs::path> sets = data_sets_of(folder);
    if (sets.empty()) throw keel::Error("there is no test_data_set_0 beside the model");
    // The inputs may be of types that Keel has not, and cannot be read then.
    require_importable(model);
    for (const fs::path& set : sets) {
      score.detail = run_set(read_backend_case(model, set), device, score);
      if (score.detail.empty()) continue;
      score.verdict = OnnxVerdict::kFailed;
      break;
    }
  } catch (const Refused& refused) {
    score.verdict = OnnxVerdict::kRefused;
    score.detail = refused.reason;
  } catch (const std::exception& error) {
    score.verdict = OnnxVerdict::kFailed;
    score.detail = error.what();
  }
  return score;
}

}  // namespace

const char* name_of(OnnxVerdict verdict) noexcept {
  switch (verdict) {
    case OnnxVerdict::kPassed:
      return "passed";
    case OnnxVerdict::kRefused:
      return "refused";
    case OnnxVerdict::kFailed:
      break;
  }
  return "failed";
}

std::vector<std::string> backend_test_names(const std::string& folder) {
  std::vector<std::string> names;
  for (const fs::path& path : backend_cases_below(folder))
    names.push_back(fs::relative(path, folder).string());
  return names;
}

std::vector<std::string> backend_test_files(const std::string& folder,
                                            const std::vector<std::string>& except) {
  std::vector<std::string> files;
  for (const fs::path& path : cases_but(folder, except)) {
    for (std::string& file : files_of_case(path)) files.push_back(std::move(file));
  }
  return files;
}

std::vector<OnnxScore> run_backend_tests(const std::string& folder, const keel::Device& device,
                                         const std::vector<std::string>& except,
                                         const std::function<void(const OnnxScore&)>& listen) {
  std::vector<OnnxScore> scores;
  for (const fs::path& path : cases_but(folder, except)) {
    scores.push_back(run_case(path, folder, device));
    listen(scores.back());
  }
  return scores;
}

}  // namespace keel_cli
