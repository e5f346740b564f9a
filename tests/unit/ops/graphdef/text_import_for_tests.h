// Imports TensorFlow graphs in text form, for tests of whole graphs.
#ifndef KEEL_TESTS_UNIT_OPS_GRAPHDEF_TEXT_IMPORT_FOR_TESTS_H
#define KEEL_TESTS_UNIT_OPS_GRAPHDEF_TEXT_IMPORT_FOR_TESTS_H

#include <string>

#include "keel/ops/exchange/graphdef/file/read_graph_def.h"
#include "keel/ops/exchange/graphdef/import.h"

#include "support/error_of.h"

namespace keel_test {

inline keel::graphdef::ImportedModel import_text(
    const std::string& text, const keel::graphdef::ImportOptions& options = {},
    keel::graphdef::FileKind kind = keel::graphdef::FileKind::kGraph) {
  return keel::graphdef::import_graph(keel::graphdef::parse_graph_def(text, "g.pbtxt", kind),
                                      options);
}

// The text of the Error that the import throws; "" where it throws none.
inline std::string import_refusal(const std::string& text,
                                  const keel::graphdef::ImportOptions& options = {}) {
  return error_of([&] { import_text(text, options); });
}

}  // namespace keel_test

#endif  // KEEL_TESTS_UNIT_OPS_GRAPHDEF_TEXT_IMPORT_FOR_TESTS_H
