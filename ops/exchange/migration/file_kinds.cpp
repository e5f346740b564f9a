#include "keel/ops/exchange/migration/file_kinds.h"

#include "keel/core/base/file.h"
#include "keel/core/base/read_budget.h"

namespace keel::migration {
namespace {

struct FileKind {
  std::string_view extension;
  FileReader read;
};

constexpr FileKind kKinds[] = {{".py", &read_script},
                               {".onnx", &read_onnx_model},
                               {".pb", &read_graph_def},
                               {".pbtxt", &read_graph_def},
                               {".meta", &read_graph_def}};

}  // namespace

FileReader reader_of(std::string_view extension) {
  for (const FileKind& kind : kKinds) {
    if (kind.extension == extension) return kind.read;
  }
  return nullptr;
}

void read_script(const std::string& path, const ScanContext& context, ReportBuilder& report) {
  const std::string text = read_file(path, read_budget());
  scan_python(text, path, context.table, context.is_own,
              [&](uint32_t line, const Finding& finding) { report.add(line, {}, finding); });
}

}  // namespace keel::migration
