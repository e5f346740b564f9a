#include "cli/onnx/backend_case.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

namespace keel_cli {
namespace {

namespace fs = std::filesystem;
namespace onnx = keel::onnx;

// The tolerances of ONNX's own runner.
constexpr double kRelative = 1e-3;
constexpr double kAbsolute = 1e-7;

constexpr const char* kModelFile = "model.onnx";
constexpr const char* kTensorEnding = ".pb";

// The tensors of input_0.pb, input_1.pb ... by the names of the model's values.
OnnxTensors tensors_of(const fs::path& set, const std::string& kind,
                       const std::vector<onnx::ValueInfo>& values) {
  OnnxTensors tensors;
  for (size_t i = 0; i < values.size(); ++i) {
    const fs::path file = set / fmt::format("{}_{}{}", kind, i, kTensorEnding);
    if (!fs::exists(file)) continue;
    tensors.insert_or_assign(values[i].name,
                             onnx::read_tensor_file(file.string(), onnx::dtype_of(values[i].type)));
  }
  return tensors;
}

// Some models name other sizes for an input than their data has; ONNX's runner goes by the data.
void take_shapes(onnx::ModelProto& model, const OnnxTensors& inputs) {
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

// As doubles whole numbers beyond 2^53 would be rounded to equal ones.
bool same_integer(const keel::Tensor& got, const keel::Tensor& expected, int64_t i) {
  return keel::visit_dtype(got.dtype(), [&]<class T>() {
    const auto at = static_cast<size_t>(i);
    return got.data<T>()[at] == expected.data<T>()[at];
  });
}
std::string integer_text(const keel::Tensor& tensor, int64_t i) {
  if (tensor.dtype() == keel::i64)
    return fmt::format("{}", tensor.data<int64_t>()[static_cast<size_t>(i)]);
  return fmt::format("{}", tensor.at(i));
}

// ONNX's runner has bf16 as the 16-bit integers that NumPy can hold, and compares these.
double bits_of(const keel::Tensor& tensor, int64_t i) {
  return tensor.data<keel::BFloat16>()[static_cast<size_t>(i)].bits;
}

}  // namespace

std::vector<fs::path> backend_cases_below(const fs::path& folder) {
  std::vector<fs::path> cases;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; at != end; at.increment(error)) {
    if (error) break;
    if (at->path().filename() == kModelFile) cases.push_back(at->path().parent_path());
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

std::vector<std::string> files_of_case(const fs::path& folder) {
  const std::string model = (folder / kModelFile).string();
  std::vector<std::string> files = {model};
  try {
    for (std::string& file : onnx::external_files(onnx::read_model(model)))
      files.push_back(std::move(file));
  } catch (const keel::Error&) {
    // Running the case tells what is wrong with its model, which names no other file.
  }
  try {
    for (const fs::path& set : data_sets_of(folder)) {
      for (const auto& entry : fs::directory_iterator(set)) {
        if (entry.path().extension() == kTensorEnding) files.push_back(entry.path().string());
      }
    }
  } catch (const fs::filesystem_error&) {
    // Running the case tells which folder cannot be read.
  }
  return files;
}

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

BackendCase read_backend_case(onnx::ModelProto model, const fs::path& set) {
  BackendCase one;
  one.inputs = tensors_of(set, "input", model.graph.inputs);
  one.expected = tensors_of(set, "output", model.graph.outputs);
  take_shapes(model, one.inputs);
  one.model = std::move(model);
  return one;
}

onnx::ImportedModel import_case(const BackendCase& one, std::vector<std::string>& bound) {
  onnx::ImportOptions options;
  while (true) {
    try {
      return onnx::import_model(one.model, options);
    } catch (const onnx::Unsupported& unsupported) {
      bool more = false;
      for (const onnx::Refusal& refusal : unsupported.refusals()) {
        for (const std::string& name : refusal.bind) {
          const auto tensor = one.inputs.find(name);
          if (tensor == one.inputs.end()) continue;
          more = options.bind.emplace(name, tensor->second).second || more;
        }
      }
      if (!more) throw Refused{reasons_of(unsupported)};
      bound.clear();
      for (const auto& entry : options.bind) bound.push_back(entry.first);
    }
  }
}

std::string difference(const std::string& name, const keel::Tensor& got,
                       const keel::Tensor& expected) {
  if (got.type() != expected.type()) {
    return fmt::format("{}: expected {}, got {}", name, keel::to_string(expected.type()),
                       keel::to_string(got.type()));
  }
  const bool as_bits = got.dtype() == keel::bf16;
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    if (!keel::is_float(got.dtype())) {
      if (same_integer(got, expected, i)) continue;
      return fmt::format("{}: element {}: expected {}, got {}", name, i, integer_text(expected, i),
                         integer_text(got, i));
    }
    const double a = as_bits ? bits_of(got, i) : got.at(i);
    const double b = as_bits ? bits_of(expected, i) : expected.at(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const bool close = std::isfinite(a) && std::isfinite(b) &&
                       std::fabs(a - b) <= kAbsolute + kRelative * std::fabs(b);
    if (!close) return fmt::format("{}: element {}: expected {}, got {}", name, i, b, a);
  }
  return "";
}

}  // namespace keel_cli
