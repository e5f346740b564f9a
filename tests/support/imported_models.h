// Models that are imported out of texts and bytes of a test.
#ifndef KEEL_TESTS_SUPPORT_IMPORTED_MODELS_H
#define KEEL_TESTS_SUPPORT_IMPORTED_MODELS_H

#include <string>
#include <vector>

#include "keel/ops/exchange/graphdef/file/read_graph_def.h"
#include "keel/ops/exchange/graphdef/import.h"
#include "keel/ops/exchange/onnx/import.h"

#include "support/onnx_bytes.h"

namespace keel_test {

// A TensorFlow graph in text form, as the file "g.pbtxt".
inline keel::graphdef::GraphDef parsed_graph_def(const std::string& text) {
  return keel::graphdef::parse_graph_def(text, "g.pbtxt", keel::graphdef::FileKind::kGraph);
}
inline keel::graphdef::ImportedModel imported_graph_def(const std::string& text,
                                                        const std::vector<std::string>& outputs = {
                                                            "y"}) {
  return keel::graphdef::import_graph(parsed_graph_def(text), {.outputs = outputs});
}

// An ONNX model, as the file "m.onnx".
inline keel::onnx::ImportedModel imported_onnx(const OnnxGraph& graph,
                                               const keel::onnx::ImportOptions& options = {}) {
  return keel::onnx::import_model(keel::onnx::parse_model(onnx_model(graph), "m.onnx"), options);
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_IMPORTED_MODELS_H
