// The memory that a step of an imported model needs for its values, states, inputs and constants
// aside. Plain functions; any thread.
#ifndef KEEL_EXAMPLES_CLI_ONNX_PLANNED_MEMORY_H
#define KEEL_EXAMPLES_CLI_ONNX_PLANNED_MEMORY_H

#include <cstddef>
#include <optional>

#include <keel/ops/exchange/onnx/import.h>

namespace keel_cli {

// Bytes as planned for npu, outputs aside. Nothing where an input's shape is not known, and where
// the device has no kernels for the model.
std::optional<size_t> planned_memory(const keel::onnx::ImportedModel& model);
// Bytes where no two values share memory. Nothing where a shape is not known.
std::optional<size_t> memory_of_all_values(const keel::onnx::ImportedModel& model);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_ONNX_PLANNED_MEMORY_H
