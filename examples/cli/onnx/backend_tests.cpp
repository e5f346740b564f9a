#include "cli/onnx/backend_tests.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include <fmt/core.h>
#include <keel/keel.h>
#include <keel/ops/exchange/onnx/import.h>
#include <keel/ops/exchange/onnx/read_model.h>

namespace keel_cli {
namespace {

namespace fs = std::filesystem;
namespace onnx = keel::onnx;

// The tolerances of ONNX's own runner.
constexpr double kRelative = 1e-3;
constexpr double kAbsolute = 1e-7;

using Tensors = std::map<std::string, keel::Tensor>;

// Thrown for a case that the import refuses.
struct Refused {
  std::string reason;
};

std::vector<fs::path> cases_below(const fs::path& folder) {
  std::vector<fs::path> cases;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; at != end; at.increment(error)) {
    if (error) break;
    if (at->path().filename() == "model.onnx") cases.push_back(at->path().parent_path());
  }
  if (error) {
    throw keel::Error({.op = "--onnx", .argument = folder.string(), .message = error.message()});
  }
  if (cases.empty()) {
    throw keel::Error({.op = "--onnx",
                       .argument = folder.string(),
                       .message = "holds no folder with a model.onnx",
                       .fix = "Debian's package libonnx-testdata has them in "
                              "/usr/share/libonnx-testdata/data"});
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

std::vector<fs::path> data_sets_of(const fs::path& folder) {
  std::vector<fs::path> sets;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && entry.path().filename().string().starts_with("test_data_set_"))
      sets.push_back(entry.path());
  }
  std::sort(sets.begin(), sets.end());
  return sets;
}

// The tensors of input_0.pb, input_1.pb ... by the names of the model's values.
Tensors tensors_of(const fs::path& set, const std::string& kind,
                   const std::vector<onnx::ValueInfo>& values) {
  Tensors tensors;
  for (size_t i = 0; i < values.size(); ++i) {
    const fs::path file = set / fmt::format("{}_{}.pb", kind, i);
    if (!fs::exists(file)) continue;
    tensors.insert_or_assign(values[i].name,
                             onnx::read_tensor_file(file.string(), onnx::dtype_of(values[i].type)));
  }
  return tensors;
}

// ONNX's runner has bf16 as the 16-bit integers that NumPy can hold, and compares these.
double bits_of(const keel::Tensor& tensor, int64_t i) {
  return tensor.data<keel::BFloat16>()[static_cast<size_t>(i)].bits;
}

std::string difference(const std::string& name, const keel::Tensor& got,
                       const keel::Tensor& expected) {
  if (got.type() != expected.type()) {
    return fmt::format("{}: expected {}, got {}", name, keel::to_string(expected.type()),
                       keel::to_string(got.type()));
  }
  const bool as_bits = got.dtype() == keel::bf16;
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    const double a = as_bits ? bits_of(got, i) : got.at(i);
    const double b = as_bits ? bits_of(expected, i) : expected.at(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const bool close = keel::is_float(got.dtype()) && std::isfinite(a) && std::isfinite(b) &&
                       std::fabs(a - b) <= kAbsolute + kRelative * std::fabs(b);
    if (!close) return fmt::format("{}: element {}: expected {}, got {}", name, i, b, a);
  }
  return "";
}

// Some models name other sizes for an input than their data has; ONNX's runner goes by the data.
void take_shapes(onnx::ModelProto& model, const Tensors& inputs) {
  for (onnx::ValueInfo& info : model.graph.inputs) {
    const auto tensor = inputs.find(info.name);
    if (tensor == inputs.end() || !info.shape) continue;
    std::vector<onnx::Dimension> dims;
    for (const int64_t dim : tensor->second.shape()) dims.push_back({dim, ""});
    info.shape = dims;
  }
}

std::string reasons_of(const onnx::Unsupported& unsupported) {
  std::string reasons;
  for (const onnx::Refusal& refusal : unsupported.refusals())
    reasons += (reasons.empty() ? "" : "; ") + refusal.op + ": " + refusal.reason;
  return reasons;
}

// Throws Refused for what is refused whatever the values of the inputs.
void require_importable(const onnx::ModelProto& model) {
  try {
    onnx::import_model(model, {});
  } catch (const onnx::Unsupported& unsupported) {
    const auto& refusals = unsupported.refusals();
    if (std::any_of(refusals.begin(), refusals.end(),
                    [](const onnx::Refusal& refusal) { return refusal.bind.empty(); }))
      throw Refused{reasons_of(unsupported)};
  }
}

// Imports the model. Inputs whose values shapes depend on are bound; `bound` says which.
onnx::ImportedModel import_case(const onnx::ModelProto& model, const Tensors& inputs,
                                std::vector<std::string>& bound) {
  onnx::ImportOptions options;
  while (true) {
    try {
      return onnx::import_model(model, options);
    } catch (const onnx::Unsupported& unsupported) {
      bool more = false;
      for (const onnx::Refusal& refusal : unsupported.refusals()) {
        for (const std::string& name : refusal.bind) {
          const auto tensor = inputs.find(name);
          if (tensor == inputs.end()) continue;
          more = options.bind.emplace(name, tensor->second).second || more;
        }
      }
      if (!more) throw Refused{reasons_of(unsupported)};
      bound.clear();
      for (const auto& entry : options.bind) bound.push_back(entry.first);
    }
  }
}

bool computes_something(const keel::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const keel::Node& node) {
    return !node.has(keel::kSource) && !node.has(keel::kView);
  });
}

// What a device lacks, such as f64, it says when the graph is compiled, before anything runs.
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
std::string run_set(onnx::ModelProto model, const fs::path& set, const std::string& backend,
                    OnnxScore& score) {
  const Tensors inputs = tensors_of(set, "input", model.graph.inputs);
  take_shapes(model, inputs);
  onnx::ImportedModel imported = import_case(model, inputs, score.bound);
  score.computed_at_import = !computes_something(*imported.graph);
  const Tensors expected = tensors_of(set, "output", model.graph.outputs);
  keel::Session session(*imported.graph, keel::device(backend + ":0"));
  keel::Feeds feeds;
  for (const auto& entry : imported.inputs) {
    const auto tensor = inputs.find(entry.first);
    if (tensor == inputs.end()) return "the data set lacks the input " + entry.first;
    feeds.emplace_back(entry.second, tensor->second);
  }
  keel::Values fetches;
  for (const auto& entry : imported.outputs) fetches.push_back(entry.second);
  require_device_can(session, fetches, feeds);
  const std::vector<keel::Tensor> results = session.run(fetches, feeds);
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string& name = imported.outputs[i].first;
    const auto tensor = expected.find(name);
    if (tensor == expected.end()) return "the data set lacks the output " + name;
    const std::string wrong = difference(name, results[i], tensor->second);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

OnnxScore run_case(const fs::path& folder, const fs::path& base, const std::string& backend) {
  OnnxScore score{.name = fs::relative(folder, base).string()};
  try {
    const onnx::ModelProto model = onnx::read_model((folder / "model.onnx").string());
    const std::vector<fs::path> sets = data_sets_of(folder);
    if (sets.empty()) throw keel::Error("there is no test_data_set_0 beside the model");
    // The inputs may be of types that Keel has not, and cannot be read then.
    require_importable(model);
    for (const fs::path& set : sets) {
      score.detail = run_set(model, set, backend, score);
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
  for (const fs::path& path : cases_below(folder))
    names.push_back(fs::relative(path, folder).string());
  return names;
}

std::vector<OnnxScore> run_backend_tests(const std::string& folder, const std::string& backend,
                                         const std::vector<std::string>& except,
                                         const std::function<void(const OnnxScore&)>& listen) {
  std::vector<OnnxScore> scores;
  std::vector<fs::path> cases = cases_below(folder);
  for (const std::string& name : except) {
    std::erase(cases, fs::path(folder) / name);
  }
  for (const fs::path& path : cases) {
    scores.push_back(run_case(path, folder, backend));
    listen(scores.back());
  }
  return scores;
}

}  // namespace keel_cli
