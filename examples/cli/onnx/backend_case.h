// One backend test of the ONNX project: a folder with a model, and beside it folders with inputs
// and what the model makes of them. Plain values and functions; any thread.
#ifndef KEEL_EXAMPLES_CLI_ONNX_BACKEND_CASE_H
#define KEEL_EXAMPLES_CLI_ONNX_BACKEND_CASE_H

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <keel/keel.h>
#include <keel/ops/exchange/onnx/import.h>
#include <keel/ops/exchange/onnx/read_model.h>

namespace keel_cli {

using OnnxTensors = std::map<std::string, keel::Tensor>;

// Thrown for a case that the import refuses, or a device when it compiles.
struct Refused {
  std::string reason;
};

// A model and one set of data for it, by the names of the model's values.
struct BackendCase {
  keel::onnx::ModelProto model;
  OnnxTensors inputs;
  OnnxTensors expected;
};

// Returns the folders with a model below `folder`, in the order of their names. Throws keel::Error
// where there is none.
std::vector<std::filesystem::path> backend_cases_below(const std::filesystem::path& folder);
// Returns the folders with data beside a model, likewise.
std::vector<std::filesystem::path> data_sets_of(const std::filesystem::path& folder);
// Returns the files that a case is read from: its model, those beside it that hold tensors of the
// model, and its data.
std::vector<std::string> files_of_case(const std::filesystem::path& folder);
// Throws keel::Error for damaged data, or data of dtypes that Keel has not.
BackendCase read_backend_case(keel::onnx::ModelProto model, const std::filesystem::path& set);

// Throws Refused for what is refused whatever the values of the inputs.
void require_importable(const keel::onnx::ModelProto& model);
// Imports the model. Inputs whose values shapes depend on are bound; `bound` says which. Throws
// Refused.
keel::onnx::ImportedModel import_case(const BackendCase& one, std::vector<std::string>& bound);

// Returns where `got` differs by more than ONNX's own runner allows; empty where it does not.
std::string difference(const std::string& name, const keel::Tensor& got,
                       const keel::Tensor& expected);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_ONNX_BACKEND_CASE_H
