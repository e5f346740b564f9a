// How much memory a file may make its reader take, and memory that is taken only as it is filled.
// For readers of untrusted files. Pure functions; any thread. Internal to data.
#ifndef KEEL_DATA_FORMATS_MEMORY_BUDGET_H
#define KEEL_DATA_FORMATS_MEMORY_BUDGET_H

#include <cstdint>
#include <string>

#include "keel/core/tensor/tensor.h"

namespace keel {

// Bytes that the tensors of a file of `file_bytes` may have: `wanted`, or, where that is 0, the read
// budget (core/base/read_budget.h), and for large files 16 times their size (MNIST's compressed
// files take 5 times theirs).
int64_t memory_budget(uint64_t file_bytes, int64_t wanted);
// What to do for a file that needs more: for ErrorInfo::fix.
std::string raise_memory_budget();

// A tensor of zeros whose pages the system gives when they are first written: what a file claims
// costs nothing until its data has come. Throws Error where the machine does not have that much.
Tensor tensor_filled_later(DType dtype, const Shape& shape);

}  // namespace keel

#endif  // KEEL_DATA_FORMATS_MEMORY_BUDGET_H
