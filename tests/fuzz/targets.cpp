#include "fuzz/targets.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/mman.h>

#include "keel/core/base/csv.h"
#include "keel/core/base/error.h"
#include "keel/core/base/json.h"
#include "keel/core/base/read_budget.h"
#include "keel/core/tensor/npy.h"
#include "keel/data/formats/csv.h"
#include "keel/data/formats/idx.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/runtime/safetensors.h"
#include "keel/ops/exchange/graphdef/file/read_graph_def.h"
#include "keel/ops/exchange/graphdef/import.h"
#include "keel/ops/exchange/migration/python_script.h"
#include "keel/ops/exchange/onnx/import.h"

namespace keel_fuzz {
namespace {

using namespace keel;

// Large enough for any file that a fuzzer makes, and far below its own limit on memory.
constexpr uint64_t kBudget = uint64_t{32} << 20;

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

// Returns whether it reads; else it refuses by an Error.
template <class Read>
bool read_or_refuse(Read read) {
  set_read_budget(kBudget);
  try {
    read();
    return true;
  } catch (const Error& error) {
    require(error.what()[0] != '\0', "an error without a text");
    return false;
  }
}

// A regular file in memory, for readers that open one by its path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    const ssize_t written =
        descriptor_ < 0 ? -1 : ::pwrite(descriptor_, bytes.data(), bytes.size(), 0);
    require(written == static_cast<ssize_t>(bytes.size()), "no file in memory");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

void require_same_when_printed(const Graph& graph) {
  const std::string text = print_graph(graph);
  std::string again;
  try {
    again = print_graph(*parse_graph(text, builtin_ops(), {.max_state_bytes = 2 * kBudget}));
  } catch (const Error& error) {
    throw std::logic_error(std::string("a printed graph does not parse: ") + error.what());
  }
  require(again == text, "a graph that changes when it is printed");
}

}  // namespace

// What was read is written and read again.
bool fuzz_json(std::string_view bytes) {
  return read_or_refuse([&] {
    const Json value = parse_json(bytes, "fuzz");
    const std::string text = write_json(value);
    require(write_json(parse_json(text, "again")) == text, "JSON that changes when it is read");
  });
}

bool fuzz_graph(std::string_view bytes) {
  return read_or_refuse([&] {
    const auto graph = parse_graph(bytes, builtin_ops(), {.max_state_bytes = kBudget});
    require_same_when_printed(*graph);
    to_dot(*graph);
  });
}

bool fuzz_safetensors(std::string_view bytes) {
  return read_or_refuse([&] {
    const Safetensors file = parse_safetensors(bytes, "fuzz");
    size_t data = 0;
    for (const auto& [name, tensor] : file.tensors) data += tensor.num_bytes();
    require(data <= bytes.size(), "more data than the file has");
  });
}

bool fuzz_npy(std::string_view bytes) {
  return read_or_refuse([&] {
    const Tensor tensor = parse_npy(bytes, "fuzz");
    require(tensor.num_bytes() <= bytes.size(), "more data than the file has");
    const std::string written = format_npy(tensor);
    require(format_npy(parse_npy(written, "again")) == written, "an array that changes");
  });
}

// The first byte is the rank that is asked for.
bool fuzz_idx(std::string_view bytes) {
  if (bytes.empty()) return false;
  const MemoryFile file(bytes.substr(1));
  const size_t rank = static_cast<unsigned char>(bytes[0]) % 5;
  read_or_refuse([&] { look_at_idx(file.path()); });
  return read_or_refuse([&] { read_idx(file.path(), rank); });
}

bool fuzz_csv(std::string_view bytes) {
  read_or_refuse([&] { parse_csv(bytes, "fuzz"); });
  const MemoryFile file(bytes);
  bool is_read = false;
  for (const bool header : {true, false}) {
    const CsvOptions options{.header = header};
    std::vector<std::string> columns;
    is_read |= read_or_refuse([&] {
      columns = csv_columns(file.path(), options);
      read_csv(file.path(), {{.name = "all", .dtype = f32, .columns = columns}}, options);
    });
    if (columns.empty()) continue;
    read_or_refuse([&] {
      read_csv(file.path(),
               {{.name = "first", .dtype = u8, .columns = {columns[0]}},
                {.name = "rest", .dtype = f64, .finite = true}},
               options);
    });
  }
  return is_read;
}

namespace {

void check_imported(const onnx::ImportedModel& imported) {
  size_t data = 0;
  for (const auto& [name, tensor] : imported.weights) data += tensor.num_bytes();
  require(data <= kBudget, "more weights than the read budget");
  require_same_when_printed(*imported.graph);
}

}  // namespace

bool fuzz_onnx(std::string_view bytes) {
  return read_or_refuse([&] {
    // Beside this file there is none that data of tensors could be read from.
    const onnx::ModelProto model = onnx::parse_model(std::string(bytes), "/nowhere/fuzz");
    check_imported(onnx::import_model(model, {.weights_in_graph = false}));
  });
}

// As a graph, and as one with more around it; what trains is named "train" where there is such.
bool fuzz_graphdef(std::string_view bytes) {
  bool is_read = false;
  for (const auto kind : {graphdef::FileKind::kGraph, graphdef::FileKind::kMetaGraph}) {
    for (const char* output : {"", "train"}) {
      is_read |= read_or_refuse([&] {
        graphdef::ImportOptions options{.control_flow = graphdef::ControlFlow::kConvert,
                                        .weights_in_graph = false};
        if (*output != '\0') options.outputs = {output};
        const auto graph = graphdef::parse_graph_def(std::string(bytes), "fuzz", kind);
        check_imported(graphdef::import_graph(graph, options));
      });
    }
  }
  return is_read;
}

bool fuzz_python(std::string_view bytes) {
  static const migration::ApiTable table = migration::ApiTable::builtin();
  return read_or_refuse([&] {
    uint32_t last = 0;
    migration::scan_python(
        bytes, "fuzz.py", table, [](std::string_view) { return false; },
        [&](uint32_t line, const migration::Finding& finding) {
          require(line > 0 && !finding.name.empty(), "a use without a line or a name");
          last = std::max(last, line);
        });
    const auto breaks =
        std::count_if(bytes.begin(), bytes.end(), [](char c) { return c == '\n' || c == '\r'; });
    require(last <= breaks + 1, "a use behind the last line");
  });
}

}  // namespace keel_fuzz
