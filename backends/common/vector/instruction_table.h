// The tables in which each family of vector instructions lists what it has, and the search through
// one. Internal to this folder.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_INSTRUCTION_TABLE_H
#define KEEL_BACKENDS_COMMON_VECTOR_INSTRUCTION_TABLE_H

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "keel/backends/common/vector/instructions.h"

namespace keel::vector {

struct InstructionEntry {
  const char* op;
  int64_t passes;  // see instruction_passes(); the same in all entries of an op
  DType in, out;
  bool saturate_f16;
  VectorInstruction run;
};

struct InstructionTable {
  const InstructionEntry* entries;
  size_t count;

  VectorInstruction find(std::string_view op, DType in, DType out, bool saturate_f16) const {
    for (size_t i = 0; i < count; ++i) {
      const InstructionEntry& entry = entries[i];
      if (entry.in == in && entry.out == out && entry.saturate_f16 == saturate_f16 &&
          op == entry.op) {
        return entry.run;
      }
    }
    return nullptr;
  }
  int64_t passes(std::string_view op) const {
    for (size_t i = 0; i < count; ++i) {
      if (op == entries[i].op) return entries[i].passes;
    }
    return 0;
  }
};

// One per family, for the host ISA in use.
InstructionTable float_arithmetic_table();
InstructionTable float_math_table();
InstructionTable float_compare_table();
InstructionTable integer_table();
InstructionTable logic_table();
InstructionTable cast_table();

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_INSTRUCTION_TABLE_H
