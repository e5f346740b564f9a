// The read budget: how much memory a reader of files may take beyond what the data in the file
// needs. A file that would take more is refused before the memory is allocated, so that a small
// hostile file cannot exhaust the machine. One value for the process: 256 MiB, or what
// KEEL_READ_BUDGET_MIB says, until set_read_budget. Any thread.
#ifndef KEEL_CORE_BASE_READ_BUDGET_H
#define KEEL_CORE_BASE_READ_BUDGET_H

#include <cstdint>
#include <string>

#include "keel/core/base/error.h"
#include "keel/core/base/export.h"

namespace keel {

// Returns the budget in bytes. Throws Error (kInvalidArgument) where KEEL_READ_BUDGET_MIB is no
// count of MiB.
KEEL_API uint64_t read_budget();
KEEL_API void set_read_budget(uint64_t bytes);

// Returns the most bytes that the data of a file of `file_bytes` may take: `wanted`, or, where that
// is 0, the read budget, and for large files 16 times their size (MNIST's compressed files take 5
// times theirs). Throws Error (kInvalidArgument) for a negative number.
int64_t read_limit(uint64_t file_bytes, int64_t wanted);
// Returns what to do for a file whose data needs more: for ErrorInfo::fix.
std::string raise_read_limit();

// Returns the error for a file whose `what` does not fit into `budget` bytes; it says how to raise
// the budget.
KEEL_API Error over_read_budget(const std::string& path, const std::string& what, uint64_t budget);

}  // namespace keel

#endif  // KEEL_CORE_BASE_READ_BUDGET_H
