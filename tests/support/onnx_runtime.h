// ONNX Runtime as an independent reader of what Keel exports, in a process of its own: the npm
// package onnxruntime-node, which only tests use. KEEL_ONNXRUNTIME names the folder it was
// installed in ("npm install --ignore-scripts onnxruntime-node@1.30.0" there).
#ifndef KEEL_TESTS_SUPPORT_ONNX_RUNTIME_H
#define KEEL_TESTS_SUPPORT_ONNX_RUNTIME_H

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "keel/core/tensor/tensor.h"

#include "support/temp_folder.h"

namespace keel_test {

struct OnnxResult {
  std::string error;  // empty: it ran
  std::vector<keel::Tensor> outputs;
};

class OnnxRuntime {
 public:
  static std::string missing() {
    const char* folder = std::getenv("KEEL_ONNXRUNTIME");
    if (folder == nullptr || *folder == 0) return "KEEL_ONNXRUNTIME is not set";
    return "";
  }

  // Returns where the next model is to be written: in a folder of its own.
  std::string next_model() const {
    std::filesystem::create_directories(folder_.file("case_" + std::to_string(cases_.size())));
    return folder_.file(name_of_next());
  }
  void add(const std::vector<std::pair<std::string, keel::Tensor>>& inputs,
           const std::vector<std::string>& outputs) {
    nlohmann::json one{{"model", name_of_next()}, {"inputs", nlohmann::json::array()}};
    for (const auto& [name, tensor] : inputs) {
      const std::string file =
          "case_" + std::to_string(cases_.size()) + "/in_" + std::to_string(one["inputs"].size());
      folder_.write(file, std::string(static_cast<const char*>(tensor.raw()), tensor.num_bytes()));
      one["inputs"].push_back(
          {{"name", name},
           {"dtype", js_name(tensor.dtype())},
           {"dims", std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end())},
           {"file", file}});
    }
    one["outputs"] = outputs;
    cases_.push_back(std::move(one));
  }

  // Runs all that were added, one after the other in one process, and another behind a case at
  // which the runtime crashes.
  std::vector<OnnxResult> run() const {
    folder_.write("cases.json", cases_.dump());
    std::vector<OnnxResult> results;
    while (results.size() < cases_.size()) {
      folder_.write("results", "");
      const size_t first = results.size();
      const std::string command = "NODE_PATH=\"$KEEL_ONNXRUNTIME/node_modules\" node " +
                                  std::string(KEEL_SOURCE_DIR) + "/tests/support/onnx_runtime.js " +
                                  folder_.path() + " " + std::to_string(first) + " > " +
                                  folder_.file("log") + " 2>&1";
      static_cast<void>(std::system(command.c_str()));
      std::istringstream lines(read(folder_.file("results")));
      for (std::string line; std::getline(lines, line);)
        results.push_back(result_of(nlohmann::json::parse(line), results.size()));
      if (results.size() < cases_.size())
        results.push_back({"the runtime ended: " + read(folder_.file("log")).substr(0, 500), {}});
    }
    return results;
  }

 private:
  std::string name_of_next() const {
    return "case_" + std::to_string(cases_.size()) + "/model.onnx";
  }

  static const char* js_name(keel::DType dtype) {
    switch (dtype) {
      case keel::DType::kF64:
        return "float64";
      case keel::DType::kI64:
        return "int64";
      case keel::DType::kI32:
        return "int32";
      case keel::DType::kU8:
        return "uint8";
      case keel::DType::kBool:
        return "bool";
      default:
        return "float32";
    }
  }

  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  OnnxResult result_of(const nlohmann::json& one, size_t k) const {
    OnnxResult result;
    result.error = one.value("error", "");
    for (size_t i = 0; result.error.empty() && i < one["outputs"].size(); ++i)
      result.outputs.push_back(output(one["outputs"][i], k, i));
    return result;
  }

  keel::Tensor output(const nlohmann::json& described, size_t k, size_t i) const {
    const auto dims = described["dims"].get<std::vector<int64_t>>();
    for (const keel::DType dtype :
         {keel::f64, keel::f32, keel::i64, keel::i32, keel::u8, keel::boolean}) {
      if (described["dtype"] != js_name(dtype)) continue;
      keel::Tensor tensor(dtype, keel::Shape(dims));
      const std::string bytes =
          read(folder_.file("case_" + std::to_string(k) + "/out_" + std::to_string(i)));
      if (bytes.size() == tensor.num_bytes() && !bytes.empty())
        std::memcpy(tensor.raw(), bytes.data(), bytes.size());
      return tensor;
    }
    return {};
  }

  TempFolder folder_;
  nlohmann::json cases_ = nlohmann::json::array();
};

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_ONNX_RUNTIME_H
